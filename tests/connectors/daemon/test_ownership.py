"""Models that share the partitions of a group, where anything may end between a checkpoint and its commit."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.daemon import ownership
from connectors.daemon.ownership import Owner, Start
from connectors.stream import Committed

END = 60
MODELS, PARTITIONS = ["a", "b", "c"], ["p-0", "p-1"]


def committed(position, *owners):
    return Committed(position, ownership.write([Owner(*t) for t in owners]))


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
    assert ownership.start("a", note, 50, 0) == Start(90, 90, ownership.read(note.note))
    assert ownership.start("a", note, None, 0) == Start(90, 90, ownership.read(note.note))


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
    ):
        assert ownership.read(note) == []
        assert ownership.start("a", Committed(40, note), None, 0) == Start(40, 40, [Owner("a", 40, 40)])
        assert ownership.start("a", Committed(40, note), 30, 0) == Start(30, 40, [Owner("a", 30, 30)])
        assert not ownership.overreaches("a", Committed(40, note), 1000)


def test_a_note_of_brackets():
    assert ownership.read("[" * 4096) == []


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


@given(st.lists(owners, max_size=60, unique_by=lambda owner: owner.model))
def test_what_is_written_is_read(owners):
    note = ownership.write(owners)
    assert len(note) <= 4096
    assert ownership.read(note) == owners[-40:]


def test_a_long_history_forgets_no_model():
    owners = [Owner("a", 0, 50)]
    for i in range(60):
        owners.append(Owner("bc"[i % 2], 50 + i, 51 + i))
    note = Committed(110, ownership.write(owners))
    assert ownership.overreaches("a", note, 52)
    assert not ownership.overreaches("a", note, 50)


# ---- simulation


class RefusedError(Exception):
    """The group does not know the member any more."""


class Group:
    """Gives partitions to members, and keeps what they commit; a member that is silent is expelled."""

    def __init__(self):
        self.members, self.owner, self.committed, self.outputs = set(), {}, {}, []

    def commit(self, name, positions):
        if name not in self.members:
            raise RefusedError
        assert {self.owner.get(p) for p in positions} <= {name}
        self.committed |= positions

    def expel(self, name):
        self.members.discard(name)
        self.owner = {p: owner for p, owner in self.owner.items() if owner != name}


class Model:
    """A process and its disk, doing what a session does; ``memory`` is by partition (position, learned)."""

    def __init__(self, name, group, emits):
        self.name, self.group, self.emits = name, group, emits
        self.disk, self.memory, self.open = [{}], None, []

    def granted(self):
        """Return the newest checkpoint that counts; those that do not are set aside."""
        while self.disk:
            claims = {p: self.group.committed.get(p) for p in self.disk[-1]}
            if not any(
                ownership.overreaches(self.name, note, self.disk[-1][p][0]) for p, note in claims.items()
            ):
                return self.disk[-1]
            self.disk.pop()
        raise AssertionError("no checkpoint can be used")

    def begin(self):
        self.memory, self.owners, self.emitted = dict(self.granted()), {}, {}

    def stop(self):
        self.memory, self.open = None, []

    def adopt(self, p):
        """As Session._assign."""
        position, learned = self.memory.get(p, (None, ()))
        position, emitted, owners = ownership.start(self.name, self.group.committed.get(p), position, 0)
        assert 0 <= position <= emitted <= END
        self.group.owner[p] = self.name
        self.group.commit(self.name, {p: Committed(emitted, ownership.write(owners))})
        self.memory[p] = position, learned
        self.owners[p], self.emitted[p] = owners, emitted

    def learn(self, p, count):
        position, learned = self.memory[p]
        done = range(position, min(position + count, END))
        self.memory[p] = done.stop, learned + tuple(done)
        if self.emits:
            self.open += [(p, offset) for offset in done if offset >= self.emitted[p]]

    def commit(self):
        positions = {
            p: Committed(max(self.memory[p][0], self.emitted[p]), ownership.write(owners))
            for p, owners in self.owners.items()
        }
        self.group.commit(self.name, positions)
        self.group.outputs += self.open
        self.open = []

    def save(self, until="told"):
        """As Session.save; it may end when the file is written, or go on without having told the group."""
        if self.open:
            self.commit()
        self.disk.append(dict(self.memory))
        if until == "written":
            self.stop()
            return
        for p, owners in self.owners.items():
            owners[-1] = owners[-1]._replace(until=self.memory[p][0])
        if until == "told":
            self.commit()
            del self.disk[:-2]


class World:
    """What may happen next, and what has."""

    def __init__(self, at_once, emits):
        self.at_once, self.group = at_once, Group()
        self.models = {name: Model(name, self.group, emits) for name in MODELS}
        self.story = []

    def possible(self):
        """Return the steps that can be taken, those that should be frequent more than once."""
        group, steps = self.group, []
        for name, model in self.models.items():
            if model.memory is None:
                steps.append(("start", name))
            else:
                steps += [("crash", name), ("written", name), ("untold", name), ("told", name)]
                steps += [("learn", name)] * 3 + [("commit", name)] * model.emits
                for p in PARTITIONS if name in group.members else ():
                    before = self.models.get(group.owner.get(p))
                    # the group waits for one that has crashed until it is expelled
                    if before is not model and (before is None or before.memory is not None):
                        steps += [("give", name, p)] * 2
            if name in group.members:
                steps.append(("expel", name))
        return steps

    def take(self, what, name, p=None):
        """Take a step; a model that is refused begins anew later."""
        self.story.append((what, name, p))
        model = self.models[name]
        try:
            if what == "start":
                self.start(model)
            elif what == "give":
                self.give(model, p)
            elif what == "expel":
                self.group.expel(name)
            elif what == "learn":
                for mine in model.owners:
                    model.learn(mine, 5)
            elif what == "commit":
                model.commit()
            elif what == "crash":
                model.stop()
            else:
                model.save(what)
        except RefusedError:
            model.stop()

    def start(self, model):
        """Read the checkpoint, then join: a member that the group has not missed gets what it had."""
        group, name = self.group, model.name
        model.begin()
        mine = [p for p, owner in group.owner.items() if owner == name]
        if self.at_once:  # nobody is quicker to take what this one was the last to have
            notes = {p: ownership.read(found.note) for p, found in group.committed.items()}
            mine += [p for p, note in notes.items() if p not in group.owner and note[-1].model == name]
        group.members.add(name)
        for p in mine:
            model.adopt(p)

    def give(self, model, p):
        """Move a partition to a member; who has it hands it over first."""
        before = self.models.get(self.group.owner.get(p))
        if before is not None:
            before.save()
            before.owners.pop(p, None)
        model.adopt(p)

    def finish(self):
        """Let everybody come back, learn to the end and save; then check the law."""
        for name, model in self.models.items():
            if model.memory is not None:
                self.take("told", name)
            if model.memory is None:
                self.group.expel(name)
        for model in self.models.values():
            if model.memory is None:
                self.start(model)
        for name, p in zip(MODELS, PARTITIONS, strict=False):
            if p not in self.group.owner:
                self.take("give", name, p)
        for model in self.models.values():
            for p in model.owners:
                model.learn(p, END)
            model.save()
        for p in PARTITIONS:
            self.check(p)

    def check(self, p):
        """Raise unless every offset is in one model that counts and was emitted once, and the note agrees."""
        learned = {name: model.granted().get(p, (0, ()))[1] for name, model in self.models.items()}
        assert sorted(sum(learned.values(), ())) == list(range(END)), (p, learned, self.story)
        if self.models["a"].emits:
            outputs = [offset for partition, offset in self.group.outputs if partition == p]
            assert sorted(outputs) == list(range(END)), (p, outputs, self.story)
        owners = ownership.read(self.group.committed[p].note)
        assert all(a.until <= b.since for a, b in pairwise(owners)), (p, owners, self.story)
        assert owners[-1].until == END
        for model, since, until in owners:
            assert {*range(since, until)} <= {*learned[model]}, (p, learned, owners, self.story)


def lived(story=(), choices=(), at_once=True, emits=True):
    world = World(at_once, emits)
    for step in story:
        assert step in world.possible()
        world.take(*step)
    for choice in choices:
        steps = world.possible()
        world.take(*steps[choice % len(steps)])
    return world


choices = st.lists(st.integers(0, 10_000), min_size=20, max_size=60)
EXPELLED = [
    ("start", "a"),
    ("give", "a", "p-0"),
    ("learn", "a"),
    ("told", "a"),
    ("learn", "a"),
    ("expel", "a"),
]
TAKEN_OVER = [("start", "b"), ("give", "b", "p-0"), ("learn", "b"), ("told", "b")]
GIVEN_BACK = [("give", "a", "p-0"), ("learn", "a"), ("told", "a")]


@settings(max_examples=300)
@given(choices, st.booleans())
def test_every_offset_is_learned_and_emitted_once(choices, emits):
    lived([], choices, emits=emits).finish()


@pytest.mark.parametrize("emits", [False, True])
def test_what_the_dead_wrote_does_not_count(emits):
    world = lived([*EXPELLED, *TAKEN_OVER, ("told", "a"), ("start", "a"), *GIVEN_BACK], emits=emits)
    assert world.models["a"].disk[-1] == {"p-0": (15, (*range(5), *range(10, 15)))}
    world.finish()


def test_nor_does_what_was_written_and_not_told():
    written = [*EXPELLED[:-1], ("written", "a"), ("expel", "a"), ("start", "a"), *TAKEN_OVER]
    lived(written, at_once=False, emits=False).finish()


@settings(max_examples=300)
@given(choices, st.booleans())
def test_every_offset_is_learned_and_emitted_once_whoever_is_quicker(choices, emits):
    lived([], choices, at_once=False, emits=emits).finish()


def test_a_commit_after_being_expelled_is_refused():
    world = lived(EXPELLED, emits=False)
    model, group = world.models["a"], world.group
    with pytest.raises(RefusedError):
        model.save()
    assert [found["p-0"][0] for found in model.disk[1:]] == [5, 10]
    assert ownership.read(group.committed["p-0"].note) == [Owner("a", 0, 5)]
    world.take("start", "b")
    world.take("give", "b", "p-0")
    model.begin()
    assert model.memory["p-0"][0] == 5
