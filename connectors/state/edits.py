"""Edits of the state of a stopped daemon: positions (reset), settings (adopt), labels, the model (promote).

Each edit changes the newest checkpoint, or the newest snapshot of every partition, together with the group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import NamedTuple

from connectors.contract.errors import CHECKPOINT, USAGE, Failure
from connectors.contract.records import Committed, Positions, read_bound
from connectors.contract.sections import BY_CHECKPOINT, BY_GROUP, EARLIEST, LATEST
from connectors.events.learners import labels_of
from connectors.events.values import label_name
from connectors.files.sink import forget_partitions
from connectors.kafka.client import member_name
from connectors.kafka.group import GroupPositions
from connectors.kafka.producer import TransactionalWriter
from connectors.kafka.sections import TopicSourceSection
from connectors.settings.connector import by_connector, connector_of
from connectors.settings.tables import Settings
from connectors.state.aside import waiting_on_disk
from connectors.state.checkpoint import (
    CHALLENGER,
    COMPARED,
    RECENT,
    REFUSED,
    WAITING,
    Adoption,
    Checkpoint,
    Progress,
    restored,
)
from connectors.state.disk import CheckpointStore
from connectors.state.positions import Owner, encode_metadata, metadata_of
from connectors.state.topic import KEY, SnapshotReader, owner_of, snapshot_messages
from connectors.state.training import Change, changes, digest_of, first_model, training_of
from streamk.learners.learner import Learner
from streamk.learners.loading import MODEL

Edit = Callable[[Checkpoint, Learner], None]
Preparation = Callable[[Checkpoint, str], None]


class ResetRow(NamedTuple):
    """A partition: what the model has read, what the group has committed, and where it continues."""

    partition: str
    saved: int | None
    committed: int | None
    position: int


class StoredSnapshots(NamedTuple):
    """The positions of a stopped group, a transaction that may set them, and its snapshots."""

    positions: GroupPositions
    writer: TransactionalWriter
    reader: SnapshotReader


@contextmanager
def open_snapshots(
    settings: Settings, topic: str, model: str, numbers: Sequence[int] | None
) -> Iterator[StoredSnapshots]:
    """Open what a group without members has stored, as the daemon of a model."""
    source = TopicSourceSection.of(settings.source)
    with (
        closing(GroupPositions(source, settings.kafka, numbers, _labels_of(settings))) as positions,
        # aborts the transaction that the daemon of this directory may have left open
        closing(TransactionalWriter(settings.kafka, member_name(model), KEY)) as writer,
        closing(SnapshotReader(topic, settings.kafka)) as reader,
    ):
        yield StoredSnapshots(positions, writer, reader)


def _labels_of(settings: Settings) -> str:
    return "" if settings.labels is None else settings.labels.place


def reset(settings: Settings, to: str, numbers: Sequence[int] | None, dry_run: bool) -> list[ResetRow]:
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
        If there is no such position, or the daemon or another member of its group is running.
    """
    store = CheckpointStore(settings.checkpoints.directory, settings.checkpoints.keep)
    with store.locked():
        if settings.snapshots is not None:
            with open_snapshots(settings, settings.snapshots.topic, store.model, numbers) as stored:
                return _reset_snapshots(settings, stored, to, dry_run)
        checkpoint = store.newest(aside=not dry_run)
        with closing(connector_of(settings.source.kind).open_positions(settings, numbers)) as positions:
            saved = {} if checkpoint is None else checkpoint.partitions
            rows = _rows(settings, to, saved, positions)
            if not dry_run:
                _reset_checkpoint(rows, checkpoint, store, positions)
                if not settings.source.start_policy.group:  # sinks store how far outputs are written
                    for connector, sections in by_connector(settings.sinks):
                        connector.restart_outputs(sections.values(), settings, store.model, rows[0].position)
    return rows


