"""Real sessions in a played world: whatever ends between any two effects, nothing is lost or done twice."""

from itertools import pairwise

import pytest

from connectors.contract.errors import Failure, Interruption, UnreadableRecords
from connectors.state.positions import (
    Owner,
    metadata_of,
)

from .world import HISTORIES, World, try_histories


@pytest.mark.parametrize("sinks", [False, True])
@pytest.mark.parametrize("count", HISTORIES)
def test_every_record_is_learned_and_emitted_once(count, sinks):
    try_histories(count, lambda choices: World(sinks=sinks).live(choices).finish())


@pytest.mark.parametrize("sinks", [False, True])
@pytest.mark.parametrize("k", range(24))
def test_a_crash_before_any_effect(k, sinks):
    """One member, every effect of its first steps in turn: joining, committing, writing, telling, pruning."""
    world = World(("a", "b"), ("p-0",), sinks)
    world.members["a"].until_crash = k
    for _ in range(12):
        world.take("step", "a")
    assert world.members["a"].until_crash is None
    world.finish()


@pytest.mark.parametrize("k", range(10))
@pytest.mark.parametrize("sinks", [False, True])
def test_a_crash_while_a_partition_is_handed_over(k, sinks):
    world = World(("a", "b"), ("p-0",), sinks)
    for _ in range(4):
        world.take("step", "a")
    world.take("want", "b", "p-0")
    world.members["a"].until_crash = k
    for _ in range(3):
        world.take("step", "a")
        world.take("step", "b")
    world.finish()


def delays(member):
    return member.telemetry.registry.get_sample_value("streamk_delay_seconds_count") or 0.0


@pytest.mark.parametrize("sinks", [False, True])
def test_delays_end_when_predictions_are_committed(sinks):
    world = World(("a",), ("p-0",), sinks)
    member, ends = world.members["a"], []
    for _ in range(12):
        world.take("step", "a")
        session = member.session
        ends.append((delays(member), session.processed, session.committed.get("p-0", 0)))
    assert ends[-1][0] > 0.0
    for delayed, processed, committed in ends:
        read = committed - committed // 11 if sinks else processed  # one record in eleven is none
        assert delayed == read, ends


def expelled(sinks=False):
    """Return a world where ``a`` has been put out of the group while it learned."""
    world = World(("a", "b"), ("p-0",), sinks)
    for what in ("step", "step", "step", "save", "step"):
        world.take(what, "a")
    world.take("expel", "a")
    return world


@pytest.mark.parametrize("sinks", [False, True])
def test_what_the_dead_wrote_does_not_count(sinks):
    world = expelled(sinks)
    told = metadata_of(world.broker.committed["p-0"]).owners
    world.take("want", "b", "p-0")
    world.take("save", "a")  # written, and refused by the group
    assert world.members["a"].session is None
    assert metadata_of(world.broker.committed["p-0"]).owners == told
    for _ in range(3):
        world.take("step", "b")
    taken = metadata_of(world.broker.committed["p-0"]).owners[-1]
    assert (taken.model, taken.since) == ("b", told[-1].until)
    world.finish()


def test_a_revoked_partition_that_cannot_be_committed_ends_the_session():
    """Going on would let another begin where the note ends, with what was learned since in both models."""
    world = World(("a", "b"), ("p-0",), False)
    for _ in range(3):
        world.take("step", "a")
    member = world.members["a"]
    world.broker.wanted["p-0"] = "b"
    session = member.session
    refuse = session._source.commit
    session._source.commit = lambda positions: False
    world.take("step", "a")
    assert member.session is None
    session._source.commit = refuse
    world.finish()


def test_only_committed_checkpoints_are_pruned():
    """Until the group knows the newest checkpoint, the one before may be all that counts."""
    world = World(("a",), ("p-0",), False)
    member = world.members["a"]
    for _ in range(3):
        world.take("step", "a")
    numbers = []
    member.session._source.commit = lambda positions: False
    for _ in range(6):
        world.take("step", "a")
        world.take("save", "a")
        numbers.append(len(member.session._backend.store.paths()))
    assert numbers[-1] == numbers[0] + 5


def test_markers_move_the_position():
    """A partition whose last records are no events is read to its end, and its checkpoint says so."""
    world = World(("a",), ("p-0",), False)
    world.broker.end["p-0"] = 11  # offset 10 is a marker
    for _ in range(20):
        world.take("step", "a")
    session = world.members["a"].session
    assert session.positions == {"p-0": 11}
    assert metadata_of(world.broker.committed["p-0"]).owners == [Owner("a", 0, 11)]
    world.finish()


@pytest.mark.parametrize("sinks", [True, False])
@pytest.mark.parametrize("events", [1, 10**6])
def test_nothing_is_stored_of_a_recreated_source(sinks, events):
    """What was read since is neither made visible nor saved."""
    world = World(("a",), ("p-0",), sinks)
    member, broker = world.members["a"], world.broker
    member.events = events
    for _ in range(4):
        world.take("step", "a")
    session = member.session
    kept = (
        [path.read_bytes() for path in session._backend.store.paths()],
        dict(broker.committed),
        list(broker.outputs),
    )

    def gone():
        raise Interruption("recreated")

    session._source.confirm = gone
    for _ in range(20):
        if member.session is session:
            world.take("step", "a")
    assert member.session is not session
    found = [path.read_bytes() for path in session._backend.store.paths()], broker.committed, broker.outputs
    assert found == kept


