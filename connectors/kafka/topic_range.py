"""A part of topics, by offset or time, read without joining a group, as one log or in shards.

A range is read once and in order: records come in the order of their times, those of one partition in the
order of their offsets; a partition that is far ahead of the others is paused. A shard is one partition, from
one offset to another.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from kafka import KafkaConsumer, TopicPartition

from connectors.contract.errors import USAGE, Failure, Interruption
from connectors.contract.records import Log, Raw, read_bound
from connectors.events.batches import Broken
from connectors.events.decoding import WITHOUT_INPUT, Decoder, Event, Record
from connectors.events.targets import interpret
from connectors.kafka.client import (
    PATIENCE,
    READING,
    explained,
    identify,
    options,
    partition_name,
    partitions_of,
    records_between,
    require_topics,
)
from connectors.kafka.records import unpack_quickly
from connectors.kafka.sections import Kafka, TopicSourceSection
from connectors.settings.tables import Settings
from streamk.distributed import Chunk

_MOST = 5000  # records of one partition that wait for the others
_PLACES = 10_000  # records whose offsets are remembered, to name them
_MS = int(PATIENCE * 1000)
_Offsets = dict[TopicPartition, int]


class Placed(NamedTuple):
    """A record and its partition."""

    partition: str
    raw: Raw


def lone_consumer(kafka: Kafka, wait: int = 500) -> KafkaConsumer:
    """Return a consumer without a group, which the caller assigns partitions.

    A broker answers a request for records that are not there after ``wait`` milliseconds, and other requests
    after it.
    """
    with explained("kafka"):
        consumer = KafkaConsumer(
            **options(kafka),
            auto_offset_reset="none",
            **READING,
            max_poll_records=2000,
            fetch_max_wait_ms=wait,
        )
    unpack_quickly(consumer)
    return consumer


class TopicRange:
    """Records of topics between two bounds.

    Parameters
    ----------
    topics, kafka
        Names and patterns, and how to reach the topics.
    start, end
        An offset, which counts in every partition, or a time in ISO 8601 (UTC unless it says otherwise): the
        first record that belongs, and the first that does not. None means all there are now.
    partitions
        Numbers of partitions of each topic; None means all.
    setting
        What names the topics, for messages.

    Raises
    ------
    Failure
        If a bound cannot be read, or a topic or a partition is not there.
    Interruption
        If no broker answers.
    """

    def __init__(
        self,
        topics: Sequence[str],
        kafka: Kafka,
        start: str | None = None,
        end: str | None = None,
        partitions: Sequence[int] | None = None,
        setting: str = "source.topic",
    ) -> None:
        self.name, self._setting = ", ".join(topics), setting
        bounds = _bound("--from", start), _bound("--to", end)
        self._consumer = lone_consumer(kafka)
        try:
            with explained(setting):
                there = require_topics(self._consumer, {setting: topics})[setting]
                places = partitions_of(self._consumer, there, partitions)
                first = self._consumer.beginning_offsets(places, _MS)
                last = self._consumer.end_offsets(places, _MS)
                begin = self._offsets(places, bounds[0], first, last, first)
                stop = self._offsets(places, bounds[1], first, last, last)
                self.identities = {topic: identify(self._consumer, topic) for topic in there}
        except BaseException:
            self.close()
            raise
        self._ends = {p: max(stop[p], begin[p]) for p in places}
        self._begins = begin
        self.size = sum(self._ends.values()) - sum(begin.values())

    def skip(self, offsets: Mapping[int, int]) -> None:
        """Skip what lies before these offsets, by the number of the partition."""
        for place, end in self._ends.items():
            self._begins[place] = min(max(self._begins[place], offsets.get(place.partition, 0)), end)
        self.size = sum(self._ends.values()) - sum(self._begins.values())

    @property
    def bounds(self) -> dict[TopicPartition, tuple[int, int]]:
        """The first offset of each partition, and the one after the last."""
        return {place: (self._begins[place], end) for place, end in self._ends.items()}

    def _offsets(
        self, places: Sequence[TopicPartition], bound: int | datetime | None,
        first: _Offsets, last: _Offsets, otherwise: _Offsets,
    ) -> _Offsets:  # fmt: skip
        if bound is None:
            return otherwise
        if isinstance(bound, int):
            return {p: min(max(bound, first[p]), last[p]) for p in places}
        moment = int(bound.timestamp() * 1000)
        offsets = self._consumer.offsets_for_times(dict.fromkeys(places, moment), _MS)
        return {p: last[p] if offsets[p] is None else offsets[p].offset for p in places}

    def __iter__(self) -> Iterator[Placed]:
        consumer = self._consumer
        waiting: dict[TopicPartition, deque[Raw]] = {p: deque() for p in self._ends}
        consumer.assign(list(waiting))
        for place in waiting:
            consumer.seek(place, self._begins[place])
        while True:
            incomplete = [p for p in waiting if not waiting[p] and not self._at_end(p)]
            if incomplete:
                self._fetch(waiting)
                continue
            ahead = [p for p, records in waiting.items() if records]
            if not ahead:
                return
            place = min(ahead, key=lambda p: (waiting[p][0].timestamp, p))
            record = waiting[place].popleft()
            if len(waiting[place]) == _MOST // 2:
                consumer.resume(place)
            yield Placed(partition_name(place), record)

    def _at_end(self, place: TopicPartition) -> bool:
        with explained(self._setting):
            position = self._consumer.position(place, _MS)
        return bool(position >= self._ends[place])

    def _fetch(self, waiting: dict[TopicPartition, deque[Raw]]) -> None:
        deadline = time.monotonic() + 2 * PATIENCE
        before = sum(self._consumer.position(p) for p in waiting)
        while time.monotonic() < deadline:
            with explained(self._setting):
                polled = self._consumer.poll(500)
            for place, records in polled.items():
                waiting[place] += (r for r in records if r.offset < self._ends[place])
                if len(waiting[place]) >= _MOST:
                    self._consumer.pause(place)
            if polled or sum(self._consumer.position(p) for p in waiting) > before:
                return
        raise Interruption(f"{self.name} brings no records any more")

    def close(self) -> None:
        """Close the connections."""
        self._consumer.close(timeout_ms=1000)


def _bound(option: str, text: str | None) -> int | datetime | None:
    try:
        return None if text is None else read_bound(text)
    except ValueError:
        raise Failure(
            USAGE, f"{option} {text}: give an offset or a time, as 1200 or 2026-11-21T08:00"
        ) from None


class TopicLog(Log):
    """A range of a topic as a log to replay: events with a target, in order.

    Parameters
    ----------
    records
        The range.
    decoder
        Of its events.
    target
        The name of the target, for messages.
    """

    done: int = 0

    def __init__(self, records: TopicRange, decoder: Decoder, target: str) -> None:
        self.name, self.target, self.size = f"topic {records.name}", target, records.size
        self._records, self._decode, self.format = records, decoder, decoder.format
        self._places: deque[tuple[int, str]] = deque(maxlen=_PLACES)
        self.done, self.broken, self.misfits = 0, Broken(), decoder.misfits

    def place(self, line: int) -> str:
        """Return how messages name a record that was read lately."""
        return next((name for n, name in self._places if n == line), f"{self.name}, record {line}")

    def __iter__(self) -> Iterator[Record]:
        for partition, raw in self._records:
            self.done += 1
            place = f"{partition}, offset {raw.offset}"
            try:
                event = self._decode.of_record(raw)
            except ValueError as error:
                self.broken.note(place, str(error))
                continue
            if event.target is None:
                self.broken.miss(place, self.target, event.fields)
                continue
            if not event.fields:
                self.broken.note(place, WITHOUT_INPUT)
                continue
            self._places.append((self.done, place))
            yield Record(self.done, event.fields, event.target)


@dataclass(frozen=True)
class TopicShard:
    """A partition of one of the topics of settings, between two offsets; a position is an offset.

    Records are decoded as the daemon does. Those without a target are skipped; so are those that cannot be
    decoded or that the learner refuses, if the settings have dead letters, and tombstones, if they are to be
    skipped.

    Parameters
    ----------
    settings
        Whose source is a topic.
    place
        The topic and the number.
    begins, ends
        The first offset, and the one after the last.
    identity
        Of the topic: another one of the same name is refused.
    """

    settings: Settings
    place: TopicPartition
    begins: int
    ends: int
    identity: str

    @property
    def name(self) -> str:
        """The partition, its offsets, and which topic of that name it is."""
        return f"{partition_name(self.place)}[{self.begins}:{self.ends}] of {self.identity}"

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
            event = decode.of_record(raw)
        except ValueError as error:
            if self.settings.dead_letters is not None:
                return None
            raise ValueError(
                f"{self._places().place(raw.offset)}: {error}. With [dead_letters] in the settings such "
                "records are skipped"
            ) from None
        return None if event.target is None else event

    def _places(self) -> _ShardPlaces:
        return _ShardPlaces(partition_name(self.place), self.settings.events.target)

    def _records(self, start: int) -> Iterator[tuple[Raw | None, int]]:
        """Yield each record and the offset after it, and at the end None and the offset where that is."""
        if start < self.ends:
            with self._consumer(start) as consumer:
                yield from records_between(consumer, self.place, start, self.ends, "source.topic")

    @contextlib.contextmanager
    def _consumer(self, start: int) -> Iterator[KafkaConsumer]:
        """Open a consumer at an offset that is still there."""
        with contextlib.closing(lone_consumer(self.settings.kafka)) as consumer:
            with explained("source.topic"):
                consumer.partitions_for_topic(self.place.topic)
                consumer.assign([self.place])
                first = consumer.beginning_offsets([self.place], _MS)[self.place]
                identity = identify(consumer, self.place.topic)
            if identity != self.identity:
                raise ValueError(f"the topic was deleted and recreated ({identity}, not {self.identity})")
            if first > start:
                raise ValueError(f"offsets {start} to {first - 1} have been deleted before they were learned")
            yield consumer

    def done(self, position: int) -> float:
        """Return which part of the offsets is before a position, from 0 to 1."""
        return (position - self.begins) / max(self.ends - self.begins, 1)


@dataclass(frozen=True)
class _ShardPlaces:
    """How messages name the records of a partition."""

    partition: str
    target: str

    def place(self, line: int) -> str:
        return f"{self.partition}, offset {line}"


def topic_shards(settings: Settings, start: str | None, end: str | None) -> list[TopicShard]:
    """Return the partitions of the topics of settings, between two bounds as those of a replay.

    Raises
    ------
    Failure
        If a bound cannot be read, or a topic is not there.
    Interruption
        If no broker answers.
    """
    topics = TopicSourceSection.of(settings.source).topic
    with contextlib.closing(TopicRange(topics, settings.kafka, start, end)) as records:
        return [
            TopicShard(settings, place, *bounds, records.identities[place.topic])
            for place, bounds in records.bounds.items()
        ]