def _rows(settings: Settings, to: str, saved: Mapping[str, Progress], positions: Positions) -> list[ResetRow]:
    """Return where partitions continue; labels have no offset in common with events, and start again."""
    places = dict.fromkeys(positions.partitions(), to)
    places |= {name: EARLIEST for name in places if to.isdigit() and settings.events_of(name) is not None}
    return [_row(name, place, saved.get(name), positions) for name, place in places.items()]


def _reset_snapshots(settings: Settings, stored: StoredSnapshots, to: str, dry_run: bool) -> list[ResetRow]:
    """Set positions in the newest snapshots and in the group, in one transaction."""
    positions, writer, reader = stored
    events = [name for name in positions.partitions() if settings.events_of(name) is None]
    snapshots = reader.settled(events)
    saved = {name: progress for each in snapshots.values() for name, progress in each.partitions.items()}
    rows = _rows(settings, to, saved, positions)
    if dry_run:
        return rows
    messages, committed = [], {}
    for row in rows:
        name, snapshot = row.partition, snapshots.get(settings.events_of(row.partition) or row.partition)
        committed[name] = _reset_commit(row, positions, None if snapshot is None else owner_of(reader.topic))
        if snapshot is not None:
            _reset_progress(row, snapshot, positions)
    for name, snapshot in snapshots.items():
        messages += snapshot_messages(name, snapshot, reader.partition_count, reader.chunks[name])
    writer.write({reader.topic: messages}, positions.offsets(committed), positions.group)
    return rows


def _reset_checkpoint(
    rows: Sequence[ResetRow], checkpoint: Checkpoint | None, store: CheckpointStore, positions: Positions
) -> None:
    """Write the checkpoint, then commit: until the commit, the position is refused, not guessed."""
    if checkpoint is not None:
        for row in rows:
            _reset_progress(row, checkpoint, positions)
        for mark in filter(None, checkpoint.sink_marks.values()):
            forget_partitions(mark, [row.partition for row in rows])
        saved = {name: progress.position for name, progress in checkpoint.partitions.items()}
        checkpoint.source_mark = positions.mark(saved)
        store.write(checkpoint)
    owner = None if checkpoint is None else store.model
    positions.commit({row.partition: _reset_commit(row, positions, owner) for row in rows})


def _reset_progress(row: ResetRow, checkpoint: Checkpoint, positions: Positions) -> None:
    """Set how far a checkpoint has read a partition; no event waits, or counts as repeated, from then on."""
    progress = checkpoint.partitions.setdefault(row.partition, Progress(row.position))
    progress.position, progress.identity = row.position, positions.identity(row.partition)[0]
    checkpoint.parts.pop(WAITING, None)
    checkpoint.parts.pop(RECENT, None)


def _reset_commit(row: ResetRow, positions: Positions, owner: str | None) -> Committed:
    """Return what to commit: a position, its owner, and the models that learned the partition before."""
    if owner is None:
        return Committed(row.position)
    metadata = metadata_of(positions.committed(row.partition))
    owners = [other for other in metadata.owners if other.model != owner]
    owners.append(Owner(owner, row.position, row.position))
    identity, count = positions.identity(row.partition)
    count = metadata.partition_count or count
    metadata = metadata._replace(owners=owners, identity=identity, partition_count=count)
    return Committed(row.position, encode_metadata(metadata))


def _row(name: str, to: str, progress: Progress | None, positions: Positions) -> ResetRow:
    committed = positions.committed(name)
    saved = None if progress is None else progress.position
    by_group = None if committed is None else committed.position
    first, end = positions.range(name)
    position: int | None
    if to in (EARLIEST, LATEST):
        position = first if to == EARLIEST else end
    elif to in (BY_GROUP, BY_CHECKPOINT):
        position = by_group if to == BY_GROUP else saved
        if position is None:
            missing = (
                "the group has committed nothing" if to == BY_GROUP else "the checkpoint has no position"
            )
            raise Failure(USAGE, f"--to {to}: {missing} for {name}")
    else:
        bound = _bound(to)
        position = bound if isinstance(bound, int) else positions.at(name, bound)
    if not first <= position <= end:
        raise Failure(USAGE, f"--to {to}: {name} holds {first} to {end}, and not {position}")
    return ResetRow(name, saved, by_group, position)


