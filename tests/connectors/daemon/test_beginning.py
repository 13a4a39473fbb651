"""Where a session begins, after what operators of brokers do: topics made anew, resets, retention, growth."""

import pytest

from connectors.daemon import ownership
from connectors.daemon.beginning import begin, require_known
from connectors.daemon.checkpoint import Progress
from connectors.daemon.ownership import Note, Owner
from connectors.errors import CHECKPOINT, POSITION, Failure
from connectors.sections import StartPolicy
from connectors.stream import Assigned, Committed

from .world import World, committed

OLD, NEW = "t0", "t1"


def never():
    raise AssertionError("the group need not be asked")


def assigned(found=None, first=0, end=300, identity=NEW, number=0, siblings=1):
    return Assigned("p-0", found, first, end, identity, number, siblings)


def begins(found=None, saved=None, expired="fail", start="earliest", before=never, **there):
    """Return position and emitted, and the owners."""
    progress = None if saved is None else Progress(*saved)
    position, emitted, note = begin(
        "a", assigned(found, **there), progress, before, StartPolicy(start, expired)
    )
    assert note.identity == there.get("identity", NEW)
    return position, emitted, note.owners


def refused(code, words, *arguments, **named):
    with pytest.raises(Failure, match=words) as raised:
        begins(*arguments, **named)
    assert raised.value.code == code


# ---- another topic of the same name


@pytest.mark.parametrize("found", [None, committed(40, ("a", 0, 40), identity=OLD)])
def test_a_topic_made_anew(found):
    """Neither its checkpoint nor an old note of the group may say where to go on."""
    for saved in ((100, OLD), (1000, OLD)):
        refused(POSITION, r"deleted and made anew, or this is another cluster \(t1, not t0\)", found, saved)
        assert begins(found, saved, "earliest", first=5) == (5, 5, [Owner("a", 5, 5)])
        assert begins(found, saved, "latest", first=5) == (300, 300, [Owner("a", 300, 300)])


def test_an_old_note_alone():
    note = committed(40, ("b", 0, 40), identity=OLD)
    refused(POSITION, "made anew", note)
    assert begins(note, None, "earliest") == (0, 0, [Owner("a", 0, 0)])


def test_others_of_the_group_have_begun_with_the_new_topic():
    note = committed(70, ("b", 0, 50), identity=NEW)
    assert begins(note, (1000, OLD), "earliest") == (50, 70, [Owner("b", 0, 50), Owner("a", 50, 50)])


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
    with pytest.raises(Failure, match="made anew"):
        member.start().step()
    assert not list(member.session._keeping.store.directory.glob("*not-granted"))


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
    note = committed(200, ("a", 0, 100))
    for identity in (NEW, ""):
        refused(POSITION, r"holds 150 to 299, and the next event to read is 100, with predictions up to 199",
                note, (100, identity), first=150)  # fmt: skip
    assert begins(note, (100, NEW), "earliest", first=150) == (150, 200, [Owner("a", 150, 150)])
    assert begins(note, (100, NEW), "latest", first=150) == (300, 300, [Owner("a", 300, 300)])
    assert begins(note, (100, NEW), "earliest", first=250) == (250, 250, [Owner("a", 250, 250)])


def test_a_log_that_the_broker_lost_the_end_of():
    note = committed(400, ("a", 0, 350))
    refused(POSITION, "lost by the broker", note, (350, NEW))
    for policy in ("earliest", "latest"):
        assert begins(note, (350, NEW), policy) == (300, 300, [Owner("a", 300, 300)])
        # events that come anew have offsets whose predictions were written for others
        assert begins(committed(400, ("a", 0, 290)), (290, NEW), policy) == (290, 300, [Owner("a", 0, 290)])


def test_a_partition_whose_events_are_all_gone():
    note = committed(100, ("a", 0, 100))
    refused(POSITION, "is empty, and begins at 300", note, (100, NEW), first=300)
    assert begins(note, (100, NEW), "earliest", first=300)[:2] == (300, 300)


# ---- partitions that are added


def latest(before, number, found=None, saved=None):
    return begins(found, saved, start="latest", before=lambda: before, number=number, siblings=4)[0]


def test_latest_is_for_who_knows_nothing():
    assert [latest(None, number) for number in range(4)] == [300] * 4
    # another member of the group began with all four a moment ago
    assert [latest(4, number) for number in range(4)] == [300] * 4


def test_a_partition_that_appears_beside_known_ones_begins_at_its_first_event():
    assert [latest(3, number) for number in range(4)] == [300, 300, 300, 0]
    assert [latest(0, number) for number in range(4)] == [0] * 4  # the group was forgotten, the model knows
    assert latest(3, 3, saved=(40, NEW)) == 40
    assert begin("a", assigned(siblings=4), None, lambda: 3, StartPolicy("latest")).note.siblings == 3
    assert begin("a", assigned(siblings=4), None, lambda: None, StartPolicy("latest")).note.siblings == 4


def test_notes_keep_how_many_there_were():
    note = committed(70, ("a", 0, 50), siblings=2)
    assert (
        begin("a", assigned(note, siblings=5, identity="t1"), None, never, StartPolicy()).note.siblings == 2
    )


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


def required(note, alone=True, blank=False, first=0):
    require_known(
        "a", assigned(note, first=first), lambda: alone, StartPolicy(blank=blank), "nothing is known"
    )


def test_a_model_that_knows_nothing_of_what_its_group_has_read():
    note = committed(70, ("b", 0, 50))
    with pytest.raises(Failure, match=r"has read up to 50, and nothing is known; .* --blank") as raised:
        required(note)
    assert raised.value.code == CHECKPOINT
    required(note, alone=False)  # it joins others
    required(note, blank=True)
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
    with pytest.raises(Failure, match="knows nothing of it"):
        world.take("step", "b")
    note = ownership.read(world.broker.committed["p-0"].note)
    assert [owner.model for owner in note.owners] == ["a"]
    assert note != Note([])
