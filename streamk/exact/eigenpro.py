"""Kernel machines over a fixed number of centers, by EigenPro 3 (Abedsoltan, Belkin and Pandit 2023)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from streamk.exact.centers import CHOICES
from streamk.exact.eigenpro_learner import EigenProLearner
from streamk.exact.eigenpro_solver import PROJECTIONS
from streamk.learners.classifier import Classifier
from streamk.learners.regressor import Regressor
from streamk.parameters import check_exact


@dataclass(eq=False, repr=False)
class _EigenPro(EigenProLearner):
    kernel: str = "laplace"
    bandwidth: float | None = None
    centers: int = 1000
    choose: str = "random"
    projection: str = "exact"
    epochs: int = 5
    subsample: int | None = None
    rank: int | None = None
    batch: int | None = None
    scale_inputs: bool = True
    seed: int | None = None

    def __post_init__(self) -> None:
        self._make_plain()
        check_exact(self._get_params(), choose=CHOICES, projection=PROJECTIONS)
        self._begin()

    @classmethod
    def _unit_test_params(cls) -> Any:
        yield {"centers": 30, "seed": 7}


@dataclass(eq=False, repr=False)
class EigenProClassifier(_EigenPro, Classifier):
    """Kernel machine over a fixed number of centers, whose size is apart from that of the data.

    Minimises ``Σ_i w_i (f(x_i) − y_i)²`` over ``f(x) = Σ_k k(x, z_k) α_k``, one output a class, ``y`` being 1
    for it and 0 for others, by preconditioned gradients projected onto the span of the centers
    (:mod:`streamk.exact.eigenpro_steps`). Batch and step follow from the spectrum of the kernel matrix; there
    is no rate to choose. Answers are ``f(x)`` projected onto probabilities.

    :meth:`fit` passes over a data set in random orders and keeps the mean of the coefficients after the last
    quarter of the steps. On a stream, the first ``3 · centers`` events are gathered; the centers are made of
    them, with the scales of that moment, and then every full batch is one step. Fields that first appear
    after that are left out; labels are not. Time of an event is ``O(centers · (d + K))``, memory
    ``O(centers · d)``, and ``O(centers²)`` for an exact projection.

    Parameters
    ----------
    kernel, bandwidth
        As a text (:func:`streamk.kernels.kernel`); the bandwidth, in units of the scaled inputs, is the
        median distance if None.
    centers
        ``p``, fewer if there are fewer different events.
    choose
        ``"random"`` rows, or ``"k-means"``, the means of clusters, which are better where centers are few.
    projection
        How ``K(Z, Z) θ = h`` is solved after every batch: ``"exact"``, by a Cholesky factor;
        ``"inexact"``, by two sweeps of EigenPro 2, without a factor, for very many centers; ``"delayed"``,
        the same once for four batches, whose rows are centers until then (EigenPro 4).
    epochs
        Passes of :meth:`fit`. A stream is passed once.
    subsample
        ``s``, centers that the preconditioner is made of; None for all, at most 2,000.
    rank
        ``q``, directions that it flattens; None for as many as the batch needs.
    batch
        Events of a step; None for half the number of centers, from 128 to 2,048, but no more than what the
        preconditioner makes worth its events.
    scale_inputs
        Whether numbers are standardised.
    seed
        The only source of randomness. None draws a new one at the first event.

    Notes
    -----
    A weight multiplies an event's gradient; the weights of a batch with one above 1 are divided by the
    largest, so steps stay within their bounds.

    References
    ----------
    [^1]: Abedsoltan, A., Belkin, M., Pandit, P., 2023. Toward large kernel models. ICML. Algorithm 2.
    [^2]: Ma, S., Belkin, M., 2019. Kernel machines that adapt to GPUs for effective large batch training.
    [^3]: Abedsoltan, A., Ma, S., Pandit, P., Belkin, M., 2024. Fast training of large kernel models with
          delayed projections.

    Examples
    --------
    >>> import numpy as np
    >>> import streamk
    >>> rng = np.random.default_rng(1)
    >>> X = rng.normal(size=(2000, 2))
    >>> inside = (X**2).sum(axis=1) < 1.0
    >>> learner = streamk.EigenProClassifier(centers=100, seed=7)
    >>> learner = learner.fit(X[:1500], inside[:1500], names=["a", "b"])
    >>> predicted = learner.predict_many(X[1500:], names=["a", "b"])
    >>> bool(np.mean(predicted == inside[1500:]) > 0.95)
    True
    """


@dataclass(eq=False, repr=False)
class EigenProRegressor(_EigenPro, Regressor):
    """Kernel machine over a fixed number of centers, for numbers.

    As :class:`EigenProClassifier`, with one output. ``f(x) = c + Σ_k k(x, z_k) α_k``, where ``c`` is the mean
    target when the centers are made; targets more than six deviations of that moment off are taken as six.

    Parameters
    ----------
    kernel, bandwidth, centers, choose, projection, epochs, subsample, rank, batch, scale_inputs, seed
        As of :class:`EigenProClassifier`.

    References
    ----------
    [^1]: Abedsoltan, A., Belkin, M., Pandit, P., 2023. Toward large kernel models. ICML. Algorithm 2.

    Examples
    --------
    >>> import numpy as np
    >>> import streamk
    >>> rng = np.random.default_rng(1)
    >>> X = rng.uniform(-3.0, 3.0, size=(2000, 1))
    >>> learner = streamk.EigenProRegressor(centers=50, kernel="gaussian", bandwidth=0.5, seed=7)
    >>> learner = learner.fit(X, np.sin(X[:, 0]), names=["x"])
    >>> round(learner.predict_one({"x": 1.0}), 2)
    0.84
    """
