"""The positions of a group that nobody is in, to look at and to set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import datetime
from typing import Any

from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition

from connectors.errors import USAGE, Failure
from connectors.kafka import sections
from connectors.kafka.client import (
    PATIENCE,
    READING,
    explained,
    identify,
    member_name,
    options,
    partition_name,
    partitions_of,
    require_topics,
)
from connectors.kafka.group import Group
from connectors.kafka.sink import place_of_log
from connectors.stream import Committed

_MS = int(PATIENCE * 1000)


def emit_from(kafka: sections.Kafka, topics: Sequence[str], model: str, position: int) -> None:
    """Set from where on the outputs of a log are written into topics (:mod:`connectors.kafka.sink`)."""
    with explained("predictions"):
        moved = {place_of_log(topics): OffsetAndMetadata(position, "", -1)}
        for why in Group(options(kafka), member_name(model)).move(moved).values():
            raise Failure(USAGE, f"predictions: their position was not set ({why})")


def committed_positions(
    source: sections.TopicSource, kafka: sections.Kafka
) -> tuple[dict[str, Any], dict[str, Committed | None]]:
    """Return the client's options, and what a group has committed for every partition, joining no group.

    Raises
    ------
    Failure
        If the topic is not there.
    Interruption
        If no broker answers.
    """
    found = options(kafka)
    with (
        explained("source.group"),
        closing(KafkaConsumer(**found, group_id=source.group, **READING)) as consumer,
    ):
        require_topics(consumer, {"source.topic": source.topic})
        places = partitions_of(consumer, source.topic, None)
        return found, {partition_name(place): _committed(consumer, place) for place in places}


def _committed(consumer: KafkaConsumer, place: TopicPartition) -> Committed | None:
    found = consumer.committed(place, metadata=True, timeout_ms=_MS)
    return None if found is None else Committed(found.offset, found.metadata or "")


class GroupPositions:
    """What a group has committed for a topic.

    Parameters
    ----------
    source, kafka
        Settings.
    numbers
        Of the partitions; all of them if None.

    Raises
    ------
    Failure
        If the topic or a partition is not there, or somebody is in the group.
    Interruption
        If no broker answers.
    """

    def __init__(
        self, source: sections.TopicSource, kafka: sections.Kafka, numbers: Sequence[int] | None
    ) -> None:
        found, self.group = options(kafka), source.group
        self._group = Group(found, source.group)
        if members := self._group.members():
            raise Failure(
                USAGE,
                f"source.group: {len(members)} members are in the group {source.group!r}; stop them first "
                "(one that was killed is a member for kafka.session_seconds)",
            )
        with explained("kafka"):
            self._consumer = KafkaConsumer(**found, group_id=source.group, **READING)
        try:
            with explained("source.topic"):
                require_topics(self._consumer, {"source.topic": source.topic})
                self.siblings = len(self._consumer.partitions_for_topic(source.topic))
                self.identity = identify(self._consumer, source.topic)
                places = partitions_of(self._consumer, source.topic, numbers)
                self._places = {partition_name(place): place for place in places}
                self._first = self._consumer.beginning_offsets(places, _MS)
                self._end = self._consumer.end_offsets(places, _MS)
        except BaseException:
            self.close()
            raise

    def partitions(self) -> Sequence[str]:
        """Return the names of the partitions."""
        return list(self._places)

    def committed(self, partition: str) -> Committed | None:
        """Return what the group has committed."""
        with explained("source.group"):
            return _committed(self._consumer, self._places[partition])

    def range(self, partition: str) -> tuple[int, int]:
        """Return the first offset that is there, and the one after the last."""
        place = self._places[partition]
        return self._first[place], self._end[place]

    def at(self, partition: str, moment: datetime) -> int:
        """Return the offset of the first record of this time or later."""
        place = self._places[partition]
        with explained("source.topic"):
            found = self._consumer.offsets_for_times({place: int(moment.timestamp() * 1000)}, _MS)[place]
        return int(self._end[place] if found is None else found.offset)

    def mark(self, positions: Mapping[str, int]) -> None:
        """Return nothing: a topic is known by its identity."""

    def offsets(self, positions: Mapping[str, Committed]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return positions in the client's words."""
        return {
            self._places[name]: OffsetAndMetadata(position, note, -1)
            for name, (position, note) in positions.items()
        }

    def commit(self, positions: Mapping[str, Committed]) -> None:
        """Tell the group.

        Raises
        ------
        Failure
            If somebody has joined it.
        """
        with explained("source.group"):
            for place, why in self._group.move(self.offsets(positions)).items():
                raise Failure(
                    USAGE,
                    f"source.group: the position of {partition_name(place)} was not set "
                    f"({why}): has a daemon of it been started? Stop it, reset again",
                )

    def close(self) -> None:
        """Let go of the broker."""
        self._consumer.close(timeout_ms=1000)

    def __enter__(self) -> GroupPositions:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()
