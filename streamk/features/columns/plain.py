"""Plain columns: scaled inputs before the random features of a row, for experts linear in the inputs.

The first column is a constant; the others are the scaled inputs, divided by the root of the number of present
fields, each in the column assigned to its key when it was first learned. In the first part, numbers may be
32 deviations from their mean, not 4 (:mod:`streamk.features.raw_values`). There are 512; numbers
after the 511th have none, and values of categories get one among the first 127 only, since least squares
cost the square of their columns. The columns of the label history follow
(:mod:`streamk.encoding.label_history`). All are multiplied by the root of half the
features, so that their weight in ``φᵀφ`` is that of random features.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence

import numpy as np
from numba import njit
from numpy.typing import NDArray

from streamk.arrays import Integers
from streamk.compiling import CALLED, INNER
from streamk.dispatch import implements
from streamk.encoding.label_history import COLUMNS
from streamk.encoding.rows import CATEGORY
from streamk.features.columns.family import Family, fill
from streamk.vector.linear_algebra import clear, copy

LINEAR = 512
_VALUES = 128  # columns, and the limit of columns in use for a new category value
PLAIN = LINEAR + COLUMNS
_SPARSE = 4  # cells per column in the hash table of keys, open addressing
_COUNT = 0  # index of the number of columns in use among the keys; the constant has no key
LEAST_CATEGORY = 2**64 - 2**31  # tags from here on belong to categories
Keys = NDArray[np.uint64]


def empty_columns(columns: int = LINEAR) -> Keys:
    """Return the keys of so many columns, with the constant only."""
    keys = np.zeros(columns, dtype=np.uint64)
    keys[_COUNT] = 1
    return keys


def in_use(keys: Keys) -> list[int]:
    """Return the keys with columns, in the order of columns; the first has column 1."""
    return [int(key) for key in keys[1 : int(keys[_COUNT])]]


def are_keys(keys: Sequence[int] | Keys) -> bool:
    """Return whether these may be the keys of columns: distinct, and not 0."""
    return len({*map(int, keys)} - {0}) == len(keys)


def columns_of(keys: list[int], most: int = LINEAR) -> Keys:
    """Return the columns of distinct keys, at most so many with the constant; further keys have none.

    Raises a ValueError if keys are not distinct.
    """
    if not are_keys(keys):
        raise ValueError("its plain columns are impossible")
    columns, kept = empty_columns(most), keys[: most - 1]
    columns[1 : 1 + len(kept)] = kept
    columns[_COUNT] = 1 + len(kept)
    return columns


def index_of(keys: Keys) -> Integers:
    """Return the hash table from keys to columns."""
    index = np.zeros(_SPARSE * len(keys), dtype=np.int64)
    for column, key in enumerate(in_use(keys), 1):
        place = key % len(index)
        while index[place]:
            place = (place + 1) % len(index)
        index[place] = column
    return index


@njit(**CALLED)
def column_of(keys, index, key, learned):
    """Return the column of an input, 0 if it has none; a learned input gets a free one."""
    places = np.uint64(index.shape[0])
    place = key % places
    while index[place] > 0:
        if keys[index[place]] == key:
            return index[place]
        place = (place + np.uint64(1)) % places
    column = np.int64(keys[_COUNT])
    if not learned or column == keys.shape[0]:
        return np.int64(0)
    keys[column], index[place] = key, column
    keys[_COUNT] += np.uint64(1)
    return column


@njit(**INNER)
def has_room(keys, slot):
    """Return whether a column is free for another input of this slot."""
    return keys[_COUNT] < np.uint64(keys.shape[0] if slot > CATEGORY else _VALUES)


@njit(**INNER)
def tag_of(slot, key):
    """Return the tag of the field of an input: its key, or the slot value of a category."""
    return np.uint64(np.int64(slot)) if slot <= CATEGORY else key


PlainRecord = namedtuple("PlainRecord", "first")


class PlainColumns(Family):
    """A constant and scaled inputs."""

    name = "plain"
    record_type = PlainRecord


@implements(fill, PlainRecord)
def _fill(family, sections, scratch, i, learned, phi):
    row = i * phi.shape[1]
    clear(phi, row, LINEAR)
    phi[i, 0] = sections.amplitude
    for j in range(scratch.counts[i]):
        key, slot = scratch.keys[i, j], scratch.slots[i, j]
        column = column_of(
            sections.columns, sections.places, key, learned and has_room(sections.columns, slot)
        )
        if column > 0:
            phi[i, column] = sections.amplitude * scratch.wide[i, j]
            if learned:
                sections.tags[column] = tag_of(slot, key)
    for p in range(1, sections.starts.shape[0]):
        copy(phi, row + sections.starts[p], phi, row, LINEAR)
        for j in range(scratch.counts[i]):
            if scratch.wide[i, j] == scratch.inputs[0, i, j]:
                continue
            column = column_of(sections.columns, sections.places, scratch.keys[i, j], False)
            if column > 0:
                phi[i, sections.starts[p] + column] = sections.amplitude * scratch.inputs[0, i, j]


@njit(**CALLED)
def tag_columns(sections, scratch, i):
    """Tag the columns of the inputs of row ``i``; return whether learning it would assign no other."""
    known = True
    if sections is not None:
        for j in range(scratch.counts[i]):
            key, slot = scratch.keys[i, j], scratch.slots[i, j]
            column = column_of(sections.columns, sections.places, key, False)
            if column > 0:
                sections.tags[column] = tag_of(slot, key)
            elif has_room(sections.columns, slot):
                known = False
    return known
