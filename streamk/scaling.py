"""Running standardisation: each number is scaled by the statistics of the events before it.

The statistics of one input are ``(count, mean, m2)``, Welford's recurrence in float64::

    count += 1;   δ = v − mean;   mean += δ/count;   m2 += δ (v − mean)

and ``z = (v − mean)/√(m2/count)``, clipped to ±4, 0 while the spread is 0. Scaling by the past
alone keeps a prediction honest: it can be made before the event is learned, and learning the event
scales it by the same numbers. The functions take a flat array of statistics and the place of the
first of the three.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from streamk.rows import Rows

CLIP = 4.0
_CONSTANT = 1e-12  # a spread below this part of the mean is rounding, not variation


@njit(cache=True, error_model="numpy")
def spread(statistics, at):  # type: ignore[no-untyped-def]
    """Return the standard deviation of one input, 0 if it has not varied."""
    count, mean, m2 = statistics[at], statistics[at + 1], statistics[at + 2]
    if count < 2.0 or m2 <= 0.0:
        return 0.0
    deviation = np.sqrt(m2 / count)
    return deviation if deviation > _CONSTANT * abs(mean) else 0.0


@njit(cache=True, error_model="numpy")
def standardise(value, statistics, at, clip):  # type: ignore[no-untyped-def]
    """Return ``(value − mean)/deviation`` clipped to ±``clip``, 0 while there is no deviation."""
    deviation = spread(statistics, at)
    if deviation == 0.0:
        return 0.0
    return min(max((value - statistics[at + 1]) / deviation, -clip), clip)


@njit(cache=True, error_model="numpy")
def observe(value, statistics, at):  # type: ignore[no-untyped-def]
    """Add one value to the statistics of its input."""
    statistics[at] += 1.0
    delta = value - statistics[at + 1]
    statistics[at + 1] += delta / statistics[at]
    statistics[at + 2] += delta * (value - statistics[at + 1])


@njit(cache=True, error_model="numpy")
def scale_row(slots, keys, shared, values, i, statistics, out, found, to):  # type: ignore[no-untyped-def]
    """Scale row ``i`` into row ``to`` of ``out``, its keys into ``found``; return how many are not 0.

    Inputs that are absent or scale to 0 add nothing to an angle and are left out. A slot of −1 is
    an input that is not scaled (a category, or a number with scaling off); ``shared`` is the row of
    ``slots`` and ``keys``, and ``statistics`` are flat.
    """
    count = 0
    for j in range(slots.shape[1]):
        z = values[i, j]
        if slots[shared, j] >= 0:
            z = standardise(z, statistics, 3 * slots[shared, j], CLIP)
        if z != 0.0 and keys[shared, j] != 0:
            out[to, count] = z
            found[to, count] = keys[shared, j]
            count += 1
    for j in range(count, slots.shape[1]):
        out[to, j] = 0.0
        found[to, j] = 0
    return count


@njit(cache=True, error_model="numpy")
def observe_row(slots, shared, values, i, statistics):  # type: ignore[no-untyped-def]
    """Add row ``i`` to the statistics of its inputs."""
    for j in range(slots.shape[1]):
        if slots[shared, j] >= 0:
            observe(values[i, j], statistics, 3 * slots[shared, j])


@njit(cache=True, nogil=True, error_model="numpy")
def _scale_rows(slots, keys, values, statistics, out, found, counts):  # type: ignore[no-untyped-def]
    flat = statistics.reshape(statistics.size)
    for i in range(values.shape[0]):
        shared = min(i, slots.shape[0] - 1)
        counts[i] = scale_row(slots, keys, shared, values, i, flat, out, found, i)


def scale_rows(
    rows: Rows, statistics: NDArray[np.float64]
) -> tuple[NDArray[np.float32], NDArray[np.uint64], NDArray[np.int64]]:
    """Return scaled inputs, their keys ``(n, w)``, and how many each row has; see :func:`scale_row`."""
    scaled = np.empty(rows.values.shape, dtype=np.float32)
    found = np.empty(rows.values.shape, dtype=np.uint64)
    counts = np.empty(len(scaled), dtype=np.int64)
    _scale_rows(rows.slots, rows.keys, rows.values, statistics, scaled, found, counts)
    return scaled, found, counts
