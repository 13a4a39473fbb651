"""Snapshots of partitions in a compacted topic, each written in the transaction of its position.

A snapshot is a checkpoint of one partition (:mod:`connectors.daemon.checkpoint`), in chunks. The snapshots of
partition 7 are in partition 7 of their topic, or 7 modulo as many as it has; so an open transaction holds up
those only who read the same partitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from connectors.daemon.checkpoint import Checkpoint
from connectors.errors import CHECKPOINT, Failure
from connectors.kafka.chunks import Message, cut
from connectors.kafka.client import options
from connectors.kafka.compacted import CompactedTopic
from connectors.kafka.sections import Kafka
from connectors.kafka.sink import TopicSink
from connectors.stream import SNAPSHOTS

KEY = "snapshots.topic"


def number_of(partition: str) -> int:
    """Return the number of a partition, as 3 of ``clicks-3``."""
    return int(partition.rpartition("-")[2])


def snapshot_messages(partition: str, snapshot: Checkpoint, siblings: int, before: int) -> list[Message]:
    """Return the messages of a snapshot, for a topic of so many partitions."""
    progress = snapshot.partitions[partition]
    about = {
        "position": progress.position,
        "identity": progress.identity,
        "learned": progress.learned,
        "written": snapshot.written,
    }
    return cut(partition, snapshot.pack(), about, number_of(partition) % siblings, before)


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
    def siblings(self) -> int:
        """How many partitions the topic of snapshots has."""
        return self._topic.partitions

    def newest(self, partition: str) -> tuple[Checkpoint | None, int]:
        """Return the newest snapshot that can be seen, and the offset up to which everything can.

        Raises
        ------
        Failure
            If another version of streamk wrote it.
        """
        found = self._topic.newest([partition], number_of(partition) % self.siblings)
        value = found.values.get(partition)
        self.chunks[partition] = 0 if value is None else value.chunks
        if value is None:
            return None, found.stable
        try:
            return Checkpoint.unpack(value.body, f"the snapshot of {partition}"), found.stable
        except ValueError as error:
            raise Failure(CHECKPOINT, str(error)) from None

    def all(self, partitions: Sequence[str]) -> dict[str, Checkpoint]:
        """Return the newest snapshots of these partitions, as far as they have any."""
        found = {name: self.newest(name)[0] for name in partitions}
        return {name: snapshot for name, snapshot in found.items() if snapshot is not None}

    def settled(self, partitions: Sequence[str]) -> dict[str, Checkpoint]:
        """Return the newest snapshots, what transactions may still hide waited for."""
        for name in partitions:
            self._topic.settled([name], number_of(name) % self.siblings)
        return self.all(partitions)

    def stable(self, partition: str) -> int:
        """Return the offset up to which everything can be seen now."""
        return self._topic.stable(number_of(partition) % self.siblings)

    def end(self, partition: str) -> int:
        """Return the offset after the last message there is, seen or not."""
        return self._topic.end(number_of(partition) % self.siblings)

    def empty(self) -> bool:
        """Return whether there is no snapshot of anything."""
        return self._topic.empty()

    def close(self) -> None:
        """Let go of the broker."""
        self._topic.close()

    def __enter__(self) -> SnapshotReader:
        return self

    def __exit__(self, *details: Any) -> None:
        self.close()


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
        messages = snapshot_messages(partition, snapshot, self.siblings, self.chunks.get(partition, 0))
        self._sink.keep(SNAPSHOTS, messages)
        self.chunks[partition] = sum(message.value is not None for message in messages)
        return sum(len(message.value or b"") for message in messages)