def _bound(text: str) -> int | datetime:
    try:
        bound = read_bound(text)
    except ValueError:
        raise Failure(
            USAGE,
            f"--to {text}: give {EARLIEST}, {LATEST}, {BY_GROUP}, {BY_CHECKPOINT}, an offset, or a time, as "
            "2026-11-21T08:00",
        ) from None
    if isinstance(bound, datetime) and bound > datetime.now(UTC):
        raise Failure(USAGE, f"--to {text}: this time is in the future; give {LATEST} for the end")
    return bound


def edit(
    settings: Settings,
    change: Edit,
    digest: str | None = None,
    dry_run: bool = False,
    prepare: Preparation | None = None,
) -> None:
    """Apply a change to every stored model, and write all of them or none.

    Parameters
    ----------
    settings
        Of the daemon, which is not running.
    change
        Called with each checkpoint or snapshot and the model in it.
    digest
        For the offset metadata of the group (:mod:`connectors.state.training`); None keeps it.
    dry_run
        Whether to write nothing.
    prepare
        Called with each checkpoint or snapshot, and what errors call it, before its model is read.

    Raises
    ------
    Failure
        If a model is of another learner, or a daemon of the group is running.
    """
    store = CheckpointStore(settings.checkpoints.directory, settings.checkpoints.keep)
    with store.locked():
        if settings.snapshots is not None:
            with open_snapshots(settings, settings.snapshots.topic, store.model, None) as stored:
                _edit_snapshots(settings, stored, change, digest, dry_run, prepare)
            return
        checkpoint = store.newest(aside=not dry_run)
        if checkpoint is not None:
            where = f"checkpoint {checkpoint.number} in {store.directory}"
            _apply(change, checkpoint, settings, where, prepare)
            if not dry_run:
                store.write(checkpoint)
        if settings.source.start_policy.group and digest is not None:
            with closing(connector_of(settings.source.kind).open_positions(settings, None)) as positions:
                if not dry_run:
                    positions.commit(_recommitted(positions, digest))


def _edit_snapshots(
    settings: Settings,
    stored: StoredSnapshots,
    change: Edit,
    digest: str | None,
    dry_run: bool,
    prepare: Preparation | None,
) -> None:
    positions, writer, reader = stored
    messages = []
    events = [name for name in positions.partitions() if settings.events_of(name) is None]
    for name, snapshot in reader.settled(events).items():
        _apply(change, snapshot, settings, f"the snapshot of {name}", prepare)
        messages += snapshot_messages(name, snapshot, reader.partition_count, reader.chunks[name])
    if not dry_run:
        committed = positions.offsets(_recommitted(positions, digest))
        writer.write({reader.topic: messages}, committed, positions.group)


def _apply(
    change: Edit, checkpoint: Checkpoint, settings: Settings, where: str, prepare: Preparation | None
) -> None:
    if prepare is not None:
        prepare(checkpoint, where)
    try:
        learner = restored(checkpoint.parts, settings.learner.build())
    except ValueError as error:
        raise Failure(
            CHECKPOINT,
            f"{where} {error}; a changed learner cannot continue from this model. Give the settings a "
            "checkpoints.directory and a source.group of their own",
        ) from None
    change(checkpoint, learner)


def _recommitted(positions: Positions, digest: str | None) -> dict[str, Committed]:
    """Return what daemons of the group have committed, with another digest unless it is None."""
    recommitted = {}
    for name in positions.partitions():
        committed = positions.committed(name)
        if committed is not None and (metadata := metadata_of(committed)).owners:
            metadata = metadata if digest is None else metadata._replace(digest=digest)
            recommitted[name] = Committed(committed.position, encode_metadata(metadata))
    return recommitted


