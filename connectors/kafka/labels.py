"""A topic of labels, whose partitions go with those of the events: partition 3 with partition 3."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping

from kafka import TopicPartition
from kafka import errors as kafka_errors

from connectors.contract.errors import USAGE, Failure, Interruption
from connectors.contract.records import Assigned, LabelReader, RawBatch
from connectors.kafka.client import (
    PATIENCE,
    explained,
    identify,
    partition_name,
    partition_number,
    partitions_of,
    require_topics,
)
from connectors.kafka.sections import Kafka
from connectors.kafka.topic_range import lone_consumer

_KEY = "labels.topic"
_MS, _SOON = int(PATIENCE * 1000), 500  # milliseconds for an answer, and for one that learning waits for
_WAIT = 10  # milliseconds that a broker waits for records
_FETCH = 200  # milliseconds in which those that are there come


class TopicLabels(LabelReader):
    """The labels of events, read without a group: who has the events reads their labels.

    Parameters
    ----------
    topic, kafka
        Settings.

    Raises
    ------
    Failure
        If the topic is not there.
    Interruption
        If no broker answers.
    """

    def __init__(self, topic: str, kafka: Kafka) -> None:
        self._topic, self._at = topic, dict[TopicPartition, int]()
        self._short_since: float | None = None  # since when the topic ends before what was read
        self._consumer = lone_consumer(kafka, _WAIT)
        try:
            with explained(_KEY):
                require_topics(self._consumer, {_KEY: topic})
                self._numbers = [place.partition for place in partitions_of(self._consumer, [topic], None)]
                self._identity = identify(self._consumer, topic)
        except BaseException:
            self.close()
            raise

    def _place(self, partition: str) -> TopicPartition:
        return TopicPartition(self._topic, partition_number(partition))

    def labels_of(self, partition: str) -> Assigned:
        """Return the partition of the same number.

        Raises
        ------
        Failure
            If the topic has none.
        """
        place, number = self._place(partition), len(self._numbers)
        if place.partition not in self._numbers:
            count = f"{number} partition{'s' * (number > 1)}"
            raise Failure(
                USAGE,
                f"{_KEY}: {self._topic} has {count}, and none for {partition}; labels go with events of the "
                "same partition: give both topics as many, and records the same key",
            )
        with explained(_KEY):
            first = self._consumer.beginning_offsets([place], _MS)[place]
            end = self._consumer.end_offsets([place], _MS)[place]
        return Assigned(partition_name(place), None, first, end, self._identity, place.partition, number)

    def begin(self, partition: str, position: int) -> None:
        """Read a partition from this position on."""
        place = self._place(partition)
        self._at[place] = position
        self._assign()

    def _assign(self) -> None:
        """Have the consumer read each partition from the record on that was not polled yet."""
        self._consumer.assign(list(self._at))
        for place, position in self._at.items():
            self._consumer.seek(place, position)
        self._consumer.pause(*self._at)

    def poll(self, seconds: float, partitions: Collection[str]) -> Mapping[str, RawBatch]:
        """Return the next records of these partitions.

        Only what is there is fetched: a request for more would delay the next one for the end.

        Raises
        ------
        Interruption
            If the topic was recreated, or has lost what was read.
        """
        places = {self._place(name) for name in partitions}
        ends = self._ends(places)
        self._require_there(ends or {})
        wanted = {place for place in places if ends is not None and self._at[place] < ends[place]}
        if not wanted:
            return {}
        batches = {}
        with explained(_KEY):
            self._consumer.resume(*wanted)
            polled = self._consumer.poll(max(int(seconds * 1000), _FETCH))
            self._consumer.pause(*wanted)
            if polled and identify(self._consumer, self._topic) != self._identity:
                raise Interruption(f"the topic {self._topic} was recreated")
            for place in wanted:
                after = self._consumer.position(place, _MS)
                if after != self._at[place]:
                    self._at[place] = after
                    batches[partition_name(place)] = RawBatch(polled.get(place, ()), after)
        return batches

    def drained(self, partitions: Collection[str]) -> Collection[str]:
        """Return those of these partitions of which all that is there now was polled.

        None if no broker answers at once.
        """
        places = {name: self._place(name) for name in partitions}
        ends = self._ends(places.values())
        return [] if ends is None else [n for n, place in places.items() if self._at[place] >= ends[place]]

    def ends(self) -> Mapping[str, int] | None:
        """Return where each partition ends now."""
        ends = self._ends(self._at)
        return None if ends is None else {partition_name(place): end for place, end in ends.items()}

    def _ends(self, places: Collection[TopicPartition]) -> Mapping[TopicPartition, int] | None:
        with explained(_KEY):
            try:
                return dict(self._consumer.end_offsets(list(places), _SOON)) if places else {}
            except kafka_errors.KafkaError as error:
                if not error.retriable:
                    raise
                return None

    def _require_there(self, ends: Mapping[TopicPartition, int]) -> None:
        """Raise Interruption if a partition has ended before what was read of it for a while.

        A new leader may report an earlier end for a moment; a topic that was recreated does so for longer.
        """
        now = time.monotonic()
        if all(self._at[place] <= end for place, end in ends.items()):
            self._short_since = None
        elif self._short_since is None:
            self._short_since = now
        elif now - self._short_since > PATIENCE:
            raise Interruption(f"{_KEY}: {self._topic} ends before what was read of it")

    def release(self, partitions: Collection[str]) -> None:
        """Read these partitions no more."""
        for name in partitions:
            self._at.pop(self._place(name), None)
        if partitions:
            self._assign()

    def close(self) -> None:
        """Close the connections."""
        self._consumer.close(timeout_ms=1000)
