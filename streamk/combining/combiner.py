"""Combiners: they compute one calibrated prediction from the outputs of experts.

Compiled code gets a combiner's *record*, whose type selects the implementation of :func:`combine`,
:func:`adapt` and :func:`limit`; each combiner's file adds one (:mod:`streamk.dispatch`). ``scratch`` is a
handle of what the combiner's method of that name returns.

The simplest one is the mean of the experts' numbers, for regressors without a stacked combiner. Its
prediction is ``ȳ + σ Σ_e f_e/E``, with the mean ``ȳ`` and the deviation ``σ`` of earlier targets. Nothing is
learned, so there is nothing to save or to merge.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from typing import Self

import numpy as np
from numba import njit

from streamk.arrays import Array
from streamk.compiling import INNER
from streamk.dispatch import default, implements
from streamk.encoding.codec import decode
from streamk.experts.expert import FINAL
from streamk.handles import Handle, make_handle
from streamk.state import Stateful

PENALTY = 10.0  # of a squared weight, in units of one event
_SHARE = 1e-3
_EVENTS = 1  # place in a running mean
_SLOWEST = 1e-3
HEAVIEST = 5.0  # relative weight of one event for shares
_COUNT = 2
PRODUCTS, SQUARES, COMPARED = range(3)


def combine(combiner: object, coding: object, outputs: object, scratch: object, out: object) -> None:
    """Fill ``out`` with class probabilities of the known outputs, or a number in the target's units.

    ``outputs`` are the experts', ``(E, 2, K)`` float32. In compiled code.
    """
    raise NotImplementedError("for compiled code")


def adapt(*arguments: object) -> None:
    """Learn from an event: ``scratch`` and ``combined`` are what :func:`combine` filled for its ``outputs``.

    ``goal`` is the target and the weight, negative if experts have learned the event before. ``earlier`` is
    the combiner that predicted, another one than ``combiner`` if labels come late. In compiled code.
    """
    raise NotImplementedError("for compiled code")


def limit(combiner: object, coding: object, combined: object, target: object) -> object:
    """Return the target to learn where ``combined`` was predicted: ``target``, or one nearer to ``combined``.

    In compiled code.
    """
    raise NotImplementedError("for compiled code")


def within_limits(combiner: object, coding: object, combined: object, target: object) -> object:
    """Return what :func:`limit` does, for an event that came before: nothing changes. In compiled code."""
    raise NotImplementedError("for compiled code")


@default(limit)
@default(within_limits)
def _unlimited(combiner, coding, combined, target):
    return target


class Combiner(Stateful):
    """A combiner: a record for compiled code, scratch arrays, and declared arrays."""

    @property
    def least_error(self) -> float:
        """The mean error of the best expert; 1 if the combiner follows no errors."""
        return 1.0

    def scratch(self, most: int) -> Handle:
        """Return a handle of scratch arrays for at most so many outputs."""
        return make_handle((np.empty(most, dtype=np.float32),))

    def merge_from(
        self, others: Sequence[Self], shares: Sequence[float], counts: Sequence[float] | None = None
    ) -> None:
        """Become the merge of several: the weighted mean."""
        self.average(others, shares)


@njit(**INNER)
def softmax(scores):
    """Turn scores (float64) into the probabilities that are their softmax, in place."""
    highest, total = -np.inf, 0.0
    for k in range(scores.shape[0]):
        highest = max(highest, scores[k])
    for k in range(scores.shape[0]):
        scores[k] = np.exp(scores[k] - highest)
        total += scores[k]
    for k in range(scores.shape[0]):
        scores[k] /= total


@njit(**INNER)
def mean_output(outputs, mean):
    """Fill ``mean`` with the mean of the experts' outputs to predict with."""
    experts = outputs.shape[0]
    for k in range(mean.shape[0]):
        mean[k] = outputs[0, 1, k]
    for e in range(1, experts):
        for k in range(mean.shape[0]):
            mean[k] += outputs[e, 1, k]
    if experts > 1:
        for k in range(mean.shape[0]):
            mean[k] /= np.float32(experts)


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


def part_of(sums: Array, first: float, prior: float) -> float:
    """Return the part ``α`` in [0, 1] of a second prediction ``g`` next to ``f``, by least squares.

    With ``m`` the mean of ``(g − f)²``, and ``prior`` events that say ``first`` ::

        α = (Σ (g − f)·(y − f) + first prior m) / (Σ (g − f)² + prior m)

    ``sums`` are those of products, of squares, and of events. Without any, it is ``first``.
    """
    if sums[SQUARES] == 0.0:
        return first
    before = prior * sums[SQUARES] / sums[COMPARED]
    part: float = (sums[PRODUCTS] + first * before) / (sums[SQUARES] + before)
    return min(max(part, 0.0), 1.0)


part_in = njit(**INNER)(part_of)  # the same in compiled code


Averaging = namedtuple("Averaging", "experts")


class Mean(Combiner):
    """The mean of the experts' numbers, in the units of the target.

    Parameters
    ----------
    experts
        How many there are.
    """

    record_type = Averaging

    def __init__(self, experts: int) -> None:
        self.experts = experts


@implements(combine, Averaging)
def _combine(combiner, coding, outputs, scratch, out):
    mean = scratch.value[0]
    mean_output(outputs, mean)
    out[0] = decode(coding, mean[0])


@implements(adapt, Averaging)
def _adapt(combiner, earlier, coding, outputs, scratch, combined, goal):
    pass
