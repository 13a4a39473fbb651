"""The inverse of a growing information matrix, kept as ``P = U D Uᵀ`` (Bierman 1976).

``U`` has ones on its diagonal and zeros below, ``D`` is positive and only shrinks, so ``P`` stays symmetric
and positive however many events come, where the textbook's ``P − k kᵀ`` loses both to rounding. The columns
of ``U`` above the diagonal stand one after the other, each filled up with zeros to a multiple of 16.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numba import njit
from numpy.typing import NDArray

from streamk.compiling import INNER, both
from streamk.experts.columns import BLOCK, inner_product, turn_column, update_columns
from streamk.features.lanes import LANES, zeros_aligned

Array = NDArray[np.float64]
_JITTER = 1e-12  # of the trace
_LEAST_NOISE, _LARGEST_NOISE = 1e-12, 1e100  # of an event with all the weight, and with next to none


def factor_size(size: int) -> int:
    """Return how many numbers a packed factor of so many columns has."""
    return sum(-(-j // LANES) * LANES for j in range(size))


def empty_factor(size: int) -> Array:
    """Return the packed factor of the identity, aligned: vectors are read fastest within a line."""
    return zeros_aligned(factor_size(size))


def _columns(size: int) -> Iterator[tuple[int, slice]]:
    """Yield every column of ``U`` and its place in the packed factor."""
    at = 0
    for j in range(size):
        yield j, slice(at, at + j)
        at += -(-j // LANES) * LANES


def unpacked(factor: Array, size: int) -> Array:
    """Return ``U``, ``(size, size)``."""
    upper = np.eye(size)
    for j, place in _columns(size):
        upper[:j, j] = factor[place]
    return upper


def information(diagonal: Array, factor: Array) -> Array:
    """Return ``P⁻¹ = U⁻ᵀ D⁻¹ U⁻¹``."""
    from scipy.linalg import solve_triangular

    size = len(diagonal)
    inverse = solve_triangular(unpacked(factor, size), np.eye(size), unit_diagonal=True)
    return np.asarray(inverse.T @ (inverse / diagonal[:, None]))


def of_information(matrix: Array) -> tuple[Array, Array]:
    """Return ``D`` and the packed ``U`` of the inverse of a symmetric positive matrix.

    With ``P⁻¹ = L Lᵀ`` the upper triangle ``L⁻ᵀ`` is ``U √D``.
    """
    from scipy.linalg import solve_triangular

    size = len(matrix)
    upper = solve_triangular(np.linalg.cholesky(matrix), np.eye(size), lower=True).T
    lengths = upper.diagonal()
    factor = empty_factor(size)
    for j, place in _columns(size):
        factor[place] = upper[:j, j] / lengths[j]
    return lengths**2, factor


def is_positive(gram: Array) -> bool:
    """Return whether the lower triangle is that of a Gram matrix that can be solved for."""
    from scipy.linalg import cho_factor

    try:
        cho_factor(solvable(gram), lower=True)
    except (ValueError, np.linalg.LinAlgError):
        return False
    return bool((gram.diagonal() > 0.0).all())


def solvable(gram: Array) -> Array:
    """Return the matrix with what the rounding of its largest numbers may have taken from the smallest."""
    return gram + _JITTER * float(np.trace(gram)) * np.eye(len(gram))


@njit(**INNER)
def noise_of(weight):
    """Return the variance of an event of this weight, kept where a factor can hold it."""
    return min(max(1.0 / weight, _LEAST_NOISE), _LARGEST_NOISE)


@both()
def update(diagonal, factor, x, noise, gain):
    """Add an event to the information; return ``noise + xᵀPx``.

    Parameters
    ----------
    diagonal, factor
        ``D`` and ``U``; changed.
    x
        The event's features, float64, filled up with zeros to a multiple of 16.
    noise
        The inverse of the event's weight.
    gain
        As long as ``x`` and 0; becomes ``Px``, with ``P`` as it was.
    """
    size, left, j, at = diagonal.shape[0], noise, 0, 0
    while j < size:
        vectors = (j + LANES - 1) // LANES
        if j % BLOCK == 1 and j + BLOCK <= size:  # they have equally many vectors
            left = update_columns(diagonal, factor, x, gain, j, at, vectors, left)
            j += BLOCK
            at += BLOCK * vectors * LANES
        else:
            f = x[j] + inner_product(factor, at, x, vectors)
            g = diagonal[j] * f
            before = left
            left = before + f * g
            diagonal[j] *= before / left
            turn_column(factor, at, gain, vectors, -f / before, g)
            gain[j] = g
            j += 1
            at += vectors * LANES
    return left
