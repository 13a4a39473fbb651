"""Setting positions by hand: of the newest checkpoint or snapshots and of the group, together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, NamedTuple

from connectors.connector import by_connector, connector_of
from connectors.daemon import ownership
from connectors.daemon.checkpoint import Checkpoint, Progress
from connectors.daemon.ownership import Note, Owner
from connectors.daemon.partition_bound import owner_of
from connectors.daemon.store import Store
from connectors.errors import USAGE, Failure
from connectors.files.sink import forget
from connectors.kafka.sections import TopicSource
from connectors.sections import EARLIEST, LATEST
from connectors.settings import Settings
from connectors.stream import Committed, read_bound

GROUP, CHECKPOINT = "group", "checkpoint"


class Row(NamedTuple):
    """A partition: what the model has read, what the group has committed, and where it goes on."""

    partition: str
    saved: int | None
    committed: int | None
    position: int


def reset(settings: Settings, to: str, numbers: Sequence[int] | None, dry_run: bool) -> list[Row]:
    """Set positions, and return them.

    Parameters
    ----------
    settings
        Of the daemon, which is not running.
    to
        ``"earliest"``, ``"latest"``, ``"group"``, ``"checkpoint"``, an offset, or a time in ISO 8601.
    numbers
        Of the partitions; all of them if None.
    dry_run
        Whether to set nothing.

    Raises
    ------
    Failure
        If a position cannot be had, or the daemon or another member of its group is running.
    """
    store = Store(settings.checkpoints.directory, settings.checkpoints.keep)
    with store.locked():
        if settings.snapshots is not None:
            return _of_snapshots(settings, store, to, numbers, dry_run)
        paths = store.paths()
        checkpoint = Checkpoint.read(paths[-1]) if paths else None
        with connector_of(settings.source.kind).open_positions(settings, numbers) as places:
            rows = [
                _row(name, to, None if checkpoint is None else checkpoint.partitions.get(name), places)
                for name in places.partitions()
            ]
            if not dry_run:
                _set(rows, checkpoint, store, places)
                if not settings.source.start_policy.group:  # sinks store how far outputs are written
                    for connector, sections in by_connector(settings.sinks):
                        connector.restart_outputs(sections.values(), settings, store.model, rows[0].position)
    return rows


def _of_snapshots(
    settings: Settings, store: Store, to: str, numbers: Sequence[int] | None, dry_run: bool
) -> list[Row]:
    """Set positions in the newest snapshots and in the group, in one transaction."""
    from connectors.kafka.snapshots import snapshot_messages

    with open_snapshots(settings, store, numbers) as (places, transactions, reader):
        topic = reader.topic
        found = reader.settled(places.partitions())
        saved = {name: snapshot.partitions[name] for name, snapshot in found.items()}
        rows = [_row(name, to, saved.get(name), places) for name in places.partitions()]
        if dry_run:
            return rows
        messages, positions = [], {}
        for row in rows:
            name, owner = row.partition, owner_of(topic) if row.partition in found else None
            positions[name] = _committed(row, places, owner)
            if owner is not None:
                saved[name].position, saved[name].identity = row.position, places.identity
                messages += snapshot_messages(name, found[name], reader.siblings, reader.chunks[name])
        transactions.write(topic, messages, places.offsets(positions), places.group)
    return rows


@contextmanager
def open_snapshots(
    settings: Settings, store: Store, numbers: Sequence[int] | None
) -> Iterator[tuple[Any, Any, Any]]:
    """Open the positions of a stopped group, a transaction that may set them, and its snapshots."""
    from connectors.kafka.client import member_name
    from connectors.kafka.positions import GroupPositions
    from connectors.kafka.snapshots import KEY, SnapshotReader
    from connectors.kafka.transactions import Transactions

    source, topic = settings.source, settings.snapshots.topic if settings.snapshots else ""
    assert isinstance(source, TopicSource)
    with (
        GroupPositions(source, settings.kafka, numbers) as places,
        # aborts the transaction that the daemon of this directory may have left open
        Transactions(settings.kafka, member_name(store.model), KEY) as transactions,
        SnapshotReader(topic, settings.kafka) as reader,
    ):
        yield places, transactions, reader


def _committed(row: Row, places: Any, owner: str | None) -> Committed:
    """Return what to tell the group: a position, whose it is, and who learned the partition before."""
    before = places.committed(row.partition)
    note = Note([]) if before is None else ownership.read(before.note)
    if owner is None:
        return Committed(row.position, "")
    owners = [other for other in note.owners if other.model != owner]
    owners.append(Owner(owner, row.position, row.position))
    kept = Note(owners, places.identity, note.siblings or places.siblings, note.digest)
    return Committed(row.position, ownership.write(kept))


def _row(name: str, to: str, progress: Progress | None, places: Any) -> Row:
    committed = places.committed(name)
    saved = None if progress is None else progress.position
    told = None if committed is None else committed.position
    first, end = places.range(name)
    position: int | None
    if to in (EARLIEST, LATEST):
        position = first if to == EARLIEST else end
    elif to in (GROUP, CHECKPOINT):
        position = told if to == GROUP else saved
        if position is None:
            missing = "the group has committed nothing" if to == GROUP else "the checkpoint has no position"
            raise Failure(USAGE, f"--to {to}: {missing} for {name}")
    else:
        bound = _bound(to)
        position = bound if isinstance(bound, int) else places.at(name, bound)
    if not first <= position <= end:
        raise Failure(USAGE, f"--to {to}: {name} holds {first} to {end}, and not {position}")
    return Row(name, saved, told, position)


def _bound(text: str) -> int | datetime:
    try:
        bound = read_bound(text)
    except ValueError:
        raise Failure(
            USAGE,
            f"--to {text}: give {EARLIEST}, {LATEST}, {GROUP}, {CHECKPOINT}, an offset, or a time, as "
            "2026-11-21T08:00",
        ) from None
    if isinstance(bound, datetime) and bound > datetime.now(UTC):
        raise Failure(USAGE, f"--to {text}: this time is in the future; give {LATEST} for the end")
    return bound


def _set(rows: Sequence[Row], checkpoint: Checkpoint | None, store: Store, places: Any) -> None:
    """Write the checkpoint, then tell the group: until it knows, the position is refused and not guessed."""
    if checkpoint is not None:
        for row in rows:
            progress = checkpoint.partitions.setdefault(row.partition, Progress(row.position))
            progress.position, progress.identity = row.position, places.identity
        for mark in filter(None, checkpoint.sink_marks.values()):
            forget(mark, [row.partition for row in rows])
        positions = {name: progress.position for name, progress in checkpoint.partitions.items()}
        checkpoint.source_mark = places.mark(positions)
        store.write(checkpoint)
    owner = None if checkpoint is None else store.model
    places.commit({row.partition: _committed(row, places, owner) for row in rows})
