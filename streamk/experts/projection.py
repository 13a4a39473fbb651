"""The Kaczmarz expert: projections onto the equation of each event, or of each block of events.

``A ← A + φ r/(φᵀφ + ρ_t F/w)`` is the least change of ``A``, in the norm regularised by ``ρ_t = ρ (1 + min(n,
memory)/256)``, that explains the residual ``r`` of an event of weight ``w`` (Kaczmarz 1937; Andrecut 2016,
§3.2). ``ρ`` is multiplied by ``F`` so that it is in units of the kernel for any number of features. With
residuals ``R`` (``m × K``) on a row block ``Φ`` (``m × F``) it is, in the primal,

    A ← A + Φᵀ (ΦΦᵀ + ρ_t F W⁻¹)⁻¹ R            W = diag(weights)
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Sequence

import numpy as np
from numba import njit

from streamk.arrays import Array, Floats
from streamk.compiling import ENTRY, INNER
from streamk.dispatch import implements
from streamk.experts.expert import EVENTS, ITERATE, Expert, Lesson, count_step, step
from streamk.features.matrix import products_on_threads, tiles_of, total
from streamk.losses import MARGIN, residuals
from streamk.schedules import regularization_at
from streamk.threads import one_blas_thread
from streamk.vector.linear_algebra import LARGEST_COEFFICIENT, add_scaled, inner_product

_JITTER = 1e-6
LARGEST_RIDGE = 1e100  # of a row with next to no weight


Projecting = namedtuple("Projecting", "first features coefficients clock loss rho memory slowness")


class Projection(Expert):
    """Kaczmarz projections.

    Parameters
    ----------
    loss, average, columns
        As for :class:`streamk.experts.expert.Expert`: squared, margin, logistic, huber or
        epsilon-insensitive.
    rho
        ``ρ``.
    memory
        Events after which ``ρ_t`` stops growing; None for never.
    gain
        ``η``: the part of the residual that a step removes, by ``φᵀφ/η`` instead of ``φᵀφ``; event by event
        only. An event of weight ``w`` removes the part ``1 − (1 − η)ʷ``.
    """

    rule = "projection"
    record_type = Projecting

    def __init__(
        self,
        loss: int,
        average: bool,
        rho: float,
        memory: int | None,
        columns: slice | None = None,
        gain: float = 1.0,
    ) -> None:
        super().__init__(loss, average, columns)
        self.slowness = 1.0 / gain
        self.rho, self.memory = float(rho), np.inf if memory is None else float(memory)

    def required_columns(self) -> list[slice]:
        """Return all columns, in tiles."""
        return tiles_of(self.first, self.first + self.coefficients.shape[2])

    def step_many(self, lesson: Lesson) -> None:
        """Project onto a block of rows by their Gram matrix."""
        residual = residuals_of(self.loss, lesson)
        solve = margin_multipliers if self.loss == MARGIN else multipliers
        rho = ridges(self, self.rho, self.memory, lesson.weights)
        project_block(self, self.required_columns(), lesson.kept, residual, rho, solve)
        self.count_block(len(lesson.aims))


@implements(step, Projecting)
def _step(expert, e, observation):
    phi, i, outputs, aim, known, weight, residual, _ = observation
    length = residuals(expert.loss, outputs[e, ITERATE, :known], aim, residual[:known])
    rho = regularization_at(expert.rho, expert.memory, expert.clock[EVENTS]) / weight * expert.features
    slowness = expert.slowness
    if weight != 1.0 and slowness > 1.0:  # so many steps, each of which leaves the part 1 − η
        slowness = 1.0 / (1.0 - (1.0 - 1.0 / slowness) ** weight)
    _project(expert, phi, i, length * slowness, residual, known, rho)
    count_step(expert.clock, expert.coefficients)


@njit(**INNER)
def _project(expert, phi, i, length, residual, known, rho):
    """Project an expert's coefficients onto one row's equation, as :func:`project_around` does."""
    place, columns = i * phi.shape[1] + expert.first, expert.coefficients.shape[2]
    whole = length * np.float64(inner_product(phi, place, phi, place, columns)) + rho
    for k in range(known):
        if residual[k] != 0.0 and whole > 0.0:
            add_scaled(expert.coefficients, k * columns, np.float32(residual[k] / whole), phi, place, columns)


@njit(**INNER)
def project_around(expert, block, phi, i, length, residual, rho):
    """Project the coefficients outside a block of an expert's columns onto one row's equation.

    ``A_k ← A_k + φ r_k/(length · φᵀφ + ρ)``, in place: ``residual`` is ``(K,)`` float64, ``length`` the
    squared length of the step's direction in units of ``φᵀφ`` (2 for a margin, which moves two outputs),
    ``rho`` is ``ρF/w``. ``block`` is its first column and the one after its last.
    """
    start, stop = block
    place, columns = i * phi.shape[1] + expert.first, expert.coefficients.shape[2]
    whole = np.float64(inner_product(phi, place, phi, place, start))
    whole += np.float64(inner_product(phi, place + stop, phi, place + stop, columns - stop))
    whole = length * whole + rho
    for k in range(residual.shape[0]):
        if residual[k] != 0.0 and whole > 0.0:
            gain, row = np.float32(residual[k] / whole), k * columns
            add_scaled(expert.coefficients, row, gain, phi, place, start)
            add_scaled(expert.coefficients, row + stop, gain, phi, place + stop, columns - stop)


def residuals_of(loss: int, lesson: Lesson) -> Array:
    """Return the residual of every row, ``(m, K)``; outputs not yet known have none."""
    outputs = lesson.outputs[ITERATE]
    out = np.zeros(outputs.shape)
    _residuals(loss, outputs, lesson.aims, lesson.known, out)
    return out


@njit(**ENTRY)
def _residuals(loss, outputs, aims, known, out):
    for i in range(outputs.shape[0]):
        residuals(loss, outputs[i, :known], aims[i], out[i, :known])


def ridges(expert: Expert, rho: float, memory: float, weights: Array) -> Array:
    """Return ``ρ_t F/w`` of every row, for an expert that projects."""
    rho = regularization_at(rho, memory, expert.clock[EVENTS]) * expert.features
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        return np.asarray(np.where(weights > 0.0, np.minimum(rho / weights, LARGEST_RIDGE), LARGEST_RIDGE))


def project_block(
    expert: Expert,
    columns: Sequence[slice],
    features: Sequence[Floats],
    residual: Array,
    rho: Array,
    solve: Callable[[Array, Array, Array], Array],
) -> None:
    """Project an expert's coefficients onto a block of rows, from their features in columns of the map."""
    gram = total(products_on_threads(lambda phi: phi @ phi.T, features)).astype(np.float64)
    with one_blas_thread():
        solved = solve(gram, residual, rho)
    change = np.clip(solved, -LARGEST_COEFFICIENT, LARGEST_COEFFICIENT).astype(np.float32)

    def move(job: tuple[slice, Floats]) -> None:
        tile, phi = job
        iterate = expert.coefficients[ITERATE, :, expert.overlap(tile)]
        np.clip(iterate + change.T @ phi, -LARGEST_COEFFICIENT, LARGEST_COEFFICIENT, out=iterate)

    products_on_threads(move, list(zip(columns, features, strict=True)))


