"""The randomised solvers against the dense system, and their rates against those of theory."""

import itertools

import numpy as np
import pytest

from streamk.exact import lssvm_solver
from streamk.exact.lssvm_solver import SOLVERS, System
from streamk.kernels import kernel


def data(count=150, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(count, 3)).astype(np.float32)
    codes = (X[:, 0] * X[:, 1] > 0).astype(int) + (X[:, 2] > 1)
    return X, np.eye(3)[codes], rng.uniform(0.3, 1.0, size=count)


def dense(X, ridge, text="gaussian", bandwidth=0.8):
    count = len(X)
    theta = np.ones((count + 1, count + 1))
    theta[0, 0] = 0.0
    theta[1:, 1:] = kernel(text)(X.astype(np.float64), X.astype(np.float64), bandwidth) + np.diag(ridge)
    return theta


def sets(count, size, seed=1):
    rng = np.random.default_rng(seed)
    while True:
        order = rng.permutation(count)
        for start in range(0, count, size):
            yield order[start : start + size]


def after(steps, solver, system, size):
    found = itertools.islice(solver(system, sets(len(system.X), size)), steps - 1, None)
    return next(found)


def test_columns_are_those_of_the_dense_matrix():
    X, Y, ridge = data()
    system = System(kernel("gaussian"), 0.8, X, Y, ridge)
    chosen = np.array([7, 3, 149])
    expected = dense(X, ridge)[:, [0, 8, 4, 150]]
    np.testing.assert_allclose(system.columns(chosen), expected, atol=1e-6)


@pytest.mark.parametrize("name", ["kaczmarz", "pursuit", "kaczmarz-pursuit"])
@pytest.mark.parametrize("size", [40, 150])
def test_solvers_reach_the_dense_solution(name, size):
    X, Y, ridge = data()
    exact = np.linalg.solve(dense(X, ridge), np.vstack([np.zeros((1, 3)), Y]))
    system = System(kernel("gaussian"), 0.8, X, Y, ridge)
    found = after(600 if size < len(X) else 5, SOLVERS[name], system, size)
    assert np.abs(found - exact).max() < 1e-5


def test_first_steps_are_those_of_the_paper():
    """One step of each, from pseudo-inverses of the whole block (eqs. 27, 39, 57)."""
    X, Y, ridge = data(90)
    theta, Z = dense(X, ridge), np.vstack([np.zeros((1, 3)), Y])
    first, second = itertools.islice(sets(90, 25), 2)
    system = System(kernel("gaussian"), 0.8, X, Y, ridge)
    W, R, total = np.zeros((91, 3)), Z.copy(), np.zeros((91, 3))
    both, kept = np.zeros((91, 3)), Z.copy()
    for step, chosen in enumerate((first, second), 1):
        s = np.append(0, chosen + 1)
        columns = theta[:, s]
        inverse = np.linalg.pinv(columns)
        W = W + inverse.T @ (Z[s] - theta[s] @ W)
        R = R - columns @ (inverse @ R)
        total = total + inverse.T @ theta[np.ix_(s, s)] @ inverse @ Z
        both[s] += inverse @ kept
        kept = kept - columns @ (inverse @ kept)
        both = both + inverse.T @ (Z[s] - theta[s] @ both)
        expected = {"kaczmarz": W, "nystrom": total / step, "kaczmarz-pursuit": both}
        for name, answer in expected.items():
            found = next(itertools.islice(SOLVERS[name](system, iter([first, second])), step - 1, None))
            np.testing.assert_allclose(found, answer, atol=5e-4)  # what 1e-5 on the diagonal does
        found = next(itertools.islice(lssvm_solver.pursuit(system, iter([first, second])), step - 1, None))
        np.testing.assert_allclose(Z - theta @ found, R, atol=5e-4)


def test_averages_begin_where_they_should():
    def steps():
        W = np.zeros(1)
        for k in range(6):
            W[0] = k  # the same array, as solvers do
            yield W

    assert [float(W[0]) for W in lssvm_solver.averaged(steps(), 2)] == [0.0, 1.0, 2.0, 2.5, 3.0, 3.5]


class Known:
    """A symmetric system of known spectrum, in the place of a kernel's."""

    def __init__(self, spectrum, seed=0):
        rng = np.random.default_rng(seed)
        basis, _ = np.linalg.qr(rng.normal(size=(len(spectrum), len(spectrum))))
        self.theta = (basis * spectrum) @ basis.T
        self.solution = rng.normal(size=(len(spectrum), 1))
        self.goal = self.theta @ self.solution

    def columns(self, chosen):
        return self.theta[:, np.append(0, 1 + chosen)].astype(np.float32)

    def outside(self, error):
        """Return the part of an error that is orthogonal to row 0, which every set has."""
        row = self.theta[:1]
        return error - np.linalg.pinv(row) @ (row @ error)

    def contraction(self, size):
        """Return the slowest and the fastest factor by which the mean projection shrinks that part.

        The mean is over all sets of ``size``. Each has row 0, so along it the factor is 0 but for rounding,
        and the largest eigenvalue says nothing; the next one bounds all the rest.
        """
        count = len(self.theta) - 1
        mean = np.zeros_like(self.theta)
        every = list(itertools.combinations(range(count), size))
        for chosen in every:
            rows = self.theta[np.append(0, 1 + np.array(chosen))]
            mean += np.linalg.pinv(rows) @ rows / len(every)
        values = np.linalg.eigvalsh(mean)
        return 1.0 - values[0], 1.0 - values[-2]


@pytest.mark.parametrize("name", ["kaczmarz", "pursuit"])
def test_rates_are_those_of_theory(name):
    """The mean squared error (of ``W``, or of the residual) falls as the mean projection says it must."""
    system = Known(np.array([1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.45, 0.4]))
    slow, fast = system.contraction(2)
    assert 0.3 < fast < slow < 0.9
    rng, steps, runs = np.random.default_rng(3), 6, 400
    errors = np.zeros(steps)
    for _ in range(runs):
        chosen = (rng.choice(7, size=2, replace=False) for _ in range(steps))
        for k, W in enumerate(SOLVERS[name](system, chosen)):
            wrong = W - system.solution if name == "kaczmarz" else system.goal - system.theta @ W
            errors[k] += np.sum(wrong**2) / runs
    start = np.sum(system.outside(system.solution if name == "kaczmarz" else system.goal) ** 2)
    at = np.arange(1, steps + 1)
    assert (errors <= 1.1 * start * slow**at).all()
    assert (errors >= 0.9 * start * fast**at).all()


def test_rows_that_are_all_the_same_do_no_harm():
    """The Gram matrix is then as singular as it can be."""
    X, Y, ridge = data(120)
    X[40:] = X[0]
    exact = np.linalg.solve(dense(X, ridge), np.vstack([np.zeros((1, 3)), Y]))
    system = System(kernel("gaussian"), 0.8, X, Y, ridge)
    for name in ("kaczmarz", "pursuit"):
        found = after(400, SOLVERS[name], system, 30)
        said, wanted = dense(X, ridge) @ found, dense(X, ridge) @ exact
        assert np.abs(said - wanted).max() < 1e-2
