"""Doubly stochastic functional gradients: random events and random features, a block of each at every step.

The function is improved along the gradient of ``E ℓ(f(x), y) + ν/2 ‖f‖²`` in the space of the kernel,
estimated from a mini-batch of events and from a fresh block of ``F_b`` random features (Dai et al. 2014,
Algorithm 1): at step ``t = 1, 2, …``, with the features ``φ`` of block ``t`` and ``γ_t = θ/t``,

    α_t = −γ_t mean_i ℓ'(f(x_i), y_i) φ(x_i)/F_b        α_j ← (1 − γ_t ν) α_j  for all earlier j

which is the paper's with its one feature a step if ``F_b = 1``. It converges like ``1/t`` if ``θν`` is
between 1 and 2 or a whole number (Theorem 4). With ``precondition=True`` a block is fitted to the gradients
of the batch instead, as in the code that the paper's authors published,

    α_t = η_t (κ ΦᵀΦ/m + ν F_b I)⁻¹ Φᵀ G/m     G_i = −ℓ'(f(x_i), y_i),  η_t = 1/(1 + 10⁻⁴ t)

``κ`` being the curvature of the loss (:mod:`streamk.losses`), and nothing decays. Both are multiplied by the
weights of the events. ``ℓ'`` is clipped to ±12, so that it is bounded as the theorem assumes. When there is
no room for a new block, steps revisit the old ones in turn (block coordinate descent).

The decay is a product over all coefficients, not a scalar that is kept aside as the paper suggests: it costs
``F K`` multiplications where the features of the batch cost ``m F`` cosines, and keeps coefficients what they
say they are.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from streamk.expansion import LARGEST_COEFFICIENT, Expansion
from streamk.features.products import add_gram, one_blas_thread
from streamk.learners.base import KernelLearner
from streamk.learners.blocks import Gathered, average, look
from streamk.learners.classifier import KernelClassifier
from streamk.learners.events import LOSS, STEPS
from streamk.learners.regressor import KernelRegressor
from streamk.losses import CURVATURE, descents

Array = NDArray[np.float64]
Floats = NDArray[np.float32]
_JITTER = 1e-6  # of the trace: the rounding of float32
_SLOWING = 1e-4
_LARGEST = np.float32(LARGEST_COEFFICIENT)
_LARGE = 1e6  # of a feature whose square, times the heaviest weight, is far from what float32 holds
_MOST = np.float32(1e38)
_STEEPEST = 12.0  # twice what a standardised target is clipped to


class _DoublyStochastic(KernelLearner):
    """The parameters of doubly stochastic learners, and their step."""

    quantile = 0.5
    _fresh = False
    _losses: ClassVar[dict[str, tuple[str, ...]]] = {
        "class": ("logistic", "squared", "hinge", "smoothed_hinge"),
        "number": ("squared", "huber", "epsilon_insensitive", "quantile"),
    }
    precondition: bool
    step: float | None
    revisits: int
    batch_size: int

    def _initialise(self, parameters: dict[str, Any]) -> None:
        super()._initialise(parameters)
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

    @property
    def _together(self) -> int:
        return self.batch_size

    @property
    def _gathers(self) -> bool:
        return True

    @property
    def _growth_period(self) -> int:
        return self.batch_size

    def _opened(self) -> None:
        self._fresh = self._openings <= self._most_blocks

    def _visited(self, step: int) -> list[slice]:
        """Return the columns of the blocks of step ``1, 2, …``: a new one if there is one, others in turn."""
        count = self._blocks
        turn = [((step - 1) * (1 + self.revisits) + k) % count for k in range(min(1 + self.revisits, count))]
        if self._fresh:
            turn = [count - 1, *(b for b in turn[1:] if b != count - 1)]
        self._fresh = False
        return [slice(b * self.features, (b + 1) * self.features) for b in turn]

    def _fit(self, e: Expansion, block: Gathered) -> None:
        step = int(block.state[STEPS]) + 1
        columns = self._visited(step)
        outputs, kept = look(e, block, columns)
        aims = block.aims(0, outputs[0, -1])
        if self.precondition:
            self._solve(e, block, step, columns, kept, outputs[0, 0], aims)
        else:
            self._descend(e, block, step, columns, kept, outputs[0, 0], aims)
        average(e, block.state[STEPS])

    def _gradients(self, block: Gathered, outputs: Floats, aims: Array) -> Floats:
        """Return ``w_i G_i/m``, ``(m, K)``; outputs not yet known have none."""
        out = np.zeros(outputs.shape)
        _descents(int(block.rules[0, LOSS]), outputs, aims, self.quantile, block.outputs, out)
        weights = block.weights[:, None] / len(aims)
        return (np.clip(out, -_STEEPEST, _STEEPEST) * weights).astype(np.float32)

    def _descend(
        self, e: Expansion, block: Gathered, step: int, columns: list[slice], kept: list[Floats],
        outputs: Floats, aims: Array,
    ) -> None:  # fmt: skip
        """Take a step of Algorithm 1."""
        length = 1.0 if self.step is None else self.step * self.regularization
        # before step θν/2 the paper's factor is below −1, and what it multiplies is wiped out at step θν
        decay = np.float32(max(1.0 - length / step, -1.0))
        rate = (1.0 / self.regularization if self.step is None else self.step) / step
        gradients = self._gradients(block, outputs, aims)
        coefficients = e.coefficients[0, 0]
        coefficients *= decay
        gain = np.float32(rate / (self.features * len(columns)))
        with one_blas_thread():
            for at, phi in zip(columns, kept, strict=True):
                moved = coefficients[:, at] + gain * (gradients.T @ _with_room(phi))
                coefficients[:, at] = np.clip(moved, -_LARGEST, _LARGEST)

    def _solve(
        self, e: Expansion, block: Gathered, step: int, columns: list[slice], kept: list[Floats],
        outputs: Floats, aims: Array,
    ) -> None:  # fmt: skip
        """Fit the blocks to the gradients, one after the other; a short batch fits half as many features."""
        ridge = self.regularization * self.features
        curvature, rate = CURVATURE.get(self.loss, 1.0), 1.0 / (1.0 + _SLOWING * step)
        size = min(self.features, max(1, len(aims) // 2))
        weights = (curvature / len(aims) * block.weights).astype(np.float32)[:, None]
        for at, whole in zip(columns, kept, strict=True):
            phi = _with_room(whole[:, :size])
            system = np.zeros((size, size))
            add_gram(system, phi * weights, phi)
            np.fill_diagonal(system, system.diagonal() + max(ridge, _JITTER * np.trace(system)))
            with one_blas_thread():
                slope = phi.T @ self._gradients(block, outputs, aims)
                solved = rate * cho_solve(cho_factor(system, lower=True), slope)
                change = np.clip(solved, -_LARGEST, _LARGEST).astype(np.float32)
                place = slice(at.start, at.start + size)
                moved = e.coefficients[0, 0, :, place] + change.T
                e.coefficients[0, 0, :, place] = np.clip(moved, -_LARGEST, _LARGEST)
                if len(columns) > 1:
                    outputs = np.clip(outputs + phi @ change, -_MOST, _MOST).astype(np.float32)


def _with_room(phi: Floats) -> NDArray[Any]:
    """Return features whose products with the heaviest weights stay finite: float64 where they must."""
    return phi.astype(np.float64) if abs(phi).max(initial=0.0) > _LARGE else phi


@njit(cache=True, error_model="numpy")
def _descents(loss, outputs, aims, quantile, known, out):  # type: ignore[no-untyped-def]
    for i in range(outputs.shape[0]):
        descents(loss, outputs[i, :known], aims[i], quantile, out[i, :known])


class DoublyStochasticClassifier(_DoublyStochastic, KernelClassifier):
    """Kernel classifier that learns by doubly stochastic functional gradients.

    Parameters
    ----------
    kernel, bandwidth, scales, scale_inputs, directions, seed
        As for :class:`streamk.KaczmarzClassifier`.
    features
        Features of a block, ``F_b``: what a step moves.
    growth
        ``"linear"``: every step has a new block (as in the paper). ``"sqrt"``: step ``t`` has one if
        ``⌊√t⌋`` grows. ``"fixed"``: there is one block. All other steps revisit blocks in turn.
    max_features
        Bound of all features.
    loss
        ``"logistic"`` (softmax for several classes), ``"squared"``, ``"hinge"`` or ``"smoothed_hinge"``.
    precondition
        True fits a block to the gradients of each batch, False takes the steps of Algorithm 1.
    regularization
        ``ν``: with ``precondition`` it damps the solution, ``νF_b`` beside ``ΦᵀΦ/m`` of diagonal 1;
        without, it is the weight of ``½‖f‖²`` beside the mean loss. Above 0.
    step
        ``θ`` of Algorithm 1; ``1/ν`` by default, so ``θν = 1``. Does nothing if ``precondition``.
    revisits
        Blocks revisited at every step beside the new one (or the one whose turn it is): more work for every
        batch, whose features are made in any case.
    batch_size
        Events of a step. They wait until there are so many, always as many, whether they come one by one
        or in tables; predictions never wait (:meth:`flush` takes a shorter step at once). With
        ``precondition`` at least ``2 features``.
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
    Accuracy: 87.34%
    """

    def __init__(
        self,
        kernel: str = "gaussian",
        bandwidth: float | None = None,
        scales: tuple[float, ...] = (4.0, 2.0, 1.0, 0.5),
        features: int = 64,
        growth: str = "linear",
        max_features: int = 4096,
        loss: str = "logistic",
        precondition: bool = True,
        regularization: float = 0.03,
        step: float | None = None,
        revisits: int = 3,
        batch_size: int = 256,
        average: bool = False,
        scale_inputs: bool = True,
        directions: str = "keyed",
        seed: int | None = None,
    ) -> None:
        self._initialise(locals())

    @classmethod
    def _unit_test_params(cls) -> Any:
        yield {"features": 64, "batch_size": 128, "seed": 7}
        yield {"features": 64, "batch_size": 16, "precondition": False, "loss": "hinge", "seed": 7}


class DoublyStochasticRegressor(_DoublyStochastic, KernelRegressor):
    """Kernel regressor that learns by doubly stochastic functional gradients.

    The target is standardised by the events before, clipped to ±6 deviations, and predictions are given
    back in its own units.

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
    R2: 0.270045
    """

    def __init__(
        self,
        kernel: str = "gaussian",
        bandwidth: float | None = None,
        scales: tuple[float, ...] = (4.0, 2.0, 1.0, 0.5),
        features: int = 64,
        growth: str = "linear",
        max_features: int = 4096,
        loss: str = "squared",
        quantile: float = 0.5,
        precondition: bool = True,
        regularization: float = 0.03,
        step: float | None = None,
        revisits: int = 3,
        batch_size: int = 256,
        average: bool = False,
        scale_inputs: bool = True,
        directions: str = "keyed",
        seed: int | None = None,
    ) -> None:
        self._initialise(locals())

    @classmethod
    def _unit_test_params(cls) -> Any:
        yield {"features": 64, "batch_size": 128, "seed": 7}
        yield {"features": 64, "batch_size": 16, "precondition": False, "loss": "quantile", "seed": 7}
