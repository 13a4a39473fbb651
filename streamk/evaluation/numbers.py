"""Sums for metrics of numbers, which add up exactly over chunks, windows and slices."""

from __future__ import annotations

import math
from typing import Self

import numpy as np

from streamk.arrays import Array, SavedState
from streamk.evaluation.exact import ExactSum, Sums, check_one_length, squares
from streamk.evaluation.metric import NUMBERS

_SUMS = ("absolute", "squared", "targets", "target_squares", "width", "pinball")


class NumberSums(Sums):
    """Running sums of predicted numbers and intervals, and the metrics that follow from them.

    Parameters
    ----------
    level
        The nominal coverage of the intervals, 0.9 by default.

    Examples
    --------
    >>> import numpy as np
    >>> sums = NumberSums()
    >>> targets, predictions = np.array([1.0, 2.0, 3.0, 6.0]), np.array([1.0, 2.5, 3.5, 6.0])
    >>> sums.add(targets, predictions, lower=predictions - 0.4, upper=predictions + 0.4)
    >>> {name: round(value, 6) for name, value in sums.values().items()}
    {'mae': 0.25, 'rmse': 0.353553, 'r2': 0.964286, 'coverage': 0.5, 'width': 0.8, 'pinball': 0.045}
    """

    METRICS = NUMBERS

    def __init__(self, level: float = 0.9) -> None:
        if not 0.0 < level < 1.0:
            raise ValueError(f"level is {level!r}; it must lie between 0 and 1")
        self.level = level
        self.events = 0
        self.bounded = 0  # events with an interval
        self.covered = 0
        self._sums = {name: ExactSum() for name in _SUMS}

    def fresh(self) -> Self:
        """Return empty sums of the same kind."""
        return type(self)(self.level)

    def clear(self) -> None:
        """Remove all events."""
        self.events = self.bounded = self.covered = 0
        self._sums = {name: ExactSum() for name in _SUMS}

    def add(
        self, targets: Array, predictions: Array, lower: Array | None = None, upper: Array | None = None
    ) -> None:
        """Add events, with the ends of their intervals if there are any.

        An event with an end that is not finite counts as one without an interval.

        Raises
        ------
        ValueError
            If lengths differ, or only one end is passed.
        """
        targets, predictions = np.asarray(targets, np.float64), np.asarray(predictions, np.float64)
        if not check_one_length((targets, predictions)):
            return
        self.events += len(targets)
        sums = self._sums
        with np.errstate(over="ignore", invalid="ignore"):  # some learners diverge
            errors = targets - predictions
            sums["absolute"].add(np.abs(errors))
            sums["squared"].add(errors * errors)
            sums["targets"].add(targets)
            sums["target_squares"].add(squares(targets))
        if lower is not None and upper is not None:
            self._add_intervals(targets, np.asarray(lower, np.float64), np.asarray(upper, np.float64))
        elif lower is not None or upper is not None:
            raise ValueError("an interval has two ends; one was given")

    def _add_intervals(self, targets: Array, lower: Array, upper: Array) -> None:
        check_one_length((targets, lower, upper))
        whole = np.isfinite(lower) & np.isfinite(upper)
        if not whole.all():
            targets, lower, upper = targets[whole], lower[whole], upper[whole]
        self.bounded += len(targets)
        self.covered += int(np.count_nonzero((lower <= targets) & (targets <= upper)))
        self._sums["width"].add(upper - lower)
        tail = (1.0 - self.level) / 2.0
        self._sums["pinball"].add(_pinball(targets - lower, tail))
        self._sums["pinball"].add(_pinball(targets - upper, 1.0 - tail))

    def merge(self, other: Self) -> None:
        """Add the events of other sums, which do not change.

        Raises
        ------
        ValueError
            If the intervals of both promise different things.
        """
        if self.level != other.level:
            raise ValueError(f"intervals of {self.level} and {other.level} do not add up")
        self.events += other.events
        self.bounded += other.bounded
        self.covered += other.covered
        for name in _SUMS:
            self._sums[name] += other._sums[name]

    @property
    def mean_absolute(self) -> float:
        """The mean absolute error."""
        return self._sums["absolute"].over(self.events)

    @property
    def mean_squared(self) -> float:
        """The mean squared error."""
        return self._sums["squared"].over(self.events)

    @property
    def r2(self) -> float:
        """``1 − Σ e²/Σ (y − ȳ)²``, 0 if targets do not vary."""
        sums = self._sums
        if any(sums[name].special for name in ("squared", "target_squares")):
            return math.nan if math.isnan(float(sums["squared"])) else -math.inf
        # a constant target varies by exactly 0, since nothing is rounded
        varied = self.events * sums["target_squares"].fraction() - sums["targets"].fraction() ** 2
        return float(1 - self.events * sums["squared"].fraction() / varied) if varied > 0 else 0.0

    @property
    def coverage(self) -> float | None:
        """The share of targets within their intervals."""
        return self.covered / self.bounded if self.bounded else None

    @property
    def width(self) -> float | None:
        """The mean width of intervals."""
        return self._sums["width"].over(self.bounded) if self.bounded else None

    @property
    def pinball(self) -> float | None:
        """The mean pinball loss ``max(q·d, (q − 1)·d)`` of both ends, ``d = y − end``.

        The ends are the quantiles ``q = (1 ∓ level)/2``. Intervals that hold their level and are narrow have
        a small one (Gneiting and Raftery 2007). Of a prediction alone it is half the MAE.
        """
        return self._sums["pinball"].over(2 * self.bounded) if self.bounded else None

    def state(self) -> SavedState:
        """Return everything, as :meth:`restored` takes it."""
        counts = {"level": self.level, "events": self.events}
        counts |= {"bounded": self.bounded, "covered": self.covered}
        return {**counts, "sums": {name: total.text() for name, total in self._sums.items()}}, {}

    @classmethod
    def restored(cls, state: SavedState) -> Self:
        """Return the sums that a state is of."""
        header, _ = state
        sums = cls(header["level"])
        sums.events, sums.bounded, sums.covered = header["events"], header["bounded"], header["covered"]
        sums._sums = {name: ExactSum.read(text) for name, text in header["sums"].items()}
        return sums


def _pinball(distances: Array, quantile: float) -> Array:
    losses: Array = np.maximum(quantile * distances, (quantile - 1.0) * distances)
    return losses
