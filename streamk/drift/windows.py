"""Windows of the latest events, their distances from the reference, and simulated distances without drift.

Events come in blocks of :data:`BLOCK`. After each block, every window of ``w = 8, 16, 32, …`` events that
ends there is compared with the mean embedding of the ``m`` reference events::

    T_w = (w m/(w + m)) · (1/F) · ‖ (1/w) Σ_window φ(x) − (1/m) Σ_reference φ(x) ‖²

which is the biased estimate of MMD² (Gretton et al. 2012, equation 5) under the kernel ``φ(x)ᵀφ(z)/F``, times
a factor that makes its distribution without a drift the same for all but the smallest sizes.

The sum ``S_k`` of the last ``2ᵏ`` blocks is two halves: ``S_{k+1}(t) = S_k(t) + S_k(t − 2ᵏ)``. A block costs
one addition per window, whatever its length, and rounding does not accumulate.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from streamk.arrays import Floats
from streamk.compiling import ENTRY, both
from streamk.features.counter import mix64
from streamk.vector.linear_algebra import add_scaled, inner_product

BLOCK = 8


def levels_of(window: int) -> int:
    """Return the number of windows of 8, 16, … ``window`` events.

    Examples
    --------
    >>> levels_of(32)
    3
    """
    return (window // BLOCK).bit_length()


def empty_windows(levels: int, features: int) -> Floats:
    """Return the sums of windows before the first block, ``(2^levels, F)``.

    Rows ``2ᵏ − 1 … 2ᵏ⁺¹ − 2`` are the last ``2ᵏ`` values of ``S_k``; the last row is scratch for the current
    one.
    """
    return np.zeros((1 << levels, features), dtype=np.float32)


@both(nogil=True)
def distances(windows, t, reference, size, out):
    """Add block ``t``, counted from 0, and set ``out[k]`` to the distance of the last ``2ᵏ`` blocks.

    Parameters
    ----------
    windows
        Of :func:`empty_windows`; the last row holds the sum of the block's features, and is overwritten.
    reference, size
        Mean of the features of the reference, in row 0 of ``(2, F)`` float32, whose other row is
        overwritten; and its events ``m``.
    out
        ``(levels,)`` float32; 0 for a window longer than the stream.
    """
    width = np.uint64(windows.shape[1])
    now = np.uint64(windows.shape[0] - 1)
    for level in range(out.shape[0]):
        blocks = 1 << level
        half = np.uint64(blocks - 1 + t % blocks)
        events = blocks * BLOCK
        share = np.float32(1.0 / events)
        for f in range(width):
            total = windows[now, f]
            reference[1, f] = total * share - reference[0, f]
            windows[now, f] = total + windows[half, f]
            windows[half, f] = total
        out[level] = np.float32(0.0)
        if t + 1 >= blocks:
            squares = inner_product(reference, width, reference, width, width)
            out[level] = squares * np.float32(events * size / ((events + size) * windows.shape[1]))


@njit(nogil=True, **ENTRY)
def wander(pool, size, key, windows, reference, out):
    """Set ``out[t]`` to the distances after block ``t`` of a stream without a drift.

    Both its reference of ``size`` events and its blocks are drawn, with replacement, from the rows of
    ``pool`` ``(n, F)`` float32 by the random numbers of ``key``. ``windows`` are empty; they and
    ``reference`` are as for :func:`distances` and are overwritten.
    """
    rows, width = np.uint64(pool.shape[0]), pool.shape[1]
    now, one = (windows.shape[0] - 1) * width, np.float32(1.0)
    draw = np.uint64(0)
    reference[:] = np.float32(0.0)
    for _ in range(size):
        draw += np.uint64(1)
        row = np.int64(((mix64(key + draw) >> np.uint64(32)) * rows) >> np.uint64(32))
        add_scaled(reference, 0, one / np.float32(size), pool, row * width, width)
    for t in range(out.shape[0]):
        windows[-1] = np.float32(0.0)
        for _ in range(BLOCK):
            draw += np.uint64(1)
            row = np.int64(((mix64(key + draw) >> np.uint64(32)) * rows) >> np.uint64(32))
            add_scaled(windows, now, one, pool, row * width, width)
        distances(windows, t, reference, size, out[t])
