"""A part of a topic, by offset or time, read once and in order: to record it, or to replay it.

No group is joined. Records come in the order of their times, those of one partition in the order of their
offsets; a partition that is far ahead of the others is paused.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from kafka import KafkaConsumer, TopicPartition

from connectors.contract.errors import USAGE, Failure, Interruption
from connectors.contract.records import Log, Raw, read_bound
from connectors.events.batches import Broken
from connectors.events.decoding import WITHOUT_INPUT, Decoder, Record
from connectors.kafka.client import (
    PATIENCE,
    READING,
    explained,
    identify,
    options,
    partition_name,
    partitions_of,
    require_topics,
)
from connectors.kafka.records import unpack_quickly
from connectors.kafka.sections import Kafka

_MOST = 5000  # records of one partition that wait for the others
_PLACES = 10_000  # records whose offsets are remembered, to name them
_MS = int(PATIENCE * 1000)
_Offsets = dict[TopicPartition, int]


class Placed(NamedTuple):
    """A record and its partition."""

    partition: str
    raw: Raw


def lone_consumer(kafka: Kafka) -> KafkaConsumer:
    """Return a consumer without a group, which the caller assigns partitions."""
    with explained("kafka"):
        consumer = KafkaConsumer(**options(kafka), auto_offset_reset="none", **READING, max_poll_records=2000)
    unpack_quickly(consumer)
    return consumer


class TopicRange:
    """Records of a topic between two bounds.

    Parameters
    ----------
    topic, kafka
        The topic, and how to reach it.
    start, end
        An offset, which counts in every partition, or a time in ISO 8601 (UTC unless it says otherwise): the
        first record that belongs, and the first that does not. None means all there are now.
    partitions
        Numbers of partitions; None means all.
    setting
        What names the topic, for messages.

    Raises
    ------
    Failure
        If a bound cannot be read, or the topic or a partition is not there.
    Interruption
        If no broker answers.
    """

    def __init__(
        self,
        topic: str,
        kafka: Kafka,
        start: str | None = None,
        end: str | None = None,
        partitions: Sequence[int] | None = None,
        setting: str = "source.topic",
    ) -> None:
        self.topic, self._setting = topic, setting
        bounds = _bound("--from", start), _bound("--to", end)
        self._consumer = lone_consumer(kafka)
        try:
            with explained(setting):
                require_topics(self._consumer, {setting: topic})
                places = partitions_of(self._consumer, topic, partitions)
                first = self._consumer.beginning_offsets(places, _MS)
                last = self._consumer.end_offsets(places, _MS)
                begin = self._offsets(places, bounds[0], first, last, first)
                stop = self._offsets(places, bounds[1], first, last, last)
                self.identity = identify(self._consumer, topic)
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
    def bounds(self) -> dict[int, tuple[int, int]]:
        """The first offset of each partition by its number, and the one after the last."""
        return {place.partition: (self._begins[place], end) for place, end in self._ends.items()}

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
        raise Interruption(f"{self.topic} brings no records any more")

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
        self.name, self.target, self.size = f"topic {records.topic}", target, records.size
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
                event = self._decode(raw.value or b"")
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
