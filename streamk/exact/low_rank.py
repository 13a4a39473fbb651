"""Kernel machines whose kernel is learned as a conical combination of rank-one ones (Machart et al. 2011)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from streamk.arrays import Array, Floats, Json
from streamk.encoding.labels import Label
from streamk.exact.low_rank_solver import (
    MOVES,
    Bases,
    DescentState,
    KeptBases,
    MadeBases,
    Rules,
    WeightedColumns,
    descend,
    refreshed,
    start,
    until_settled,
)
from streamk.exact.reservoir import ReservoirLearner
from streamk.features.counter import permutation, uniform_doubles
from streamk.learners.classifier import Classifier
from streamk.learners.regressor import Regressor
from streamk.parameters import check_exact
from streamk.progress import progress_bar
from streamk.threads import on_threads, one_blas_thread

_COLUMNS = 0  # the random stream of the sample of columns; later ones choose the weights to change
_LEAST = 1e-5  # of what keeps all weights at 0: with less, the equations cannot be solved in numbers


@dataclass(eq=False, repr=False)
class _LowRankKernel(ReservoirLearner):
    """The base class of classifier and regressor: a descent for each output, over the same columns."""

    kernel: str = "gaussian"
    bandwidth: float | None = None
    columns: int | None = 1000
    ridge: float = 1.0
    penalty: float = 1e-3
    tolerance: float = 1e-4
    steps: int | None = None
    move: str = "exact"
    keep_columns: bool = True
    rows: int = 10_000
    scale_inputs: bool = True
    seed: int | None = None
    family = "low-rank"

    def __post_init__(self) -> None:
        self._make_plain()
        check_exact(self._get_params(), move=tuple(MOVES))
        self._begin()

    def _solve(
        self, X: Floats, targets: Array, weights: Array, bandwidth: float, progress: bool | None
    ) -> tuple[Array, Array]:
        count = len(X) if self.columns is None else min(self.columns, len(X))
        chosen = np.sort(permutation(self._drawn_seed, _COLUMNS, len(X))[:count])
        heaviest = float(weights.max())
        weights = weights / heaviest
        columns = WeightedColumns(self._kernel, bandwidth, X, chosen, weights)
        bias = np.asarray(weights @ targets / weights.sum())
        goal = columns.weighted(targets - bias)
        # two classes have one target but for its sign, so one descent does for both
        mirrored = self.classifies and goal.shape[1] == 2
        goal = goal[:, 1:] if mirrored else goal
        coefficients = np.zeros((len(X), targets.shape[1]))
        with progress_bar(progress) as bar:
            task = bar.add_task("descent", total=None)
            states = self._descents(columns, goal, heaviest, lambda: bar.advance(task, count))
        for k, state in enumerate(states):
            coefficients[chosen[state.places], k] = state.beta * columns.scales[state.places]
        if mirrored:
            coefficients[:, 1] = coefficients[:, 0]
            coefficients[:, 0] *= -1.0
        return coefficients, bias

    def _descents(
        self, columns: WeightedColumns, goal: Array, heaviest: float, swept: Callable[[], None]
    ) -> list[DescentState]:
        """Return where the descent of each output ends; ``swept`` is called after every ``M`` steps."""
        energies = np.einsum("ik,ik->k", goal, goal)
        penalty = self.ridge * self.penalty / heaviest / heaviest

        def end(k: int, bases: Bases) -> DescentState:
            least = _LEAST * float(np.abs(bases.goals).max())
            rules = Rules(1.0, max(penalty, least * least), MOVES[self.move])
            size = len(columns)
            places = itertools.islice(places_of(self._drawn_seed, k, goal.shape[1], size), self.steps)
            state = start(bases)
            states = until_settled(descend(bases, places, rules), size, self.tolerance)
            for step, moved in enumerate(states, 1):
                state = moved
                if step % size == 0:
                    swept()
            return refreshed(state, bases, rules)

        outputs = range(goal.shape[1])
        if not self.keep_columns:
            goals = columns.products_with(goal)
            with one_blas_thread():
                return [end(k, MadeBases(columns.column, goals[:, k], float(energies[k]))) for k in outputs]
        gram, goals = columns.products(goal)
        with one_blas_thread():
            return on_threads(lambda k: end(k, KeptBases(gram, goals[:, k], float(energies[k]))), outputs)

    def _counts(self) -> list[int]:
        """Return ``m₀`` of every output."""
        if self._expansion is None:
            return []
        return [int(each) for each in np.count_nonzero(self._expansion.coefficients, axis=0)]

    @classmethod
    def _unit_test_params(cls) -> Iterator[Json]:
        yield {"columns": 50, "rows": 300, "seed": 7}


@dataclass(eq=False, repr=False)
class LowRankKernelClassifier(_LowRankKernel, Classifier):
    """Stochastic low-rank kernel learning of classes, one against the others.

    Each class has its own kernel, a combination of the same rank-one kernels, and estimates its probability:
    the target of :class:`LowRankKernelRegressor` is 1 for the class and 0 for others. Probabilities are the
    nearest that sum to 1.

    Parameters
    ----------
    kernel, bandwidth
        The kernel as a string (:func:`streamk.kernels.kernel`); the bandwidth is the median distance if None.
    columns
        ``M``: events sampled for rank-one kernels; None for all.
    ridge, penalty
        ``λ`` and ``ν``. Only their product matters (Proposition 3): the larger, the fewer events.
    tolerance
        ``ε``: the descent ends when ``M`` steps lower the objective by no more than this part of it.
    steps
        The maximum number of steps, for each output.
    move
        ``"exact"`` takes a weight to its minimum, ``"newton"`` takes a step of Newton's method (eq. 19).
    keep_columns
        True computes the inner products of all columns first, in ``O(n · M²)`` time and ``O(M²)`` memory;
        a step then takes ``O(m₀²)``. False computes a column when it is used, and stores those of weights
        above 0: ``O(n · (d + m₀))`` time for a step and ``O(n · m₀)`` memory.
    rows
        Events kept on a stream (:meth:`learn_one`); :meth:`fit` keeps all.
    scale_inputs
        Whether numbers are standardised.
    seed
        The only source of randomness. None draws a new one at the first event.

    Raises
    ------
    ValueError
        If a parameter is not one of these; it is named.

    References
    ----------
    [^1]: Machart, P., Peel, T., Anthoine, S., Ralaivola, L. and Glotin, H., 2011. Stochastic low-rank kernel
        learning for regression. ICML, section 5.3 and Table 3.

    Examples
    --------
    >>> import numpy as np
    >>> import streamk
    >>> rng = np.random.default_rng(1)
    >>> X = rng.normal(size=(600, 2))
    >>> inside = (X**2).sum(axis=1) < 1.0
    >>> learner = streamk.LowRankKernelClassifier(columns=200, seed=7)
    >>> learner = learner.fit(X[:500], inside[:500], names=["a", "b"])
    >>> predicted = learner.predict_many(X[500:], names=["a", "b"])
    >>> bool(np.mean(predicted == inside[500:]) > 0.95)
    True
    >>> learner.sparsity[True] < 100
    True
    """

    @property
    def sparsity(self) -> dict[Label, int]:
        """The paper's ``m₀`` of every class: how many rank-one kernels have a weight above 0."""
        return dict(zip(self.labels, self._counts(), strict=False))


