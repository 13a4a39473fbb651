"""The played world where what is known of a partition is kept in a topic.

Besides what may happen in :mod:`.world`, transactions become visible late: what was committed is in the
topic, and readers see it some time after, as behind another's open transaction.
"""

import json

from connectors.contract.records import PREDICTIONS, Endpoints, Output, Processed, Tally
from connectors.contract.sections import StartPolicy
from connectors.daemon.session import Session
from connectors.kafka.sections import TopicSourceSection
from connectors.settings.tables import Checkpoints
from connectors.state.checkpoint import Checkpoint
from connectors.state.positions import (
    Owner,
    metadata_of,
)
from connectors.state.topic import TopicBackend

from .world import Member, PlayedSink, PlayedSource, World


class Apart:
    """Learns which offsets of each partition it has seen, in order."""

    def __init__(self):
        self.seen = {}

    def begin(self, partition, parts):
        self.seen[partition] = [] if parts is None else json.loads(parts["seen"])

    def process(self, partition, records):
        self.seen[partition] += [raw.offset for raw in records]
        outputs = [Output(PREDICTIONS, partition, raw, b"") for raw in records]
        return Processed(outputs, Tally(learned=len(records)), len(records))

    def snapshot(self, partition):
        return {"seen": json.dumps(self.seen[partition]).encode()}

    def release(self, partition):
        self.seen.pop(partition, None)

    def events_of(self, partition):
        return None


class PlayedSnapshots:
    """The topic of snapshots, as one process sees it."""

    topic = "models"

    def __init__(self, broker, sink):
        self._broker, self._sink = broker, sink

    def newest(self, partition):
        stable = self._broker.stable.get(partition, 0)
        log = self._broker.snapshots.get(partition, [])[:stable]
        return (Checkpoint.unpack(log[-1], "it") if log else None), stable

    def stable(self, partition):
        return self._broker.stable.get(partition, 0)

    def end(self, partition):
        return len(self._broker.snapshots.get(partition, []))

    def empty(self):
        return not any(self._broker.stable.values())

    def write(self, partition, snapshot):
        body = snapshot.pack()
        self._sink.kept.append((partition, body))
        return len(body)

    def close(self):
        pass


class KeepingSink(PlayedSink):
    """Outputs, positions and snapshots become durable together, or not at all."""

    def __init__(self, member):
        super().__init__(member)
        self.kept = []

    def commit(self, positions):
        if not self._open and not self.kept:
            return
        broker = self._member.broker
        self._member.effect("commit")
        broker.require(self._member.name, positions)
        broker.committed |= positions
        broker.outputs += self._open
        for partition, body in self.kept:
            broker.snapshots.setdefault(partition, []).append(body)
        self._open, self.kept = [], []
        self._member.effect("committed")


class BoundMember(Member):
    """A process that keeps nothing on disk."""

    def start(self):
        self.effect("start")
        source, sink = PlayedSource(self), KeepingSink(self)
        self.operator = Apart()
        snapshots = PlayedSnapshots(self.broker, sink)
        source_section = TopicSourceSection(kind="topic", topic="t", group="g")
        backend = TopicBackend(self.operator, snapshots, sink, source_section, lambda: self.clock[0])
        checkpoints = Checkpoints(events=self.events, seconds=3.0)
        sinks = {"topics": sink}
        self.session = Session(
            backend, Endpoints(source, sinks), self.telemetry, checkpoints, self.policy,
            lambda: self.clock[0],
        )  # fmt: skip
        return self.session


class BoundWorld(World):
    """Members that share the snapshots of a topic."""

    def __init__(self, names=("a", "b", "c"), partitions=("p-0", "p-1"), policy=StartPolicy()):  # noqa: B008
        super().__init__(names, partitions)
        self.broker.snapshots, self.broker.stable = {}, {}
        self.members = {name: BoundMember(name, self.broker, self.clock, policy) for name in names}

    def take(self, what, name, detail=None):
        super().take(what, name, detail)
        if len(self.story) % 7 == 0:
            self.show()

    def show(self):
        """Make visible what has been committed."""
        self.broker.stable = {p: len(log) for p, log in self.broker.snapshots.items()}

    def seen(self, p):
        """Return the offsets that the newest snapshot of a partition knows."""
        return json.loads(Checkpoint.unpack(self.broker.snapshots[p][-1], "it").parts["seen"])

    def check(self, p):
        events = [k for k in range(self.broker.first[p], self.broker.end[p]) if k % 11 != 10]
        assert self.seen(p) == events, (p, self.story)
        emitted = sorted(offset for partition, offset in self.broker.outputs if partition == p)
        assert emitted == events, (p, emitted, self.story)
        owners = metadata_of(self.broker.committed[p]).owners
        assert owners == [Owner("topic models", 0, self.broker.end[p])], (p, owners, self.story)
