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

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import njit
from numba.core import cgutils, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from streamk.expansion import LARGEST_COEFFICIENT
from streamk.features.lanes import (
    DOUBLE,
    LANES,
    at,
    data,
    fma,
    fold,
    load,
    spread,
    store,
    times,
    vector,
)

Array = NDArray[np.float64]
_LEAST_NOISE, _LARGEST_NOISE = 1e-12, 1e100  # of an event with all the weight, and with next to none


class Active(NamedTuple):
    """The open block: columns ``first … first + F_b − 1`` of the expansion.

    ``diagonal`` is ``D`` (``F_b``), ``factor`` the columns of ``U`` above the diagonal, one after the
    other, each filled up with zeros to a multiple of 16, ``weights`` the block's coefficients ``(K, F_b)``.
    ``projects`` says whether other blocks move too.
    """

    first: int
    projects: bool
    diagonal: Array
    factor: Array
    weights: Array


def opened(first: int, projects: bool, ridge: float, weights: Array) -> Active:
    """Return a block that has seen nothing: ``P = I/ridge``."""
    size = weights.shape[1]
    return Active(first, projects, np.full(size, 1.0 / ridge), np.zeros(factor_size(size)), weights)


def factor_size(size: int) -> int:
    """Return how many numbers a packed factor of so many columns has."""
    return sum(-(-j // LANES) * LANES for j in range(size))


def _columns(size: int) -> Iterator[tuple[int, slice]]:
    """Yield every column of ``U`` and its place in the packed factor."""
    at = 0
    for j in range(size):
        yield j, slice(at, at + j)
        at += -(-j // LANES) * LANES


def with_covariance(first: int, projects: bool, matrix: Array, weights: Array) -> Active:
    """Return a block whose ``P`` is a given symmetric positive matrix."""
    # U of P = (U √D)(U √D)ᵀ is the lower Cholesky factor of P with rows and columns in reverse
    upper = np.asarray(np.linalg.cholesky(matrix[::-1, ::-1])[::-1, ::-1], dtype=np.float64)
    lengths = upper.diagonal()
    factor = np.zeros(factor_size(len(matrix)))
    for j, place in _columns(len(matrix)):
        factor[place] = upper[:j, j] / lengths[j]
    return Active(first, projects, lengths**2, factor, weights)


def covariance(active: Active) -> Array:
    """Return ``P = U D Uᵀ``, ``(F_b, F_b)``."""
    size = len(active.diagonal)
    upper = np.eye(size)
    for j, place in _columns(size):
        upper[:j, j] = active.factor[place]
    return (upper * active.diagonal) @ upper.T


@intrinsic
def _inner_product(typing_context, factor, start, x, vectors):  # type: ignore[no-untyped-def]
    """Return ``Σ_k factor[start + k] x[k]`` over so many vectors: lane by lane in turn, then folded."""

    def generate(context, b, signature, arguments):  # type: ignore[no-untyped-def]
        column = at(b, data(context, b, signature, arguments, 0), arguments[1])
        other = data(context, b, signature, arguments, 2)
        zero = ir.Constant(vector(kind=DOUBLE), [0.0] * LANES)
        total = cgutils.alloca_once_value(b, zero)
        with cgutils.for_range(b, arguments[3]) as loop:
            k = times(b, loop.index, LANES)
            b.store(fma(b, load(b, at(b, column, k)), load(b, at(b, other, k)), b.load(total)), total)
        return fold(b, b.load(total))

    return types.float64(factor, types.intp, x, types.intp), generate


@intrinsic
def _turn_column(typing_context, factor, start, gain, vectors, back, g):  # type: ignore[no-untyped-def]
    """Turn a column ``u`` and the gain ``b`` over so many vectors: ``u ← u + b·back`` and ``b ← b + u·g``."""

    def generate(context, b, signature, arguments):  # type: ignore[no-untyped-def]
        column = at(b, data(context, b, signature, arguments, 0), arguments[1])
        gains = data(context, b, signature, arguments, 2)
        back, g = spread(b, arguments[4]), spread(b, arguments[5])
        with cgutils.for_range(b, arguments[3]) as loop:
            k = times(b, loop.index, LANES)
            u_place, b_place = at(b, column, k), at(b, gains, k)
            u, old = load(b, u_place), load(b, b_place)
            store(b, fma(b, old, back, u), u_place)
            store(b, fma(b, u, g, old), b_place)
        return context.get_dummy_value()

    n, number = types.intp, types.float64
    return types.void(factor, n, gain, n, number, number), generate


# Numba's annotations count the typing context among the arguments
_inner: Any = _inner_product
_turn: Any = _turn_column


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
    padded = (size + LANES - 1) // LANES * LANES
    x, gain = np.zeros(padded), np.zeros(padded)
    for j in range(size):
        x[j] = phi[i, begin + j]
    noise = min(max(1.0 / weight, _LEAST_NOISE), _LARGEST_NOISE)
    left, at = noise, 0
    for j in range(size):
        vectors = (j + LANES - 1) // LANES
        f = x[j] + _inner(factor, at, x, vectors)
        g = diagonal[j] * f
        before = left
        left = before + f * g
        diagonal[j] *= before / left
        _turn(factor, at, gain, vectors, -f / before, g)
        gain[j] = g
        at += vectors * LANES
    for k in range(residual.shape[0]):
        if residual[k] != 0.0:
            step = residual[k] / left
            for j in range(size):
                weight = active.weights[k, j] + gain[j] * step
                active.weights[k, j] = min(max(weight, -LARGEST_COEFFICIENT), LARGEST_COEFFICIENT)
                coefficients[first + k, begin + j] = np.float32(active.weights[k, j])
    return noise / left
