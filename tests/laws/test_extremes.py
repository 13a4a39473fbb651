"""Nothing that is accepted makes a learner fail later, or predict what is not a number."""

import itertools
import json
import warnings

import numpy as np
import pytest

import streamk
from streamk import model_file
from streamk.exact import EXACT
from streamk.learners import LEARNERS

from . import subjects

RNG = np.random.default_rng(0)
X = [dict(zip("abc", row, strict=True)) for row in RNG.normal(size=(240, 3)).tolist()]
Y = [x["a"] > x["b"] for x in X]
T = [x["a"] for x in X]
STREAMS = {
    "plain": lambda x: x,
    "constant": lambda x: {"a": 1.0},
    "huge": lambda x: {k: v * 1e10 for k, v in x.items()},
    "empty": lambda x: {},
}
WEIGHTS = {"usual": lambda i: 1.0, "heavy": lambda i: 1e12, "mixed": lambda i: 10.0 ** (i % 61 * 10 - 300)}


def settings():
    for kernel in ("gaussian", "arc-cosine:2", "polynomial:3"):
        for block_size in (1, 16):
            base = {"kernel": kernel, "features": 64, "scales": (1.0,), "bandwidth": 1.0, "seed": 1}
            grown = {**base, "block_size": block_size, "period": 50, "max_features": 128}
            yield "KaczmarzClassifier", {**base, "block_size": block_size, "regularization": 0.0}
            yield "MatchingPursuitClassifier", {**grown, "ridge": 1e-12}
            yield "MatchingPursuitRegressor", {**grown, "ridge": 1e12}
            yield "KaczmarzPursuitClassifier", {**grown, "regularization": 0.0}
        for precondition in (True, False):
            small = {**base, "features": 16 if kernel == "polynomial:3" else 20, "growth": "fixed"}
            step = {"precondition": precondition, "batch_size": 40}
            yield "DoublyStochasticClassifier", {**small, **step, "regularization": 1e-12}
            yield "DoublyStochasticRegressor", {**small, **step, "step": 1e12, "regularization": 1e12}
        exact = {"kernel": kernel, "bandwidth": 1.0, "seed": 1}
        for solver in ("kaczmarz", "pursuit", "kaczmarz-pursuit", "nystrom"):
            yield "LSSVMClassifier", {**exact, "solver": solver, "block": 20, "gamma": 1e12}
        yield "LSSVMRegressor", {**exact, "gamma": 1e-12}
        yield "LowRankKernelRegressor", exact
        yield "EigenProClassifier", {**exact, "centers": 20}
        yield "EigenProRegressor", {**exact, "centers": 20, "projection": "inexact"}


def cases(settings):
    """Settings with half of the streams and weights, of which `make test` takes one.

    The next settings have other pairs: of four with `make long`, and of twelve with `make test`, every pair
    is one's.
    """
    for k, setting in enumerate(settings):
        for (i, stream), (j, weights) in itertools.product(enumerate(STREAMS), enumerate(WEIGHTS)):
            usual = (i * len(WEIGHTS) + j - k) % (len(STREAMS) * len(WEIGHTS)) == 0
            if usual or (i + j + k) % 2:
                marks = [] if usual else [pytest.mark.long]
                yield pytest.param(*setting, stream, weights, marks=marks)


@pytest.mark.parametrize(
    ("name", "parameters", "stream", "weights"),
    list(cases(settings())),
)
def test_predictions_stay_numbers(name, parameters, stream, weights):
    learner = (LEARNERS | EXACT)[name](**parameters, scale_inputs=stream != "huge")
    xs = [STREAMS[stream](x) for x in X]
    y = Y if hasattr(learner, "labels") else T
    if (
        stream == "huge" and parameters["kernel"] == "gaussian" and name in LEARNERS
    ):  # angles of such numbers have no meaning in float32
        with pytest.raises(ValueError, match=r"row 0: field 'a' is .* because inputs are not scaled"):
            learner.learn_many(xs, y)
        return
    if (stream, name, parameters["kernel"]) == ("huge", "EigenProClassifier", "polynomial:3"):
        # there are no similarities that a projection can be made of
        with pytest.raises(ValueError, match="use a larger bandwidth"):
            learner.learn_many(xs, y)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            learner.learn_many(xs, y, [WEIGHTS[weights](i) for i in range(len(xs))])
        learner.flush()
    many = learner.predict_proba_many if hasattr(learner, "labels") else learner.predict_many
    found = many(xs[:20])
    assert np.isfinite([list(p.values()) if isinstance(p, dict) else p for p in found]).all()
    assert streamk.loads(learner.to_bytes()).to_bytes() == learner.to_bytes()


