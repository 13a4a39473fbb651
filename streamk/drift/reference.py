"""The reference events, and the scales, bandwidth, map and thresholds derived from them.

A number is ``(v − median)/s`` clipped to ±4, with ``s`` the interquartile range in units of the normal
deviation; if half of the values are equal, the standard deviation; if all are, 10⁻⁹ of the value, so that a
change of a constant is detected. A number that first appears later counts as present, whatever its value.

Thresholds are set for a mean time to a false alarm. Streams without a drift are drawn from the reference,
each with a new reference (:func:`streamk.drift.windows.wander`), and followed until the first alarm. All
windows get thresholds that they exceed equally often, and one common factor then sets the mean time to the
first alarm. The tests of overlapping windows against one reference thus share the rate without Bonferroni's
loss. Cobb et al. (2022) and Keriven et al. (2020) calibrate other statistics similarly.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import numpy as np
from numba import njit

from streamk.arrays import Array, Floats
from streamk.compiling import ENTRY
from streamk.drift.windows import BLOCK, empty_windows, levels_of, wander
from streamk.encoding.fields import Event, kind_of_value, named
from streamk.encoding.inputs import Inputs
from streamk.encoding.rows import EncodedRows
from streamk.encoding.scaling import COUNT, FIXED, HELD, MEAN, SQUARES, observe, scale_rows, spread
from streamk.features.counter import GOLDEN64, MASK64, mix64_int, uniforms
from streamk.features.map import FeatureMap
from streamk.features.matrix import fill_here
from streamk.features.spectra import AMPLITUDE
from streamk.kernels import kernel

STREAMS = 48
_LIVES = 3.0  # length of a stream, in mean times to an alarm
_LEVELLING = 16_384  # blocks that distinguish the levels
_ABOVE = 1 / 512  # share of blocks with the shortest window above its threshold
_LONGEST = 32_768  # blocks of a stream
_QUARTILES = 1.349  # interquartile range of a normal, in deviations
_CONSTANT = 1e-9
_SCALES = (0.5, 1.0, 2.0)
_PARTS = (2, 3, 5, 7)  # distances at these offsets, as shares of the reference, determine the bandwidth


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


class Reference:
    """The reference of comparisons with recent events.

    Parameters
    ----------
    inputs
        Names of the numbers in the events, without scales.
    events
        The events, all valid.
    features, seed
        Of the map.
    """

    def __init__(self, inputs: Inputs, events: Sequence[Event], features: int, seed: int) -> None:
        self.inputs, self.events = inputs, events
        rows = inputs.encode_many(events, [False] * len(events))
        for slot in range(len(inputs.numbers)):
            _settle(inputs.statistics[slot], rows.values[rows.slots == slot])
        self.map = FeatureMap(
            (kernel("gaussian"),), self._bandwidth(rows), _SCALES, features, mix64_int(seed ^ 0x6D6D64)
        )
        self.mean: Floats = self.features(rows).mean(axis=0, dtype=np.float64).astype(np.float32)

    def _bandwidth(self, rows: EncodedRows) -> float:
        """Return the median distance of events, or the mean if most are equal."""
        scaled, keys, counts = scale_rows(rows, self.inputs.statistics, (0.0,))
        pairs = np.empty((len(_PARTS), len(counts)))
        for k, part in enumerate(_PARTS):
            _distances(scaled[0], keys, counts, len(counts) // part, pairs[k])
        return float(np.median(pairs)) or float(pairs.mean()) or 1.0

    def features(self, rows: EncodedRows) -> Floats:
        """Return the features of encoded rows, ``(n, F)``."""
        phi = np.empty((len(rows.values), self.map.width), dtype=np.float32)
        fill_here(self.map, rows, self.inputs.statistics, AMPLITUDE, phi)
        return phi

    def thresholds(self, window: int, blocks: float, seed: int) -> Floats:
        """Return the thresholds of all windows (:func:`thresholds`).

        The pool has one additional event, far from all events of the reference.
        """
        unseen = AMPLITUDE * np.cos(2.0 * np.pi * uniforms(mix64_int(seed ^ 0x756E73), self.map.width))
        known = self.features(self.inputs.encode_many(self.events, [False] * len(self.events)))
        pool = np.concatenate([known, unseen.astype(np.float32)[None]])
        return thresholds(pool, len(self.events), window, blocks, seed)

    def encode(self, x: Event) -> EncodedRows:
        """Return an encoded row, valid until the next call; a ValueError names an invalid value."""
        inputs = self.inputs
        rows = inputs.encode_checked(x, False)
        if rows.keys.shape[1] < len(x):  # an unknown number, or a missing value
            late: dict[Hashable, object] = {
                name: "present" if kind_of_value(v) == "number" and name not in inputs.numbers else v
                for name, v in named(x).items()
            }
            rows = inputs.encode(late, False)
        return rows


def _settle(statistics: Array, values: Array) -> None:
    """Set the statistics of a number to its median and its robust deviation."""
    if not len(values):
        return
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75], method="nearest")
    deviation = (high - low) / _QUARTILES
    if deviation <= _CONSTANT * abs(middle):
        counted = np.zeros((1, FIXED))
        for value in values:
            observe(value, counted, 0, np.inf, 1.0)
        deviation = spread(counted, 0)
    deviation = max(deviation, _CONSTANT * abs(middle), 1e-150)
    statistics[COUNT], statistics[MEAN], statistics[HELD] = 2.0, middle, np.nan
    statistics[SQUARES] = 2.0 * deviation**2


@njit(nogil=True, **ENTRY)
def _distances(inputs, keys, counts, step, out):
    """Set ``out[i]`` to the distance of rows ``i`` and ``i + step``; inputs are in the order of keys."""
    rows = counts.shape[0]
    for i in range(rows):
        k = (i + step) % rows
        a = b = 0
        total = 0.0
        while a < counts[i] or b < counts[k]:
            if b == counts[k] or (a < counts[i] and keys[i, a] < keys[k, b]):
                difference = np.float64(inputs[i, a])
                a += 1
            elif a == counts[i] or keys[i, a] > keys[k, b]:
                difference = np.float64(inputs[k, b])
                b += 1
            else:
                difference = np.float64(inputs[i, a]) - np.float64(inputs[k, b])
                a += 1
                b += 1
            total += difference * difference
        out[i] = np.sqrt(total)
