"""Recursive least squares on one block of features: each event costs ``F_b²``, and nothing is ever solved.

After events ``i = 1 … n`` of weights ``w_i``, the coefficients ``α`` of the block minimise, exactly,

    Σ_i w_i (r_i − φ_iᵀα)² + ridge · ‖α − α₀‖²

where ``r_i`` is what the rest of the expansion left of event ``i``, and ``α₀`` what the block began with.
With ``P = (Σ w φφᵀ + ridge I)⁻¹`` an event moves ``α`` by ``Pφ r/(1/w + φᵀPφ)`` and ``P`` by a matrix of
rank one.

``P`` is kept as ``U D Uᵀ`` (Bierman 1976): ``U`` has ones on its diagonal and zeros below, ``D`` is positive
and only shrinks, so ``P`` stays symmetric and positive however many events come, where the textbook's
``P − k kᵀ`` loses both to rounding. All of it is float64, the coefficients too: after millions of events a
step is smaller than half the last bit of a float32.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[np.float64]
_LEAST_NOISE, _LARGEST_NOISE = 1e-12, 1e100  # of an event with all the weight, and with next to none


class Active(NamedTuple):
    """The open block: columns ``first … first + F_b − 1`` of the expansion.

    ``diagonal`` is ``D`` (``F_b``), ``factor`` the columns of ``U`` above the diagonal, one after the other
    (``F_b (F_b − 1)/2``), ``weights`` the block's coefficients ``(K, F_b)``. ``projects`` says whether other
    blocks move too.
    """

    first: int
    projects: bool
    diagonal: Array
    factor: Array
    weights: Array


def opened(first: int, projects: bool, ridge: float, weights: Array) -> Active:
    """Return a block that has seen nothing: ``P = I/ridge``."""
    size = weights.shape[1]
    return Active(first, projects, np.full(size, 1.0 / ridge), np.zeros(size * (size - 1) // 2), weights)


def with_covariance(first: int, projects: bool, matrix: Array, weights: Array) -> Active:
    """Return a block whose ``P`` is a given symmetric positive matrix."""
    # U of P = (U √D)(U √D)ᵀ is the lower Cholesky factor of P with rows and columns in reverse
    upper = np.asarray(np.linalg.cholesky(matrix[::-1, ::-1])[::-1, ::-1], dtype=np.float64)
    lengths = upper.diagonal()
    rows, columns = np.tril_indices(len(matrix), -1)
    return Active(first, projects, lengths**2, (upper / lengths)[columns, rows], weights)


def covariance(active: Active) -> Array:
    """Return ``P = U D Uᵀ``, ``(F_b, F_b)``."""
    size = len(active.diagonal)
    upper = np.eye(size)
    rows, columns = np.tril_indices(size, -1)  # the packed columns of U are the rows of Uᵀ
    upper[columns, rows] = active.factor
    return (upper * active.diagonal) @ upper.T


@njit(cache=True, error_model="numpy")
def pursue(active, coefficients, first, phi, i, residual, weight):  # type: ignore[no-untyped-def]
    """Fit the open block to one event; return the share of the residual that is left.

    Parameters
    ----------
    active
        The open block; changed.
    coefficients, first
        Flat rows, those of the iterate from ``first`` on; the block's columns are changed.
    phi, i
        The event's features are row ``i``.
    residual, weight
        ``(K,)`` float64, and the event's weight.
    """
    diagonal, factor = active.diagonal, active.factor
    size = diagonal.shape[0]
    begin = active.first
    x, gain = np.empty(size), np.empty(size)
    for j in range(size):
        x[j] = phi[i, begin + j]
    noise = min(max(1.0 / weight, _LEAST_NOISE), _LARGEST_NOISE)
    left, at = noise, np.uint64(0)
    for j in range(size):
        f = x[j] + _inner(factor, at, x, j)
        g = diagonal[j] * f
        before = left
        left = before + f * g
        diagonal[j] *= before / left
        back = -f / before
        for k in range(np.uint64(j)):
            u, b = factor[at + k], gain[k]
            factor[at + k] = u + b * back
            gain[k] = b + u * g
        gain[j] = g
        at += np.uint64(j)
    for k in range(residual.shape[0]):
        if residual[k] != 0.0:
            step = residual[k] / left
            for j in range(size):
                active.weights[k, j] += gain[j] * step
                coefficients[first + k, begin + j] = np.float32(active.weights[k, j])
    return noise / left


@njit(cache=True, error_model="numpy")
def _inner(factor, at, x, count):  # type: ignore[no-untyped-def]
    """Return ``Σ_k factor[at + k] x[k]``: eight sums side by side, folded in halves, and the rest."""
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    whole = count - count % 8
    for k in range(0, whole, 8):
        a = at + np.uint64(k)
        s0 += factor[a] * x[k]
        s1 += factor[a + np.uint64(1)] * x[k + 1]
        s2 += factor[a + np.uint64(2)] * x[k + 2]
        s3 += factor[a + np.uint64(3)] * x[k + 3]
        s4 += factor[a + np.uint64(4)] * x[k + 4]
        s5 += factor[a + np.uint64(5)] * x[k + 5]
        s6 += factor[a + np.uint64(6)] * x[k + 6]
        s7 += factor[a + np.uint64(7)] * x[k + 7]
    result = ((s0 + s4) + (s2 + s6)) + ((s1 + s5) + (s3 + s7))
    for k in range(whole, count):
        result += factor[at + np.uint64(k)] * x[k]
    return result
