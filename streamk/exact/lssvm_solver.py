"""The linear system of least-squares support vector machines, and its randomised solvers.

With kernel matrix ``Ω`` (``N × N``) and targets ``Y`` (``N × K``) the system is (Andrecut 2016, eqs. 16–18)

    Θ W = Z        Θ = [[0, 1ᵀ], [1, Ω + γ⁻¹ I]]        W = [b; A]        Z = [0; Y]

``Θ`` is symmetric and never held whole. A step takes a random set ``s`` of ``J`` events, always together with
the bias, and their columns ``Θ_s``, ``(N + 1) × (J + 1)``; the same set gives its rows ``Θ_sᵀ``. All solvers
need the Gram matrix ``G = Θ_sᵀ Θ_s`` and nothing else that is large.

* **Kaczmarz** (eqs. 39–40) projects onto the rows' equations: ``W += Θ_s G⁻¹ (Z_s − Θ_sᵀ W)``.
* **Pursuit** (eqs. 57–59) fits the residual by the columns: ``Q = G⁻¹ Θ_sᵀ R``, ``W_s += Q``, ``R −= Θ_s Q``.
* **Kaczmarz-pursuit** (§3.4) does both with one ``s``. A projection moves all of ``W``, whose residual would
  need all of ``Θ``, so the residual is that of what was pursued; the projection sees everything. Both parts
  end at the solution: what was pursued solves the system, and the projections then add nothing.
* **Nyström committee** (eqs. 27–28): ``W = mean of Θ_s G⁻¹ Θ_ss G⁻¹ Θ_sᵀ Z``; the paper's sum, divided by the
  number of members, so that outputs estimate probabilities.

Kernels and the products of Gram matrices are in single precision, sums and everything else in double. Gram
matrices are scaled to a unit diagonal before they are factored, which is the paper's standardisation of rows
(eqs. 35–37). 10⁻⁵ is added to the diagonal, more than the rounding of an eigenvalue of 0 (ten times as much
if that is not enough, and so on). That costs no accuracy, since each step starts from the true residual, and
a step takes two thirds of the time.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np
from scipy.linalg import cho_solve, cholesky

from streamk.arrays import Array, Floats, Places
from streamk.encoding.rows import slices
from streamk.exact.gram import gram_of
from streamk.kernels import Kernel
from streamk.threads import one_blas_thread

_JITTER = 1e-5  # of a unit diagonal
_PIECE = 2048  # rows turned to double precision at once


class System:
    """The system of one data set.

    Parameters
    ----------
    kernel, bandwidth
        ``Ω``.
    X
        Dense rows ``(N, d)``.
    targets
        ``Y``, ``(N, K)``.
    ridge
        ``γ⁻¹`` of each event, ``(N,)``.
    """

    def __init__(self, kernel: Kernel, bandwidth: float, X: Floats, targets: Array, ridge: Array) -> None:
        self.kernel, self.bandwidth, self.X, self.ridge = kernel, bandwidth, X, ridge
        self.goal = np.vstack([np.zeros((1, targets.shape[1])), targets])

    def columns(self, chosen: Places) -> Floats:
        """Return ``Θ_s`` of the bias and the chosen events, ``(N + 1, J + 1)``."""
        theta = np.empty((len(self.goal), 1 + len(chosen)), dtype=np.float32)
        theta[0, 0], theta[0, 1:], theta[1:, 0] = 0.0, 1.0, 1.0
        for part in slices(len(self.X), 8 * _PIECE):
            theta[1:][part, 1:] = self.kernel.block(self.X[part], self.X[chosen], self.bandwidth)
        theta[1 + chosen, 1 + np.arange(len(chosen))] += self.ridge[chosen].astype(np.float32)
        return theta


class _Block:
    """``Θ_s``, with its Gram matrix factored and its products with other columns."""

    def __init__(self, columns: Floats, others: Array) -> None:
        self.columns = columns
        gram, self.products = gram_of(columns, others, np.float32)
        scale = 1.0 / np.sqrt(np.maximum(np.diagonal(gram), np.finfo(np.float64).tiny))
        gram *= scale[:, None]
        gram *= scale
        self._scale = scale[:, None]
        with one_blas_thread():
            self._factor = _factored(gram)

    def solve(self, right: Array) -> Array:
        """Return ``G⁻¹`` times ``right``."""
        with one_blas_thread():
            solved = cho_solve((self._factor, True), self._scale * right, check_finite=False)
        return np.asarray(self._scale * solved)

    def times(self, small: Array, out: Array) -> None:
        """Add ``Θ_s`` times ``(J + 1, K)`` to ``out``."""
        for part in slices(len(out), _PIECE):
            with one_blas_thread():
                out[part] += self.columns[part].astype(np.float64) @ small


def _factored(gram: Array) -> Array:
    """Return the Cholesky factor of a matrix of unit diagonal, with as little added to it as it takes."""
    jitter = _JITTER
    while True:
        held = gram.copy()
        held[np.diag_indices_from(held)] += jitter
        try:
            return np.asarray(cholesky(held, lower=True, overwrite_a=True, check_finite=False))
        except np.linalg.LinAlgError:
            if jitter > len(gram):
                raise ValueError(
                    "the kernel matrix is too large for single precision; use a larger bandwidth"
                ) from None
            jitter *= 10.0


def _places(chosen: Places) -> Places:
    """Return where the bias and the chosen events stand in ``W``."""
    return np.append(0, 1 + chosen)


def kaczmarz(system: System, sets: Iterator[Places]) -> Iterator[Array]:
    """Yield ``W`` after each projection onto a set of rows."""
    W = np.zeros_like(system.goal)
    for chosen in sets:
        block, place = _Block(system.columns(chosen), W), _places(chosen)
        block.times(block.solve(system.goal[place] - block.products), W)
        yield W


def pursuit(system: System, sets: Iterator[Places]) -> Iterator[Array]:
    """Yield ``W`` after each set of columns that the residual was fitted by."""
    W, residual = np.zeros_like(system.goal), system.goal.copy()
    for chosen in sets:
        block = _Block(system.columns(chosen), residual)
        change = block.solve(block.products)
        W[_places(chosen)] += change
        block.times(-change, residual)
        yield W


def kaczmarz_pursuit(system: System, sets: Iterator[Places]) -> Iterator[Array]:
    """Yield ``W`` after each set that was pursued, then projected onto."""
    outputs = system.goal.shape[1]
    W, residual = np.zeros_like(system.goal), system.goal.copy()
    for chosen in sets:
        place = _places(chosen)
        block = _Block(system.columns(chosen), np.hstack([residual, W]))
        of_residual, of_all = block.products[:, :outputs], block.products[:, outputs:]
        change = block.solve(of_residual)
        W[place] += change
        block.times(-change, residual)
        said = of_all + block.columns[place].astype(np.float64).T @ change
        block.times(block.solve(system.goal[place] - said), W)
        yield W


def nystrom(system: System, sets: Iterator[Places]) -> Iterator[Array]:
    """Yield the mean of the members so far."""
    total = np.zeros_like(system.goal)
    for count, chosen in enumerate(sets, 1):
        block = _Block(system.columns(chosen), system.goal)
        small = block.columns[_places(chosen)].astype(np.float64)
        block.times(block.solve(small @ block.solve(block.products)), total)
        yield total / count


def averaged(solutions: Iterator[Array], alone: int) -> Iterator[Array]:
    """Yield the first ``alone`` solutions, and then the mean of those after them.

    A projection fits its rows exactly, including their noise, which increases the error on others; the
    mean of several is better than any of them (as that of several seeds is, eqs. 67 and 68).
    """
    total, count = np.zeros(0), 0
    for step, W in enumerate(solutions, 1):
        if step <= alone:
            yield W
            continue
        total, count = (total + W if count else W.copy()), count + 1
        yield total / count


SOLVERS: dict[str, Callable[[System, Iterator[Places]], Iterator[Array]]] = {
    "kaczmarz": kaczmarz,
    "pursuit": pursuit,
    "kaczmarz-pursuit": kaczmarz_pursuit,
    "nystrom": nystrom,
}
_PROJECTING = "kaczmarz", "kaczmarz-pursuit"


def solutions(solver: str, system: System, sets: Iterator[Places], steps: int) -> Iterator[Array]:
    """Yield the solution after each step; with projections, from the middle on the mean of solutions."""
    iterates = SOLVERS[solver](system, itertools.islice(sets, steps))
    return averaged(iterates, steps // 2) if solver in _PROJECTING else iterates
