"""River's own battery, and the ways river's users put a learner together."""

import pickle
from types import GeneratorType

import numpy as np
import pytest
from river import checks, compose, datasets, evaluate, metrics, multiclass, preprocessing

import streamk
from streamk.exact import EXACT
from streamk.learners import LEARNERS

from .subjects import events


def follows_memory(check):
    return check.__name__ == "check_bounded_memory_growth"


def repeats(check):
    """Whether a check follows memory over a stream that another follows, with ``np.bool_`` for ``bool``."""
    return follows_memory(check) and isinstance(check.keywords["dataset"], GeneratorType)


MODELS = [
    (cls(**parameters), k)
    for cls in (LEARNERS | EXACT).values()
    for k, parameters in enumerate(cls._unit_test_params())
]
BATTERY = [
    pytest.param(
        model,
        check,
        id=f"{type(model).__name__}-{getattr(model, 'loss', 'default')}-{check.__name__}-{i}",
        marks=[pytest.mark.long] if k or (follows_memory(check) and type(model) in EXACT.values()) else [],
    )
    for model, k in MODELS
    for i, check in enumerate(checks.yield_checks(model))
    if not repeats(check)
]


@pytest.mark.parametrize(("model", "check"), BATTERY)
def test_the_battery(model, check):
    check(model.clone())


def test_no_check_is_skipped():
    for model, _ in MODELS:
        assert set(model._unit_test_skips()) == set()


def test_behind_a_river_scaler():
    model = preprocessing.StandardScaler() | streamk.KaczmarzClassifier(scale_inputs=False, seed=1)
    metric = evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
    assert metric.get() > 0.85


def test_in_a_pipeline_with_categories():
    model = compose.Discard("a") | streamk.KaczmarzClassifier(seed=1)
    for x, y in events(50):
        model.predict_one(x)
        model.learn_one(x, y)
    assert "a" not in model["KaczmarzClassifier"]._codec.inputs.numbers


def test_one_versus_rest():
    model = multiclass.OneVsRestClassifier(streamk.KaczmarzClassifier(features=128, loss="margin", seed=1))
    metric = evaluate.progressive_val_score(
        datasets.ImageSegments().take(500), preprocessing.StandardScaler() | model, metrics.Accuracy()
    )
    assert metric.get() > 0.6


def test_weighted_streams():
    stream = [(x, y, {"w": 2.0}) for x, y in events(60)]
    model = streamk.KaczmarzClassifier(seed=1)
    assert evaluate.progressive_val_score(stream, model, metrics.Accuracy()).get() > 0.4
    assert model.events == 60


def test_delayed_labels():
    model = streamk.KaczmarzClassifier(seed=1)
    metric = evaluate.progressive_val_score(
        datasets.Phishing(), model, metrics.ROCAUC(), moment=None, delay=20
    )
    assert metric.get() > 0.85


def test_before_any_learning():
    classifier, regressor = streamk.KaczmarzClassifier(), streamk.KaczmarzRegressor()
    assert classifier.predict_proba_one({"a": 1.0}) == {}
    assert classifier.predict_one({"a": 1.0}) is None
    assert regressor.predict_one({"a": 1.0}) == 0.0
    X = np.zeros((2, 1))
    assert classifier.predict_many(X, names=["a"]).tolist() == [None, None]
    assert classifier.predict_proba_many(X, names=["a"]).shape == (2, 0)
    assert regressor.predict_many(X, names=["a"]).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("rows", [0, 1])
def test_empty_and_single_rows(rows):
    X, y = np.zeros((rows, 2)), [1.0] * rows
    for learner, target in (
        (streamk.KaczmarzRegressor(seed=1), y),
        (streamk.KaczmarzClassifier(seed=1), ["a"] * rows),
        (streamk.KaczmarzClassifier(seed=1, block_size=4), ["a"] * rows),
    ):
        learner.learn_many(X, target, names=["p", "q"])
        assert len(learner.predict_learn_many(X, target, names=["p", "q"])) == rows
        assert len(learner.predict_many(X, names=["p", "q"])) == rows
        learner.flush()
        assert learner.events == 2 * rows


def test_an_event_without_fields():
    learner = streamk.KaczmarzClassifier(seed=1)
    for i in range(30):
        learner.learn_one({}, i % 3 == 0)
    assert learner.predict_one({}) is False


def test_the_model_does_not_grow_with_the_stream():
    learner = streamk.KaczmarzClassifier(seed=1, features=64)
    sizes = []
    for part in range(4):
        for i, (x, y) in enumerate(events(400, seed=part)):
            learner.learn_one({**x, "free text": f"event {part} {i}"}, y)
        sizes.append(len(pickle.dumps(learner)))
    assert max(sizes) - min(sizes) < 64
