"""Matching pursuit: one block of features at a time, by least squares.

One block of features is *open*. It is fitted to the residuals of the other blocks, by least squares over all
events since it was opened (:mod:`streamk.experts.recursion`). When the schedule of growth opens the next
block, its coefficients are fixed: a greedy expansion by whole blocks (Andrecut 2016, §3.3). At
``max_features`` the oldest block is opened again and starts from its coefficients (backfitting).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from streamk.arrays import Json
from streamk.experts.recursion import Recursion
from streamk.learners.classifier import Classifier
from streamk.learners.regressor import Regressor
from streamk.learners.streaming import StreamingLearner
from streamk.schedules import Growth


@dataclass(eq=False, repr=False)
class MatchingPursuit(StreamingLearner):
    """The parameters of matching pursuit: one recursion on the open block."""

    kernel: str | tuple[str, ...] = "gaussian"
    bandwidth: float | None = None
    scales: tuple[float, ...] = (4.0, 2.0, 1.0, 0.5)
    features: int = 256
    growth: str = "linear"
    period: int = 2000
    max_features: int = 2048
    loss: str = "squared"
    ridge: float = 1.0
    average: bool = False
    block_size: int = 1
    scale_inputs: bool = True
    directions: str = "keyed"
    seed: int | None = None
    family = "matching-pursuit"
    _losses: ClassVar[dict[bool, tuple[str, ...]]] = {
        True: ("squared",),
        False: ("squared", "huber", "epsilon_insensitive"),
    }

    def __post_init__(self) -> None:
        expert = Recursion(self._check(), self.average, self.ridge, self.block_size > 1)
        growth = Growth(self.growth, self.period, self.features, self.max_features)
        self._begin([expert], growth, self.block_size)


@dataclass(eq=False, repr=False)
class MatchingPursuitClassifier(MatchingPursuit, Classifier):
    """Kernel classifier that fits one block of features at a time, by recursive least squares.

    Its steps are of second order, so it learns smooth or noisy classes from fewer events than
    :class:`KaczmarzClassifier`, at a cost of ``features²`` operations an event.

    Parameters
    ----------
    kernel, bandwidth, scales, average, scale_inputs, directions, seed
        As for :class:`streamk.KaczmarzClassifier`.
    features
        Features of a block, ``F_b``. While it is open, a block takes ``4 F_b²`` bytes in float64 (twice
        that if blocks of events are learned), in memory and in the model file (see :meth:`closed`).
    growth
        When the next block is opened: with ``"linear"``, every ``period`` events; with ``"sqrt"``, when
        ``⌊√(1 + n/period)⌋`` grows; with ``"fixed"``, never: one block, by exact recursive least squares.
    period
        Events in the unit of growth. A block needs several times more events than it has features.
    max_features
        Bound of all features; once reached, the oldest block is opened again each time.
    loss
        ``"squared"``: one output per class, targets 0 and 1.
    ridge
        A block starts with the penalty ``ridge · F ‖α − α₀‖²``, ``F`` being all features so far and ``α₀``
        its coefficients then: in units of one event, as ``φᵀφ/F = 1``. Above 0.
    block_size
        Events fitted together. 1 learns at once; larger blocks suit shuffled data, and wait until they are
        full (see :meth:`flush`).

    Attributes
    ----------
    labels : list
        Classes known so far.
    events : int
        Events learned so far.
    pending : int
        Events waiting for their block to fill.

    References
    ----------
    [^1]: Andrecut, M., 2016. Randomized kernel methods for least-squares support vector machines.
    [^2]: Bierman, G. J., 1976. Measurement updating using the U-D factorization. Automatica 12.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> import streamk
    >>> learner = streamk.MatchingPursuitClassifier(features=128, seed=7)
    >>> evaluate.progressive_val_score(datasets.Bananas(), learner, metrics.Accuracy())
    Accuracy: 88.68%
    """

    @classmethod
    def _unit_test_params(cls) -> Iterator[Json]:
        yield {"features": 64, "seed": 7}


@dataclass(eq=False, repr=False)
class MatchingPursuitRegressor(MatchingPursuit, Regressor):
    """Kernel regressor that fits one block of features at a time, by recursive least squares.

    The target is standardised by the events before, clipped to ±6 deviations, and predictions are
    in its units.

    Parameters
    ----------
    kernel, bandwidth, scales, average, scale_inputs, directions, seed
        As for :class:`streamk.KaczmarzClassifier`.
    features, growth, period, max_features, ridge, block_size
        As for :class:`MatchingPursuitClassifier`.
    loss
        ``"squared"``, ``"huber"`` (residuals clipped to ±1.345 deviations) or
        ``"epsilon_insensitive"`` (residuals within ±0.1 deviations are let be).

    scale_target
        As for :class:`streamk.KaczmarzRegressor`.

    Attributes
    ----------
    events : int
        Events learned so far.
    pending : int
        Events waiting for their block to fill.

    References
    ----------
    [^1]: Andrecut, M., 2016. Randomized kernel methods for least-squares support vector machines.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> import streamk
    >>> learner = streamk.MatchingPursuitRegressor(features=64, seed=7)
    >>> stream = datasets.synth.Friedman(seed=1).take(1000)
    >>> evaluate.progressive_val_score(stream, learner, metrics.R2())
    R2: 0.59445
    """

    scale_target: bool = True

    @classmethod
    def _unit_test_params(cls) -> Iterator[Json]:
        yield {"features": 64, "seed": 7}
