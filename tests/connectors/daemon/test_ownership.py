"""The notes that go with positions: what they say, and what follows for who begins."""

from hypothesis import given
from hypothesis import strategies as st

from connectors.daemon import ownership
from connectors.daemon.ownership import Note, Owner, Start
from connectors.stream import Committed

from .world import committed

# ---- examples


def test_nobody_has_read_the_partition():
    assert ownership.start("a", None, None, 7) == Start(7, 7, [Owner("a", 7, 7)])
    assert ownership.start("a", None, 30, 7) == Start(30, 30, [Owner("a", 30, 30)])


def test_the_owner_comes_back():
    note = committed(70, ("a", 0, 50))
    assert ownership.start("a", note, 50, 0) == Start(50, 70, [Owner("a", 0, 50)])
    # its newest checkpoint was damaged, or written without being told
    assert ownership.start("a", note, 30, 0) == Start(30, 70, [Owner("a", 0, 30)])
    assert ownership.start("a", note, 80, 0) == Start(80, 80, [Owner("a", 0, 80)])
    # its directory was lost
    assert ownership.start("a", note, None, 0) == Start(0, 70, [Owner("a", 0, 0)])


def test_another_takes_over():
    note = committed(70, ("a", 0, 50))
    both = [Owner("a", 0, 50), Owner("b", 50, 50)]
    assert ownership.start("b", note, None, 0) == Start(50, 70, both)
    assert ownership.start("b", note, 20, 0) == Start(50, 70, both)


def test_never_before_its_own_owner():
    note = committed(90, ("a", 0, 50), ("b", 50, 90), ("a", 90, 90))
    assert ownership.start("a", note, 50, 0) == Start(90, 90, ownership.read(note.note).owners)
    assert ownership.start("a", note, None, 0) == Start(90, 90, ownership.read(note.note).owners)


def test_another_program_committed():
    for note in (
        "",
        "theirs",
        '{"a": 1}',
        "[1]",
        '[["a",0]]',
        '[["a",0,"1"]]',
        "[[1,0,1]]",
        "null",
        "[null]",
        "[]",
        '["t1"]',
        '[1,"t1"]',
        '["t1",1,["a",0]]',
        '["t1",1,["a",0,"1"]]',
        '["t1",1,[1,0,1]]',
        '["t1",1,null]',
        '["t1","1",["a",0,1]]',
        '[null,1,["a",0,1]]',
    ):
        assert ownership.read(note) == Note([])
        assert ownership.start("a", Committed(40, note), None, 0) == Start(40, 40, [Owner("a", 40, 40)])
        assert ownership.start("a", Committed(40, note), 30, 0) == Start(30, 40, [Owner("a", 30, 30)])
        assert not ownership.overreaches("a", Committed(40, note), 1000)


def test_a_note_of_brackets():
    assert ownership.read("[" * 4096) == Note([])


def test_overreaching():
    note = committed(90, ("a", 0, 50), ("b", 50, 90))
    assert ownership.overreaches("a", note, 51)
    assert not ownership.overreaches("a", note, 50)
    assert not ownership.overreaches("b", note, 90)
    assert not ownership.overreaches("c", note, 1000)
    assert not ownership.overreaches("a", None, 51)
    again = committed(99, ("a", 0, 50), ("b", 50, 90), ("a", 90, 95), ("b", 95, 99))
    assert ownership.overreaches("a", again, 96)
    assert not ownership.overreaches("a", again, 95)


names = st.text("0123456789abcdef", min_size=12, max_size=12)
owners = st.builds(Owner, names, st.integers(0, 2**63), st.integers(0, 2**63))


@given(st.lists(owners, max_size=60, unique_by=lambda owner: owner.model), st.integers(0, 10**6))
def test_what_is_written_is_read(owners, siblings):
    identity = "XnT2aVQpTL2cqDYuqh3vHA/" + 32 * "f"
    note = ownership.write(Note(owners, identity, siblings))
    assert len(note) <= 4096
    assert ownership.read(note) == Note(owners[-40:], identity, siblings)


def test_the_oldest_of_too_many_owners_are_left_out():
    owners = [Owner(f"{k:012x}", 10 * k, 10 * k + 10) for k in range(60)]
    note = ownership.write(Note(owners, "t1", 3))
    assert ownership.read(note).owners == owners[-40:]
    assert ownership.start("b", Committed(700, note), None, 0).position == 600


def test_a_long_history_forgets_no_model():
    owners = [Owner("a", 0, 50)]
    for i in range(60):
        owners.append(Owner("bc"[i % 2], 50 + i, 51 + i))
    note = Committed(110, ownership.write(Note(owners)))
    assert ownership.overreaches("a", note, 52)
    assert not ownership.overreaches("a", note, 50)


def test_a_topic_made_anew_grants_nothing_and_refuses_nothing():
    note = committed(90, ("a", 0, 50), identity="c/2")
    assert ownership.overreaches("a", note, 60, "c/2")
    assert ownership.overreaches("a", note, 60, "")
    assert not ownership.overreaches("a", note, 60, "c/1")