@dataclass(eq=False, repr=False)
class LowRankKernelRegressor(_LowRankKernel, Regressor):
    """Stochastic low-rank kernel learning: ridge regression that learns its kernel.

    The kernel is ``Σ_m μ_m k(x, x_m) k(x', x_m)/k(x_m, x_m)`` over a sample of ``M`` events, and what is
    minimised over ``μ ≥ 0`` is ``yᵀ(I + K̃(μ)/λ)⁻¹y + ν Σ_m μ_m`` (eqs. 3 and 14), ``y`` being standardised.
    Most weights end at 0, and the solution is an expansion over the events of the others. Each step sets one
    weight, chosen at random, to its minimiser (Algorithm 2; :mod:`streamk.exact.low_rank_solver`). On a
    stream, a sample of the events is stored and solved from time to time.

    Parameters
    ----------
    kernel, bandwidth, columns, ridge, penalty, tolerance, steps, move, keep_columns, rows, scale_inputs, seed
        As for :class:`LowRankKernelClassifier`.

    References
    ----------
    [^1]: Machart, P., Peel, T., Anthoine, S., Ralaivola, L. and Glotin, H., 2011. Stochastic low-rank kernel
        learning for regression. ICML, Algorithm 2.

    Examples
    --------
    >>> import numpy as np
    >>> import streamk
    >>> rng = np.random.default_rng(1)
    >>> X = rng.uniform(-5.0, 5.0, size=(600, 2))
    >>> length = np.linalg.norm(X, axis=1)
    >>> y = np.sin(length) / length
    >>> learner = streamk.LowRankKernelRegressor(columns=300, bandwidth=0.4, seed=7)
    >>> learner = learner.fit(X[:500], y[:500], names=["a", "b"])
    >>> error = learner.predict_many(X[500:], names=["a", "b"]) - y[500:]
    >>> bool(np.sqrt(np.mean(error**2)) < 0.05)
    True
    >>> learner.sparsity < 250
    True
    """

    @property
    def sparsity(self) -> int:
        """The paper's ``m₀``: how many rank-one kernels have a weight above 0."""
        return sum(self._counts())


def places_of(seed: int, output: int, outputs: int, size: int) -> Iterator[int]:
    """Yield which of ``size`` weights has its turn, uniformly at random, without end."""
    for sweep in itertools.count():
        numbers = uniform_doubles(seed, _COLUMNS + 1 + sweep * outputs + output, size)
        yield from (numbers * size).astype(np.intp).tolist()
