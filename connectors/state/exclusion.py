"""Excluding: a stopped daemon learns again what it has learned, without a range of events.

The model of a daemon continues from the newest checkpoint from before the range, or from nothing; with
``[snapshots]`` the models of the partitions start from nothing. Checkpoints and snapshots keep the range, and
no session processes its events. What was predicted stays: the positions up to which predictions are committed
do not change, and events before them are learned silently.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import NamedTuple

from connectors.contract.errors import POSITION, USAGE, Failure
from connectors.contract.records import Committed, Positions, read_bound
from connectors.files.sink import keep_written
from connectors.settings.connector import connector_of
from connectors.settings.tables import Settings
from connectors.state.checkpoint import Checkpoint, Excluded, Progress
from connectors.state.disk import CheckpointStore
from connectors.state.edits import open_snapshots
from connectors.state.positions import Owner, encode_metadata, metadata_of
from connectors.state.topic import owner_of, snapshot_messages
from connectors.state.training import first_model
from streamk.learners.loading import MODEL


class ExcludedRow(NamedTuple):
    """A partition: the range that is excluded, None if it has none of it, and where learning continues."""

    partition: str
    excluded: tuple[int, int] | None
    position: int


def exclude(
    settings: Settings, bounds: str, numbers: Sequence[int] | None, dry_run: bool
) -> list[ExcludedRow]:
    """Exclude events from what a stopped daemon, or its group, has learned and will learn.

    Parameters
    ----------
    settings
        Of the daemon.
    bounds
        ``FROM..TO``, each an offset or a time in ISO 8601; the event at TO is learned.
    numbers
        Of the partitions; all of them if None. Offsets need them where a topic has several.
    dry_run
        Whether to change nothing.

    Raises
    ------
    Failure
        If the bounds are none, or nothing is in them; if others have learned a part of the source, or events
        to learn again are no longer there; or if a daemon of the group is running.
    """
    if settings.learner.follow is not None:
        raise Failure(
            USAGE, "learner.follow: these settings learn nothing; exclude the events where they learn"
        )
    store = CheckpointStore(settings.checkpoints.directory, settings.checkpoints.keep)
    with store.locked():
        if settings.snapshots is not None:
            return _in_snapshots(settings, settings.snapshots.topic, store, bounds, numbers, dry_run)
        with closing(connector_of(settings.source.kind).open_positions(settings, None)) as positions:
            return _in_checkpoint(settings, store, positions, bounds, numbers, dry_run)


def _ranges(
    settings: Settings, positions: Positions, bounds: str, numbers: Sequence[int] | None
) -> dict[str, tuple[int, int]]:
    """Return the first and the last offset of each partition to exclude, the last one being learned."""
    events = [name for name in positions.partitions() if settings.events_of(name) is None]
    ends = tuple(f"-{number}" for number in numbers or ())
    chosen = [name for name in events if numbers is None or name.endswith(ends)]
    start, dots, end = bounds.partition("..")
    try:
        if not dots:
            raise ValueError
        first, last = read_bound(start), read_bound(end)
    except ValueError:
        raise Failure(
            USAGE, f"--exclude {bounds}: give FROM..TO, each an offset, or a time as 2026-11-21T08:00"
        ) from None
    if len(chosen) > 1 and (isinstance(first, int) or isinstance(last, int)):
        raise Failure(
            USAGE, f"--exclude {bounds}: offsets are those of one partition; name it with --partition"
        )
    ranges = {}
    for name in chosen:
        low, high = positions.range(name)
        places = [at if isinstance(at, int) else positions.at(name, at) for at in (first, last)]
        since, until = max(places[0], low), min(places[1], high)
        if since < until:
            ranges[name] = since, until
    if not ranges:
        raise Failure(USAGE, f"--exclude {bounds}: no event is there")
    return ranges


def _with(excluded: Excluded, ranges: Mapping[str, tuple[int, int]]) -> Excluded:
    """Return what is excluded together."""
    return {
        name: sorted({*map(tuple, excluded.get(name, ())), *([ranges[name]] if name in ranges else [])})
        for name in {**excluded, **ranges}
    }


def _in_checkpoint(
    settings: Settings,
    store: CheckpointStore,
    positions: Positions,
    bounds: str,
    numbers: Sequence[int] | None,
    dry_run: bool,
) -> list[ExcludedRow]:
    ranges = _ranges(settings, positions, bounds, numbers)
    newest = store.newest(aside=False)
    if newest is None:
        raise Failure(
            USAGE, f"checkpoints.directory: {store.directory} holds no checkpoint; nothing is learned yet"
        )
    excluded = _with(newest.excluded, ranges)
    before = _before(store, newest, excluded) or _blank(settings, newest, positions, store.model)
    rows = [ExcludedRow(name, ranges.get(name), p.position) for name, p in before.partitions.items()]
    there = set(positions.partitions())  # without those of topics that are not read any more
    saved = {name: progress.position for name, progress in before.partitions.items() if name in there}
    for name, position in saved.items():
        _require_alone(positions, name, store.model, position)
    if dry_run:
        return rows
    for mark in filter(None, newest.sink_marks.values()):
        keep_written(mark, {name: progress.position for name, progress in newest.partitions.items()})
    newest.parts, newest.partitions, newest.excluded = before.parts, before.partitions, excluded
    newest.source_mark = positions.mark(saved)
    store.write(newest)
    moved = {name: moved_back(positions, name, store.model, at) for name, at in saved.items()}
    positions.commit({name: committed for name, committed in moved.items() if committed is not None})
    return rows


def _before(store: CheckpointStore, newest: Checkpoint, excluded: Excluded) -> Checkpoint | None:
    """Return the newest checkpoint that has learned nothing of what is excluded, None if there is none."""
    for path in reversed(store.paths()):
        try:
            checkpoint = Checkpoint.read(path)
        except ValueError:
            continue
        places = checkpoint.partitions
        learned = any(
            name not in places or places[name].position > span[0]
            for name, spans in excluded.items()
            for span in spans
            if span not in checkpoint.excluded.get(name, ())
        )
        if checkpoint.source == newest.source and not learned:
            return checkpoint
    return None


def _blank(settings: Settings, newest: Checkpoint, positions: Positions, owner: str) -> Checkpoint:
    """Return a checkpoint that has learned nothing, at the places where the model began to read."""
    partitions = {name: _start(positions, name, owner) for name in positions.partitions()}
    parts = {MODEL: first_model(settings)}
    return Checkpoint(newest.source, parts, partitions)


def _start(positions: Positions, name: str, owner: str) -> Progress:
    """Return where a model began to read a partition.

    Raises
    ------
    Failure
        If the events from there on are no longer there.
    """
    first, _ = positions.range(name)
    owners = [each for each in metadata_of(positions.committed(name)).owners if each.model == owner]
    start = owners[-1].since if owners else first
    if start < first:
        raise Failure(
            POSITION,
            f"{name}: the events from {start} to {first - 1} are no longer there, and no checkpoint from "
            "before what is excluded is; put one back",
        )
    return Progress(start, positions.identity(name)[0])


def _require_alone(positions: Positions, name: str, owner: str, start: int) -> None:
    """Raise Failure if another model has learned events after the start."""
    others = metadata_of(positions.committed(name)).owners
    if any(each.model != owner and each.until > start for each in others):
        raise Failure(
            USAGE,
            f"{name}: other daemons of the group have learned a part of it; only one daemon alone, "
            "or daemons with [snapshots], can learn again without a range",
        )


def moved_back(positions: Positions, name: str, owner: str, start: int) -> Committed | None:
    """Return what is committed, from where on it is learned again silently; None without a position."""
    committed = positions.committed(name)
    if committed is None:
        return None
    metadata = metadata_of(committed)
    owners = [each for each in metadata.owners if each.model != owner]
    since = [each.since for each in metadata.owners if each.model == owner]
    owners.append(Owner(owner, min([*since[-1:], start]), start))
    return Committed(committed.position, encode_metadata(metadata._replace(owners=owners)))


def _in_snapshots(
    settings: Settings,
    topic: str,
    store: CheckpointStore,
    bounds: str,
    numbers: Sequence[int] | None,
    dry_run: bool,
) -> list[ExcludedRow]:
    with open_snapshots(settings, topic, store.model, None) as (positions, writer, reader):
        ranges = _ranges(settings, positions, bounds, numbers)
        snapshots, owner = reader.settled(list(ranges)), owner_of(topic)
        blank = settings.learner.build().to_bytes()
        messages, rows, moved = [], [], dict[str, Committed]()
        for name in ranges:
            read = {
                key: _start(positions, key, owner)
                for key in positions.partitions()
                if name in (key, settings.events_of(key))
            }
            rows.append(ExcludedRow(name, ranges[name], read[name].position))
            snapshot = snapshots.get(name)
            if snapshot is None:
                raise Failure(USAGE, f"{name}: {topic} holds no snapshot of it; nothing is learned yet")
            snapshot.parts, snapshot.partitions = {MODEL: blank}, read
            snapshot.excluded = _with(snapshot.excluded, {name: ranges[name]})
            messages += snapshot_messages(name, snapshot, reader.partition_count, reader.chunks[name])
            commits = {
                key: moved_back(positions, key, owner, progress.position) for key, progress in read.items()
            }
            moved |= {key: committed for key, committed in commits.items() if committed is not None}
        if not dry_run:
            writer.write({reader.topic: messages}, positions.offsets(moved), positions.group)
        return rows
