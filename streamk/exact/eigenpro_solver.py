"""The solver of EigenPro 3 over fixed centers: preconditioned gradients, projected onto their span.

The model is ``f(x) = Σ_k k(x, z_k) α_k`` over ``p`` centers ``Z``. Its square error has the gradient
``K(·, X)(f(X) − y)`` in the kernel's space, whose top directions are so much steeper than the others that
they alone bound the step. A *preconditioner* flattens the top ``q`` of them, computed from a subsample
``X_s`` of ``s`` rows with masses ``w`` (Abedsoltan, Belkin and Pandit 2023, eqs. 29 and 30):

    √w K(X_s, X_s) √w = E Λ Eᵀ    P{K(·, X)g} = K(·, X)g − K(·, X_s) F D Fᵀ K(X_s, X)g
    F = √w E_q                    D_i = (1 − (λ_{q+1}/λ_i)^a) / λ_i

``a`` is 1, and 0.95 inside projections, as in the authors' code. Here the subsample is always the first ``s``
*centers*; with centers of k-means, their masses are the sizes of the clusters. Then ``K(X_s, X)`` is part of
``K(Z, X)`` and costs nothing; the correction is one of ``s`` coefficients, so only ``K(·, X)g`` needs a
projection; and the fixed point is that of plain least squares, ``K(Z, X)(K(X, Z)α − y) = 0``, whatever ``P``.

With the largest ``λ`` that is left, divided by the sum of the masses, and ``β = max k(x, x)``, a batch of
``m* = β/λ`` rows is the largest that learns as much from a row as a smaller one. The step is that of Ma and
Belkin (2019), ``1/β`` for smaller batches and ``1.98/(β + (m − 1)λ)`` for others; and never more than what is
best for the batch itself, so directions that the subsample missed cannot make it diverge.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from scipy.linalg import cho_solve, cholesky, eigh

from streamk.arrays import Array, Floats
from streamk.encoding.rows import slices
from streamk.exact.centers import Centers
from streamk.exact.expansion import products
from streamk.exact.gram import Similarities
from streamk.kernels import Kernel
from streamk.threads import one_blas_thread

PROJECTIONS = ("exact", "inexact", "delayed")
DELAY = 4  # batches that one delayed projection follows
_SUBSAMPLE = 2000
_SMALLEST, _LARGEST = 128, 2048  # rows of a batch, if the centers would have others
_LEAST_INSIDE = 64  # centers of a batch of a projection


class SolverSettings(NamedTuple):
    """The parameters of a learner that concern the solver; None is automatic."""

    projection: str
    subsample: int | None
    rank: int | None
    batch: int | None


class EigenPro:
    """A solver for one set of centers; it does not hold coefficients.

    Parameters
    ----------
    kernel, bandwidth
        The kernel.
    centers
        ``Z`` and their masses.
    settings
        Projection, subsample, rank and batch. A subsample is at most 2,000 centers by default; a batch
        half as many rows as there are centers, from 128 to 2,048, but no more than the preconditioner allows.

    Raises
    ------
    ValueError
        If similarities of the centers cannot be held in single precision, or not be factored.
    """

    def __init__(self, kernel: Kernel, bandwidth: float, centers: Centers, settings: SolverSettings) -> None:
        self._kernel, self._bandwidth, self.centers = kernel, bandwidth, centers.vectors
        self._delayed = settings.projection == "delayed"
        count = len(self.centers)
        size = min(count, settings.subsample or _SUBSAMPLE)
        top = self.block(self.centers[:size], self.centers[:size]).astype(np.float64)
        if not np.isfinite(top).all():
            raise ValueError(
                "the kernel of the centers is too large for single precision; use a larger bandwidth"
            )
        wanted = settings.batch or min(max(count // 2, _SMALLEST), _LARGEST)
        self._by = preconditioner(top, centers.masses[:size], settings.rank, wanted)
        if settings.batch is not None:
            self.batch = settings.batch
        else:
            self.batch = min(self._by.batch, wanted if settings.rank is None else _LARGEST)
        self._project = self._projection(top, settings)

    def _projection(self, top: Array, settings: SolverSettings) -> CenterSolver:
        count = len(self.centers)
        if settings.projection == "exact":
            return ExactProjection(lambda part: self.block(self.centers[part], self.centers), count)
        together = max(_LEAST_INSIDE, count // 4)
        inside = preconditioner(top, np.ones(len(top)), settings.rank, together, INNER_EXPONENT)
        similarities = Similarities(self._kernel, self._bandwidth, self.centers, self.centers)
        return InexactProjection(similarities.part, inside)

    @property
    def together(self) -> int:
        """Rows that are learned at once: a batch, or all that one projection follows."""
        return self.batch * (DELAY if self._delayed else 1)

    def block(self, X: Floats, Z: Floats) -> Floats:
        """Return ``K(X, Z)``."""
        return self._kernel.block(X, Z, self._bandwidth)

    def learn(
        self, coefficients: Array, X: Floats, targets: Array, weights: Array, similar: Floats | None = None
    ) -> Array:
        """Return the coefficients ``(p, K)`` after the rows are learned, batch by batch.

        Parameters
        ----------
        coefficients
            Those before, ``(p, K)``.
        X
            Dense rows ``(n, d)``, best ``together`` of them.
        targets, weights
            What their answers should be, ``(n, K)``, and how much each counts, ``(n,)``.
        similar
            ``K(X, Z)``, if it is known.
        """
        if similar is None:
            similar = self.block(X, self.centers)
        batches = [MiniBatch(X[p], similar[p], targets[p], weights[p]) for p in slices(len(X), self.batch)]
        if self._delayed:
            return delayed_steps(batches, coefficients, self._by, self._project, self.block)
        for batch in batches:
            coefficients = step(batch, coefficients, self._by, self._project)
        return coefficients


RowsOf = Callable[[slice], Floats]  # rows of K(Z, Z)
INNER_EXPONENT = 0.95  # of the preconditioner that projects
_SWEEPS = 2  # of a projection by EigenPro 2, at most
_CLOSE = 1e-6  # mean squared residual at which it ends, in that of its goal
_JITTERS = (1e-7, 1e-5, 1e-3, 1e-1)  # of the mean of the diagonal, until it can be factored
_NOTHING = 1e-6  # of the top eigenvalue: smaller ones have no accurate direction in single precision
_RANKS = 4  # at most one direction for so many rows of the subsample
_PIECE = 1024


class Preconditioner(NamedTuple):
    """The preconditioner: ``F`` ``(s, q)``, ``D`` ``(q,)``, the largest ``λ`` that is left, and ``β``."""

    vectors: Array
    factors: Array
    left: float
    highest: float

    def correction(self, similar: Array) -> Array:
        """Return ``F D Fᵀ`` of ``K(X_s, X)g``, ``(s, K)``: what the subsample's coefficients take back."""
        with one_blas_thread():
            inside = self.vectors.T @ similar
            return np.asarray(self.vectors @ (self.factors[:, None] * inside))

    @property
    def batch(self) -> int:
        """``m*``, the rows of the largest batch that learns as much from a row as a smaller one."""
        return max(1, int(min(self.highest / self.left, 2**30)))

    def rate(self, rows: int) -> float:
        """Return the step for a batch whose gradient is the sum over its rows."""
        if rows < self.highest / self.left + 1.0:
            return 1.0 / self.highest
        return 1.98 / (self.highest + (rows - 1) * self.left)


