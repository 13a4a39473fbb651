"""Baselines learn what they can, never diverge, and take constant memory for any strings."""

import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.replay.contenders import (
    CHOICES,
    HoeffdingTree,
    LastValue,
    LinearClasses,
    LinearNumbers,
    MajorityClass,
    RunningMean,
    baselines,
)


def errors(model, xs, ys):
    return [abs(p - y) for p, y in zip(model.answer(xs, ys), ys, strict=True)]


def test_the_linear_model_learns_a_line():
    xs = [{"a": float(i * 7 % 50), "c": "text"} for i in range(3000)]
    found = errors(LinearNumbers(), xs, [3.0 * x["a"] + 5.0 for x in xs])
    assert max(found[-50:]) < 5.0


def test_the_linear_model_learns_three_classes():
    xs = [{"a": float(i % 3), "c": "xyz"[i % 3], "on": True, "gone": None} for i in range(600)]
    ys = [f"class {i % 3}" for i in range(600)]
    answers = LinearClasses().answer(xs, ys)
    assert answers[0] == {}
    assert all(abs(sum(p.values()) - 1.0) < 1e-9 for p in answers[3:])
    assert all(max(p, key=p.get) == y for p, y in zip(answers[-60:], ys[-60:], strict=True))


@pytest.mark.parametrize("make", [LinearNumbers, lambda: HoeffdingTree("regression")])
@given(
    scale=st.sampled_from([1e-9, 1.0, 1e9]),
    values=st.lists(st.floats(-1e12, 1e12) | st.sampled_from([0.0, 1e9, 1.7e9]), min_size=5, max_size=40),
)
def test_numbers_never_diverge(make, scale, values):
    """A prediction stays near the targets so far, whatever the inputs are."""
    model, most = make(), 0.0
    for k, value in enumerate(values):
        x = {"id": k, "at": 1.7e9 + k, "v": value, "w": scale * value, "s": f"s{k}"}
        y = scale * values[-k]
        found = model.predict(x)
        assert math.isfinite(found)
        assert abs(found) <= 12.0 * most + 1e-300
        model.learn(x, y)
        most = max(most, abs(y))


def test_heavy_tails_do_not_spoil_the_linear_model():
    rng = np.random.default_rng(3)
    xs = [{"a": float(a), "b": float(b)} for a, b in rng.standard_cauchy((5000, 2))]
    ys = [1e6 * x["a"] for x in xs]
    own, mean = errors(LinearNumbers(), xs, ys), errors(RunningMean(), xs, ys)
    assert sum(own) < 2 * sum(mean)


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_unique_strings_take_no_memory(task):
    ys = [k % 2 for k in range(6000)] if task == "classification" else [float(k % 7) for k in range(6000)]
    for model in baselines("full", task).values():
        sizes = []
        for k, y in enumerate(ys):
            x = {"text": f"every value is another one: {k}", "a": float(k % 5)}
            model.predict(x)
            model.learn(x, y)
            if k in (3000, 5999):
                sizes.append(len(pickle.dumps(model)))
        assert sizes[1] < 1.8 * sizes[0] + 1000


def test_last_value_mean_and_majority():
    xs = [{}] * 4
    assert LastValue("regression").answer(xs, [1.0, 2.0, 3.0, 9.0]) == [0.0, 1.0, 2.0, 3.0]
    assert LastValue("classification").answer(xs, ["u", "v", "v", "u"]) == [
        {},
        {"u": 1.0},
        {"v": 1.0},
        {"v": 1.0},
    ]
    assert RunningMean().answer(xs, [1.0, 2.0, 6.0, 0.0]) == [0.0, 1.0, 1.5, 3.0]
    assert MajorityClass().answer(xs, ["u", "v", "v", "u"])[3] == {"u": 1 / 3, "v": 2 / 3}


def test_choices():
    assert [len(baselines(choice, "regression")) for choice in CHOICES] == [0, 3, 4]
    with pytest.raises(ValueError, match="--baseline some: use none, quick, full"):
        baselines("some", "regression")
