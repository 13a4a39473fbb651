"""Checkpoints: model and positions in one file, written in one step; the newest whole one counts.

A checkpoint is a model file (``streamk.load`` opens it) whose header also holds the positions: what was
learned and up to where can never disagree. Its name is a number that only grows. A file that fails its
checksum is set aside as ``….damaged`` and the one before it is used.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from connectors.stream import CHECKPOINT, Failure
from streamk.learners import Learner
from streamk.learners.files import loads_with_extra

log = logging.getLogger(__name__)
_SUFFIX = ".checkpoint"
_VERSION = 1


@dataclass
class Progress:
    """How far a partition has been read, and what became of its events.

    Attributes
    ----------
    position
        Of the next record.
    learned, predicted, refused
        Events learned; events without a target, which were predicted only; dead letters.
    """

    position: int
    learned: int = 0
    predicted: int = 0
    refused: int = 0


@dataclass
class Checkpoint:
    """What was saved together.

    Attributes
    ----------
    number
        Of the file; 0 if there is none yet.
    learner
        The model.
    source
        The name of the topic or log.
    partitions
        Progress by partition.
    source_mark, sink_marks
        What the source and the sinks know themselves by.
    written
        When, as ISO 8601 in UTC.
    """

    learner: Learner
    source: str
    partitions: dict[str, Progress] = field(default_factory=dict)
    source_mark: Any = None
    sink_marks: Any = None
    number: int = 0
    written: str = ""

    @classmethod
    def read(cls, path: Path) -> Checkpoint:
        """Return the checkpoint in a file.

        Raises
        ------
        ValueError
            If it is damaged, or is no checkpoint.
        """
        learner, extra = loads_with_extra(path.read_bytes(), str(path))
        try:
            if extra["version"] != _VERSION:
                raise ValueError(f"{path} has checkpoint version {extra['version']!r}, not {_VERSION}")
            partitions = {name: Progress(**values) for name, values in extra["partitions"].items()}
            return cls(
                learner, extra["source"], partitions, extra["source_mark"], extra["sink_marks"],
                int(path.name.removesuffix(_SUFFIX)), extra["written"],
            )  # fmt: skip
        except (TypeError, KeyError, AttributeError):
            raise ValueError(f"{path} is a model file, but not a checkpoint") from None

    def require(self, learner: Learner, source: str, directory: Path) -> None:
        """Raise Failure if this is a checkpoint of another source, learner or set of parameters."""
        other = ""
        if self.source != source:
            other = f"belongs to {self.source!r}, and the source is {source!r}"
        elif type(self.learner) is not type(learner):
            wanted = type(learner).__name__
            other = f"holds a {type(self.learner).__name__}, and the settings ask for a {wanted}"
        else:
            have, want = self.learner._get_params(), learner._get_params()
            key = next((key for key in want if have[key] != want[key]), None)
            if key is not None:
                other = f"holds a learner with {key}={have[key]!r}, and the settings ask for {want[key]!r}"
        if other:
            raise Failure(
                CHECKPOINT,
                f"checkpoint {self.number} in {directory} {other}; use another checkpoints.directory",
            )

    def write(self, path: Path) -> int:
        """Write the file in one step, and return its size in bytes."""
        extra = {
            "version": _VERSION,
            "source": self.source,
            "partitions": {name: asdict(progress) for name, progress in self.partitions.items()},
            "source_mark": self.source_mark,
            "sink_marks": self.sink_marks,
            "written": self.written,
        }
        return self.learner.save(path, extra)


class Store:
    """The checkpoints in a directory, of one model.

    Parameters
    ----------
    directory
        Made if it is not there.
    keep
        How many checkpoints stay, two at least: the newest might be damaged, or not be granted
        (:mod:`connectors.daemon.ownership`).

    Raises
    ------
    Failure
        If the directory cannot be made or written.
    """

    def __init__(self, directory: Path, keep: int = 3) -> None:
        self.directory, self._keep = directory, max(keep, 2)

    @contextlib.contextmanager
    def locked(self) -> Iterator[Store]:
        """Hold the directory, so that no other process writes there."""
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
                for left in self.directory.glob(f".*{_SUFFIX}.*"):  # by a process that was killed
                    left.unlink()
                self.model = self._identity()
            yield self

    def _identity(self) -> str:
        """Return the name of the model in this directory, given once and for all."""
        path = self.directory / "identity"
        if not path.exists():
            temporary = path.with_name(".identity")
            with temporary.open("w") as file:
                file.write(secrets.token_hex(6))
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        return path.read_text().strip()

    def paths(self) -> list[Path]:
        """Return the files, oldest first."""
        found = [p for p in self.directory.glob(f"*{_SUFFIX}") if p.name.removesuffix(_SUFFIX).isdigit()]
        return sorted(found)

    def newest(self, grants: Callable[[Checkpoint], bool] = lambda checkpoint: True) -> Checkpoint | None:
        """Return the newest checkpoint that is whole and granted, None if there has never been one.

        Those that are not are set aside.

        Raises
        ------
        Failure
            If there are checkpoints, but none to use.
        """
        for path in reversed(self.paths()):
            try:
                checkpoint = Checkpoint.read(path)
            except ValueError as error:
                log.error("checkpoint set aside, the one before it is used: %s", error)
                self._set_aside(path, "damaged")
                continue
            except OSError as error:
                raise Failure(CHECKPOINT, f"{path} cannot be read: {error.strerror}") from None
            if grants(checkpoint):
                return checkpoint
            log.info("checkpoint %s does not count: the group was not told of it", path.name)
            self._set_aside(path, "not-granted")
        if self._all():
            raise Failure(
                CHECKPOINT,
                f"no checkpoint in {self.directory} can be used; put a copy back, or use another directory "
                "to begin anew",
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
            return checkpoint.write(self.directory / f"{number:010d}{_SUFFIX}")

    def _all(self) -> list[Path]:
        return [p for p in self.directory.glob(f"*{_SUFFIX}*") if p.name.split(".")[0].isdigit()]

    def prune(self) -> None:
        """Remove the checkpoints beyond those to keep."""
        with self._explained("removed"):
            for path in self.paths()[: -self._keep]:
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


def lag(ends: Mapping[str, int], partitions: Mapping[str, Progress]) -> dict[str, int]:
    """Return how far each partition's position is behind its end."""
    return {name: max(ends[name] - p.position, 0) for name, p in partitions.items() if name in ends}
