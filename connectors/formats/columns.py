"""Batches from cells of CSV, by columns; the events are those that the decoder returns for each line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from connectors.events.batches import BatchBuilder, RecordBatch
from connectors.events.decoding import Decoder, Event, is_total
from connectors.events.names import as_written
from connectors.events.schema import DATETIME, MISFIT, NUMBER, words_of
from connectors.events.values import Fields
from connectors.formats.cells import FLOAT, MISSING, TEXT, CsvCells

_KEPT, _LONGEST = 1 << 15, 64  # strings whose values are cached, and their length


class _Memory(dict[bytes, object]):
    """What strings were read as."""

    def __init__(self, read: Callable[[str], object]) -> None:
        super().__init__()
        self._read = read

    def __missing__(self, text: bytes) -> object:
        value = self._read(text.decode())
        if len(text) <= _LONGEST:
            if len(self) >= _KEPT:
                self.clear()
            self[text] = value
        return value


class _Column(NamedTuple):
    """A column that is an input: its place, and how it is read.

    ``strings`` reads the bytes of a cell. ``numbers`` says whether what compiled code reads as a number is
    the value. ``words`` are the names of the inputs of a text.
    """

    place: int
    name: str
    strings: _Memory
    numbers: bool
    words: list[str] | None


class _PlainRows(NamedTuple):
    """Rows whose cells compiled code has located, and what these are."""

    data: bytes
    cells: CsvCells
    rows: NDArray[np.int64]
    kinds: NDArray[np.uint8]

    def text(self, k: int, j: int) -> str:
        """Return the string of a cell."""
        row = self.rows[k]
        return self.data[self.cells.starts[row, j] : self.cells.stops[row, j]].decode()

    def _places(self, j: int) -> tuple[list[int], list[int]]:
        """Return where the cells of a column start and stop."""
        return self.cells.starts[self.rows, j].tolist(), self.cells.stops[self.rows, j].tolist()

    def strings(self, j: int, read: _Memory) -> list[object]:
        """Return the values of a column of strings."""
        data, (starts, stops) = self.data, self._places(j)
        return [read[data[a:b]] for a, b in zip(starts, stops, strict=True)]

    def values(self, j: int, read: _Memory) -> list[object]:
        """Return the values of a column whose numbers are numbers."""
        values: list[object] = self.cells.values[self.rows, j].tolist()
        others = np.flatnonzero(self.kinds[:, j] != FLOAT)
        if len(others) == len(values):
            return self.strings(j, read)
        if len(others):
            data, (starts, stops) = self.data, self._places(j)
            for k in others.tolist():
                values[k] = read[data[starts[k] : stops[k]]]
        return values


class Assembler:
    """Makes batches of cells.

    Parameters
    ----------
    decode
        The decoder of one line, whose events all of this must be.
    names
        Of the columns; None if lines are to be decoded one by one.
    """

    def __init__(self, decode: Decoder, names: Sequence[str] | None) -> None:
        format = decode.format
        self._decode, self._time = decode, format.time
        self._absent, self._none = decode.absent, decode.absent_numbers
        heading = as_written(format.columns or ())
        self._header = (format.delimiter or ",").join(heading).encode()
        first = format.types.get(format.columns[0] if format.columns else "", "").partition(":")[0]
        self._first_counts = first in (NUMBER, DATETIME)  # a word there is no value
        names = list(names or [])
        place = {name: j for j, name in enumerate(names)}
        self._target = place.get(format.target or "", -1) if format.target is not None else -1
        self._moment = place.get(format.time or "", -1) if format.time else -1
        self._known = bool(names) and (self._target >= 0 or format.target not in format.required)
        gone = {format.target, format.time}
        taken = [name for name in place if name not in gone and decode.takes(name)]
        self._inputs = [self._input(place[name], name) for name in taken]
        self._features = [column.name for column in self._inputs]
        self._taken = [column.place for column in self._inputs]
        self._every = self._taken == list(range(len(names)))
        self._all_numbers = all(column.numbers for column in self._inputs)
        self._labels = _Memory(decode.read_target)
        self._moments = _Memory(decode.reader(format.time) if format.time else str)

    def _input(self, j: int, name: str) -> _Column:
        decode, words = self._decode, self._decode.text_names(name)
        kind = decode.format.types.get(name, "").partition(":")[0]
        numbers = (kind in ("", NUMBER)) and name not in decode.verbatim and words is None
        return _Column(j, name, _Memory(decode.reader(name)), numbers, words)

    def batch(
        self,
        data: bytes,
        cells: CsvCells,
        count: int,
        lines: NDArray[np.int64],
        place: Callable[[int], object],
    ) -> RecordBatch:
        """Return the batch of the first rows of cells; ``lines`` are theirs, and ``place`` names one."""
        begins, ends = cells.begins[:count], cells.ends[:count]
        plain = cells.plain[:count].copy()
        real = cells.lines[:count] > 0
        if not self._known or not _is_utf8(data, int(begins[0]), int(ends[-1])):
            plain[:] = False
        for row in self._headers(data, begins, int(ends[-1])):
            plain[row] = False
        if plain.any():
            plain &= ~self._perhaps_totals(data, cells, count)
        rows = np.flatnonzero(plain & real)
        others: dict[int, Event | str] = {}
        for row in np.flatnonzero(real & ~plain).tolist():
            text = data[begins[row] : ends[row]].rstrip(b"\r\n")
            try:
                others[row] = self._decode(text)
            except ValueError as error:
                others[row] = str(error)
        whole = self._columns(data, cells, rows)
        unlabelled = self._decode.format.labelled and whole.numbers is None and None in whole.targets
        size, span = int(ends[-1] - begins[0]), np.flatnonzero(real).tolist()
        if not others and not unlabelled and self._inputs:
            whole.lines, whole.size = lines[rows].tolist(), size
            whole.ordinals = range(len(rows))
            return whole
        # merged again, in order
        builder = BatchBuilder.of(self._decode.format, place)
        at = {row: k for k, row in enumerate(rows.tolist())}
        events, targets, times = whole.events, whole.targets, whole.times or [None] * len(rows)
        for ordinal, row in enumerate(span):
            k = at.get(row)
            event = others[row] if k is None else Event(events[k], targets[k], None, None, times[k])
            builder.add(ordinal, int(lines[row]), event)
        batch = builder.batch()
        batch.size = size
        return batch

    def _headers(self, data: bytes, begins: NDArray[np.int64], end: int) -> Iterator[int]:
        """Yield rows that repeat the header, and perhaps others that contain it."""
        at = int(begins[0])
        while self._header and (at := data.find(self._header, at, end)) >= 0:
            yield int(np.searchsorted(begins, at, "right")) - 1
            at += len(self._header)

    def _perhaps_totals(self, data: bytes, cells: CsvCells, count: int) -> NDArray[np.bool_]:
        """Return which plain rows may be totals, by their first value (:meth:`Decoder.total_in`)."""
        kinds = cells.kinds[:count]
        words = (kinds[:, 0] == TEXT) if self._first_counts else np.zeros(count, bool)
        missing = kinds == MISSING
        others = np.arange(missing.shape[1]) != self._target
        least = max(others.sum() - 1, 1)  # of twice the missing values
        if 2 * np.count_nonzero(missing) >= least:
            words |= 2 * missing[:, others].sum(axis=1) >= least
        rows = np.flatnonzero(words & cells.plain[:count])
        if not len(rows):
            return words
        first = cells.starts[rows, (~missing[rows]).argmax(axis=1)]
        letters = np.frombuffer(data, np.uint8)[np.minimum(first, len(data) - 1)] | 32
        words[:] = False
        for at in np.flatnonzero((letters >= ord("a")) & (letters <= ord("z")) | (letters > 127)).tolist():
            row, begin = rows[at], first[at]
            stop = cells.stops[row][cells.starts[row] == begin].max()
            words[row] = is_total(data[begin:stop].decode("utf-8", "replace"))
        return words

    def _columns(self, data: bytes, cells: CsvCells, rows: NDArray[np.int64]) -> RecordBatch:
        """Return the batch of rows that are plain."""
        if not len(rows):
            return RecordBatch([], [], [], None if self._time is None else [])
        taken, plain = self._taken, _PlainRows(data, cells, rows, cells.kinds[rows])
        kinds = plain.kinds
        inner = kinds[:, taken]
        numbers = self._all_numbers and bool((inner == FLOAT).all())
        if numbers and self._none:
            numbers = not np.isin(cells.values[rows[:, None], taken], self._none).any()
        matrix = None
        if numbers and taken:
            every = self._every and len(rows) == len(cells.kinds)
            matrix = cells.values if every else cells.values[rows[:, None], taken]

        def events() -> list[Fields]:
            names, columns = [], []
            for column in self._inputs:
                values = self._column(plain, column)
                if column.words is None:
                    names.append(column.name)
                    columns.append(values)
                else:
                    names += column.words
                    columns += _of_words(values, len(column.words))
            if not names:
                return [{} for _ in rows]
            return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]

        j = self._target
        counted = j >= 0 and bool((kinds[:, j] == FLOAT).all())
        if counted and self._none:
            counted = not np.isin(cells.values[rows, j], self._none).any()

        def targets() -> list[object]:
            if j < 0:
                return [None] * len(rows)
            return plain.strings(j, self._labels)

        times = None
        if self._time is not None:
            times = plain.values(self._moment, self._moments) if self._moment >= 0 else [None] * len(rows)
        names = self._features if matrix is not None else None
        batch = RecordBatch([], targets, events if numbers else events(), times, names, matrix)
        batch.numbers = cells.values[rows, j] if counted else None
        return batch

    def _column(self, plain: _PlainRows, column: _Column) -> list[object]:
        """Return the values of a column that is an input; misfits are counted, and missing."""
        if not column.numbers:
            values = plain.strings(column.place, column.strings)
        else:
            values = plain.values(column.place, column.strings)
            if self._decode.drops_values and column.name not in self._decode.verbatim:
                values = [None if self._decode.is_no_value(value) else value for value in values]
        if MISFIT in values:
            example = plain.text(next(k for k, value in enumerate(values) if value is MISFIT), column.place)
            self._decode.note_misfit(column.name, example, values.count(MISFIT))
            values = [None if value is MISFIT else value for value in values]
        return values


def _of_words(strings: Sequence[object], count: int) -> list[list[object]]:
    """Return the inputs of a text column, a list each."""
    rows = [words_of("" if text is None else text, count) for text in strings]
    return [list(column) for column in zip(*rows, strict=True)]


def _is_utf8(data: bytes, begin: int, end: int) -> bool:
    part = data[begin:end]
    if part.isascii():
        return True
    try:
        part.decode()
    except UnicodeDecodeError:
        return False
    return True