def preconditioner(
    similar: Array, masses: Array, rank: int | None, batch: int, exponent: float = 1.0
) -> Preconditioner:
    """Return the preconditioner of a subsample.

    Parameters
    ----------
    similar
        ``K(X_s, X_s)``, ``(s, s)``.
    masses
        How many rows each row of the subsample stands for, ``(s,)``, above 0.
    rank
        ``q``, at most ``s − 1``; None for the fewest directions with which a batch may have ``batch`` rows,
        at most a quarter of ``s``.
    batch
        The number of rows a batch should have.
    exponent
        ``a``.
    """
    size, root = len(masses), np.sqrt(masses)
    most = min(size - 1, size // _RANKS if rank is None else rank)
    with one_blas_thread():
        values, vectors = eigh(
            similar * root[:, None] * root, subset_by_index=(size - 1 - most, size - 1), check_finite=False
        )
    values, vectors = values[::-1], vectors[:, ::-1]
    highest = float(np.diagonal(similar).max(initial=np.finfo(np.float32).tiny))
    values = np.maximum(values, max(_NOTHING * values[0], np.finfo(np.float32).tiny))
    left = values[0] ** (1.0 - exponent) * values**exponent / masses.sum()
    q = most
    if rank is None:
        enough = np.flatnonzero(left * batch <= highest)
        q = int(enough[0]) if len(enough) else most
    factors = (1.0 - (values[q] / values[:q]) ** exponent) / values[:q]
    return Preconditioner(root[:, None] * vectors[:, :q], factors, float(left[q]), highest)


class CenterSolver(Protocol):
    """A solver of ``K(Z, Z) θ = h − K(Z, X_s) c``, the subsample being the first centers.

    What falls short of the solution has to fall short of both parts alike: the correction ``c`` takes back
    nearly all of the steepest directions of ``h``, and a step down would become one up.
    """

    def __call__(self, goal: Array, back: Array) -> Array:
        """Return ``θ``, ``(p, K)``, for ``h`` and the correction ``c``, ``(s, K)``."""
        ...


class ExactProjection:
    """By a Cholesky factor of ``K(Z, Z)`` in double precision, ``(p, p)``, with 10⁻⁷ added to its diagonal.

    Raises
    ------
    ValueError
        If the matrix has no such factor, whatever is added.
    """

    def __init__(self, rows_of: RowsOf, size: int) -> None:
        for jitter in _JITTERS:
            whole = np.empty((size, size))
            for part in slices(size, _PIECE):
                whole[part] = rows_of(part)
            whole[np.diag_indices(size)] += jitter * (np.diagonal(whole).mean() or 1.0)
            try:
                with one_blas_thread():  # of the transpose, which LAPACK takes without a copy
                    self._factor = cholesky(whole.T, lower=True, overwrite_a=True, check_finite=False)
                return
            except np.linalg.LinAlgError:
                continue
        raise ValueError("the kernel matrix of the centers cannot be factored; use a larger bandwidth")

    def __call__(self, goal: Array, back: Array) -> Array:
        """Return ``θ``."""
        with one_blas_thread():
            coefficients: Array = cho_solve((self._factor, True), goal, check_finite=False)
        coefficients[: len(back)] -= back
        return coefficients


class InexactProjection:
    """Projection by EigenPro 2 from zero: at most two sweeps, or fewer once the residual is small."""

    def __init__(self, rows_of: RowsOf, conditioner: Preconditioner, sweeps: int = _SWEEPS) -> None:
        self._rows_of, self._conditioner, self._sweeps = rows_of, conditioner, sweeps

    def __call__(self, goal: Array, back: Array) -> Array:
        """Return ``θ``."""
        goal = goal.copy()
        for part in slices(len(goal), _PIECE):
            goal[part] -= products(self._rows_of(part)[:, : len(back)], back.astype(np.float32))
        coefficients = np.zeros_like(goal)
        enough = _CLOSE * float(np.mean(goal * goal))
        for _ in range(self._sweeps):
            total = 0.0
            for part in slices(len(goal), self._conditioner.batch):
                residual = interpolate(self._rows_of(part), part, goal[part], coefficients, self._conditioner)
                total += float(np.sum(residual * residual))
            if total <= enough * goal.size:
                break
        return coefficients


def interpolate(similar: Floats, part: slice, goal: Array, coefficients: Array, by: Preconditioner) -> Array:
    """Take one step of EigenPro 2 towards ``K(Z, Z)θ = h``, in place; return the residual before it.

    Parameters
    ----------
    similar
        ``K(Z_m, Z)``, ``(m, p)``.
    part
        Where the batch ``Z_m`` stands among the centers.
    goal
        ``h`` of the batch, ``(m, K)``.
    coefficients
        ``θ``, ``(p, K)``.
    by
        The preconditioner, whose subsample are the first centers.
    """
    size = len(by.vectors)
    residual = products(similar, coefficients.astype(np.float32)) - goal
    back = by.correction(adjoint(similar[:, :size], residual))
    moved = products(similar[:, part], residual.astype(np.float32))
    moved -= products(similar[:, :size], back.astype(np.float32))
    rate = bounded(by.rate(len(goal)), residual, moved, np.ones(len(goal)))
    coefficients[part] -= rate * residual
    coefficients[:size] += rate * back
    return residual


def adjoint(similar: Floats, g: Array) -> Array:
    """Return ``K(Z, X)g``, ``(p, K)``, for ``K(X, Z)``."""
    with one_blas_thread():
        return np.asarray((g.T.astype(np.float32) @ similar).T, dtype=np.float64)


def bounded(rate: float, gradient: Array, moved: Array, weights: Array) -> Array:
    """Return the step of each output: ``rate``, or the best one for the batch if that is smaller.

    ``gradient`` are the weighted residuals ``(m, K)``; ``moved`` is the decrease of predictions in a step
    of 1. Such a step never increases the batch's error.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        best = np.sum(gradient * moved, axis=0) / np.sum(weights[:, None] * moved * moved, axis=0)
    return np.clip(np.where(np.isfinite(best), best, 0.0), 0.0, rate)


class MiniBatch(NamedTuple):
    """Rows ``(m, d)``, their similarities ``K(X, Z)`` with the centers, targets ``(m, K)`` and weights."""

    rows: Floats
    similar: Floats
    targets: Array
    weights: Array


@np.errstate(over="ignore", invalid="ignore")
def step(batch: MiniBatch, coefficients: Array, by: Preconditioner, project: CenterSolver) -> Array:
    """Return the coefficients after a step of EigenPro 3 (Algorithm 2), ``(p, K)``."""
    gradient = _gradient(batch, products(batch.similar, coefficients.astype(np.float32)))
    goal = adjoint(batch.similar, gradient)
    direction = project(goal, by.correction(goal[: len(by.vectors)]))
    moved = products(batch.similar, direction.astype(np.float32))
    rate = bounded(by.rate(len(gradient)), gradient, moved, _tame(batch.weights))
    return _if_finite(coefficients - rate * direction, coefficients)


@np.errstate(over="ignore", invalid="ignore")
def delayed_steps(
    batches: list[MiniBatch], coefficients: Array, by: Preconditioner, project: CenterSolver, block: Block
) -> Array:
    """Return the coefficients after a step for each batch, and one projection after all of them.

    Until then the rows are further centers, with the coefficients that their steps gave them: the
    delayed projection of EigenPro 4.
    """
    now, size = coefficients.copy(), len(by.vectors)
    gone: list[tuple[MiniBatch, Array]] = []
    goal, taken = np.zeros_like(now), np.zeros_like(now[:size])
    for batch in batches:
        said = products(batch.similar, now.astype(np.float32))
        for other, change in gone:
            said += products(block(batch.rows, other.rows), change.astype(np.float32))
        gradient = _gradient(batch, said)
        upward = adjoint(batch.similar, gradient)
        back = by.correction(upward[:size])
        moved = products(block(batch.rows, batch.rows), gradient.astype(np.float32))
        moved -= products(batch.similar[:, :size], back.astype(np.float32))
        rate = bounded(by.rate(len(gradient)), gradient, moved, _tame(batch.weights))
        gone.append((batch, -rate * gradient))
        goal += rate * upward
        taken += rate * back
        now[:size] = coefficients[:size] + taken
    return _if_finite(coefficients - project(goal, taken), coefficients)


Block = Callable[[Floats, Floats], Floats]


def _tame(weights: Array) -> Array:
    """Return weights scaled to at most 1, so that the bound of the step holds for heavy rows."""
    return weights / max(1.0, float(weights.max()))


def _gradient(batch: MiniBatch, said: Array) -> Array:
    return np.asarray(_tame(batch.weights)[:, None] * (said - batch.targets))


def _if_finite(after: Array, before: Array) -> Array:
    """Return new coefficients, or those before if single precision overflowed."""
    return after if np.isfinite(after).all() else before
