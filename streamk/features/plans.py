"""Budgets: how many random grids a learner has, of how many fields, and how large its table is.

``docs/learners.md`` has a table of them, and ``benchmarks/folds.py`` compares their errors and times.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamk.arrays import Integers

SCALES = 2.0, 1.0, 0.5, 0.25  # of successive grids in turn: ``ℓ`` of :mod:`streamk.features.columns.cells`


class GridPlan(NamedTuple):
    """The grids of a budget.

    Attributes
    ----------
    fields
        How many fields grids have: so many for each entry.
    grids
        Their number.
    bits
        Binary logarithms of the number of cells: of all grids, or of those of each size.
    by_size
        Whether grids of one size are next to each other, with a separate expert, and over ranks; if not,
        sizes alternate.
    """

    fields: tuple[int, ...]
    grids: int
    bits: tuple[int, ...]
    by_size: bool = True

    @property
    def sizes(self) -> Integers:
        """The number of fields of each grid."""
        each = self.grids // len(self.fields) if self.by_size else len(SCALES)
        return np.resize(np.repeat(self.fields, each), self.grids)

    @property
    def parts(self) -> Integers:
        """The parts of grids, ``(parts, 5)``.

        Of each: the first grid, the end, the largest number of fields, the first cell, and their binary
        logarithm.
        """
        each, fields = self.grids // len(self.bits), self.fields if self.by_size else (max(self.fields),)
        first = [sum(1 << bits for bits in self.bits[:k]) for k in range(len(self.bits))]
        rows = enumerate(zip(fields, first, self.bits, strict=True))
        return np.array([(k * each, (k + 1) * each, *row) for k, row in rows])

    @property
    def cells(self) -> int:
        """The number of cells."""
        return sum(1 << bits for bits in self.bits)


BUDGETS = {
    "small": GridPlan((1, 2, 2, 3), 256, (13,), by_size=False),
    "default": GridPlan((1, 2, 3, 4, 5), 480, (13, 14, 15, 16, 16)),
    "large": GridPlan((1, 2, 3, 4, 6, 8), 1920, (14, 16, 18, 19, 19, 19)),
}
WITHOUT = GridPlan((1,), 0, (0,), by_size=False)
VALUES = GridPlan((1,), 64, (16,), by_size=False)  # a cell for the value of each field
