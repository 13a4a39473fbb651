"""Least-squares support vector machines by randomised blocks of the kernel matrix (Andrecut 2016)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from streamk.arrays import Array, Floats, Json, Places
from streamk.exact.expansion import products
from streamk.exact.lssvm_solver import SOLVERS, System, solutions
from streamk.exact.reservoir import ReservoirLearner
from streamk.features.counter import permutation
from streamk.learners.classifier import Classifier
from streamk.learners.regressor import Regressor
from streamk.parameters import check_exact
from streamk.progress import progress_bar

_SWEEPS = 2  # over all events, by default
_LEAST = 1e-12  # of a weight: an event of next to none
_HELD_OUT = 2**20  # the random stream of the validation part, different from those of the members


@dataclass(eq=False, repr=False)
class _LSSVM(ReservoirLearner):
    solver: str = "pursuit"
    kernel: str = "gaussian"
    bandwidth: float | None = None
    gamma: float = 100.0
    block: int = 1000
    steps: int | None = None
    committee: int = 1
    validation: float = 0.0
    rows: int = 10_000
    scale_inputs: bool = True
    seed: int | None = None
    family = "ls-svm"

    def __post_init__(self) -> None:
        self._make_plain()
        check_exact(self._get_params(), solver=tuple(SOLVERS))
        self._begin()

    def _solve(
        self, X: Floats, targets: Array, weights: Array, bandwidth: float, progress: bool | None
    ) -> tuple[Array, Array]:
        order = permutation(self._drawn_seed, _HELD_OUT, len(X))
        held = np.sort(order[: round(self.validation * len(X))])
        kept = np.sort(order[len(held) :])
        system = System(
            self._kernel,
            bandwidth,
            X[kept],
            targets[kept],
            1.0 / np.maximum(self.gamma * np.minimum(weights[kept], 1.0 / _LEAST), _LEAST),
        )
        judge = Judge(system, X[held], targets[held]) if len(held) else None
        members, steps = self._members_and_steps(len(kept))
        total: Array = np.zeros_like(system.goal)
        with progress_bar(progress) as bar:
            task = bar.add_task(self.solver, total=members * steps)
            for member in range(members):
                sets = blocks_of(self._drawn_seed, member, len(kept), self.block)
                iterates = solutions(self.solver, system, sets, steps)
                total += last_or_best(
                    iterates, judge, math.ceil(len(kept) / self.block), lambda: bar.advance(task)
                )
                bar.update(task, completed=(member + 1) * steps)
        W = total / members
        coefficients = np.zeros((len(X), W.shape[1]))
        coefficients[kept] = W[1:]
        return coefficients, W[0]

    def _members_and_steps(self, events: int) -> tuple[int, int]:
        """Return how many solutions are averaged, and how many steps each takes."""
        if self.solver == "nystrom":
            return 1, self.committee  # it averages its solutions
        sweep = math.ceil(events / self.block)
        return self.committee, self.steps or (1 if sweep == 1 else _SWEEPS * sweep)

    @classmethod
    def _unit_test_params(cls) -> Iterator[Json]:
        yield {"block": 50, "rows": 300, "seed": 7}


@dataclass(eq=False, repr=False)
class LSSVMClassifier(_LSSVM, Classifier):
    """Least-squares support vector machine, solved by random blocks of its kernel matrix.

    Minimises ``½‖w‖² + γ/2 Σ_i w_i (y_i − f(x_i))²`` with ``f(x) = Σ_i k(x, x_i) a_i + b``, one output a
    class, ``y`` being 1 for it and 0 for others. The kernel matrix is made block by block, as it is needed:
    memory is ``O(N · block)`` (:mod:`streamk.exact.lssvm_solver`). All events are stored; on a stream, a
    sample of them.

    Parameters
    ----------
    solver
        ``"pursuit"`` fits the residual by blocks of columns; ``"kaczmarz"`` projects onto blocks of rows;
        ``"kaczmarz-pursuit"`` does both; ``"nystrom"`` takes the mean of low-rank solutions, and is done
        after a few.
    kernel, bandwidth
        The kernel as a string (:func:`streamk.kernels.kernel`); the bandwidth is the median distance if None.
    gamma
        ``γ``: how much an error costs.
    block
        ``J``: events of a block. Time of a step is ``O(N · J · (d + J))``.
    steps
        Of each member; None for two sweeps over all events. Solutions with projections are the mean of those
        after the second half of the steps. The Nyström committee takes one step a member.
    committee
        Solutions from different orders whose mean is the answer (eqs. 28, 67 and 68).
    validation
        Part of the events held out: the steps stop when the error on it has not fallen for a sweep, and the
        best solution is taken. 0 for none.
    rows
        Events stored on a stream (:meth:`learn_one`); :meth:`fit` stores all.
    scale_inputs
        Whether numbers are standardised.
    seed
        The only source of randomness. None draws a new one at the first event.

    References
    ----------
    [^1]: Andrecut, M., 2016. Randomized kernel methods for least-squares support vector machines.

    Examples
    --------
    >>> import numpy as np
    >>> import streamk
    >>> rng = np.random.default_rng(1)
    >>> X = rng.normal(size=(600, 2))
    >>> inside = (X**2).sum(axis=1) < 1.0
    >>> learner = streamk.LSSVMClassifier(block=100, seed=7)
    >>> learner = learner.fit(X[:500], inside[:500], names=["a", "b"])
    >>> predicted = learner.predict_many(X[500:], names=["a", "b"])
    >>> bool(np.mean(predicted == inside[500:]) > 0.95)
    True
    """


@dataclass(eq=False, repr=False)
class LSSVMRegressor(_LSSVM, Regressor):
    """Least-squares support vector machine for numbers: kernel ridge regression with a bias.

    The system is that of :class:`LSSVMClassifier` with one column, the target, standardised and clipped to ±6
    deviations; ``gamma`` is the cost of an error in these units.

    Parameters
    ----------
    solver, kernel, bandwidth, gamma, block, steps, committee, validation, rows, scale_inputs, seed
        As for :class:`LSSVMClassifier`.

    References
    ----------
    [^1]: Andrecut, M., 2016. Randomized kernel methods for least-squares support vector machines.

    Examples
    --------
    >>> import numpy as np
    >>> import streamk
    >>> X = np.random.default_rng(1).uniform(-3.0, 3.0, size=(600, 1))
    >>> learner = streamk.LSSVMRegressor(block=100, seed=7).fit(X, np.sin(X[:, 0]), names=["x"])
    >>> bool(abs(learner.predict_one({"x": 1.0}) - np.sin(1.0)) < 0.01)
    True
    """


class Judge:
    """The held-out events of a system, which determine when to stop."""

    def __init__(self, system: System, X: Floats, targets: Array) -> None:
        self._system, self._X, self._targets = system, X, targets

    def error(self, W: Array) -> float:
        """Return the error of a solution: the number of wrong classes, or the sum of squared errors."""
        system = self._system
        block = system.kernel.block(self._X, system.X, system.bandwidth)
        predicted = products(block, W[1:].astype(np.float32)) + W[0]
        if predicted.shape[1] == 1:
            return float(np.sum((predicted - self._targets) ** 2))
        return float(np.sum(predicted.argmax(axis=1) != self._targets.argmax(axis=1)))


def blocks_of(seed: int, member: int, events: int, size: int) -> Iterator[Places]:
    """Yield sets of ``size`` events, in random order without replacement, sweep after sweep."""
    for sweep in itertools.count():
        order = permutation(seed, (member << 10) + sweep, events)
        for start in range(0, events, size):
            yield order[start : start + size]


def last_or_best(
    steps: Iterator[Array], judge: Judge | None, patience: int, count: Callable[[], None]
) -> Array:
    """Return the solution after the last step or, with a judge, the best one until it got no better."""
    best, least, since = np.zeros(0), np.inf, 0
    for W in steps:
        count()
        if judge is None:
            best = W
            continue
        error = judge.error(W)
        if error < least:
            best, least, since = W.copy(), error, 0
        elif (since := since + 1) >= patience:
            break
    return best
