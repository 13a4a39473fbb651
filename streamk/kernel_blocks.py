"""Blocks of a kernel matrix in single precision: tiled, on several threads, and exact where rows nearly meet.

Inner products are matrix products of tiles. Squared distances are ``‖x‖² + ‖z‖² − 2 xᵀz`` about the mean of
the second rows; where that cancels, for a distance far below the lengths of the rows, it is the sum of
squared differences instead, so a row has distance 0 from itself. Every tile is one product on one thread, and
its shape depends on the shapes of the arguments alone: the number of threads never shows in a result.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import njit
from numpy.typing import NDArray

from streamk.arrays import Array, Floats
from streamk.compiling import ENTRY
from streamk.threads import on_threads, one_blas_thread

Profile = Callable[[Floats], Floats]
ROWS = 256  # of a matrix product
_NUMBERS = 131_072  # of which a function is taken at once, so that they stay near the processor
MOST = 1e15
_CANCELLED = 1e-3  # of the squared lengths


def inner_products(X: Floats, Z: Floats, profile: Profile) -> Floats:
    """Return ``profile(xᵢᵀzⱼ)``, shape ``(len(X), len(Z))``, held between ±10¹⁵.

    Only absurd inputs come so far, and products of such similarities still are numbers.
    """

    def held(tile: Floats) -> Floats:
        with np.errstate(over="ignore"):
            similarities = profile(tile)
        return np.clip(similarities, -MOST, MOST, out=similarities)

    def fill(part: slice, tile: Floats) -> None:
        np.matmul(X[part], Z.T, out=tile)

    return _tiles(X, Z, fill, held)


def distances(X: Floats, Z: Floats, profile: Profile) -> Floats:
    """Return ``profile(‖xᵢ − zⱼ‖₂)``, shape ``(len(X), len(Z))``."""
    if not (len(X) and len(Z)):
        return np.empty((len(X), len(Z)), dtype=np.float32)
    same = X is Z
    centre = Z.mean(axis=0, dtype=np.float64).astype(np.float32)
    Z = Z - centre
    X = Z if same else X - centre
    of_x, of_z = _squares(X), _squares(Z)

    def fill(part: slice, tile: Floats) -> None:
        np.matmul(X[part], Z.T, out=tile)
        _to_distances(X[part], Z, of_x[part], of_z, tile)

    return _tiles(X, Z, fill, profile)


def absolute_distances(X: Floats, Z: Floats, profile: Profile) -> Floats:
    """Return ``profile(Σ_k |x_ik − z_jk|)``, shape ``(len(X), len(Z))``."""
    columns = np.ascontiguousarray(Z.T)

    def fill(part: slice, tile: Floats) -> None:
        _absolute_distances(X[part], columns, tile)

    return _tiles(X, Z, fill, profile)


def as_floats(X: NDArray[np.floating]) -> Floats:
    """Return rows in single precision, one after the other in memory."""
    return np.ascontiguousarray(X, dtype=np.float32)


def _tiles(X: Floats, Z: Floats, fill: Callable[[slice, Floats], None], profile: Profile) -> Floats:
    """Return the matrix whose tiles of rows are filled, and then the function of them."""
    out = np.empty((len(X), len(Z)), dtype=np.float32)
    step = max(1, _NUMBERS // max(1, len(Z)))

    def work(start: int) -> None:
        part = slice(start, min(start + ROWS, len(X)))
        fill(part, out[part])
        for first in range(part.start, part.stop, step):
            piece = out[first : min(first + step, part.stop)]
            piece[:] = profile(piece)

    with one_blas_thread():
        on_threads(work, range(0, len(X), ROWS))
    return out


def _squares(X: Floats) -> Array:
    return np.asarray(np.einsum("ij,ij->i", X, X, dtype=np.float64))


@njit(nogil=True, **ENTRY)
def _to_distances(X, Z, of_x, of_z, tile):
    """Turn inner products into distances."""
    for i in range(tile.shape[0]):
        for j in range(tile.shape[1]):
            whole = of_x[i] + of_z[j]
            squared = whole - 2.0 * np.float64(tile[i, j])
            tile[i, j] = np.float32(squared)
        for j in range(tile.shape[1]):
            if not tile[i, j] > _CANCELLED * (of_x[i] + of_z[j]):
                squared = 0.0
                for k in range(X.shape[1]):
                    squared += (np.float64(X[i, k]) - np.float64(Z[j, k])) ** 2
                tile[i, j] = np.float32(squared)
        for j in range(tile.shape[1]):
            tile[i, j] = np.sqrt(tile[i, j])


@njit(nogil=True, **ENTRY)
def _absolute_distances(X, columns, tile):
    """Fill a tile with sums of absolute differences; ``columns`` are the second rows, transposed."""
    tile[:] = np.float32(0.0)
    for i in range(tile.shape[0]):
        for k in range(columns.shape[0]):
            value = X[i, k]
            for j in range(tile.shape[1]):
                tile[i, j] += abs(value - columns[k, j])