def multipliers(gram: Array, residual: Array, rho: Array) -> Array:
    """Return ``C = (ΦΦᵀ + diag ρ)⁻¹ R``, so that ``A ← A + CᵀΦ`` projects onto a row block.

    Parameters
    ----------
    gram
        ``ΦΦᵀ``, ``(m, m)``.
    residual
        ``R``, ``(m, K)``.
    rho
        ``ρF/w`` of each row, ``(m,)``.
    """
    return np.asarray(np.linalg.solve(_regularised(gram, rho), residual))


def margin_multipliers(gram: Array, residual: Array, rho: Array) -> Array:
    """Return the multipliers of a block of violated margins.

    The residual of row ``i`` is ``l_i (e_{y_i} − e_{c_i})``, so its equation is along
    ``φ_i ⊗ (e_{y_i} − e_{c_i})`` and the Gram matrix of the equations is ``ΦΦᵀ ∘ SSᵀ``, ``S`` the
    signs of the residuals. Rows without a violation take no part.
    """
    signs = np.sign(residual)
    violated = np.flatnonzero(signs.any(axis=1))
    out = np.zeros_like(residual)
    if len(violated):
        s = signs[violated]
        system = _regularised(gram[np.ix_(violated, violated)] * (s @ s.T), rho[violated])
        amount = np.linalg.solve(system, np.abs(residual[violated]).max(axis=1))
        out[violated] = amount[:, None] * s
    return out


def _regularised(gram: Array, rho: Array) -> Array:
    """Return the system of a block, solvable also when ``ρ`` is 0 and two rows are the same.

    The Gram matrix has the rounding of float32, and so is the least that is added to its diagonal.
    """
    least = _JITTER * (float(gram.diagonal().max()) or 1.0)
    return np.asarray(gram + np.diag(np.maximum(rho, least)))
