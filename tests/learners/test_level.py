"""Where labels of numbers come in parts, predictions follow the level of the last ones if levels persist."""

import numpy as np
import pandas as pd
import pytest

import streamk
from streamk.learners.level import Level
from streamk.learners.time_like import TimeLike

PART = 300


def reference(parts):
    """The correction after parts, pairs of predictions and targets, from its definition."""
    errors = [(np.array(y) - np.array(f)) for f, y in parts]
    x, z, weights = [], [float(r.mean()) for r in errors], []
    for r in errors:
        end = 0.0
        for k, each in enumerate(r, 1):
            end += (each - end) / min(k, 64)
        x.append(end)
    count = len(parts) - 1
    weights = 0.98 ** np.arange(count)[::-1]
    before, after = np.array(x[:-1]), np.array(z[1:])
    pairs, squares = weights.sum(), (weights * before**2).sum()
    b = (weights * before * after).sum() / ((1.0 + 1.0 / pairs) * squares)
    deviation = np.sqrt((weights * (after - b * before) ** 2).sum() / (pairs * squares))
    return min(max(b - (1.0 + 2.0 / pairs) * deviation, 0.0), 1.0) * x[-1]


@pytest.mark.parametrize("levels", ["of a walk", "of noise"])
def test_the_correction_is_that_of_its_definition(levels):
    rng, level, parts = np.random.default_rng(3), Level(), []
    drawn = rng.normal(size=12)
    for at in np.cumsum(drawn) if levels == "of a walk" else drawn:
        f = rng.normal(size=rng.integers(70, 300))
        y = f + at + 0.3 * rng.normal(size=len(f))
        level.predict(f)
        level.begin(-1e9, 1e9)
        for some in np.array_split(y, 5):
            level.learn(some)
        parts.append((f, y))
        if len(parts) > 2:
            assert level.correction(False) == pytest.approx(reference(parts), abs=1e-9)
    assert (level.correction(False) != 0.0) == (levels == "of a walk")


def test_parts_with_few_labels_do_not_count():
    level = Level()
    for count in (100, 100, 100, 100, 100, 31):
        level.predict(np.zeros(100))
        level.begin(-9.0, 9.0)
        level.learn(np.ones(count))
    assert level.correction(False) == 0.0
    level.learn(np.ones(1))
    assert level.correction(False) > 0.5


def meter(n, seed=0):
    """Return inputs and readings of a meter: what was used since the first event."""
    used = np.maximum(1.0 + 0.3 * np.random.default_rng(seed).normal(size=n), 0.0)
    return pd.DataFrame({"t": np.arange(n, dtype=float), "used": used}), np.cumsum(used)


def in_parts(learner, X, y, stop=None):
    """Predict and learn parts; return the predictions."""
    said = []
    for start in range(0, len(y) if stop is None else stop, PART):
        rows = X[start : start + PART]
        said.append(np.asarray(learner.predict_many(rows), dtype=float))
        learner.learn_many(rows, y[start : start + PART])
    return np.concatenate(said)


@pytest.mark.parametrize("label_memory", [True, False])
def test_a_meter_is_followed(label_memory):
    """It is seen from the third part on; without it, predictions were the mean of all readings."""
    X, y = meter(3000)
    learner = streamk.KernelRegressor(features=768, seed=1, label_memory=label_memory)
    said, late = in_parts(learner, X, y), slice(3 * PART, None)
    last = np.repeat(np.concatenate([[0.0], y[PART - 1 :: PART]])[:-1], PART)
    assert np.abs(said - y)[late].mean() < 1.2 * np.abs(last - y)[late].mean()


def test_a_level_that_goes_up_and_down_is_followed_too():
    """It is no time-like number, so it takes some parts."""
    X, _ = meter(6000)
    level = 20.0 * np.sin(np.arange(6000) / 500.0)
    learner = streamk.KernelRegressor(features=768, seed=1)
    said, late = in_parts(learner, X, level + X["used"].to_numpy()), slice(3000, None)
    assert np.abs(said - level)[late].mean() < 0.8 * np.abs(level - level.mean())[late].mean()


def test_saved_and_frozen_models_follow_it():
    X, y = meter(5 * PART)
    learner = streamk.KernelRegressor(features=768, seed=1)
    in_parts(learner, X, y, stop=4 * PART)
    rows, frozen = X[4 * PART :], learner.frozen()
    for model in (streamk.loads(learner.to_bytes()), frozen, streamk.loads(frozen.to_bytes())):
        np.testing.assert_allclose(model.view_array(rows), learner.view_array(rows), rtol=1e-7)
    assert frozen.view_array(rows).mean() > 0.9 * y[4 * PART]


