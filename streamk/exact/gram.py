"""Kernel matrices of many rows: Gram matrices, whose bits no number of threads changes, and cached rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamk.arrays import Array, Floats, Places
from streamk.encoding.rows import slices
from streamk.kernels import Kernel
from streamk.threads import on_threads, one_blas_thread

_PIECE = 2048  # rows whose products are summed at once
_TILE = 512  # columns
HELD = 2**28  # numbers of a matrix, in single precision: a gibibyte


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


class Similarities:
    """``K(X, Z)`` by rows; those of the first rows of ``X`` are stored, the others computed at every request.

    Parameters
    ----------
    kernel, bandwidth
        The kernel.
    X, Z
        Dense rows ``(n, d)`` and ``(p, d)``.
    held
        How many numbers are held at most.
    """

    def __init__(self, kernel: Kernel, bandwidth: float, X: Floats, Z: Floats, held: int = HELD) -> None:
        self._kernel, self._bandwidth, self._X, self._Z = kernel, bandwidth, X, Z
        self._known = np.zeros(min(len(X), held // max(1, len(Z))), dtype=bool)
        self._held = np.empty((len(self._known), len(Z)), dtype=np.float32)

    def rows(self, places: Places) -> Floats:
        """Return the rows at different places, ``(m, p)``."""
        here = places < len(self._known)
        here[here] = self._known[places[here]]
        out = np.empty((len(places), len(self._Z)), dtype=np.float32)
        out[here] = self._held[places[here]]
        made = places[~here]
        if len(made):
            out[~here] = self._kernel.block(self._X[made], self._Z, self._bandwidth)
            kept = ~here & (places < len(self._known))
            self._held[places[kept]] = out[kept]
            self._known[places[kept]] = True
        return out

    def part(self, part: slice) -> Floats:
        """Return consecutive rows, not to be written to."""
        if part.stop <= len(self._known) and self._known[part].all():
            return self._held[part]
        return self.rows(np.arange(part.start, part.stop))
