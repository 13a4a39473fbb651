"""Merging: the mean of several learners' outputs is one learner's."""

import numpy as np
import pytest

import streamk
from streamk.experts.factor import covariance
from streamk.features.activation import AMPLITUDE
from streamk.features.matrix import fill

from .subjects import events


def outputs(learner, xs):
    """The outputs of the expansion, before any calibration: a dict of label to output, or the target."""
    if not hasattr(learner, "labels"):
        return np.array(learner.predict_many(xs))[:, None], [None]
    e, rows = learner._expansion, []
    for x in xs:
        found = learner._inputs.encode_checked(x, False)
        phi = np.empty((1, e.width), dtype=np.float32)
        fill(e, found, learner._inputs.statistics, AMPLITUDE, phi)
        rows.append(e.coefficients[0, -1].astype(np.float64) @ phi[0].astype(np.float64))
    return np.array(rows)[:, : len(learner.labels)], learner.labels


def learned(make, seed, n=60, **changes):
    learner = make(scale_inputs=False, bandwidth=2.0, **changes)
    for x, y in events(n, seed=seed, classifies=make.classifies):
        learner.learn_one(plain(x), y)
    learner.flush()
    return learner


def plain(x):
    """An event whose numbers need no scaling, the same names in every event, in one order."""
    return {"b": x["b"] / 100.0, "k": float(x["k"]), "on": x["on"], "colour": x.get("colour")}


@pytest.mark.parametrize("weights", [None, [1.0, 3.0, 0.0]])
def test_outputs_are_the_weighted_mean(make, weights):
    models = [learned(make, seed, n) for seed, n in ((1, 60), (2, 90), (3, 45))]
    before = [model.to_bytes() for model in models]
    merged = streamk.merge(models, weights)
    assert [model.to_bytes() for model in models] == before
    assert merged.events == (195 if weights is None else 150)
    xs = [plain(x) for x, _ in events(40, seed=9)]
    shares = np.array([60, 90, 45] if weights is None else weights)
    found, labels = outputs(merged, xs)
    expected = np.zeros_like(found)
    for model, share in zip(models, shares / shares.sum(), strict=True):
        if share == 0.0:
            continue
        given, known = outputs(model, xs)
        for k, label in enumerate(known):
            expected[:, labels.index(label)] += share * given[:, k]
    scale = np.abs(expected).max()
    np.testing.assert_allclose(found, expected, atol=1e-5 * scale)


def test_a_merged_learner_learns_on(make):
    models = [learned(make, seed) for seed in (1, 2)]
    merged = streamk.merge(models)
    copy = streamk.loads(merged.to_bytes())
    for learner in (merged, copy):
        for x, y in events(80, seed=5, classifies=make.classifies):
            learner.learn_one(plain(x), y)
    assert copy.to_bytes() == merged.to_bytes()
    assert merged.events + merged.pending == 200


def test_one_model_merged_is_that_model(make):
    model = learned(make, 1)
    empty = make(scale_inputs=False, bandwidth=2.0)
    for merged in (streamk.merge([model]), streamk.merge([empty, model, empty])):
        xs = [plain(x) for x, _ in events(40, seed=9)]
        np.testing.assert_allclose(outputs(merged, xs)[0], outputs(model, xs)[0], atol=1e-6)
    assert streamk.merge([empty, empty]).to_bytes() == empty.to_bytes()


def test_halves_of_a_stream_predict_like_the_whole(make):
    """Two learners of half the events each, merged, err about as often as one that saw them all."""
    pairs = [(plain(x), y) for x, y in events(1200, seed=3, classifies=make.classifies)]
    parts = {"whole": pairs[:1000], "a": pairs[:1000:2], "b": pairs[1:1000:2]}
    models = {}
    for name, part in parts.items():
        models[name] = make(scale_inputs=False, bandwidth=2.0)
        models[name].learn_many(*map(list, zip(*part, strict=True)))
        models[name].flush()
    models["merged"] = streamk.merge([models["a"], models["b"]])
    xs, ys = map(list, zip(*pairs[1000:], strict=True))
    errors = {}
    for name, model in models.items():
        found = model.predict_many(xs)
        errors[name] = np.mean(
            [a != b if make.classifies else abs(a - b) for a, b in zip(found, ys, strict=True)]
        )
    assert errors["merged"] <= max(errors["a"], errors["b"]) + 0.02
    assert errors["merged"] <= 1.25 * errors["whole"] + 0.03


