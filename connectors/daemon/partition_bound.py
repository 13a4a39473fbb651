"""What an operator knows of a partition, kept in a topic beside the partition's position.

A snapshot is written in the transaction that commits its position, so there are both or neither, and a
process that has lost the partition can commit neither. Whoever is given the partition reads the newest
snapshot: model and position move together, and the owner in the note is the topic of snapshots.

**Which snapshot is the newest.** The group says what was committed only when no transaction over it is open,
and the note in it says up to where the snapshot of that transaction goes. That snapshot was written before
the transaction ended, but readers may not see it yet: they see a partition of a topic up to its last stable
offset, where the first open transaction began, which may be another's, perhaps of a process that was killed.
So either the newest snapshot is the one that the note names, or everything that lies in the topic now must
have become visible first. Until then :meth:`InTopic.admit` says no, and the session goes on with its other
partitions. A transaction whose process is gone ends when it times out, or when the process is started again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

from connectors.daemon import ownership
from connectors.daemon.beginning import require_known
from connectors.daemon.checkpoint import Checkpoint, Progress
from connectors.daemon.keeping import CURE, Committable, Saved
from connectors.daemon.operator import PartitionedOperator
from connectors.daemon.ownership import Note
from connectors.daemon.store import Store
from connectors.daemon.training import Training, require_same_training
from connectors.errors import CHECKPOINT, Failure, Interruption
from connectors.sections import StartPolicy
from connectors.stream import Assigned, Sink

log = logging.getLogger(__name__)
_LONGEST = 150.0  # seconds that a transaction may hold up a partition: more than it takes to time out


class Snapshots(Protocol):
    """Where the snapshots are."""

    topic: str

    def newest(self, partition: str) -> tuple[Checkpoint | None, int]:
        """Return the newest snapshot that can be seen, and the offset up to which everything can."""
        ...

    def stable(self, partition: str) -> int:
        """Return the offset up to which everything can be seen now."""
        ...

    def end(self, partition: str) -> int:
        """Return the offset after the last message there is, seen or not."""
        ...

    def empty(self) -> bool:
        """Return whether there is no snapshot of anything."""
        ...

    def write(self, partition: str, snapshot: Checkpoint) -> int:
        """Take a snapshot into the transaction of the sink; return its size in bytes."""
        ...

    def close(self) -> None:
        """Let go of the brokers."""
        ...


def owner_of(topic: str) -> str:
    """Return what notes call the model whose snapshots are in a topic."""
    return f"topic {topic}"


def require_none(store: Store) -> None:
    """Raise Failure if a directory holds checkpoints of a model that learned all partitions."""
    if store.paths():
        raise Failure(
            CHECKPOINT,
            f"checkpoints.directory: {store.directory} holds checkpoints of one model, and with [snapshots] "
            "every partition has its own; name another directory, and a source.group that has read nothing",
        )


def strange(snapshot: Checkpoint, source: str, group: str) -> str:
    """Return whose a snapshot is, if it is not of this source and group; empty if it is."""
    if snapshot.source != source:
        return f"belongs to {snapshot.source!r}, and the source is {source!r}"
    if snapshot.source_mark != group:
        return (
            f"belongs to the group {snapshot.source_mark!r}, and source.group is {group!r}; every group "
            "needs a topic of snapshots of its own"
        )
    return ""


class _Awaited(NamedTuple):
    """Up to where all must be seen, since when that is waited for, and up to where it was read."""

    end: int
    since: float
    read: int


class InTopic:
    """A snapshot of every partition in a compacted topic.

    Parameters
    ----------
    operator
        It knows nothing yet.
    snapshots
        Where they are.
    sink
        In whose transactions they are written.
    source, group
        The name of the source, and of the group that reads it.
    clock
        Seconds, growing.
    training
        The settings that the models are trained with.
    """

    untried = False

    def __init__(
        self,
        operator: PartitionedOperator,
        snapshots: Snapshots,
        sink: Sink,
        source: str,
        group: str,
        clock: Callable[[], float] = time.monotonic,
        training: Training | None = None,
    ) -> None:
        self._training, self._adopted = training, dict[str, list[Any]]()
        self._operator, self._snapshots, self._sink, self._source = operator, snapshots, sink, source
        self._group, self._clock = group, clock
        self.owner = owner_of(snapshots.topic)
        self.progress: dict[str, Progress] = {}
        self.knows = not snapshots.empty()
        self._saved: dict[str, Progress] = {}
        self._awaited: dict[str, _Awaited] = {}

    def admit(self, assigned: Assigned, policy: StartPolicy) -> bool:
        """Read the newest snapshot of a partition, once it is known which that is."""
        name = assigned.partition
        awaited = self._awaited.get(name)
        if awaited is not None and self._snapshots.stable(name) <= awaited.read:
            self._require_end(awaited)
            return False  # to read again would bring the same
        found, stable = self._snapshots.newest(name)
        if found is not None and (whose := strange(found, self._source, self._group)):
            raise Failure(CHECKPOINT, f"the snapshot of {name} in {self._snapshots.topic} {whose}; {CURE}")
        saved = None if found is None else found.partitions[name]
        note = Note([]) if assigned.committed is None else ownership.read(assigned.committed.note)
        if not self._named(note, saved) and not self._seen(name, stable):
            return False
        self._awaited.pop(name, None)
        if saved is None and assigned.committed is not None:
            require_known(
                self.owner, assigned, lambda: True, policy,
                f"no snapshot in {self._snapshots.topic} knows of it. Put that topic back",
            )  # fmt: skip
        saved = self._granted(assigned, note, saved, policy)
        try:
            self._operator.begin(name, None if found is None else found.parts)
        except ValueError as error:
            raise Failure(
                CHECKPOINT, f"the snapshot of {name} in {self._snapshots.topic} {error}; {CURE}"
            ) from None
        if found is not None:
            where = f"the snapshot of {name} in {self._snapshots.topic}"
            require_same_training(found, self._training, where)
            self._adopted[name] = found.adopted
        self.progress.pop(name, None)
        self._saved.pop(name, None)
        if saved is not None:
            self.progress[name] = replace(saved)  # the session counts on
        if found is not None:
            self._saved[name] = found.partitions[name]
            log.info("%s: snapshot up to %d, written %s", name, self._saved[name].position, found.written)
        return True

    def _learned(self, note: Note) -> int | None:
        """Return up to where a note says that a snapshot goes, None if it need not name one."""
        last = note.owners[-1] if note.owners else None
        return None if last is None or last.model != self.owner or last.until == last.since else last.until

    def _named(self, note: Note, saved: Progress | None) -> bool:
        """Return whether a snapshot is the one that a note names."""
        until = self._learned(note)
        return (
            until is not None
            and saved is not None
            and saved.position == until
            and ownership.same(saved.identity, note.identity)
        )

    def _seen(self, name: str, stable: int) -> bool:
        """Return whether all that was there when this was asked first had become visible, and was read."""
        awaited = self._awaited.get(name)
        if awaited is None:
            awaited = _Awaited(self._snapshots.end(name), self._clock(), stable)
        self._awaited[name] = awaited._replace(read=stable)
        if stable < awaited.end:
            self._require_end(awaited)
        return stable >= awaited.end

    def _require_end(self, awaited: _Awaited) -> None:
        """Raise Interruption if a transaction is open for longer than it can be without its process."""
        if self._clock() - awaited.since > _LONGEST:
            topic = self._snapshots.topic
            raise Interruption(f"{topic}: a transaction has been open for {_LONGEST:.0f} seconds")

    def _granted(
        self, assigned: Assigned, note: Note, saved: Progress | None, policy: StartPolicy
    ) -> Progress | None:
        """Return how far a partition was read, by a snapshot that fits what the group was told."""
        until = self._learned(note)
        if until is None or self._named(note, saved):
            return saved
        there = "none is there" if saved is None else f"the newest there goes up to {saved.position}"
        said = (
            f"{assigned.partition}: the group was told of a snapshot in {self._snapshots.topic} up to "
            f"{until}, and {there}"
        )
        if saved is None and policy.blank:
            log.warning("%s: beginning with an empty model", said)
            return Progress(until, note.identity)
        cure = (
            "Put the topic back; or run with --blank, to begin with an empty model from there; or choose "
            "another source.group, to learn everything anew"
            if saved is None
            else "`streamk reset SETTINGS --to checkpoint` goes on from there, learning again what came after"
        )
        raise Failure(CHECKPOINT, f"{said}. {cure}")

    def save(self, committable: Committable) -> Saved:
        """Write the snapshots of what has been read since the last ones, with the positions and outputs."""
        positions = committable()
        changed = [name for name in positions if self.progress[name] != self._saved.get(name)]
        written = datetime.now(UTC).isoformat(timespec="seconds")
        size = 0
        for name in changed:
            parts = dict(self._operator.snapshot(name))
            snapshot = Checkpoint(
                self._source, parts, {name: self.progress[name]}, source_mark=self._group, written=written,
                training=self._training, adopted=self._adopted.get(name, []),
            )  # fmt: skip
            size += self._snapshots.write(name, snapshot)
        self._sink.commit(committable(changed))
        self._saved |= {name: replace(self.progress[name]) for name in changed}
        return Saved(size, True)

    def release(self, partitions: Sequence[str]) -> None:
        """Forget partitions."""
        for name in partitions:
            for known in (self.progress, self._saved, self._awaited):
                known.pop(name, None)
            self._operator.release(name)

    def close(self) -> None:
        """Let go of the brokers."""
        self._snapshots.close()
