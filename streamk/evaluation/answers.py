"""Predicted classes and their errors, event by event, from probabilities."""

# mypy: disable-error-code="no-untyped-call, misc"
from __future__ import annotations

import numpy as np
from numba import njit

from streamk.arrays import Array, Integers
from streamk.compiling import ENTRY
from streamk.evaluation.metric import LEAST_PROBABILITY

BINS = 15  # of the top probability, for calibration
FINE = 2**30  # steps of a probability summed for calibration: 8 · 10⁹ events fit
_EDGES = np.linspace(0.0, 1.0, BINS + 1)[1:-1]


def decisions(probabilities: Array) -> Integers:
    """Return the first of the most probable classes of each row, -1 where there is no prediction.

    Examples
    --------
    >>> import numpy as np
    >>> decisions(np.array([[0.2, 0.4, 0.4], [0.0, 0.0, 0.0], [np.nan, 1.0, 0.0]]))
    array([ 1, -1, -1])
    """
    predicted: Integers = np.empty(len(probabilities), np.int64)
    decide_rows(np.ascontiguousarray(probabilities, np.float64), predicted)
    return predicted


@njit(**ENTRY, nogil=True)
def decide_rows(probabilities, predicted):
    """Fill in the first of the most probable classes of each row, -1 where there is no prediction.

    Return how many rows have one, and how many classes these give a probability that is not 0: one more than
    the last of them.
    """
    made, used = 0, 0
    for row in range(probabilities.shape[0]):
        top, best, last = 0.0, -1, 0
        for k in range(probabilities.shape[1]):
            p = probabilities[row, k]
            if not p < np.inf:
                best = -1
                break
            if p > top:
                top, best = p, k
            if p != 0.0:
                last = k + 1
        predicted[row] = best
        if best >= 0:
            made += 1
            used = max(used, last)
    return made, used


@njit(**ENTRY, nogil=True)
def count(targets, probabilities, predicted, counts, bins, likelihoods, squares):
    """Count events with a prediction; fill in the probabilities of their targets, and squared errors.

    Parameters
    ----------
    targets, probabilities, predicted
        ``(n,)``, ``(n, K)`` and ``(n,)``.
    counts, bins
        ``(C, 1 + C)`` with ``C`` not below ``K`` and any target, and ``(3, bins)``; added to.
    likelihoods, squares
        ``(m,)`` and ``(m, C)`` of the rows with a prediction, the first within bounds; filled in.
    """
    at, classes = 0, counts.shape[0]
    for row in range(len(targets)):
        target, answer = targets[row], predicted[row]
        counts[target, answer + 1] += 1
        if answer < 0:
            continue
        width = min(probabilities.shape[1], classes)
        for k in range(classes):
            p = probabilities[row, k] if k < width else 0.0
            error = p - 1.0 if k == target else p
            squares[at, k] = error * error
        p = probabilities[row, target] if target < width else 0.0
        likelihoods[at] = min(max(p, LEAST_PROBABILITY), 1.0 - LEAST_PROBABILITY)
        top = min(probabilities[row, answer], 1.0)
        place = np.searchsorted(_EDGES, top)
        bins[0, place] += 1
        bins[1, place] += answer == target
        bins[2, place] += np.int64(np.rint(top * FINE))
        at += 1
