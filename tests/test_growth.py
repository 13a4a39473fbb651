"""Growing features: a function of the events learned, and nothing that was learned changes."""

import numpy as np
import pytest

import streamk
from streamk.encoding.rows import Rows
from streamk.features.activation import AMPLITUDE
from streamk.features.map import FeatureMap
from streamk.features.matrix import fill
from streamk.kernels import kernel
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


@pytest.mark.parametrize(
    ("name", "slots"),
    [
        ("gaussian", None),
        ("laplace", None),
        ("exponential-power:1.3", None),
        ("matern:2.5", 5),
        ("arc-cosine:1", 5),
        ("gaussian", 100),
        ("polynomial:3", None),
    ],
)
def test_old_features_stay_the_same_to_the_byte(name, slots):
    rng = np.random.default_rng(0)
    keys = np.arange(1, 6, dtype=np.uint64) if slots else rng.integers(2**32, 2**63, 5).astype(np.uint64)
    rows = Rows(np.full((1, 5), -1, np.int32), keys[None], rng.normal(size=(9, 5)))

    def features(e):
        phi = np.empty((9, e.width), dtype=np.float32)
        fill(e, rows, np.zeros((0, 3)), AMPLITUDE, phi)
        return phi

    grown = FeatureMap(kernel(name), 1.5, (2.0, 1.0), 128, 5, slots)
    before = features(grown)
    for blocks in (2, 3, 9):
        grown.extend(128 * blocks)
        after = features(grown)
        assert after.shape == (9, 128 * blocks)
        assert (after[:, :128] == before).all()
        fresh = after[:, 128:].reshape(9, blocks - 1, 128)
        assert all((fresh[:, b] != before).mean() > 0.6 for b in range(blocks - 1))


@pytest.mark.parametrize("kernel", ["gaussian", "polynomial"])
def test_a_grown_map_estimates_its_kernel(kernel):
    """Two blocks have half the variance of one, so they are independent."""
    X = np.random.default_rng(1).normal(size=(2, 4)) * 0.6
    rows = Rows(np.full((1, 4), -1, np.int32), np.arange(1, 5, dtype=np.uint64)[None] << np.uint64(40), X)
    exact = streamk.kernels.kernel(kernel)(X, X)[0, 1]
    found = {1: [], 4: []}
    for seed in range(400):
        e = FeatureMap(streamk.kernels.kernel(kernel), 1.0, (1.0,), 64, seed)
        for blocks, estimates in found.items():
            e.extend(64 * blocks)
            phi = np.empty((2, e.width), dtype=np.float32)
            fill(e, rows, np.zeros((0, 3)), AMPLITUDE, phi)
            estimates.append(float(phi[0] @ phi[1]) / e.features)
    for blocks, estimates in found.items():
        assert abs(np.mean(estimates) - exact) < 4 * np.std(estimates) / 20, blocks
    assert 1.7 < np.std(found[1]) / np.std(found[4]) < 2.3


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
        found.append(learner._expansion.features // 64)
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
