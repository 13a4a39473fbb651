"""Snapshots of partitions in a compacted topic, each written in the transaction of its position.

A snapshot is a checkpoint of one partition (:mod:`connectors.state.checkpoint`), in chunks. The snapshots of
partition 7 are in partition 7 of their topic, or 7 modulo as many as it has; so an open transaction
delays only the readers of the same partitions.

Snapshot and position are there both or neither, and a process that has lost the partition can commit
neither. The next owner of the partition reads the newest snapshot: model and position move together, and the
owner in the metadata is the topic of snapshots.

A committed snapshot may not be visible yet. The group reports a commit only when no transaction over it is
open, and the metadata of the commit holds the offset up to which the snapshot of that transaction goes. That
snapshot was written before the transaction ended. But readers see a partition of a topic only up to its last
stable offset, where the first open transaction started, which may be that of another process, perhaps of one
that was killed. So either the newest snapshot is the one that the metadata names, or all records present in
the topic must first become visible. Until then :meth:`TopicBackend.admit` returns False, and the session
processes its other partitions. A transaction whose process is gone ends when it times out, or when the
process is started again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple

from connectors.contract.errors import CHECKPOINT, Failure, Interruption
from connectors.contract.records import SNAPSHOTS, Assigned, PartitionedOperator, Sink
from connectors.contract.sections import StartPolicy
from connectors.kafka.client import options, partition_number
from connectors.kafka.compacted import CompactedTopic, cut
from connectors.kafka.producer import Message
from connectors.kafka.sections import Kafka, TopicSourceSection
from connectors.kafka.sink import TopicSink
from connectors.settings.tables import Settings
from connectors.state.checkpoint import REMEDY, Adoption, Checkpoint, Committable, Excluded, Progress, Saved
from connectors.state.positions import (
    OffsetMetadata,
    exceeds_commit,
    metadata_of,
    require_read_before,
    same_identity,
)
from connectors.state.training import Training, begins_again, require_same_training

KEY = "snapshots.topic"
log = logging.getLogger(__name__)
_LONGEST = 150.0  # seconds that a transaction may hold up a partition: more than it takes to time out


def snapshot_messages(
    partition: str, snapshot: Checkpoint, partition_count: int, before: int
) -> list[Message]:
    """Return the messages of a snapshot, for a topic of so many partitions."""
    progress = snapshot.partitions[partition]
    about = {
        "position": progress.position,
        "identity": progress.identity,
        "learned": progress.learned,
        "written": snapshot.written,
    }
    return cut(partition, snapshot.pack(), about, partition_number(partition) % partition_count, before)


class SnapshotReader:
    """Reads snapshots.

    Parameters
    ----------
    topic, kafka
        Settings.
    """

    def __init__(self, topic: str, kafka: Kafka) -> None:
        self.topic = topic
        self._topic = CompactedTopic(topic, KEY, options(kafka))
        self.chunks: dict[str, int] = {}  # of the newest snapshot, by partition

    @property
    def partition_count(self) -> int:
        """How many partitions the topic of snapshots has."""
        return self._topic.partitions

    def newest(self, partition: str) -> tuple[Checkpoint | None, int]:
        """Return the newest snapshot that can be seen, and the offset up to which everything can.

        Raises
        ------
        Failure
            If another version of streamk wrote it.
        """
        newest = self._topic.newest([partition], partition_number(partition) % self.partition_count)
        value = newest.values.get(partition)
        self.chunks[partition] = 0 if value is None else value.chunks
        if value is None:
            return None, newest.stable
        try:
            return Checkpoint.unpack(value.body, f"the snapshot of {partition}"), newest.stable
        except ValueError as error:
            raise Failure(CHECKPOINT, str(error)) from None

    def all(self, partitions: Sequence[str]) -> dict[str, Checkpoint]:
        """Return the newest snapshots of these partitions, as far as they have any."""
        snapshots = {name: self.newest(name)[0] for name in partitions}
        return {name: snapshot for name, snapshot in snapshots.items() if snapshot is not None}

    def settled(self, partitions: Sequence[str]) -> dict[str, Checkpoint]:
        """Return the newest snapshots, what transactions may still hide waited for."""
        for name in partitions:
            self._topic.settled([name], partition_number(name) % self.partition_count)
        return self.all(partitions)

    def stable(self, partition: str) -> int:
        """Return the offset up to which everything can be seen now."""
        return self._topic.stable(partition_number(partition) % self.partition_count)

    def end(self, partition: str) -> int:
        """Return the offset after the last message there is, seen or not."""
        return self._topic.end(partition_number(partition) % self.partition_count)

    def empty(self) -> bool:
        """Return whether there is no snapshot of anything."""
        return self._topic.empty()

    def close(self) -> None:
        """Close the connections."""
        self._topic.close()


class TopicSnapshots(SnapshotReader):
    """Reads snapshots, and writes them in the transactions of a sink.

    Parameters
    ----------
    topic, kafka
        Settings.
    sink
        Where predictions go, if they go anywhere.
    """

    def __init__(self, topic: str, kafka: Kafka, sink: TopicSink) -> None:
        super().__init__(topic, kafka)
        self._sink = sink

    def write(self, partition: str, snapshot: Checkpoint) -> int:
        """Take a snapshot into the transaction; return its size in bytes."""
        messages = snapshot_messages(partition, snapshot, self.partition_count, self.chunks.get(partition, 0))
        self._sink.write_messages(SNAPSHOTS, messages)
        self.chunks[partition] = sum(message.value is not None for message in messages)
        return sum(len(message.value or b"") for message in messages)


def owner_of(topic: str) -> str:
    """Return the name in offset metadata of the model whose snapshots are in a topic."""
    return f"topic {topic}"


def other_owner(snapshot: Checkpoint, source: TopicSourceSection) -> str:
    """Return whose a snapshot is, if it is not of this group; empty if it is."""
    if snapshot.source_mark != source.group:
        return (
            f"belongs to the group {snapshot.source_mark!r}, and source.group is {source.group!r}; every "
            "group needs a topic of snapshots of its own"
        )
    return ""


class _Awaited(NamedTuple):
    """Up to where all must be visible, since when that is waited for, and up to where it was read."""

    end: int
    since: float
    read: int


class TopicBackend:
    """A snapshot of every partition in a compacted topic.

    Parameters
    ----------
    operator
        It holds no state yet.
    snapshots
        Reads and writes them.
    sink
        In whose transactions they are written.
    source
        The topics and the group that reads them.
    clock
        Seconds, growing.
    training
        The settings that the models are trained with.
    """

    untried = False

    def __init__(
        self,
        operator: PartitionedOperator,
        snapshots: TopicSnapshots,
        sink: Sink,
        source: TopicSourceSection,
        clock: Callable[[], float] = time.monotonic,
        training: Training | None = None,
    ) -> None:
        # how far labels have been read is stored with the model of their events
        self._events_of = operator.events_of
        self._training, self._adopted = training, dict[str, list[Adoption]]()
        self.operator, self._snapshots, self._sink = operator, snapshots, sink
        self._source, self._clock = source, clock
        self.owner = owner_of(snapshots.topic)
        self.progress: dict[str, Progress] = {}
        self.excluded: Excluded = {}
        self.has_state = not snapshots.empty()
        self._saved: dict[str, dict[str, Progress]] = {}  # of events and labels, by partition of events
        self._awaited: dict[str, _Awaited] = {}

    def admit(self, assigned: Assigned, policy: StartPolicy) -> bool:
        """Read the newest snapshot of a partition, once it is known which that is."""
        name = assigned.partition
        if self._events_of(name) is not None:
            return True  # what is known of labels was read with the snapshot of their events
        awaited = self._awaited.get(name)
        if awaited is not None and self._snapshots.stable(name) <= awaited.read:
            self._require_end(awaited)
            return False  # to read again would bring the same
        snapshot, stable = self._snapshots.newest(name)
        where = f"the snapshot of {name} in {self._snapshots.topic}"
        if snapshot is not None and (other := other_owner(snapshot, self._source)):
            raise Failure(CHECKPOINT, f"{where} {other}; {REMEDY}")
        saved = None if snapshot is None else snapshot.partitions[name]
        metadata = metadata_of(assigned.committed)
        if not self._is_named(metadata, saved) and not self._all_visible(name, stable):
            return False
        self._awaited.pop(name, None)
        if saved is None and assigned.committed is not None:
            require_read_before(
                self.owner, assigned, lambda: True, policy,
                f"no snapshot in {self._snapshots.topic} holds it. Put that topic back",
            )  # fmt: skip
        start = self._granted(assigned, metadata, saved, policy)
        if snapshot is not None and saved is not None:
            exceeds = exceeds_commit(self.owner, assigned.committed, saved.position, saved.identity)
            if begins_again(snapshot, self._training, exceeds):
                log.info("%s: the settings changed before anything was learned: reading again", name)
                start = None
        try:
            self.operator.begin(name, None if snapshot is None else snapshot.parts)
        except ValueError as error:
            raise Failure(CHECKPOINT, f"{where} {error}; {REMEDY}") from None
        self._forget(name)
        if start is not None:
            self.progress[name] = replace(start)  # the session counts on
            labels = {} if snapshot is None else {k: p for k, p in snapshot.partitions.items() if k != name}
            self.progress |= {key: replace(progress) for key, progress in labels.items()}
        if snapshot is not None and saved is not None:
            require_same_training(snapshot, self._training, where)
            self._adopted[name], self._saved[name] = snapshot.adopted, snapshot.partitions
            self.excluded |= snapshot.excluded
            log.info("%s: snapshot up to %d, written %s", name, saved.position, snapshot.written)
        return True

    def _named_position(self, metadata: OffsetMetadata) -> int | None:
        """Return up to where metadata says that a snapshot goes, None if it need not name one."""
        last = metadata.owners[-1] if metadata.owners else None
        return None if last is None or last.model != self.owner or last.until == last.since else last.until

    def _is_named(self, metadata: OffsetMetadata, saved: Progress | None) -> bool:
        """Return whether a snapshot is the one that metadata names."""
        until = self._named_position(metadata)
        return (
            until is not None
            and saved is not None
            and saved.position == until
            and same_identity(saved.identity, metadata.identity)
        )

    def _all_visible(self, name: str, stable: int) -> bool:
        """Return whether all that was there at the first call had become visible, and was read."""
        awaited = self._awaited.get(name)
        if awaited is None:
            awaited = _Awaited(self._snapshots.end(name), self._clock(), stable)
        self._awaited[name] = awaited._replace(read=stable)
        if stable < awaited.end:
            self._require_end(awaited)
        return stable >= awaited.end

    def _require_end(self, awaited: _Awaited) -> None:
        """Raise Interruption if a transaction is open for longer than it can be without its process."""
        if self._clock() - awaited.since > _LONGEST:
            topic = self._snapshots.topic
            raise Interruption(f"{topic}: a transaction has been open for {_LONGEST:.0f} seconds")

    def _granted(
        self, assigned: Assigned, metadata: OffsetMetadata, saved: Progress | None, policy: StartPolicy
    ) -> Progress | None:
        """Return how far a partition was read, by a snapshot that fits what the group has committed."""
        until = self._named_position(metadata)
        if until is None or self._is_named(metadata, saved):
            return saved
        there = "none is there" if saved is None else f"the newest there goes up to {saved.position}"
        problem = (
            f"{assigned.partition}: the group has committed a snapshot in {self._snapshots.topic} up to "
            f"{until}, and {there}"
        )
        if saved is None and policy.blank:
            log.warning("%s: starting with an empty model", problem)
            return Progress(until, metadata.identity)
        remedy = (
            "Put the topic back; or run with --blank, to start with an empty model from there; or choose "
            "another source.group, to learn everything again"
            if saved is None
            else "`streamk reset SETTINGS --to checkpoint` continues from there, learning the rest again"
        )
        raise Failure(CHECKPOINT, f"{problem}. {remedy}")

    def save(self, committable: Committable) -> Saved:
        """Write the snapshots of what has been read since the last ones, with the positions and outputs."""
        names = [name for name in committable() if self._events_of(name) is None]
        read = {name: {key: replace(self.progress[key]) for key in self._read_with(name)} for name in names}
        changed = {name: progress for name, progress in read.items() if progress != self._saved.get(name)}
        written = datetime.now(UTC).isoformat(timespec="seconds")
        size = 0
        for name, progress in changed.items():
            parts = dict(self.operator.snapshot(name))
            snapshot = Checkpoint(
                self._source.name, parts, progress, source_mark=self._source.group,
                written=written, training=self._training, adopted=self._adopted.get(name, []),
                excluded={name: self.excluded[name]} if name in self.excluded else {},
            )  # fmt: skip
            size += self._snapshots.write(name, snapshot)
        self._sink.commit(committable({name for progress in changed.values() for name in progress}))
        self._saved |= changed
        return Saved(size, True)

    def _read_with(self, name: str) -> list[str]:
        """Return a partition of events and that of its labels, as far as they are read."""
        return [each for each in self.progress if name in (each, self._events_of(each))]

    def _forget(self, name: str) -> None:
        """Forget how far a partition and its labels were read."""
        self._saved.pop(name, None)
        self.excluded.pop(name, None)
        for known in self._read_with(name):
            del self.progress[known]

    def release(self, partitions: Sequence[str]) -> None:
        """Forget partitions, and what was read of their labels."""
        for name in partitions:
            if self._events_of(name) is None:
                self._forget(name)
                self._awaited.pop(name, None)
                self.operator.release(name)

    def close(self) -> None:
        """Close the connections."""
        self._snapshots.close()


def open_topic_backend(
    operator: PartitionedOperator,
    settings: Settings,
    sinks: Iterable[Sink],
    training: Training,
) -> TopicBackend:
    """Return the backend that writes the snapshots of an operator in the transactions of its sink."""
    if settings.snapshots is None:
        raise ValueError("the settings have no [snapshots]")
    sink = next(each for each in sinks if isinstance(each, TopicSink))
    snapshots = TopicSnapshots(settings.snapshots.topic, settings.kafka, sink)
    source = TopicSourceSection.of(settings.source)
    return TopicBackend(operator, snapshots, sink, source, training=training)
