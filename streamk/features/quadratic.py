"""Quadratic columns: a constant, inputs, and products of two inputs, for linear experts.

Features of a smooth kernel learn a product of two inputs from hundreds of events, and least squares on these
columns from dozens. With ``z`` the first twelve inputs by their plain columns
(:mod:`streamk.features.plain`), and ``s`` one over the root of the number of present fields, these are::

    1        s z_a        s z_a z_b,  a ≤ b

A number is in deviations from its mean, an absent or missing one 0. A category is 1 where it is present.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from streamk.arrays import Integers
from streamk.compiling import CALLED
from streamk.encoding.rows import CATEGORY
from streamk.features.plain import column_of
from streamk.features.spans import clear

INPUTS = 12
_USED = (1 + INPUTS) * (2 + INPUTS) // 2
QUADRATIC = -(-_USED // 32) * 32  # columns


def moved_products(places: Integers) -> Integers:
    """Return the place of every quadratic column, −1 for none, if plain column ``j`` moves to ``places[j]``.

    Examples
    --------
    >>> moved_products(np.array([0, 2, 1, *range(3, 13)]))[:6].tolist()  # 1, z₁, z₁², z₂, z₁z₂, z₂²
    [0, 3, 5, 1, 4, 2]
    """
    found = np.full(QUADRATIC, -1)
    for b in range(1 + INPUTS):
        for a in range(b + 1):
            low, high = sorted((int(places[a]), int(places[b])))
            if low >= 0 and high <= INPUTS:
                found[_place(a, b)] = _place(low, high)
    return found


def _place(a: int, b: int) -> int:
    return b * (b + 1) // 2 + a


@njit(**CALLED)
def fill_quadratic(sections, inputs, found, of, count, i, unit, phi):
    """Fill the quadratic columns of row ``i`` of ``phi``, if the map has any.

    ``unit`` is the factor by which numbers were multiplied in ``inputs``.
    """
    if sections is not None and sections.quadratic > 0:
        values, column = np.zeros(1 + INPUTS), sections.quadratic
        values[0] = 1.0
        for j in range(count):
            c = column_of(sections.columns, sections.places, found[i, j], False)
            if 0 < c <= INPUTS:
                value = np.float64(inputs[0, i, j]) / unit
                values[c] = value if of[i, j] <= CATEGORY else value - 1.0
        clear(phi, i * phi.shape[1] + column, QUADRATIC)
        phi[i, column] = np.float32(1.0)
        for b in range(1, 1 + INPUTS):
            for a in range(b + 1):
                phi[i, column + b * (b + 1) // 2 + a] = np.float32(unit * values[a] * values[b])
