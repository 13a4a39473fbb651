"""Savepoints of partition models: the newest snapshot of every partition, kept in one file, to go back to.

The file is a checkpoint (:mod:`connectors.state.checkpoint`) whose parts are the snapshots, by partition. A
rollback is one transaction of old snapshots and the positions up to which they had learned. Predictions stay,
and the events since are learned again silently.
"""

from __future__ import annotations

from contextlib import closing

from connectors.contract.errors import CHECKPOINT, POSITION, USAGE, Failure
from connectors.contract.records import Committed
from connectors.formats.addresses import Place, RemotePath
from connectors.kafka.client import describe, options
from connectors.kafka.group import GroupPositions
from connectors.kafka.sections import TopicSourceSection
from connectors.settings.tables import Settings
from connectors.state.checkpoint import Checkpoint, Progress, restored
from connectors.state.disk import CheckpointStore
from connectors.state.edits import open_snapshots
from connectors.state.exclusion import moved_back
from connectors.state.positions import lost_position, same_identity
from connectors.state.topic import SnapshotReader, other_owner, owner_of, snapshot_messages
from connectors.state.training import require_same_training, training_of


def save_snapshots(settings: Settings, topic: str, path: Place) -> int:
    """Write the newest snapshots of all partitions into a file, also while daemons run; return its size.

    Raises
    ------
    Failure
        If a partition has no snapshot, or one of another group.
    Interruption
        If no broker answers.
    """
    source = TopicSourceSection.of(settings.source)
    partitions, _ = describe(source.topic, "source.topic", options(settings.kafka))
    with closing(SnapshotReader(topic, settings.kafka)) as reader:
        snapshots = reader.all(partitions)
    if missing := [name for name in partitions if name not in snapshots]:
        raise Failure(
            USAGE,
            f"{topic} has no snapshot of {', '.join(missing)}, and a savepoint holds all partitions; wait "
            "until the daemons have written one of each",
        )
    savepoint = Checkpoint(source.name, source_mark=source.group)
    for name, snapshot in snapshots.items():
        if other := other_owner(snapshot, source):
            raise Failure(CHECKPOINT, f"the snapshot of {name} in {topic} {other}")
        savepoint.parts[name] = snapshot.pack()
        savepoint.partitions |= snapshot.partitions
    if not isinstance(path, RemotePath):
        path.parent.mkdir(parents=True, exist_ok=True)
    return savepoint.write(path)


def roll_back(settings: Settings, topic: str, path: Place, skip: bool) -> list[str]:
    """Go back to the snapshots of a savepoint, and return the partitions that it does not hold.

    Those, which were added since, stay as they are.

    Parameters
    ----------
    settings
        Of the daemons, which are not running.
    topic
        Of the snapshots.
    path
        The savepoint.
    skip
        Whether to keep the present positions, so that events since are not learned again.

    Raises
    ------
    Failure
        If a model is of other settings, a topic was recreated, events since are no longer there, or a member
        of the group is running.
    Interruption
        If no broker answers.
    """
    saved = _read(path)
    store = CheckpointStore(settings.checkpoints.directory, settings.checkpoints.keep)
    with store.locked(), open_snapshots(settings, topic, store.model, None) as (positions, writer, reader):
        events = [name for name in positions.partitions() if settings.events_of(name) is None]
        newest = reader.settled(events)
        messages, moved = [], dict[str, Committed]()
        held = [name for name in events if name in saved and (name in newest or not skip)]
        for name in held:
            snapshot = saved[name]
            _require_usable(settings, snapshot, f"the snapshot of {name} in {path}")
            if skip:
                newest[name].parts = snapshot.parts
                snapshot = newest[name]
            else:
                moved |= _moved_back(positions, snapshot, owner_of(topic))
            messages += snapshot_messages(name, snapshot, reader.partition_count, reader.chunks[name])
        if not held:
            raise Failure(USAGE, f"{path} holds no partition of {settings.source.name}")
        writer.write({topic: messages}, positions.offsets(moved), positions.group)
    return [name for name in events if name not in held]


def _read(path: Place) -> dict[str, Checkpoint]:
    """Return the snapshots in a savepoint, by partition."""
    try:
        parts = Checkpoint.unpack(path.read_bytes(), str(path)).parts
        return {name: Checkpoint.unpack(part, f"{name} in {path}") for name, part in parts.items()}
    except ValueError as error:
        raise Failure(CHECKPOINT, str(error)) from None


def _require_usable(settings: Settings, snapshot: Checkpoint, where: str) -> None:
    """Raise Failure if a snapshot is of another group, or its model of another learner or other settings."""
    if other := other_owner(snapshot, TopicSourceSection.of(settings.source)):
        raise Failure(CHECKPOINT, f"{where} {other}")
    require_same_training(snapshot, training_of(settings), where)
    try:
        restored(snapshot.parts, settings.learner.build())
    except ValueError as error:
        raise Failure(CHECKPOINT, f"{where} {error}; put the settings back") from None


def _moved_back(positions: GroupPositions, snapshot: Checkpoint, owner: str) -> dict[str, Committed]:
    """Return what to commit for a partition of events and that of its labels."""
    moved = {}
    for name, progress in snapshot.partitions.items():
        if name in positions.partitions():
            _require_there(positions, name, progress)
            committed = moved_back(positions, name, owner, progress.position)
            if committed is None:
                raise lost_position(name, progress.position, positions.group)
            moved[name] = committed
    return moved


def _require_there(positions: GroupPositions, name: str, progress: Progress) -> None:
    """Raise Failure if what was read since cannot be read again."""
    first, _ = positions.range(name)
    instead = "with --skip the old model continues from the present position"
    if not same_identity(progress.identity, positions.identity(name)[0]):
        raise Failure(
            POSITION,
            f"{name}: its topic was deleted and recreated after the savepoint was written; {instead}",
        )
    if progress.position < first:
        raise Failure(
            POSITION,
            f"{name}: the events from {progress.position} to {first - 1} are no longer there; {instead}",
        )
