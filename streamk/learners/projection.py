"""The Kaczmarz projection: one row at a time in compiled code, a block of rows by its Gram matrix.

With residuals ``R`` (``m × K``) on a row block ``Φ`` (``m × F``), the coefficients move by the least
amount, in the norm regularised by ``ρ``, that explains the residuals::

    A ← A + Φᵀ (ΦΦᵀ + ρF W⁻¹)⁻¹ R            W = diag(sample weights)

(Andrecut 2016, §3.2, in the primal). One row is ``A ← A + φ r/(φᵀφ + ρF/w)``. ``ρ`` is multiplied by
``F`` so that it is in units of the kernel, whatever the number of features.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from streamk.expansion import accumulate
from streamk.inner_product import inner_product

_JITTER = 1e-6


@njit(cache=True, error_model="numpy")
def project(coefficients, first, phi, i, length, residual, rho):  # type: ignore[no-untyped-def]
    """Project every output's coefficients onto one row's equation, in place.

    ``A_k ← A_k + φ_i r_k/(length · φ_iᵀφ_i + ρ)``, where ``A_k`` is row ``first + k`` of ``coefficients``
    (float32), ``residual`` is ``(K,)`` float64, ``length`` the squared length of the step's direction in
    units of ``φᵀφ`` (2 for a margin, which moves two outputs), and ``rho`` is ``ρF/w``.
    """
    norm = length * np.float64(inner_product(phi, i, phi, i))
    for k in range(residual.shape[0]):
        if residual[k] != 0.0:
            accumulate(coefficients, first + k, np.float32(residual[k] / (norm + rho)), phi, i)


def multipliers(
    gram: NDArray[np.float64], residual: NDArray[np.float64], rho: NDArray[np.float64]
) -> NDArray[np.float64]:
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


def margin_multipliers(
    gram: NDArray[np.float64], residual: NDArray[np.float64], rho: NDArray[np.float64]
) -> NDArray[np.float64]:
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


def _regularised(gram: NDArray[np.float64], rho: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the system of a block, solvable also when ``ρ`` is 0 and two rows are the same.

    The Gram matrix has the rounding of float32, and so is the least that is added to its diagonal.
    """
    return gram + np.diag(np.maximum(rho, _JITTER * gram.diagonal().max()))
