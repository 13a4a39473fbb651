"""Labels that are floats: whole numbers are integers, everywhere where labels come in."""

import itertools

import numpy as np
import pandas as pd
import pytest

import streamk
from streamk.learners.loading import loads

EVENTS = [{"a": float(i % 7), "b": float(i % 5)} for i in range(120)]
LABELS = [int(x["a"] > x["b"]) for x in EVENTS]
CLASSIFIERS = [streamk.KaczmarzClassifier, streamk.EigenProClassifier]


def learner_of(cls):
    return cls(seed=3) if cls is not streamk.KaczmarzClassifier else cls(features=64, seed=3)


@pytest.fixture(params=CLASSIFIERS, ids=lambda cls: cls.__name__)
def pair(request):
    """A learner of integers, and one that will learn floats."""
    one, other = learner_of(request.param), learner_of(request.param)
    for x, y in zip(EVENTS, LABELS, strict=True):
        one.learn_one(x, y)
    return one, other


def test_by_event_and_in_batches(pair):
    one, other = pair
    kinds = itertools.cycle([float, np.float32, int, np.float64])
    for x, y, kind in zip(EVENTS, LABELS, kinds, strict=False):
        other.learn_one(x, kind(y))
    assert other.to_bytes() == one.to_bytes()
    assert other.labels == [0, 1]
    assert {type(label) for label in (*other.labels, other.predict_one(EVENTS[0]))} == {int}


@pytest.mark.parametrize("of", [np.asarray, pd.Series, list])
def test_series_and_arrays(pair, of):
    one, other = pair
    batched = type(one)(**one._get_params())
    batched.learn_many(EVENTS, LABELS)
    other.learn_many(EVENTS, of(np.array(LABELS, dtype=np.float64)))
    assert other.to_bytes() == batched.to_bytes()


def test_saved_models_learn_on(pair):
    one, other = pair
    for x, y in zip(EVENTS[:60], LABELS[:60], strict=True):
        other.learn_one(x, y)
    other = loads(other.to_bytes())
    for x, y in zip(EVENTS[60:], LABELS[60:], strict=True):
        other.learn_one(x, float(y))
    assert other.to_bytes() == one.to_bytes()


def test_labels_that_come_later(pair):
    one, other = pair
    del one
    for k, (x, y) in enumerate(zip(EVENTS, LABELS, strict=True)):
        other.ask_one(k, x)
        other.tell_one(k, float(y))
    assert other.labels == [0, 1]
    other.ask_one("next", EVENTS[0])
    with pytest.raises(ValueError, match=r"the label is 0\.5"):
        other.tell_one("next", 0.5)
    assert list(other.waiting) == ["next"]


def test_models_of_both_merge():
    models = [learner_of(streamk.KaczmarzClassifier) for _ in range(2)]
    for model, kind in zip(models, (int, float), strict=True):
        model.learn_many(EVENTS, list(map(kind, LABELS)))
    assert streamk.merge(models).labels == [0, 1]


def test_kernel_learner_waits_for_floats():
    learner = streamk.KernelClassifier(seed=3)
    for k, x in enumerate(EVENTS):
        learner.ask_one(k, x)
        if k >= 10:
            learner.tell_one(k - 10, float(LABELS[k - 10]))
    learner.tell_many(list(learner.waiting), [float(y) for y in LABELS[-10:]])
    assert learner.labels == sorted({*LABELS}, key=LABELS.index)
    assert learner.explain_one(EVENTS[0], label=1.0).label == 1


@pytest.mark.parametrize("method", ["learn_one", "predict_one", "predict_proba_one", "explain_one"])
def test_a_series_is_no_event(method):
    learner = learner_of(streamk.KaczmarzClassifier)
    learner.learn_many(EVENTS, LABELS)
    before = learner.to_bytes()
    row = pd.DataFrame(EVENTS).iloc[0]
    label = [1] if method == "learn_one" else []
    for event, remedy in ((row, r"not Series; pass x.to_dict\(\)"), (pd.DataFrame(EVENTS), "end in _many")):
        with pytest.raises(ValueError, match=f"an event must be a dict of field names to values, .*{remedy}"):
            getattr(learner, method)(event, *label)
    assert learner.to_bytes() == before
    getattr(learner, method)(row.to_dict(), *label)