def adopt(settings: Settings, dry_run: bool) -> list[Change]:
    """Let the model of these settings continue with them, and return what has changed.

    The newest checkpoint, or the newest snapshot of every partition, records the change and when it was
    adopted; the offset metadata of the group gets the new digest.

    Raises
    ------
    Failure
        If the learner itself has changed, or a daemon of the group is running.
    """
    by_key = dict[str, Change]()
    edit(settings, _adoption(settings, by_key), digest_of(training_of(settings)), dry_run)
    return list(by_key.values())


def _adoption(settings: Settings, by_key: dict[str, Change]) -> Edit:
    """Return the edit that records settings with a model, and adds what has changed to ``by_key``."""
    training = training_of(settings)

    def record(checkpoint: Checkpoint, learner: Learner) -> None:
        changed = [] if checkpoint.training is None else changes(checkpoint.training, training)
        by_key.update({change.key: change for change in changed})
        checkpoint.training = training
        checkpoint.parts.pop(REFUSED, None)  # which other settings may accept
        if changed:
            when = datetime.now(UTC).isoformat(timespec="seconds")
            checkpoint.adopted.append(Adoption(when=when, changes=[list(change) for change in changed]))

    return record


def promote(settings: Settings, name: str) -> None:
    """Put a challenger in the place of the model, whose learner the settings name already.

    Other challengers stay, and are compared with the new model from then on.

    Raises
    ------
    Failure
        If there is no such challenger, its learner is not that of the settings, or a daemon is running.
    """
    place, seen = CHALLENGER + name, 0

    def put_in_place(checkpoint: Checkpoint, where: str) -> None:
        nonlocal seen
        parts, seen = checkpoint.parts, seen + 1
        if place not in parts:
            there = sorted(key.removeprefix(CHALLENGER) for key in parts if key.startswith(CHALLENGER))
            others = ", ".join(repr(other) for other in there if not other.endswith(COMPARED)) or "none"
            raise Failure(USAGE, f"{where} has no challenger {name!r}; its challengers are {others}")
        try:
            restored({MODEL: parts[place]}, settings.learner.build())
        except ValueError as error:
            raise Failure(
                USAGE,
                f"the challenger {name!r} {error}; set learner.name and learner.parameters to those of the "
                "challenger, take it out of [[challengers]], and run this again",
            ) from None
        checkpoint.parts = {key: parts[key] for key in parts if key != REFUSED and not key.endswith(COMPARED)}
        checkpoint.parts[MODEL] = checkpoint.parts.pop(place)

    if count := waiting_on_disk(settings.checkpoints.directory):
        raise Failure(
            USAGE,
            f"{count:,} events wait for labels on disk, as the model and not the challenger predicted them; "
            "let the daemon run until fewer wait, or set labels.wait",
        )
    digest = digest_of(training_of(settings))
    edit(settings, _adoption(settings, {}), digest, prepare=put_in_place)
    if not seen:
        raise Failure(USAGE, f"there is no checkpoint yet in {settings.checkpoints.directory}")


def forget_label(settings: Settings, label: str) -> int:
    """Let models whose only label this is start again, and return how many events they had learned.

    Raises
    ------
    Failure
        If no model has the label, a model has others besides, or a daemon of the group is running.
    """
    learned: list[int] = []
    seen: set[str] = set()

    def start_again(checkpoint: Checkpoint, learner: Learner) -> None:
        labels = list(map(label_name, labels_of(learner) or ()))
        seen.update(labels)
        if label in labels:
            if len(labels) > 1:
                others = ", ".join(repr(other) for other in labels if other != label)
                raise Failure(
                    USAGE,
                    f"{label!r}: the model has learned {others}, too, and forgets no label alone. `streamk "
                    "checkpoints rollback` returns to a checkpoint without it",
                )
            learned.append(learner.events)
            checkpoint.parts = {MODEL: first_model(settings)}

    edit(settings, start_again)
    if not learned:
        there = ", ".join(map(repr, sorted(seen))) or "none"
        raise Failure(USAGE, f"{label!r}: no model has learned this label; the labels are {there}")
    return sum(learned)
