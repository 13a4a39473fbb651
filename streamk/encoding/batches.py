"""Batches of rows: their interface, and the batch of a list of dicts.

A batch is checked whole, and its names are registered, before its first row is learned; rows are then encoded
in pieces, so a large frame is never copied whole. Names are registered in the order of a loop over the rows,
so the encoding is that of :meth:`streamk.encoding.inputs.Inputs.encode` except for the order of fields. If
rare names must be evicted within the batch (:mod:`streamk.encoding.names`), it is checked whole and
learned in portions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from streamk.arrays import AnyArray, Places
from streamk.encoding import names
from streamk.encoding.fields import Event, check_events, number_names
from streamk.encoding.inputs import Inputs
from streamk.encoding.names import NamesFullError
from streamk.encoding.rows import EncodedRows, RowError, empty_rows, first_bad

Mask = NDArray[np.bool_]


class Batch(Protocol):
    """Rows that are prepared, then encoded in pieces; predictions are returned in the type of the rows.

    ``complete`` is whether names of all active rows are registered; ``width`` bounds the fields of a row.
    """

    complete: bool

    @property
    def width(self) -> int:
        """Return how many fields a row has at most."""
        ...

    def __len__(self) -> int: ...

    def prepare(self, inputs: Inputs, active: Mask | None) -> None:
        """Check every value; register the names of the ``active`` rows (None: register nothing).

        Raises NamesFullError with the first row whose names are too many; names may be registered then.
        """
        ...

    def select(self, rows: slice | Places) -> Batch:
        """Return the rows at these places, in this order, as a batch that is yet to be prepared."""
        ...

    def number_names(self, row: int) -> list[str]:
        """Return the names of the numbers that a row has."""
        ...

    def rows(self, inputs: Inputs, start: int, stop: int) -> EncodedRows:
        """Return the encoded rows ``start … stop − 1``."""
        ...

    def series(self, values: Sequence[object]) -> object:
        """Return one value a row, in the type that goes with the input."""
        ...

    def table(self, labels: Sequence[object], values: AnyArray) -> object:
        """Return one column a label, in the type that goes with the input."""
        ...


class EventBatch:
    """Rows that are dicts, whose fields may differ."""

    complete = False

    def __init__(self, events: Sequence[Event]) -> None:
        self._events = events
        self._encoded = empty_rows(0, 0)

    @property
    def width(self) -> int:
        """Return how many fields an event has at most."""
        return max(map(len, self._events), default=0)

    def __len__(self) -> int:
        return len(self._events)

    def prepare(self, inputs: Inputs, active: Mask | None) -> None:
        """Check and encode every event; register the names of the active ones."""
        self._encoded = (inputs.encode_alike(self._events) if self._events else None) or inputs.encode_many(
            self._events, [False] * len(self) if active is None else active.tolist()
        )
        if first_bad(self._encoded, inputs.largest) >= 0:
            check_events(self._events, inputs.largest)
        self.complete = active is not None

    def select(self, rows: slice | Places) -> Batch:
        """Return the rows at these places, in this order, as a batch that is yet to be prepared."""
        if isinstance(rows, slice):
            return EventBatch(self._events[rows])
        return EventBatch([self._events[row] for row in rows.tolist()])

    def number_names(self, row: int) -> list[str]:
        """Return the names of the numbers that a row has."""
        return number_names(self._events[row])

    def rows(self, inputs: Inputs, start: int, stop: int) -> EncodedRows:
        """Return the encoded rows ``start … stop − 1``."""
        return self._encoded.select(slice(start, stop))

    def series(self, values: Sequence[object]) -> object:
        """Return the values as a list."""
        return values

    def table(self, labels: Sequence[object], values: AnyArray) -> object:
        """Return one dict of label to value a row."""
        return [dict(zip(labels, row, strict=True)) for row in values.tolist()]


def prepare_whole(rows: Batch, inputs: Inputs, active: Mask) -> None:
    """Check every row; register the names of active rows if there is space for all."""
    before = len(inputs.numbers)
    try:
        rows.prepare(inputs, active)
    except NamesFullError:
        inputs.forget_after(before)
        rows.prepare(inputs, None)
        if rows.width > names.MOST_NAMES:
            for row in np.flatnonzero(active).tolist():
                try:
                    names.check_fits(rows.number_names(row))
                except ValueError as error:
                    raise RowError(row, str(error)) from None


def portions(rows: Batch, inputs: Inputs, active: Mask) -> Iterator[tuple[slice, Batch]]:
    """Yield places and portions of a batch that :func:`prepare_whole` has checked, to be learned in turn.

    There is one portion unless names are too many; rare names leave between two portions.
    """
    if rows.complete:
        yield slice(0, len(rows)), rows
        return
    start = 0
    while start < len(rows):
        stop = len(rows)
        while True:
            part, before = rows.select(slice(start, stop)), len(inputs.numbers)
            try:
                part.prepare(inputs, active[start:stop])
                break
            except NamesFullError as full:
                inputs.forget_after(before)
                if full.row:
                    stop = start + full.row
                else:
                    inputs.evict_for(rows.number_names(start))
        yield slice(start, stop), part
        start = stop
