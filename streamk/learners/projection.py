"""The Kaczmarz projection onto one row, compiled: ``A ← A + φ r/(φᵀφ + ρF/w)``.

The least change of ``A``, in the norm regularised by ``ρ``, that explains the residual ``r`` of an event of
weight ``w``. ``ρ`` is multiplied by ``F`` so that it is in units of the kernel, whatever the features.
Blocks of rows are the business of :mod:`streamk.learners.block_projection`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from streamk.expansion import accumulate
from streamk.inner_product import inner_product


@njit(cache=True, error_model="numpy")
def project(coefficients, first, phi, i, length, residual, rho):  # type: ignore[no-untyped-def]
    """Project every output's coefficients onto one row's equation, in place.

    ``A_k ← A_k + φ_i r_k/(length · φ_iᵀφ_i + ρ)``, where ``A_k`` is row ``first + k`` of ``coefficients``
    (float32), ``residual`` is ``(K,)`` float64, ``length`` the squared length of the step's direction in
    units of ``φᵀφ`` (2 for a margin, which moves two outputs), and ``rho`` is ``ρF/w``.
    """
    whole = length * np.float64(inner_product(phi, i, phi, i)) + rho
    for k in range(residual.shape[0]):
        if residual[k] != 0.0 and whole > 0.0:
            accumulate(coefficients, first + k, np.float32(residual[k] / whole), phi, i)
