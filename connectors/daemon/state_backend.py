"""State backends: where an operator's state persists, together with the positions up to which it has read.

A session has four requests: restore the stored state, report the position of a partition, store the present
state, and release a partition.

:class:`DiskBackend` writes one checkpoint of everything to a directory. The name of a checkpoint is a growing
number. A file that fails its checksum is renamed to ``….damaged``, and the one before it is used.

:class:`TopicBackend` writes a snapshot of every partition to a compacted topic. A snapshot is written in the
transaction that commits its position, so there are both or neither, and a process that has lost the partition
can commit neither. The next owner of the partition reads the newest snapshot: model and position move
together, and the owner in the metadata is the topic of snapshots.

A committed snapshot may not be visible yet. The group reports a commit only when no transaction over it is
open, and the metadata of the commit holds the offset up to which the snapshot of that transaction goes. That
snapshot was written before the transaction ended. But readers see a partition of a topic only up to its last
stable offset, where the first open transaction started, which may be that of another process, perhaps of one
that was killed. So either the newest snapshot is the one that the metadata names, or all records present in
the topic must first become visible. Until then :meth:`TopicBackend.admit` returns False, and the session
processes its other partitions. A transaction whose process is gone ends when it times out, or when the
process is started again.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import secrets
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, Protocol

from connectors.daemon.checkpoint import SUFFIX, Adoption, Checkpoint, Progress
from connectors.daemon.operator import Operator, PartitionedOperator
from connectors.daemon.start_position import (
    OffsetMetadata,
    exceeds_commit,
    metadata_of,
    require_read_before,
    same_identity,
)
from connectors.daemon.training import Training, begins_again, has_learned, require_same_training
from connectors.errors import CHECKPOINT, Failure, Interruption
from connectors.records import Assigned, Committed, Sink, Source
from connectors.sections import StartPolicy
from streamk.model_file import FormatError

log = logging.getLogger(__name__)
REMEDY = "put the settings back, or give them a checkpoints.directory and a source.group of their own"
_IDENTITY = "identity"  # name of a file
_LONGEST = 150.0  # seconds that a transaction may hold up a partition: more than it takes to time out


class Committable(Protocol):
    """Returns what to commit."""

    def __call__(self, durable: Collection[str] = ()) -> dict[str, Committed]:
        """Return positions and metadata; for ``durable`` partitions, all that was read counts as stored."""


class Saved(NamedTuple):
    """How many bytes were written, and whether the positions were committed."""

    size: int
    committed: bool


class StateBackend(Protocol):
    """Stores the state of an operator.

    Attributes
    ----------
    owner
        The name of the model in offset metadata (:mod:`connectors.daemon.start_position`).
    progress
        How far partitions have been read; the session counts here.
    has_state
        Whether anything was stored when the session started.
    untried
        Whether it is not known yet that anything can be stored here.
    """

    owner: str
    progress: dict[str, Progress]
    has_state: bool
    untried: bool

    def admit(self, assigned: Assigned, policy: StartPolicy) -> bool:
        """Set ``progress`` to where a partition was read up to, and restore its state.

        False means that this cannot be known yet: ask again at the next poll.

        Raises
        ------
        Failure
            If the state of what the group has read is not here.
        """

    def save(self, committable: Committable) -> Saved:
        """Make outputs visible, store the state, and commit the positions."""

    def release(self, partitions: Sequence[str]) -> None:
        """Release partitions that other processes get."""

    def close(self) -> None:
        """Close the connections."""


class CheckpointStore:
    """The checkpoints in a directory, of one model.

    Parameters
    ----------
    directory
        Made if it is not there.
    keep
        How many checkpoints stay, at least two: the newest might be damaged, or not be granted
        (:mod:`connectors.daemon.start_position`).

    Raises
    ------
    Failure
        If the directory cannot be made or written.
    """

    def __init__(self, directory: Path, keep: int = 3) -> None:
        self.directory, self.keep = directory, max(keep, 2)

    @contextlib.contextmanager
    def locked(self) -> Iterator[CheckpointStore]:
        """Lock the directory, so that no other process writes there."""
        with self._explained("opened"):
            self.directory.mkdir(parents=True, exist_ok=True)
            lock = (self.directory / "lock").open("a")
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise Failure(
                    CHECKPOINT, f"another process uses the checkpoints in {self.directory}; give each its own"
                ) from None
            with self._explained("written"):
                for left in self.directory.glob(f".*{SUFFIX}.*"):  # by a process that was killed
                    left.unlink()
                self.model = self._named()
            yield self

    def identity(self) -> str | None:
        """Return the name of the model in this directory, None before the first run."""
        with self._explained("read"):
            path = self.directory / _IDENTITY
            return path.read_text().strip() if path.exists() else None

    def _named(self) -> str:
        """Return the name of the model in this directory, which the first run gives it."""
        if (name := self.identity()) is not None:
            return name
        path = self.directory / _IDENTITY
        temporary = path.with_name(f".{_IDENTITY}")
        with temporary.open("w") as file:
            file.write(secrets.token_hex(6))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        return path.read_text().strip()

    def paths(self) -> list[Path]:
        """Return the files, oldest first."""
        found = [p for p in self.directory.glob(f"*{SUFFIX}") if p.name.removesuffix(SUFFIX).isdigit()]
        return sorted(found)

    def newest(
        self, granted: Callable[[Checkpoint], bool] = lambda checkpoint: True, aside: bool = True
    ) -> Checkpoint | None:
        """Return the newest checkpoint that is whole and granted, None if there has never been one.

        Those that are not are set aside, unless ``aside`` is false.

        Raises
        ------
        Failure
            If there are checkpoints, but none to use, or another version of streamk wrote the newest.
        """
        for path in reversed(self.paths()):
            try:
                checkpoint = Checkpoint.read(path)
            except FormatError as error:
                raise Failure(CHECKPOINT, str(error)) from None
            except ValueError as error:
                log.error("checkpoint set aside, the one before it is used: %s", error)
                if aside:
                    self._set_aside(path, "damaged")
                continue
            except OSError as error:
                raise Failure(CHECKPOINT, f"{path} cannot be read: {error.strerror}") from None
            if granted(checkpoint):
                return checkpoint
            log.info("checkpoint %s does not count: the group has not committed it", path.name)
            if aside:
                self._set_aside(path, "not-granted")
        if self._all():
            raise Failure(
                CHECKPOINT,
                f"no checkpoint in {self.directory} can be used; put a copy back, or start again with "
                "another checkpoints.directory and another source.group",
            )
        return None

    def _set_aside(self, path: Path, why: str) -> None:
        with self._explained("set aside"):
            path.rename(path.with_name(f"{path.name}.{why}"))

    def write(self, checkpoint: Checkpoint) -> int:
        """Write the next checkpoint and return its size in bytes; the ones before it stay.

        Raises
        ------
        Failure
            If it cannot be written; the ones before it are intact.
        """
        number = max((int(p.name.split(".")[0]) for p in self._all()), default=0) + 1
        checkpoint.number, checkpoint.written = number, datetime.now(UTC).isoformat(timespec="seconds")
        with self._explained("written"):
            return checkpoint.write(self.directory / f"{number:010d}{SUFFIX}")

    def _all(self) -> list[Path]:
        return [p for p in self.directory.glob(f"*{SUFFIX}*") if p.name.split(".")[0].isdigit()]

    def prune(self) -> None:
        """Remove the checkpoints beyond those to keep, and what was set aside before them."""
        kept = self.paths()[-self.keep :]
        with self._explained("removed"):
            for path in self._all() if kept else []:
                if path.name.split(".")[0] < kept[0].name.split(".")[0]:
                    path.unlink()

    @contextlib.contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise Failure(
                CHECKPOINT,
                f"checkpoints in {self.directory} cannot be {what}: {error.strerror}; those there are intact",
            ) from None


class DiskBackend:
    """One checkpoint of everything in a directory.

    Parameters
    ----------
    operator
        It is restored.
    store
        The checkpoints, locked.
    source, sinks
        Open; the sinks get from where on to write.
    training
        The settings that the model is trained with.

    Raises
    ------
    Failure
        If no checkpoint can be used, or the newest is of other settings.
    """

    def __init__(
        self,
        operator: Operator,
        store: CheckpointStore,
        source: Source,
        sinks: Mapping[str, Sink],
        training: Training | None = None,
    ) -> None:
        self._operator, self.store, self._source, self._sinks = operator, store, source, sinks
        self._training = training
        self.owner = store.model
        self._checkpoint = self._load()
        self.progress = self._checkpoint.partitions
        self.has_state, self.untried = bool(self.progress), not self._checkpoint.number

    def _load(self) -> Checkpoint:
        """Return the newest checkpoint that counts, restored, or an empty one."""
        found = self.store.newest(self._granted)
        if found is not None:
            where = f"checkpoint {found.number} in {self.store.directory}"
            if found.source != self._source.name:
                belongs = f"belongs to {found.source!r}, and the source is {self._source.name!r}"
                raise Failure(CHECKPOINT, f"{where} {belongs}; {REMEDY}")
            if found.source_mark is not None:
                self._source.recognise(found.source_mark)
            try:
                self._operator.restore(found.parts)
            except ValueError as error:
                raise Failure(CHECKPOINT, f"{where} {error}; {REMEDY}") from None
            require_same_training(found, self._training, where)
            if begins_again(found, self._training, self._exceeds(found)):
                log.info("the settings changed before anything was learned: reading again from the start")
                found.partitions.clear()
            log.info("checkpoint %d, written %s", found.number, found.written)
        marks = found.sink_marks if found else {}
        for kind, sink in self._sinks.items():
            sink.restore(marks.get(kind))
        return found or Checkpoint(self._source.name)

    def _granted(self, checkpoint: Checkpoint) -> bool:
        """Return whether the group has committed all that the checkpoint claims to have learned."""
        if checkpoint.source != self._source.name:
            return True  # it will be refused by its name
        return not has_learned(checkpoint) or not self._exceeds(checkpoint)

    def _exceeds(self, checkpoint: Checkpoint) -> bool:
        """Return whether the checkpoint has read more than the group has committed."""
        committed = self._source.committed(list(checkpoint.partitions))
        return any(
            exceeds_commit(self.owner, committed.get(name), p.position, p.identity)
            for name, p in checkpoint.partitions.items()
        )

    def admit(self, assigned: Assigned, policy: StartPolicy) -> bool:
        """Refuse to continue with nothing where others stopped; the checkpoint is restored already."""
        if not self.progress and assigned.committed is not None:
            require_read_before(
                self.owner, assigned, self._source.alone, policy,
                "the model in this checkpoints.directory holds nothing of it. Put the directory back",
            )  # fmt: skip
        return True

    def save(self, committable: Committable) -> Saved:
        """Make the outputs visible, then write the checkpoint, then commit the positions."""
        for sink in self._sinks.values():
            sink.commit(committable())
        checkpoint = self._checkpoint
        checkpoint.parts, checkpoint.training = dict(self._operator.snapshot()), self._training
        checkpoint.sink_marks = {kind: sink.mark() for kind, sink in self._sinks.items()}
        positions = {name: progress.position for name, progress in self.progress.items()}
        checkpoint.source_mark = self._source.mark(positions)
        size = self.store.write(checkpoint)
        committed = self._source.commit(committable(self.progress))
        if committed:
            self.store.prune()  # until then the one before may be all that is granted
        return Saved(size, committed)

    def release(self, partitions: Sequence[str]) -> None:
        """Do nothing: the checkpoint holds how far they were read."""

    def close(self) -> None:
        """Do nothing: the lock of the directory is released by its holder."""


class Snapshots(Protocol):
    """Reads and writes snapshots."""

    topic: str

    def newest(self, partition: str) -> tuple[Checkpoint | None, int]:
        """Return the newest snapshot that can be seen, and the offset up to which everything can."""

    def stable(self, partition: str) -> int:
        """Return the offset up to which everything can be seen now."""

    def end(self, partition: str) -> int:
        """Return the offset after the last message there is, seen or not."""

    def empty(self) -> bool:
        """Return whether there is no snapshot of anything."""

    def write(self, partition: str, snapshot: Checkpoint) -> int:
        """Take a snapshot into the transaction of the sink; return its size in bytes."""

    def close(self) -> None:
        """Close the connections."""


def owner_of(topic: str) -> str:
    """Return the name in offset metadata of the model whose snapshots are in a topic."""
    return f"topic {topic}"


def require_no_checkpoints(store: CheckpointStore) -> None:
    """Raise Failure if a directory holds checkpoints of a model that learned all partitions."""
    if store.paths():
        raise Failure(
            CHECKPOINT,
            f"checkpoints.directory: {store.directory} holds checkpoints of one model, and with "
            "[snapshots] every partition has its own; name another directory, and a source.group that has "
            "read nothing",
        )


def other_owner(snapshot: Checkpoint, source: str, group: str) -> str:
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
    """Up to where all must be visible, since when that is waited for, and up to where it was read."""

    end: int
    since: float
    read: int


class TopicBackend:
    """A snapshot of every partition in a compacted topic.

    Parameters
    ----------
    operator
        It holds no state yet.
    snapshots
        Reads and writes them.
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
        self._training, self._adopted = training, dict[str, list[Adoption]]()
        self._operator, self._snapshots, self._sink, self._source = operator, snapshots, sink, source
        self._group, self._clock = group, clock
        self.owner = owner_of(snapshots.topic)
        self.progress: dict[str, Progress] = {}
        self.has_state = not snapshots.empty()
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
        where = f"the snapshot of {name} in {self._snapshots.topic}"
        if found is not None and (other := other_owner(found, self._source, self._group)):
            raise Failure(CHECKPOINT, f"{where} {other}; {REMEDY}")
        saved = None if found is None else found.partitions[name]
        metadata = metadata_of(assigned.committed)
        if not self._is_named(metadata, saved) and not self._all_visible(name, stable):
            return False
        self._awaited.pop(name, None)
        if saved is None and assigned.committed is not None:
            require_read_before(
                self.owner, assigned, lambda: True, policy,
                f"no snapshot in {self._snapshots.topic} holds it. Put that topic back",
            )  # fmt: skip
        start = self._granted(assigned, metadata, saved, policy)
        if found is not None and saved is not None:
            exceeds = exceeds_commit(self.owner, assigned.committed, saved.position, saved.identity)
            if begins_again(found, self._training, exceeds):
                log.info("%s: the settings changed before anything was learned: reading again", name)
                start = None
        try:
            self._operator.begin(name, None if found is None else found.parts)
        except ValueError as error:
            raise Failure(CHECKPOINT, f"{where} {error}; {REMEDY}") from None
        self.progress.pop(name, None)
        self._saved.pop(name, None)
        if start is not None:
            self.progress[name] = replace(start)  # the session counts on
        if found is not None and saved is not None:
            require_same_training(found, self._training, where)
            self._adopted[name], self._saved[name] = found.adopted, saved
            log.info("%s: snapshot up to %d, written %s", name, saved.position, found.written)
        return True

    def _named_position(self, metadata: OffsetMetadata) -> int | None:
        """Return up to where metadata says that a snapshot goes, None if it need not name one."""
        last = metadata.owners[-1] if metadata.owners else None
        return None if last is None or last.model != self.owner or last.until == last.since else last.until

    def _is_named(self, metadata: OffsetMetadata, saved: Progress | None) -> bool:
        """Return whether a snapshot is the one that metadata names."""
        until = self._named_position(metadata)
        return (
            until is not None
            and saved is not None
            and saved.position == until
            and same_identity(saved.identity, metadata.identity)
        )

    def _all_visible(self, name: str, stable: int) -> bool:
        """Return whether all that was there at the first call had become visible, and was read."""
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
        self, assigned: Assigned, metadata: OffsetMetadata, saved: Progress | None, policy: StartPolicy
    ) -> Progress | None:
        """Return how far a partition was read, by a snapshot that fits what the group has committed."""
        until = self._named_position(metadata)
        if until is None or self._is_named(metadata, saved):
            return saved
        there = "none is there" if saved is None else f"the newest there goes up to {saved.position}"
        found = (
            f"{assigned.partition}: the group has committed a snapshot in {self._snapshots.topic} up to "
            f"{until}, and {there}"
        )
        if saved is None and policy.blank:
            log.warning("%s: starting with an empty model", found)
            return Progress(until, metadata.identity)
        remedy = (
            "Put the topic back; or run with --blank, to start with an empty model from there; or choose "
            "another source.group, to learn everything again"
            if saved is None
            else "`streamk reset SETTINGS --to checkpoint` continues from there, learning the rest again"
        )
        raise Failure(CHECKPOINT, f"{found}. {remedy}")

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
        """Close the connections."""
        self._snapshots.close()
