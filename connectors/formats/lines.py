"""The records of a file of CSV or of JSON lines: one way to find them, for batches and one by one.

A position is a byte of the file, uncompressed and in UTF-8, at the start of a record.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from connectors.contract.records import Raw
from connectors.events.batches import BYTES, ROWS, BatchBuilder, RecordBatch
from connectors.events.decoding import Decoder, EventFormat, Location
from connectors.events.names import listed, numbered
from connectors.events.schema import LOOK
from connectors.events.values import Fields
from connectors.formats.cells import POINT, CsvCells, csv_cells, room
from connectors.formats.columns import Assembler
from connectors.formats.dialect import (
    Dialect,
    check_header,
    header_row,
    rows_of,
    seems_record,
    seems_units,
    sniff,
)
from connectors.formats.open_file import DAMAGE, WINDOWS, DamagedError, OpenFile, StoppedError, cut_short

_PART = 1 << 20  # bytes read at once
_LONGEST = {
    "csv": 1 << 20,
    "json": 1 << 24,
}  # a record; of CSV, before a quote counts as one that never closes
_FEW = 16  # rows that are looked at after a broken one
_MANY_LINES = 100  # of a value, which is then noted
_UNCLOSED = "a quote opens, and the lines up to the next one are no record"
_ENDLESS = {"csv": "a quote opens and never closes", "json": "a line of more than 16 MiB"}
_HEADER = 1 << 22  # bytes of a header at most
_CELLS = 1 << 20  # of a batch
_MOST_LOOKED_AT = 1 << 20  # bytes


class RecordSpan(NamedTuple):
    """Consecutive records in the bytes of a buffer; ``reason`` says why the only one of them is broken."""

    rows: int
    cells: CsvCells
    lines: NDArray[np.int64]  # the last line of each
    reason: str = ""


def _learned(sniffed: Dialect, learned: Dialect, heading: str) -> Dialect:
    """Return a file's dialect with the decimal mark that a model has learned, if delimiters are the same."""
    single = sniffed.delimiter not in heading
    return learned if single or sniffed.delimiter == learned.delimiter else sniffed


