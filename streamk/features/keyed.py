"""Angles from frequencies in a table: keyed and dense directions, whose cost is that of the inputs present.

``angle_f = p_f + Σ_j z_j W_jf`` in turns, with phases ``p`` and frequencies ``W`` regenerated from the seed
(:mod:`streamk.features.frequencies`). Inputs are added in order of their keys, one rounding each, so the
result depends neither on the tile nor on how inputs are taken in fours. Rows are indexed and never sliced (a
slice costs two atomic operations), by unsigned numbers (a signed one may count from the end, and then the
loop is not vectorised).
"""

from __future__ import annotations

import numpy as np

from streamk.compiling import both
from streamk.features.fused import fma

PHASES = 0
_TILE = 256  # features worked on at once: their frequencies stay in the first cache


@both(nogil=True)
def fill_angles(inputs, where, counts, frequencies, waves, runs, phi):
    """Fill ``phi`` with the angles of rows of scaled inputs.

    Parameters
    ----------
    inputs
        Scaled inputs, ``(families, n, w)`` float32, those that are not 0 first.
    where
        Row of ``frequencies`` of each input, ``(n, w)`` int32.
    counts
        Inputs of each row, ``(n,)``.
    frequencies
        ``(rows, width)`` float32, in turns per unit of input.
    waves
        ``(≥ 1, width)`` float32, the first row the phases in turns.
    runs
        ``(·, 3)``: features from, to, and which of the inputs they take.
    phi
        ``(≥ n, width)`` float32.
    """
    for r in range(runs.shape[0]):
        k = runs[r, 2]
        for start in range(runs[r, 0], runs[r, 1], _TILE):
            first, tile = np.uint64(start), min(_TILE, runs[r, 1] - start)
            for i in range(counts.shape[0]):
                for t in range(tile):
                    f = first + np.uint64(t)
                    phi[i, f] = waves[PHASES, f]
                fours = counts[i] - counts[i] % 4
                for j in range(0, fours, 4):
                    za, zb = inputs[k, i, j], inputs[k, i, j + 1]
                    zc, zd = inputs[k, i, j + 2], inputs[k, i, j + 3]
                    a, b = np.uint64(where[i, j]), np.uint64(where[i, j + 1])
                    c, d = np.uint64(where[i, j + 2]), np.uint64(where[i, j + 3])
                    for t in range(tile):
                        f = first + np.uint64(t)
                        angle = fma(zb, frequencies[b, f], fma(za, frequencies[a, f], phi[i, f]))
                        phi[i, f] = fma(zd, frequencies[d, f], fma(zc, frequencies[c, f], angle))
                for j in range(fours, counts[i]):
                    z, a = inputs[k, i, j], np.uint64(where[i, j])
                    for t in range(tile):
                        f = first + np.uint64(t)
                        phi[i, f] = fma(z, frequencies[a, f], phi[i, f])
