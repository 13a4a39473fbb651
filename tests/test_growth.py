"""Growing features: a function of the events learned, and nothing that was learned changes."""

import numpy as np
import pytest

import streamk
from streamk.schedules import events_before_opening, openings_at

NAMES = ["a", "b", "c"]


@pytest.mark.parametrize("growth", ["fixed", "sqrt", "linear"])
@pytest.mark.parametrize("period", [1, 7, 1000])
def test_an_opening_comes_when_the_schedule_says(growth, period):
    exponent = {"fixed": 0.0, "sqrt": 0.5, "linear": 1.0}[growth]
    for n in range(0, 40 * period, max(1, period // 3)):
        now = openings_at(growth, period, n)
        assert now == int((1 + n / period) ** exponent + 1e-12)
        assert (
            events_before_opening(growth, period, now) <= n < events_before_opening(growth, period, now + 1)
        )


def stream(n):
    X = np.random.default_rng(0).normal(size=(n, 3))
    return X, (X[:, 0] * X[:, 1] > 0).tolist()


@pytest.mark.parametrize(
    ("growth", "most", "expected"), [("sqrt", 10**6, [1, 2, 3]), ("linear", 448, [1, 7, 7])]
)
def test_features_follow_the_events_learned(growth, most, expected):
    learner = streamk.KaczmarzClassifier(
        features=64, growth=growth, period=50, max_features=most, scale_inputs=False, seed=1
    )
    X, y = stream(600)
    w = np.ones(600)
    w[::2] = 0.0  # events without weight do not count
    found = []
    for start, stop in ((0, 100), (100, 602), (602, 1200)):
        part = slice(start // 2, stop // 2)
        learner.learn_many(
            np.repeat(X[part], 2, 0),
            np.repeat(y[part], 2).tolist(),
            np.tile([0.0, 1.0], len(y[part])),
            names=NAMES,
        )
        found.append(learner.feature_count // 64)
    assert learner.events == 600
    assert found == expected


def test_growing_beats_what_it_began_with():
    """The error falls where a fixed small model stays: a stream whose classes need many features."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, size=(6000, 2))
    y = ((np.floor(4 * X[:, 0]) + np.floor(4 * X[:, 1])) % 2 == 0).tolist()
    errors = {}
    for growth in ("fixed", "sqrt"):
        learner = streamk.KaczmarzClassifier(
            features=64,
            growth=growth,
            period=100,
            bandwidth=0.1,
            scales=(1.0,),
            memory=0,
            scale_inputs=False,
            seed=1,
        )
        predicted = learner.predict_learn_many(X, y, names=["a", "b"])
        errors[growth] = np.mean(predicted[3000:] != np.array(y[3000:]))
    assert errors["sqrt"] < 0.75 * errors["fixed"]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"growth": "fast"}, "growth='fast': growth must be 'fixed' or 'sqrt' or 'linear'"),
        ({"growth": "sqrt", "features": 100}, "features=100: features must be a multiple of 64 if they grow"),
        (
            {"growth": "sqrt", "features": 128, "max_features": 64},
            "max_features=64: .* at least features=128",
        ),
        ({"period": 0}, "period=0"),
        ({"max_features": 2.0}, "max_features=2.0"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        streamk.KaczmarzClassifier(**parameters)
