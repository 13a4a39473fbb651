"""Prediction intervals whose coverage holds on streams that change.

The interval of a prediction ``f`` at level ``l`` is ``f − σ q⁻ … f + σ q⁺``, with ``σ = σ(f) s(x) v``.
``σ(f)`` is the size of errors at predictions like this one: running means of the absolute error divided by
``s(x)``, at knots along the standardised predictions, interpolated linearly. ``s(x)`` is the factor by which
errors are larger at inputs like these, and ``v`` that by which they are larger at present. The offsets ``q``
of a tail of probability ``p = (1 − l)/2`` follow the errors ``e = ±(y − f)/σ``, each side separately::

    q ← q + η ([e > q] − p)

On any stream, a part ``p ± (max |e| + η)/(η n)`` of ``n`` events lies beyond, since the steps of ``q`` up and
down must balance (adaptive conformal inference: Gibbs and Candès 2021, proposition 4.1; quantile tracking:
Angelopoulos, Candès and Tibshirani 2023). Twelve tails are tracked on each side.

``s(x) = exp(γ u(x))``, ``u`` being the output of an expert (:mod:`streamk.experts.error_scale`). The
*calibration slope* ``γ`` (Cox 1958) is learned from outputs for events that the expert has not learned: it
is 0 if the outputs are noise, and 1 if errors are as large as the expert predicts. With ``a = |y − f|/σ``,
whose mean should be 1, an event of weight ``w`` is one step of Newton's method::

    A ← 10 + λʷ (A − 10) + w u²          γ ← γ + w u (min(a, 4) − 1)/A          0 ≤ γ ≤ 1.25

Noise may come in bursts (Engle 1982). The *recent error* ``m`` is a running mean over ten events of
``min(|y − f|/(σ(f) s), 10)``, and ``v = mᵏ``. The exponent ``k`` is learned as ``γ`` is, with ``log m`` in
place of ``u``: it is 0 where errors do not say how large the next one is. Intervals for stale experts have
``v = 1``.

If targets come ``D`` events late, errors are compared with the ``q`` and ``σ`` of prediction time, and
``η = 1/(20 + D)``: with longer steps ``q`` would overshoot before its effect is observed, and oscillate.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator
from statistics import NormalDist
from typing import Self

import numpy as np
from numba import njit

from streamk.arrays import Array
from streamk.combining.combiner import repeated
from streamk.compiling import INNER, ZERO, both
from streamk.state import MEAN, Field, Stateful

TAILS = (0.5, 0.4, 0.3, 0.25, 0.2, 0.15, 0.1, 0.075, 0.05, 0.025, 0.01, 0.005)
HIGHEST = 1.0 - 2.0 * TAILS[-1]  # level
_FARTHEST, _GAP = 3.0, 0.75  # knots, in deviations of the target
_KNOTS = int(2.0 * _FARTHEST / _GAP) + 1
_STEPS = 20.0  # 1/η
_MEMORY = 200.0  # events that running means of errors remember
_PRIOR = 10.0  # events that the overall mean error counts as, in the mean error at a knot
_CLIP = 10.0  # of an error, in units of σ
_LARGEST = 4.0  # of an error, in the same units, where its size is learned
STEEPEST = 1.25  # slope
_PRIOR_SLOPE = 10.0  # sum of squared outputs that a slope of 0 counts as
_FADING = 0.999  # λ of the information about the slope
_NO_BURSTS = 0.0, _PRIOR_SLOPE, 1.0
_LEAST = 1e-12
_EVENTS, _ERRORS = 0, 1
_SLOPE, _KNOWN, _RECENT = 0, 1, 2
_PACE = 0.1  # of the recent error
_LEAST_RECENT = 0.01
_MOST, _MOST_KNOWN = 1e6, 1e100
_LARGEST_SIZE = 1e90  # of an error, in deviations of the target


Intervening = namedtuple("Intervening", "offsets errors tails step slope bursts pace response")


class Intervals(Stateful):
    """The state of prediction intervals: offsets, sizes of errors, and the calibration slope.

    Parameters
    ----------
    steady
        Whether they are for predictions long after the last target, of which recent errors say nothing.

    Attributes
    ----------
    offsets
        ``q`` below and above, ``(2, 12)``, in units of ``σ``.
    errors
        Events and sums of absolute errors at each knot, and last of all of them, ``(2, 10)``.
    slope
        ``γ`` and ``A``.
    bursts
        ``k``, its ``A``, and ``m``.
    response
        What the expert for the size of errors is to learn from this event, ``(1,)``.
    """

    def __init__(self, steady: bool = False) -> None:
        self.pace = 0.0 if steady else _PACE
        self.set_delay(0)
        normal = np.array([NormalDist().inv_cdf(1.0 - p) for p in TAILS])
        self.offsets: Array = np.array([normal, normal]) / NormalDist().pdf(0.0) / 2.0
        self.errors: Array = np.zeros((2, _KNOTS + 1))
        self.errors[:, -1] = 1.0
        self.slope: Array = np.array([0.0, _PRIOR_SLOPE])
        self.bursts: Array = np.array(_NO_BURSTS)
        self.response: Array = np.zeros(1)
        self.tails = np.array(TAILS)

    def set_delay(self, delay: int) -> None:
        """Set how many events late targets arrive."""
        self.step = 1.0 / (_STEPS + delay)

    @property
    def record(self) -> Intervening:
        """Intervals as compiled code sees them."""
        slopes = self.slope, self.bursts, self.pace
        return Intervening(self.offsets, self.errors, self.tails, self.step, *slopes, self.response)

    def around(self, predicted: float, level: float, output: float = 0.0) -> tuple[float, float]:
        """Return how far below and above a standardised prediction the interval ends; ``output`` is ``u``."""
        tail = (1.0 - level) / 2.0
        outward = np.maximum.accumulate(self.offsets, axis=1)
        record = self.record
        spread = float(scale_at(record, output) * _burst(record) * spread_at(record, predicted))
        below, above = (
            spread * float(np.interp(-np.log(tail), -np.log(self.tails), side)) for side in outward
        )
        return (below, above) if below + above >= 0.0 else (-above, -below)

    def become(self, other: Self) -> None:
        """Copy the state of other intervals."""
        self.average([other], [1.0])
        if not self.pace:
            self.bursts[:] = _NO_BURSTS

    def fields(self) -> Iterator[Field]:
        """Yield what intervals depend on; merged intervals are the mean."""
        what, least = "intervals", np.zeros(self.errors.shape)
        least[_EVENTS, -1] = np.nextafter(0.0, 1.0)
        yield Field("intervals.offsets", what, -_MOST, _MOST, merge=MEAN, live=True)
        yield Field("intervals.errors", what, least, _MOST_KNOWN, merge=MEAN, live=True)
        bounds = (0.0, _PRIOR_SLOPE), (STEEPEST, _MOST_KNOWN)
        yield Field("intervals.slope", what, *bounds, merge=MEAN, live=True)
        ends = (*bounds[0], _LEAST_RECENT), (*bounds[1], _CLIP)
        yield Field("intervals.bursts", what, *ends, merge=MEAN, live=True, default=_NO_BURSTS)


@njit(**INNER)
def _knot(predicted):
    """Return the knot at or before a prediction, and the fraction of the distance to the next knot."""
    place = min(max((predicted + _FARTHEST) / _GAP, 0.0), float(_KNOTS - 1))
    knot = min(int(place), _KNOTS - 2) if place > 0.0 else ZERO  # also of what is no number
    return knot, place - knot


@both()
def spread_at(intervals, predicted):
    """Return ``σ`` at a standardised prediction."""
    errors = intervals.errors
    mean = errors[_ERRORS, _KNOTS] / errors[_EVENTS, _KNOTS]
    knot, way = _knot(predicted)
    total = 0.0
    for k in range(2):
        weight = way if k == 1 else 1.0 - way
        near = (errors[_ERRORS, knot + k] + _PRIOR * mean) / (errors[_EVENTS, knot + k] + _PRIOR)
        total += weight * near
    return max(total, _LEAST)


@both()
def scale_at(intervals, output):
    """Return ``s`` where the expert for the size of errors has this output."""
    return np.exp(intervals.slope[_SLOPE] * output)


@both()
def _burst(intervals):
    """Return ``v``."""
    return intervals.bursts[_RECENT] ** intervals.bursts[_SLOPE]


@njit(**INNER)
def _follow_slope(slope, output, size, weight):
    """Learn the calibration slope of the expert's outputs; the mean of ``size`` should be 1."""
    fading = _FADING if weight == 1.0 else _FADING**weight
    before = fading * (slope[_KNOWN] - _PRIOR_SLOPE)
    slope[_KNOWN] = min(_PRIOR_SLOPE + before + weight * output * output, _MOST_KNOWN)
    moved = slope[_SLOPE] + weight * output * (min(size, _LARGEST) - 1.0) / slope[_KNOWN]
    slope[_SLOPE] = min(max(moved, 0.0), STEEPEST)


