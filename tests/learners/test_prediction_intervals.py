"""Intervals of predictions through the learner: units, levels, drift, and what it must refuse."""

import math

import numpy as np
import pandas as pd
import pytest

import streamk


def stream(n, seed=0, drift=False):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.uniform(size=(n, 3)), columns=list("abc"))
    y = 10 * np.sin(3 * X.a * X.b) + 5 * X.c + np.exp(2 * X.a) * rng.normal(size=n) / 4
    if drift:
        y = np.where(np.arange(n) < n // 2, y, 30 - 2 * y + 3 * rng.normal(size=n))
    return X, np.asarray(y, dtype=float)


def regressor(**parameters):
    return streamk.KernelRegressor(features=768, seed=1, **parameters)


@pytest.mark.parametrize("drift", [False, True])
def test_as_many_targets_lie_inside_as_were_promised(drift):
    X, y = stream(3000, 1, drift)
    learner, inside = regressor(), {0.5: 0, 0.9: 0}
    for x, target in zip(X.to_dict("records"), y, strict=True):
        for level in inside:
            inside[level] += target in learner.predict_interval_one(x, level)
        learner.learn_one(x, target)
    for level, count in inside.items():
        assert count / len(y) == pytest.approx(level, abs=0.02)


def test_they_are_in_the_units_of_the_target():
    X, y = stream(600)
    learner, scaled = regressor(), regressor()
    learner.learn_many(X, y)
    scaled.learn_many(X, 1000 * y + 7)
    x = X.iloc[3].to_dict()
    one, other = learner.predict_interval_one(x), scaled.predict_interval_one(x)
    assert other.lower == pytest.approx(1000 * one.lower + 7, rel=1e-3)
    assert other.upper == pytest.approx(1000 * one.upper + 7, rel=1e-3)
    assert one.lower < learner.predict_one(x) < one.upper


def test_many_are_the_same_as_one_by_one():
    X, y = stream(300)
    learner = regressor()
    learner.learn_many(X, y)
    found = learner.predict_interval_many(X[:16], level=0.8)
    assert list(found.columns) == ["lower", "upper"]
    for x, (lower, upper) in zip(X[:16].to_dict("records"), found.to_numpy(), strict=True):
        one = learner.predict_interval_one(x, level=0.8)
        assert (one.lower, one.upper) == (lower, upper)
    assert learner.predict_interval_many(X[:0]).shape == (0, 2)


def test_they_survive_a_file_and_a_merge(tmp_path):
    X, y = stream(500)
    halves = [regressor(), regressor()]
    for k, half in enumerate(halves):
        half.learn_many(X[k::2], y[k::2])
    halves[0].save(tmp_path / "model")
    x = X.iloc[0].to_dict()
    assert streamk.load(tmp_path / "model").predict_interval_one(x) == halves[0].predict_interval_one(x)
    merged = streamk.merge(halves).predict_interval_one(x)
    widths = [half.predict_interval_one(x).width for half in halves]
    assert 0.5 * min(widths) < merged.width < 2.0 * max(widths)


def test_intervals_are_infinite_before_two_events():
    learner, x = regressor(), {"a": 1.0}
    assert learner.predict_interval_one(x).lower == -math.inf
    learner.learn_one(x, 5.0)
    assert learner.predict_interval_one(x).upper == math.inf
    assert learner.predict_interval_many([x, x]) == 2 * [{"lower": -math.inf, "upper": math.inf}]
    learner.learn_one(x, 5.0)
    assert learner.predict_interval_one(x).width == 0.0


@pytest.mark.parametrize("level", [0, 0.995, 1, -0.5, math.nan, "0.9", True, None])
def test_a_level_that_cannot_be(level):
    learner = regressor()
    with pytest.raises(ValueError, match="level must be above 0 and at most"):
        learner.predict_interval_one({"a": 1.0}, level=level)
    with pytest.raises(ValueError, match="level"):
        learner.predict_interval_many([{"a": 1.0}], level=level)


def test_a_value_that_cannot_be_is_named():
    learner = regressor()
    learner.learn_many(*stream(50))
    with pytest.raises(ValueError, match="'a'"):
        learner.predict_interval_one({"a": math.inf})
