"""Where a session begins, after what operators of brokers do: topics recreated, resets, retention, growth."""

import pytest

from connectors.contract.errors import CHECKPOINT, POSITION, Failure
from connectors.contract.records import Assigned, Committed
from connectors.contract.sections import StartPolicy
from connectors.state.checkpoint import Progress
from connectors.state.positions import (
    OffsetMetadata,
    Owner,
    find_start,
    metadata_of,
    require_read_before,
)

from .world import World, committed

OLD, NEW = "t0", "t1"


def never():
    raise AssertionError("the group need not be asked")


def assigned(found=None, first=0, end=300, identity=NEW, number=0, partition_count=1):
    return Assigned("p-0", found, first, end, identity, number, partition_count)


def begins(found=None, saved=None, expired="fail", start="earliest", before=never, **there):
    """Return position and emitted, and the owners."""
    progress = None if saved is None else Progress(*saved)
    start, metadata = find_start("a", assigned(found, **there), progress, before, StartPolicy(start, expired))
    assert metadata.identity == there.get("identity", NEW)
    assert metadata.owners == start.owners
    return tuple(start)


def refused(code, words, *arguments, **named):
    with pytest.raises(Failure, match=words) as raised:
        begins(*arguments, **named)
    assert raised.value.code == code


# ---- another topic of the same name


@pytest.mark.parametrize("found", [None, committed(40, ("a", 0, 40), identity=OLD)])
def test_a_recreated_topic(found):
    """Neither its checkpoint nor an old metadata of the group may say where to go on."""
    for saved in ((100, OLD), (1000, OLD)):
        refused(POSITION, r"deleted and recreated, or this is another cluster \(t1, not t0\)", found, saved)
        assert begins(found, saved, "earliest", first=5) == (5, 5, [Owner("a", 5, 5)])
        assert begins(found, saved, "latest", first=5) == (300, 300, [Owner("a", 300, 300)])


def test_old_metadata_alone():
    metadata = committed(40, ("b", 0, 40), identity=OLD)
    refused(POSITION, "recreated", metadata)
    assert begins(metadata, None, "earliest") == (0, 0, [Owner("a", 0, 0)])


def test_others_of_the_group_have_begun_with_the_new_topic():
    metadata = committed(70, ("b", 0, 50), identity=NEW)
    assert begins(metadata, (1000, OLD), "earliest") == (50, 70, [Owner("b", 0, 50), Owner("a", 50, 50)])


def test_what_is_not_known_is_no_other():
    assert begins(committed(70, ("a", 0, 50), identity=""), (50, ""))[:2] == (50, 70)
    assert begins(committed(70, ("a", 0, 50), identity=OLD), (50, OLD), identity="")[:2] == (50, 70)


def test_a_checkpoint_of_the_old_topic_is_not_set_aside():
    """Its positions may be beyond what the group was told of the new topic."""
    world = World(("a",), ("p-0",), False)
    for _ in range(8):
        world.take("step", "a")
    world.take("save", "a")
    member = world.members["a"]
    member.session = None
    world.broker.identity, world.broker.end["p-0"] = "t2", 20
    world.broker.committed = {"p-0": committed(3, ("a", 0, 3), identity="t2")}
    with pytest.raises(Failure, match="recreated"):
        member.start().step()
    assert not list(member.session._backend.store.directory.glob("*not-granted"))


# ---- positions set from outside


@pytest.mark.parametrize("position", [10, 200])
def test_a_reset_from_outside(position):
    words = (
        rf"set to {position} from outside, and this model has read up to 100\. `streamk reset SETTINGS --to "
    )
    refused(POSITION, words + "group`", Committed(position, ""), (100, NEW))
    refused(POSITION, words, Committed(position, "another program's"), (100, NEW), "earliest")


def test_a_reset_before_the_first_start_is_where_it_begins():
    assert begins(Committed(120, "")) == (120, 120, [Owner("a", 120, 120)])
    assert begins(Committed(100, ""), (100, NEW)) == (100, 100, [Owner("a", 100, 100)])


# ---- events that are gone


