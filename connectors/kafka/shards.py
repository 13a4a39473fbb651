"""Shards of a topic: its partitions, each from one offset to another, read without joining a group."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from kafka import KafkaConsumer, TopicPartition

from connectors.contract.errors import Failure, Interruption
from connectors.contract.records import Raw
from connectors.events.decoding import Decoder, Event, Record
from connectors.events.targets import interpret
from connectors.kafka.client import PATIENCE, explained, identify, partition_name, records_between
from connectors.kafka.topic_range import TopicRange, lone_consumer
from connectors.settings.tables import Settings
from streamk.distributed import Chunk

_MS = int(PATIENCE * 1000)


@dataclass(frozen=True)
class TopicShard:
    """A partition of a topic of settings, between two offsets; a position is an offset.

    Records are decoded as the daemon does. Those without a target are skipped; so are those that cannot be
    decoded or that the learner refuses, if the settings have dead letters, and tombstones, if they are to be
    skipped.

    Parameters
    ----------
    settings
        Whose source is a topic.
    partition
        Its number.
    begins, ends
        The first offset, and the one after the last.
    identity
        Of the topic: another one of the same name is refused.
    """

    settings: Settings
    partition: int
    begins: int
    ends: int
    identity: str

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self.settings.source.place

    @property
    def name(self) -> str:
        """The partition, its offsets, and which topic of that name it is."""
        return f"{partition_name(self._place)}[{self.begins}:{self.ends}] of {self.identity}"

    @property
    def _place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def read(self, position: int | None, count: int) -> Chunk:
        """Return at most ``count`` events from an offset on.

        Raises
        ------
        ValueError
            If a record is refused, or the events are not there any more; the offset is named.
        OSError
            If the brokers do not answer.
        """
        rows: list[object] = []
        targets: list[object] = []
        weights: list[float] = []
        lines: list[int] = []
        after = self.begins if position is None else position
        decode = self.settings.decoder()
        try:
            for raw, next_offset in self._records(after):
                if raw is not None and (event := self._event(raw, decode)) is not None:
                    record = Record(raw.offset, event.fields, event.target)
                    fields, target = interpret(record, self._places(), self.settings.learner.task)
                    rows.append(fields)
                    targets.append(target)
                    weights.append(1.0 if event.weight is None else event.weight)
                    lines.append(raw.offset)
                after = min(next_offset, self.ends)
                if len(rows) == count:
                    break
        except Interruption as error:
            raise ConnectionError(str(error)) from None
        except Failure as error:
            raise ValueError(str(error)) from None
        strict = self.settings.dead_letters is None
        return Chunk(rows, targets, after, after >= self.ends, weights, lines, strict=strict)

    def _event(self, raw: Raw, decode: Decoder) -> Event | None:
        """Return the event of a record, None if it is skipped."""
        if raw.value is None and self.settings.events.tombstones == "skip":
            return None
        try:
            event = decode(raw.value or b"")
        except ValueError as error:
            if self.settings.dead_letters is not None:
                return None
            raise ValueError(
                f"{self._places().place(raw.offset)}: {error}. With [dead_letters] in the settings such "
                "records are skipped"
            ) from None
        return None if event.target is None else event

    def _places(self) -> _Offsets:
        return _Offsets(partition_name(self._place), self.settings.events.target)

    def _records(self, start: int) -> Iterator[tuple[Raw | None, int]]:
        """Yield each record and the offset after it, and at the end None and the offset where that is."""
        if start < self.ends:
            with self._consumer(start) as consumer:
                yield from records_between(consumer, self._place, start, self.ends, "source.topic")

    @contextlib.contextmanager
    def _consumer(self, start: int) -> Iterator[KafkaConsumer]:
        """Open a consumer at an offset that is still there."""
        with contextlib.closing(lone_consumer(self.settings.kafka)) as consumer:
            with explained("source.topic"):
                consumer.partitions_for_topic(self.topic)
                consumer.assign([self._place])
                first = consumer.beginning_offsets([self._place], _MS)[self._place]
                identity = identify(consumer, self.topic)
            if identity != self.identity:
                raise ValueError(f"the topic was deleted and recreated ({identity}, not {self.identity})")
            if first > start:
                raise ValueError(f"offsets {start} to {first - 1} have been deleted before they were learned")
            yield consumer

    def done(self, position: int) -> float:
        """Return which part of the offsets is before a position, from 0 to 1."""
        return (position - self.begins) / max(self.ends - self.begins, 1)


@dataclass(frozen=True)
class _Offsets:
    """How messages name the records of a partition."""

    partition: str
    target: str

    def place(self, line: int) -> str:
        return f"{self.partition}, offset {line}"


def topic_shards(settings: Settings, start: str | None, end: str | None) -> list[TopicShard]:
    """Return the partitions of the topic of settings, between two bounds as those of a replay.

    Raises
    ------
    Failure
        If a bound cannot be read, or the topic is not there.
    Interruption
        If no broker answers.
    """
    with contextlib.closing(TopicRange(settings.source.place, settings.kafka, start, end)) as records:
        return [TopicShard(settings, n, a, b, records.identity) for n, (a, b) in records.bounds.items()]
