"""Predictions and dead letters as JSON lines on disk, each written once.

A checkpoint stores the lengths of the files. After a crash, what was written since is read back, an
incomplete last line is cut off, and outputs that are there already are not written again. Keys and values of
dead letters are in base64.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, TypedDict, cast

import msgspec

from connectors.contract.errors import SINK, USAGE, Failure
from connectors.contract.records import DEAD_LETTERS, Committed, DeadLetter, Output, Sink

log = logging.getLogger(__name__)


class SinkMark(TypedDict):
    """The length of a file, and the offsets up to which a partition's outputs are in it."""

    length: int
    written: dict[str, int]


class _Place(msgspec.Struct):
    partition: str
    offset: int


class FileSink(Sink):
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

    def restore(self, mark: object) -> None:
        """Find what has been written since the mark (None: nothing yet), and continue behind it.

        What had been written before the mark may be ahead of the checkpoint, too: one is also written while
        records are learned again.
        """
        stored = cast(SinkMark | None, mark)
        end = size = self._file.seek(0, os.SEEK_END)
        self._written = dict(stored["written"]) if stored else {}
        if stored is None:
            if size:
                self._file.seek(-1, os.SEEK_END)
                if self._file.read(1) != b"\n":
                    self._file.write(b"\n")
                    self._file.flush()
                    end = size + 1
        elif size < stored["length"]:
            log.warning(
                "%s is shorter than at the checkpoint (moved away?): what it held is unknown", self._path
            )
            end = 0
        else:
            end = stored["length"]
        self._file.seek(end)
        for line in self._file:
            if not line.endswith(b"\n"):
                log.warning("%s: the last line is incomplete and is cut off", self._path)
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

    def begin(self, partition: str, emitted: int, recreated: bool = False) -> None:
        """Forget what was written of a partition that is another one now."""
        if recreated:
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

    def mark(self) -> SinkMark:
        """Return the length of the file, all of it synced to disk, and how far partitions are in it."""
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


def forget_partitions(mark: object, partitions: Iterable[str]) -> None:
    """Change a mark to one by which outputs of these partitions are written again."""
    for partition in partitions:
        cast(SinkMark, mark)["written"].pop(partition, None)


def keep_written(mark: object, positions: Mapping[str, int]) -> None:
    """Change a mark to one by which outputs of events before these positions are not written again."""
    written = cast(SinkMark, mark)["written"]
    written |= {name: max(position - 1, written.get(name, -1)) for name, position in positions.items()}


class _Line(msgspec.Struct):
    partition: str
    offset: int
    reason: str
    time: int | None
    key: bytes | None  # msgspec reads and writes bytes as base64
    value: bytes


def line_of(output: Output) -> bytes:
    """Return a dead letter as a line, without its end."""
    raw = output.raw
    reason = output.body.decode()
    return msgspec.json.encode(
        _Line(output.partition, raw.offset, reason, raw.timestamp, raw.key, raw.value or b"")
    )


def letters(path: Path) -> Iterator[DeadLetter]:
    """Yield the dead letters of a file, which a daemon may be writing.

    Raises
    ------
    Failure
        If the file cannot be read, or a line of it is no dead letter.
    """
    at = 0
    try:
        with path.open("rb") as file:
            for text in file:
                if not text.endswith(b"\n"):
                    return  # it is being written
                yield _letter(path, at, text)
                at += len(text)
    except OSError as error:
        raise Failure(USAGE, f"dead_letters.path: {path} cannot be read: {error.strerror}") from None


def _letter(path: Path, at: int, text: bytes) -> DeadLetter:
    try:
        line = msgspec.json.decode(text, type=_Line)
    except (ValueError, RecursionError):
        raise Failure(
            USAGE, f"dead_letters.path: {path}, byte {at}: this line is no dead letter; remove it"
        ) from None
    return DeadLetter(line.partition, line.offset, line.reason, line.key, line.value, len(line.value), False)
