"""Encoded rows: dicts and frames as arrays, before they are scaled.

A field of a row is a *slot*, a *key* and a value. The slot is the index of its statistics; −1 for a number
that is not scaled; −2 − slot for a number that is explicitly missing; at most −2³⁰ for a category, one number
for all values of a field. The key is its direction in feature space, 0 for a field that is absent; a small
key is a slot of structured directions (:mod:`streamk.features.structured`). The order of fields does not
matter: they are added in the order of their keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamk.arrays import AnyArray, Array, Arrays, Places, typed
from streamk.compiling import both

UNSCALED, ABSENT = -1, 0
_MISSING = -2
CATEGORY = -(2**30)  # slots of categories go down from here
MOST_SLOTS = 65_536  # of structured directions; keys up to this are slots, counted from 1
LARGEST = 1e100  # of a number that is scaled: its square must stay finite
LARGEST_UNSCALED = 1e15


def missing(slot: int) -> int:
    """Return the slot of a number that is explicitly missing, and so at its mean."""
    return _MISSING - slot


class RowError(ValueError):
    """A value of one of many rows was refused: the row, counted from 0, and the reason."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(f"row {row}: {reason}")
        self.row, self.reason = row, reason


class EncodedRows(NamedTuple):
    """Encoded rows. ``slots`` and ``keys`` have one row for all if every row has the same fields."""

    slots: NDArray[np.int32]
    keys: NDArray[np.uint64]
    values: Array

    def select(self, rows: Places | slice) -> EncodedRows:
        """Return these rows, copied if ``rows`` is an array of row numbers."""
        if len(self.keys) == 1:
            return EncodedRows(self.slots, self.keys, self.values[rows])
        return EncodedRows(self.slots[rows], self.keys[rows], self.values[rows])

    def copy(self) -> EncodedRows:
        """Return rows that share no memory with these."""
        return EncodedRows(self.slots.copy(), self.keys.copy(), self.values.copy())

    def without(self, skipped: NDArray[np.bool_]) -> EncodedRows:
        """Return rows without these values; the array has their shape, or one row for all."""
        return EncodedRows(
            np.where(skipped, np.int32(UNSCALED), self.slots),
            np.where(skipped, np.uint64(ABSENT), self.keys),
            np.where(skipped, 0.0, self.values),
        )

    def most_slots(self) -> int:
        """Return the number of structured slots that hold all the rows' slots, 0 if there are none."""
        return int(np.where(self.keys <= MOST_SLOTS, self.keys, 0).max(initial=0))


def stack(parts: Sequence[EncodedRows]) -> EncodedRows:
    """Return the rows of all parts, as one and the same arrays however they were portioned.

    Fields are in the order of their keys, absent ones at the end, and the width is that of the fullest row;
    slots and keys are shared if all rows have the same.
    """
    first = parts[0]
    if all(len(p.keys) == 1 and _same(p.keys, first.keys) and _same(p.slots, first.slots) for p in parts):
        return _in_order(
            EncodedRows(first.slots, first.keys, np.concatenate([part.values for part in parts]))
        )
    whole = empty_rows(sum(len(p.values) for p in parts), max(p.values.shape[1] for p in parts))
    start = 0
    for part in parts:
        rows, columns = slice(start, start + len(part.values)), slice(part.values.shape[1])
        whole.slots[rows, columns] = part.slots
        whole.keys[rows, columns] = part.keys
        whole.values[rows, columns] = part.values
        start += len(part.values)
    slots, keys, values = _in_order(whole)
    if len(keys) and (keys == keys[0]).all() and (slots == slots[0]).all():
        return EncodedRows(slots[:1], keys[:1], values)
    return EncodedRows(slots, keys, values)


def _same(one: AnyArray, other: AnyArray) -> bool:
    return one is other or np.array_equal(one, other)


def _in_order(rows: EncodedRows) -> EncodedRows:
    """Return rows whose fields are in the order of their keys, without those that all lack."""
    slots, keys, values = rows
    if keys[:, :1].all() and (keys[:, 1:] > keys[:, :-1]).all():
        return rows
    places = np.where(keys == ABSENT, np.uint64(2**64 - 1), keys)
    width = int((keys != ABSENT).sum(axis=1).max(initial=0))
    if width < keys.shape[1] or (places[:, 1:] < places[:, :-1]).any():
        order = np.argsort(places, axis=1, kind="stable")[:, :width]
        everywhere = order if len(order) == len(values) else order.repeat(len(values), axis=0)
        slots, keys = np.take_along_axis(slots, order, axis=1), np.take_along_axis(keys, order, axis=1)
        values = np.take_along_axis(values, everywhere, axis=1)
    gone = keys == ABSENT
    if gone.any():
        slots, values = np.where(gone, np.int32(UNSCALED), slots), np.where(gone, 0.0, values)
    return EncodedRows(slots, keys, values)