class Lines:
    """The records of an open file of lines.

    Parameters
    ----------
    file
        What to read.
    format
        Which field is what.
    before
        The decimal mark of the file before it.
    growing
        Whether the last line may still be written, and is waited for.

    Attributes
    ----------
    format
        With the inferred dialect and types.
    dialect, columns
        Of CSV.
    begins
        The position of the first record.
    position, line
        Of the next record, and how many lines are before it.
    cut
        Why there is no more, if not because the file ends.
    notes
        Sentences about what was read so far.

    Raises
    ------
    ValueError
        If the header is none, or has no such column.
    """

    def __init__(
        self, file: OpenFile, format: EventFormat, before: str | None = None, growing: bool = False
    ) -> None:
        self._file, self.form, self._growing = file, file.form, growing
        self._csv, self.dialect, self.cut = file.form == "csv", Dialect(), ""
        self.notes: list[str] = []
        self._most = ROWS  # rows that are looked at once
        self.encode_by(file.encoding)
        self._over = False
        self.columns: list[str] | None = None
        self.begins, self.line = file.begins, 0
        if self._csv:
            self.dialect = self._header(format, before)
        self.position = self.begins
        self._data, self._at, self._ended, self._usual = file.head[self.begins :], 0, False, 0
        file.head = b""
        self.use(format.with_types(file.types))

    def use(self, format: EventFormat) -> None:
        """Decode by this format from here on."""
        dialect = self.dialect
        if self._csv:
            delimiter = self._file.delimiter or format.delimiter or dialect.delimiter
            dialect = Dialect(delimiter, format.decimal or dialect.decimal)
        self.format, self.dialect, self._point = format, dialect, ord(dialect.decimal)
        self.decoder: Decoder = format.decoder(self.form, self.columns, dialect.delimiter, dialect.decimal)
        # names of inputs, and a delimiter that is not one byte, are not for compiled code
        plain = not (isinstance(format.features, Mapping) or format.key or format.weight)
        between = dialect.delimiter.encode()
        self._between, self._width = between[0], 0
        if self._csv:
            names = list(format.columns or self.columns or ()) if plain and len(between) == 1 else []
            self._width = len(names)
            self._assembler = Assembler(self.decoder, names)

    def _header(self, format: EventFormat, before: str | None) -> Dialect:
        """Read the names of the columns; return the dialect of the file."""
        file = self._file
        while (
            b"\n" not in file.head[file.begins :].lstrip(b"\r\n")
            and len(file.head) < _HEADER
            and file.more(_HEADER)
        ):
            pass
        head = file.head[file.begins :]
        whole = head[: head.rfind(b"\n") + 1] or head
        text = self._utf8(b"".join(islice(io.BytesIO(whole), LOOK))).decode("utf-8", "replace")
        delimiter = file.delimiter or format.delimiter
        dialect = sniff(text, format.target, delimiter, format.decimal, before)
        between, end = dialect.delimiter.encode()[0], 0
        wanted = [*format.required, *([] if format.target is None else [format.target])]
        rows = rows_of(text, dialect.delimiter)
        if format.columns and rows and not self._names_columns(format.columns, rows, dialect):
            self.columns = list(format.columns)
            return dialect
        skipped = 0 if format.skip or format.columns else header_row(rows, wanted)
        for _ in range(skipped + 1):
            begin, end, lines = _next_record(whole, end, between)
            self.line += lines
        try:
            heading = self._utf8(whole[begin:end]).decode().rstrip("\r\n")
            if format.dialect is not None and format.decimal is None:
                dialect = _learned(dialect, Dialect(*format.dialect), heading)
            names = next(csv.reader([heading], delimiter=dialect.delimiter))
        except UnicodeDecodeError:
            raise ValueError("the first line is not UTF-8") from None
        except csv.Error as error:
            raise ValueError(f"the first line names no columns ({error})") from None
        self.columns, self.notes = numbered([name.strip() for name in names])
        if len(names) == 1 and not names[0].isidentifier():
            what = f"its lines have one value each, as {heading[:60]!r}"
            self.notes.append(f"{file.name}: {what}; --delimiter names what is between values")
        if skipped:
            at = self.line - heading.count("\n")
            self.notes.append(f"{file.name}: line {at} names the columns, and the {at - 1} above are skipped")
        check_header(self.columns, format.required)
        if seems_record(self.columns, rows[skipped + 1 :]):
            note = f"line {self.line} names the columns ({', '.join(self.columns[:5])}, …)"
            self.notes.append(f"{file.name}: {note}; if it is a record, --columns a,b,… gives their names")
        below = rows[skipped + 1 :]
        if below and seems_units(below[0], below[1:], dialect.decimal, format, self.columns):
            _, end, lines = _next_record(whole, end, between)
            self.line += lines
            units = listed(list(filter(None, below[0])))
            self.notes.append(f"{file.name}: line {self.line} is skipped, as the units of columns: {units}")
        self.begins += end
        return dialect

    def _names_columns(self, names: Sequence[str], rows: Sequence[Sequence[str]], dialect: Dialect) -> bool:
        """Return whether the first row is these names; raise a ValueError if rows have another count."""
        width = Counter(map(len, rows)).most_common(1)[0][0]
        if width != len(names):
            raise ValueError(
                f"--columns has {len(names)} names, and the rows have {width} values, as "
                f"{', '.join(rows[0][:20])} ({dialect})"
            )
        return numbered(rows[0])[0] == list(names)

    # ---- what comes next

    def first(self) -> list[Fields]:
        """Return the first records, as many as types are inferred from, without types; none is consumed."""
        ends = b"\n" if self._csv else b"}\n"  # of several lines, a record is followed by blank ones
        while self._data.count(ends) <= LOOK and len(self._data) < _MOST_LOOKED_AT and self._fill(_PART):
            pass
        data = np.frombuffer(self._data, np.uint8)[:_MOST_LOOKED_AT]
        last, at, records, seen = len(data) == len(self._data), 0, list[Fields](), 0
        while seen < LOOK:
            cells = room(LOOK - seen, 0)
            count, after = self._cells(data, at, last, cells)
            whole = count if (broken := self._not_whole(count, cells)) is None else broken
            for begin, end, lines in zip(
                cells.begins[:whole], cells.ends[:whole], cells.lines[:whole], strict=True
            ):
                if lines > 0:
                    seen += 1
                    with contextlib.suppress(ValueError):
                        records.append(self.decoder.raw(self._value(begin, end)))
            if broken is not None:
                seen, after = seen + 1, self._data.find(b"\n", cells.begins[broken]) + 1
            elif count < len(cells.plain):
                break
            at = after
        return records

    def frame(self, most: int = ROWS, assemble: bool = True) -> RecordSpan | None:
        """Return the next records; None at the end, or where the last one may still grow.

        Parameters
        ----------
        most
            How many, at most.
        assemble
            Whether their cells are wanted.
        """
        eof, longest = self._ended, _LONGEST[self.form]
        if len(self._data) - self._at < self._usual and not eof:  # not to look at most of a batch twice
            eof = not self._fill(max(_PART, self._usual))
        while True:
            unread = len(self._data) - self._at
            last = eof and not self.cut and not self._growing
            count, after, cells = (
                self._scan(last, min(most, self._most), assemble) if unread else (0, self._at, None)
            )
            if cells is not None and (broken := self._not_whole(count, cells)) is not None:
                self._most = _FEW
                if not broken:
                    return self._first_line(_UNCLOSED)
                return self._frame(broken, int(cells.begins[broken]), cells)
            self._most = min(ROWS, 2 * self._most)
            if cells is not None and 0 < count < len(cells.plain) and not eof and unread < BYTES:
                eof = not self._fill(max(_PART, unread))  # more fit
            elif cells is not None and count:
                self._usual = min(BYTES, (after - self._at) * ROWS // count * 9 // 8)
                return self._frame(count, after, cells)
            elif not eof and unread < longest:
                eof = not self._fill(max(_PART, unread))
            elif unread and not self.cut and (unread >= longest or not self._growing):
                return self._first_line(_ENDLESS[self.form])
            else:
                return None

    def _frame(self, count: int, after: int, cells: CsvCells) -> RecordSpan:
        lines = self.line + np.cumsum(np.abs(cells.lines[:count]))
        for k in np.flatnonzero(cells.lines[:count] > _MANY_LINES):
            number = int(cells.lines[k])
            note = f"a value of {number:,} lines begins in line {lines[k] - number + 1}"
            self.notes.append(f"{self._file.name}: {note}; a quote may have opened it that is none")
        self.position += after - self._at
        self._at, self.line = after, int(lines[-1])
        return RecordSpan(count, cells, lines)

    def _not_whole(self, count: int, cells: CsvCells) -> int | None:
        """Return the first row that has several lines, and not as many cells as there are columns."""
        if not self._csv:
            return None
        rows = np.flatnonzero(cells.lines[:count] > 1)
        if not len(rows):
            return None
        odd = cells.counts[rows] != len(self.format.columns or self.columns or ())
        odd |= cells.ends[rows] - cells.begins[rows] > csv.field_size_limit()
        if len(self.dialect.delimiter.encode()) != 1:
            odd[:] = True
        for k in rows[odd].tolist():
            text = self._value(cells.begins[k], cells.ends[k]).decode("utf-8", "replace")
            if not self.decoder.is_whole(text):
                return int(k)
        return None

    def _value(self, begin: int, end: int) -> bytes:
        """Return the bytes of a record in UTF-8, without the end of its line."""
        return self._utf8(self._data[begin:end].rstrip(b"\r\n"))

    def encode_by(self, encoding: str) -> None:
        """Read by this encoding a log that grows: one of a byte a letter, or UTF-8."""
        windows = self._growing and codecs.lookup(encoding).name == codecs.lookup(WINDOWS).name
        self._utf8 = _from_windows if windows else bytes

    def _first_line(self, reason: str) -> RecordSpan:
        """Return the current line as a broken record."""
        end = self._data.find(b"\n", self._at) + 1 or len(self._data)
        cells = room(1, 0)
        cells.begins[0], cells.ends[0], cells.lines[0], cells.plain[0] = self._at, end, 1, False
        return self._frame(1, end, cells)._replace(reason=reason)

    def _scan(self, last: bool, most: int, assemble: bool) -> tuple[int, int, CsvCells]:
        width = self._width if assemble else 0
        cells = room(max(1, min(most, _CELLS // max(width, 1))), width)
        return *self._cells(np.frombuffer(self._data, np.uint8), self._at, last, cells), cells

    def _cells(self, data: NDArray[np.uint8], at: int, last: bool, cells: CsvCells) -> tuple[int, int]:
        """Fill in the records from a byte on; return how many, and where the next begins."""
        if self._csv:
            filled: tuple[int, int] = csv_cells(data, at, last, self._between, self._point, tuple(cells))
            return filled
        row, text = 0, self._data[: len(data)]
        while row < len(cells.plain) and at < len(text):
            end = text.find(b"\n", at) + 1 or (len(text) if last else 0)
            if not end:
                break
            cells.begins[row], cells.ends[row], cells.plain[row] = at, end, False
            cells.lines[row] = -1 if text[at:end].isspace() else 1  # a blank line is no record
            row, at = row + 1, end
        return row, at

    def records(self, most: int) -> list[Raw]:
        """Return the next records as bytes, at most so many; none at the end.

        Raises
        ------
        DamagedError
            If the data is cut short, and no record is left before that.
        """
        raws: list[Raw] = []
        while len(raws) < most:
            frame = self.frame(min(most - len(raws), ROWS), assemble=False)
            if frame is None:
                break
            base = self.position - self._at
            begins, ends = frame.cells.begins.tolist(), frame.cells.ends.tolist()
            lines = frame.cells.lines.tolist()
            for k in range(frame.rows):
                if lines[k] > 0:
                    raws.append(Raw(base + begins[k], self._value(begins[k], ends[k])))
        if not raws and self.cut:
            raise DamagedError(f"the data is cut short or damaged ({self.cut})")
        return raws

    # ---- batches

    def batches(self) -> Iterator[RecordBatch]:
        """Yield batches."""
        while (frame := self.frame()) is not None:
            yield self._without(frame) if frame.reason else self._batch(frame)
        if self.cut:
            yield RecordBatch.cut_off(self._file.name, cut_short(f"line {self.line}", self.cut))

    def _batch(self, frame: RecordSpan) -> RecordBatch:
        batch = self._from_cells(frame) if self._csv else self._from_lines(frame)
        base = self.position - self._at
        batch.ends = base + frame.cells.ends[: frame.rows][frame.cells.lines[: frame.rows] > 0]
        return batch

    def _from_cells(self, frame: RecordSpan) -> RecordBatch:
        return self._assembler.batch(self._data, frame.cells, frame.rows, frame.lines, self._place)

    def _from_lines(self, frame: RecordSpan) -> RecordBatch:
        """Return the batch of lines of JSON, decoded together if they can be."""
        cells, count = frame.cells, frame.rows
        real = cells.lines[:count] > 0
        spans = zip(cells.begins[:count][real].tolist(), cells.ends[:count][real].tolist(), strict=True)
        builder = BatchBuilder.of(self.format, self._place)
        values = [self._value(begin, end) for begin, end in spans]
        builder.decode(self.decoder, frame.lines[:count][real].tolist(), values)
        batch = builder.batch()
        batch.size = int(cells.ends[count - 1] - cells.begins[0])
        return batch

    def _without(self, frame: RecordSpan) -> RecordBatch:
        """Return a batch of nothing but a broken record."""
        batch = RecordBatch([], [], [])
        batch.broken.note(self._place(self.line), frame.reason)
        batch.ends = np.array([self.position])
        return batch

    def _place(self, line: int) -> Location:
        return Location(self._file.name, line)

    def _fill(self, size: int) -> bool:
        """Read more bytes; return whether there were any."""
        parts: list[bytes] = [self._data[self._at :]]
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
        self._data, self._at = b"".join(parts), 0
        self._ended = not got and not self._growing
        return got > 0

    # ---- positions

    def seek(self, position: int, line: int = 0) -> None:
        """Read from this position on, before which there are so many lines.

        Raises
        ------
        ValueError
            If the file ends before it.
        """
        position = max(position, self.begins)
        self._file.seek(position)
        self._data, self._at, self._ended, self.cut = b"", 0, False, ""
        self.position, self.line = position, line

    @property
    def share(self) -> float:
        """Which part of what was read has been yielded, from 0 to 1."""
        return self.position / max(self.position + len(self._data) - self._at, 1)

    def finish(self) -> None:
        """Take what is there for whole: nothing more is written."""
        self._growing = False


def _next_record(data: bytes, at: int, between: int) -> tuple[int, int, int]:
    """Return where the next record of CSV that is no blank line begins and ends, and the lines up to there.

    Raises
    ------
    ValueError
        If there is none.
    """
    cells, lines = room(1, 0), 0
    seen = np.frombuffer(data, np.uint8)
    while at < len(data):
        count, after = csv_cells(seen, at, True, between, POINT, tuple(cells))
        lines += abs(int(cells.lines[0])) if count else 1
        if not count:  # a quote opens and never closes
            return at, data.find(b"\n", at) + 1 or len(data), lines
        if cells.lines[0] > 0:
            return at, after, lines
        at = after
    raise ValueError("it is empty; the first line of CSV names the columns")


def _from_windows(data: bytes) -> bytes:
    """Return text of Windows-1252 in UTF-8."""
    return data.decode(WINDOWS, "replace").encode()
