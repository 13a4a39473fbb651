"""Encoded rows: what a dict or a frame becomes before it is scaled.

A field of a row is a *slot* (where its statistics live, −1 for a field that is not scaled), a *key* (its
direction in feature space, 0 for a field that is absent) and a value. A small key is a slot of structured
directions (:mod:`streamk.features.segments`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

UNSCALED, ABSENT = -1, 0
MOST_SLOTS = 65_536  # of structured directions; keys up to this are slots, counted from 1
LARGEST = 1e100  # of a number that is scaled: its square must stay finite
LARGEST_UNSCALED = 1e15


class RowError(ValueError):
    """A value of one of many rows was refused: the row, counted from 0, and the reason."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(f"row {row}: {reason}")
        self.row, self.reason = row, reason


class Rows(NamedTuple):
    """Encoded rows. ``slots`` and ``keys`` have one row for all if every row has the same fields."""

    slots: NDArray[np.int32]
    keys: NDArray[np.uint64]
    values: NDArray[np.float64]

    def select(self, rows: NDArray[np.intp] | slice) -> Rows:
        """Return some of the rows, copied if ``rows`` is an array of row numbers."""
        if len(self.keys) == 1:
            return Rows(self.slots, self.keys, self.values[rows])
        return Rows(self.slots[rows], self.keys[rows], self.values[rows])

    def copy(self) -> Rows:
        """Return rows that share no memory with these."""
        return Rows(self.slots.copy(), self.keys.copy(), self.values.copy())

    def most_slots(self) -> int:
        """Return the number of structured slots that hold all the rows' slots, 0 if there are none."""
        return int(np.where(self.keys <= MOST_SLOTS, self.keys, 0).max(initial=0))

    def fields(self) -> int:
        """Return the largest number of fields present in a row."""
        return int((self.keys != ABSENT).sum(axis=1).max(initial=0))


def stack(parts: Sequence[Rows]) -> Rows:
    """Return the rows of all parts, as one and the same arrays however they were portioned.

    Absent fields go to the end of their row and the width is that of the fullest row; slots and keys are
    shared if all rows have the same.
    """
    count = sum(len(p.values) for p in parts)
    whole = empty_rows(count, max(p.values.shape[1] for p in parts))
    start = 0
    for part in parts:
        rows, columns = slice(start, start + len(part.values)), slice(part.values.shape[1])
        whole.slots[rows, columns] = part.slots
        whole.keys[rows, columns] = part.keys
        whole.values[rows, columns] = part.values
        start += len(part.values)
    absent = whole.keys == ABSENT
    if absent.any():
        whole.slots[absent], whole.values[absent] = UNSCALED, 0.0
        order = np.argsort(absent, axis=1, kind="stable")[:, : whole.fields()]
        whole = Rows(
            np.take_along_axis(whole.slots, order, axis=1),
            np.take_along_axis(whole.keys, order, axis=1),
            np.take_along_axis(whole.values, order, axis=1),
        )
    slots, keys, values = whole
    if count and (keys == keys[0]).all() and (slots == slots[0]).all():
        return Rows(slots[:1], keys[:1], values)
    return whole


def slices(count: int, size: int) -> list[slice]:
    """Return consecutive slices of at most ``size``, from 0 to ``count``."""
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]


def empty_rows(count: int, width: int) -> Rows:
    """Return rows in which every field is absent."""
    return Rows(
        np.full((count, width), UNSCALED, dtype=np.int32),
        np.zeros((count, width), dtype=np.uint64),
        np.zeros((count, width)),
    )


@njit(cache=True, error_model="numpy")
def first_bad(slots, keys, values):  # type: ignore[no-untyped-def]
    """Return the flat index of the first value that is not finite or too large, else −1."""
    width = values.shape[1]
    for i in range(values.shape[0]):
        shared = min(i, slots.shape[0] - 1)
        for j in range(width):
            unscaled = slots[shared, j] < 0 and keys[shared, j] != 0
            if not abs(values[i, j]) <= (LARGEST_UNSCALED if unscaled else LARGEST):
                return i * width + j
    return -1
