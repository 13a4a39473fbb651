"""A world for real sessions: a group, members that come and go, and a crash between any two effects.

What is real: the session, where it begins, the notes and the checkpoints on disk. What is played: brokers,
which give partitions, keep what is committed and refuse who is no longer in the group; a transactional sink;
an operator that remembers which offsets it has seen.
"""

import atexit
import json
import shutil
import tempfile
from itertools import chain, pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.contract.errors import Interruption
from connectors.contract.records import (
    MOST,
    PREDICTIONS,
    Assigned,
    Committed,
    Endpoints,
    Output,
    Polled,
    Processed,
    Raw,
    RawBatch,
    Sink,
    Source,
    Tally,
)
from connectors.contract.sections import StartPolicy
from connectors.daemon.session import Session
from connectors.daemon.telemetry import Telemetry
from connectors.settings.tables import Checkpoints
from connectors.state.disk import CheckpointStore, DiskBackend
from connectors.state.positions import (
    OffsetMetadata,
    Owner,
    encode_metadata,
    exceeds_commit,
    metadata_of,
)

CHOICES = st.lists(st.integers(0, 10_000), min_size=20, max_size=80)  # of what happens next
HISTORIES = [50, pytest.param(1000, marks=pytest.mark.long)]  # how many of them

BLANK = StartPolicy(blank=True, group="g", digest="d1")
DISKS = tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
atexit.register(DISKS.cleanup)


def try_histories(count, check):
    """Call ``check`` with so many random choices of what happens next."""
    settings(max_examples=count)(given(CHOICES)(check))()


class CrashError(BaseException):
    """The process is no more."""


class Broker:
    """One group, one topic: it gives partitions, and keeps records, positions and what was emitted."""

    def __init__(self, partitions, end=60, identity="t1"):
        self.identity = identity
        self.first = dict.fromkeys(partitions, 0)
        self.end = dict.fromkeys(partitions, end)
        self.members, self.owner, self.wanted = set(), {}, {}
        self.committed, self.outputs = {}, []

    def require(self, name, positions=()):
        if name not in self.members:
            raise Interruption("the group has given the partitions to others")
        assert {self.owner.get(p) for p in positions} <= {name}, "committed what belongs to another"

    def expel(self, name):
        self.members.discard(name)
        self.owner = {p: owner for p, owner in self.owner.items() if owner != name}


class Member:
    """A process: its disk stays, its memory goes with every crash."""

    def __init__(self, name, broker, clock, policy=BLANK, sinks=True, events=7, most=5):
        self.name, self.broker, self.clock, self.policy = name, broker, clock, policy
        self.directory = Path(tempfile.mkdtemp(dir=DISKS.name))
        self.sinks, self.events, self.most = sinks, events, most
        self.session, self.until_crash, self.effects = None, None, []
        self.telemetry = Telemetry(classes=False)

    def effect(self, name):
        """Have an effect on the world, unless the process ends before it."""
        self.effects.append(name)
        if self.until_crash is not None:
            self.until_crash -= 1
            if self.until_crash < 0:
                self.until_crash = None
                raise CrashError

    def start(self):
        store = CountedStore(self)
        store.model = self.name
        source = PlayedSource(self)
        sinks = {"topics": PlayedSink(self)} if self.sinks else {}
        checkpoints = Checkpoints(directory=store.directory, events=self.events, seconds=3.0)
        self.operator = Remembering()
        backend = DiskBackend(self.operator, store, source, sinks)
        self.session = Session(
            backend, Endpoints(source, sinks), self.telemetry, checkpoints, self.policy,
            lambda: self.clock[0],
        )  # fmt: skip
        return self.session

    def step(self):
        """Go once round the loop; a crash or an interruption ends the session."""
        try:
            if self.session is None:
                self.start()
            self.session.step()
        except (CrashError, Interruption):
            self.end()

    def end(self):
        """Let the session be no more; its telemetry lasts, as in a process that begins another session."""
        self.session = None
        self.telemetry.restarted()

    def save(self):
        try:
            if self.session is not None:
                self.session.save()
        except (CrashError, Interruption):
            self.end()

    def learned(self):
        """Return what the checkpoint that would count has learned, by partition."""
        checkpoint = CountedStore(self).newest(
            lambda found: (
                not any(
                    exceeds_commit(self.name, self.broker.committed.get(p), at.position, at.identity)
                    for p, at in found.partitions.items()
                )
            )
        )
        return {} if checkpoint is None else json.loads(checkpoint.parts.get("seen", b"{}"))


class CountedStore(CheckpointStore):
    """The real store, of which every write and every pruning is an effect."""

    def __init__(self, member):
        super().__init__(member.directory)
        self._member = member

    def write(self, checkpoint):
        self._member.effect("write")
        size = super().write(checkpoint)
        self._member.effect("written")
        return size

    def prune(self):
        self._member.effect("prune")
        super().prune()


class Remembering:
    """Learns which offsets it has seen, in order."""

    def __init__(self):
        self.seen = {}

    def process(self, partition, records):
        self.seen.setdefault(partition, []).extend(raw.offset for raw in records)
        outputs = [Output(PREDICTIONS, partition, raw, b"") for raw in records]
        return Processed(outputs, Tally(learned=len(records)), len(records))

    def snapshot(self):
        return {"seen": json.dumps(self.seen).encode()}

    def restore(self, parts):
        self.seen = json.loads(parts["seen"])