@njit(**INNER)
def follow(intervals, earlier, predicted, output, aim, weight):
    """Learn the error of a standardised prediction; ``earlier`` are the intervals at prediction time.

    ``aim`` is the standardised target, ``output`` the output of the expert for the size of errors.
    """
    offsets, errors, tails = intervals.offsets, intervals.errors, intervals.tails
    spread, burst = spread_at(earlier, predicted), _burst(earlier)
    by_inputs = (aim - predicted) / (spread * scale_at(earlier, output))
    error = min(max(by_inputs / burst, -_CLIP), _CLIP)
    whole = abs(aim - predicted) / (spread * np.exp(output) * burst)
    intervals.response[0] = output + min(whole, _LARGEST) - 1.0
    _follow_slope(intervals.slope, output, abs(error), weight)
    _follow_slope(intervals.bursts, np.log(earlier.bursts[_RECENT]), abs(error), weight)
    by_inputs = min(abs(by_inputs), _CLIP)
    recent = intervals.bursts[_RECENT] + repeated(intervals.pace, weight) * (
        by_inputs - intervals.bursts[_RECENT]
    )
    intervals.bursts[_RECENT] = max(recent, _LEAST_RECENT)
    for p in range(tails.shape[0]):
        for side in range(2):
            beyond = error if side == 1 else -error
            outside = 1.0 if beyond > earlier.offsets[side, p] else 0.0
            one, old = intervals.step * (outside - tails[p]), offsets[side, p]
            moved = old + weight * one
            if weight > 1.0:  # repeated steps would turn back at the error
                moved = (
                    min(moved, max(old + one, beyond)) if one > 0.0 else max(moved, min(old + one, beyond))
                )
            offsets[side, p] = moved
    size, faded = min(by_inputs * spread, _LARGEST_SIZE), repeated(1.0 / _MEMORY, weight)
    knot, way = _knot(predicted)
    for k in range(2):
        part = way if k == 1 else 1.0 - way
        for what in range(2):
            kept = errors[what, knot + k] * faded
            errors[what, knot + k] += part * (_MEMORY * faded * (1.0 if what == _EVENTS else size) - kept)
    for what in range(2):
        errors[what, _KNOTS] += faded * (_MEMORY * (1.0 if what == _EVENTS else size) - errors[what, _KNOTS])
