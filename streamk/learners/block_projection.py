"""The Kaczmarz projection onto a block of rows, by its Gram matrix.

With residuals ``R`` (``m × K``) on a row block ``Φ`` (``m × F``), the coefficients move by the least
amount, in the norm regularised by ``ρ``, that explains the residuals::

    A ← A + Φᵀ (ΦΦᵀ + ρF W⁻¹)⁻¹ R            W = diag(sample weights)

(Andrecut 2016, §3.2, in the primal).
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from streamk.expansion import Expansion
from streamk.features.products import one_blas_thread, products_on_threads, tiles_of
from streamk.learners.blocks import Gathered, features_by_tile, total
from streamk.learners.events import EVENTS, LOSS, MEMORY, RHO, STEPS
from streamk.losses import MARGIN, residuals
from streamk.schedules import averaging_weight, regularization_at

Array = NDArray[np.float64]
Floats = NDArray[np.float32]
_JITTER = 1e-6
LARGEST_RIDGE = 1e100  # of a row with next to no weight


def project_block(e: Expansion, block: Gathered) -> None:
    """Project every expert's coefficients onto one block of events."""
    features = features_by_tile(e, block.rows, block.statistics)

    def look(tile: slice) -> tuple[Floats, Floats, Floats]:
        phi = features(tile)
        return phi, phi @ phi.T, phi @ e.coefficients[:, :, :, tile].transpose(0, 1, 3, 2)

    tiles = tiles_of(e.width)
    seen = products_on_threads(look, tiles)
    gram = total(gram for _, gram, _ in seen).astype(np.float64)
    outputs = total(outputs for _, _, outputs in seen)
    changes = []
    for expert, rule in enumerate(block.rules):
        aims = block.aims(expert, outputs[expert, -1])
        residual = residuals_of(int(rule[LOSS]), outputs[expert, 0], aims, block.outputs)
        solve = margin_multipliers if rule[LOSS] == MARGIN else multipliers
        with one_blas_thread():
            changes.append(solve(gram, residual, ridges(rule, block, e.features)).astype(np.float32))
    weight = np.float32(averaging_weight(block.state[STEPS] + 1.0))

    def move(job: tuple[slice, Floats]) -> None:
        tile, phi = job
        for expert, change in enumerate(changes):
            sets = e.coefficients[expert, :, :, tile]
            sets[0] += change.T @ phi
            if len(sets) > 1:
                sets[1] += weight * (sets[0] - sets[1])

    products_on_threads(move, [(tile, phi) for tile, (phi, _, _) in zip(tiles, seen, strict=True)])


def residuals_of(loss: int, outputs: Floats, aims: Array, known: int) -> Array:
    """Return the residual of every row, ``(m, K)``; outputs not yet known have none."""
    out = np.zeros(outputs.shape)
    _residuals(loss, outputs, aims, known, out)
    return out


def ridges(rule: Array, block: Gathered, features: int) -> Array:
    """Return ``ρ_t F/w`` of every row."""
    rho = regularization_at(rule[RHO], rule[MEMORY], block.state[EVENTS]) * features
    with np.errstate(over="ignore"):
        return np.asarray(np.minimum(rho / block.weights, LARGEST_RIDGE))


@njit(cache=True, error_model="numpy")
def _residuals(loss, outputs, aims, known, out):  # type: ignore[no-untyped-def]
    for i in range(outputs.shape[0]):
        residuals(loss, outputs[i, :known], aims[i], out[i, :known])


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
