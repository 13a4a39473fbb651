"""Doubly stochastic functional gradients: random events and random features (Dai et al. 2014).

Every step learns a batch of events with a fresh block of features, and visits old ones
(:mod:`streamk.experts.gradient`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from streamk.arrays import Json
from streamk.experts.gradient import Gradient
from streamk.learners.classifier import Classifier
from streamk.learners.regressor import Regressor
from streamk.learners.streaming import StreamingLearner
from streamk.schedules import Growth


@dataclass(eq=False, repr=False)
class _DoublyStochastic(StreamingLearner):
    """The parameters of doubly stochastic learners: one gradient."""

    kernel: str | tuple[str, ...] = "gaussian"
    bandwidth: float | None = None
    scales: tuple[float, ...] = (4.0, 2.0, 1.0, 0.5)
    features: int = 64
    growth: str = "linear"
    max_features: int = 4096
    loss: str = "logistic"
    precondition: bool = True
    regularization: float = 0.03
    step: float | None = None
    revisits: int = 3
    batch_size: int = 256
    average: bool = False
    scale_inputs: bool = True
    directions: str = "keyed"
    seed: int | None = None
    quantile = 0.5  # a parameter of the regressor
    family = "doubly-stochastic"
    _losses: ClassVar[dict[bool, tuple[str, ...]]] = {
        True: ("logistic", "squared", "hinge", "smoothed_hinge"),
        False: ("squared", "huber", "epsilon_insensitive", "quantile"),
    }

    def __post_init__(self) -> None:
        loss = self._check()
        if self.precondition and self.batch_size < 2 * self.features:
            raise ValueError(
                f"batch_size={self.batch_size!r}: batch_size must be at least twice "
                f"features={self.features!r}; the solution of a block does not generalise from fewer events "
                "(or use precondition=False)"
            )
        if not 1e-12 <= self.regularization <= 1e12:
            raise ValueError(
                f"regularization={self.regularization!r}: regularization must be from 1e-12 to 1e12 here"
            )
        expert = Gradient(
            loss, self.average, self.features, self.precondition, self.regularization, self.step,
            self.revisits, self.quantile,
        )  # fmt: skip
        growth = Growth(self.growth, self.batch_size, self.features, self.max_features)
        self._begin([expert], growth, self.batch_size, gathers=True)


@dataclass(eq=False, repr=False)
class DoublyStochasticClassifier(_DoublyStochastic, Classifier):
    """Kernel classifier that learns by doubly stochastic functional gradients.

    Parameters
    ----------
    kernel, bandwidth, scales, scale_inputs, directions, seed
        As for :class:`streamk.KaczmarzClassifier`.
    features
        Features of a block, ``F_b``: what a step moves.
    growth
        ``"linear"``: every step has a new block (as in the paper). ``"sqrt"``: step ``t`` has one if
        ``⌊√t⌋`` grows. ``"fixed"``: there is one block.
    max_features
        Bound of all features.
    loss
        ``"logistic"`` (softmax for several classes), ``"squared"``, ``"hinge"`` or ``"smoothed_hinge"``.
    precondition
        True fits a block to the gradients of each batch, False takes gradient steps. Algorithm 1 of the paper
        is ``precondition=False, revisits=0, growth="linear"`` while there are fewer than ``max_features``.
    regularization
        ``ν``, above 0. With ``precondition`` it damps the solution: ``νF_b`` is added to the diagonal of
        ``ΦᵀΦ/m``, which is 1. Without, it is the weight of ``½‖f‖²`` relative to the mean loss.
    step
        ``θ`` of Algorithm 1; ``1/ν`` by default, so ``θν = 1``. Does nothing if ``precondition``.
    revisits
        Old blocks visited at every step in addition to the new one, in turn, oldest first; a step without a
        new block visits one more. Each visit adds work to a batch; its features are computed in any case.
    batch_size
        Events of a step. Events wait until a batch is full, whether they come one by one or in tables;
        predictions never wait (:meth:`flush` takes a shorter step at once). With ``precondition`` at least
        ``2 features``.
    average
        Predict with a running average of the coefficients (polynomial decay, η = 3). Twice the size.

    Attributes
    ----------
    labels : list
        Classes known so far.
    events : int
        Events learned so far.
    pending : int
        Events waiting for their batch to fill.

    References
    ----------
    [^1]: Dai, B. et al., 2014. Scalable kernel methods via doubly stochastic gradients. NIPS.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> import streamk
    >>> learner = streamk.DoublyStochasticClassifier(features=64, batch_size=128, seed=7)
    >>> evaluate.progressive_val_score(datasets.Bananas(), learner, metrics.Accuracy())
    Accuracy: 87.07%
    """

    @classmethod
    def _unit_test_params(cls) -> Iterator[Json]:
        yield {"features": 64, "batch_size": 128, "seed": 7}
        yield {"features": 64, "batch_size": 16, "precondition": False, "loss": "hinge", "seed": 7}


@dataclass(eq=False, repr=False)
class DoublyStochasticRegressor(_DoublyStochastic, Regressor):
    """Kernel regressor that learns by doubly stochastic functional gradients.

    The target is standardised by the events before, clipped to ±6 deviations, and predictions are
    in its units.

    Parameters
    ----------
    kernel, bandwidth, scales, scale_inputs, directions, seed
        As for :class:`streamk.KaczmarzClassifier`.
    features, growth, max_features, precondition, regularization, step, revisits, batch_size, average
        As for :class:`DoublyStochasticClassifier`.
    loss
        ``"squared"``, ``"huber"``, ``"epsilon_insensitive"`` (within ±0.1 deviations nothing counts) or
        ``"quantile"``.
    quantile
        What the loss of that name estimates, between 0 and 1: 0.5 is the median.
    scale_target
        As for :class:`streamk.KaczmarzRegressor`.

    Attributes
    ----------
    events : int
        Events learned so far.
    pending : int
        Events waiting for their batch to fill.

    References
    ----------
    [^1]: Dai, B. et al., 2014. Scalable kernel methods via doubly stochastic gradients. NIPS.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> import streamk
    >>> learner = streamk.DoublyStochasticRegressor(seed=7)
    >>> stream = datasets.synth.Friedman(seed=1).take(5000)
    >>> evaluate.progressive_val_score(stream, learner, metrics.R2())
    R2: 0.265646
    """

    loss: str = "squared"
    quantile: float = 0.5
    scale_target: bool = True

    @classmethod
    def _unit_test_params(cls) -> Iterator[Json]:
        yield {"features": 64, "batch_size": 128, "seed": 7}
        yield {"features": 64, "batch_size": 16, "precondition": False, "loss": "quantile", "seed": 7}
