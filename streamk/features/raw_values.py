"""Numbers for columns that are no kernel's: whole ones as codes, and those of long tails unclipped.

A whole number may be a code, such as that of a shop, whose size means nothing: it has a hash, by which
:mod:`streamk.experts.values` learns its effect. And a linear function of an input with a long tail is
linear in the tail, too: linear columns clip a number at 32 deviations from its mean, where a kernel, which is
arbitrary beyond what was learned, clips it at 4 (:mod:`streamk.encoding.scaling`).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from streamk.compiling import INNER
from streamk.encoding.scaling import scale_of, scale_row, scaled
from streamk.features.counter import mix64

_LONG = 32.0
_MOST, _CODE = 2.0**53, np.uint64(0x77686F6C65)


@njit(**INNER)
def scale_inputs(coding, rows, i, scratch, to):
    """Fill row ``to`` of scratch with the scaled inputs of row ``i``, their unit, codes and wide values."""
    scratch.counts[to] = scale_row(
        rows, i, coding.statistics, coding.exponents, coding.seen, coding.cautious,
        scratch.inputs, scratch.keys, scratch.slots, to,
    )  # fmt: skip
    scratch.units[to] = scale_of(scratch.counts[to], coding.exponents[0])
    _note_values(rows, i, coding.statistics, coding.cautious, scratch, to)


@njit(**INNER)
def _note_values(rows, i, statistics, cautious, scratch, to):
    """Fill the ``codes`` and ``wide`` inputs of row ``to`` of scratch, which is the scaled row ``i``.

    A code is 0 for inputs that are no whole number.
    """
    slots, keys, values = rows
    shared, count, sorted_keys = min(i, slots.shape[0] - 1), scratch.counts[to], scratch.keys
    for j in range(count):
        scratch.codes[to, j], scratch.wide[to, j] = np.uint64(0), scratch.inputs[0, to, j]
    for j in range(slots.shape[1]):
        at, value = np.int64(slots[shared, j]), values[i, j]
        low, high = np.int64(0), count
        while low < high:
            middle = (low + high) // 2
            if sorted_keys[to, middle] < keys[shared, j]:
                low = middle + 1
            else:
                high = middle
        if at < 0 or low == count or sorted_keys[to, low] != keys[shared, j]:
            continue
        if value == np.floor(value) and abs(value) < _MOST:
            scratch.codes[to, low] = mix64(np.uint64(np.int64(value)) ^ _CODE)
        z = scaled(value, statistics, at, _LONG, cautious)
        scratch.wide[to, low] = np.float32((1.0 + z) * scratch.units[to])
