"""Spans of flat arrays, compared with NumPy."""

import numpy as np
import pytest
from numba import njit

from streamk.compiling import ENTRY
from streamk.vector.linear_algebra import add_products_to, add_rows, clear, copy

UNCACHED = ENTRY | {"cache": False}


@njit(**UNCACHED)
def copied_and_cleared(out, to, source, start, count):
    copy(out, to, source, start, count)
    clear(out, to + count, count)


@njit(**UNCACHED)
def rows_added(out, rows, start, places, values, first, count):
    add_rows(out, rows, start, places, values, first, count)


@njit(**UNCACHED)
def products_added(sums, start, values, last, factor):
    add_products_to(sums, start, values, last, factor)


def numbers(seed, *shape):
    return np.random.default_rng(seed).normal(0, 100, shape).astype(np.float32)


@pytest.mark.parametrize("count", [0, 1, 9, 64])
def test_a_span_is_copied_and_the_next_cleared(count):
    out, source = numbers(1, 2, 200), numbers(2, 2, 200)
    expected = out.copy()
    expected[1, 3 : 3 + count], expected[1, 3 + count : 3 + 2 * count] = source[0, 5 : 5 + count], 0.0
    copied_and_cleared(out, 203, source, 5, count)
    assert out.tobytes() == expected.tobytes()


@pytest.mark.parametrize("count", [0, 1, 5])
def test_rows_are_added_in_order_and_place_0_adds_nothing(count):
    rows, values, out = numbers(1, 6, 64), numbers(2, 20), np.full(66, np.nan, np.float32)
    places, expected = np.array([2, 0, 4, 2, 1]), np.zeros(64, np.float32)
    rows[1] = 1e30  # where place 0 is
    for m in range(count):
        if places[m]:
            expected += rows[1 + places[m]] * values[3 + m]
    rows_added(out[1:65], rows, 64, places, values, 3, count)
    assert out[1:65].tobytes() == expected.tobytes()
    assert np.isnan(out[[0, 65]]).all()


@pytest.mark.parametrize("last", [0, 15, 16, 40])
def test_products_with_the_last_value_are_added(last):
    rng = np.random.default_rng(last)
    sums, values = rng.normal(size=(2, 64)), rng.normal(size=64)
    expected = sums.copy()
    expected[1, : last + 1] += 0.3 * (values[last] * values[: last + 1])
    products_added(sums, 64, values, last, 0.3)
    assert sums.tobytes() == expected.tobytes()
