"""Reading and writing of variables, compared with NumPy."""

import numpy as np
import pytest
from numba import njit

from streamk.compiling import ENTRY
from streamk.vector.lanes import LANES
from streamk.vector.linear_algebra import LARGEST_COEFFICIENT
from streamk.vector.variables import any_new, gather, move

UNCACHED = ENTRY | {"cache": False}


@njit(**UNCACHED)
def is_any_new(phi, start, known, count):
    return any_new(phi, start, known, count)


@njit(**UNCACHED)
def gathered(x, phi, start, variables, count):
    gather(x, phi, start, variables, count)


@njit(**UNCACHED)
def moved(weights, k, gain, length, coefficients, variables, count):
    move(weights, k, gain, length, coefficients, variables, count)


def variables_of(columns, count, adjacent):
    """The number of variables, and then their columns: adjacent ones, or any in any order."""
    rng = np.random.default_rng(count)
    chosen = np.arange(columns)[3 : 3 + count] if adjacent else rng.permutation(columns)[:count]
    return np.concatenate([[count], chosen]).astype(np.int64)


@pytest.mark.parametrize("place", [0, 15, 16, 47])
@pytest.mark.parametrize("value", [1.0, -1e-30, np.nan])
def test_a_column_that_is_no_variable_is_found(place, value):
    phi, known = np.zeros((2, 64), np.float32), np.zeros(48, np.bool_)
    assert not is_any_new(phi, 64 + 8, known, 48)
    phi[1, 8 + place] = value
    assert is_any_new(phi, 64 + 8, known, 48)
    assert not is_any_new(phi, 8, known, 48)
    known[place] = True
    assert not is_any_new(phi, 64 + 8, known, 48)


@pytest.mark.parametrize("adjacent", [True, False])
def test_columns_of_variables_are_gathered(adjacent):
    phi = np.random.default_rng(0).normal(size=(3, 96)).astype(np.float32)
    variables, x = variables_of(80, 2 * LANES, adjacent), np.zeros(2 * LANES, np.float32)
    gathered(x, phi, 96 + 5, variables, len(x))
    assert (x == phi[1, 5 + variables[1:]]).all()


@pytest.mark.parametrize("adjacent", [True, False])
def test_weights_move_within_their_bounds_and_are_copied(adjacent):
    rng, count = np.random.default_rng(1), 2 * LANES
    weights, variables = rng.normal(size=(2, count)), variables_of(80, count, adjacent)
    gain, coefficients = rng.normal(size=count).astype(np.float32), np.zeros((1, 2, 80), np.float32)
    gain[3], gain[20] = 3e38, -3e38
    expected = np.clip(weights[1] + gain.astype(np.float64) * 0.3, -LARGEST_COEFFICIENT, LARGEST_COEFFICIENT)
    before = weights[0].copy()
    moved(weights, 1, gain, 0.3, coefficients, variables, count)
    assert (weights[1] == expected).all()
    assert (weights[0] == before).all()
    copied = np.zeros_like(coefficients)
    copied[0, 1, variables[1:]] = expected.astype(np.float32)
    assert (coefficients == copied).all()
