"""What a field is called, and in which order it comes, as learners see it."""

import itertools

import numpy as np
import pandas as pd
import pytest

import streamk

SETTINGS = [
    {}, {"directions": "dense"}, {"directions": "structured"}, {"scale_inputs": False},
    {"scale_inputs": False, "directions": "structured"}, {"kernel": ("laplacian", "gaussian")},
]  # fmt: skip


def stream(n=30):
    rng = np.random.default_rng(0)
    return [({"0": a, "1": b, "c": str(c)}, a * b + c) for a, b, c in rng.integers(-9, 9, (n, 3)) / 3]


def learned(name=lambda field: field, events=None, **settings):
    learner = streamk.KaczmarzRegressor(features=128, seed=1, **settings)
    for x, y in events or stream():
        learner.learn_one({name(field): value for field, value in x.items()}, y)
    return learner


NAMES = {
    "integers": lambda field: int(field) if field.isdigit() else field,
    "floats": lambda field: float(field) if field.isdigit() else field,
    "numpy": lambda field: np.float32(field) if field.isdigit() else np.str_(field),
}


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("kind", NAMES)
def test_a_whole_number_is_one_name(kind, settings):
    name = NAMES[kind]
    texts, others = learned(**settings), learned(name, **settings)
    assert others.to_bytes() == texts.to_bytes()
    for x, _ in stream(5):
        expected = texts.predict_one(x)
        for _ in range(3):
            for other in NAMES.values():
                assert texts.predict_one({other(k): v for k, v in x.items()}) == expected
    events = [x for x, _ in stream(5)]
    expected = [texts.predict_one(x) for x in events]
    frame = pd.DataFrame(events).rename(columns=name)
    assert texts.predict_many(frame).tolist() == expected
    assert texts.predict_many([{name(k): v for k, v in x.items()} for x in events]) == expected
    array = frame.to_numpy()
    assert texts.predict_many(array, names=list(frame.columns)).tolist() == expected


@pytest.mark.parametrize("settings", SETTINGS)
def test_true_is_another_name(settings):
    learner = streamk.KaczmarzRegressor(features=128, seed=1, **settings)
    for k in range(20):
        learner.learn_one({1: float(k % 5)}, k % 5)
        learner.learn_one({"True": float(k % 3)}, -(k % 3))
    ones = [learner.predict_one({1: 2.0}) for _ in range(3)]
    truths = [learner.predict_one({True: 2.0}) for _ in range(3)]
    assert len(set(ones)) == len(set(truths)) == 1
    assert ones[0] == learner.predict_one({"1": 2.0}) == learner.predict_one({1.0: 2.0})
    assert truths[0] == learner.predict_one({"True": 2.0}) != ones[0]


@pytest.mark.parametrize("settings", SETTINGS)
def test_the_order_of_fields_never_matters(settings):
    x = {"a": 1.0, "b": -2.0, "c": "red", "d": True, "e": 0.25}
    events = [({k: x[k] for k in order}, float(i % 7)) for i, order in enumerate(itertools.permutations(x))]
    expected = learned(events=[({k: x[k] for k in sorted(x)}, y) for x, y in events], **settings)
    found = learned(events=events, **settings)
    assert found.to_bytes() == expected.to_bytes()
    assert len({found.predict_one(event) for event, _ in events}) == 1


@pytest.mark.parametrize("directions", ["keyed", "dense", "structured"])
def test_presence_and_absence_and_none_are_three_things(directions):
    """A number at its mean is an input of 1, as is one said to be missing; one that is not there is 0."""
    learner = streamk.KaczmarzRegressor(features=128, seed=1, directions=directions)
    for k in range(40):
        learner.learn_one({"a": float(k % 5), "b": 3.0}, float(k % 5))
        learner.learn_one({"a": float(k % 5)}, -5.0)
    missing, absent = learner.predict_one({"a": 1.0, "b": None}), learner.predict_one({"a": 1.0})
    assert learner.predict_one({"a": 1.0, "b": 3.0}) == missing
    assert missing - absent > 1.0
