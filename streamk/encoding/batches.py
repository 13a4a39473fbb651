"""Many rows at once: what a batch of rows can do, and the batch of a list of dicts.

A batch is checked whole, and its names registered, before its first row is learned; rows are then encoded in
pieces, so a large frame is never copied whole. Encoding agrees with
:meth:`streamk.encoding.inputs.Inputs.encode` but for the order of fields, names being registered in the order
in which a loop over the rows would have met them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from streamk.encoding.fields import Event, check_events
from streamk.encoding.inputs import Inputs
from streamk.encoding.rows import Rows, empty_rows, first_bad

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
        self._encoded = (inputs.encode_alike(self._events) if self._events else None) or inputs.encode_many(
            self._events, [False] * len(self) if active is None else active.tolist()
        )
        if first_bad(self._encoded, inputs.largest) >= 0:
            check_events(self._events, inputs.largest)

    def rows(self, inputs: Inputs, start: int, stop: int) -> Rows:
        """Return the encoded rows ``start … stop − 1``."""
        return self._encoded.select(slice(start, stop))

    def series(self, values: list[Any]) -> Any:
        """Return the values as a list."""
        return values

    def table(self, labels: Sequence[Any], values: NDArray[Any]) -> Any:
        """Return one dict of label to value a row."""
        return [dict(zip(labels, row, strict=True)) for row in values.tolist()]