def test_what_was_emitted_stays_emitted():
    """A crash left the checkpoint at 100 and predictions up to 200; events below 150 have expired since."""
    metadata = committed(200, ("a", 0, 100))
    for identity in (NEW, ""):
        refused(POSITION, r"holds 150 to 299, and the next event to read is 100, with predictions up to 199",
                metadata, (100, identity), first=150)  # fmt: skip
    assert begins(metadata, (100, NEW), "earliest", first=150) == (150, 200, [Owner("a", 150, 150)])
    assert begins(metadata, (100, NEW), "latest", first=150) == (300, 300, [Owner("a", 300, 300)])
    assert begins(metadata, (100, NEW), "earliest", first=250) == (250, 250, [Owner("a", 250, 250)])


def test_a_log_that_the_broker_lost_the_end_of():
    metadata = committed(400, ("a", 0, 350))
    refused(POSITION, "lost by the broker", metadata, (350, NEW))
    for policy in ("earliest", "latest"):
        assert begins(metadata, (350, NEW), policy) == (300, 300, [Owner("a", 300, 300)])
        # events that come anew have offsets whose predictions were written for others
        assert begins(committed(400, ("a", 0, 290)), (290, NEW), policy) == (290, 300, [Owner("a", 0, 290)])


def test_a_partition_whose_events_are_all_gone():
    metadata = committed(100, ("a", 0, 100))
    refused(POSITION, "is empty, and starts at 300", metadata, (100, NEW), first=300)
    assert begins(metadata, (100, NEW), "earliest", first=300)[:2] == (300, 300)


# ---- partitions that are added


def latest(before, number, found=None, saved=None):
    return begins(found, saved, start="latest", before=lambda: before, number=number, partition_count=4)[0]


def test_latest_applies_to_models_without_positions():
    assert [latest(None, number) for number in range(4)] == [300] * 4
    # another member of the group began with all four a moment ago
    assert [latest(4, number) for number in range(4)] == [300] * 4


def test_an_added_partition_starts_at_its_first_event():
    assert [latest(3, number) for number in range(4)] == [300, 300, 300, 0]
    assert [latest(0, number) for number in range(4)] == [0] * 4  # the group was forgotten, the model knows
    assert latest(3, 3, saved=(40, NEW)) == 40
    for before, expected in ((3, 3), (None, 4)):
        found = assigned(partition_count=4)
        _, metadata = find_start("a", found, None, lambda before=before: before, StartPolicy("latest"))
        assert metadata.partition_count == expected


def test_metadata_stores_the_number_of_partitions():
    metadata = committed(70, ("a", 0, 50), partition_count=2)
    found = assigned(metadata, partition_count=5, identity="t1")
    assert find_start("a", found, None, never, StartPolicy())[1].partition_count == 2


def test_a_partition_added_to_a_topic_that_is_read_from_its_end():
    world = World(("a",), ("p-0",), False)
    member = world.members["a"]
    member.policy = StartPolicy("latest")
    for _ in range(4):
        world.take("step", "a")
    assert member.session.positions == {"p-0": 60}
    world.broker.first["p-1"], world.broker.end["p-1"], world.broker.wanted["p-1"] = 0, 9, "a"
    for _ in range(4):
        world.take("step", "a")
    assert member.operator.seen["p-1"] == list(range(9))


# ---- a directory of checkpoints that is lost


def required(metadata, alone=True, blank=False, first=0):
    require_read_before(
        "a", assigned(metadata, first=first), lambda: alone, StartPolicy(blank=blank), "nothing is known"
    )


def test_a_model_without_events_in_a_group_that_has_read():
    metadata = committed(70, ("b", 0, 50))
    with pytest.raises(Failure, match=r"has read up to 50, and nothing is known; .* --blank") as raised:
        required(metadata)
    assert raised.value.code == CHECKPOINT
    required(metadata, alone=False)  # it joins others
    required(metadata, blank=True)
    required(committed(70, ("a", 0, 50), ("b", 50, 60)))  # it was one of them
    required(Committed(70, ""))  # another program's group
    required(None)
    required(committed(5, ("b", 5, 5)), first=5)  # nothing was learned


def test_a_lost_directory_ends_the_session():
    world = World(("a", "b"), ("p-0",), False)
    world.members["b"].policy = StartPolicy()
    for _ in range(4):
        world.take("step", "a")
    world.take("save", "a")
    world.broker.wanted["p-0"] = "b"
    world.take("expel", "a")
    with pytest.raises(Failure, match="holds nothing of it"):
        world.take("step", "b")
    metadata = metadata_of(world.broker.committed["p-0"])
    assert [owner.model for owner in metadata.owners] == ["a"]
    assert metadata != OffsetMetadata([])
