"""Matching pursuit over blocks of features, alone or with Kaczmarz projections.

One block of features is *open*. It is fitted to what the other blocks leave of the targets, by least squares
over all events since it was opened (:mod:`streamk.learners.recursion`; by blocks of events,
:mod:`streamk.learners.block_pursuit`), and when the schedule of growth opens the next one, it is frozen to
its coefficients: a greedy expansion by whole blocks (matching pursuit; Andrecut 2016, §3.3). At
``max_features`` the oldest block is opened again, from where it stands (backfitting).

With Kaczmarz projections (Kaczmarz-MP in that paper) the other blocks go on moving: each event is first
pursued by the open block, and what is left is projected onto all others.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from streamk.expansion import LARGEST_COEFFICIENT, Expansion
from streamk.learners.base import KernelLearner
from streamk.learners.block_pursuit import Accumulated, accumulating, is_positive, pursue_block
from streamk.learners.blocks import Gathered
from streamk.learners.classifier import KernelClassifier
from streamk.learners.pending import typed
from streamk.learners.recursion import Active, covariance, factor_size, opened, with_covariance
from streamk.learners.regressor import KernelRegressor
from streamk.rows import Rows


class _Pursuit(KernelLearner):
    """The open block of a learner, and its part of the model file."""

    ridge: float
    _projects: ClassVar[bool]
    _losses: ClassVar[dict[str, tuple[str, ...]]] = {
        "class": ("squared",),
        "number": ("squared", "huber", "epsilon_insensitive"),
    }
    _active: Active | Accumulated | None = None

    def _ready(self, rows: Rows, outputs: int) -> Expansion:
        expansion = super()._ready(rows, outputs)
        if self._active is not None and len(self._active.weights) < expansion.outputs:
            more = expansion.outputs - len(self._active.weights)
            weights = np.pad(self._active.weights, ((0, more), (0, 0)))
            self._active = self._active._replace(weights=weights)
        return expansion

    def _opened(self) -> None:
        e, size = self._expansion, self.features
        assert e is not None
        first = self._open_column
        weights = e.coefficients[0, 0, :, first : first + size].astype(np.float64)
        begin = opened if self.block_size == 1 else accumulating
        self._active = begin(first, self._projects, self.ridge * e.features, weights)

    @property
    def _open_column(self) -> int:
        return (self._openings - 1) % self._most_blocks * self.features

    def _fit(self, e: Expansion, block: Gathered) -> None:
        assert isinstance(self._active, Accumulated)
        pursue_block(e, block, self._active)

    def _merge_open_blocks(self, models: Sequence[Any]) -> None:
        """Add up what the blocks that were opened last have seen; coefficients are averaged already."""
        e = self._expansion
        blocks = [model._active for model in models if model._openings == self._openings and model._active]
        if e is None or not blocks:
            return
        self._opened()
        self._count_openings(self._openings)  # it is open, not closed
        assert self._active is not None
        first, projects, weights = self._active.first, self._projects, self._active.weights
        known = (len(blocks) - 1) * self.ridge * e.features * np.eye(self.features)
        if self.block_size > 1:
            gram = sum(block.gram for block in blocks) - known
            self._active = Accumulated(first, projects, gram, weights)
        else:
            with contextlib.suppress(np.linalg.LinAlgError):  # too near singular: it begins anew
                information = sum(np.linalg.inv(covariance(block)) for block in blocks) - known
                inverse = np.linalg.inv(information)
                self._active = with_covariance(first, projects, (inverse + inverse.T) / 2.0, weights)

    def closed(self) -> Self:
        """Return a learner that predicts the same, without the matrix of its open block.

        It is as small as its coefficients. If it learns on, it opens the block again, from where it stands.
        """
        return self._copied(*self._to_parts())

    def _to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        header, arrays = super()._to_parts()
        if self._active is not None:
            kept = self._active._asdict()
            arrays |= {f"active.{name}": kept[name] for name in _ARRAYS if name in kept}
        return header, arrays

    @classmethod
    def _from_parts(cls, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        self = super()._from_parts(header, arrays)
        if self._expansion is None or not any(name.startswith("active.") for name in arrays):
            self._next_opening = 0.0  # a closed block is opened again by the next event
            return self
        size, outputs = self.features, self._expansion.outputs
        weights = typed(arrays, "active.weights", np.float64, (outputs, size))
        place = self._open_column, self._projects
        if self.block_size > 1:
            gram = typed(arrays, "active.gram", np.float64, (size, size))
            _require(is_positive(gram))
            self._active = Accumulated(*place, gram, weights)
        else:
            diagonal = typed(arrays, "active.diagonal", np.float64, (size,))
            factor = typed(arrays, "active.factor", np.float64, (factor_size(size),))
            _require((diagonal >= 0.0).all() and (diagonal <= _MOST).all() and (abs(factor) <= _MOST).all())
            self._active = Active(*place, diagonal, factor, weights)
        _require((abs(weights) <= LARGEST_COEFFICIENT).all())
        return self


def _require(possible: bool | np.bool_) -> None:
    if not possible:
        raise ValueError("its open block is impossible")


_ARRAYS = ("diagonal", "factor", "gram", "weights")
_MOST = 1e100  # of the numbers in a factor


class _MatchingPursuit(_Pursuit):
    """The parameters of matching pursuit."""

    _projects = False
    regularization = 0.0

    def __init__(
        self,
        kernel: str = "gaussian",
        bandwidth: float | None = None,
        scales: tuple[float, ...] = (4.0, 2.0, 1.0, 0.5),
        features: int = 256,
        growth: str = "linear",
        period: int = 2000,
        max_features: int = 2048,
        loss: str = "squared",
        ridge: float = 1.0,
        average: bool = False,
        block_size: int = 1,
        scale_inputs: bool = True,
        directions: str = "keyed",
        seed: int | None = None,
    ) -> None:
        self._initialise(locals())


class _KaczmarzPursuit(_Pursuit):
    """The parameters of Kaczmarz pursuit."""

    _projects = True

    def __init__(
        self,
        kernel: str = "gaussian",
        bandwidth: float | None = None,
        scales: tuple[float, ...] = (4.0, 2.0, 1.0, 0.5),
        features: int = 256,
        growth: str = "linear",
        period: int = 2000,
        max_features: int = 2048,
        loss: str = "squared",
        ridge: float = 1.0,
        regularization: float = 0.3,
        memory: int | None = None,
        average: bool = False,
        block_size: int = 1,
        scale_inputs: bool = True,
        directions: str = "keyed",
        seed: int | None = None,
    ) -> None:
        self._initialise(locals())


class MatchingPursuitClassifier(_MatchingPursuit, KernelClassifier):
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
        Events in the unit of growth. A block wants to see several times more events than it has features.
    max_features
        Bound of all features; once there, the oldest block is opened again, and again.
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
    Accuracy: 88.55%
    """

    @classmethod
    def _unit_test_params(cls) -> Any:
        yield {"features": 64, "seed": 7}


