"""Cross moments of targets with products of two inputs: relevance before the model is trained.

The gradients of an untrained model carry no information on relevance, and among many irrelevant inputs the
model may never learn. Stein's identity needs no model: for normal inputs ``z`` and a target ``t``,

    g = E[∇t] = E[t z]              H = E[∇² t] = E[t (z zᵀ − I)]

so ``g gᵀ + H²`` is large in directions that change the target, alone or with others (principal Hessian
directions; Li 1992). Here ``g`` and ``H`` are central moments of the inputs in deviations, clipped to ±3 so
that a few outliers do not dominate. Every entry is shrunk towards 0 by one standard error, computed for
independent inputs and target. The targets are the standardised number, or an indicator for each of the first
32 classes; their matrices add up.

Inputs have the columns of :mod:`streamk.features.columns.plain`; the first is the constant 1, so ``Σ z zᵀ``
and ``Σ t z zᵀ`` hold all sums. A present number is 1 + its deviations (:mod:`streamk.encoding.scaling`),
which does not affect central moments.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Self

import numpy as np
from numba import njit

from streamk.arrays import AnyArray, Array, Arrays
from streamk.compiling import INNER
from streamk.encoding.codec import Unit
from streamk.features.columns.plain import column_of
from streamk.state import Field, Stateful
from streamk.threads import one_blas_thread
from streamk.vector.linear_algebra import add_products_to

MOST = 64  # columns with relevance, including the constant's
_TARGETS = 32
_FIRST = 100  # events before the first, until scales are stable
_CLIP = 3.0
_LEAST = 1e-6  # minimum variance of an input
_LARGEST = 1e100


class CrossMoments(Stateful):
    """Sums over the events of one stream.

    Attributes
    ----------
    sums
        ``(1 + K, 64, 64)``: of ``z zᵀ``, then of ``t z zᵀ`` for each target; the lower triangles.
    squares
        ``(K,)``: of ``t²``.
    used
        Columns in use, including the constant's; others are not stored.
    """

    def __init__(self) -> None:
        self.sums: Array = np.zeros((1, MOST, MOST))
        self.squares: Array = np.zeros(0)
        self.used = MOST

    def grow(self, targets: int) -> None:
        """Resize for so many targets, up to 32."""
        more = min(targets, _TARGETS) - len(self.squares)
        if more > 0:
            self.sums = np.concatenate([self.sums, np.zeros((more, MOST, MOST))])
            self.squares = np.concatenate([self.squares, np.zeros(more)])

    def fade(self, kept: float) -> None:
        """Multiply all sums by a factor."""
        self.sums *= kept
        self.squares *= kept

    @property
    def variance(self) -> float:
        """The sum of the variances of all targets."""
        events = max(self.sums[0, 0, 0], 1.0)
        means: Array = self.sums[1:, 0, 0] / events
        return float((self.squares / events - means**2).sum())

    def variances(self, used: slice) -> Array:
        """Return the variances of the columns ``used``, 1 before there are two events."""
        events = self.sums[0, 0, 0]
        if events < 2.0:
            return np.ones(len(range(*used.indices(MOST))))
        squares, mean = self.sums[0].diagonal()[used] / events, self.sums[0, used, 0] / events
        return np.asarray(np.maximum(squares - mean**2, 0.0))

    def outer(self, used: slice) -> Array:
        """Return ``Σ g gᵀ + H²`` over all targets, for the columns ``used``."""
        events = self.sums[0, 0, 0]
        size = len(range(*used.indices(MOST)))
        if events < 2.0:
            return np.zeros((size, size))
        whole = _mirrored(self.sums) / events
        mean, products = whole[0, 0, used], whole[0, used, used]
        covariance = products - np.outer(mean, mean)
        variance = covariance.diagonal()
        unit = np.where(variance > _LEAST, 1.0 / np.sqrt(np.maximum(variance, _LEAST)), 0.0)
        total = np.zeros((size, size))
        for sums, square in zip(whole[1:], self.squares / events, strict=True):
            target, with_input = sums[0, 0], sums[0, used]
            slope = with_input - target * mean
            crossed = np.outer(mean, with_input)
            hessian = sums[used, used] - target * products - crossed - crossed.T
            hessian += 2.0 * target * np.outer(mean, mean)
            error = np.sqrt(max(square - target * target, 0.0) / events)
            g = _shrunk(slope * unit, error)
            h = _shrunk(hessian * np.outer(unit, unit), error * np.sqrt(1.0 + np.eye(size)))
            with one_blas_thread():
                total += np.outer(g, g) + h @ h
        return total

    def merge_from(
        self, other: Self, columns: tuple[list[int], list[int]], targets: Sequence[int], unit: Unit
    ) -> None:
        """Add the sums of another learner.

        Parameters
        ----------
        other
            Its moments.
        columns
            Of the common inputs, in this learner and in the other.
        targets
            Indices of its targets in this learner.
        unit
            Its targets in the scale of this learner, ``scale · t + offset``.
        """
        here, there = (np.array([0, *places]) for places in columns)
        whole = _mirrored(other.sums)[:, there[:, None], there]
        self.grow(1 + max(targets, default=-1))
        added = np.zeros_like(self.sums)
        added[0][np.ix_(here, here)] = whole[0]
        for sums, square, to in zip(whole[1:], other.squares, targets, strict=False):
            if to < len(self.squares):
                added[1 + to][np.ix_(here, here)] = unit.scale * sums + unit.offset * whole[0]
                self.squares[to] += (
                    unit.scale**2 * square
                    + 2.0 * unit.scale * unit.offset * sums[0, 0]
                    + unit.offset**2 * whole[0, 0, 0]
                )
        self.sums = np.clip(self.sums + np.tril(added), -_LARGEST, _LARGEST)
        np.minimum(self.squares, _LARGEST, out=self.squares)

    def fields(self) -> Iterator[Field]:
        """Yield the sums of columns in use; none before the first event."""
        lower = (slice(None), *np.tril_indices(self.used))
        bounds = -_LARGEST, _LARGEST
        yield Field("map.products", "moments", *bounds, attribute="sums", part=lower, default=0.0)
        if np.nan_to_num(self.sums).any():
            yield Field("map.squares", "moments", 0.0, _LARGEST)

    def load_state_dict(self, arrays: Arrays) -> None:
        """Load the arrays of a model file, of as many targets as it has."""
        if "map.squares" in arrays:
            self.grow(len(arrays["map.squares"]))
        super().load_state_dict(arrays)


def _mirrored(sums: Array) -> Array:
    """Return symmetric matrices of their lower triangles."""
    return sums + np.tril(sums, -1).transpose(0, 2, 1)


def _shrunk(values: Array, by: AnyArray | float) -> Array:
    return np.asarray(np.sign(values) * np.maximum(abs(values) - by, 0.0))


@njit(**INNER)
def add_products(sections, scratch, i, events, target, aim, weight):
    """Add row ``i`` of inputs, with value ``aim`` of target ``target``."""
    if sections is not None and sections.learned and events >= _FIRST:
        inputs, keys, count, unit = scratch.inputs, scratch.keys, scratch.counts[i], scratch.units[i]
        places, values, known = np.zeros(count + 1, dtype=np.int64), np.zeros(MOST), 1
        values[0] = 1.0
        for j in range(count):
            column = column_of(sections.columns, sections.places, keys[i, j], False)
            if 0 < column < MOST:
                places[known] = column
                values[column] = min(max(np.float64(inputs[0, i, j]) / unit, 1.0 - _CLIP), 1.0 + _CLIP)
                known += 1
        followed = target < sections.squares.shape[0]
        if followed:
            sections.squares[target] += weight * aim * aim
        for j in range(known):
            row = places[j]
            add_products_to(sections.sums, row * MOST, values, row, weight)
            if followed:
                add_products_to(
                    sections.sums, (1 + target) * MOST * MOST + row * MOST, values, row, weight * aim
                )
