"""Topics as a source of records, shared with the other members of a group.

The group's coordinator assigns and revokes partitions. An assigned partition is paused until the run decides
where to start. Before a revoked one goes to another process, a poll returns it, and the run has until the
next poll to save what it learned from it.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from kafka import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka import errors as kafka_errors
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription
from kafka.structs import ConsumerGroupMetadata, MemberState

from connectors.contract.errors import Failure, Interruption, UnreadableRecords
from connectors.contract.records import MOST, Assigned, Committed, Polled, Raw, RawBatch, Source
from connectors.kafka.client import (
    PATIENCE,
    READING,
    all_topics,
    explained,
    identify,
    member_name,
    options,
    partition_name,
    partition_number,
    partitions_of,
    refresh,
    require_topics,
    topic_of,
)
from connectors.kafka.coordination import keep_joining, keep_joins, keep_refreshing
from connectors.kafka.group import Group
from connectors.kafka.records import unpack_quickly
from connectors.kafka.sections import OF_THE_SOURCE, Kafka, TopicSourceSection, is_pattern, matching


class RevokedError(Exception):
    """Ends a poll between the two rounds of a rebalance: this member still owns what it is to give."""


class RemovedError(Exception):
    """Ends a poll before a member that the group has removed joins again."""


class Assignor(CooperativeStickyAssignor):  # type: ignore[misc]
    """Reports to the group which partitions this member owns, unless others may have them by now.

    kafka-python 3.0 reports its last assignment even after the group has removed it. The leader would then
    take partitions from their new owner in one round, not in the two rounds that let the owner commit. The
    client also does not call the listener if the group removes it while it joins.
    """

    def __init__(self) -> None:
        super().__init__()
        self.consumer: KafkaConsumer = None
        self._before = -1  # the generation of the last request to join

    def removed(self) -> bool:
        """Return whether this member has partitions, and the group had a generation without it since."""
        generation = self._generation()
        return bool(self.member_assignment) and (generation < 0 or 0 <= self._before < generation - 1)

    def _generation(self) -> int:
        return int(self.consumer.group_metadata().generation_id)

    def metadata(self, topics: set[str]) -> ConsumerProtocolSubscription:
        """Return the owned partitions; the client calls this for every request to join, on its thread.

        Raises
        ------
        RemovedError
            If others may have them.
        """
        if self.removed():
            raise RemovedError
        self._before = self._generation()
        return super().metadata(topics)


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Records what the coordinator assigns and revokes, on the client's thread, which must not wait."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.consumer: KafkaConsumer = None
        self.assigned: set[TopicPartition] = set()
        self.revoked: set[TopicPartition] = set()
        self.closing = False

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Record what was assigned, paused until the run decides where to start."""
        with self._lock:
            self.assigned |= set(assigned)
        self.consumer.pause(*assigned)
        for partition in assigned:
            self.consumer.seek(partition, 0)  # nowhere yet: without it the client asks for a position itself

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Record what is revoked, and end the poll."""
        with self._lock:
            self.revoked |= set(revoked)
            self.assigned -= set(revoked)
        if not self.closing:
            raise RevokedError  # the client raises it in the poll

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        """Do nothing: the poll finds out whether the group has removed this member."""

    def take(self) -> tuple[set[TopicPartition], set[TopicPartition]]:
        """Return what was assigned and revoked since the last time."""
        with self._lock:
            news = self.assigned, self.revoked
            self.assigned, self.revoked = set(), set()
        return news


log = logging.getLogger(__name__)
_METADATA = 30_000  # milliseconds after which new partitions are looked for
_HEARTBEAT = 1_000  # milliseconds at most: by heartbeats members learn that others join
_MS, _SOON = int(PATIENCE * 1000), 500  # milliseconds for an answer, and for one that learning waits for
_REASSIGNED = "the group has given the partitions to others"


@contextlib.contextmanager
def _readable(topic: str) -> Iterator[None]:
    """Turn what is wrong with the bytes of records into an :class:`UnreadableRecords`."""
    try:
        yield
    except (kafka_errors.KafkaError, Interruption, Failure):
        raise
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        raise UnreadableRecords(f"{topic}: records cannot be read: {what}") from None


class TopicSource(Source):
    """The records of those partitions of its topics that the group gives to this process.

    A topic that comes later and that a pattern matches is read, too, until the source is closed.

    Parameters
    ----------
    source, kafka
        Settings.
    member
        A name that stays the same over restarts: the group keeps the partitions for it.

    Raises
    ------
    Failure
        If a topic is not there, or the broker refuses this client.
    Interruption
        If no broker answers.
    """

    def __init__(self, source: TopicSourceSection, kafka: Kafka, member: str) -> None:
        self.name, self._section, member = source.name, source, member_name(member)
        self._topics, self._looked_at = list[str](), time.monotonic()
        self._grows = any(map(is_pattern, source.topic))
        client_options = options(kafka)
        self._group = Group(client_options, source.group, member)
        self._listener, self._assignor = Listener(), Assignor()
        self._unstarted: set[TopicPartition] = set()
        self._polled: dict[TopicPartition, int] = {}  # positions after the last poll
        self._identities: dict[str, str] = {}  # of the topics that are read
        self._silent_since: float | None = None  # since when brokers do not say where partitions end
        self._orphaned = 0  # times in a row that partitions had no owner
        session = int(kafka.session_seconds * 1000)
        with explained("kafka"):
            self._consumer = KafkaConsumer(
                **client_options,
                group_id=source.group,
                group_instance_id=member,
                auto_offset_reset="none",
                **READING,
                partition_assignment_strategy=[self._assignor],
                max_poll_records=MOST,
                metadata_max_age_ms=_METADATA,
                session_timeout_ms=session,
                heartbeat_interval_ms=min(max(session // 5, 200), _HEARTBEAT),
                **{"fetch_max_wait_ms": 200, **kafka.options_of(OF_THE_SOURCE)},
            )
        unpack_quickly(self._consumer)
        keep_joins(self._consumer)
        self._listener.consumer = self._assignor.consumer = self._consumer
        try:
            with explained("source.topic"):
                self._topics = require_topics(self._consumer, {"source.topic": source.topic})["source.topic"]
                self._subscribe()
                # before the first join: if the partitions become known after it, there is a second
                refresh(self._consumer)
                self._read = self._read_before() if self._grows else set(self._topics)
        except BaseException:
            self._consumer.close(timeout_ms=1000)
            raise

    def continues(self, source: str, partitions: Iterable[str]) -> bool:
        """Return whether it has a topic of what another source of this name, with these partitions, had."""
        return self._section.continues(source, partitions)

    def _subscribe(self) -> None:
        self._consumer.subscribe(self._topics, listener=self._listener)

    def _read_before(self) -> set[str]:
        """Return the topics that are named or that the group has read; all if it has read none."""
        read = {topic_of(name) for name in self.committed(self.partitions())}
        return read | set(self._section.topic) if read else set(self._topics)

    def _look_for_topics(self) -> None:
        """Read also those topics that have come since, and that a pattern matches."""
        now = time.monotonic()
        if self._grows and now - self._looked_at >= _METADATA / 1000:
            self._looked_at = now
            there = matching(self._section.topic, all_topics(self._consumer))
            if new := sorted(set(there) - set(self._topics)):
                log.info("source.topic: there are new topics: %s", ", ".join(new))
                self._topics = sorted({*self._topics, *new})
                self._subscribe()

    def poll(self, seconds: float, most: int = MOST) -> Polled:
        """Return the next records, assigned partitions that have not been started, and revoked ones.

        Raises
        ------
        Interruption
            If the group has assigned everything to others, a topic was recreated, or records cannot be read.
        """
        polled: Mapping[TopicPartition, Sequence[Raw]] = {}
        keep_refreshing(self._consumer)
        with explained("source.topic"), _readable(self.name):
            try:
                polled = self._consumer.poll(int(seconds * 1000), max_records=most)
            except RemovedError:
                raise Interruption(_REASSIGNED) from None
            except kafka_errors.KafkaError as error:
                if not isinstance(error.__cause__, RevokedError):
                    raise
        keep_joining(self._consumer)
        self._require_member()
        self._require_same()
        assigned, taken = self._listener.take()
        self._unstarted = (self._unstarted | assigned) & self._consumer.assignment()
        for partition in taken:
            self._polled.pop(partition, None)
        return Polled(
            self._batches(polled),
            self._describe(self._unstarted),
            [partition_name(p) for p in taken],
            standby=self._consumer.group_metadata().state is MemberState.STABLE
            and not self._consumer.assignment(),
        )

    def _require_member(self) -> None:
        """Raise Interruption if the group has removed this member since it assigned partitions to it."""
        if self._assignor.removed():
            raise Interruption(_REASSIGNED)

    def _require_same(self) -> None:
        """Raise Interruption if a topic is another one than what has been read."""
        for topic in {place.topic for place in self._polled}:
            if identify(self._consumer, topic) != self._identities[topic]:
                raise Interruption(f"the topic {topic} was recreated")

    def _batches(self, polled: Mapping[TopicPartition, Sequence[Raw]]) -> dict[str, RawBatch]:
        """Return what was polled, with the consumer's positions: it has also passed what is no record."""
        batches: dict[str, RawBatch] = {}
        for partition, before in self._polled.items():
            state = self._consumer._subscription.assignment.get(partition)
            at = state.position.offset if state is not None and state.position is not None else before
            records = polled.get(partition, ())
            if records or at > before:
                self._polled[partition] = at
                batches[partition_name(partition)] = RawBatch(records, at)
        return batches

    def _describe(self, partitions: set[TopicPartition]) -> list[Assigned]:
        if not partitions:
            return []
        ordered = sorted(partitions)
        with explained("source.topic"):
            first = self._consumer.beginning_offsets(ordered, _MS)
            end = self._consumer.end_offsets(ordered, _MS)
        names = [partition_name(p) for p in ordered]
        committed = self.committed(names)
        self._require_same()
        topics = {place.topic for place in ordered}
        self._identities |= {topic: identify(self._consumer, topic) for topic in topics}
        return [
            Assigned(
                name, committed.get(name), first[p], end[p], self._identities[p.topic], p.partition,
                len(partitions_of(self._consumer, [p.topic], None)), p.topic not in self._read,
            )
            for name, p in zip(names, ordered, strict=True)
        ]  # fmt: skip

    def partitions(self) -> list[str]:
        """Return the names of all partitions of the topics."""
        return [partition_name(place) for place in partitions_of(self._consumer, self._topics, None)]

    def _partition(self, name: str) -> TopicPartition:
        """Return a partition of a topic, or of that of labels: the group has positions for both."""
        return TopicPartition(topic_of(name), partition_number(name))

    def committed(self, partitions: Sequence[str]) -> Mapping[str, Committed]:
        """Return what the group has committed, transactions that are still open waited for."""
        positions = {}
        with explained("source.group"):
            for name in partitions:
                offset = self._consumer.committed(self._partition(name), metadata=True, timeout_ms=_MS * 5)
                if offset is not None:
                    positions[name] = Committed(offset.offset, offset.metadata or "")
        return positions

    def begin(self, partition: str, position: int) -> None:
        """Read a partition from this position on."""
        place = self._partition(partition)
        try:
            self._consumer.seek(place, position)
        except ValueError:
            raise Interruption(f"the group took {partition} back at once") from None
        self._consumer.resume(place)
        self._unstarted.discard(place)
        self._polled[place] = position

    def commit(self, positions: Mapping[str, Committed]) -> bool:
        """Commit positions; False if the group is rebalancing."""
        if not positions:
            return True
        self._require_member()
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
            self._partition(name): OffsetAndMetadata(position, metadata, -1)
            for name, (position, metadata) in positions.items()
        }

    def membership(self) -> ConsumerGroupMetadata:
        """Return what proves to a transaction that this process is in the group.

        Raises
        ------
        Interruption
            If it is not: the client would then offer no proof, and the broker ask for none.
        """
        group_metadata = self._consumer.group_metadata()
        if group_metadata.generation_id < 0 or not group_metadata.member_id:
            raise Interruption(_REASSIGNED)
        self._require_member()  # after the metadata was read: the client's thread may join in between
        return group_metadata

    def _require_owners(self, mine: int) -> None:
        """Leave the group if it has forgotten partitions, so that it assigns all of them again.

        A member that returns under its name gets what it had, which is nothing if a topic was not there,
        and no member would notice that it is there again.
        """
        there = len(self.partitions())
        if mine >= there or self._consumer.group_metadata().state is not MemberState.STABLE:
            self._orphaned = 0
            return
        assigned = self._group.assigned_count(self._topics)
        self._orphaned = self._orphaned + 1 if assigned is not None and assigned < there else 0
        if self._orphaned > 1:
            self._group.leave()
            raise Interruption(f"some of the {there} partitions of {self.name} have no owner; joining again")

    def require_identity(self) -> None:
        """Raise Failure if another member of the group has this one's name."""
        self._group.require_identity(self._consumer.group_metadata().member_id)

    def require_daemons(self) -> None:
        """Raise Failure if a member of the group is no daemon: it would get a part of the topics."""
        self._group.require_daemons()

    def alone(self) -> bool:
        """Return whether this is the only member of the group."""
        return self._group.alone()

    def _ends_of(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        if not partitions and self._consumer._coordinator.coordinator_unknown():
            raise kafka_errors.CoordinatorNotAvailableError("the group has no coordinator")
        return dict(self._consumer.end_offsets(partitions, _SOON)) if partitions else {}

    def ends(self) -> Mapping[str, int] | None:
        """Return where each partition ends now; None if the brokers do not say so at once.

        Raises
        ------
        Interruption
            If partitions have no owner: the group may then wait forever. Or if the brokers have not
            answered for a while.
        """
        partitions = sorted(self._consumer.assignment())
        with explained("source.topic"):
            try:
                offsets = self._ends_of(partitions)
                self._look_for_topics()
            except kafka_errors.KafkaError as error:
                now = time.monotonic()
                self._silent_since = since = self._silent_since or now
                if not error.retriable or now - since > PATIENCE:
                    raise
                return None
        self._silent_since = None
        self._require_owners(len(partitions))
        return {partition_name(partition): end for partition, end in offsets.items()}

    def drained(self, partitions: Collection[str]) -> Collection[str]:
        """Return those of these partitions of which all that is there now was polled.

        None if no broker answers at once.
        """
        places = {name: self._partition(name) for name in partitions}
        there = {name: place for name, place in places.items() if place in self._polled}
        try:
            ends = self._consumer.end_offsets([*there.values()], _SOON) if there else {}
        except kafka_errors.KafkaError as error:
            if not error.retriable:
                raise
            return []
        return [name for name, place in there.items() if self._polled[place] >= ends[place]]

    def uncommitted(self, ends: Mapping[str, int]) -> Mapping[str, int]:
        """Return how many offsets of each partition open transactions hide.

        ``ends`` are last stable offsets, since the consumer asks with ``read_committed``. What is after them
        up to the high watermark, which every fetch brings, belongs to open transactions or comes after them.
        """
        hidden = {}
        for name, end in ends.items():
            with contextlib.suppress(kafka_errors.IllegalStateError):  # the group has just revoked it
                high = self._consumer.highwater(self._partition(name))
                if high is not None:
                    hidden[name] = max(high - end, 0)
        return hidden

    def confirm(self) -> None:
        """Ask for the topics' identities once more; raise Interruption if one was recreated.

        The client may read a recreated topic for a while before it notices.
        """
        if self._polled:
            with explained("source.topic"):
                refresh(self._consumer)
            self._require_same()

    def close(self, leaving: bool) -> None:
        """Leave the group; a process that returns soon keeps its place instead."""
        self._listener.closing = True
        with contextlib.suppress(kafka_errors.KafkaError):
            self._consumer.close(timeout_ms=2000)
        if leaving:
            self._group.leave()
