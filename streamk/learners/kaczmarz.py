"""Kaczmarz learners: projections onto the equation of each event, or of each block of events.

The model is ``f(x) = φ(x)ᵀA`` over random features with ``φᵀφ/F ≈ k(x, x) = 1``. An event ``(x, y)`` is the
equation ``φᵀA = y``; the regularised projection onto it is the smallest change of ``A`` that explains its
residual::

    A ← A + φ r/(φᵀφ + ρ_t F/w)            r = y − φᵀA,   ρ_t = ρ (1 + min(n, memory)/256)

Kaczmarz (1937) projects in turn onto the rows of a linear system; Andrecut (2016, §3.2) onto random
blocks of rows of a kernel system. Here the rows are the events of a stream. The growing ``ρ_t`` anneals the
step, so that one pass ends near the ridge solution; a constant ``ρ`` adapts to a stream that changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from streamk.arrays import Json
from streamk.experts.projection import Projection
from streamk.learners.classifier import Classifier
from streamk.learners.regressor import Regressor
from streamk.learners.streaming import StreamingLearner
from streamk.schedules import Growth


@dataclass(eq=False, repr=False)
class _Kaczmarz(StreamingLearner):
    """The parameters of the Kaczmarz learners: one projection over all features."""

    kernel: str | tuple[str, ...] = "gaussian"
    bandwidth: float | None = None
    scales: tuple[float, ...] = (4.0, 2.0, 1.0, 0.5)
    features: int = 512
    growth: str = "fixed"
    period: int = 1000
    max_features: int = 16384
    loss: str = "squared"
    regularization: float = 0.3
    memory: int | None = None
    average: bool = False
    block_size: int = 1
    scale_inputs: bool = True
    directions: str = "keyed"
    seed: int | None = None
    family = "kaczmarz"
    _losses: ClassVar[dict[bool, tuple[str, ...]]] = {
        True: ("squared", "margin"),
        False: ("squared", "huber", "epsilon_insensitive"),
    }

    def __post_init__(self) -> None:
        expert = Projection(self._check(), self.average, self.regularization, self.memory)
        growth = Growth(self.growth, self.period, self.features, self.max_features)
        self._begin([expert], growth, self.block_size, memory=self.memory)


@dataclass(eq=False, repr=False)
class KaczmarzClassifier(_Kaczmarz, Classifier):
    """Kernel classifier that learns one event at a time by projections.

    Parameters
    ----------
    kernel
        ``"gaussian"``, ``"laplace"``, ``"laplacian"`` (of the 1-norm), ``"matern[:ν]"``,
        ``"rational-quadratic[:a]"``, ``"exponential-power[:p]"``, ``"arc-cosine[:n]"`` or
        ``"polynomial[:p[:c]]"`` (:mod:`streamk.kernels`). Several, such as ``("laplacian", "gaussian")``,
        take 64 features in turn.
    bandwidth
        Kernel bandwidth ``ℓ`` in units of the scaled inputs. By default ``√d`` (``d`` for ``"laplacian"``),
        ``d`` being the number of fields present in each event.
    scales
        Multipliers of the bandwidth; every 32 features of a kernel take the next of them.
    features
        Number of random features ``F``, of each block if they grow; the model is ``4 F`` bytes per class.
    growth
        ``"fixed"``, or ``"sqrt"`` or ``"linear"``: after ``n`` events there are ``⌊√(1 + n/period)⌋`` or
        ``⌊1 + n/period⌋`` blocks of ``features`` features, a multiple of 64. New coefficients start at 0.
    period
        Events in the unit of growth.
    max_features
        Bound of all features.
    loss
        ``"squared"`` (one output per class, targets 0 and 1) or ``"margin"`` (passive-aggressive: a step
        only when the true class does not lead by 1).
    regularization
        ``ρ``, in units of ``φᵀφ/F = 1``: the larger, the smaller the steps.
    memory
        Events after which ``ρ_t`` stops growing. None never stops, for data in random order; 0 makes the gain
        constant, for streams that change or whose successive events are alike. Scales of inputs and target
        follow the stream unless it is None.
    average
        Predict with a running average of the coefficients (polynomial decay, η = 3). Twice the size.
    block_size
        Events projected onto together. 1 learns at once; larger blocks suit shuffled data, and wait
        until they are full (see :meth:`flush`).
    scale_inputs
        Standardise numbers by the events before (:mod:`streamk.encoding.scaling`). Switch off behind a river
        scaler; with a kernel of cosines, numbers beyond 10⁵ times the smallest bandwidth are then refused.
    directions
        ``"keyed"``: random directions depend on the names of fields, and not on their order.
        ``"structured"``: those of numbers depend on positions and are computed by fast transforms, many times
        faster from about ten numbers on. ``"dense"``: they are independent and depend on positions.
        ``"auto"`` chooses keyed or structured by the first event learned. Categories are always keyed.
    seed
        The only source of randomness. None draws a new one at the first event.

    Attributes
    ----------
    labels : list
        Classes known so far.
    events : int
        Events learned so far.
    pending : int
        Events waiting for their block to fill.

    Notes
    -----
    Probabilities are calibrated on the fly: see :mod:`streamk.combining.calibration`.
    A learner is not for use by several threads at once.

    References
    ----------
    [^1]: Andrecut, M., 2016. Randomized kernel methods for least-squares support vector machines.
    [^2]: Crammer, K. et al., 2006. Online passive-aggressive algorithms. JMLR 7.
    [^3]: Shamir, O. and Zhang, T., 2013. Stochastic gradient descent for non-smooth optimization. ICML.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> import streamk
    >>> learner = streamk.KaczmarzClassifier(average=True, regularization=0.1, seed=7)
    >>> evaluate.progressive_val_score(datasets.Bananas(), learner, metrics.Accuracy())
    Accuracy: 88.83%
    """

    @classmethod
    def _unit_test_params(cls) -> Iterator[Json]:
        yield {"features": 128, "seed": 7}
        yield {"features": 128, "loss": "margin", "memory": 0, "average": True, "seed": 7}


@dataclass(eq=False, repr=False)
class KaczmarzRegressor(_Kaczmarz, Regressor):
    """Kernel regressor that learns one event at a time by projections.

    The target is standardised by the events before, clipped to ±6 deviations, and predictions are
    in its units, so no target can make the learner diverge; one without precedent is not learned.

    Parameters
    ----------
    kernel, bandwidth, scales, features, growth, period, max_features, average, block_size, scale_inputs,
    directions, seed
        As for :class:`KaczmarzClassifier`.
    loss
        ``"squared"``, ``"huber"`` (residuals clipped to ±1.345 deviations) or
        ``"epsilon_insensitive"`` (residuals within ±0.1 deviations are let be).
    regularization
        ``ρ``, in units of ``φᵀφ/F = 1``: the larger, the smaller the steps.
    memory
        Events after which ``ρ_t`` stops growing. None never stops; 0 keeps the gain constant. Scales of
        inputs and target follow the stream unless it is None.
    scale_target
        Standardise the target. If not, losses are in its units, and it should be of size 1.

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
    >>> learner = streamk.KaczmarzRegressor(seed=7)
    >>> evaluate.progressive_val_score(datasets.TrumpApproval(), learner, metrics.MAE())
    MAE: 0.292367
    """

    scale_target: bool = True

    @classmethod
    def _unit_test_params(cls) -> Iterator[Json]:
        yield {"features": 128, "seed": 7}
        yield {"features": 128, "loss": "huber", "memory": 0, "average": True, "seed": 7}
