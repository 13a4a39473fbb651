"""Detection of rising errors of an expert: adaptive windowing (ADWIN, Bifet and Gavaldà 2007).

A window of the latest errors, each from 0 to 1, grows while its parts agree. Errors come in blocks of
:data:`BLOCK`. After each block, at every cut into ``n₀`` older and ``n₁`` newer events, the difference of the
two means is compared with the bound of Bernstein's inequality::

    ε = √(2 σ² L/m) + 2 L/(3 m)          1/m = 1/n₀ + 1/n₁          L = ln 10⁶

``σ²`` being the variance of the window. If a difference exceeds its bound, the stream changed at the cut
where the difference is largest in units of ``ε``, and older events leave the window. Falling errors are those
of an expert that learns; only a rise is reported.

Independent errors of one mean exceed ``ε`` at a cut with a probability of at most 10⁻⁶. A window of a million
events has at most 65 cuts, tested once in 32 events. So there are at most two false alarms in a million
events, and far fewer in practice, since the tests of different cuts depend on each other and half of the
differences are falls.

The window is stored in buckets. A bucket of level ``k`` holds the sums of ``2ᵏ`` blocks. If a level would
have more than :data:`MOST` buckets, its two oldest become one of the next level; of the last level, the
oldest is dropped. So memory grows with the logarithm of the window's length.

A *watch* is one array. Row 0 holds the sums of the current block (events, errors, squared errors), the number
of events behind the expert's information, the number of rises, and whether errors at least doubled at the
last. Row ``k + 1`` holds the number of buckets
of level ``k``, and then the sums of each, the oldest first.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from streamk.arrays import Array
from streamk.compiling import INNER, ZERO
from streamk.losses import FIRST_REGRESSION
from streamk.state import LARGEST_COUNT, Field

BLOCK = 32
LEVELS, MOST = 20, 5
COUNT, SUM, SQUARES, KNOWN, RISES, SHARPLY = range(6)  # of row 0
_SHARP = 2.0  # by which errors rise sharply
_LOGARITHM = math.log(1e6)


def empty_watch() -> Array:
    """Return a watch without events."""
    return np.zeros((1 + LEVELS, 1 + 2 * MOST))


def merge_from(watch: Array, other: Array, factor: float) -> None:
    """Add ``factor`` times the events of another watch, and its rises; the window of the merge is empty."""
    watch[0, KNOWN] = max(0.0, watch[0, KNOWN] + factor * other[0, KNOWN])
    watch[0, RISES] = max(0.0, watch[0, RISES] + (factor if factor <= 0.0 else 1.0) * other[0, RISES])


def is_possible(watch: Array) -> bool:
    """Return whether numbers from 0 on are a watch."""
    now, counts = watch[0], watch[1:, 0]
    sizes = np.append(now[COUNT], np.repeat(BLOCK * 2.0 ** np.arange(LEVELS), MOST))
    sums = np.append(now[SUM], watch[1:, 1::2])
    squares = np.append(now[SQUARES], watch[1:, 2::2])
    empty = np.arange(MOST) >= counts[:, None]
    return not (
        (np.append(counts, now[[COUNT, RISES, SHARPLY]]) % 1.0).any()
        or now[COUNT] >= BLOCK
        or now[SHARPLY] > min(now[RISES], 1.0)
        or now[SHARPLY + 1 :].any()
        or (counts > MOST).any()
        or (np.diff(counts > 0) & (counts[1:] > 0)).any()
        or (sums > sizes).any()
        or (squares > sums).any()
        or sums[1:][empty.ravel()].any()
    )


WATCH = Field("watch", "errors", 0.0, LARGEST_COUNT, default=0.0, possible=is_possible)


@njit(**INNER)
def error_of(loss, residual, aim):
    """Return the error of an event, from 0 to 1.

    For a class, 1 minus the output of the label; for a number, the distance in standard deviations of the
    target.
    """
    if loss < FIRST_REGRESSION:
        return min(max(residual[int(aim)], 0.0), 1.0)
    return min(abs(residual[0]), 1.0)


@njit(**INNER)
def part_to_keep(watch, error):
    """Add the error of an event; return the part of its information that the expert should keep.

    It is 1 unless errors have risen. Then it is the part that leaves the information of one block of events.
    """
    watch[0, COUNT] += 1.0
    watch[0, SUM] += error
    watch[0, SQUARES] += error * error
    watch[0, KNOWN] += 1.0
    if watch[0, COUNT] < BLOCK:
        return 1.0
    _add_block(watch, watch[0, SUM], watch[0, SQUARES])
    watch[0, COUNT], watch[0, SUM], watch[0, SQUARES] = 0.0, 0.0, 0.0
    factor = _rise(watch)
    if factor <= 1.0:
        return 1.0
    part = min(BLOCK / watch[0, KNOWN], 1.0)
    watch[0, KNOWN] = BLOCK
    watch[0, RISES] += 1.0
    watch[0, SHARPLY] = 1.0 if factor >= _SHARP else 0.0
    return part


@njit(**INNER)
def _add_block(watch, total, squares):
    """Add a bucket of level 0; join the oldest two of every level that is full."""
    for row in range(1, LEVELS + 1):
        count = int(watch[row, 0])
        full = count == MOST
        joined = watch[row, 1] + watch[row, 3], watch[row, 2] + watch[row, 4]
        if full:
            gone = 2 if row < LEVELS else 1
            _drop_oldest(watch, row, gone)
            count -= gone
        watch[row, 1 + 2 * count], watch[row, 2 + 2 * count] = total, squares
        watch[row, 0] = count + 1.0
        if not full:
            return
        total, squares = joined


@njit(**INNER)
def _drop_oldest(watch, row, gone):
    """Drop the oldest buckets of a row; shift the others to the front, and fill the rest with 0."""
    kept = 2 * (MOST - gone)
    for j in range(1, 1 + 2 * MOST):
        watch[row, j] = watch[row, j + 2 * gone] if j <= kept else 0.0
    watch[row, 0] -= gone


@njit(**INNER)
def _rise(watch):
    """Cut the window where means differ most, if they differ; return the newer mean divided by the older."""
    whole, total, squares, size = 0.0, 0.0, 0.0, float(BLOCK)
    for row in range(1, LEVELS + 1):
        for j in range(int(watch[row, 0]) - 1, -1, -1):
            whole += size
            total += watch[row, 1 + 2 * j]
            squares += watch[row, 2 + 2 * j]
        size *= 2.0
    mean = total / whole
    variance = max(squares / whole - mean * mean, 0.0)
    newer, of_newer, size = 0.0, 0.0, float(BLOCK)
    most, at, gone, factor = 1.0, ZERO, ZERO, 1.0
    for row in range(1, LEVELS + 1):
        for j in range(int(watch[row, 0]) - 1, -1, -1):
            newer += size
            of_newer += watch[row, 1 + 2 * j]
            older = whole - newer
            if older > 0.0:
                inverse = 1.0 / older + 1.0 / newer
                bound = np.sqrt(2.0 * variance * _LOGARITHM * inverse) + 2.0 * _LOGARITHM * inverse / 3.0
                mean, before = of_newer / newer, (total - of_newer) / older
                if abs(mean - before) > most * bound:
                    most, at, gone = abs(mean - before) / bound, row, j
                    factor = mean / before if before > 0.0 else np.inf
        size *= 2.0
    if at > 0:
        _drop_oldest(watch, at, gone)
        for row in range(at + 1, LEVELS + 1):
            _drop_oldest(watch, row, int(watch[row, 0]))
    return factor