def test_levels_that_do_not_persist_change_nothing():
    X, _ = meter(3000)
    flat = np.sin(X["used"].to_numpy() * 3.0) + 0.1 * np.random.default_rng(1).normal(size=3000)
    learner = streamk.KernelRegressor(features=768, seed=1)
    in_parts(learner, X, flat)
    assert abs(learner._correction) < 0.05


def test_one_by_one_and_at_once_give_one_model():
    X, y = meter(5 * PART)
    many, single = (streamk.KernelRegressor(features=768, seed=1) for _ in range(2))
    in_parts(many, X, y)
    for start in range(0, len(y), PART):
        rows = X[start : start + PART].to_dict("records")
        for x in rows:
            single.predict_one(x)
        for x, target in zip(rows, y[start : start + PART].tolist(), strict=True):
            single.learn_one(x, target)
    assert many._correction > 0.0
    np.testing.assert_allclose(single._level.state, many._level.state, rtol=0.05)  # the second part's
    assert single._level.state[:8] == pytest.approx(many._level.state[:8], rel=1e-6)


def test_a_file_in_the_middle_of_a_part_keeps_it_and_views_leave_no_trace():
    X, y = meter(6 * PART)
    learner = streamk.KernelRegressor(features=768, seed=1)
    in_parts(learner, X, y, stop=5 * PART)
    learner.predict_many(X[5 * PART :])
    learner.learn_many(X[5 * PART : 5 * PART + 50], y[5 * PART : 5 * PART + 50])
    again = streamk.loads(learner.to_bytes())
    learner.view_array(X[:500])
    assert not learner._level.since.any()
    for one in (learner, again):
        one.learn_many(X[5 * PART + 50 :], y[5 * PART + 50 :])
    assert again.to_bytes() == learner.to_bytes()
    np.testing.assert_array_equal(again.predict_many(X[:300]), learner.predict_many(X[:300]))


def test_a_wrong_target_hardly_moves_the_level():
    X, y = meter(6 * PART)
    corrections = []
    for wrong in (0.0, 1e12):
        learner, targets = streamk.KernelRegressor(features=768, seed=1), y.copy()
        targets[-5] += wrong
        in_parts(learner, X, targets)
        corrections.append(learner._correction)
    assert abs(corrections[1] - corrections[0]) < y.std()


def test_a_time_like_target_in_a_file_is_one_or_not_there():
    with pytest.raises(ValueError, match="its time-like target is impossible"):
        TimeLike().load_state_dict({"time_like.target": np.array([2])}, 0)


def test_a_learner_that_starts_again_keeps_it():
    """It does after 1,000 events, because an input has heavy tails."""
    X, y = meter(5 * PART)
    X["amount"] = np.exp(3.0 * np.random.default_rng(2).normal(size=len(X)))
    learner = streamk.KernelRegressor(features=768, seed=1)
    in_parts(learner, X, y)
    assert learner.summary()["transformed"] == ["amount"]
    assert learner._level.state[-1] == 3.0


def test_what_is_compared_is_predicted_without_the_correction():
    X, y = meter(5 * PART)
    learner = streamk.KernelRegressor(features=768, seed=1)
    in_parts(learner, X, y, stop=4 * PART)
    said, correction = learner.predict_many(X[4 * PART :]), learner._correction
    assert correction > 100.0
    assert learner._level.since[1] == pytest.approx(np.mean(said) - correction)


def test_prompt_labels_end_it():
    X, y = meter(6 * PART)
    learner = streamk.KernelRegressor(features=768, seed=1)
    in_parts(learner, X, y, stop=5 * PART)
    assert learner._correction > 0.0
    learner.predict_one(X.iloc[-1].to_dict())
    learner.learn_one(X.iloc[-1].to_dict(), float(y[-1]))
    assert learner._correction == 0.0
    assert "level.state" not in learner._to_parts()[1]


@pytest.mark.parametrize(("place", "value"), [(0, -1.0), (3, 0.5), (5, np.nan), (10, -1.0), (13, np.inf)])
def test_an_impossible_state_is_refused(place, value):
    state = np.zeros(14)
    state[place] = value
    with pytest.raises(ValueError, match="its errors of parts are impossible"):
        Level().load_state_dict({"level.state": state})
