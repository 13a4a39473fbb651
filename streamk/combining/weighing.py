"""Functions of sets of weights, for classes and for numbers."""

from __future__ import annotations

import numpy as np
from numba import njit

from streamk.compiling import INNER
from streamk.experts.expert import FINAL

PENALTY = 10.0  # of a squared weight, in units of one event
STALE_PENALTY = 100.0  # for stale experts: few events are learned, and they resemble each other
_SHARE = 1e-3
_EVENTS = 1  # place in a running mean
_SLOWEST = 1e-3
HEAVIEST = 5.0  # relative weight of one event for shares
_COUNT = 2


@njit(**INNER)
def clipped(outputs, e, k, clip):
    """Return output ``k`` of expert ``e`` to predict with, kept within ±``clip``."""
    return min(max(np.float64(outputs[e, FINAL, k]), -clip), clip)


@njit(**INNER)
def repeated(part, weight):
    """Return ``1 − (1 − part)^weight``: the part covered by ``weight`` steps, each ``part`` of the rest."""
    return part if weight == 1.0 else 1.0 - (1.0 - part) ** weight


@njit(**INNER)
def rate(error, weight):
    """Count an event; return by how much running means move: those of all events, then of the last 1,000."""
    error[_EVENTS] += weight
    error[_COUNT] += 1.0
    return max(weight / error[_EVENTS], repeated(_SLOWEST, weight))


@njit(**INNER)
def relative(error, weight):
    """Return a weight in units of the mean weight of all events, at most 5."""
    return min(weight * error[_COUNT] / error[_EVENTS], HEAVIEST)


@njit(**INNER)
def share(shares, initial, total, weight):
    """Scale shares of sum ``total`` to sum 1, and move them by a thousandth towards the initial ones."""
    spread = repeated(_SHARE, weight)
    for s in range(shares.shape[0]):
        shares[s] = (1.0 - spread) * shares[s] / total + spread * initial[s]
