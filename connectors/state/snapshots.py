"""Snapshots of partitions in a compacted topic, each written in the transaction of its position.

A snapshot is a checkpoint of one partition (:mod:`connectors.state.checkpoint`), in chunks. The snapshots of
partition 7 are in partition 7 of their topic, or 7 modulo as many as it has; so an open transaction
delays only the readers of the same partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from connectors.contract.errors import CHECKPOINT, Failure
from connectors.contract.operator import PartitionedOperator
from connectors.contract.records import SNAPSHOTS, Sink
from connectors.kafka.client import options, partition_number
from connectors.kafka.compacted import CompactedTopic, Message, cut
from connectors.kafka.sections import Kafka, TopicSourceSection
from connectors.kafka.sink import TopicSink
from connectors.settings.tables import Settings
from connectors.state.checkpoint import Checkpoint
from connectors.state.topic import TopicBackend
from connectors.state.training import Training

KEY = "snapshots.topic"


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
