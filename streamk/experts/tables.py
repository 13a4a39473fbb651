"""Projections onto random binning features: tables of coefficients, learned faster where a cell is new.

An event falls into one cell of each of ``G`` grids (:mod:`streamk.features.columns.cells`), and an output is
the sum of the coefficients of its cells. A step removes the residual ``r`` by Kaczmarz's projection in a norm
in which coefficients of frequent cells are heavier::

    A_c ← A_c + r ρ_c/(Σ_c ρ_c + κ G/w)          ρ_c = (1 + n_c/10)^−p

``n_c`` counts the events of a cell, ``w`` is the weight of the event, and the sum runs over its cells. ``p``
is 1 if the plan separates the grids of each size, so that steps fall as those of means do, and ½ if not.

One table serves several experts, since reading a cell costs more than adding its numbers. A row holds the
count of a cell and, for every output, a coefficient for each of

* all grids;
* the grids with as many fields as its own, if the plan separates them: combinations of many fields are noise
  on some streams, and all that counts on others;
* for numbers, all grids that learn *logarithms* (:mod:`streamk.experts.logarithm`).

:class:`Tables` fills the outputs of all; those of the second and third kind have a :class:`Share` each in the
list of experts. Cells of different grids may share a row, but not if the plan separates them.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator, Sequence
from typing import ClassVar, Self

import numpy as np
from numba import njit

from streamk.arrays import Array, Arrays, Floats, Integers, padded
from streamk.compiling import INNER
from streamk.dispatch import implements
from streamk.encoding.targets import MOST_WEIGHT
from streamk.experts.expert import (
    COEFFICIENTS,
    EVENTS,
    FEW,
    FINAL,
    ITERATE,
    STEPS,
    Expert,
    Merge,
    evaluate,
    step,
)
from streamk.experts.logarithm import SMALL, mean_of, relative_logarithm, without_logarithm
from streamk.features.plans import GridPlan
from streamk.losses import residuals
from streamk.state import LARGEST_COUNT, Field, Live, Stateful
from streamk.vector.cells import BITS
from streamk.vector.lanes import aligned
from streamk.vector.linear_algebra import LARGEST_COEFFICIENT
from streamk.vector.tables import LANES, add_to_cells, fetch_cells, sum_cells

_RIDGE = 0.05  # ``κ``
_FADES = 0.1  # of a count, in the denominator of ``ρ``
_COUNT, _FIRST = 0, 1  # in a row: the count of the cell, and the coefficients of the first output


TableRecord = namedtuple(
    "TableRecord", "first coefficients clock loss parts kinds cells rates sums gains target"
)
ShareRecord = namedtuple("ShareRecord", "loss")


class Tables(Expert):
    """A table of coefficients of cells.

    Parameters
    ----------
    loss
        As for :class:`streamk.experts.expert.Expert`.
    columns
        The columns that hold the cells of an event.
    plan
        That of the grids.
    target
        The codec's statistics of a number to predict, ``(1, n)``; None for classes.

    Attributes
    ----------
    has_counts
        Whether a model file has counts: there are none in a closed learner.
    coefficients
        ``(cells, width)``: the count of events of a cell, all 0 again in a closed learner, and its
        coefficients, by output and kind.
    kinds
        Whether there are coefficients for grids of one size, and for logarithms; and whether the output of
        the second of two classes is that of the first with the other sign, so that it needs none.
    """

    rule = "tables"
    record_type: ClassVar[type] = TableRecord

    def __init__(self, loss: int, columns: slice, plan: GridPlan, target: Array | None) -> None:
        super().__init__(loss, columns=columns)
        self.plan, self.target, self.outputs = plan, target, 0
        self.kinds, self.has_counts = (plan.by_size, target is not None, False), False
        self.parts: Integers = np.ascontiguousarray(plan.parts[:, [0, 1, 3, 4]])
        self.parts[:, 3] = BITS - self.parts[:, 3]
        self.cells, self.rates = np.zeros(plan.grids, np.uint32), np.zeros(plan.grids, np.float32)
        self.coefficients = np.zeros((plan.cells, 0), dtype=np.float32)
        self.grow(1, 0, 0)

    @property
    def names(self) -> list[str]:
        """Names of the experts that the table serves, after the first."""
        sizes = [f"{size} field{'s' * (size > 1)}" for size in self.plan.fields] if self.kinds[0] else []
        return sizes + ["logarithms"] * self.kinds[1]

    def grow(self, outputs: int, features: int, width: int) -> None:
        """Resize to so many outputs; new coefficients are 0."""
        if outputs > self.outputs:
            halved, self.outputs = self.kinds[2], outputs
            self.kinds = *self.kinds[:2], self.target is None and outputs == 2
            width = -(-self.used // LANES) * LANES
            if width > self.coefficients.shape[1]:
                self.coefficients = aligned(padded(self.coefficients, (self.plan.cells, width)))
            if halved:
                self.separate(self.coefficients)
            self.sums: Floats = np.zeros((len(self.parts), width), dtype=np.float32)
            self.gains = np.zeros_like(self.sums)

    def separate(self, coefficients: Floats) -> None:
        """Fill the coefficients of the second class, in this table or a copy, which had only two so far."""
        if not self.kinds[2]:
            coefficients[:, self._of(1)] = 0.0 - coefficients[:, self._of(0)]  # no negative zeros

    @property
    def used(self) -> int:
        """How many numbers of a row are in use."""
        outputs = 1 if self.kinds[2] else self.outputs
        return _FIRST + (1 + sum(self.kinds[:2])) * outputs

    def _of(self, output: int) -> slice:
        """Return the places of the coefficients of an output."""
        each = 1 + sum(self.kinds[:2])
        return slice(_FIRST + each * output, _FIRST + each * (output + 1))

    def coefficients_of(self, output: int) -> Floats:
        """Return the coefficients of an output, ``(cells, kinds)``."""
        halved = self.kinds[2] and output > 0
        return 0.0 - self.coefficients[:, self._of(0)] if halved else self.coefficients[:, self._of(output)]

    def within(self, columns: slice) -> bool:
        """Return False: cells do not depend on relevance."""
        return False

    def rearrange(self, places: Integers) -> None:
        """Keep the cells, which are the same in all maps of one seed."""

    def close(self) -> None:
        """Forget how often each cell was met."""
        self.coefficients[:, _COUNT] = 0.0

    def merge_from(self, experts: Sequence[Self], merge: Merge) -> None:
        """Become the merge: each coefficient is the mean, weighted by the events in its cell.

        Where no part has met a cell since the base, that is the mean by shares. Logarithms relative to the
        mean do not depend on the unit of the target.
        """
        shares, columns, counts = merge
        times = counts or [1.0] * len(experts)
        counted = np.array([expert.coefficients[:, _COUNT] for expert in experts], dtype=np.float64)
        since = counted - (0.0 if counts is None else counted[-1])
        total = since.sum(axis=0)
        met, mean = total > 0.0, np.zeros(self.coefficients.shape)
        for expert, events, share, (rows, unit) in zip(experts, since, shares, columns, strict=True):
            part = np.where(met, events / np.where(met, total, 1.0), share)[:, None]
            scale = np.full(1 + sum(self.kinds[:2]), unit.scale)
            scale[-1] = 1.0 if self.kinds[1] else scale[-1]
            for k, row in enumerate(rows):
                if not (self.kinds[2] and row):
                    mean[:, self._of(row)] += part * scale * expert.coefficients_of(k)
        self.coefficients[:] = np.clip(mean, -LARGEST_COEFFICIENT, LARGEST_COEFFICIENT)
        self.coefficients[:, _COUNT] = np.maximum(np.array(times) @ counted, 0.0)
        clocks = np.array([expert.clock for expert in experts])
        self.clock[:] = clocks.sum(axis=0) if counts is None else np.array(times) @ clocks

    def fields(self) -> Iterator[Field | Stateful]:
        """Yield the rows of cells that were met, without counts if there are none, and the clock."""
        part = slice(None), slice(_COUNT if self.has_counts else _FIRST, self.used)
        most = np.full((self.used, 1), LARGEST_COEFFICIENT)
        most[_COUNT] = MOST_WEIGHT
        least, most = np.where(most == MOST_WEIGHT, 0.0, -most)[part[1]], most[part[1]]
        yield COEFFICIENTS._replace(least=least, most=most, part=part, used="used", few=FEW, by_row=True)
        yield Field("clock", "counters", 0.0, LARGEST_COUNT, whole=True)

    def state_dict(self) -> Arrays:
        """Return the arrays to store in a model file."""
        self.has_counts = bool((self.coefficients[:, _COUNT] > 0.0).any())
        return super().state_dict()

    def load_state_dict(self, arrays: Arrays) -> None:
        """Load the arrays of a model file; raise a ValueError if they are impossible."""
        self.has_counts = len(arrays["coefficients"]) == self.used
        self.close()
        super().load_state_dict(arrays)

    @property
    def live(self) -> Live:
        """The coefficients, without counts."""
        part = slice(None), slice(_FIRST, self.used)
        return [(COEFFICIENTS._replace(part=part, by_row=True), self.coefficients)]


class Share(Expert):
    """An expert whose coefficients are in the table before it, which fills its outputs."""

    rule = "share of a table"
    record_type = ShareRecord
    is_linear = False

    def __init__(self, loss: int) -> None:
        super().__init__(loss, columns=slice(0, 0))


@implements(evaluate, ShareRecord)
def _fill_nothing(expert, e, phi, i, outputs):
    pass


@implements(step, ShareRecord)
def _learn_nothing(expert, e, observation):
    pass


@implements(evaluate, TableRecord)
def _evaluate(expert, e, phi, i, outputs):
    sums, (by_size, logarithms, halved), parts = expert.sums, expert.kinds, expert.parts
    _find_cells(expert, phi, i)
    for p in range(parts.shape[0]):
        sum_cells(expert.coefficients, expert.cells, (p, parts[p, 0], parts[p, 1]), sums)
    last, each = e + (parts.shape[0] if by_size else 0), 1 + by_size + logarithms
    for k in range(1 if halved else outputs.shape[2]):
        at = _FIRST + each * k
        outputs[e, ITERATE, k] = _sum_of(sums, at)
        if by_size:
            for p in range(parts.shape[0]):
                outputs[e + 1 + p, ITERATE, k] = sums[p, at + 1]
        if logarithms:
            outputs[last + 1, ITERATE, k] = _sum_of(sums, at + each - 1)
        for j in range(e, last + 1):
            outputs[j, FINAL, k] = outputs[j, ITERATE, k]
        if logarithms:
            total = outputs[last + 1, ITERATE, k]
            outputs[last + 1, FINAL, k] = without_logarithm(total, mean_of(expert.target), SMALL)
    if halved:
        for j in range(e, last + 1):
            outputs[j, ITERATE, 1] = outputs[j, FINAL, 1] = np.float32(0.0) - outputs[j, ITERATE, 0]


@implements(step, TableRecord)
def _step(expert, e, observation):
    phi, i, outputs, aim, known, weight, residual, _ = observation
    table, cells, rates, parts = expert.coefficients, expert.cells, expert.rates, expert.parts
    gains, (by_size, logarithms, halved), grids = expert.gains, expert.kinds, cells.shape[0]
    _find_cells(expert, phi, i)
    for g in range(grids):
        rates[g] = table[cells[g], _COUNT]
    for g in range(grids):  # as vectors, which reads of cells are not
        rates[g] = np.float32(1.0) / np.sqrt(np.float32(1.0) + np.float32(_FADES) * rates[g])
    if by_size:
        for g in range(grids):
            rates[g] *= rates[g]
    gains[:, :] = np.float32(0.0)
    last, each, every = (
        e + (parts.shape[0] if by_size else 0),
        1 + by_size + logarithms,
        np.int64(parts.shape[0]),
    )
    for j in range(e, last + 1 + logarithms):
        of_size, wanted = e < j <= last, aim
        first, end = (j - e - 1, j - e) if of_size else (np.int64(0), every)
        kind = each - 1 if j > last else np.int64(of_size)
        if j > last:
            wanted = relative_logarithm(aim, mean_of(expert.target), SMALL)
        length = residuals(expert.loss, outputs[j, ITERATE, :known], wanted, residual[:known])
        total = 0.0
        for g in range(parts[first, 0], parts[end - 1, 1]):
            total += rates[g]
        whole = length * total + _RIDGE * (parts[end - 1, 1] - parts[first, 0]) / weight
        for k in range(1 if halved else known):
            for p in range(first, end):
                gains[p, _FIRST + each * k + kind] = np.float32(residual[k] / whole)
    for p in range(parts.shape[0]):
        add_to_cells(table, cells, rates, (p, parts[p, 0], parts[p, 1]), gains)
    for g in range(grids):
        table[cells[g], _COUNT] += np.float32(weight)
    expert.clock[EVENTS] += 1.0
    expert.clock[STEPS] += 1.0


@njit(**INNER)
def _find_cells(expert, phi, i):
    """Note the cells of row ``i``."""
    cells, parts, first = expert.cells, expert.parts, np.uint64(expert.first)
    for p in range(parts.shape[0]):
        start, shift = np.uint32(parts[p, 2]), np.uint32(parts[p, 3])
        for g in range(parts[p, 0], parts[p, 1]):
            cells[g] = start + (np.uint32(np.int32(phi[i, first + np.uint64(g)])) >> shift)
    fetch_cells(expert.coefficients, cells)


@njit(**INNER)
def _sum_of(sums, at):
    """Return the sum of a column over all parts."""
    total = sums[0, at]
    for p in range(1, sums.shape[0]):
        total += sums[p, at]
    return total