@pytest.mark.parametrize("block_size", [1, 8])
def test_recursive_least_squares_add_up(block_size):
    """One block, both halves with the weight of their events: what they have seen adds up exactly."""
    X = np.random.default_rng(0).normal(size=(400, 3))
    y = (X[:, 0] * X[:, 1] > 0).tolist()
    halves = []
    for part in (slice(0, 200), slice(200, 400)):
        learner = streamk.MatchingPursuitClassifier(
            growth="fixed", features=64, bandwidth=2.0, scale_inputs=False, block_size=block_size, seed=1
        )
        learner.learn_many(X[part], y[part], names=["a", "b", "c"])
        halves.append(learner)
    merged = streamk.merge(halves)
    whole = streamk.MatchingPursuitClassifier(**halves[0]._get_params())
    whole.learn_many(X, y, names=["a", "b", "c"])
    if block_size > 1:
        ours, theirs = (np.tril(m._active.gram) for m in (merged, whole))
    else:
        ours, theirs = (covariance(m._active) for m in (merged, whole))
    np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-9 * np.abs(theirs).max())


def test_labels_and_names_are_matched():
    one, two = (streamk.KaczmarzClassifier(features=64, bandwidth=1.0, seed=1) for _ in range(2))
    for i in range(40):
        one.learn_one({"a": i % 4, "b": i % 3}, "low" if i % 4 < 2 else "high")
        two.learn_one({"c": i % 5, "b": i % 3}, "other" if i % 5 < 2 else "low")
    merged = streamk.merge([one, two])
    assert merged.labels == ["low", "high", "other"]
    assert list(merged._inputs.numbers) == ["a", "b", "c"]
    counts = {name: merged._inputs.statistics[slot, 0] for name, slot in merged._inputs.numbers.items()}
    assert counts == {"a": 40.0, "b": 80.0, "c": 40.0}
    assert merged.predict_one({"a": 3, "b": 1}) == "high"


def test_pooled_statistics_are_those_of_all_events():
    rng = np.random.default_rng(0)
    values, targets = rng.normal(7, 3, size=90), rng.normal(-2, 5, size=90)
    parts = [slice(0, 20), slice(20, 90)]
    models = [streamk.KaczmarzRegressor(features=64, bandwidth=1.0, seed=1) for _ in parts]
    for model, part in zip(models, parts, strict=True):
        for v, t in zip(values[part], targets[part], strict=True):
            model.learn_one({"v": v}, t)
    merged = streamk.merge(models)
    count, mean, m2 = merged._inputs.statistics[0]
    np.testing.assert_allclose([count, mean, m2 / 90], [90, values.mean(), values.var()], rtol=1e-10)
    np.testing.assert_allclose(merged._state[4:6], [targets.mean(), 90 * targets.var()], rtol=1e-10)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 12}, "model 1 has seed 12 and model 0 11: their features differ"),
        ({"features": 128}, "model 1 has features=128 and model 0 features=96"),
        ({"bandwidth": 3.0}, "bandwidth=3.0"),
        ({"regularization": 1.0}, "regularization=1.0"),
    ],
)
def test_others_are_refused(change, message):
    models = []
    for extra in ({}, change):
        models.append(streamk.KaczmarzClassifier(**{"features": 96, "seed": 11, "bandwidth": 2.0, **extra}))
        models[-1].learn_one({"a": 1.0}, "x")
    with pytest.raises(ValueError, match=message):
        streamk.merge(models)


def test_what_else_is_refused():
    with pytest.raises(ValueError, match="no model"):
        streamk.merge([])
    pair = [streamk.KaczmarzClassifier(seed=1), streamk.KaczmarzRegressor(seed=1)]
    with pytest.raises(ValueError, match="model 1 is a KaczmarzRegressor and model 0 a KaczmarzClassifier"):
        streamk.merge(pair)
    with pytest.raises(ValueError, match="weights has 2"):
        streamk.merge(pair[:1], [1.0, 2.0])
    with pytest.raises(ValueError, match="all weights are 0"):
        streamk.merge(pair[:1], [0.0])
    with pytest.raises(ValueError, match="the weight is -1"):
        streamk.merge(pair[:1], [-1.0])
    waiting = streamk.KaczmarzClassifier(seed=1, block_size=3)
    waiting.learn_one({"a": 1.0}, "x")
    with pytest.raises(ValueError, match=r"1 events of model 0 wait .* flush\(\) it"):
        streamk.merge([waiting])
    default = [streamk.KaczmarzClassifier(seed=1) for _ in range(2)]
    default[0].learn_one({"a": 1.0}, "x")
    default[1].learn_one({"a": 1.0, "b": 2.0}, "x")
    with pytest.raises(ValueError, match=r"model 1 has bandwidth 1.41.* and model 0 1.0"):
        streamk.merge(default)
    placed = [streamk.KaczmarzClassifier(seed=1, bandwidth=1.0, directions="structured") for _ in range(2)]
    placed[0].learn_one({"a": 1.0}, "x")
    placed[1].learn_one({"b": 1.0}, "x")
    with pytest.raises(ValueError, match="met its numbers in another order than model 0, and structured"):
        streamk.merge(placed)
