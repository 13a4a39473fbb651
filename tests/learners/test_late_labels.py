"""Learners whose labels come late: what they learn from is what they would have said when asked."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamk
from streamk.experts.expert import COEFFICIENTS
from streamk.learners.parameter_history import ParameterHistory
from tests.references import late_loop


def declared(arrays):
    """Return the arrays with a field."""
    return [(COEFFICIENTS, array) for array in arrays]


@given(st.integers(1, 40), st.integers(0, 200))
def test_copies_are_as_old_as_the_delay_and_a_quarter(delay, events):
    asked, live = ParameterHistory(delay), declared([np.zeros((1, 2), dtype=np.float32), np.zeros(3)])
    asked.grow(live)
    for n in range(1, events + 1):
        for _, array in live:
            array[:] = n
        asked.record(live, n)
        asked.record(live, n)  # asked for twice, taken once
    for array in asked.arrays:
        assert array.dtype == (np.float32 if array.ndim == 2 else np.float64)
        assert (array == array.flat[0]).all()
        oldest = delay + 2 * (asked.period - 1)
        assert max(0, events - oldest) <= array.flat[0] <= max(0, events - delay)


def test_they_grow_and_begin():
    asked, live = ParameterHistory(2), [np.ones((1, 1, 3), dtype=np.float32), np.ones((2, 2))]
    asked.grow(declared(live))
    asked.record(declared(live), 1)
    wider = [np.ones((1, 2, 5), dtype=np.float32), live[1]]
    asked.grow(declared(wider))
    assert asked.arrays[0].shape == (1, 2, 5)
    assert asked.arrays[0].sum() == 3.0
    assert asked.arrays[0].ctypes.data % 64 == 0
    asked.begin(declared(wider), 9)
    assert (asked.arrays[0] == 1.0).all()
    asked.record(
        declared([7 * array for array in wider]), 9
    )  # as they were after nine events is known already
    asked.record(declared([7 * array for array in wider]), 10)
    asked.record(declared([8 * array for array in wider]), 11)
    assert (asked.arrays[0] == 1.0).all()
    asked.record(declared([9 * array for array in wider]), 12)
    assert (asked.arrays[0] == 7.0).all()


def stream(n, seed=0):
    """Two classes whose neighbours resemble each other."""
    rng = np.random.default_rng(seed)
    level = np.cumsum(rng.normal(size=n)) / 8
    x = rng.normal(size=(n, 3))
    y = (np.sin(level + 0.3 * x[:, 0]) + 0.2 * rng.normal(size=n)) > 0.0
    return [dict(zip("abc", row, strict=True)) for row in x.tolist()], y.tolist()


def test_a_learner_with_the_right_delay_is_not_overconfident():
    xs, ys = stream(3000)
    losses = {}
    for told in (0, 60):
        learner = streamk.KernelClassifier(features=768, delay=told, seed=3)
        said = late_loop(learner.predict_proba_one, learner.learn_one, list(zip(xs, ys, strict=True)), 60)
        losses[told] = np.mean(
            [-np.log(max(p.get(y, 0.0), 1e-9)) for p, y in zip(said, ys, strict=True)][500:]
        )
    assert losses[60] < 0.75  # a coin has 0.69
    assert losses[60] < 0.8 * losses[0]


def test_intervals_hold_what_they_should_when_targets_come_late():
    rng = np.random.default_rng(1)
    n, delay = 3000, 50
    y = 0.5 * rng.normal(size=n)
    level = 0.0
    for t in range(n):
        level = 0.97 * level + 0.3 * rng.normal()
        y[t] += level
    xs = [{"a": a} for a in rng.normal(size=n).tolist()]
    learner = streamk.KernelRegressor(features=768, delay=delay, seed=3)
    pairs = list(zip(xs, y, strict=True))
    said = late_loop(lambda x: learner.predict_interval_one(x, 0.9), learner.learn_one, pairs, delay)
    inside = [target in interval for interval, target in zip(said, y, strict=True)][delay + 1 :]
    assert abs(np.mean(inside[500:]) - 0.9) < 0.04  # without what was said when asked, 0.5


def test_without_delay_there_is_no_history():
    xs, ys = stream(50)
    learner = streamk.KernelClassifier(features=768, seed=3)
    learner.learn_many(xs, ys)
    assert learner._history is None
    late = streamk.KernelClassifier(features=768, delay=5, seed=3)
    late.learn_many(xs, ys)
    assert len(late.closed().to_bytes()) < 0.6 * len(late.to_bytes())
    assert not any(name.startswith("asked") for name in late.closed()._to_parts()[1])


def test_the_history_of_a_merged_learner_holds_its_present_parameters():
    xs, ys = stream(100)
    halves = [streamk.KernelClassifier(features=768, delay=5, seed=3) for _ in range(2)]
    for half, start in zip(halves, (0, 50), strict=True):
        half.learn_many(xs[start : start + 50], ys[start : start + 50])
    merged = streamk.merge(halves)
    for asked, (_, now) in zip(merged._history.arrays, merged._live(), strict=True):
        np.testing.assert_array_equal(asked, now)


@pytest.mark.parametrize("how", ["learned", "loaded", "merged"])
def test_rows_without_weight_are_not_events(how):
    """In a batch of their own they come where copies have been taken already."""
    xs, ys = stream(120)
    learner = streamk.KernelClassifier(features=768, delay=3, seed=3)
    learner.learn_many(xs[:60], ys[:60])
    if how == "loaded":
        learner = streamk.loads(learner.to_bytes())
    elif how == "merged":
        other = streamk.KernelClassifier(features=768, delay=3, seed=3)
        other.learn_many(xs[60:], ys[60:])
        learner = streamk.merge([learner, other])
    twin = streamk.loads(learner.to_bytes())
    learner.learn_many(xs[:4], ys[:4], [0.0] * 4)
    for model in (learner, twin):
        for x, y in zip(xs[:2], ys[:2], strict=True):
            model.learn_one(x, y)
    assert learner.to_bytes() == twin.to_bytes()


@pytest.mark.parametrize(
    ("name", "value"), [("asked0.values", np.nan), ("asked0.values", 1e30), ("asked0.used", 10**6)]
)
def test_an_impossible_file_is_refused(name, value):
    xs, ys = stream(50)
    learner = streamk.KernelClassifier(features=768, delay=5, seed=3)
    learner.learn_many(xs, ys)
    header, arrays = learner._to_parts()
    bad = {key: array.copy() for key, array in arrays.items()}
    bad[name].flat[-1] = value
    with pytest.raises(ValueError, match="earlier coefficients"):
        type(learner)._from_parts(header, bad)
