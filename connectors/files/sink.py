"""Predictions and dead letters as JSON lines on disk, each written once.

A checkpoint keeps the lengths of the files. After a crash, what was written since is read back, a last line
that is not whole is cut off, and outputs that are there already are not written again.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from connectors.errors import SINK, Failure
from connectors.files.dead_letters import line_of
from connectors.stream import DEAD_LETTERS, Committed, Output

log = logging.getLogger(__name__)


class _Place(msgspec.Struct):
    partition: str
    offset: int


class FileSink:
    """One file, of predictions or of dead letters.

    Parameters
    ----------
    path
        Made if it is not there.
    kind
        Of the outputs that it takes.
    """

    def __init__(self, path: Path, kind: str) -> None:
        self._path, self._kind = path, kind
        self._lines: list[bytes] = []
        self._written: dict[str, int] = {}  # offsets up to which a partition's outputs are in the file
        try:
            path.touch()
            self._file: BinaryIO = path.open("r+b")
        except OSError as error:
            raise self._refused(error) from None
        if not path.is_file():  # a device or a pipe, which cannot be read back
            self._file.close()
            raise Failure(SINK, f"{path} is not a regular file; predictions and dead letters need one")

    def _refused(self, error: OSError) -> Failure:
        return Failure(SINK, f"{self._path} cannot be written: {error.strerror}; the checkpoint is intact")

    def restore(self, mark: dict[str, Any] | None) -> None:
        """Find what has been written since the mark (None: nothing yet), and go on behind it.

        What had been written before the mark may be ahead of the checkpoint, too: one is also written while
        records are learned again.
        """
        size = self._file.seek(0, os.SEEK_END)
        self._written = dict(mark["written"]) if mark else {}
        self._restore(None if mark is None else mark["length"], size)

    def _restore(self, mark: int | None, size: int) -> None:
        if mark is None:
            mark = size
            if size:
                self._file.seek(-1, os.SEEK_END)
                if self._file.read(1) != b"\n":
                    self._file.write(b"\n")
                    self._file.flush()
                    mark = size = size + 1
        if size < mark:
            log.warning(
                "%s is shorter than at the checkpoint (moved away?): what it held is not known", self._path
            )
            mark = 0
        self._file.seek(mark)
        end = mark
        for line in self._file:
            if not line.endswith(b"\n"):
                log.warning("%s: a last line that is not whole is cut off", self._path)
                break
            end += len(line)
            try:
                place = msgspec.json.decode(line, type=_Place)
                self._written[place.partition] = place.offset
            except (ValueError, RecursionError):
                raise Failure(
                    SINK,
                    f"{self._path}, byte {end - len(line)}: streamk did not write this; use another file",
                ) from None
        self._file.truncate(end)
        self._file.seek(end)

    def begin(self, partition: str, emitted: int, anew: bool = False) -> None:
        """Forget what was written of a partition that is another one now."""
        if anew:
            self._written.pop(partition, None)

    def write(self, outputs: Sequence[Output]) -> int:
        """Take those outputs that belong here and are not here yet; none is ever truncated."""
        for output in outputs:
            if output.kind == self._kind and output.raw.offset > self._written.get(output.partition, -1):
                self._lines.append(line_of(output) if self._kind == DEAD_LETTERS else output.body)
        return 0

    def commit(self, positions: Mapping[str, Committed]) -> bool:
        """Hand the lines to the file; positions are in checkpoints alone."""
        if self._lines:
            try:
                self._file.write(b"\n".join([*self._lines, b""]))
                self._file.flush()
            except OSError as error:
                raise self._refused(error) from None
            self._lines.clear()
        return False

    def mark(self) -> dict[str, Any]:
        """Return the length of the file, all of it safely on disk, and how far partitions are in it."""
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise self._refused(error) from None
        return {"length": self._file.tell(), "written": dict(self._written)}

    def close(self) -> None:
        """Forget what was not committed."""
        self._lines.clear()
        with contextlib.suppress(OSError):
            self._file.close()


def forget(mark: dict[str, Any], partitions: Iterable[str]) -> None:
    """Change a mark to one by which outputs of these partitions are written again."""
    for partition in partitions:
        mark["written"].pop(partition, None)
