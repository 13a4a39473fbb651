"""Projections onto random binning features: a coefficient for every cell, learned faster while it is new.

An event falls into one cell of each of ``G`` grids (:mod:`streamk.features.columns.cells`), and the outputs
are the sums of the coefficients of its cells. A step removes the residual ``r`` by Kaczmarz's projection in a
norm in which coefficients of frequent cells are heavier::

    A_c ← A_c + r ρ_c/(Σ_c ρ_c + κ G/w)          ρ_c = 1/√(1 + n_c/10)

``n_c`` counts the events of a cell, ``w`` is the weight of the event, and the sum runs over its cells.

Effects of inputs on sales, loads or prices often multiply, and their targets have a long upper tail. So
numbers may be learned as *logarithms*: with ``y`` in deviations from 0, not from the mean ``ȳ``, coefficients
learn::

    l(y) − l(ȳ)          l(y) = sgn(y) log(1 + |y|/0.05)

and the output is ``l⁻¹`` of their sum and ``l(ȳ)``, standardised.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator, Sequence
from typing import Self

import numpy as np
from numba import njit

from streamk.arrays import Array, Floats, Integers
from streamk.compiling import INNER, both
from streamk.dispatch import implements
from streamk.encoding.codec import Unit
from streamk.encoding.scaling import MEAN, spread
from streamk.encoding.targets import MOST_WEIGHT
from streamk.experts.expert import (
    FINAL,
    ITERATE,
    Expert,
    Merge,
    count_step,
    evaluate,
    step,
)
from streamk.losses import residuals
from streamk.state import Field, Stateful
from streamk.vector.cells import CELLS
from streamk.vector.linear_algebra import LARGEST_COEFFICIENT

_RIDGE = 0.05  # ``κ``
_FADES = 0.1  # of a count, in the denominator of ``ρ``
_SMALL = 0.05  # deviations from 0 below which logarithms are almost linear
_LARGEST = 69.0  # of a logarithm


Cells = namedtuple("Cells", "first coefficients counts clock loss scratch cells target logarithms")


class Binning(Expert):
    """Coefficients of cells.

    Parameters
    ----------
    loss
        As for :class:`streamk.experts.expert.Expert`.
    columns
        The columns that hold the cells of an event.
    target
        The codec's statistics of a number to predict, ``(1, n)``; None for classes.
    logarithms
        Whether coefficients learn logarithms.

    Attributes
    ----------
    counts
        Events in each cell; all 0 again in a closed learner.
    """

    rule = "binning"
    record_type = Cells

    def __init__(self, loss: int, columns: slice, target: Array | None, logarithms: bool = False) -> None:
        super().__init__(loss, columns=columns)
        self.target, self.logarithms = target, logarithms
        self.counts: Floats = np.zeros(CELLS, dtype=np.float32)
        grids = columns.stop - columns.start
        self.scratch, self.cells = np.zeros(grids, dtype=np.float32), np.zeros(grids, dtype=np.uint32)

    def columns_of(self, width: int) -> int:
        """Return the number of cells."""
        return CELLS

    def within(self, columns: slice) -> bool:
        """Return False: cells do not depend on relevance."""
        return False

    def rearrange(self, places: Integers) -> None:
        """Keep the cells, which are the same in all maps of one seed."""

    def close(self) -> None:
        """Forget how often each cell was met."""
        self.counts[:] = 0.0

    def merge_from(self, experts: Sequence[Self], merge: Merge) -> None:
        """Become the merge: each coefficient is the mean, weighted by the events in its cell.

        Logarithms relative to the mean do not depend on the unit of the target.
        """
        if self.logarithms:
            merge = merge._replace(columns=[(rows, Unit(1.0, 0.0)) for rows, _ in merge.columns])
        super().merge_from(experts, merge)
        _, columns, counts = merge
        times = counts or [1.0] * len(experts)
        counted = np.array([expert.counts for expert in experts], dtype=np.float64)
        since = counted - (0.0 if counts is None else counted[-1])
        total = since.sum(axis=0)
        met = total > 0.0
        mean = np.zeros(self.coefficients.shape)
        for expert, events, (rows, unit) in zip(experts, since, columns, strict=True):
            mean[0, rows] += unit.scale * expert.coefficients[0, : len(rows)] * events
        mean = mean[:, :, met] / total[met]
        self.coefficients[:, :, met] = np.clip(mean, -LARGEST_COEFFICIENT, LARGEST_COEFFICIENT)
        self.counts[:] = np.maximum(np.array(times) @ counted, 0.0)

    def fields(self) -> Iterator[Field | Stateful]:
        """Yield coefficients and clock, and the counts of cells that were met."""
        yield from super().fields()
        yield Field("counts", "counts of cells", 0.0, MOST_WEIGHT, used="met", default=0.0)


@implements(evaluate, Cells)
def _evaluate(expert, e, phi, i, outputs):
    coefficients, cells = expert.coefficients, expert.cells
    grids = _cells_of(expert, phi, i)
    for k in range(outputs.shape[2]):
        one = two = three = four = np.float32(0.0)
        for g in range(0, grids, 4):  # four sums, so that no addition waits for the last
            one += coefficients[ITERATE, k, cells[g]]
            two += coefficients[ITERATE, k, cells[g + 1]]
            three += coefficients[ITERATE, k, cells[g + 2]]
            four += coefficients[ITERATE, k, cells[g + 3]]
        total = np.float32((one + two) + (three + four))
        outputs[e, ITERATE, k] = total
        outputs[e, FINAL, k] = _output_of(expert.target, expert.logarithms, total)


@implements(step, Cells)
def _step(expert, e, observation):
    phi, i, outputs, aim, known, weight, residual = observation
    wanted = _wanted(expert.target, expert.logarithms, aim)
    length = residuals(expert.loss, outputs[e, ITERATE, :known], wanted, residual[:known])
    coefficients, counts = expert.coefficients, expert.counts
    cells, rates = expert.cells, expert.scratch
    grids, total = _cells_of(expert, phi, i), 0.0
    for g in range(grids):
        rates[g] = counts[cells[g]]
    for g in range(grids):  # as vectors, which reads of cells are not
        rates[g] = np.float32(1.0) / np.sqrt(np.float32(1.0) + np.float32(_FADES) * rates[g])
    for g in range(grids):
        total += rates[g]
    whole = length * total + _RIDGE * grids / weight
    for k in range(known):
        if residual[k] != 0.0:
            gain = np.float32(residual[k] / whole)
            for g in range(grids):
                coefficients[ITERATE, k, cells[g]] += gain * rates[g]
    for g in range(grids):
        counts[cells[g]] += np.float32(weight)
    count_step(expert.clock, coefficients)


@njit(**INNER)
def _wanted(target, logarithms, aim):
    """Return what coefficients learn: a class, a standardised number or its logarithm."""
    if target is None:
        return aim
    return relative_logarithm(aim, _mean_of(target)) if logarithms else aim


@njit(**INNER)
def _output_of(target, logarithms, total):
    """Return the output, standardised, of a sum of coefficients."""
    if target is None:
        return total
    return np.float32(without_logarithm(total, _mean_of(target))) if logarithms else total


@njit(**INNER)
def _mean_of(target):
    """Return the mean target, in deviations from 0."""
    deviation = spread(target, 0)
    return target[0, MEAN] / deviation if deviation > 0.0 else 0.0


@both()
def relative_logarithm(z, mean):
    """Return ``l(y) − l(ȳ)`` of a standardised number ``z``, the mean target being ``mean`` deviations.

    Examples
    --------
    >>> float(relative_logarithm(0.0, 3.0)), round(relative_logarithm(1.0, 3.0), 3)
    (0.0, 0.284)
    """
    return _logarithm(z + mean) - _logarithm(mean)


@both()
def without_logarithm(relative, mean):
    """Return the standardised number ``z`` of a relative logarithm.

    Examples
    --------
    >>> round(without_logarithm(relative_logarithm(1.25, 3.0), 3.0), 6)
    1.25
    """
    whole = min(max(np.float64(relative) + _logarithm(mean), -_LARGEST), _LARGEST)
    return np.sign(whole) * _SMALL * np.expm1(abs(whole)) - mean


@njit(**INNER)
def _logarithm(y):
    return np.sign(y) * np.log1p(abs(y) / _SMALL)


@njit(**INNER)
def _cells_of(expert, phi, i):
    """Note the cells of row ``i``; return how many there are."""
    cells, first = expert.cells, np.uint64(expert.first)
    for g in range(cells.shape[0]):
        cells[g] = np.uint32(np.int32(phi[i, first + np.uint64(g)])) & np.uint32(CELLS - 1)
    return cells.shape[0]
