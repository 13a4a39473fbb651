"""Thresholds for a mean time to a false alarm, by simulation of streams drawn from the reference.

Streams without a drift are drawn from the reference, each with a new reference
(:func:`streamk.drift.windows.wander`), and followed until the first alarm. All windows get thresholds that
they exceed equally often, and one common factor then sets the mean time to the first alarm. The tests of
overlapping windows against one reference thus share the rate without Bonferroni's loss. Cobb et al. (2022)
and Keriven et al. (2020) calibrate other statistics similarly.
"""

from __future__ import annotations

import math

import numpy as np

from streamk.arrays import Array, Floats
from streamk.drift.windows import BLOCK, empty_windows, levels_of, wander
from streamk.features.counter import GOLDEN64, MASK64, mix64_int

STREAMS = 48
_LIVES = 3.0  # length of a stream, in mean times to an alarm
_LEVELLING = 16_384  # blocks that distinguish the levels
_ABOVE = 1 / 512  # share of blocks with the shortest window above its threshold
_LONGEST = 32_768  # blocks of a stream


def thresholds(pool: Floats, size: int, window: int, blocks: float, seed: int) -> Floats:
    """Return the threshold of every window, shortest first.

    Parameters
    ----------
    pool
        Features to draw from, ``(n, F)`` float32.
    size
        Events of a reference.
    window
        Events of the longest window.
    blocks
        Mean time to a false alarm, in blocks.
    seed
        Of the streams.
    """
    levels, width = levels_of(window), pool.shape[1]
    reference = np.empty((2, width), dtype=np.float32)
    length = min(max(2 * window // BLOCK, math.ceil(_LIVES * blocks)), _LONGEST)
    statistics = np.empty((length, levels), dtype=np.float32)
    maxima: list[Array] = []
    kept: list[Floats] = []
    needed, base = _LEVELLING, np.zeros(0)
    for k in range(STREAMS):
        key = mix64_int((seed + k * GOLDEN64) & MASK64)
        wander(pool, size, np.uint64(key), empty_windows(levels, width), reference, statistics)
        if needed > 0:
            kept.append(statistics.copy())
            needed -= length
            if needed <= 0 or k == STREAMS - 1:
                base = _level(np.concatenate(kept))
                maxima += [_highest(part, base) for part in kept]
                kept = []
        else:
            maxima.append(_highest(statistics, base))
    return (base * _factor(maxima, blocks)).astype(np.float32)


def _level(statistics: Floats) -> Array:
    """Return for each window the threshold exceeded equally often, overlapping excesses counting as one."""
    base = np.empty(statistics.shape[1])
    for k in range(len(base)):
        base[k] = np.quantile(statistics[:, k], 1.0 - min(_ABOVE * 2**k, 0.25))
    return np.maximum(base, 1e-6)  # of equal events


def _highest(statistics: Floats, base: Array) -> Array:
    """Return the largest ratio to the thresholds up to every block."""
    highest: Array = np.maximum.accumulate((statistics / base).max(axis=1))
    return highest


def _factor(maxima: list[Array], blocks: float) -> float:
    """Return the factor that sets the mean time to an alarm to ``blocks``."""
    length = len(maxima[0])
    direct = min(blocks, length / _LIVES)
    factor = _solve(maxima, direct)
    if blocks > direct:  # the tail of a weighted sum of squares is exponential
        factor += (factor - _solve(maxima, direct / 4.0)) * math.log(blocks / direct) / math.log(4.0)
    return factor


def _solve(maxima: list[Array], blocks: float) -> float:
    low, high = 1e-3, 1.0 + max(float(m[-1]) for m in maxima)
    for _ in range(40):
        middle = 0.5 * (low + high)
        times = [int(np.searchsorted(m, middle, side="right")) for m in maxima]
        length = len(maxima[0])
        alarms = sum(t < length for t in times)
        lived = sum(min(t + 1, length) for t in times)
        low, high = (low, middle) if alarms == 0 or lived > blocks * alarms else (middle, high)
    return high
