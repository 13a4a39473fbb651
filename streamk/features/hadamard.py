"""Walsh–Hadamard transforms of sixteen vectors at once, with random signs: ``H D₁ H D₂ H D₃``.

``H`` is the Walsh–Hadamard matrix of ``n = 2^k`` rows without normalisation (entries ±1), ``D`` a diagonal
of random signs. A transform is ``k`` levels of additions, computed in *groups* of three to five levels on 8
to 32 registers, so numbers are loaded and stored once per group, or once for two groups of the same levels
with signs between them. The order of levels is fixed (upwards, downwards, upwards), so every result is the
same sum of float32 numbers.

A *tile* holds ``n`` vectors of 16 lanes. The lanes are rows with common signs (a flat array of signs), or
copies of one row with different signs (an array with sixteen columns). After every 16 or 32 coordinates (the
lowest group) one vector is unused, so that strides of whole kilobytes do not map a group to two sets of the
cache; a tile of 64 is small enough without.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from streamk.arrays import Integers
from streamk.compiling import INNER, both
from streamk.vector.lanes import HERE, LANES
from streamk.vector.sweeps import opening, plain, turning

MOST_BITS = 16


def groups_of(bits: int) -> Integers:
    """Return the groups of levels of a transform of ``2**bits``, lowest first."""
    count = max(2, -(-bits // 5))
    return np.array([bits // count + (i < bits % count) for i in range(count)], dtype=np.int64)


@njit(cache=True, inline="always", error_model="numpy")
def gap_of(groups):
    """Return the ``gap`` of a tile: one vector is unused after every ``2**gap`` coordinates."""
    return groups[0] if groups[0] > 3 else np.int64(MOST_BITS)


@njit(cache=True, inline="always", error_model="numpy")
def address(coordinate, gap):
    """Return the offset of the vector of a coordinate in a tile."""
    return (coordinate + (coordinate >> gap)) * LANES


@both()
def tile_size(groups):
    """Return the numbers in a tile, with one spare vector after the coordinates."""
    return address(np.int64(1) << groups.sum(), gap_of(groups)) + LANES


@both(nogil=True)
def transform(groups, inputs, signs, first, tile):
    """Fill ``tile`` with ``H D₁ H D₂ H D₃ x``.

    Parameters
    ----------
    groups
        See :func:`groups_of`.
    inputs
        ``x``: a tile like the result, or ``n`` numbers common to all lanes.
    signs
        ±1 (float32): ``D₃``, ``D₂`` and ``D₁``, consecutive from ``first`` on; ``(≥ first + 3n,)`` if common
        to all lanes, otherwise ``(≥ first + 3n, 16)``.
    """
    last = groups.shape[0] - 1
    bits, low, gap = groups.sum(), groups[0], gap_of(groups)
    n = np.int64(1) << bits
    for c in range(0, n, np.int64(1) << low):
        _open(low, inputs, c, gap, signs, first + c, tile)
    level = low
    for g in range(1, last):
        _each(groups[g], level, bits, gap, tile)
        level += groups[g]
    _each_turn(groups[last], level, bits, gap, signs, first + n, tile)
    for g in range(last - 1, 0, -1):
        level -= groups[g]
        _each(groups[g], level, bits, gap, tile)
    _each_turn(low, np.int64(0), bits, gap, signs, first + 2 * n, tile)
    level = low
    for g in range(1, last + 1):
        _each(groups[g], level, bits, gap, tile)
        level += groups[g]


@njit(**INNER)
def _open(size, inputs, c, gap, signs, sign, tile):
    if size == 3:
        _open3(inputs, c, gap, signs, sign, tile)
    elif size == 4:
        _open4(inputs, c, gap, signs, sign, tile)
    else:
        _open5(inputs, c, gap, signs, sign, tile)


@njit(**INNER)
def _each(size, level, bits, gap, tile):
    """Apply the levels ``level … level + size − 1``."""
    step = np.int64(1) << level
    stride = address(step, gap)
    for block in range(0, np.int64(1) << bits, step << size):
        for c in range(block, block + step):
            if size == 3:
                _plain3(tile, address(c, gap), stride)
            elif size == 4:
                _plain4(tile, address(c, gap), stride)
            else:
                _plain5(tile, address(c, gap), stride)


@njit(**INNER)
def _each_turn(size, level, bits, gap, signs, sign, tile):
    """Apply levels, then signs, then the same levels."""
    step = np.int64(1) << level
    stride = address(step, gap) if level > 0 else np.int64(LANES)
    for block in range(0, np.int64(1) << bits, step << size):
        for c in range(block, block + step):
            if size == 3:
                _turn3(tile, address(c, gap), stride, signs, sign + c, step)
            elif size == 4:
                _turn4(tile, address(c, gap), stride, signs, sign + c, step)
            else:
                _turn5(tile, address(c, gap), stride, signs, sign + c, step)


_open3, _open4, _open5 = (opening(size, HERE) for size in (3, 4, 5))
_plain3, _plain4, _plain5 = (plain(size, HERE) for size in (3, 4, 5))
_turn3, _turn4, _turn5 = (turning(size, HERE) for size in (3, 4, 5))
