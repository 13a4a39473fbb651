"""Quadratic columns: a constant, inputs, and products of two inputs, for linear experts.

Features of a smooth kernel learn a product of two inputs from hundreds of events, and least squares on these
columns from dozens. With ``z`` the first twelve inputs by their plain columns
(:mod:`streamk.features.columns.plain`), and ``s`` one over the root of the number of present fields, these
are::

    1        s z_a        s z_a z_b,  a ≤ b

A number is in deviations from its mean, an absent or missing one 0. A category is 1 where it is present.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from streamk.arrays import Integers
from streamk.dispatch import implements
from streamk.encoding.rows import CATEGORY
from streamk.features.columns.family import Family, fill
from streamk.features.columns.plain import column_of
from streamk.features.plans import GridPlan
from streamk.vector.linear_algebra import clear

INPUTS = 12
_USED = (1 + INPUTS) * (2 + INPUTS) // 2
QUADRATIC = -(-_USED // 32) * 32  # columns


ProductRecord = namedtuple("ProductRecord", "first width")


class ProductColumns(Family):
    """Products of two inputs."""

    name = "products"
    record_type = ProductRecord

    def __init__(self, plan: GridPlan, quadratic: bool) -> None:
        super().__init__(plan, quadratic)
        self.width = QUADRATIC if quadratic else 0

    def moved(self, plain: Integers) -> Integers:
        """Return the place of every column, −1 for none."""
        return moved_products(plain)[: self.width]


def moved_products(places: Integers) -> Integers:
    """Return the place of every quadratic column, −1 for none, if plain column ``j`` moves to ``places[j]``.

    Examples
    --------
    >>> moved_products(np.array([0, 2, 1, *range(3, 13)]))[:6].tolist()  # 1, z₁, z₁², z₂, z₁z₂, z₂²
    [0, 3, 5, 1, 4, 2]
    """
    moved = np.full(QUADRATIC, -1)
    for b in range(1 + INPUTS):
        for a in range(b + 1):
            low, high = sorted((int(places[a]), int(places[b])))
            if low >= 0 and high <= INPUTS:
                moved[_place(a, b)] = _place(low, high)
    return moved


def _place(a: int, b: int) -> int:
    return b * (b + 1) // 2 + a


@implements(fill, ProductRecord)
def _fill(family, sections, scratch, i, learned, phi):
    if family.width > 0:
        values, column, unit = np.zeros(1 + INPUTS), family.first, scratch.units[i]
        values[0] = 1.0
        for j in range(scratch.counts[i]):
            c = column_of(sections.columns, sections.places, scratch.keys[i, j], False)
            if 0 < c <= INPUTS:
                value = np.float64(scratch.inputs[0, i, j]) / unit
                values[c] = value if scratch.slots[i, j] <= CATEGORY else value - 1.0
        clear(phi, i * phi.shape[1] + column, QUADRATIC)
        phi[i, column] = np.float32(1.0)
        for b in range(1, 1 + INPUTS):
            for a in range(b + 1):
                phi[i, column + b * (b + 1) // 2 + a] = np.float32(unit * values[a] * values[b])
