"""Level shifts: the rule on plain lists, and what it does to a learner's predictions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

import streamk
from streamk.combining.level_shift import LevelShift, is_shifted, last_target, watch

AIMS = st.lists(st.sampled_from([-6.0, -6.0, 6.0, 6.0, -5.9, 5.9]), min_size=3, max_size=12)


@njit
def watched(shift, targets, aims, predicted, first, said):
    for i in range(aims.size):
        said[i] = last_target(shift) if is_shifted(shift) else np.nan
        watch(shift, targets[i], aims[i], predicted[i], first + i)


@settings(max_examples=500)
@given(aims=AIMS, delay=st.integers(0, 2), first=st.integers(12, 17))
def test_after_a_run_of_out_of_range_targets_on_one_side_the_last_is_predicted(aims, delay, first):
    targets, said = 100.0 * np.arange(1, len(aims) + 1), np.empty(len(aims))
    shift = LevelShift()
    shift.set_delay(delay)
    watched(shift.record, targets, np.array(aims, dtype=float), np.zeros(len(aims)), float(first), said)
    for i, found in enumerate(said):
        last = aims[max(0, i - 2 - delay, 16 - first) : i]
        shift = len(last) == 2 + delay and (set(last) == {6.0} or set(last) == {-6.0})
        assert found == targets[i - 1] if shift else np.isnan(found)


def test_targets_that_were_predicted_do_not_count():
    """They count as one less, so a long run ends if the experts follow, and not at once."""
    off = np.array([7.0, 9.0, 8.0, 8.0, 8.0, 9.0, 9.0, 9.0])
    predicted = np.array([0.0, 6.8, 0.0, 5.9, 0.0, 11.2, 6.8, 9.0])
    said = np.empty(len(off))
    watched(LevelShift().record, off, off, predicted, 100.0, said)
    assert np.isfinite(said).tolist() == [False] * 4 + [True] * 3 + [False], said


def test_large_targets_that_inputs_explain_are_no_shift():
    rng = np.random.default_rng(0)
    flags = rng.integers(0, 150, size=4000) == 0
    flags[1:] |= flags[:-1]  # two in a row
    ys = np.where(flags, 1000.0 + 50.0 * rng.normal(size=4000), rng.normal(size=4000))
    xs = [
        {"flag": float(flag), "a": a} for flag, a in zip(flags, rng.normal(size=4000).tolist(), strict=True)
    ]
    said = np.array(streamk.KernelRegressor(features=768, seed=1).predict_learn_many(xs, ys.tolist()))
    after = np.flatnonzero(~flags[2000:] & flags[1999:-1]) + 2000
    assert len(after) > 10
    assert np.abs(said[after]).max() < 300.0


def stream(n=400, level=50.0, seed=0):
    """A level around 0, that is far off from event 200 to 214."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    y = np.tanh(x[:, 0]) + 0.1 * rng.normal(size=n)
    y[200:215] += level
    return [dict(zip("abc", row, strict=True)) for row in x.tolist()], y.tolist()


@pytest.mark.parametrize("level", [1e3, -1e3])
def test_a_level_without_precedent_is_predicted_from_its_third_event_on(level):
    xs, ys = stream(level=level)
    learner = streamk.KernelRegressor(features=768, seed=1)
    said = learner.predict_learn_many(xs[:202], ys[:202])
    assert np.abs(said[200:202]).max() < 0.2 * abs(level)
    for x, y, last in zip(xs[202:206], ys[202:206], ys[201:205], strict=True):
        interval = learner.predict_interval_one(x)
        assert interval.lower <= learner.predict_one(x) == last <= interval.upper
        learner.learn_one(x, y)


def test_what_it_predicts_meanwhile_leaves_nothing_behind(monkeypatch):
    """Experts, scales and weights are those of a learner that never says the last target."""
    xs, ys = stream(level=1e3)
    said, kept = [], []
    for patience in (2, 10_000):
        monkeypatch.setattr("streamk.combining.level_shift.IN_A_ROW", patience)
        learner = streamk.KernelRegressor(features=768, seed=1)
        said.append(np.array(learner.predict_learn_many(xs, ys)))
        kept.append([learner._combiner.weights, learner._combiner.shares, learner._codec.target])
    assert (said[0] != said[1]).sum() > 0
    assert set(np.flatnonzero(said[0] != said[1])) <= set(range(202, 216))
    for one, other in zip(*kept, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_file_keeps_it_and_one_model_merged_is_that_model():
    xs, ys = stream(level=1e3)
    learner = streamk.KernelRegressor(features=768, seed=1)
    learner.learn_many(xs[:204], ys[:204])
    again = streamk.loads(learner.to_bytes())
    merged = streamk.merge([learner])
    assert (
        again.predict_one(xs[204]) == merged.predict_one(xs[204]) == learner.predict_one(xs[204]) == ys[203]
    )
    assert again.to_bytes() == learner.to_bytes()
    other = streamk.KernelRegressor(features=768, seed=1)
    other.learn_many(xs[:100], ys[:100])
    assert abs(streamk.merge([other, learner]).predict_one(xs[204])) < 200.0


@pytest.mark.parametrize("state", [[1.5, 0.0], [np.nan, 0.0], [2.0, np.inf], [2.0, np.nan]])
def test_an_impossible_one_is_refused(state):
    with pytest.raises(ValueError, match="out-of-range targets are impossible"):
        LevelShift().load_state_dict({"away": np.array(state)})


def test_late_labels_lengthen_the_required_run_by_the_delay():
    xs, ys = stream(level=1e3)
    learner = streamk.KernelRegressor(features=768, seed=1)
    learner._combiner.set_delay(5)
    learner.learn_many(xs[:200], ys[:200])
    for i in range(200, 209):
        said = learner.predict_one(xs[i + 5])
        assert (said == ys[i - 1]) == (i >= 207)
        learner.learn_one(xs[i], ys[i])
