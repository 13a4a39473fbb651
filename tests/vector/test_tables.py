"""Sums of rows of a table, and steps along them, compared with NumPy to the bit."""

import numpy as np
import pytest
from numba import njit

from streamk.compiling import ENTRY
from streamk.vector.tables import add_to_cells, fetch_cells, sum_cells


@njit(**(ENTRY | {"cache": False}))
def summed(table, cells, part, sums):
    fetch_cells(table, cells)
    sum_cells(table, cells, part, sums)


@njit(**(ENTRY | {"cache": False}))
def moved(table, cells, rates, part, gains):
    add_to_cells(table, cells, rates, part, gains)


def example(width, seed=1):
    rng = np.random.default_rng(seed)
    cells = rng.integers(0, 50, 32).astype(np.uint32)  # some of them more than once
    return rng, rng.normal(size=(50, width)).astype(np.float32), cells


@pytest.mark.parametrize("width", [4, 8, 20])
def test_sums_have_a_fixed_order(width):
    _, table, cells = example(width)
    sums = np.full((3, width), 9.0, dtype=np.float32)
    summed(table, cells, (1, 8, 24), sums)
    parts = np.zeros((4, width), dtype=np.float32)
    for g in range(8, 24):
        parts[g % 4] += table[cells[g]]
    assert (sums[1] == (parts[0] + parts[1]) + (parts[2] + parts[3])).all()
    assert (sums[[0, 2]] == 9.0).all()


@pytest.mark.parametrize("width", [4, 8, 20])
def test_steps_are_products_and_sums_that_are_not_fused(width):
    rng, table, cells = example(width)
    rates, gains = rng.random(32).astype(np.float32), rng.normal(size=(3, width)).astype(np.float32)
    expected = table.copy()
    for g in range(8, 24):
        expected[cells[g]] += rates[g] * gains[1]
    moved(table, cells, rates, (1, 8, 24), gains)
    assert (table == expected).all()
