"""One checkpoint of everything, in a directory.

The name of a checkpoint is a growing number. A file that fails its checksum is renamed to ``….damaged``, and
the one before it is used.

A directory at an address (:class:`connectors.formats.addresses.RemotePath`) has no lock. Every checkpoint is
a new object there: of two processes that write the next number, one finds it taken and ends.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from connectors.contract.errors import AWAY, CHECKPOINT, USAGE, Failure
from connectors.contract.records import Assigned, Operator, Sink, Source
from connectors.contract.sections import StartPolicy
from connectors.formats.addresses import Place, RemotePath
from connectors.state.checkpoint import REMEDY, SUFFIX, Checkpoint, Committable, Saved
from connectors.state.positions import (
    exceeds_commit,
    require_read_before,
)
from connectors.state.training import Training, begins_again, has_learned, require_same_training
from streamk.model_file import FormatError

log = logging.getLogger(__name__)
_IDENTITY = "identity"  # name of a file


class CheckpointStore:
    """The checkpoints in a directory, of one model.

    Parameters
    ----------
    directory
        Made if it is not there; of a file system, or at an address.
    keep
        How many checkpoints stay, at least two: the newest might be damaged, or not be granted
        (:mod:`connectors.state.positions`).
    hours, days
        How many stay beyond those: the last of each of so many hours, and of so many days (of UTC).

    Raises
    ------
    Failure
        If the directory cannot be made or written.
    """

    def __init__(self, directory: Place, keep: int = 3, hours: int = 0, days: int = 0) -> None:
        self.directory, self.keep, self.hours, self.days = directory, max(keep, 2), hours, days
        self._last: int | None = None  # number of the checkpoint after which only this process may write

    @contextlib.contextmanager
    def locked(self) -> Iterator[CheckpointStore]:
        """Lock the directory, so that no other process writes there; at an address, see :meth:`write`."""
        if isinstance(self.directory, RemotePath):
            with self._explained("opened"):
                self.model, self._last = self._named(), self._highest()
            yield self
            return
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
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                return (self.directory / _IDENTITY).read_text().strip()
            return None

    def _named(self) -> str:
        """Return the name of the model in this directory, which the first run gives it."""
        if (name := self.identity()) is not None:
            return name
        path = self.directory / _IDENTITY
        if isinstance(path, RemotePath):
            with contextlib.suppress(FileExistsError):  # another process was faster
                path.create(secrets.token_hex(6).encode())
            return path.read_text().strip()
        temporary = path.with_name(f".{_IDENTITY}")
        with temporary.open("w") as file:
            file.write(secrets.token_hex(6))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        return path.read_text().strip()

    @property
    def local(self) -> Path:
        """The directory, for files that grow.

        Raises
        ------
        Failure
            If it is at an address, where files are written whole.
        """
        if isinstance(self.directory, RemotePath):
            raise Failure(
                USAGE,
                f"checkpoints.directory: {self.directory} is an address, and a log of requests grows next to "
                "the checkpoints; name a directory of this machine",
            )
        return self.directory

    def paths(self) -> list[Place]:
        """Return the files, oldest first."""
        return [path for path in self._all() if path.name.removesuffix(SUFFIX).isdigit()]

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
                raise Failure(self._code(error), f"{path} cannot be read: {error.strerror}") from None
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

    def _set_aside(self, path: Place, why: str) -> None:
        name = f"{path.name}.{why}"
        with self._explained("set aside"):
            path.rename(name) if isinstance(path, RemotePath) else path.rename(path.with_name(name))

    def write(self, checkpoint: Checkpoint) -> int:
        """Write the next checkpoint and return its size in bytes; the ones before it stay.

        At an address, its number follows the last of this process, not the highest there.

        Raises
        ------
        Failure
            If it cannot be written, or another process has written it; the ones before it are intact.
        """
        number = (self._highest() if self._last is None else self._last) + 1
        checkpoint.number, checkpoint.written = number, datetime.now(UTC).isoformat(timespec="seconds")
        with self._explained("written"):
            if self._last is not None and self._highest() > self._last:  # its number may be pruned already
                raise FileExistsError
            size = checkpoint.write(self.directory / f"{number:010d}{SUFFIX}")
        if self._last is not None:
            self._last = number
        return size

    def _highest(self) -> int:
        return max((int(path.name.split(".")[0]) for path in self._all()), default=0)

    def _all(self) -> list[Place]:
        """Return the files, and those set aside, oldest first."""
        with self._explained("listed"):
            there: list[Place] = [*self.directory.glob(f"*{SUFFIX}*")]
        return sorted((p for p in there if p.name.split(".")[0].isdigit()), key=lambda path: path.name)

    def prune(self) -> None:
        """Remove the checkpoints beyond those to keep, and what was set aside before them."""
        paths = self.paths()
        recent, kept = paths[-self.keep :], set[Place]()
        with self._explained("removed"):
            for seconds, count in ((3600, self.hours), (86_400, self.days)):
                last = {path.stat().st_mtime // seconds: path for path in paths} if count else {}
                kept.update([*last.values()][-count:])
            for path in self._all() if recent else []:
                if path.name.split(".")[0] < recent[0].name.split(".")[0] and path not in kept:
                    path.unlink()

    def _code(self, error: OSError) -> int:
        """Return the exit code; a store that does not answer may answer after a restart."""
        remote = isinstance(self.directory, RemotePath)
        return AWAY if remote and error.errno == errno.EIO else CHECKPOINT

    @contextlib.contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if isinstance(error, FileExistsError) and isinstance(self.directory, RemotePath):
                raise Failure(
                    CHECKPOINT,
                    f"another process writes the checkpoints in {self.directory}; end one of them, or "
                    "give it another directory",
                ) from None
            raise Failure(
                self._code(error),
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
        self.operator, self.store, self._source, self._sinks = operator, store, source, sinks
        self._training = training
        self.owner = store.model
        self._checkpoint = self._load()
        self.progress, self.excluded = self._checkpoint.partitions, self._checkpoint.excluded
        self.has_state, self.untried = bool(self.progress), not self._checkpoint.number

    def _load(self) -> Checkpoint:
        """Return the newest checkpoint that counts, restored, or an empty one."""
        checkpoint = self.store.newest(self._granted)
        if checkpoint is not None:
            where = f"checkpoint {checkpoint.number} in {self.store.directory}"
            if not self._source.continues(checkpoint.source, checkpoint.partitions):
                belongs = f"belongs to {checkpoint.source!r}, and the source is {self._source.name!r}"
                raise Failure(CHECKPOINT, f"{where} {belongs}; {REMEDY}")
            checkpoint.source = self._source.name
            if checkpoint.source_mark is not None:
                self._source.recognise(checkpoint.source_mark)
            try:
                self.operator.restore(checkpoint.parts)
            except ValueError as error:
                raise Failure(CHECKPOINT, f"{where} {error}; {REMEDY}") from None
            require_same_training(checkpoint, self._training, where)
            if begins_again(checkpoint, self._training, self._exceeds(checkpoint)):
                log.info("the settings changed before anything was learned: reading again from the start")
                checkpoint.partitions.clear()
            log.info("checkpoint %d, written %s", checkpoint.number, checkpoint.written)
        marks = checkpoint.sink_marks if checkpoint else {}
        for kind, sink in self._sinks.items():
            sink.restore(marks.get(kind))
        return checkpoint or Checkpoint(self._source.name)

    def _granted(self, checkpoint: Checkpoint) -> bool:
        """Return whether the group has committed all that the checkpoint claims to have learned."""
        if not self._source.continues(checkpoint.source, checkpoint.partitions):
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
        checkpoint.parts, checkpoint.training = dict(self.operator.snapshot()), self._training
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


def require_no_checkpoints(store: CheckpointStore) -> None:
    """Raise Failure if a directory holds checkpoints of a model that learned all partitions."""
    if store.paths():
        raise Failure(
            CHECKPOINT,
            f"checkpoints.directory: {store.directory} holds checkpoints of one model, and with "
            "[snapshots] every partition has its own; name another directory, and a source.group that has "
            "read nothing",
        )
