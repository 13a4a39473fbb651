"""How far inputs are changed to see what they do: to another value that they take, if they take few."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

import streamk
from streamk.encoding.codec import Unit
from streamk.encoding.rows import UNSCALED, missing
from streamk.features.columns.plain import columns_of
from streamk.features.cross_moments import MOST
from streamk.features.relevance import follow_gaps, step_of
from streamk.features.sections import Sections
from tests.features.scratch import scratch_of

KEY, OTHER = 6, 9
EVENTS = st.lists(
    st.tuples(st.sampled_from([0.0, 1.0, 2.0]), st.sampled_from([0.0, 0.8, 1.03, 1.3, 5.0])), max_size=20
)


@njit
def follow(sections, rows, inputs, found, unit):
    follow_gaps(sections, rows, 0, scratch_of(inputs, found, rows[0], 2, unit), 0)


@njit
def step(sections, key, value):
    return step_of(sections, key, value)


def fed(events, slot=3, key=KEY, unit=1.0, learned=True):
    """The gaps after events of raw numbers and what they are once scaled."""
    sections = Sections(768, learned)
    sections.keys = columns_of([5, KEY])
    for raw, scaled in events:
        there = [(key, scaled)] if scaled else []  # inputs that are 0 are left out
        there = sorted([*there, (OTHER, 1.0)])
        found = np.array([[k for k, _ in there] + [0] * (2 - len(there))], dtype=np.uint64)
        inputs = np.array([[[v * unit for _, v in there] + [0.0] * (2 - len(there))]], dtype=np.float32)
        rows = (
            np.array([[UNSCALED, slot]], dtype=np.int32),
            np.array([[OTHER, key]], dtype=np.uint64),
            np.array([[7.0, raw]]),
        )
        follow(sections.record, rows, inputs, found[:, : len(there)] if len(there) == 2 else found, unit)
    return sections


def expected(events):
    """The rule on plain lists."""
    before, last, gap = 0.0, 0.0, None
    for raw, scaled in events:
        if last and raw != before:
            change = abs(float(np.float32(scaled)) - last)
            gap = min(1.1 * gap, change) if gap else change
        before, last = raw, float(np.float32(scaled))
    return before, last, gap or 0.0


@given(events=EVENTS, unit=st.sampled_from([1.0, 0.5]))
def test_the_smallest_change_is_followed_and_rises(events, unit):
    gaps = fed(events, unit=unit).gaps
    np.testing.assert_allclose(gaps[:, 2], expected(events), rtol=1e-6)
    assert not gaps[:, [0, 1]].any()
    assert not gaps[:, 3:].any()


@pytest.mark.parametrize("how", [{"learned": False}, {"key": 99}, {"slot": UNSCALED}, {"slot": missing(3)}])
def test_what_is_no_number_of_a_column_is_not_followed(how):
    assert not fed([(1.0, 0.8), (2.0, 1.3)], **how).gaps.any()


@pytest.mark.parametrize(
    ("events", "at", "width"),
    [
        ([(0.0, 0.8), (1.0, 5.0)] * 9, 0.8, 4.2),  # towards the mean, which is at 1
        ([(0.0, 0.8), (1.0, 5.0)] * 9, 5.0, -4.2),
        ([(0.0, 0.8), (1.0, 0.9), (2.0, 1.3)] * 9, 0.8, 0.25),
        ([(0.0, 0.8), (1.0, 0.9), (2.0, 1.3)] * 9, 1.3, 0.25),
        ([(0.0, 1.0)] * 9, 1.0, 0.0),  # it has never changed
        ([(7.0, 0.9), (7.0, 1.0)], 1.0, 0.0),  # but for the scales
        ([], 1.0, 0.25),  # no number
    ],
)
def test_a_difference_is_as_wide_as_the_gap_and_at_least_a_quarter(events, at, width):
    sections = fed(events)
    assert step(sections.record, np.uint64(KEY), at) == pytest.approx(width, rel=1e-6)
    assert step(sections.record, np.uint64(99), at) == 0.0
    assert step(None, np.uint64(KEY), at) == 0.0


def test_beyond_the_columns_with_relevance_there_are_no_differences():
    sections = Sections(768, True)
    sections.keys = columns_of(list(range(5, 5 + MOST)))
    assert step(sections.record, np.uint64(5 + MOST - 2), 1.0) == 0.25
    assert step(sections.record, np.uint64(5 + MOST - 1), 1.0) == 0.0


def test_parts_merge_to_the_smaller_gap_of_each_input():
    one, other, merged = Sections(768, True), Sections(768, True), Sections(768, True)
    one.keys, other.keys = columns_of([5, 6, 7]), columns_of([7, 8, 5])
    one.gaps[:, 1:4] = [[1.0, 2.0, 3.0], [7.0, 7.0, 7.0], [0.5, 0.0, 0.7]]
    other.gaps[:, 1:4] = [[4.0, 5.0, 6.0], [8.0, 8.0, 8.0], [0.6, 0.9, 0.8]]
    merged.merge_from([one, other], [([0], Unit(1.0, 0.0))] * 2, [0.5, 0.5])
    assert merged.gaps[:, :6].tolist() == [
        [0.0, 6.0, 2.0, 4.0, 5.0, 0.0], [0.0, 8.0, 7.0, 8.0, 8.0, 0.0], [0.0, 0.5, 0.0, 0.6, 0.9, 0.0]
    ]  # fmt: skip


def days(n=5000, seed=0):
    """Hours of days, a few of them holidays, which do nothing, and the temperature."""
    rng = np.random.default_rng(seed)
    hour, temperature = np.arange(n) % 24, np.sin(np.cumsum(rng.normal(size=n)) / 20.0)
    holiday, workday = (np.repeat(rng.random(n // 24 + 1) < p, 24)[:n] for p in (0.03, 0.7))
    y = np.sin(2.0 * np.pi * hour / 8.0) * (0.6 + 0.6 * workday) + 0.3 * temperature
    columns = {"hour": hour, "holiday": holiday, "workday": workday, "temperature": temperature}
    columns |= {"constant": np.ones(n), "late": np.arange(n) > 2300}
    rows = [dict(zip(columns, map(float, row), strict=True)) for row in zip(*columns.values(), strict=True)]
    return rows, (y + 0.5 * rng.normal(size=n)).tolist()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_columns_that_are_rarely_one_or_never_change_do_not_take_all_relevance(seed):
    """With small differences alone, holidays had twice the relevance of the hour (second seed)."""
    learner = streamk.KernelRegressor(features=1536, label_memory=False, seed=seed)
    learner.learn_many(*days())
    found = learner.summary()["relevance"]
    for name in ("holiday", "constant", "late"):
        assert max(found[name]) < 0.4, (name, found)
    assert min(found["hour"]) > 2.0


def test_relevance_does_not_depend_on_how_events_are_cut():
    xs, ys = days(2100)
    one, many = (streamk.KernelRegressor(features=768, seed=1) for _ in range(2))
    one.learn_many(xs, ys)
    for start in range(0, 2100, 7):
        many.learn_many(xs[start : start + 7], ys[start : start + 7])
    np.testing.assert_array_equal(one._map.sections.gaps, many._map.sections.gaps)
    assert one.to_bytes() == many.to_bytes()
