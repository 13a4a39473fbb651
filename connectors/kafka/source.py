"""A topic as a source of records, shared with the other members of a group.

The group's coordinator gives partitions and takes them away. What was given is paused until the run says
where to begin; before what is taken goes to another, the run is told, and has until its next poll to save
what it learned from it.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka import errors as kafka_errors
from kafka.admin import MemberToRemove
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.base import MemberState

from connectors import settings
from connectors.kafka.client import (
    PATIENCE,
    READING,
    administrator,
    explained,
    options,
    partition_name,
    require_topics,
)
from connectors.kafka.records import unpack_quickly
from connectors.stream import Assigned, Batch, Committed, Interruption, Polled

log = logging.getLogger(__name__)
_MOST = 2000  # records a poll
_MS = int(PATIENCE * 1000)


class _Revoked(Exception):  # noqa: N818
    """Ends a poll between the two rounds of a rebalance: this member still owns what it is to give."""


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Notes what the coordinator says; it is called on the client's thread, which must not wait."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.consumer: Any = None
        self.assigned: set[TopicPartition] = set()
        self.revoked: set[TopicPartition] = set()
        self.lost = self.closing = False

    def on_partitions_assigned(self, assigned: Any) -> None:
        with self._lock:
            self.assigned |= set(assigned)
        self.consumer.pause(*assigned)
        for partition in assigned:
            self.consumer.seek(partition, 0)  # nowhere yet: without it the client asks for a position itself

    def on_partitions_revoked(self, revoked: Any) -> None:
        with self._lock:
            self.revoked |= set(revoked)
            self.assigned -= set(revoked)
        if not self.closing:
            raise _Revoked  # the client hands it to whoever polls

    def on_partitions_lost(self, lost: Any) -> None:
        self.lost = True

    def take(self) -> tuple[set[TopicPartition], set[TopicPartition]]:
        """Return what was assigned and revoked since the last time."""
        with self._lock:
            news = self.assigned, self.revoked
            self.assigned, self.revoked = set(), set()
        return news


class TopicSource:
    """The records of those partitions of a topic that the group gives to this process.

    Parameters
    ----------
    source, kafka
        Settings.
    member
        A name that stays the same over restarts: the group keeps the partitions for it.

    Raises
    ------
    Failure
        If the topic is not there, or the broker refuses this client.
    Interruption
        If no broker answers.
    """

    columns: list[str] | None = None
    delimiter = ","

    def __init__(self, source: settings.TopicSource, kafka: settings.Kafka, member: str) -> None:
        self.name, self.group, self._member = source.topic, source.group, f"streamk-{member}"
        self._options = options(kafka)
        self._listener = _Listener()
        self._unbegun: set[TopicPartition] = set()
        session = int(kafka.session_seconds * 1000)
        with explained("kafka"):
            self._consumer = KafkaConsumer(
                **self._options,
                group_id=self.group,
                group_instance_id=self._member,
                auto_offset_reset="none",
                **READING,
                partition_assignment_strategy=[CooperativeStickyAssignor],
                max_poll_records=_MOST,
                session_timeout_ms=session,
                heartbeat_interval_ms=max(session // 5, 200),
                fetch_max_wait_ms=200,
            )
        unpack_quickly(self._consumer)
        self._listener.consumer = self._consumer
        try:
            with explained("source.topic"):
                # in this order: if the partitions become known after the first join, there is a second
                self._consumer.subscribe([self.name], listener=self._listener)
                require_topics(self._consumer, {"source.topic": self.name})
        except BaseException:
            self._consumer.close(timeout_ms=1000)
            raise

    def poll(self, seconds: float) -> Polled:
        """Return the next records, what the group gave and has not been begun, and what it takes.

        Raises
        ------
        Interruption
            If the group has given everything to others already.
        """
        polled: Mapping[TopicPartition, Any] = {}
        with explained("source.topic"):
            try:
                polled = self._consumer.poll(int(seconds * 1000))
            except kafka_errors.KafkaError as error:
                if not isinstance(error.__cause__, _Revoked):
                    raise
        if self._consumer.group_metadata().state is MemberState.REBALANCING:
            # kafka-python 3.0 forgets a join that new metadata began and that outlived the poll
            self._consumer._coordinator.request_rejoin()
        if self._listener.lost:
            raise Interruption("the group has given the partitions to others")
        given, taken = self._listener.take()
        self._unbegun = (self._unbegun | given) & self._consumer.assignment()
        batches = {
            partition_name(partition): Batch(records, records[-1].offset + 1)
            for partition, records in polled.items()
        }
        return Polled(batches, self._describe(self._unbegun), [partition_name(p) for p in taken])

    def _describe(self, partitions: set[TopicPartition]) -> list[Assigned]:
        if not partitions:
            return []
        ordered = sorted(partitions)
        with explained("source.topic"):
            first = self._consumer.beginning_offsets(ordered, _MS)
            end = self._consumer.end_offsets(ordered, _MS)
        names = [partition_name(p) for p in ordered]
        committed = self.committed(names)
        return [
            Assigned(name, committed.get(name), first[p], end[p])
            for name, p in zip(names, ordered, strict=True)
        ]

    def _partition(self, name: str) -> TopicPartition:
        return TopicPartition(self.name, int(name.rpartition("-")[2]))

    def committed(self, partitions: Sequence[str]) -> Mapping[str, Committed]:
        """Return what the group has committed, transactions that are still open waited for."""
        found = {}
        with explained("source.group"):
            for name in partitions:
                offset = self._consumer.committed(self._partition(name), metadata=True, timeout_ms=_MS * 5)
                if offset is not None:
                    found[name] = Committed(offset.offset, offset.metadata or "")
        return found

    def begin(self, partition: str, position: int) -> None:
        """Read a partition from this position on."""
        place = self._partition(partition)
        try:
            self._consumer.seek(place, position)
        except ValueError:
            raise Interruption(f"the group took {partition} back at once") from None
        self._consumer.resume(place)
        self._unbegun.discard(place)

    def commit(self, positions: Mapping[str, Committed]) -> bool:
        """Tell the group; False if it is rebalancing."""
        if not positions:
            return True
        if self._consumer.group_metadata().state is not MemberState.STABLE:
            return False  # the client would wait for a rebalance that only a poll can end
        with explained("source.group"):
            try:
                self._consumer.commit(self.offsets(positions), timeout_ms=2000)
            except (kafka_errors.RebalanceInProgressError, kafka_errors.KafkaTimeoutError):
                return False
        return True

    def offsets(self, positions: Mapping[str, Committed]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return positions in the client's words."""
        return {
            self._partition(name): OffsetAndMetadata(position, note, -1)
            for name, (position, note) in positions.items()
        }

    def membership(self) -> Any:
        """Return what proves to a transaction that this process is in the group.

        Raises
        ------
        Interruption
            If it is not: the client would then offer no proof, and the broker ask for none.
        """
        found = self._consumer.group_metadata()
        if found.generation_id < 0 or not found.member_id:
            raise Interruption("the group has given the partitions to others")
        return found

    def require_identity(self) -> None:
        """Raise Failure if the group knows another process by this one's name."""
        mine = self._consumer.group_metadata().member_id
        with explained("source.group"), contextlib.closing(administrator(self._options)) as admin:
            found = admin.describe_groups([self.group])
            for member in found[self.group]["members"]:
                if member["group_instance_id"] == self._member and member["member_id"] != mine:
                    raise kafka_errors.FencedInstanceIdError

    def ends(self) -> Mapping[str, int]:
        """Return where each partition ends now."""
        partitions = sorted(self._consumer.assignment())
        with explained("source.topic"):
            found = self._consumer.end_offsets(partitions, _MS) if partitions else {}
        return {partition_name(partition): end for partition, end in found.items()}

    def mark(self, positions: Mapping[str, int]) -> None:
        """Return nothing: a topic is known by its name."""

    def recognise(self, mark: Any) -> None:
        """Take any mark."""

    def close(self, leaving: bool) -> None:
        """Leave the group; a process that comes back soon keeps its place instead."""
        self._listener.closing = True
        with contextlib.suppress(kafka_errors.KafkaError):
            self._consumer.close(timeout_ms=2000)
        if leaving:
            self._leave()

    def _leave(self) -> None:
        """Give up the place that the group keeps for this member's name."""
        try:
            with contextlib.closing(administrator(self._options)) as admin:
                admin.remove_group_members(self.group, [MemberToRemove(group_instance_id=self._member)])
        except kafka_errors.KafkaError as error:
            log.warning("the group was not left (%s): others wait for kafka.session_seconds", error)
