"""A Newton step by Cholesky's factor, in loops whose order is written down: no library changes a bit."""

from __future__ import annotations

import numpy as np
from numba import njit

from streamk.compiling import INNER

_LARGEST_WEIGHT = 1e3
_LEAST = 1e-9  # of a pivot


@njit(**INNER)
def newton_step(weights, curvature, slope):  # type: ignore[no-untyped-def]
    """Move ``weights`` by ``−curvature⁻¹ slope``, which becomes the step; weights end at ±1,000.

    The lower triangle of the curvature is read, and the upper filled with the same.
    """
    size = weights.shape[0]
    lower = np.empty((size, size))
    for e in range(size):
        for d in range(e + 1):
            rest = curvature[e, d]
            for k in range(d):
                rest -= lower[e, k] * lower[d, k]
            if d < e:
                lower[e, d] = rest / lower[d, d]
            else:
                lower[e, e] = np.sqrt(max(rest, _LEAST))
            curvature[d, e] = curvature[e, d]
    for e in range(size):
        for k in range(e):
            slope[e] -= lower[e, k] * slope[k]
        slope[e] /= lower[e, e]
    for e in range(size - 1, -1, -1):
        for k in range(e + 1, size):
            slope[e] -= lower[k, e] * slope[k]
        slope[e] /= lower[e, e]
        weights[e] = min(max(weights[e] - slope[e], -_LARGEST_WEIGHT), _LARGEST_WEIGHT)
