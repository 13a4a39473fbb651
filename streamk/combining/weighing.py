"""What sets of weights share, be they for classes or for numbers."""

from __future__ import annotations

import numpy as np
from numba import njit

from streamk.compiling import INNER
from streamk.experts.expert import FINAL

PENALTY = 10.0  # of a squared weight, in units of one event
_SHARE = 1e-3
_EVENTS = 1  # place in a running mean
_SLOWEST = 1e-3


@njit(**INNER)
def clipped(outputs, e, k, clip):  # type: ignore[no-untyped-def]
    """Return output ``k`` of expert ``e`` to predict with, kept within ±``clip``."""
    return min(max(np.float64(outputs[e, FINAL, k]), -clip), clip)


@njit(**INNER)
def rate(error):  # type: ignore[no-untyped-def]
    """Count an event; return by how much running means move: those of all events, then of the last 1,000."""
    error[_EVENTS] += 1.0
    return max(1.0 / error[_EVENTS], _SLOWEST)


@njit(**INNER)
def fade(curvature, forgetting):  # type: ignore[no-untyped-def]
    """Forget, towards what was known before the first event (the lower triangle; so below)."""
    if forgetting < 1.0:
        for e in range(curvature.shape[0]):
            for d in range(e + 1):
                curvature[e, d] *= forgetting
            curvature[e, e] += (1.0 - forgetting) * PENALTY


@njit(**INNER)
def share(shares, total):  # type: ignore[no-untyped-def]
    """Make the shares, whose sum is ``total``, sum to 1, a thousandth of which is spread equally."""
    count = shares.shape[0]
    for s in range(count):
        shares[s] = (1.0 - _SHARE) * shares[s] / total + _SHARE / count
