"""Stacked experts of numbers, compiled; the formulas are in :mod:`streamk.combining.stacking`."""

from __future__ import annotations

from collections import namedtuple

import numpy as np
from numba import njit

from streamk.combining.combiner import adapt, combine, limit
from streamk.combining.intervals import STEEPEST, follow, scale_at, spread_at
from streamk.combining.level_shift import is_shifted, last_target, watch
from streamk.combining.weighing import clipped, rate, relative, share
from streamk.compiling import CALLED, INNER
from streamk.dispatch import implements
from streamk.encoding.codec import EVENTS, aim_of, decode, is_learned, unclipped
from streamk.encoding.rows import LARGEST
from streamk.encoding.scaling import WIDE_CLIP
from streamk.vector.newton import add_products, fade, newton_steps

_SCALE = np.log(8.0) / STEEPEST  # of the output of the expert for the size of errors
_RATE = 0.5
_GAIN, _LOSS = 1.0, 25.0  # of one event, in mean squared errors
_ERROR = 0  # place in a running mean
_REACH, _RUN = 0, 1  # mean absolute errors; targets in a row, negative below
IN_A_ROW = 8.0


StackedNumbers = namedtuple(
    "StackedNumbers",
    "forgetting weights curvature shares initial error losses intervals level_shift reach pace penalty",
)


@njit(**INNER)
def _number(combiner, s, outputs):
    """Return the prediction of set ``s`` of weights.

    Indices after the last set are single experts, and the last index is the mean target, 0.
    """
    sets, experts = combiner.weights.shape
    if s >= sets + experts:
        return 0.0
    if s >= sets:
        return clipped(outputs, s - sets, 0, WIDE_CLIP)
    total = 0.0
    for e in range(experts):
        total += combiner.weights[s, e] * clipped(outputs, e, 0, WIDE_CLIP)
    return min(max(total, -WIDE_CLIP), WIDE_CLIP)


@njit(**INNER)
def _fill_numbers(combiner, outputs, numbers):
    """Fill ``numbers`` with a prediction for each share, and after them their mean by shares."""
    predicted = 0.0
    for s in range(combiner.shares.shape[0]):
        numbers[s] = _number(combiner, s, outputs)
        predicted += combiner.shares[s] * numbers[s]
    numbers[combiner.shares.shape[0]] = predicted


@njit(**INNER)
def _error_scale(combiner, outputs):
    """Return the output of the expert for the size of errors, the one after those with weights, or 0."""
    experts = combiner.weights.shape[1]
    return clipped(outputs, experts, 0, _SCALE) if outputs.shape[0] > experts else 0.0


@njit(**CALLED)
def _limited(reach, intervals, coding, predicted, target):
    """Return a target within ``reach`` mean absolute errors of ``predicted``, standardised (Huber 1964)."""
    actual, farthest = unclipped(coding, target), reach[_REACH] * spread_at(intervals, predicted)
    limited = min(max(actual, predicted - farthest), predicted + farthest)
    return target if limited == actual else min(max(decode(coding, limited), -LARGEST), LARGEST)


@njit(**INNER)
def _is_limiting(combiner):
    """Return whether targets far off are limited: not after a run of targets far off on the same side."""
    return combiner.reach[_REACH] != np.inf and abs(combiner.reach[_RUN]) < IN_A_ROW


@implements(limit, StackedNumbers)
def _limit(combiner, coding, combined, target):
    if combiner.reach[_REACH] == np.inf:
        return target
    predicted = unclipped(coding, combined[0])
    limited = _limited(combiner.reach, combiner.intervals, coding, predicted, target)
    side = np.sign(target - limited)
    combiner.reach[_RUN] = side + (combiner.reach[_RUN] if combiner.reach[_RUN] * side > 0.0 else 0.0)
    return limited if _is_limiting(combiner) else target


@implements(combine, StackedNumbers)
def _combine(combiner, coding, outputs, scratch, out):
    numbers = scratch.value[0]
    _fill_numbers(combiner, outputs, numbers)
    shifted = is_shifted(combiner.level_shift)
    out[0] = last_target(combiner.level_shift) if shifted else decode(coding, numbers[-1])
    if out.shape[0] > 1:  # for an interval
        out[1] = scale_at(combiner.intervals, _error_scale(combiner, outputs))


@implements(adapt, StackedNumbers)
def _adapt(combiner, earlier, coding, outputs, scratch, combined, goal):
    target, weight = goal
    aim = aim_of(coding, target)
    prediction, size = scratch.value[0][-1], _error_scale(earlier, outputs)
    if is_shifted(combiner.level_shift):
        predicted, actual = (
            unclipped(coding, last_target(combiner.level_shift)),
            unclipped(coding, target),
        )
        follow(combiner.intervals, earlier.intervals, predicted, size, actual, weight)
    else:
        follow(combiner.intervals, earlier.intervals, prediction, size, aim, weight)
    if _is_limiting(combiner):
        target = _limited(combiner.reach, combiner.intervals, coding, prediction, target)
        aim = aim_of(coding, target)
    watch(combiner.level_shift, target, aim, coding.counts[EVENTS])
    if is_learned(coding, target):
        _learn_number(combiner, outputs, scratch, aim, weight)


@njit(**INNER)
def _learn_number(combiner, outputs, scratch, aim, weight):
    sets, experts = combiner.weights.shape
    numbers, scores, slopes, deviations, factors = scratch.value
    count, mixed = combiner.shares.shape[0], numbers[-1]
    error, total, moved = (mixed - aim) ** 2, 0.0, rate(combiner.error, weight)
    pace = combiner.pace * relative(combiner.error, weight)
    combiner.error[_ERROR] += moved * (error - combiner.error[_ERROR])
    for s in range(count):
        predicted = numbers[s]
        if sets <= s < sets + experts:
            combiner.losses[s - sets] += moved * ((predicted - aim) ** 2 - combiner.losses[s - sets])
        if combiner.error[_ERROR] > 0.0:
            worse = ((0.5 * (predicted + mixed) - aim) ** 2 - error) / combiner.error[_ERROR]
            combiner.shares[s] *= np.exp(-_RATE * pace * min(max(worse, -_GAIN), _LOSS))
        total += combiner.shares[s]
    fade(combiner.curvature, combiner.forgetting, combiner.penalty, weight)
    slopes[:] = 0.0
    for e in range(experts):
        scores[0, e] = clipped(outputs, e, 0, WIDE_CLIP)
    add_products(combiner.curvature, scores, 0, slopes, (weight, weight, weight), deviations)
    for s in range(sets):
        predicted = 0.0
        for e in range(experts):
            predicted += combiner.weights[s, e] * scores[0, e]
        for e in range(experts):
            slopes[e, s] = scores[0, e] * (weight * (predicted - aim))
    newton_steps(combiner.weights, combiner.curvature, slopes, factors)
    share(combiner.shares, combiner.initial, total, weight)
