"""Kaczmarz pursuit: matching pursuit on the open block of features, projections on all others.

Each event is first learned by the open block (:mod:`streamk.learners.matching_pursuit`); all other blocks
then learn its residual by a projection (Kaczmarz-MP in Andrecut 2016).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from streamk.arrays import Json
from streamk.experts.recursion import Recursion
from streamk.learners.classifier import Classifier
from streamk.learners.matching_pursuit import MatchingPursuit
from streamk.learners.regressor import Regressor
from streamk.schedules import Growth


@dataclass(eq=False, repr=False)
class _KaczmarzPursuit(MatchingPursuit):
    """The parameters of matching pursuit, and those of the projections."""

    regularization: float = 0.3
    memory: int | None = None
    family = "kaczmarz-pursuit"

    def __post_init__(self) -> None:
        rho, memory = self.regularization, self.memory
        expert = Recursion(self._check(), self.average, self.ridge, self.block_size > 1, True, rho, memory)
        growth = Growth(self.growth, self.period, self.features, self.max_features)
        self._begin([expert], growth, self.block_size, memory=memory)


@dataclass(eq=False, repr=False)
class KaczmarzPursuitClassifier(_KaczmarzPursuit, Classifier):
    """Kernel classifier that pursues with one block of features and projects with all others.

    The open block learns by the second-order steps of :class:`streamk.MatchingPursuitClassifier`; all others
    learn the residual of each event by the steps of :class:`KaczmarzClassifier`.

    Parameters
    ----------
    kernel, bandwidth, scales, average, scale_inputs, directions, seed
        As for :class:`streamk.KaczmarzClassifier`.
    features, growth, period, max_features, loss, ridge, block_size
        As for :class:`streamk.MatchingPursuitClassifier`.
    regularization, memory
        ``ρ`` of the projections and when it stops growing, as for :class:`streamk.KaczmarzClassifier`.

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

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> import streamk
    >>> learner = streamk.KaczmarzPursuitClassifier(features=128, seed=7)
    >>> evaluate.progressive_val_score(datasets.Bananas(), learner, metrics.Accuracy())
    Accuracy: 88.43%
    """

    @classmethod
    def _unit_test_params(cls) -> Iterator[Json]:
        yield {"features": 64, "seed": 7}


@dataclass(eq=False, repr=False)
class KaczmarzPursuitRegressor(_KaczmarzPursuit, Regressor):
    """Kernel regressor that pursues with one block of features and projects with all others.

    Parameters
    ----------
    kernel, bandwidth, scales, average, scale_inputs, directions, seed
        As for :class:`streamk.KaczmarzClassifier`.
    features, growth, period, max_features, ridge, block_size
        As for :class:`streamk.MatchingPursuitClassifier`.
    loss
        As for :class:`streamk.MatchingPursuitRegressor`.
    regularization, memory
        ``ρ`` of the projections and when it stops growing, as for :class:`streamk.KaczmarzClassifier`.

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
    >>> learner = streamk.KaczmarzPursuitRegressor(features=64, period=200, seed=7)
    >>> stream = datasets.synth.Friedman(seed=1).take(1000)
    >>> evaluate.progressive_val_score(stream, learner, metrics.R2())
    R2: 0.578384
    """

    scale_target: bool = True

    @classmethod
    def _unit_test_params(cls) -> Iterator[Json]:
        yield {"features": 64, "seed": 7}
