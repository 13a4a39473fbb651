"""Normal scores: a monotone transform of an input whose tails are heavy.

Values such as ``exp(3 z)`` or a Cauchy variable have no scale that serves all of them: divided by their
standard deviation, nearly all are equal. Their *normal scores* ``Φ⁻¹(F(v))`` are spread as a normal variable
is (van der Waerden 1952), whatever the distribution function ``F``. ``F`` is estimated by quantiles of a
sample: 33 knots with equally spaced scores, linear interpolation between them, and linear extrapolation by
the first and the last line. Equal values have one score, so a column of few values has few knots.

Tails are heavy if the range of 98 % of the sample is far longer than that of the middle half and than that of
90 %; for a normal variable the ratios are 3.4 and 1.4. A single outlier does not change these ranges.

A transform is fitted once and then does not change. It is stored by name
(:attr:`streamk.encoding.names.Names.transforms`) and applied to encoded rows before they are scaled.
"""

from __future__ import annotations

from bisect import bisect_right
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from streamk.arrays import Array
from streamk.encoding.rows import LARGEST

LEAST = 128  # values needed to detect heavy tails
_RANGES = 0.01, 0.05, 0.25, 0.75, 0.95, 0.99
_OF_HALF, _OF_MOST = 12.0, 3.0  # ranges of 98 % in those of the middle half and of 90 %
_KNOTS = 33
_FARTHEST = 100.0  # a score beyond the knots


class Transform(NamedTuple):
    """A monotone piecewise linear function: increasing ``values`` and, at each, increasing ``scores``."""

    values: Array
    scores: Array

    @classmethod
    def fit(cls, values: Array) -> Transform:
        """Return normal scores by the quantiles of a sample of at least two different values."""
        normal, count = NormalDist(), len(values)
        last = normal.inv_cdf(1.0 - 0.5 / count)
        scores = np.linspace(-last, last, _KNOTS)
        knots = np.quantile(values, [normal.cdf(score) for score in scores], method="inverted_cdf")
        distinct, of = np.unique(knots, return_inverse=True)
        return cls(distinct, np.bincount(of, scores) / np.bincount(of))

    def apply(self, values: Array) -> Array:
        """Return the scores of values; values that no learner takes are returned unchanged."""
        with np.errstate(over="ignore"):
            scores = np.clip(_interpolate(values, self.values, self.scores), -_FARTHEST, _FARTHEST)
        return np.where(abs(values) <= LARGEST, scores, values)

    def apply_one(self, value: float) -> float:
        """Return the same of one value."""
        if not abs(value) <= LARGEST:
            return value
        knots, scores = self.lists
        j = min(max(bisect_right(knots, value) - 1, 0), len(knots) - 2)
        way = (value - knots[j]) / (knots[j + 1] - knots[j])
        return min(max(scores[j] + way * (scores[j + 1] - scores[j]), -_FARTHEST), _FARTHEST)

    @property
    def lists(self) -> tuple[list[float], list[float]]:
        """The knots as Python floats."""
        return self.values.tolist(), self.scores.tolist()

    def invert(self, scores: Array) -> Array:
        """Return the values of scores."""
        with np.errstate(over="ignore"):
            return np.clip(_interpolate(scores, self.scores, self.values), -LARGEST, LARGEST)

    def is_same(self, other: Transform) -> bool:
        """Return whether another has the same knots."""
        return np.array_equal(self.values, other.values) and np.array_equal(self.scores, other.scores)

    def is_possible(self) -> bool:
        """Return whether a model file may hold it."""
        return (
            len(self.values) > 1
            and bool(np.isfinite(self.values).all() and np.isfinite(self.scores).all())
            and bool((np.diff(self.values) > 0.0).all() and (np.diff(self.scores) > 0.0).all())
            and bool((abs(self.values) <= LARGEST).all() and (abs(self.scores) <= _FARTHEST).all())
        )


def has_heavy_tails(values: Array) -> bool:
    """Return whether a sample of an input has tails far heavier than normal ones."""
    if len(values) < LEAST:
        return False
    lowest, low, first, third, high, highest = np.quantile(values, _RANGES)
    whole, half, most = highest - lowest, third - first, high - low
    return bool(half > 0.0 and whole > _OF_HALF * half and whole > _OF_MOST * most)


def mean_of(transforms: list[Transform], weights: list[float]) -> Transform:
    """Return one transform of several of the same input: the mean of their scores at the knots of all."""
    first = transforms[0]
    if all(first.is_same(other) for other in transforms[1:]):
        return first
    knots = np.unique(np.concatenate([one.values for one in transforms]))
    knots = knots[np.unique(np.linspace(0, len(knots) - 1, _KNOTS).round().astype(np.intp))]
    shares = np.array(weights) / sum(weights)
    scores = sum(share * one.apply(knots) for share, one in zip(shares, transforms, strict=True))
    increasing = np.concatenate([[True], np.diff(scores) > 0.0])
    return Transform(knots[increasing], np.asarray(scores)[increasing])


def _interpolate(at: Array, x: Array, y: Array) -> Array:
    """Return the piecewise linear function through ``(x, y)``, in the steps of :meth:`apply_one`."""
    j = np.clip(np.searchsorted(x, at, side="right") - 1, 0, len(x) - 2)
    way = (at - x[j]) / (x[j + 1] - x[j])
    return np.asarray(y[j] + way * (y[j + 1] - y[j]))
