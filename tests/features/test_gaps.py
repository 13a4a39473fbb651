"""How far inputs are changed to see what they do: to another value that they take, if they take few."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

import streamk
from streamk.encoding.codec import Unit
from streamk.features.plain import columns_of
from streamk.features.relevance import follow_gaps, step_of
from streamk.features.sections import Sections

KEYS = [5, 6]
VALUES = st.lists(st.sampled_from([1.0, 1.01, 1.03, 1.3, 0.2, 3.0, -1.0]), min_size=1, max_size=20)


@njit
def follow(sections, inputs, found, count, unit):
    follow_gaps(sections, inputs, found, count, 0, unit)


@njit
def step(sections, key, value):
    return step_of(sections, key, value)


def made(learned=True):
    sections = Sections(768, learned)
    sections.keys = columns_of(KEYS)
    return sections


def fed(values, key=6, unit=1.0, learned=True):
    sections = made(learned)
    for value in values:
        inputs = np.full((1, 1, 1), value * unit, dtype=np.float32)
        follow(sections.record, inputs, np.array([[key]], dtype=np.uint64), 1, unit)
    return sections


def expected(values):
    """The rule on plain lists."""
    last, gap = 0.0, None
    for value in np.float32(values).tolist():
        change = abs(value - last)
        if change > 0.02:
            gap = change if gap is None else min(1.1 * gap, change)
        last = value
    return last, gap or 0.0


@given(values=VALUES, unit=st.sampled_from([1.0, 0.5]))
def test_the_smallest_change_is_followed_and_rises(values, unit):
    sections = fed(values, unit=unit)
    np.testing.assert_allclose(sections.gaps[:, 2], expected(values), rtol=1e-6)
    assert not sections.gaps[:, [0, 1]].any()
    assert not sections.gaps[:, 3:].any()


def test_without_relevance_and_in_other_columns_nothing_is_followed():
    assert not fed([1.0, 2.0], learned=False).gaps.any()
    assert not fed([1.0, 2.0], key=99).gaps.any()


@pytest.mark.parametrize(
    ("values", "at", "width"),
    [
        ([0.8, 5.0] * 40, 0.8, 4.2),  # towards the mean, which is at 1
        ([0.8, 5.0] * 40, 5.0, -4.2),
        ([0.8, 0.9, 1.0, 0.9] * 20, 1.5, 0.25),
        ([1.0] * 80, 1.0, 0.25),
        ([1.0, 1.01] * 40, 1.0, 0.25),
    ],
)
def test_a_difference_is_as_wide_as_the_gap_and_at_least_a_quarter(values, at, width):
    values = values if values[0] != 1.0 else [0.9, *values]
    found = step(fed(values).record, np.uint64(6), at)
    assert found == pytest.approx(width, rel=1e-5) or (width == 0.25 and abs(found) < 1.0)
    assert step(fed(values).record, np.uint64(99), at) == 0.25
    assert step(None, np.uint64(6), at) == 0.25


def test_parts_merge_to_the_smaller_gap_of_each_input():
    one, other, merged = Sections(768, True), Sections(768, True), Sections(768, True)
    one.keys, other.keys = columns_of([5, 6, 7]), columns_of([7, 8, 5])
    one.gaps[:, 1:4] = [[1.0, 2.0, 3.0], [0.5, 0.0, 0.7]]
    other.gaps[:, 1:4] = [[4.0, 5.0, 6.0], [0.6, 0.9, 0.8]]
    merged.take([one, other], [([0], Unit(1.0, 0.0))] * 2)
    assert merged.gaps[:, :6].tolist() == [[0.0, 6.0, 2.0, 4.0, 5.0, 0.0], [0.0, 0.5, 0.0, 0.6, 0.9, 0.0]]


def test_a_column_that_is_rarely_one_does_not_take_all_relevance():
    """Beside an input of which the target is a fast function, and another that matters little."""
    rng = np.random.default_rng(0)
    hour, rare = rng.integers(0, 24, 5000), rng.random(5000) < 0.02
    day = rng.integers(0, 2, 5000)
    y = np.sin(2.0 * np.pi * hour / 8.0) * (1.0 + 0.3 * day) + 0.2 * rng.normal(size=5000)
    xs = [{"hour": int(h), "rare": int(r), "day": int(d)} for h, r, d in zip(hour, rare, day, strict=True)]
    for seed in (1, 2, 3):
        learner = streamk.KernelRegressor(features=1536, label_memory=False, seed=seed)
        learner.learn_many(xs, y.tolist())
        found = learner.summary()["relevance"]
        assert max(found["rare"]) < 0.5 < 1.0 < min(found["hour"]), (seed, found)