def test_an_idle_source_is_not_confirmed():
    world = World(("a",), ("p-0",))
    for _ in range(30):
        world.take("step", "a")
    session, asked = world.members["a"].session, []
    assert session.positions == {"p-0": 60}
    world.take("save", "a")
    session._source.confirm = lambda: asked.append(1)
    for _ in range(20):
        world.take("step", "a")
    assert not asked


# ---- slow work


def slow(world, seconds):
    """Let a record take so long, by the played clock; return when outputs became visible."""
    member, visible = world.members["a"], []
    member.start()
    process, commit = member.operator.process, member.session._sinks["topics"].commit

    def taking_long(partition, records):
        world.clock[0] += seconds * len(records)
        return process(partition, records)

    def seen(positions):
        visible.append(world.clock[0])
        commit(positions)

    member.operator.process = taking_long
    member.session._sinks["topics"].commit = seen
    return visible


def test_outputs_do_not_wait_for_a_slow_batch():
    """Seventy milliseconds a record, hundreds of records a poll: transactions end within a second."""
    world = World(("a",), ("p-0", "p-1"))
    world.broker.wanted = {"p-0": "a", "p-1": "a"}
    world.broker.end = {"p-0": 1500, "p-1": 1500}
    world.members["a"].most = 400
    world.members["a"].events = 10**6
    beats = []
    visible = slow(world, 0.07)
    telemetry = world.members["a"].session._telemetry
    worked = telemetry.worked
    telemetry.worked = lambda *what: beats.append(world.clock[0]) or worked(*what)
    try:
        for _ in range(40):
            world.members["a"].step()
    finally:
        telemetry.worked = worked
    assert sum(map(len, world.members["a"].operator.seen.values())) > 500
    for times in (visible, beats):
        waits = [b - a for a, b in pairwise(times)]
        assert max(waits[2:]) < 1.0  # the first pieces find the pace
        assert max(waits) < 6.0


@pytest.mark.parametrize(("most", "waits"), [(20, 0.04), (300, 0.11)])
def test_few_outputs_become_visible_sooner_than_many(most, waits):
    """A step takes twenty milliseconds; where a poll brings much, transactions are fewer."""
    world = World(("a",), ("p-0",))
    world.broker.wanted, world.broker.end = {"p-0": "a"}, {"p-0": 10**6}
    world.members["a"].most, world.members["a"].events = most, 10**9
    visible = slow(world, 0.0)
    for _ in range(80):
        world.clock[0] += 0.02
        world.members["a"].step()
    between = [b - a for a, b in pairwise(visible)][3:]
    assert len(between) > 8
    assert all(waits - 0.021 < wait < waits + 0.021 for wait in between)


def test_a_poll_brings_no_more_than_can_be_done_in_time():
    """The group takes partitions from a member that does not poll."""
    world = World(("a",), ("p-0",))
    world.broker.end["p-0"] = 10_000
    world.members["a"].most = 10_000
    slow(world, 0.5)
    asked = []
    poll = world.members["a"].session._source.poll
    world.members["a"].session._source.poll = lambda seconds, most: asked.append(most) or poll(seconds, most)
    for _ in range(4):
        world.members["a"].step()
    assert asked[0] == 2000
    assert asked[-1] == 40


# ---- records that cannot be read


def test_records_before_an_unreadable_one_are_stored():
    """The session ends, and the next one begins behind what this one has learned."""
    world = World(("a",), ("p-0",))
    member = world.members["a"]
    member.events = 10**6
    member.start()
    for _ in range(4):
        member.session.step()
    source, done = member.session._source, member.session.positions

    def unreadable(seconds, most):
        raise UnreadableRecords("the batch at offset 15 cannot be read")

    source.poll = unreadable
    with pytest.raises(UnreadableRecords):
        member.session.step()
    assert done["p-0"] > 0
    assert member.learned()["p-0"] == [k for k in range(done["p-0"]) if k % 11 != 10]


def test_a_record_that_ends_the_run_is_the_next_one():
    """What is before it in its batch is learned and saved; it comes again when the run does."""
    world = World(("a",), ("p-0",))
    member = world.members["a"]
    member.most = 60
    member.start()
    process = member.operator.process

    def refusing(partition, records):
        stop = next((k for k, raw in enumerate(records) if raw.offset == 23), len(records))
        done = process(partition, records[:stop])
        return done._replace(failure=Failure(3, "refused") if stop < len(records) else None)

    member.operator.process = refusing
    while not member.session.positions:
        member.session.step()
    with pytest.raises(Failure, match="refused"):
        member.session.step()
    assert member.session.positions == {"p-0": 23}
    assert member.learned()["p-0"] == [k for k in range(23) if k % 11 != 10]
    assert metadata_of(world.broker.committed["p-0"]).owners == [Owner("a", 0, 23)]
