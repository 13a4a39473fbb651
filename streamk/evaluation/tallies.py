"""Sums of training: right predictions and errors, which add up over shards.

They are shorter than those of a replay: a round sends them with every model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple

from streamk.evaluation.metric import METRICS


class ClassTally(NamedTuple):
    """The number of events, and of those whose class was predicted right before they were learned.

    >>> (ClassTally(10, 7) + ClassTally(10, 8)).values()
    {'accuracy': 0.75}
    """

    events: int = 0
    right: int = 0

    @classmethod
    def of(cls, targets: Sequence[object], predictions: Sequence[object]) -> ClassTally:
        """Return the sums of events."""
        return cls(len(targets), sum(map(bool, map(lambda y, p: y == p, targets, predictions))))

    def __add__(self, other: ClassTally) -> ClassTally:  # type: ignore[override]  # sums, not tuples end to end
        return ClassTally(self.events + other.events, self.right + other.right)

    def values(self) -> dict[str, float]:
        """Return the accuracy."""
        return {"accuracy": round(float(METRICS["accuracy"].formula(self) or 0.0), 6)}


class NumberTally(NamedTuple):
    """Errors of numbers predicted before they were learned; the targets' mean, and squares about it.

    Sums about the mean are added as Chan, Golub and LeVeque add them, since ``Σy² - n·mean²`` would lose all
    digits of targets far from 0.

    >>> both = NumberTally.of([1.0, 2.0], [1.0, 2.5]) + NumberTally.of([3.0, 6.0], [3.5, 6.0])
    >>> both == NumberTally.of([1.0, 2.0, 3.0, 6.0], [1.0, 2.5, 3.5, 6.0]), both.values()
    (True, {'mae': 0.25, 'rmse': 0.353553, 'r2': 0.964286})
    """

    events: int = 0
    absolute: float = 0.0
    squared: float = 0.0
    mean: float = 0.0
    about_mean: float = 0.0

    @classmethod
    def of(cls, targets: Sequence[Any], predictions: Sequence[Any]) -> NumberTally:
        """Return the sums of events."""
        if not len(targets):
            return cls()
        errors = [float(y) - float(p) for y, p in zip(targets, predictions, strict=True)]
        mean = math.fsum(targets) / len(targets)
        return cls(
            len(targets), math.fsum(map(abs, errors)), math.fsum(e * e for e in errors), mean,
            math.fsum((y - mean) ** 2 for y in targets),
        )  # fmt: skip

    def __add__(self, other: NumberTally) -> NumberTally:  # type: ignore[override]  # sums, not tuples end to end
        if not self.events or not other.events:
            return other if not self.events else self
        events, apart = self.events + other.events, other.mean - self.mean
        between = apart * apart * self.events * other.events / events
        return NumberTally(
            events, self.absolute + other.absolute, self.squared + other.squared,
            self.mean + apart * other.events / events, self.about_mean + other.about_mean + between,
        )  # fmt: skip

    def values(self) -> dict[str, float]:
        """Return MAE, RMSE and R² with six digits."""
        return {name: float(f"{METRICS[name].formula(self):.6g}") for name in ("mae", "rmse", "r2")}

    @property
    def mean_absolute(self) -> float:
        """The mean absolute error."""
        return self.absolute / max(self.events, 1)

    @property
    def mean_squared(self) -> float:
        """The mean squared error."""
        return self.squared / max(self.events, 1)

    @property
    def r2(self) -> float:
        """``1 − Σ e²/Σ (y − ȳ)²``, 0 if targets do not vary."""
        return 1.0 - self.squared / self.about_mean if self.about_mean > 0.0 else 0.0


Tally = ClassTally | NumberTally


def total(tallies: Sequence[Tally]) -> Tally:
    """Return the sum of tallies of one kind, in their order."""
    return reduce(lambda a, b: a + b, tallies)  # type: ignore[operator]
