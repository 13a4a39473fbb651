"""Models that move with their partitions, in a played world: each knows every event once, in order."""

import pytest

from connectors.contract.errors import CHECKPOINT, POSITION, Failure
from connectors.contract.records import Committed
from connectors.contract.sections import StartPolicy
from connectors.state.checkpoint import Checkpoint, Progress
from connectors.state.disk import CheckpointStore, require_no_checkpoints
from connectors.state.positions import (
    OffsetMetadata,
    Owner,
    metadata_of,
)

from .topic_world import BoundWorld
from .world import HISTORIES, committed, try_histories

MINE = "topic models"


@pytest.mark.parametrize("count", HISTORIES)
def test_every_record_is_in_the_partitions_model_once(count):
    try_histories(count, lambda choices: BoundWorld().live(choices).finish())


@pytest.mark.parametrize("k", range(24))
def test_a_crash_before_any_effect(k):
    world = BoundWorld(("a", "b"), ("p-0",))
    world.members["a"].until_crash = k
    for _ in range(16):
        world.take("step", "a")
    world.finish()


@pytest.mark.parametrize("k", range(10))
def test_a_crash_while_a_partition_is_handed_over(k):
    world = BoundWorld(("a", "b"), ("p-0",))
    for _ in range(6):
        world.take("step", "a")
    world.take("want", "b", "p-0")
    world.members["a"].until_crash = k
    for _ in range(4):
        world.take("step", "a")
        world.take("step", "b")
    world.finish()


def begun(steps=8, **options):
    """Return a world where ``a`` has learned some of its only partition, and has ended."""
    world = BoundWorld(("a", "b"), ("p-0",), **options)
    for _ in range(steps):
        world.take("step", "a")
    world.take("save", "a")
    world.members["a"].session = None
    world.broker.expel("a")
    world.broker.wanted["p-0"] = "b"
    return world


def steps(world, count):
    for _ in range(count):
        world.take("step", "b")


def test_a_snapshot_that_cannot_be_seen_yet_is_waited_for():
    """The group says that it is there: to begin without it would learn its events twice."""
    world = begun()
    world.broker.stable = {"p-0": 1}
    member = world.members["b"]
    for _ in range(20):
        member.step()
    assert member.session.positions == {}
    world.show()
    member.step()
    until = metadata_of(world.broker.committed["p-0"]).owners[-1].until
    assert member.session.positions == {"p-0": until}
    world.finish()


def test_where_the_note_names_none_everything_there_must_be_seen():
    """A position that was reset goes back, and an older snapshot goes further."""
    world = begun()
    log = world.broker.snapshots["p-0"]
    snapshot = Checkpoint.unpack(log[-1], "it")
    snapshot.partitions["p-0"].position = 3
    log.append(snapshot.pack())
    world.broker.committed["p-0"] = committed(3, (MINE, 3, 3))
    member = world.members["b"]
    for _ in range(5):
        member.step()
    assert member.session.positions == {}
    world.show()
    member.step()
    assert member.session.positions == {"p-0": 3}


def test_a_snapshot_that_is_lost_ends_the_run():
    world = begun()
    until = metadata_of(world.broker.committed["p-0"]).owners[-1].until
    world.broker.snapshots = {}
    world.show()
    with pytest.raises(Failure, match=rf"up to {until}, and none is there\. Put .* --blank") as raised:
        steps(world, 3)
    assert raised.value.code == CHECKPOINT


def test_a_lost_snapshot_is_let_go_by_who_asks_for_it():
    world = begun(policy=StartPolicy(blank=True))
    until = metadata_of(world.broker.committed["p-0"]).owners[-1].until
    world.broker.snapshots = {}
    world.show()
    for _ in range(40):
        world.take("step", "b")
    world.take("save", "b")
    assert world.seen("p-0") == [k for k in range(until, 60) if k % 11 != 10]


def test_a_snapshot_that_is_older_than_the_group_says():
    """A copy of the topic was put back: never begun in silence."""
    world = begun()
    del world.broker.snapshots["p-0"][-1:]
    world.show()
    with pytest.raises(Failure, match=r"the newest there goes up to .* reset SETTINGS --to checkpoint"):
        steps(world, 3)


def test_events_of_a_lost_snapshot_end_the_run():
    """The group was one of daemons with a model each."""
    world = begun()
    world.broker.snapshots, world.broker.committed = {}, {"p-0": committed(40, ("77c2", 0, 40))}
    world.show()
    with pytest.raises(Failure, match="no snapshot in models holds it"):
        steps(world, 3)


def test_every_group_has_snapshots_of_its_own():
    world = begun()
    snapshot = Checkpoint.unpack(world.broker.snapshots["p-0"][-1], "it")
    snapshot.source_mark = "another"
    world.broker.snapshots["p-0"].append(snapshot.pack())
    world.show()
    with pytest.raises(Failure, match="belongs to the group 'another'"):
        steps(world, 3)


def test_a_transaction_that_stays_open_ends_the_session():
    """Not the process: the next session waits again, and limits.restarts counts."""
    world = begun()
    world.broker.stable = {}
    member = world.members["b"]
    member.step()
    session = member.session
    for _ in range(20):
        member.step()
    assert member.session is session
    world.clock[0] += 1000.0
    member.step()
    assert member.session is None


def test_a_position_set_from_outside():
    world = begun()
    world.broker.committed["p-0"] = Committed(1, "")
    world.show()
    with pytest.raises(Failure, match="set to 1 from outside") as raised:
        steps(world, 3)
    assert raised.value.code == POSITION


def test_a_recreated_topic_is_learned_by_the_old_model():
    world = begun(policy=StartPolicy(expired="earliest"))
    old = world.seen("p-0")
    world.broker.identity, world.broker.end["p-0"], world.broker.committed = "t2", 20, {}
    for _ in range(20):
        world.take("step", "b")
    world.take("save", "b")
    assert world.seen("p-0") == old + [k for k in range(20) if k % 11 != 10]
    assert metadata_of(world.broker.committed["p-0"]) == OffsetMetadata([Owner(MINE, 0, 20)], "t2", 1)


def test_only_partitions_that_advanced_are_written():
    world = BoundWorld(("a",), ("p-0", "p-1"))
    world.broker.wanted = {"p-0": "a", "p-1": "a"}
    for _ in range(30):
        world.take("step", "a")
    world.take("save", "a")
    before = {p: len(log) for p, log in world.broker.snapshots.items()}
    world.broker.end["p-1"] = 70
    for _ in range(10):
        world.take("step", "a")
    world.take("save", "a")
    after = {p: len(log) for p, log in world.broker.snapshots.items()}
    assert after["p-0"] == before["p-0"]
    assert after["p-1"] > before["p-1"]


def test_a_revoked_partition_is_forgotten():
    world = BoundWorld(("a", "b"), ("p-0", "p-1"))
    world.broker.wanted = {"p-0": "a", "p-1": "a"}
    for _ in range(10):
        world.take("step", "a")
    world.broker.wanted["p-1"] = "b"
    for _ in range(10):
        world.take("step", "a")
        world.take("step", "b")
    assert set(world.members["a"].operator.seen) == {"p-0"}
    assert set(world.members["b"].operator.seen) == {"p-1"}
    world.finish()


def test_a_directory_of_checkpoints_is_another_thing(tmp_path):
    with CheckpointStore(tmp_path).locked() as store:
        require_no_checkpoints(store)
        store.write(Checkpoint("t", {}, {"p-0": Progress(3)}))
        with pytest.raises(Failure, match="holds checkpoints of one model") as raised:
            require_no_checkpoints(store)
    assert raised.value.code == CHECKPOINT