class MatchingPursuitRegressor(_MatchingPursuit, KernelRegressor):
    """Kernel regressor that fits one block of features at a time, by recursive least squares.

    The target is standardised by the events before, clipped to ±6 deviations, and predictions are given
    back in its own units.

    Parameters
    ----------
    kernel, bandwidth, scales, average, scale_inputs, directions, seed
        As for :class:`streamk.KaczmarzClassifier`.
    features, growth, period, max_features, ridge, block_size
        As for :class:`MatchingPursuitClassifier`.
    loss
        ``"squared"``, ``"huber"`` (residuals clipped to ±1.345 deviations) or
        ``"epsilon_insensitive"`` (residuals within ±0.1 deviations are let be).

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
    R2: 0.597103
    """

    @classmethod
    def _unit_test_params(cls) -> Any:
        yield {"features": 64, "seed": 7}


class KaczmarzPursuitClassifier(_KaczmarzPursuit, KernelClassifier):
    """Kernel classifier that pursues with one block of features and projects with all others.

    The second-order steps of :class:`MatchingPursuitClassifier` on the open block, and on what they leave
    of each event, the steps of :class:`KaczmarzClassifier` on every other.

    Parameters
    ----------
    kernel, bandwidth, scales, average, scale_inputs, directions, seed
        As for :class:`streamk.KaczmarzClassifier`.
    features, growth, period, max_features, loss, ridge, block_size
        As for :class:`MatchingPursuitClassifier`.
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
    Accuracy: 88.30%
    """

    @classmethod
    def _unit_test_params(cls) -> Any:
        yield {"features": 64, "seed": 7}


class KaczmarzPursuitRegressor(_KaczmarzPursuit, KernelRegressor):
    """Kernel regressor that pursues with one block of features and projects with all others.

    Parameters
    ----------
    kernel, bandwidth, scales, average, scale_inputs, directions, seed
        As for :class:`streamk.KaczmarzClassifier`.
    features, growth, period, max_features, ridge, block_size
        As for :class:`MatchingPursuitClassifier`.
    loss
        As for :class:`MatchingPursuitRegressor`.
    regularization, memory
        ``ρ`` of the projections and when it stops growing, as for :class:`streamk.KaczmarzClassifier`.

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
    R2: 0.575596
    """

    @classmethod
    def _unit_test_params(cls) -> Any:
        yield {"features": 64, "seed": 7}
