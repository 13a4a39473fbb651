"""The checkpoints in a directory: written in one step, the newest whole one counts.

The name of a checkpoint is a number that only grows. A file that fails its checksum is set aside as
``….damaged`` and the one before it is used.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import secrets
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from connectors.daemon.checkpoint import SUFFIX, Checkpoint
from connectors.errors import CHECKPOINT, Failure
from streamk.model_file import FormatError

log = logging.getLogger(__name__)
_IDENTITY = "identity"  # name of a file


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
        self.directory, self.keep = directory, max(keep, 2)

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
                for left in self.directory.glob(f".*{SUFFIX}.*"):  # by a process that was killed
                    left.unlink()
                self.model = self._identity()
            yield self

    def identity(self) -> str | None:
        """Return the name of the model in this directory, None before the first run."""
        with self._explained("read"):
            path = self.directory / _IDENTITY
            return path.read_text().strip() if path.exists() else None

    def _identity(self) -> str:
        """Return the name of the model in this directory, which the first run gives it."""
        if (known := self.identity()) is not None:
            return known
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

    def newest(self, grants: Callable[[Checkpoint], bool] = lambda checkpoint: True) -> Checkpoint | None:
        """Return the newest checkpoint that is whole and granted, None if there has never been one.

        Those that are not are set aside.

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
                f"no checkpoint in {self.directory} can be used; put a copy back, or begin anew with another "
                "checkpoints.directory and another source.group",
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
