import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit
from numba.core.errors import TypingError

from streamk.vector.linear_algebra import add_distances, add_scaled, inner_product, inner_products


@njit
def product(a, i, b, j, length):
    return inner_product(a, i, b, j, length)


@njit
def add(out, i, factor, values, j, length):
    add_scaled(out, i, factor, values, j, length)


@njit
def distances(out, columns, start, width, values, first, count):
    add_distances(out, columns, start, width, values, first, count)


def specified(a, b):
    """The order of summation of the module's docstring, in NumPy."""
    lanes = np.zeros(32, dtype=np.float32)
    for x, y in zip(a.reshape(-1, 32), b.reshape(-1, 32), strict=True):
        # a fused multiply-add: in float64 the product is exact and the sum nearly always
        lanes = (lanes.astype(np.float64) + x.astype(np.float64) * y).astype(np.float32)
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = lanes[:half] + lanes[half:]
    return lanes[0]


def numbers(seed, *shape):
    return np.random.default_rng(seed).normal(0, 100, shape).astype(np.float32)


@given(st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_order_of_summation_is_as_specified(blocks, seed):
    length = 32 * blocks
    a, b = numbers(seed, 2, 3, length)
    for i, j in ((0, 0), (2 * length, length), (length + 5, 17)):
        expected = specified(a.ravel()[i : i + length], b.ravel()[j : j + length])
        assert np.float32(product(a, i, b, j, length)).tobytes() == expected.tobytes()


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 8, 11])
def test_products_side_by_side_have_the_bits_of_one_alone(rows):
    a, b, out = numbers(rows, 11, 96), numbers(1, 2, 96), np.full(20, np.nan, np.float32)
    inner_products(a, rows, b, 96, 96, out, 3)
    expected = [specified(row, b[1]) for row in a[:rows]]
    assert out[3 : 3 + rows].tobytes() == np.array(expected).tobytes()
    assert np.isnan(out[:3]).all()
    assert np.isnan(out[3 + rows :]).all()


def test_a_multiple_is_added_with_one_rounding():
    out, values, factor = numbers(1, 3, 64), numbers(2, 2, 64), np.float32(0.37)
    before = out.copy()
    add(out, 64, factor, values, 64, 64)
    exact = before[1].astype(np.float64) + np.float64(factor) * values[1]
    assert out[1].tobytes() == exact.astype(np.float32).tobytes()
    assert (out[[0, 2]] == before[[0, 2]]).all()


@pytest.mark.parametrize("count", [-2, 0, 1, 3, 4, 5, 8, 11])
def test_distances_are_added_column_by_column(count):
    columns, values, out = numbers(1, 13, 96), numbers(2, 20), numbers(3, 4, 96)
    expected = out.copy()
    for j in range(count):
        distance = (values[5 + j] - columns[1 + j]).astype(np.float64)
        expected[0] = (expected[0].astype(np.float64) + distance * distance).astype(np.float32)
    distances(out, columns, 96, 96, values, 5, count)
    assert out.tobytes() == expected.tobytes()


def test_other_types_are_refused():
    with pytest.raises(TypingError):
        product(np.zeros((1, 32)), 0, np.zeros((1, 32)), 0, 32)
    with pytest.raises(TypingError):
        product(np.zeros((32, 32), np.float32).T, 0, np.zeros((1, 32), np.float32), 0, 32)
