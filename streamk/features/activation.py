"""From angles to features: cosines, or the ramps of arc-cosine kernels (Cho and Saul 2009).

``√2 cos 2πp`` of angles ``p`` in turns; for the arc-cosine kernel of order ``n``, ``√2 max(0, p)ⁿ`` of
projections ``p``, which for order 0 is ``√2`` where ``p > 0``. Features are limited to 10¹⁵.
"""

from __future__ import annotations

import numpy as np

from streamk.compiling import both
from streamk.vector.lanes import LANES
from streamk.vector.tiles import cosines

COSINE, STEP, RAMP, SQUARED_RAMP = 0, 1, 2, 3
AMPLITUDE = np.float32(np.sqrt(2.0))
LARGEST = np.float32(1e15)  # of a feature: the sum of squares stays finite


@both(nogil=True)
def activate(kind, amplitude, angles, rows, features):
    """Turn the angles of rows into features, in place; columns from ``features`` on become 0.

    ``angles`` is ``(≥ rows, width)`` float32, the width a multiple of 16; ``amplitude`` replaces ``√2``.
    """
    width = angles.shape[1]
    for i in range(rows):
        if kind == COSINE:
            for f in range(0, width, LANES):
                cosines(angles, i, f, amplitude)
        else:
            for f in range(width):
                ramp = max(angles[i, f], np.float32(0.0))
                if kind == STEP:
                    ramp = np.float32(angles[i, f] > np.float32(0.0))
                elif kind == SQUARED_RAMP:
                    ramp = ramp * ramp
                angles[i, f] = min(amplitude * ramp, LARGEST)
        for f in range(features, width):
            angles[i, f] = np.float32(0.0)
