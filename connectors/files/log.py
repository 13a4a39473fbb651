"""A log on disk as a source of events: CSV or JSON lines, plain, gzip or zstd.

What a file is, is read from its first bytes, not from its name: compression by its magic number, JSON
lines by an opening brace. CSV has a header line; each value is a number if it reads as one, missing
if it is empty, and otherwise a string; the target is a label until the task is known.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import zstandard

from connectors.events import Record, read_label, read_value
from connectors.files.compression import unpacked


class Log:
    """A log to be read once, in order.

    Parameters
    ----------
    path
        The file, or ``-`` for standard input.
    target
        The field to predict; it is taken out of the events.
    """

    def __init__(self, path: str | Path, target: str) -> None:
        self.name, self.target = str(path), target
        self._raw: BinaryIO | None = None
        self.size = 0 if self.name == "-" else Path(path).stat().st_size

    def left_out(self) -> str:
        """Return nothing: a line that cannot be read ends the reading."""
        return ""

    def position(self) -> int:
        """Return how many bytes of the file have been read."""
        if self._raw is None:
            return 0
        if self._raw.closed:
            return self.size
        return self._raw.tell() if self._raw.seekable() else 0

    def __iter__(self) -> Iterator[Record]:
        with sys.stdin.buffer if self.name == "-" else Path(self.name).open("rb") as raw:
            self._raw = raw
            reader = _Counted(_text(raw))
            try:
                head = reader.peek()
                if not head:
                    raise ValueError(f"{self.name} is empty")
                if head.lstrip().startswith("["):
                    raise ValueError(f"{self.name} is a JSON array; JSON lines have one object a line")
                read = self._json if head.lstrip().startswith("{") else self._csv
                yield from read(reader)
            except (EOFError, gzip.BadGzipFile, zstandard.ZstdError, zlib.error) as error:
                raise ValueError(
                    f"{self.name}, after line {reader.line}: the compressed data is cut short or "
                    f"damaged ({error})"
                ) from None
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"{self.name}, after line {reader.line}: the text is not UTF-8 ({error.reason})"
                ) from None

    def _json(self, reader: _Counted) -> Iterator[Record]:
        for text in reader:
            if not text.strip():
                continue
            try:
                fields = json.loads(text)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{self.place(reader.line)}: not valid JSON ({error})") from None
            if not isinstance(fields, dict):
                raise ValueError(
                    f"{self.place(reader.line)}: a JSON line must be an object, not {type(fields).__name__}"
                )
            if self.target not in fields:
                raise ValueError(
                    f"{self.place(reader.line)}: there is no field {self.target!r}; "
                    f"there are {', '.join(fields) or 'none'}"
                )
            target = fields.pop(self.target)
            yield Record(reader.line, fields, target)

    def _csv(self, reader: _Counted) -> Iterator[Record]:
        delimiter = "\t" if "\t" in reader.peek() and "," not in reader.peek() else ","
        rows = csv.reader(reader, delimiter=delimiter, strict=True)
        try:
            header = next(rows)
            if self.target not in header:
                raise ValueError(
                    f"{self.name}: there is no column {self.target!r}; there are {', '.join(header)}"
                )
            if len(set(header)) != len(header):
                twice = next(name for name in header if header.count(name) > 1)
                raise ValueError(f"{self.name}: two columns are named {twice!r}")
            at = header.index(self.target)
            names = header[:at] + header[at + 1 :]
            for values in rows:
                if not values:
                    continue
                if len(values) != len(header):
                    raise ValueError(
                        f"{self.place(reader.line)}: {len(values)} values for {len(header)} columns"
                    )
                target = read_label(values.pop(at))
                yield Record(reader.line, dict(zip(names, map(read_value, values), strict=True)), target)
        except csv.Error as error:
            raise ValueError(f"{self.place(reader.line)}: not valid CSV ({error})") from None

    def place(self, line: int) -> str:
        """Return how messages name a line of this log."""
        return f"{'standard input' if self.name == '-' else self.name}, line {line}"


class _Counted:
    """Lines of a text, counted, the first of which can be looked at before it is read."""

    def __init__(self, text: io.TextIOBase) -> None:
        self._text, self._first, self.line = text, "", 0

    def peek(self) -> str:
        """Return the first line that is not blank, empty if there is none."""
        while not self._first.strip():
            self._first = self._text.readline()
            if not self._first:
                break
            self.line += 1
        return self._first

    def __iter__(self) -> _Counted:
        return self

    def __next__(self) -> str:
        if self._first:
            text, self._first = self._first, ""
            return text
        text = self._text.readline()
        if not text:
            raise StopIteration
        self.line += 1
        return text


def _text(raw: BinaryIO) -> io.TextIOBase:
    return io.TextIOWrapper(unpacked(raw), encoding="utf-8-sig", newline="")
