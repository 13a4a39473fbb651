"""A consumer that its group has removed: it neither joins again nor commits anything."""

import contextlib
import threading
import time
from contextlib import closing

import pytest
from kafka import TopicPartition
from kafka import errors as kafka_errors
from kafka.future import Future
from kafka.structs import ConsumerGroupMetadata

from connectors.contract.errors import Interruption
from connectors.contract.records import Committed
from connectors.kafka.coordination import resumable
from connectors.kafka.sections import Kafka, TopicSourceSection
from connectors.kafka.source import Assignor, RemovedError, TopicSource

from .stand import LIMIT, SESSION, events

GIVEN = "the group has given the partitions to others"


class Member:
    """A member of a test's group; it polls only when :meth:`poll` is called."""

    def __init__(self, stand, name):
        section = TopicSourceSection(kind="topic", topic=stand.topic("in"), group=stand.name)
        self.source = TopicSource(section, Kafka(servers=[stand.servers], session_seconds=SESSION), name)
        self.coordinator = self.source._consumer._coordinator
        self.owned = set()

    def poll(self):
        polled = self.source.poll(0.1)
        for assigned in polled.assigned:
            self.source.begin(assigned.partition, 0)
            self.owned.add(assigned.partition)
        self.owned -= set(polled.revoked)

    def close(self):
        self.source.close(leaving=True)


def poll_until(members, done, seconds=LIMIT):
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, [member.owned for member in members]
        for member in members:
            member.poll()


@contextlib.contextmanager
def polling(member):
    """Let a member poll in a thread."""
    done = threading.Event()

    def work():
        while not done.is_set():
            member.poll()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@pytest.fixture
def two(stand):
    """Give two members that own one partition each."""
    stand.topics(2)
    stand.send(events(20), lambda i: i % 2)
    with closing(Member(stand, "a")) as a, closing(Member(stand, "b")) as b:
        poll_until([a, b], lambda: settled(a, b))
        yield a, b


def settled(*members):
    """Return whether each owns a partition, and none of them joins or is about to."""
    joined = [each.coordinator.stable() and not each.coordinator.need_rejoin() for each in members]
    generations = {each.source._consumer.group_metadata().generation_id for each in members}
    return all(joined) and len(generations) == 1 and all(len(each.owned) == 1 for each in members)


def test_members_that_poll_in_turn_settle_in_few_generations(two):
    """A join that ends while the other polls counts: they would join without end."""
    generations = [member.source._consumer.group_metadata().generation_id for member in two]
    assert max(generations) <= 8, "one joins, the other joins, a partition is revoked, and is given"


class Join:
    """A join of a group, and whether its result was used."""

    def __init__(self):
        self.joining, self.count, self.error = False, 0, None

    async def __call__(self):
        self.joining = True
        if self.error is not None:
            raise self.error
        self.count += 1
        return b"%d" % self.count


def ended(coroutine):
    with contextlib.closing(coroutine), pytest.raises(StopIteration) as stop:
        coroutine.send(None)
    return stop.value.value


def test_the_result_of_a_join_is_used_once():
    join = Join()
    resumed = resumable(join, lambda: join.joining)
    assert ended(resumed()) == b"1"
    assert ended(resumed()) == b"1", "the first was never used"
    assert ended(resumed()) == b"2"
    join.joining = False  # the result was used
    assert ended(resumed()) == b"3"
    join.joining, join.error = False, RemovedError()
    with pytest.raises(RemovedError):
        resumed().send(None)
    join.error = None
    assert ended(resumed()) == b"4", "the result before an error is not used"


def remove_in_a_rebalance(stand, member):
    """Let a third member join, and remove one while its request to join waits for the second."""
    with closing(Member(stand, "c")) as other:
        both = [other, member]
        poll_until(both, lambda: all(each.coordinator.rebalance_in_progress() for each in both))
        member.source._group.leave()


def test_a_member_that_was_removed_does_not_join_again(two):
    """It claims nothing of what it had, which another member may own by now."""
    a, b = two
    a.source._group.leave()
    with polling(b), pytest.raises(Interruption, match=GIVEN):
        poll_until([a], lambda: False)
    assert len(a.source._group.members()) == 1
    poll_until([b], lambda: len(b.owned) == 2)


def test_a_member_that_was_removed_while_it_joined(stand, two):
    """The client joins again by itself, and does not call the listener."""
    a, b = two
    remove_in_a_rebalance(stand, a)
    with polling(b), pytest.raises(Interruption, match=GIVEN):
        poll_until([a], lambda: False)
    poll_until([b], lambda: len(b.owned) == 2)


@pytest.mark.parametrize("rebalance", [False, True])
def test_a_member_that_was_removed_commits_nothing(stand, two, rebalance):
    """Neither with the identity it had, nor with a new one that it joined under."""
    a, b = two
    (name,) = a.owned
    if rebalance:
        remove_in_a_rebalance(stand, a)
    else:
        a.source._group.leave()
    with polling(b):
        with contextlib.suppress(Interruption):
            for _ in range(40):
                a.poll()
        with pytest.raises(Interruption):
            a.source.commit({name: Committed(5, "")})
        with pytest.raises(Interruption):
            a.source.membership()
    assert name not in b.source.committed([name])


def test_a_member_that_missed_a_generation_commits_nothing(two):
    """The group still knows it, but may have given its partitions to others."""
    a, _ = two
    (name,) = a.owned
    a.source._assignor._before -= 1
    for act in (a.poll, a.source.membership, lambda: a.source.commit({name: Committed(5, "")})):
        with pytest.raises(Interruption, match=GIVEN):
            act()
    assert name not in a.source.committed([name])


@pytest.mark.parametrize(("generation", "removed"), [(3, False), (4, False), (5, True), (-1, True)])
def test_a_generation_without_the_member(generation, removed):
    """The group may have assigned partitions in it; the next request to join leads to the next generation."""
    assignor = Assignor()
    assignor.consumer = Consumer(3)
    assignor.metadata({"topic"})
    assignor.consumer = Consumer(generation)
    assert not assignor.removed()
    assignor.member_assignment = [TopicPartition("topic", 0)]
    assert assignor.removed() == removed
    with pytest.raises(RemovedError) if removed else contextlib.nullcontext():
        assignor.metadata({"topic"})


class Consumer:
    def __init__(self, generation):
        self._generation = generation

    def group_metadata(self):
        return ConsumerGroupMetadata("group", self._generation, "member", None)


def test_requests_for_metadata_that_have_ended_are_resumed(stand):
    """A request of ours that fails ends the client's own: it would never find another leader."""
    stand.topics()
    with closing(Member(stand, "a")) as member:
        poll_until([member], lambda: member.owned)
        cluster, net = member.source._consumer._cluster, member.source._consumer._net
        before = cluster._refresh_loop_future
        cluster._refresh_future = ours = Future()
        cluster.request_update()
        net.call_later(0.5, lambda: ours.failure(kafka_errors.KafkaConnectionError()))
        deadline = time.monotonic() + LIMIT
        while not before.is_done and time.monotonic() < deadline:
            time.sleep(0.1)
        assert before.is_done, "the client has become better: keep_refreshing is not needed any more"
        member.poll()
        assert cluster._refresh_loop_future is not before
        poll_until([member], lambda: not cluster.need_update)
