"""Many rows at once: what a batch of rows can do, and the batch of a list of dicts.

A batch is checked whole, and its names registered, before its first row is learned; rows are then
encoded in pieces, so a large frame is never copied whole. Encoding agrees with
:meth:`streamk.inputs.Inputs.encode` to the bit, names being registered in the order in which a loop
over the rows would have met them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from streamk.inputs import Event, Inputs
from streamk.rows import RowError, Rows, empty_rows, first_bad, stack

Mask = NDArray[np.bool_]


class Batch(Protocol):
    """Rows that are prepared, then encoded in pieces, and answered in their own type."""

    def __len__(self) -> int: ...

    def prepare(self, inputs: Inputs, active: Mask | None) -> None:
        """Check every value; register the names of the ``active`` rows (None: register nothing)."""
        ...

    def rows(self, inputs: Inputs, start: int, stop: int) -> Rows:
        """Return the encoded rows ``start … stop − 1``."""
        ...

    def series(self, values: list[Any]) -> Any:
        """Return one value a row, in the type that goes with the input."""
        ...

    def table(self, labels: Sequence[Any], values: NDArray[Any]) -> Any:
        """Return one column a label, in the type that goes with the input."""
        ...


class EventBatch:
    """Rows that are dicts, each with its own fields."""

    def __init__(self, events: Sequence[Event]) -> None:
        self._events = events
        self._encoded = empty_rows(0, 0)

    def __len__(self) -> int:
        return len(self._events)

    def prepare(self, inputs: Inputs, active: Mask | None) -> None:
        """Check and encode every event; register the names of the active ones."""
        learned = [False] * len(self) if active is None else active.tolist()
        row = 0
        try:
            whole = inputs.encode_alike(self._events) if self._events else None
            if whole is not None and first_bad(*whole) < 0:
                self._encoded = whole
                return
            new = False
            for row, x in enumerate(self._events):  # noqa: B007 (an error names the row)
                new = inputs.meets_new(x) or new
            for row, x in enumerate(self._events if new else ()):  # noqa: B007
                inputs.check(x)
            encoded = []
            for row, x in enumerate(self._events):
                encoded.append(inputs.encode(x, learned[row]).copy())
            whole = stack(encoded) if encoded else empty_rows(0, 0)
            bad = first_bad(*whole)
            if bad >= 0:
                row = bad // whole.values.shape[1]
                inputs.check(self._events[row])
        except ValueError as error:
            raise RowError(row, str(error)) from None
        self._encoded = whole

    def rows(self, inputs: Inputs, start: int, stop: int) -> Rows:
        """Return the encoded rows ``start … stop − 1``."""
        return self._encoded.select(slice(start, stop))

    def series(self, values: list[Any]) -> Any:
        """Return the values as a list."""
        return values

    def table(self, labels: Sequence[Any], values: NDArray[Any]) -> Any:
        """Return one dict of label to value a row."""
        return [dict(zip(labels, row, strict=True)) for row in values.tolist()]


def targets(y: Any, rows: int, what: str = "y") -> list[Any]:
    """Return a series, array or sequence as a list of ``rows`` values."""
    values = y
    if not isinstance(y, (list, tuple)):
        if isinstance(y, np.ndarray):
            values = y.tolist()
        else:
            try:
                values = nw.from_native(y, series_only=True).to_list()
            except TypeError:
                raise ValueError(
                    f"{what} must be a series, an array or a list, not {type(y).__name__}"
                ) from None
    if not isinstance(values, (list, tuple)):
        raise ValueError(f"{what} must have one value a row, and it is a single value")
    if len(values) != rows:
        raise ValueError(f"X has {rows} rows and {what} has {len(values)}; they must be the same")
    return list(values)
