"""Time-like numbers, and errors without new labels."""

import datetime

import numpy as np
import pytest

import streamk

EVENTS = 3000
START = datetime.datetime(2025, 12, 3)


def sensor_log(clock="battery", seed=0):
    """Events of three devices, their power, and a number that falls or rises all the time."""
    rng, n = np.random.default_rng(seed), EVENTS
    temp = 40.0 + 5.0 * np.sin(np.arange(n) / 1440 * 2 * np.pi) + rng.normal(size=n)
    rpm = rng.choice([600.0, 1000.0, 1400.0], n) + rng.normal(0.0, 10.0, n)
    device = rng.integers(0, 3, n)
    y = 2.0 * (rpm / 1000) ** 2 + 0.05 * (temp - 40.0) + 0.3 * device + 0.02 * rng.normal(size=n)
    clocks = {
        "battery": lambda i: round(100.0 - 50.0 * i / n, 1),
        "counter": lambda i: 7 * i,
        "ts": lambda i: START + datetime.timedelta(minutes=i + (360 if i > n // 2 else 0)),
        "minute": lambda i: i % 1500,  # a second period ends with the log
        "noise": lambda i: float(temp[i - 1]),
    }
    xs = [
        {"temp": temp[i], "rpm": rpm[i], "device": f"d{device[i]}", clock: clocks[clock](i)} for i in range(n)
    ]
    return xs, y


def replayed(clock="battery"):
    xs, y = sensor_log(clock)
    learner = streamk.KernelRegressor(seed=0)
    found = learner.predict_learn_many(xs, y.tolist())
    return learner, xs, y, float(np.abs(np.array(found) - y).mean())


def mae(model, xs, y):
    return float(np.abs(np.array(model.predict_many(xs)) - y).mean())


@pytest.mark.parametrize("clock", ["battery", "counter", "ts"])
def test_a_loaded_model_predicts_its_training_log(clock):
    learner, xs, y, error = replayed(clock)
    loaded = streamk.loads(learner.to_bytes())
    for model in (loaded, loaded.frozen(), streamk.loads(loaded.frozen().to_bytes()), loaded.closed()):
        assert mae(model, xs, y) < 1.5 * error
    frozen = loaded.frozen()
    assert [frozen.predict_one(x) for x in xs[:20]] == pytest.approx(frozen.predict_many(xs[:20]))
    assert "time_like.last" not in loaded._to_parts()[1]  # it follows from the sample
    names = {name.partition("@")[0] for name in loaded.summary()["time_like"]}
    assert names == {clock}


@pytest.mark.parametrize("count", [1, 40])
def test_rows_of_long_ago_are_not_the_next_ones(count):
    learner, xs, _, _ = replayed()
    following = [x | {"battery": xs[-1]["battery"] - 0.1} for x in xs[:count]]
    earlier, frozen = [x | {"battery": 75.0} for x in following], learner.frozen()
    assert learner.predict_many(following)[0] == pytest.approx(learner.predict_one(following[0]))
    assert learner.predict_many(following)[0] != pytest.approx(frozen.predict_many(following)[0], rel=1e-3)
    assert learner.predict_many(earlier) == pytest.approx(frozen.predict_many(earlier), rel=1e-3)
    mixed = [following[0], *earlier]
    assert learner.predict_many(mixed)[0] == learner.predict_many(following)[0]


@pytest.mark.parametrize("clock", ["minute", "noise"])
def test_values_that_return_are_no_time(clock):
    learner, xs, y, error = replayed(clock)
    assert learner.summary()["time_like"] == []
    assert "time_like.last" not in learner._to_parts()[1]
    assert mae(learner.frozen(), xs, y) < 1.5 * error


def test_a_calendar_input_is_time_until_it_has_been_through_its_circle():
    learner, *_ = replayed("ts")
    parts = {name.removeprefix("ts@").partition(".")[0] for name in learner.summary()["time_like"]}
    assert parts == {"elapsed", "weekday", "day_of_year"}  # after two days


def test_a_counter_makes_no_difference_while_labels_come_in_chunks():
    xs, ys = sensor_log("counter")
    learner = streamk.KernelRegressor(features=768, seed=0)
    for start in range(0, EVENTS, 500):
        learner.predict_many(xs[start : start + 500])
        learner.learn_many(xs[start : start + 500], ys[start : start + 500])
    assert learner.summary()["time_like"] == ["counter"]
    changed = [{**x, "counter": 10**6} for x in xs[:50]]
    assert learner.predict_many(changed) == learner.predict_many(xs[:50])


def test_last_values_out_of_bounds_are_rejected():
    learner, *_ = replayed()
    header, arrays = learner._to_parts()
    for last in ([[99.0, 1.0]], [[0.5, 1.0]], [[0.0, np.nan]], [[0.0, 1e300]]):
        with pytest.raises(ValueError, match="time-like"):
            type(learner)._from_parts(header, {**arrays, "time_like.last": np.array(last)})


def test_a_summary_has_errors_with_labels_and_without_new_ones():
    rng = np.random.default_rng(2)
    level = np.cumsum(rng.normal(size=EVENTS))
    z = rng.normal(size=(EVENTS, 2))
    follows, explains = (streamk.KernelRegressor(features=768, seed=1) for _ in range(2))
    follows.learn_many(z, level, names=["a", "b"])
    explains.learn_many(z, z[:, 0] + 0.5 * rng.normal(size=EVENTS), names=["a", "b"])
    errors = follows.summary()["errors"]
    assert errors["measure"] == "RMSE"
    assert 0.8 < errors["with_labels"] < 1.5
    assert follows.summary().warning().startswith("without new labels, expect ")
    errors = explains.summary()["errors"]
    assert 0.4 < errors["with_labels"] < 0.6
    assert 0.4 < errors["without_labels"] < 0.65
    assert explains.summary().warning() == ""
    assert explains.frozen().summary()["errors"] == {}
    assert streamk.KernelRegressor().summary()["errors"] == {}


def test_errors_of_classes_are_those_of_probabilities():
    rng = np.random.default_rng(2)
    z, turns = rng.normal(size=(EVENTS, 2)), np.repeat(rng.random(EVENTS // 50) > 0.5, 50)
    follows, explains = (streamk.KernelClassifier(features=768, seed=1) for _ in range(2))
    follows.learn_many(z, turns.tolist(), names=["a", "b"])
    explains.learn_many(z, (z[:, 0] + 0.5 * rng.normal(size=EVENTS) > 0.0).tolist(), names=["a", "b"])
    assert "squared error of probabilities" in follows.summary().warning()
    assert explains.summary().warning() == ""
    assert 0.1 < explains.summary()["errors"]["without_labels"] < 0.3
