"""Frequencies of an input: regenerated from keys, and cached in a bounded table.

The frequency of feature ``f`` along one input is ``W[f] = radius_f · z_f``: ``z`` a standard normal or Cauchy
number, drawn from the stream of (block of ``f``, input key), and ``radius_f = √a_f / 2πℓ_f`` the kernel's
radial part (:mod:`streamk.features.spectra`), in turns per unit of input. A block is 64 features, one group
of numbers of one family.

The table is only a cache: it is cleared when full and not pickled or saved, and a learner with a table of one
event's inputs gives the same bytes as one with a large table.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from streamk.arrays import Floats, Integers
from streamk.compiling import ENTRY, INNER, both
from streamk.features.counter import stream_key
from streamk.features.spectra import CAUCHY
from streamk.vector.lanes import LANES
from streamk.vector.random_numbers import GROUP, fill_cauchy, fill_normals

CACHE_BYTES = 64 * 2**20
_OFTEN = 16 * 2**20  # bytes above which a larger cache saves no time
_FIRST_ROWS, _LAST_ROWS = 32, 1024
_FIRST_BYTES = 4 * 2**20
_EMPTY = np.uint64(0)


@njit(**INNER)
def fill_frequencies(block_keys, families, radii, input_key, out, row):
    """Fill one row of ``out`` (float32, at least 64 columns per block) with the frequencies of one input."""
    for b in range(block_keys.shape[0]):
        key = stream_key(block_keys[b], input_key)
        if families[b] == CAUCHY:
            fill_cauchy(key, out, row, b * GROUP)
        else:
            fill_normals(key, out, row, b * GROUP)
    for f in range(radii.shape[0]):
        out[row, f] = out[row, f] * radii[f]


@njit(nogil=True, **ENTRY)
def frequency_matrix(block_keys, families, radii, input_keys, out):
    """Fill row ``j`` of ``out`` with the frequencies of input ``input_keys[j]``."""
    for j in range(input_keys.shape[0]):
        fill_frequencies(block_keys, families, radii, input_keys[j], out, j)


@njit(**INNER)
def find(table, key):
    """Return the cell of ``key``, or the empty cell for it (linear probing)."""
    mask = np.uint64(table.shape[1] - 1)
    cell = (key ^ (key >> np.uint64(32))) & mask
    while table[0, cell] != _EMPTY and table[0, cell] != key:
        cell = (cell + np.uint64(1)) & mask
    return cell


@both()
def frequency_rows(features, keys, where):
    """Set ``where[i, j]`` to the row of the frequency table that holds the frequencies of ``keys[i, j]``.

    ``features`` is a :class:`streamk.features.map.MapRecord`. Missing rows are generated. If they do not fit,
    the table is cleared first, so it must be large enough for ``keys`` alone. ``counts`` are the rows in use,
    the overflows avoidable by a larger table, and the maximum number of rows: a table of that size cannot
    grow, and reports no overflow. Key 0 is no input and gets row −1. The radii are row 1 of the waves.
    """
    table, counts, rows = features.table, features.counts, features.frequencies
    absent = 0
    for i in range(keys.shape[0]):
        for j in range(keys.shape[1]):
            where[i, j] = -1
            if keys[i, j] != _EMPTY:
                cell = find(table, keys[i, j])
                if table[0, cell] == _EMPTY:
                    absent += 1
                else:
                    where[i, j] = np.int32(table[1, cell])
    if absent == 0:
        return
    wiped = counts[0] + absent > rows.shape[0]
    if wiped:
        table[0, :] = _EMPTY
        counts[0] = 0
        if rows.shape[0] < counts[2]:
            counts[1] += 1
    for i in range(keys.shape[0]):
        for j in range(keys.shape[1]):
            if keys[i, j] != _EMPTY and (wiped or where[i, j] < 0):
                cell = find(table, keys[i, j])
                if table[0, cell] == _EMPTY:
                    fill_frequencies(
                        features.block_keys, features.families, features.waves[1], keys[i, j], rows, counts[0]
                    )
                    table[0, cell] = keys[i, j]
                    table[1, cell] = np.uint64(counts[0])
                    counts[0] += 1
                where[i, j] = np.int32(table[1, cell])


class FrequencyCache:
    """The table of frequencies in use, ``(rows, ≥ width)`` float32: 16 MiB or 1,024 inputs, or one event.

    It starts small and doubles after each overflow, so that a model of kilobytes does not hold megabytes for
    a few inputs. A table of the maximum size is only cleared.

    Parameters
    ----------
    width
        Numbers per row: features, rounded up to whole blocks.
    limit
        Maximum bytes of the rows, if the inputs of one event fit.
    """

    def __init__(self, width: int, limit: int = CACHE_BYTES) -> None:
        self.width = width
        most = limit // (4 * width)
        self.most = max(1, min(most, max(_LAST_ROWS, _OFTEN // (4 * width))))
        first = max(1, _FIRST_BYTES // (4 * (width + LANES)))
        self._allocate(min(_FIRST_ROWS, first, self.most))

    def _allocate(self, rows: int) -> None:
        cells = 1 << max(3, (2 * rows - 1).bit_length())
        # sixteen numbers more: rows of 1,536 alone would share few places of the first-level cache
        self.rows: Floats = np.empty((rows, self.width + LANES), dtype=np.float32)
        self.table: NDArray[np.uint64] = np.zeros((2, cells), dtype=np.uint64)
        self.counts: Integers = np.array([0, 0, self.most])

    def reserve(self, inputs: int) -> None:
        """Resize for an event of ``inputs`` inputs."""
        if inputs > len(self.rows):
            self._allocate(max(inputs, min(2 * inputs, self.most)))

    def grow(self) -> None:
        """Double the table after an overflow."""
        if self.counts[1]:
            self._allocate(min(2 * len(self.rows), self.most))
