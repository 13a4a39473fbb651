"""Cells of many lines to a batch, column by column; events are those that the decoder makes of each line."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence, Set
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from connectors.events import Decoder, Event
from connectors.files.batches import Batch, Broken
from connectors.files.cells import Cells
from connectors.files.headers import AGAIN, Header
from connectors.files.numbers import FALSE, FLOAT, INT, TEXT, TRUE
from connectors.values import labels_of, ungrouped, value_reader

_KEPT, _LONGEST = 1 << 15, 64  # texts whose values are kept, and how long they may be
_WORDS = {TRUE: True, FALSE: False}

Columns = NDArray[np.int64]


class _Memory(dict[bytes, Any]):
    """What texts were read as."""

    def __init__(self, read: Callable[[str], Any]) -> None:
        super().__init__()
        self._read = read

    def __missing__(self, text: bytes) -> Any:
        value = self._read(text.decode())
        if len(text) <= _LONGEST:
            if len(self) >= _KEPT:
                self.clear()
            self[text] = value
        return value


class Assembler:
    """Makes batches of cells.

    Parameters
    ----------
    decode
        The decoder of one line, whose events all of this must be.
    names
        Of the columns; None if lines are to be decoded one by one.
    target, time
        Which of them these are.
    ignore
        Names of columns that are left out.
    csv
        Whether values have no types but what they read as: then with these:
    decimal, missing
        As of :func:`connectors.events.value_reader`.
    header, delimiter
        Of CSV: a row of the names of the columns is the header of a file that was appended, and broken.
    numeric
        Columns of CSV where numbers may have signs between thousands.
    """

    def __init__(
        self,
        decode: Decoder,
        names: Sequence[str] | None,
        target: str,
        time: str | None = None,
        ignore: Sequence[str] = (),
        csv: bool = False,
        decimal: str = ".",
        missing: Sequence[str] = (),
        header: Sequence[str] | None = None,
        delimiter: str = ",",
        numeric: Set[str] = frozenset(),
    ) -> None:
        self._header = Header(header or [], delimiter, target)
        self._decode, self._csv, self._target_name, self._time = decode, csv, target, time
        self._names = list(names or [])
        place = {name: j for j, name in enumerate(self._names)}
        self._target, self._moment = place.get(target, -1), place.get(time or "", -1) if time else -1
        gone = {target, time, *ignore}
        self._taken = [j for j, name in enumerate(self._names) if name not in gone]
        self._features = [self._names[j] for j in self._taken]
        self._numeric = numeric
        if csv:
            value, own = value_reader(decimal, missing), value_reader(decimal, missing, texts=True)
            self._values, self._labels = _Memory(value), _Memory(own)
            self._number: Callable[[str], Any] = lambda text: value(ungrouped(text, decimal))
            self._counts = _Memory(self._number)
            if target in numeric:
                self._own: Callable[[str], Any] = lambda text: own(ungrouped(text, decimal))
                self._labels = _Memory(self._own)
        else:
            self._values = self._labels = _Memory(str)

    def batch(
        self, data: bytes, cells: Cells, count: int, lines: NDArray[np.int64], place: Callable[[int], str]
    ) -> Batch:
        """Return the batch of the first rows of cells; ``lines`` are theirs, and ``place`` names one."""
        begins, ends = cells.begins[:count], cells.ends[:count]
        plain = cells.plain[:count].copy()
        real = cells.lines[:count] > 0
        if self._target < 0 or not _is_utf8(data, int(begins[0]), int(ends[-1])):
            plain[:] = False
        for row in self._header.rows(data, begins, int(ends[-1])):
            plain[row] = False
        rows = np.flatnonzero(plain & real)
        odd: dict[int, Event | str] = {}
        broken = Broken()
        for row in np.flatnonzero(real & ~plain).tolist():
            text = data[begins[row] : ends[row]].rstrip(b"\r\n")
            try:
                odd[row] = AGAIN if self._header.is_line(text) else self._counted(text)
            except ValueError as error:
                odd[row] = str(error)
        whole = self._columns(data, cells, rows)
        unlabelled = _unlabelled(whole)
        if not odd and not unlabelled:
            whole.lines = lines[rows].tolist()
            whole.size = int(ends[-1] - begins[0])
            return whole
        # put together again in order
        events, targets, times, found = [], [], [], []
        at = {row: k for k, row in enumerate(rows.tolist())}
        moments = whole.times or [None] * len(rows)
        for row in np.flatnonzero(real).tolist():
            k, line = at.get(row), int(lines[row])
            if k is not None and k not in unlabelled:
                events.append(whole.events[k])
                targets.append(whole.targets[k])
                times.append(moments[k])
            elif k is not None:
                broken.miss(place(line), self._target_name, whole.events[k])
                continue
            else:
                event = odd[row]
                if isinstance(event, str):
                    broken.note(place(line), event)
                    continue
                if event.target is None:
                    broken.miss(place(line), self._target_name, event.fields)
                    continue
                events.append(event.fields)
                targets.append(event.target)
                times.append(event.time)
            found.append(line)
        batch = Batch(found, targets, events, times if self._time else None)
        batch.broken, batch.size = broken, int(ends[-1] - begins[0])
        return batch

    def _counted(self, line: bytes) -> Event:
        """Return what the decoder makes of a line, with numbers whose thousands have signs between them."""
        event = self._decode(line)
        fields = event.fields
        for name in self._numeric & fields.keys() if self._numeric else ():
            if type(fields[name]) is str:
                fields[name] = self._number(fields[name])
        if self._target_name in self._numeric and type(event.target) is str:
            event = msgspec.structs.replace(event, target=self._own(event.target))
        return event

    def _columns(self, data: bytes, cells: Cells, rows: NDArray[np.int64]) -> Batch:
        """Return the batch of rows that are plain."""
        if not len(rows):
            return Batch([], [], [], None if self._time is None else [])
        kinds = cells.kinds[rows]
        taken = self._taken
        inner = kinds[:, taken]
        numbers = bool(((inner == FLOAT) | (inner == INT)).all())
        every = len(rows) == len(cells.kinds) and taken == list(range(len(self._names)))
        matrix = None
        if numbers and taken:
            matrix = cells.values if every else cells.values[rows[:, None], taken]

        def events() -> list[dict[str, Any]]:
            if not taken:
                return [{} for _ in rows]
            columns = [self._column(data, cells, rows, kinds, j, self._reader(j)) for j in taken]
            return [dict(zip(self._features, row, strict=True)) for row in zip(*columns, strict=True)]

        j = self._target
        own = kinds[:, j]
        counted = bool(((own == FLOAT) | (own == INT)).all())

        def targets() -> list[Any]:
            if self._csv:
                return self._texts(data, cells, rows, j, self._labels)
            found = self._column(data, cells, rows, kinds, j, self._values)
            return list(labels_of(found))

        times = None
        if self._time is not None:
            times = [None] * len(rows)
            if self._moment >= 0:
                times = self._column(data, cells, rows, kinds, self._moment, self._values)
        return Batch(
            [],
            targets,
            events if numbers else events(),
            times,
            self._features if matrix is not None else None,
            matrix,
            cells.values[rows, j] if counted else None,
        )

    def _reader(self, j: int) -> _Memory:
        return self._counts if self._names[j] in self._numeric else self._values

    def _texts(self, data: bytes, cells: Cells, rows: NDArray[np.int64], j: int, read: _Memory) -> list[Any]:
        starts, stops = cells.starts[rows, j].tolist(), cells.stops[rows, j].tolist()
        return [read[data[a:b]] for a, b in zip(starts, stops, strict=True)]

    def _column(
        self,
        data: bytes,
        cells: Cells,
        rows: NDArray[np.int64],
        kinds: NDArray[np.uint8],
        j: int,
        read: _Memory,
    ) -> list[Any]:
        """Return the values of a column."""
        kind = kinds[:, j]
        values: list[Any] = cells.values[rows, j].tolist()
        if (kind == FLOAT).all():
            return values
        if (kind == INT).all():
            return list(map(int, values))
        others = np.flatnonzero(kind != FLOAT)
        if len(others) == len(rows) and (self._csv or (kind == TEXT).all()):
            return self._texts(data, cells, rows, j, read)
        starts, stops = cells.starts[rows, j].tolist(), cells.stops[rows, j].tolist()
        for k in others.tolist():
            if self._csv or kind[k] == TEXT:
                values[k] = read[data[starts[k] : stops[k]]]
            elif kind[k] == INT:
                values[k] = int(values[k])
            else:
                values[k] = _WORDS.get(int(kind[k]))
        return values


def _unlabelled(batch: Batch) -> set[int]:
    """Return which events have no target."""
    if batch.numbers is not None or None not in batch.targets:
        return set()
    return {k for k, target in enumerate(batch.targets) if target is None}


def _is_utf8(data: bytes, begin: int, end: int) -> bool:
    part = data[begin:end]
    if part.isascii():
        return True
    try:
        part.decode()
    except UnicodeDecodeError:
        return False
    return True


def written(line: bytes) -> tuple[list[str], list[bytes]] | None:
    """Return the names in a line of JSON, and how they are written; None if it is no object with fields.

    >>> written(b'{"a": 1, "b": {"a": 2}}')
    (['a', 'b'], [b'"a"', b'"b"'])
    """
    try:
        fields = msgspec.json.decode(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict) or not fields:
        return None
    names = list(fields)
    try:
        raw = [msgspec.json.encode(name) for name in names]
    except ValueError:
        return None
    if not all(name in line for name in raw):
        raw = [json.dumps(name).encode() for name in names]
    return names, raw
