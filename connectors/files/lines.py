"""Batches of CSV and of JSON lines."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from connectors.events import Decoder
from connectors.files.batches import BYTES, ROWS, Batch
from connectors.files.cells import POINT, csv_cells, json_cells, names_of, room
from connectors.files.columns import Assembler, written
from connectors.files.dialect import Dialect, check_header, numeric_columns, sniff
from connectors.files.log import DecoderOf
from connectors.files.opening import Opened, StoppedError
from connectors.files.reader import DAMAGE, cut_short
from connectors.values import MISSING

_PART = 1 << 20  # bytes read at once
_LONGEST = {
    "csv": 1 << 20,
    "json": 1 << 24,
}  # a record; of CSV, before a quote counts as one that never closes
_ENDLESS = {"csv": "a quote opens and never closes", "json": "a line of more than 16 MiB"}
_HEADER, _LOOK = 1 << 22, 200  # bytes of a header at most, and lines that tell the dialect
_CELLS = 1 << 20  # of a batch


class Lines:
    """The records of an open file of lines.

    Parameters
    ----------
    file
        What to read.
    target, time, ignore
        Fields that are no features.
    delimiter, decimal
        Of CSV, if they are known.
    missing
        Texts of CSV that are no value.
    before
        The decimal sign of the file before it.
    decoder
        Makes the decoder instead; every line is then decoded by itself.

    Attributes
    ----------
    dialect
        Of CSV.
    cut
        Why there is no more, if not because the file ends.

    Raises
    ------
    ValueError
        If the header is none, or has no such column.
    """

    def __init__(
        self,
        file: Opened,
        target: str,
        time: str | None = None,
        ignore: Sequence[str] = (),
        delimiter: str | None = None,
        decimal: str | None = None,
        missing: Sequence[str] = MISSING,
        decoder: DecoderOf | None = None,
        before: str = ".",
    ) -> None:
        self._before = before
        self._file, self._given = file, (target, time, ignore)
        self._csv, self.dialect, self.cut = file.form == "csv", Dialect(), ""
        self._over, self._missing = False, missing
        self._numeric: set[str] = set()
        self._columns: list[str] | None = None
        self._begins, self._line = file.begins, 0
        point = POINT
        if self._csv:
            self.dialect = self._header(target, delimiter, decimal)
            point = ord(self.dialect.decimal)
        between = self.dialect.delimiter
        if decoder is not None:
            self._decode = decoder(file.form, self._columns, between)
        else:
            self._decode = Decoder(
                file.form, target, time=time, ignore=ignore, columns=self._columns,
                delimiter=between, decimal=self.dialect.decimal, missing=missing,
            )  # fmt: skip
        # a path into objects, and a sign that is not one byte, are not for compiled code
        dotted = any("." in name for name in (target, time or "", *ignore))
        self._slowly = decoder is not None or (not self._csv and dotted) or len(between.encode()) != 1
        self._between, self._point = between.encode()[0], point
        self._numeric = set() if decoder is not None else self._numeric
        self._made: Assembler | None = None
        self._shape: tuple[Any, Any] = names_of([])
        self._width = 0
        if self._csv:
            self._assemble(self._columns)

    def _assemble(self, names: list[str] | None) -> None:
        target, time, ignore = self._given
        known = None if self._slowly else names
        self._width = len(known or [])
        self._made = Assembler(
            self._decode, known, target, time, ignore, self._csv, self.dialect.decimal, self._missing,
            self._columns, self.dialect.delimiter, self._numeric,
        )  # fmt: skip

    def _header(self, target: str, delimiter: str | None, decimal: str | None) -> Dialect:
        """Read the names of the columns; return the dialect of the file's beginning."""
        file = self._file
        while file.head.count(b"\n") < _LOOK and len(file.head) < 1 << 16 and file.more(1 << 16):
            pass
        while b"\n" not in file.head and len(file.head) < _HEADER and file.more(_HEADER):
            pass
        head = file.head[file.begins :]
        whole = head[: head.rfind(b"\n") + 1] or head
        first = b"".join(islice(io.BytesIO(whole), _LOOK))
        text = first.decode("utf-8", "replace")
        dialect = sniff(text, target, delimiter, decimal, self._before)
        self._numeric = numeric_columns(text, dialect, self._missing)
        rows = csv.reader(io.StringIO(whole.decode("latin-1"), newline=""), delimiter=dialect.delimiter)
        try:
            row = next((row for row in rows if row), None)
            if row is None:
                raise ValueError("the first line names no columns")
            names = [name.encode("latin-1").decode() for name in row]
        except UnicodeDecodeError:
            raise ValueError("the first line is not UTF-8") from None
        except csv.Error as error:
            raise ValueError(f"the first line names no columns ({error})") from None
        check_header(names, target)
        if (time := self._given[1]) is not None and time not in names:
            raise ValueError(f"there is no column {time!r}; there are {', '.join(names)}")
        lines = io.BytesIO(whole)
        self._line = rows.line_num
        for _ in range(self._line):
            self._begins += len(lines.readline())
        self._columns = names
        return dialect

    def batches(self) -> Iterator[Batch]:
        """Yield batches."""
        file, longest = self._file, _LONGEST[self._file.form]
        data = file.head[self._begins :]
        at, ended, usual = 0, False, 0
        file.head = b""
        while True:
            rest = len(data) - at
            if rest < usual and not ended:  # not to look at most of a batch twice
                part = self._read(max(_PART, usual))
                data, at, ended = data[at:] + part, 0, not part
                rest = len(data)
            count, after, cells = self._scan(data, at, ended and not self.cut) if rest else (0, at, None)
            if cells is not None and 0 < count < len(cells.plain) and not ended and rest < BYTES:
                part = self._read(max(_PART, rest))  # there is room for more
                data, at, ended = data[at:] + part, 0, not part
            elif count:
                yield self._batch(data, count, cells)
                usual = min(BYTES, (after - at) * ROWS // count * 9 // 8)
                at = after
            elif not ended and rest < longest:
                part = self._read(max(_PART, rest))
                data, at, ended = data[at:] + part, 0, not part
            elif rest and not self.cut:
                end = data.find(b"\n", at) + 1 or len(data)
                yield self._without(_ENDLESS[file.form], end - at)
                at = end
            else:
                if self.cut:
                    yield self._without(cut_short(f"line {self._line}", self.cut), 0)
                return

    def _scan(self, data: bytes, at: int, last: bool) -> tuple[int, int, Any]:
        if self._made is None or (not self._csv and self._width == 0 and not self._slowly):
            found = None if self._slowly else written(data[at : data.find(b"\n", at) + 1 or len(data)])
            self._assemble(found and found[0])
            self._shape = names_of(found[1] if found else [])
        cells = room(max(1, min(ROWS, _CELLS // max(self._width, 1))), self._width)
        seen = np.frombuffer(data, np.uint8)
        if self._csv:
            return *csv_cells(seen, at, last, self._between, self._point, tuple(cells)), cells
        return *json_cells(seen, at, last, *self._shape, tuple(cells)), cells

    def _batch(self, data: bytes, count: int, cells: Any) -> Batch:
        lines = self._line + np.cumsum(np.abs(cells.lines[:count]))
        assert self._made is not None
        batch = self._made.batch(data, cells, count, lines, self._place)
        if not self._csv and not cells.plain[:count].any():
            self._width = 0  # other names from here on, perhaps
        self._line = int(lines[-1])
        return batch

    def _without(self, reason: str, size: int) -> Batch:
        """Return a batch of nothing but a broken record."""
        batch = Batch([], [], [])
        self._line += size > 0
        batch.broken.note(self._place(self._line) if size else self._file.name, reason)
        return batch

    def _place(self, line: int) -> str:
        return f"{self._file.name}, line {line}"

    def _read(self, size: int) -> bytes:
        """Return more bytes; at the end none."""
        parts: list[bytes] = []
        got = 0
        try:
            plain, over = self._file.plain, False
            while not (over or self.cut or self._over) and (part := plain.read1(size - got)):
                parts.append(part)
                got += len(part)
                over = got >= size or self._file.piped  # a pipe may come slowly
        except DAMAGE as error:
            self.cut = str(error)
        except StoppedError:  # what was read is still there
            self._over = True
        return b"".join(parts)
