"""The records of a file: JSON lines or CSV, plain, gzip or zstd; the one way in which files are read.

A position is a byte of the uncompressed file, at the beginning of a record.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import zlib
from collections.abc import Iterator
from typing import BinaryIO

import zstandard

from connectors.files.compression import unpacked
from connectors.stream import Raw

DAMAGE = (EOFError, gzip.BadGzipFile, zstandard.ZstdError, zlib.error)
_MARK = b"\xef\xbb\xbf"


def cut_short(place: str, error: object) -> str:
    """Return what is said of a file that ends before its end, everything before that having been read."""
    return f"after {place}, the compressed data is cut short or damaged ({error}); what is before was read"


class DamagedError(ValueError):
    """The compressed data of a file is cut short or altered."""


class Reader:
    """Reads records from a file that is open.

    Parameters
    ----------
    raw
        The file, as bytes.
    name
        How messages name it.
    form
        ``"json"``, a record a line; ``"csv"``, whose first line names the columns; None tells it from the
        first line.
    growing
        Whether the last line may still be written, and is waited for.

    Attributes
    ----------
    form
        What it is.
    columns, delimiter
        Of CSV.
    begins
        The position of the first record.
    position
        Of the next record.
    line
        Lines read so far.
    plain
        Whether the file is not compressed.

    Raises
    ------
    ValueError
        If there is no header where one must be.
    """

    def __init__(self, raw: BinaryIO, name: str, form: str | None, growing: bool = False) -> None:
        self.name, self._growing = name, growing
        self.position = self.line = 0
        self._rest = b""  # of a line that is being written
        self._held: bytes | None = None  # a line that was looked at
        try:
            self._file = unpacked(raw)
        except DAMAGE as error:
            raise self._damaged(error) from None
        self.plain = self._file is raw
        self.form = form or self._told()
        self.delimiter, self.columns = ",", None
        if self.form == "csv":
            self.columns = self._header()
        self.begins = self.position

    def _told(self) -> str:
        """Return the form that the first line has, which is read again."""
        line = self._content()
        if line is None:
            raise ValueError(f"{self.name} is empty")
        first = line.removeprefix(_MARK).lstrip()[:1]
        if first == b"[":
            raise ValueError(f"{self.name} is a JSON array; JSON lines have one object a line")
        self._held = line
        self.position, self.line = self.position - len(line), self.line - 1
        return "json" if first == b"{" else "csv"

    def _content(self) -> bytes | None:
        """Return the next line that is not blank."""
        line = self._line()
        while line is not None and not line.removeprefix(_MARK).strip():
            line = self._line()
        return line

    def _header(self) -> list[str]:
        line = self._content()
        if line is None:
            raise ValueError(f"{self.name} is empty; the first line of CSV names the columns")
        try:
            text = line.removeprefix(_MARK).decode()
        except UnicodeDecodeError:
            raise ValueError(f"{self.name}: the first line is not UTF-8") from None
        self.delimiter = "\t" if "\t" in text and "," not in text else ","
        try:
            return next(csv.reader([text], delimiter=self.delimiter))
        except (csv.Error, StopIteration) as error:
            raise ValueError(f"{self.name}: the first line names no columns ({error})") from None

    def records(self) -> Iterator[Raw]:
        """Yield what is there from the position on."""
        if self.form == "csv":
            yield from self._rows()
            return
        while (line := self._line()) is not None:
            start = self.position - len(line)
            body = line.removeprefix(_MARK) if start == 0 else line
            if body.strip():
                yield Raw(start, body.rstrip(b"\r\n"))

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
            start, count = self.position - len(whole), len(lines)
            lines.clear()
            if self._growing and ended and whole:
                self.seek(start)  # the row is still being written
                self.line -= count
                return
            if row is None:
                return
            if row:
                yield Raw(start, whole.rstrip(b"\r\n"))

    def _line(self) -> bytes | None:
        """Return the next line, None at the end, or where the last line may still grow."""
        if self._held is not None:
            line, self._held = self._held, None
        else:
            try:
                line = self._rest + self._file.readline()
            except DAMAGE as error:
                raise self._damaged(error) from None
            self._rest = b""
            if self._growing and not line.endswith(b"\n"):
                self._rest = line
                return None
        self.position += len(line)
        self.line += bool(line)
        return line or None

    def _damaged(self, error: Exception) -> DamagedError:
        return DamagedError(f"the compressed data is cut short or damaged ({error})")

    def seek(self, position: int) -> None:
        """Read from this position on.

        Raises
        ------
        ValueError
            If the file ends before it.
        """
        self._rest, self._held = b"", None
        try:
            self._file.seek(position)
        except DAMAGE as error:
            raise self._damaged(error) from None
        if self._file.tell() != position:
            raise ValueError(f"it ends before byte {position}, up to which it was read")
        self.position = position

    def finish(self) -> None:
        """Take what is there for whole: nothing more is written."""
        self._growing = False

    def head(self, length: int) -> bytes:
        """Return the first so many bytes; reading goes on where it was."""
        at = self._file.tell()
        try:
            self._file.seek(0)
            return self._file.read(length)
        except DAMAGE as error:
            raise self._damaged(error) from None
        finally:
            with contextlib.suppress(*DAMAGE):
                self._file.seek(at)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
