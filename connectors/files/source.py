"""A log on disk as a source of records: JSON lines or CSV, plain, gzip or zstd.

A position is a byte of the uncompressed log, at the beginning of a record.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import os
import sys
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import zstandard

from connectors.files.compression import unpacked
from connectors.stream import MOST, POSITION, USAGE, Assigned, Batch, Committed, Failure, Polled, Raw

_HEAD = 4096  # bytes by which a log is known
_DAMAGE = (EOFError, gzip.BadGzipFile, zstandard.ZstdError, zlib.error)
_MARK = b"\xef\xbb\xbf"


class FileSource:
    """One partition, named like the file, which nobody else reads.

    Parameters
    ----------
    path
        The log.
    form
        ``"json"``, a record a line, or ``"csv"``, whose first line names the columns.
    follow
        Whether to wait for more at the end.

    Attributes
    ----------
    begins
        The byte of the first record.

    Raises
    ------
    Failure
        If the file cannot be read, or is compressed and to be followed.
    """

    def __init__(self, path: Path, form: str = "json", follow: bool = False) -> None:
        self.name, self._path, self._form, self._follow = path.name, path, form, follow
        try:
            self._raw: BinaryIO = path.open("rb")
        except OSError as error:
            raise Failure(USAGE, f"{path}: {error.strerror}") from None
        self._file = unpacked(self._raw)
        self._plain = self._file is self._raw
        if follow and not self._plain:
            self._raw.close()
            raise Failure(USAGE, f"{path} is compressed; only a plain log can be followed")
        self._position = 0
        self._assigned = False
        self._rest = b""  # of a line that is being written
        self.delimiter = ","
        try:
            self.columns = self._header() if form == "csv" else None
        except BaseException:
            self.close(True)
            raise
        self.begins = self._position

    def _header(self) -> list[str]:
        line = self._line()
        while line is not None and not line.removeprefix(_MARK).strip():
            line = self._line()
        if line is None:
            raise Failure(USAGE, f"{self._path} is empty; the first line of CSV names the columns")
        try:
            text = line.removeprefix(_MARK).decode()
        except UnicodeDecodeError:
            raise Failure(USAGE, f"{self._path}: the first line is not UTF-8") from None
        self.delimiter = "\t" if "\t" in text and "," not in text else ","
        return next(csv.reader([text], delimiter=self.delimiter))

    def poll(self, seconds: float, most: int = MOST) -> Polled:
        """Return the next records; wait for them only if the log is followed."""
        if not self._assigned:
            self._assigned = True
            return Polled(assigned=[Assigned(self.name, None, self.begins, sys.maxsize)])
        deadline = time.monotonic() + seconds
        while True:
            records = []
            try:
                for raw in self._records():
                    records.append(raw)
                    if len(records) == most:
                        break
            except Failure:
                if not records:
                    raise  # it comes again when those before it have been taken
            if records:
                return Polled({self.name: Batch(records, self._position)})
            if not self._follow:
                return Polled(finished=True)
            try:
                now = self._path.stat()
            except OSError as error:
                raise Failure(POSITION, f"{self._path} has gone away: {error.strerror}") from None
            if not os.path.samestat(now, os.fstat(self._raw.fileno())):
                raise Failure(POSITION, f"{self._path} has been replaced by another file")
            if now.st_size < self._position:
                raise Failure(POSITION, f"{self._path} has become shorter than what was read of it")
            if time.monotonic() >= deadline:
                return Polled()
            time.sleep(min(0.02, seconds))

    def _records(self) -> Iterator[Raw]:
        if self._form == "csv":
            yield from self._rows()
            return
        while (line := self._line()) is not None:
            end = self._position
            start = end - len(line)
            if (line.removeprefix(_MARK) if start == 0 else line).strip():
                yield Raw(start, line.removeprefix(_MARK if start == 0 else b"").rstrip(b"\r\n"))

    def _rows(self) -> Iterator[Raw]:
        """Yield rows of CSV, of which one may have several lines."""
        lines: list[bytes] = []
        ended = False

        def texts() -> Iterator[str]:
            nonlocal ended
            ended = False
            while (line := self._line()) is not None:
                lines.append(line)
                # a row is judged by the decoder; here only its quotes count
                yield line.decode("latin-1")
            ended = True

        reader = csv.reader(texts(), delimiter=self.delimiter)
        while True:
            try:
                row = next(reader, None)
            except csv.Error:  # a quote that never closes: the decoder will refuse it
                row, reader = ["?"], csv.reader(texts(), delimiter=self.delimiter)
            whole = b"".join(lines)
            start = self._position - len(whole)
            lines.clear()
            if self._follow and ended and whole:
                self.begin(self.name, start)  # the row is still being written
                return
            if row is None:
                return
            if row:
                yield Raw(start, whole.rstrip(b"\r\n"))

    def _line(self) -> bytes | None:
        """Return the next line, None at the end, or where the last line may still grow."""
        try:
            line = self._rest + self._file.readline()
        except _DAMAGE as error:
            raise self._damaged(error) from None
        self._rest = b""
        if self._follow and not line.endswith(b"\n"):
            self._rest = line
            return None
        self._position += len(line)
        return line or None

    def _damaged(self, error: Exception) -> Failure:
        return Failure(
            POSITION, f"{self._path}, after byte {self._position}: the compressed data is damaged ({error})"
        )

    def begin(self, partition: str, position: int) -> None:
        """Read from this position on."""
        size = self._size()
        if self._plain and position > size:
            raise Failure(
                POSITION, f"{self._path} has {size} bytes, fewer than the {position} that were read of it"
            )
        self._rest = b""
        try:
            self._file.seek(position)
        except _DAMAGE as error:
            raise self._damaged(error) from None
        if self._file.tell() != position:
            raise Failure(POSITION, f"{self._path} ends before byte {position}, up to which it was read")
        self._position = position

    def committed(self, partitions: Sequence[str]) -> Mapping[str, Committed]:
        """Return nothing: the checkpoint says it all."""
        return {}

    def commit(self, positions: Mapping[str, Committed]) -> bool:
        """Do nothing, since nobody else reads the log."""
        return True

    def partitions(self) -> list[str]:
        """Return the one partition."""
        return [self.name]

    def alone(self) -> bool:
        """Return True: nobody else reads the log."""
        return True

    def ends(self) -> Mapping[str, int]:
        """Return the size of a plain log; nothing is known of a compressed one's."""
        return {self.name: self._size()} if self._plain else {}

    def mark(self, positions: Mapping[str, int]) -> dict[str, Any]:
        """Return a checksum of the head of what was read."""
        length = min(positions.get(self.name, 0), _HEAD)
        return {"head": length, "sha256": self._checksum(length)}

    def _checksum(self, length: int) -> str:
        with self._path.open("rb") as raw:
            try:
                return hashlib.sha256(unpacked(raw).read(length)).hexdigest()
            except _DAMAGE as error:
                raise self._damaged(error) from None

    def recognise(self, mark: dict[str, Any]) -> None:
        """Raise Failure if the log does not begin as it did."""
        if self._checksum(mark["head"]) != mark["sha256"]:
            raise Failure(
                POSITION,
                f"{self._path} is another log than the one of the checkpoint: its beginning differs; use "
                "another checkpoints.directory for it",
            )

    def _size(self) -> int:
        return self._path.stat().st_size

    def close(self, leaving: bool) -> None:
        """Close the file."""
        self._file.close()
        self._raw.close()