def moved(rows: EncodedRows, places: NDArray[np.int32]) -> EncodedRows:
    """Return rows whose numbers have other slots; where ``places`` is −1, the number is absent."""
    slots, keys, values = rows.slots.copy(), rows.keys, rows.values
    there, lacking = slots > UNSCALED, (slots < UNSCALED) & (slots > CATEGORY)
    slots[there] = places[slots[there]]
    gone = there & (slots == UNSCALED)
    if lacking.any():
        at = places[_MISSING - slots[lacking]]
        slots[lacking] = np.where(at == UNSCALED, UNSCALED, _MISSING - at)
        gone |= lacking & (slots == UNSCALED)
    if gone.any():
        keys, values = np.where(gone, np.uint64(ABSENT), keys), np.where(gone, 0.0, values)
    return EncodedRows(slots, keys, values)


def without_nan(rows: EncodedRows) -> EncodedRows:
    """Return rows in which a number that is NaN is missing: at its mean, or absent if it is not scaled."""
    nan = np.isnan(rows.values)
    if not nan.any():
        return rows
    return EncodedRows(
        np.where(nan & (rows.slots > UNSCALED), np.int32(_MISSING) - rows.slots, rows.slots),
        np.where(nan & (rows.slots == UNSCALED), np.uint64(ABSENT), rows.keys),
        np.where(nan, 0.0, rows.values),
    )


def slices(count: int, size: int) -> list[slice]:
    """Return consecutive slices of at most ``size``, from 0 to ``count``."""
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]


def empty_rows(count: int, width: int) -> EncodedRows:
    """Return rows in which every field is absent."""
    return EncodedRows(
        np.full((count, width), UNSCALED, dtype=np.int32),
        np.zeros((count, width), dtype=np.uint64),
        np.zeros((count, width)),
    )


def parts_of(name: str, rows: EncodedRows, goal: Array) -> Arrays:
    """Return rows with their targets and weights ``(2, n)`` as named arrays for a model file."""
    return {
        f"{name}.slots": rows.slots,
        f"{name}.keys": rows.keys,
        f"{name}.values": rows.values,
        f"{name}.goal": goal,
    }


def from_parts(
    name: str, arrays: Arrays, count: int, slots: int, largest: float
) -> tuple[EncodedRows, Array]:
    """Return what :func:`parts_of` described, if it is possible with so many rows and slots."""
    width = arrays[f"{name}.values"].shape[1]
    shape = (1 if len(arrays[f"{name}.keys"]) == 1 else count, width)
    rows = EncodedRows(
        typed(arrays, f"{name}.slots", np.int32, shape),
        typed(arrays, f"{name}.keys", np.uint64, shape),
        typed(arrays, f"{name}.values", np.float64, (count, width)),
    )
    goal = typed(arrays, f"{name}.goal", np.float64, (2, count))
    named = np.where(rows.slots < UNSCALED, _MISSING - rows.slots, rows.slots)
    named = np.where(rows.slots <= CATEGORY, UNSCALED, named)
    if count < 1 or (named.size and named.max() >= slots):
        raise ValueError(f"its {name} events do not fit")
    if first_bad(rows, largest) >= 0 or not (np.isfinite(goal).all() and (goal[1] > 0.0).all()):
        raise ValueError(f"an event of its {name} events has an impossible value")
    return rows, goal


@both()
def first_bad(rows, largest):
    """Return the flat index of the first value that is not finite or too large, else −1.

    ``largest`` bounds numbers that are not scaled.
    """
    slots, keys, values = rows
    width = values.shape[1]
    for i in range(values.shape[0]):
        shared = min(i, slots.shape[0] - 1)
        for j in range(width):
            slot = slots[shared, j]
            unscaled = (slot == UNSCALED or slot <= CATEGORY) and keys[shared, j] != ABSENT
            if not abs(values[i, j]) <= (largest if unscaled else LARGEST):
                return i * width + j
    return -1
