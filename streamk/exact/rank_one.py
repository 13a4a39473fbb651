"""Columns of a kernel matrix as rank-one kernels, and their inner products."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from streamk.arrays import Array, Floats, Places
from streamk.encoding.rows import slices
from streamk.exact.gram import gram_of
from streamk.kernels import Kernel
from streamk.threads import one_blas_thread

_PIECE = 2048  # events whose rows of the columns are held at once
_SMALLEST = float(np.finfo(np.float32).tiny)


class WeightedColumns:
    """The weighted columns ``c_m`` of a data set.

    Parameters
    ----------
    kernel, bandwidth
        ``k``.
    X
        Dense rows ``(n, d)``.
    chosen
        The events whose columns these are, ``(M,)``.
    weights
        Of the events, ``(n,)``, from 0 to 1.
    """

    def __init__(self, kernel: Kernel, bandwidth: float, X: Floats, chosen: Places, weights: Array) -> None:
        self.kernel, self.bandwidth, self.X, self.chosen = kernel, bandwidth, X, chosen
        self._roots = np.sqrt(weights).astype(np.float32)
        self.scales = np.array([self._scale(each) for each in chosen])

    def __len__(self) -> int:
        return len(self.chosen)

    def _scale(self, event: int) -> float:
        """Return ``1/√k(x, x)``; 0 for an event whose column is 0."""
        row = self.X[event : event + 1].astype(np.float64)
        square = float(self.kernel(row, row, self.bandwidth)[0, 0])
        return 1.0 / float(np.sqrt(square)) if square >= _SMALLEST else 0.0

    def block(self, rows: slice, places: slice) -> Floats:
        """Return rows of the columns at ``places``."""
        columns = self.kernel.block(self.X[rows], self.X[self.chosen[places]], self.bandwidth)
        columns *= self.scales[places].astype(np.float32)
        columns *= self._roots[rows, None]
        return columns

    def column(self, place: int) -> Array:
        """Return one column, ``(n,)``."""
        return self.block(slice(None), slice(place, place + 1))[:, 0].astype(np.float64)

    def weighted(self, targets: Array) -> Array:
        """Return targets ``(n, K)`` with the weights that the columns have."""
        return np.asarray(targets * self._roots[:, None].astype(np.float64))

    def products(self, goal: Array) -> tuple[Array, Array]:
        """Return products of columns with each other, ``(M, M)``, and with weighted targets, ``(M, K)``."""
        gram, goals = np.zeros((len(self), len(self))), np.zeros((len(self), goal.shape[1]))
        for part in slices(len(self.X), _PIECE):
            ours, theirs = gram_of(self.block(part, slice(None)), goal[part])
            gram += ours
            goals += theirs
        return gram, goals

    def products_with(self, goal: Array) -> Array:
        """Return the products of columns with weighted targets alone, ``(M, K)``."""
        goals = np.zeros((len(self), goal.shape[1]))
        for part in slices(len(self.X), _PIECE):
            for places in slices(len(self), _PIECE):
                piece = self.block(part, places).astype(np.float64)
                with one_blas_thread():
                    goals[places] += piece.T @ goal[part]
        return goals


class KeptBases:
    """All inner products, made beforehand: ``gram`` ``(M, M)``, ``goals`` ``(M,)``, ``energy = yᵀy``."""

    def __init__(self, gram: Array, goals: Array, energy: float) -> None:
        self._gram, self.goals, self.energy = gram, goals, energy

    def products(self, place: int, places: Places) -> tuple[Array, float]:
        """Return ``Cᵀc`` and ``cᵀc``."""
        row = self._gram[place]
        return row[places], float(row[place])

    def gram(self, places: Places) -> Array:
        """Return ``CᵀC``."""
        return self._gram[np.ix_(places, places)]


class MadeBases:
    """Columns computed when they are used; only those whose weights are not 0 are stored (section 4.2)."""

    def __init__(self, make: Callable[[int], Array], goals: Array, energy: float) -> None:
        self._make, self.goals, self.energy = make, goals, energy
        self._held: dict[int, Array] = {}

    def products(self, place: int, places: Places) -> tuple[Array, float]:
        """Return ``Cᵀc`` and ``cᵀc``, and let go of the columns whose weights are 0 by now."""
        kept = places.tolist()
        column = self._held[place] if place in self._held else self._make(place)
        self._held = {each: self._held[each] for each in kept} | {place: column}
        return np.array([self._held[each] @ column for each in kept]), float(column @ column)

    def gram(self, places: Places) -> Array:
        """Return ``CᵀC``."""
        C = np.array([self._held[each] for each in places.tolist()]).reshape(len(places), -1)
        return np.asarray(C @ C.T)
