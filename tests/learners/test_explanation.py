"""Explanations of predictions: planted fields, closed forms, classes, and errors."""

import itertools
from datetime import datetime, timedelta

import numpy as np
import pytest

import streamk
from benchmarks.explain import explained
from streamk.learners.explanation import explain


@pytest.mark.parametrize("tables", [range(20), pytest.param(range(20, 100), marks=pytest.mark.long)])
def test_planted_fields_are_first(tables):
    results = [explained(number) for number in tables]
    assert sum(first for first, _, _ in results) >= 0.95 * len(tables)
    assert np.mean([share for _, share, _ in results]) >= 0.95


def _function_of(learner, names, function):
    """Return a function of encoded rows from one of the values of fields, that are numbers."""
    slots = [learner._codec.inputs.numbers[name] for name in names]

    def predict(rows):
        values = np.zeros((len(rows.values), len(names)))
        for j, slot in enumerate(slots):
            here = np.broadcast_to(rows.slots == slot, rows.values.shape)
            values[:, j] = np.where(here, rows.values, 0.0).sum(axis=1)
        return function(values)

    return predict


def _shapley(function, x):
    """Return the Shapley values against zeros, by all permutations."""
    orders, values = list(itertools.permutations(range(len(x)))), np.zeros(len(x))
    for order in orders:
        row, before = np.zeros(len(x)), function(np.zeros((1, len(x))))[0]
        for j in order:
            row[j] = x[j]
            after = function(row[None])[0]
            values[j] += (after - before) / len(orders)
            before = after
    return values


def test_contributions_are_the_shapley_values_of_pairwise_interactions():
    names, x = ["a", "b", "c", "d"], {"a": 1.0, "b": 2.0, "c": -3.0, "d": 0.5}
    learner = streamk.KaczmarzRegressor(features=64, seed=1)
    learner.learn_many([{name: float(i % 3) for name in names} for i in range(20)], [0.0] * 20)

    def function(v):
        return 3.0 * v[:, 0] + v[:, 1] ** 2 + 2.0 * v[:, 0] * v[:, 2] - v[:, 1] * v[:, 3]

    value = float(function(np.array([list(x.values())]))[0])
    explanation = explain(learner._codec.inputs, x, value, None, _function_of(learner, names, function))
    wanted = _shapley(function, np.array(list(x.values())))
    assert [explanation.contributions[name] for name in names] == pytest.approx(wanted.tolist())
    assert explanation.base == pytest.approx(0.0, abs=1e-12)


def test_field_without_effect_has_contribution_zero():
    learner = streamk.KaczmarzRegressor(features=64, seed=1)
    learner.learn_many(
        [{"a": float(i % 3), "b": float(i % 5)} for i in range(50)], [float(i % 3) for i in range(50)]
    )
    predict = _function_of(learner, ["a", "b"], lambda v: np.exp(v[:, 0]))
    explanation = explain(learner._codec.inputs, {"a": 1.0, "b": 2.0}, np.e, None, predict)
    assert explanation.contributions == {"a": pytest.approx(np.e - 1.0), "b": 0.0}


def test_class_is_the_predicted_one_unless_named():
    learner = streamk.KernelClassifier(seed=7)
    learner.learn_many(
        [{"a": float(i % 3)} for i in range(300)], [("x", "y", "z")[i % 3] for i in range(300)]
    )
    assert learner.explain_one({"a": 2.0}).label == "z"
    named = [learner.explain_one({"a": 2.0}, label) for label in "xyz"]
    assert sum(each.prediction for each in named) == pytest.approx(1.0)
    assert sum(each.contributions["a"] for each in named) == pytest.approx(0.0, abs=1e-9)
    with pytest.raises(ValueError, match="no class 'w'; its classes are 'x', 'y', 'z'"):
        learner.explain_one({"a": 2.0}, "w")


def test_untrained_learner_explains_with_zeros():
    assert streamk.KernelRegressor(seed=1).explain_one({"a": 1.0}) == (0.0, 0.0, {"a": 0.0}, None)
    assert streamk.KernelClassifier(seed=1).explain_one({"a": 1.0}).contributions == {"a": 0.0}


def test_date_is_one_field_and_bad_values_are_refused():
    start = datetime(2024, 1, 1)
    xs = [{"t": start + timedelta(hours=i), "a": float(i % 5)} for i in range(300)]
    learner = streamk.KernelRegressor(seed=7)
    learner.learn_many(xs, [float(x["t"].hour) for x in xs])
    assert list(learner.explain_one(xs[-1]).contributions) == ["t", "a"]
    before = learner.to_bytes()
    with pytest.raises(ValueError, match="'a'"):
        learner.explain_one({"a": [1]})
    assert learner.to_bytes() == before
