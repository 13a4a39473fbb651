"""Stacked experts of classes, compiled; the formulas are in :mod:`streamk.combining.stacking`."""

from __future__ import annotations

from collections import namedtuple

from numba import njit

from streamk.combining.combiner import adapt, combine, softmax
from streamk.combining.weighing import clipped, rate, relative, share
from streamk.compiling import INNER
from streamk.dispatch import implements
from streamk.encoding.codec import KNOWN
from streamk.vector.newton import add_products, fade, newton_steps

CLIP = 4.0  # of outputs
_STEEP = 4.0  # by which outputs are multiplied before they are saturated


StackedClasses = namedtuple(
    "StackedClasses", "forgetting weights curvature shares initial error losses pace penalty logits saturated"
)


@njit(**INNER)
def _fill_scores(combiner, outputs, scores, row):
    """Fill ``scores`` ``(known, E + X)`` with clipped outputs of experts, and after them the saturated ones.

    ``row`` ``(known,)`` is scratch.
    """
    experts, known = outputs.shape[0], row.shape[0]
    scores[:, experts:] = 0.0
    for e in range(experts):
        for k in range(known):
            scores[k, e] = clipped(outputs, e, k, CLIP)
        used = False
        for x in range(combiner.saturated.shape[0]):
            used = used or combiner.saturated[x, e] > 0.0
        if used:
            for k in range(known):
                row[k] = _STEEP * scores[k, e]
            softmax(row)
            for x in range(combiner.saturated.shape[0]):
                for k in range(known):
                    scores[k, experts + x] += combiner.saturated[x, e] * (2.0 * row[k] - 1.0)


@njit(**INNER)
def _probabilities(combiner, s, scores, out):
    """Fill ``out`` ``(known,)`` with the class probabilities of set ``s`` of weights."""
    for k in range(scores.shape[0]):
        total = 0.0
        for e in range(scores.shape[1]):
            total += combiner.weights[s, e] * scores[k, e]
        out[k] = total
    softmax(out)


@implements(combine, StackedClasses)
def _combine(combiner, coding, outputs, scratch, out):
    out[:] = 0.0
    known = int(coding.counts[KNOWN])
    scores, probabilities, row, _, _, _ = scratch.value
    _fill_scores(combiner, outputs, scores[:known], row[:known])
    for s in range(combiner.shares.shape[0] if known > 0 else 0):
        _probabilities(combiner, s, scores[:known], probabilities[s, :known])
        for k in range(known):
            out[k] += combiner.shares[s] * probabilities[s, k]


@implements(adapt, StackedClasses)
def _adapt(combiner, earlier, coding, outputs, scratch, combined, goal):
    target, weight = goal
    known = int(coding.counts[KNOWN])
    if target < known and known > 1:
        _learn_class(combiner, outputs, scratch, known, int(target), weight)


@njit(**INNER)
def _learn_class(combiner, outputs, scratch, known, y, weight):
    sets, experts = combiner.weights.shape
    scores, probabilities, row, slopes, deviations, factors = scratch.value
    scores, row = scores[:known], row[:known]
    total, moved = 0.0, rate(combiner.error, weight)
    pace = combiner.pace * relative(combiner.error, weight)
    for e in range(experts):
        loss = 0.0
        for k in range(known):
            row[k] = scores[k, e] if e < outputs.shape[0] else 0.5 * scores[k, e] + 0.5
        if combiner.logits[e]:
            softmax(row)
        for k in range(known):
            loss += (row[k] - (1.0 if k == y else 0.0)) ** 2
        combiner.losses[e] += moved * (loss - combiner.losses[e])
    for s in range(sets):
        row = probabilities[s, :known]
        combiner.shares[s] *= max(row[y], 1e-12) ** pace
        if combiner.pace < 1.0:  # labels come late, and these are probabilities by earlier weights
            _probabilities(combiner, s, scores, row)
        total += combiner.shares[s]
        for e in range(experts):
            mean = 0.0
            for k in range(known):
                mean += row[k] * scores[k, e]
            slopes[e, s] = mean
    fade(combiner.curvature, combiner.forgetting, combiner.penalty, weight)
    for k in range(known):
        parts = weight * probabilities[0, k], weight * probabilities[1, k], weight * probabilities[2, k]
        add_products(combiner.curvature, scores, k, slopes, parts, deviations)
    for e in range(experts):
        for s in range(sets):
            slopes[e, s] = weight * (slopes[e, s] - scores[y, e])
    newton_steps(combiner.weights, combiner.curvature, slopes, factors)
    share(combiner.shares, combiner.initial, total, weight)
