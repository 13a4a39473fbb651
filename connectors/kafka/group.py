"""Consumer groups: their members, as the coordinator describes them, and their positions."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from datetime import datetime

from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka import errors as kafka_errors
from kafka.admin import MemberToRemove

from connectors.contract.errors import USAGE, Failure, Interruption
from connectors.contract.records import Committed, Positions
from connectors.kafka.client import (
    MEMBER,
    PATIENCE,
    READING,
    Options,
    administrator,
    explained,
    identify,
    options,
    partition_name,
    partitions_of,
    require_topics,
)
from connectors.kafka.sections import Kafka, TopicSourceSection
from streamk.arrays import Json

log = logging.getLogger(__name__)
_MS = int(PATIENCE * 1000)
Described = Json  # a group or a member, as the client describes it


class Group:
    """A group, and one member of it.

    Parameters
    ----------
    client_options
        What :func:`connectors.kafka.client.options` returned.
    name
        Of the group.
    member
        The name of the member over restarts; empty for an observer.
    """

    def __init__(self, client_options: Options, name: str, member: str = "") -> None:
        self._options, self.name, self._member = dict(client_options), name, member

    def _describe(self) -> Described:
        with explained("source.group"), closing(administrator(self._options)) as admin:
            description: Described = admin.describe_groups([self.name])[self.name]
        return description

    def members(self) -> list[Described]:
        """Return the members, as the coordinator describes them."""
        return list(self._describe()["members"])

    def alone(self) -> bool:
        """Return whether the group has no other members."""
        return all(member["group_instance_id"] == self._member for member in self.members())

    def require_daemons(self) -> None:
        """Raise Failure if a member is no daemon."""
        for member in self.members():
            if not (member["group_instance_id"] or "").startswith(MEMBER):
                raise Failure(
                    USAGE,
                    f"source.group: {member['client_id']!r} at {member['client_host']} is a member of "
                    f"{self.name!r} and no streamk daemon, so each reads a part of the topic; choose a "
                    "source.group of its own for this model",
                )

    def assigned_count(self, topics: Collection[str]) -> int | None:
        """Return how many partitions of topics the members have, None if the group is rebalancing."""
        group = self._describe()
        if group["group_state"] != "Stable":
            return None
        return sum(
            len(entry["partitions"])
            for member in group["members"]
            for entry in (member["member_assignment"] or {}).get("assigned_partitions", ())
            if entry["topic"] in topics
        )

    def require_identity(self, mine: str) -> None:
        """Raise Failure if another process than the one with this identifier has the member's name."""
        with explained("source.group"):
            for member in self.members():
                if member["group_instance_id"] == self._member and member["member_id"] != mine:
                    raise kafka_errors.FencedInstanceIdError

    def move(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> dict[TopicPartition, str]:
        """Set the positions of a group without members; return where that failed, and why."""
        with closing(administrator(self._options)) as admin:
            errors = admin.alter_group_offsets(self.name, dict(offsets))
        return {place: e.__name__ for place, e in errors.items() if e is not kafka_errors.NoError}

    def leave(self) -> None:
        """Give up the place that the group reserves for the member's name."""
        try:
            with closing(administrator(self._options)) as admin:
                admin.remove_group_members(self.name, [MemberToRemove(group_instance_id=self._member)])
        except (kafka_errors.KafkaError, Interruption, Failure) as error:
            log.warning("the group was not left (%s): others wait for kafka.session_seconds", error)


def committed_positions(
    source: TopicSourceSection, kafka: Kafka
) -> tuple[Options, dict[str, Committed | None]]:
    """Return the client's options, and what a group has committed for every partition, joining no group.

    Raises
    ------
    Failure
        If a topic is not there.
    Interruption
        If no broker answers.
    """
    client_options = options(kafka)
    with (
        explained("source.group"),
        closing(KafkaConsumer(**client_options, group_id=source.group, **READING)) as consumer,
    ):
        topics = require_topics(consumer, {"source.topic": source.topic})["source.topic"]
        places = partitions_of(consumer, topics, None)
        return client_options, {partition_name(place): _committed(consumer, place) for place in places}


def _committed(consumer: KafkaConsumer, place: TopicPartition) -> Committed | None:
    committed = consumer.committed(place, metadata=True, timeout_ms=_MS)
    return None if committed is None else Committed(committed.offset, committed.metadata or "")


class GroupPositions(Positions):
    """What a group has committed for the topics of a source.

    Parameters
    ----------
    source, kafka
        Settings.
    numbers
        Of the partitions of each topic; all of them if None.
    labels
        The topic of the events' labels, empty if there is none.

    Raises
    ------
    Failure
        If a topic or a partition is not there, or the group has members.
    Interruption
        If no broker answers.
    """

    def __init__(
        self, source: TopicSourceSection, kafka: Kafka, numbers: Sequence[int] | None, labels: str = ""
    ) -> None:
        client_options, self.group = options(kafka), source.group
        self._group = Group(client_options, source.group)
        if members := self._group.members():
            raise Failure(
                USAGE,
                f"source.group: {len(members)} members are in the group {source.group!r}; stop them first "
                "(one that was killed is a member for kafka.session_seconds)",
            )
        with explained("kafka"):
            self._consumer = KafkaConsumer(**client_options, group_id=source.group, **READING)
        try:
            topics = {"source.topic": source.topic} | ({"labels.topic": [labels]} if labels else {})
            with explained(" or ".join(topics)):
                there = require_topics(self._consumer, topics)
                places = [
                    place
                    for names in there.values()
                    for place in partitions_of(self._consumer, names, numbers)
                ]
                self._places = {partition_name(place): place for place in places}
                self._first = self._consumer.beginning_offsets(places, _MS)
                self._end = self._consumer.end_offsets(places, _MS)
        except BaseException:
            self.close()
            raise

    def partitions(self) -> Sequence[str]:
        """Return the names of the partitions."""
        return list(self._places)

    def identity(self, partition: str) -> tuple[str, int]:
        """Return the identity of a partition's topic, and how many partitions that has."""
        topic = self._places[partition].topic
        return identify(self._consumer, topic), len(self._consumer.partitions_for_topic(topic))

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
            offset = self._consumer.offsets_for_times({place: int(moment.timestamp() * 1000)}, _MS)[place]
        return int(self._end[place] if offset is None else offset.offset)

    def offsets(self, positions: Mapping[str, Committed]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return positions in the client's words."""
        return {
            self._places[name]: OffsetAndMetadata(position, metadata, -1)
            for name, (position, metadata) in positions.items()
        }

    def commit(self, positions: Mapping[str, Committed]) -> None:
        """Commit positions.

        Raises
        ------
        Failure
            If a member has joined it.
        """
        with explained("source.group"):
            for place, why in self._group.move(self.offsets(positions)).items():
                raise Failure(
                    USAGE,
                    f"source.group: the position of {partition_name(place)} was not set "
                    f"({why}): has a daemon of it been started? Stop it, reset again",
                )

    def close(self) -> None:
        """Close the connections."""
        self._consumer.close(timeout_ms=1000)
