"""Gram matrices of many rows, whose bits no number of threads changes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamk.arrays import Array, Floats
from streamk.encoding.rows import slices
from streamk.threads import on_threads, one_blas_thread

_PIECE = 2048  # rows whose products are summed at once
_TILE = 512  # columns


def gram_of(columns: Floats, others: Array, precision: type = np.float64) -> tuple[Array, Array]:
    """Return ``CᵀC`` ``(m, m)`` and ``Cᵀ`` times other columns ``(m, K)``.

    Parameters
    ----------
    columns
        ``C``, ``(n, m)``.
    others
        ``(n, K)``.
    precision
        Of the products of 2,048 rows of ``CᵀC``; what they add up to is double. ``np.float32`` takes half the
        time, and rounds an eigenvalue of 0 to about 10⁻⁶ of the largest.
    """
    size = columns.shape[1]
    gram, products = np.zeros((size, size)), np.zeros((size, others.shape[1]))
    tiles = slices(size, _TILE)
    pairs = [(a, b) for k, a in enumerate(tiles) for b in tiles[: k + 1]]
    for part in slices(len(columns), _PIECE):
        exact = columns[part].astype(np.float64)
        piece = exact if precision is np.float64 else columns[part]

        def add(pair: tuple[slice, slice], piece: NDArray[np.floating] = piece) -> None:
            a, b = pair
            gram[a, b] += piece[:, a].T @ piece[:, b]

        with one_blas_thread():
            on_threads(add, pairs)
            products += exact.T @ others[part]
    for a, b in pairs:
        if a != b:
            gram[b, a] = gram[a, b].T
    return gram, products
