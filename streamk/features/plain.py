"""Plain columns: what stands in a row before its random features, for experts that are linear in the inputs.

The first column is a constant; the others are the scaled inputs, divided by the root of how many fields are
present, each in the column that its key was given when it was first learned. There are 128; inputs met later
than the 127th have none. After them comes room for the memory of labels (:mod:`streamk.encoding.recall`). All
are multiplied by the root of half the features, so that they weigh in ``φᵀφ`` as random features do.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from streamk.compiling import INNER
from streamk.encoding.recall import COLUMNS, recall

LINEAR = 128
PLAIN = LINEAR + COLUMNS
_PLACES = 512  # of the table that finds the column of a key, open addressing
_COUNT = 0  # place of the number of columns in use among the keys, the constant having none
Keys = NDArray[np.uint64]


def empty_columns() -> Keys:
    """Return the keys of columns when only the constant has one."""
    keys = np.zeros(LINEAR, dtype=np.uint64)
    keys[_COUNT] = 1
    return keys


def in_use(keys: Keys) -> list[int]:
    """Return the keys that have columns, in the order of these; the first has column 1."""
    return [int(key) for key in keys[1 : int(keys[_COUNT])]]


def columns_of(keys: list[int]) -> Keys:
    """Return the columns of some distinct keys; those beyond the 127th have none.

    Raises a ValueError if they are not distinct keys.
    """
    if len(set(keys)) != len(keys) or 0 in keys:
        raise ValueError("its plain columns are impossible")
    columns, kept = empty_columns(), keys[: LINEAR - 1]
    columns[1 : 1 + len(kept)] = kept
    columns[_COUNT] = 1 + len(kept)
    return columns


def index_of(keys: Keys) -> NDArray[np.int64]:
    """Return the table that finds the columns of keys."""
    index = np.zeros(_PLACES, dtype=np.int64)
    for column, key in enumerate(in_use(keys), 1):
        place = key % _PLACES
        while index[place]:
            place = (place + 1) % _PLACES
        index[place] = column
    return index


@njit(**INNER)
def columns_for(sections, width):  # type: ignore[no-untyped-def]
    """Return how many columns stand for so many features; 0 if there are no plain ones."""
    if sections is None:
        return 0
    return sections.width


@njit(**INNER)
def column_of(keys, index, key, learned):  # type: ignore[no-untyped-def]
    """Return the column of an input, given one now if it is learned and there is room; 0 if it has none."""
    place = key % np.uint64(_PLACES)
    while index[place] > 0:
        if keys[index[place]] == key:
            return index[place]
        place = (place + np.uint64(1)) % np.uint64(_PLACES)
    column = np.int64(keys[_COUNT])
    if not learned or column == LINEAR:
        return np.int64(0)
    keys[column], index[place] = key, column
    keys[_COUNT] += np.uint64(1)
    return column


@njit(**INNER)
def fill_plain(sections, inputs, found, count, i, learned, features, phi):  # type: ignore[no-untyped-def]
    """Fill row ``i`` of ``phi``: before each part of its ``features`` a constant, inputs, room for labels."""
    if sections is not None:
        for c in range(PLAIN):
            phi[i, c] = np.float32(0.0)
        phi[i, 0] = sections.amplitude
        for j in range(count):
            column = column_of(sections.columns, sections.places, found[i, j], learned)
            if column > 0:
                phi[i, column] = sections.amplitude * inputs[0, i, j]
        for p in range(1, sections.starts.shape[0]):
            for c in range(PLAIN):
                phi[i, sections.starts[p] + c] = phi[i, c]
        for p in range(sections.parts.shape[0]):
            first, column, there = sections.parts[p, 0], sections.parts[p, 1], sections.parts[p, 3] > 0
            for f in range(sections.parts[p, 2]):
                phi[i, column + f] = features[i, first + f] if there else np.float32(0.0)


@njit(**INNER)
def fill_labels(sections, memory, when, phi, i):  # type: ignore[no-untyped-def]
    """Put the memory of labels into row ``i`` of ``phi``."""
    if sections is not None:
        for p in range(sections.starts.shape[0]):
            recall(memory, when, sections.amplitude, phi, i, sections.starts[p] + LINEAR)