class PlayedSource(Source):
    """A member's consumer; ``gap`` offsets are markers of transactions, and no records."""

    name = "t"

    def __init__(self, member):
        self._member, self._broker = member, member.broker
        self._at, self._leaving = {}, ()
        member.effect("join")
        self._broker.members.add(member.name)

    def poll(self, seconds, most=MOST):
        broker, name = self._broker, self._member.name
        broker.require(name)
        for p in self._leaving:  # it was told at the poll before, and has had its time
            self._at.pop(p, None)
            if broker.owner.get(p) == name:
                del broker.owner[p]
        mine = {p for p, owner in broker.owner.items() if owner == name}
        self._leaving = [p for p in self._at if broker.wanted.get(p, name) != name]
        for p in broker.end:
            if p not in broker.owner and broker.wanted.get(p) == name:
                broker.owner[p] = name
                mine.add(p)
        batches = {}
        for p, at in self._at.items():
            until = min(at + min(self._member.most, most), broker.end[p])
            if until > at:
                records = [
                    Raw(k, b"%d" % k, timestamp=1000 * k)
                    for k in range(max(at, broker.first[p]), until)
                    if k % 11 != 10
                ]
                batches[p] = RawBatch(records, until)
                self._at[p] = until
        unbegun = sorted(mine - self._at.keys())
        assigned = [
            Assigned(
                p, broker.committed.get(p), broker.first[p], broker.end[p], broker.identity,
                int(p.rpartition("-")[2]), len(broker.end),
            )
            for p in unbegun
        ]  # fmt: skip
        return Polled(batches, assigned, [p for p in self._leaving if p in self._at])

    def begin(self, partition, position):
        self._at[partition] = position

    def committed(self, partitions):
        return {p: self._broker.committed[p] for p in partitions if p in self._broker.committed}

    def commit(self, positions):
        if not positions:
            return True
        self._member.effect("tell")
        if self._broker.owner.keys() & positions.keys() != positions.keys():
            self._broker.require(self._member.name)
            return False
        self._broker.require(self._member.name, positions)
        self._broker.committed |= positions
        self._member.effect("told")
        return True

    def partitions(self):
        return list(self._broker.end)

    def alone(self):
        return self._broker.members <= {self._member.name}

    def ends(self):
        return dict(self._broker.end)

    def close(self, leaving):
        pass


class PlayedSink(Sink):
    """Outputs and positions become visible together, or not at all."""

    def __init__(self, member):
        self._member, self._open, self._emitted = member, [], {}

    def begin(self, partition, emitted, recreated=False):
        self._emitted[partition] = emitted

    def write(self, outputs):
        self._open += [
            (o.partition, o.raw.offset) for o in outputs if o.raw.offset >= self._emitted[o.partition]
        ]
        return 0

    def commit(self, positions):
        if not self._open:
            return False
        self._member.effect("commit")
        self._member.broker.require(self._member.name, positions)
        self._member.broker.committed |= positions
        self._member.broker.outputs += self._open
        self._open = []
        self._member.effect("committed")
        return True

    def close(self):
        self._open = []


class World:
    """Members of one group, and a story that happens to them."""

    def __init__(self, names=("a", "b", "c"), partitions=("p-0", "p-1"), sinks=True):
        self.clock, self.story = [0.0], []
        self.broker = Broker(partitions)
        self.members = {name: Member(name, self.broker, self.clock, sinks=sinks) for name in names}
        self.broker.wanted = dict(zip(partitions, names, strict=False))

    def choices(self):
        """Return what may happen next, what should be frequent more than once."""
        steps = []
        for name, member in self.members.items():
            steps += [("step", name, None)] * 6 + [("expel", name, None)] + [("save", name, None)]
            if member.session is not None:
                steps += [("crash", name, None)] + [("arm", name, k) for k in range(6)]
            steps += [("want", name, p) for p in self.broker.end]
        return steps

    def take(self, what, name, detail=None):
        self.story.append((what, name, detail))
        self.clock[0] += 0.06 if len(self.story) % 5 else 1.0
        member = self.members[name]
        if what == "step":
            member.step()
        elif what == "save":
            member.save()
        elif what == "expel":
            self.broker.expel(name)
        elif what == "crash":
            member.end()
        elif what == "arm":
            member.until_crash = detail
        else:
            self.broker.wanted[detail] = name

    def live(self, choices):
        for choice in choices:
            steps = self.choices()
            self.take(*steps[choice % len(steps)])
        return self

    def finish(self):
        """Let everybody come back and read to the end; then check the law."""
        for member in self.members.values():
            member.until_crash = None
            if member.session is None:
                self.broker.expel(member.name)
        for _ in range(80):
            for member in self.members.values():
                self.take("step", member.name)
        for member in self.members.values():
            self.take("save", member.name)
        for p in self.broker.end:
            self.check(p)
        for member in self.members.values():
            shutil.rmtree(member.directory)

    def check(self, p):
        """Raise unless every record is in one model that counts and was emitted once, and the note agrees."""
        events = [k for k in range(self.broker.end[p]) if k % 11 != 10]
        learned = {name: member.learned().get(p, []) for name, member in self.members.items()}
        assert sorted(chain.from_iterable(learned.values())) == events, (p, learned, self.story)
        assert all(found == sorted(found) for found in learned.values())
        if next(iter(self.members.values())).sinks:
            emitted = sorted(offset for partition, offset in self.broker.outputs if partition == p)
            assert emitted == events, (p, emitted, self.story)
        owners = metadata_of(self.broker.committed[p]).owners
        assert all(a.until <= b.since for a, b in pairwise(owners)), (p, owners, self.story)
        assert owners[-1].until == self.broker.end[p], (p, owners, self.story)
        for model, since, until in owners:
            missing = {k for k in range(since, until) if k % 11 != 10} - {*learned[model]}
            assert not missing, (p, learned, owners, self.story)


def committed(position, *owners, identity="t1", partition_count=1):
    """Return a position with a note."""
    note = OffsetMetadata([Owner(*owner) for owner in owners], identity, partition_count)
    return Committed(position, encode_metadata(note))