@pytest.mark.parametrize("how", ["closed", "averaged", "file"])
@pytest.mark.parametrize("block_size", [1, 7])
def test_a_closed_block_is_opened_again_however_events_come(how, block_size):
    learner = streamk.KaczmarzPursuitClassifier(
        features=64, period=100, average=True, block_size=block_size, seed=1
    )
    learner.learn_many(X[:150], Y[:150])
    learner.flush()
    copies = [
        streamk.loads(learner.closed().to_bytes()) if how == "file" else getattr(learner, how)()
        for _ in "123"
    ]
    copies[0].learn_many(X[150:], Y[150:])
    for x, y in zip(X[150:], Y[150:], strict=True):
        copies[1].learn_one(x, y)
    copies[2].learn_many(X[:3], Y[:3], [0.0] * 3)
    copies[2].learn_many(X[150:], Y[150:])
    assert copies[0].to_bytes() == copies[1].to_bytes() == copies[2].to_bytes()


def test_events_without_weight_open_nothing():
    learner = streamk.KaczmarzClassifier(features=64, growth="linear", period=100, seed=1)
    learner.learn_many(X[:100], Y[:100])
    before = learner.to_bytes()
    learner.learn_many(X[:3], Y[:3], [0.0] * 3)
    assert learner.to_bytes() == before


@pytest.mark.parametrize("number", [np.int64, np.int32, np.int16, np.uint64])
def test_numbers_of_numpy_are_numbers(number):
    learner = streamk.KaczmarzClassifier(
        features=number(64), growth="linear", period=number(50), max_features=number(256), seed=number(3)
    )
    plain = streamk.KaczmarzClassifier(features=64, growth="linear", period=50, max_features=256, seed=3)
    for each in (learner, plain):
        each.learn_many(X, Y)
    assert learner.to_bytes() == plain.to_bytes()


@pytest.mark.parametrize("name", ["growth", "loss", "directions"])
def test_an_array_is_not_a_choice(name):
    with pytest.raises(ValueError, match=f"{name}=array"):
        streamk.KaczmarzRegressor(**{name: np.array([1, 2])})


CHANGES = {
    "coefficients": lambda h, a: a["expert0.coefficients"].__setitem__((0, 0, 0), np.nan),
    "events": lambda h, a: a["codec.counts"].__setitem__(0, 1e300),
    "half an event": lambda h, a: a["codec.counts"].__setitem__(0, 10.5),
    "steps": lambda h, a: a["expert0.clock"].__setitem__(1, -4.0),
    "calibration": lambda h, a: a["calibration"].__setitem__(0, 1e300),
    "seed": lambda h, a: h.__setitem__("seed", -1),
    "openings": lambda h, a: h.__setitem__("openings", 10**9),
    "weights gone": lambda h, a: a.pop("expert0.weights"),
    "weights": lambda h, a: a["expert0.weights"].__setitem__((0, 0), 1e300),
    "gram": lambda h, a: a.get("expert0.gram", a["codec.counts"]).__setitem__(..., -1.0),
    "factor": lambda h, a: a.get("expert0.factor", a["codec.counts"]).__setitem__(..., 1e300),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("block_size", [1, 7])
def test_an_impossible_model_is_refused(change, block_size):
    learner = streamk.KaczmarzPursuitClassifier(features=64, period=50, block_size=block_size, seed=1)
    learner.learn_many(X, Y)
    header, arrays = learner._to_parts()
    header, arrays = json.loads(json.dumps(header)), {k: v.copy() for k, v in arrays.items()}
    CHANGES[change](header, arrays)
    with pytest.raises(ValueError, match="is not a valid KaczmarzPursuitClassifier"):
        streamk.loads(model_file.pack(header, arrays))


def test_merging_leaves_nothing_shared_and_refuses_what_is_not_alike():
    a, b = (streamk.KaczmarzClassifier(features=64, seed=1) for _ in "12")
    merged = streamk.merge([a, b])
    merged.learn_one({"a": 1.0}, True)
    assert a.events == b.events == 0
    a.learn_many(X, Y)
    b.learn_many(X, [int(y) for y in Y])
    with pytest.raises(ValueError, match="model 1 has labels of type int and model 0 bool"):
        streamk.merge([a, b])
    for wrong in ([a, 3], a, None):
        with pytest.raises(ValueError, match="models must be a list of streamk learners"):
            streamk.merge(wrong)
    once = streamk.merge([a, a], [1e308, 1e308])
    assert (once._experts[0].coefficients == a._experts[0].coefficients).all()


def test_merging_blocks_that_are_almost_singular():
    pair = [
        streamk.MatchingPursuitClassifier(features=64, growth="fixed", seed=1, ridge=1e-6) for _ in range(2)
    ]
    pair[0].learn_many(X[:50], Y[:50], [1e12] * 50)
    pair[1].learn_many(X[50:], Y[50:])
    merged = streamk.merge(pair)
    merged.learn_many(X, Y)
    assert np.isfinite(merged._experts[0].coefficients).all()


def test_every_learner_is_a_subject():
    """Also of the laws that `make test` runs."""
    usual = {name for name in subjects.LEARNERS if name not in subjects.VARIANTS}
    assert len(usual) + len(subjects.VARIANTS) == len(subjects.LEARNERS)
    assert {subjects.LEARNERS[name][0] for name in usual} == set((LEARNERS | EXACT).values())
