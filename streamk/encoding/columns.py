"""Columns of a batch: one field of all rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.encoding.calendar_inputs import ELAPSED, Moments, calendar_columns, check_apart

Mask = NDArray[np.bool_]


class Column:
    """One field of a frame: numbers with a mask of those present, or strings of categories (None: missing).

    ``bare`` is whether it is an input also if numbers are not scaled.
    """

    def __init__(
        self,
        name: str,
        numbers: Any = None,
        present: Mask | None = None,
        texts: Any = None,
        bare: bool = True,
    ):
        self.name, self.numbers, self.present, self.texts, self.bare = name, numbers, present, texts, bare

    def values(self) -> list[object]:
        """Return what a dict would hold: None where it is missing."""
        if self.texts is not None:
            return list(self.texts)
        if self.present is None:
            return list(self.numbers.tolist())
        return [
            v if there else None
            for v, there in zip(self.numbers.tolist(), self.present.tolist(), strict=True)
        ]

    def part(self, rows: slice) -> Column:
        """Return the column of these rows."""
        numbers, present, texts = (
            None if array is None else array[rows] for array in (self.numbers, self.present, self.texts)
        )
        return Column(self.name, numbers, present, texts, self.bare)

    def first(self, active: Mask) -> int:
        """Return the first active row where the field is present, −1 if there is none."""
        here = active if self.present is None else active & self.present
        return int(here.argmax()) if here.any() else -1


def of_moments(fields: dict[str, Moments], names: set[str]) -> list[Column]:
    """Return the columns of fields of dates and times; ``names`` are those of all columns."""
    columns = []
    for field, moments in fields.items():
        inputs = calendar_columns(field, moments)
        check_apart(field, [name for name, _ in inputs], names)
        for name, numbers in inputs:
            columns.append(Column(name, numbers, moments.present, bare=not name.endswith(ELAPSED)))
    return columns
