"""The interface of combiners, which compute one calibrated prediction from the outputs of experts.

Compiled code gets a combiner's *record*, whose type selects the implementation of :func:`combine`,
:func:`adapt` and :func:`limit`; each combiner's file adds one (:mod:`streamk.dispatch`). ``scratch`` is a
handle of what the combiner's method of that name returns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
from numba import njit

from streamk.compiling import INNER
from streamk.dispatch import default
from streamk.handles import Handle, make_handle
from streamk.state import Stateful


def combine(combiner: object, coding: object, outputs: object, scratch: object, out: object) -> None:
    """Fill ``out`` with class probabilities of the known outputs, or a number in the target's units.

    ``outputs`` are the experts', ``(E, 2, K)`` float32. In compiled code.
    """
    raise NotImplementedError("for compiled code")


def adapt(*arguments: object) -> None:
    """Learn from an event: ``scratch`` and ``combined`` are what :func:`combine` filled for its ``outputs``.

    ``goal`` is the target and the weight. ``earlier`` is the combiner that predicted, another one than
    ``combiner`` if labels come late. In compiled code.
    """
    raise NotImplementedError("for compiled code")


def limit(combiner: object, coding: object, combined: object, target: object) -> object:
    """Return the target to learn where ``combined`` was predicted: ``target``, or one nearer to ``combined``.

    In compiled code.
    """
    raise NotImplementedError("for compiled code")


@default(limit)
def _unlimited(combiner, coding, combined, target):
    return target


class Combiner(Stateful):
    """A combiner: a record for compiled code, scratch arrays, and declared arrays."""

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
