import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamk.evaluation.exact import ExactSum, check_one_length, nest, part_of, squares

FINITE = st.floats(allow_nan=False, allow_infinity=False)


def sum_of(values):
    total = ExactSum()
    total.add(np.array(values, np.float64))
    return total


@given(st.lists(FINITE, max_size=30))
def test_a_sum_is_that_of_fractions(values):
    total = sum_of(values)
    assert total.fraction() == sum(map(Fraction, values))
    try:
        expected = float(total.fraction())
    except OverflowError:
        expected = math.inf if total.units > 0 else -math.inf
    assert float(total) == expected
    assert ExactSum.read(total.text()).text() == total.text()


@given(st.lists(FINITE, min_size=1, max_size=30), st.integers(0, 30), st.randoms(use_true_random=False))
def test_order_and_parts_do_not_show(values, cut, random):
    whole = sum_of(values)
    random.shuffle(values)
    assert (sum_of(values[:cut]) + sum_of(values[cut:])).text() == whole.text()


def test_extremes():
    tiny, huge = 5e-324, np.finfo(float).max
    assert float(sum_of([huge, tiny, -huge])) == tiny
    assert float(sum_of([huge, huge])) == math.inf
    assert float(sum_of([-huge, -huge])) == -math.inf
    assert sum_of([huge, huge]).over(2) == huge
    assert float(sum_of([])) == sum_of([]).over(0) == 0.0
    assert float(sum_of([-0.0])) == 0.0


def test_what_is_not_finite():
    assert float(sum_of([1.0, math.inf])) == math.inf
    assert math.isnan(float(sum_of([math.inf, 1.0, -math.inf])))
    assert math.isnan(float(sum_of([math.nan]) + sum_of([1.0])))
    assert math.isnan(float(ExactSum.read(sum_of([math.nan]).text())))
    assert ExactSum.read(sum_of([-math.inf, 2.5]).text()).over(3) == -math.inf


@given(st.lists(st.floats(-1e100, 1e100).filter(lambda y: y == 0.0 or abs(y) > 1e-100), max_size=20))
def test_squares_are_exact(values):
    array = np.array(values)
    total = ExactSum()
    total.add(squares(array))
    exact = sum(Fraction(y) ** 2 for y in values)
    assert abs(total.fraction() - exact) <= exact * Fraction(1, 2**100)


def test_squares_that_are_too_large():
    total = ExactSum()
    with np.errstate(over="ignore"):
        total.add(squares(np.array([1e200, 1.0])))
    assert float(total) == math.inf


def test_states_in_one():
    states = {"a": ({"n": 1}, {"x": np.ones(2)}), "b": ({}, {"a.x": np.zeros(1)})}
    whole = nest(**states)
    assert set(whole[1]) == {"a.x", "b.a.x"}
    for name, state in states.items():
        assert part_of(whole, name) == state


def test_lengths():
    assert check_one_length([[1], [2]]) == 1
    with pytest.raises(ValueError, match="arrays of 1, 2 events"):
        check_one_length([[1], [2, 3]])
