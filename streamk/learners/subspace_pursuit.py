"""Subspace pursuit: second-order steps in the leading directions of many features.

The expert is :mod:`streamk.experts.subspace`: recursive least squares in the leading directions of the
features, which are learned from the events, and annealed projections in all others. If the target is rough,
many features matter more than exact least squares on some hundreds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from streamk.arrays import Json
from streamk.experts.subspace import Subspace
from streamk.learners.classifier import Classifier
from streamk.learners.regressor import Regressor
from streamk.learners.streaming import StreamingLearner
from streamk.schedules import Growth


@dataclass(eq=False, repr=False)
class _SubspacePursuit(StreamingLearner):
    """The parameters of subspace pursuit."""

    kernel: str | tuple[str, ...] = ("laplacian", "gaussian")
    bandwidth: float | None = None
    scales: tuple[float, ...] = (2.0, 1.0, 0.5, 0.25)
    features: int = 2048
    rank: int = 64
    loss: str = "squared"
    ridge: float = 1.0
    regularization: float = 0.02
    scale_inputs: bool = True
    directions: str = "auto"
    seed: int | None = None
    average = False
    family = "subspace-pursuit"
    _losses: ClassVar[dict[bool, tuple[str, ...]]] = {
        True: ("squared", "margin"),
        False: ("squared", "huber", "epsilon_insensitive"),
    }

    def __post_init__(self) -> None:
        expert = Subspace(self._check(), self.rank, self.ridge, self.regularization)
        self._begin([expert], Growth("fixed", 1, self.features, self.features))


@dataclass(eq=False, repr=False)
class SubspacePursuitClassifier(_SubspacePursuit, Classifier):
    """Kernel classifier of second order in the leading directions of many features.

    It learns rough classes for which :class:`streamk.MatchingPursuitClassifier` has too few features, and
    from fewer events than :class:`streamk.KaczmarzClassifier` with as many features. An event costs ``4 k F``
    operations, and ``2 k F`` more for each output that changes.

    Parameters
    ----------
    kernel, bandwidth, scales, scale_inputs, directions, seed
        As for :class:`streamk.KaczmarzClassifier`.
    features
        Number of random features ``F``; the model is ``4 F`` bytes per class, and the subspace ``8 k F`` more
        until :meth:`closed`.
    rank
        Dimension ``k`` of the subspace, a multiple of 16 and less than ``features``.
    loss
        ``"squared"`` (one output per class, targets 0 and 1) or ``"margin"`` (a step only when the true class
        does not lead by 1).
    ridge
        What a new direction of the subspace is held by, in units of one event. Above 0.
    regularization
        ``ρ``: steps outside the subspace are divided by ``1 + ρ√n`` after ``n`` events.

    Attributes
    ----------
    labels : list
        Classes known so far.
    events : int
        Events learned so far.

    References
    ----------
    [^1]: Abedsoltan, A., Belkin, M. and Pandit, P., 2023. Toward large kernel models. ICML.
    [^2]: Andrecut, M., 2016. Randomized kernel methods for least-squares support vector machines.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> import streamk
    >>> learner = streamk.SubspacePursuitClassifier(features=1024, seed=7)
    >>> evaluate.progressive_val_score(datasets.Bananas(), learner, metrics.Accuracy())
    Accuracy: 89.56%
    """

    @classmethod
    def _unit_test_params(cls) -> Iterator[Json]:
        yield {"features": 128, "rank": 16, "seed": 7}


@dataclass(eq=False, repr=False)
class SubspacePursuitRegressor(_SubspacePursuit, Regressor):
    """Kernel regressor of second order in the leading directions of many features.

    The target is standardised by the events before, clipped to ±6 deviations, and predictions are
    in its units.

    Parameters
    ----------
    kernel, bandwidth, scales, scale_inputs, directions, seed, scale_target
        As for :class:`streamk.KaczmarzRegressor`.
    features, rank, ridge, regularization
        As for :class:`SubspacePursuitClassifier`.
    loss
        ``"squared"``, ``"huber"`` (residuals clipped to ±1.345 deviations) or
        ``"epsilon_insensitive"`` (residuals within ±0.1 deviations are let be).

    Attributes
    ----------
    events : int
        Events learned so far.

    References
    ----------
    [^1]: Abedsoltan, A., Belkin, M. and Pandit, P., 2023. Toward large kernel models. ICML.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> import streamk
    >>> learner = streamk.SubspacePursuitRegressor(features=1024, seed=7)
    >>> stream = datasets.synth.Friedman(seed=1).take(1000)
    >>> evaluate.progressive_val_score(stream, learner, metrics.R2())
    R2: 0.736828
    """

    scale_target: bool = True

    @classmethod
    def _unit_test_params(cls) -> Iterator[Json]:
        yield {"features": 128, "rank": 16, "seed": 7}
