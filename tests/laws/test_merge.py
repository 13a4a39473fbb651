"""Merging: one learner that knows what several know together."""

import itertools

import numpy as np
import pytest

import streamk
from streamk.features.matrix import fill
from streamk.features.spectra import AMPLITUDE

from .subjects import events


def outputs(learner, xs):
    """The outputs of the expansion, before any calibration: a dict of label to output, or the target."""
    if not hasattr(learner, "labels"):
        return np.array(learner.predict_many(xs))[:, None], [None]
    if len(learner._experts) > 1:
        return np.array([list(p.values()) for p in learner.predict_proba_many(xs)]), learner.labels
    e, rows = learner._map, []
    for x in xs:
        found = learner._codec.inputs.encode(x, False)
        phi = np.empty((1, e.width), dtype=np.float32)
        fill(e, found, learner._codec.inputs.statistics, AMPLITUDE, phi)
        final = learner._experts[0].coefficients[-1].astype(np.float64)
        rows.append(final @ phi[0].astype(np.float64))
    return np.array(rows)[:, : len(learner.labels)], learner.labels


def unscaled(make):
    """The settings in which nothing is scaled."""
    if not hasattr(make(), "loss"):
        return {}
    return {"scale_inputs": False, **({} if make.classifies else {"scale_target": False})}


def learned(make, seed, n=60):
    learner = make(**unscaled(make))
    for x, y in events(n, seed=seed, classifies=make.classifies):
        learner.learn_one(plain(x), y)
    learner.flush()
    return learner


def plain(x):
    """An event whose numbers need no scaling, the same names in every event, in one order."""
    return {"b": x["b"] / 100.0, "k": float(x["k"]), "on": x["on"], "colour": x.get("colour")}


@pytest.mark.parametrize("weights", [None, [1.0, 3.0, 0.0]])
def test_outputs_of_first_order_are_the_weighted_mean(make_kernel, weights):
    if make_kernel()._experts[0].rule == "recursion" or len(make_kernel()._experts) > 1:
        pytest.skip("merges by information")
    models = [learned(make_kernel, seed, n) for seed, n in ((1, 60), (2, 90), (3, 45))]
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


def test_a_merged_learner_learns_on(make_kernel):
    models = [learned(make_kernel, seed) for seed in (1, 2)]
    merged = streamk.merge(models)
    copy = streamk.loads(merged.to_bytes())
    for learner in (merged, copy):
        for x, y in events(80, seed=5, classifies=make_kernel.classifies):
            learner.learn_one(plain(x), y)
    assert copy.to_bytes() == merged.to_bytes()
    assert merged.events + merged.pending == 200


def test_one_model_merged_is_that_model(make_kernel):
    model = learned(make_kernel, 1)
    empty = make_kernel(**unscaled(make_kernel))
    for merged in (streamk.merge([model]), streamk.merge([empty, model, empty])):
        xs = [plain(x) for x, _ in events(40, seed=9)]
        np.testing.assert_allclose(outputs(merged, xs)[0], outputs(model, xs)[0], atol=1e-6)
    assert streamk.merge([empty, empty]).to_bytes() == empty.to_bytes()


def test_halves_of_a_stream_predict_like_the_whole(make_kernel):
    """Two learners of half the events each, merged, err about as often as one that saw them all."""
    pairs = [(plain(x), y) for x, y in events(1200, seed=3, classifies=make_kernel.classifies)]
    parts = {"whole": pairs[:1000], "a": pairs[:1000:2], "b": pairs[1:1000:2]}
    models = {}
    for name, part in parts.items():
        models[name] = make_kernel(**({} if not unscaled(make_kernel) else {"scale_inputs": False}))
        models[name].learn_many(*map(list, zip(*part, strict=True)))
        models[name].flush()
    models["merged"] = streamk.merge([models["a"], models["b"]])
    xs, ys = map(list, zip(*pairs[1000:], strict=True))
    errors = {}
    for name, model in models.items():
        found = model.predict_many(xs)
        errors[name] = np.mean(
            [a != b if make_kernel.classifies else abs(a - b) for a, b in zip(found, ys, strict=True)]
        )
    assert errors["merged"] <= max(errors["a"], errors["b"]) + 0.02
    assert errors["merged"] <= 1.25 * errors["whole"] + 0.03


def halves_of(X, y, make, blocks=(slice(0, None, 2), slice(1, None, 2))):
    """Learners of two halves and of the whole."""
    names = [f"x{j}" for j in range(X.shape[1])]
    found = []
    for rows in (*blocks, slice(None)):
        found.append(make())
        found[-1].learn_many(X[rows], y[rows], names=names)
        found[-1].flush()
    return *found, lambda model, X: np.array(model.predict_many(X, names=names))


def smooth(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)) * [1.0, 3.0, 0.1, 10.0] + [0.0, 5.0, 1.0, -20.0]
    z = (X - [0.0, 5.0, 1.0, -20.0]) / [1.0, 3.0, 0.1, 10.0]
    return X, z, 7.0 + 3.0 * (np.sin(2 * z[:, 0]) + z[:, 1] * z[:, 2] + 0.05 * rng.normal(size=n))


@pytest.mark.parametrize("block_size", [1, 100])
@pytest.mark.parametrize("name", ["MatchingPursuitRegressor", "KaczmarzPursuitRegressor"])
def test_recursion_merges_exactly_without_scales(name, block_size):
    """Disjoint halves of 20,000 events: the predictions of the whole, to 1e-6 of the target's deviation."""
    _, X, y = smooth(20_000)

    def make():
        return getattr(streamk, name)(
            growth="fixed",
            features=128,
            scale_inputs=False,
            scale_target=False,
            block_size=block_size,
            seed=1,
        )

    for blocks in ((slice(0, None, 2), slice(1, None, 2)), (slice(0, 15_000), slice(15_000, None))):
        a, b, whole, predict = halves_of(X, y, make, blocks)
        for models in ([a, b], [b, a]):
            merged = streamk.merge(models)
            gap = np.abs(predict(merged, X[:500]) - predict(whole, X[:500])).max()
            assert gap < 1e-6 * y.std()
        ours, theirs = (m._experts[0].information for m in (merged, whole))
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-9 * np.abs(theirs).max())
        assert merged._experts[0].clock.tolist() == whole._experts[0].clock.tolist()


@pytest.mark.parametrize(
    ("name", "settings", "within"),
    [
        ("MatchingPursuitRegressor", {"growth": "fixed", "features": 256}, 1.05),
        ("KaczmarzPursuitRegressor", {"growth": "fixed", "features": 256}, 1.05),
        ("KaczmarzRegressor", {}, 1.10),
        ("DoublyStochasticRegressor", {"batch_size": 128, "max_features": 1024, "revisits": 16}, 1.10),
    ],
)
def test_halves_with_running_scales_err_like_the_whole(name, settings, within):
    """And learning on, the merged one is no worse than either part."""
    X, _, y = smooth(24_000)
    a, b, whole, predict = halves_of(
        X[:20_000], y[:20_000], lambda: getattr(streamk, name)(seed=1, **settings)
    )
    merged = streamk.merge([a, b])
    late = slice(20_000, 22_000)

    def error(model, rows):
        return np.sqrt(np.mean((predict(model, X[rows]) - y[rows]) ** 2))

    assert error(merged, late) <= within * error(whole, late)
    names = [f"x{j}" for j in range(4)]
    for model in (a, b, merged):
        model.learn_many(X[late], y[late], names=names)
        model.flush()
    last = slice(22_000, None)
    assert error(merged, last) <= 1.005 * min(error(a, last), error(b, last))


def test_only_learners_with_the_last_opening_speak_of_its_block():
    """One learner has opened a second block; what the other knows of the first must not enter it."""
    _, X, y = smooth(900)
    names = [f"x{j}" for j in range(4)]
    models = []
    for n in (900, 300):
        models.append(streamk.MatchingPursuitRegressor(
            features=64, period=500, scale_inputs=False, scale_target=False, seed=1
        ))  # fmt: skip
        models[-1].learn_many(X[:n], y[:n], names=names)
    late, early = (model._experts[0] for model in models)
    merged = streamk.merge(models)._experts[0]
    assert (late.opening, early.opening, merged.opening) == (2, 1, 2)
    np.testing.assert_allclose(merged.information, late.information, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(merged.weights, late.weights, atol=1e-6)
    first = 0.75 * late.coefficients[0, :, :64] + 0.25 * early.coefficients[0, :, :64]
    np.testing.assert_allclose(merged.coefficients[0, :, :64], first, atol=1e-6)


@pytest.mark.parametrize("cls", [streamk.KaczmarzClassifier, streamk.MatchingPursuitClassifier])
def test_whatever_they_saw_they_merge_in_any_order(cls):
    """Other names, other labels, categories only, one field only, nothing."""
    streams = {
        "numbers": lambda i: ({"a": i % 7, "b": i % 3}, "low" if i % 7 < 4 else "high"),
        "others": lambda i: ({"c": i % 5, "b": -i % 4}, "low" if i % 5 < 2 else "other"),
        "categories": lambda i: ({"colour": "rgb"[i % 3]}, "high" if i % 3 else "other"),
        "one": lambda i: ({"a": i % 7}, "high" if i % 7 > 3 else "low"),
        "nothing": None,
    }
    models = {}
    for name, event in streams.items():
        models[name] = cls(features=64, seed=1)
        for i in range(60 if event else 0):
            models[name].learn_one(*event(i))
    probes = [event(i)[0] for event in streams.values() if event for i in range(10)]
    answers = []
    for names in itertools.permutations(streams):
        merged = streamk.merge([models[name] for name in names])
        assert merged.events == 240
        assert set(merged._codec.inputs.numbers) == {"a", "b", "c"}
        found = merged.predict_proba_many(probes)
        answers.append([[p[label] for label in ("low", "high", "other")] for p in found])
        merged.learn_one({"a": 1.0, "new": 2.0}, "new")
        assert streamk.loads(merged.to_bytes()).to_bytes() == merged.to_bytes()
    for other in answers[1:]:
        np.testing.assert_allclose(other, answers[0], atol=2e-4)


def test_names_merge_in_linear_time():
    models = []
    for part in range(2):
        models.append(streamk.KaczmarzRegressor(features=64, seed=1))
        for start in range(0, 4000, 100):
            names = (f"n{part}-{i}" for i in range(start, start + 100))
            models[-1].learn_one(dict.fromkeys(names, 1.0), 1.0)
    merged = streamk.merge(models)
    assert len(merged._codec.inputs.numbers) == 8000
    places = [merged._codec.inputs.numbers[f"n{p}-{i}"] for p in range(2) for i in range(4000)]
    assert sorted(places) == list(range(8000))


def test_labels_and_names_are_matched():
    one, two = (streamk.KaczmarzClassifier(features=64, bandwidth=1.0, seed=1) for _ in range(2))
    for i in range(40):
        one.learn_one({"a": i % 4, "b": i % 3}, "low" if i % 4 < 2 else "high")
        two.learn_one({"c": i % 5, "b": i % 3}, "other" if i % 5 < 2 else "low")
    merged = streamk.merge([one, two])
    assert merged.labels == ["low", "high", "other"]
    assert list(merged._codec.inputs.numbers) == ["a", "b", "c"]
    counts = {
        name: merged._codec.inputs.statistics[slot, 0] for name, slot in merged._codec.inputs.numbers.items()
    }
    assert counts == {"a": 39.0, "b": 79.0, "c": 39.0}  # one is held
    assert merged.predict_one({"a": 3, "b": 1}) == "high"


def test_pooled_statistics_are_those_of_all_events():
    """But for the farthest value, which is held."""
    rng = np.random.default_rng(0)
    values, targets = rng.normal(7, 3, size=90), rng.normal(-2, 5, size=90)
    parts = [slice(0, 20), slice(20, 90)]
    models = [streamk.KaczmarzRegressor(features=64, seed=1) for _ in parts]
    for model, part in zip(models, parts, strict=True):
        for v, t in zip(values[part], targets[part], strict=True):
            model.learn_one({"v": v}, t)
    merged = streamk.merge(models)
    for found, all_of_them in (
        (merged._codec.inputs.statistics[0], values),
        (merged._codec.target[0], targets),
    ):
        farthest = np.abs(all_of_them - all_of_them.mean()).argmax()
        rest = np.delete(all_of_them, farthest)
        assert found[3] == all_of_them[farthest]
        assert found[0] == 89
        assert abs(found[1] - rest.mean()) < 0.02 * rest.std()  # some steps were bounded
        np.testing.assert_allclose(found[2], 89 * rest.var(), rtol=0.02)


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
    placed = [streamk.KaczmarzClassifier(seed=1, bandwidth=1.0, directions="structured") for _ in range(2)]
    placed[0].learn_one({"a": 1.0}, "x")
    placed[1].learn_one({"b": 1.0}, "x")
    with pytest.raises(ValueError, match="learned its numbers in another order than model 0, and structured"):
        streamk.merge(placed)


def test_parts_with_other_targets_merge():
    """The halves are those below and above the median: what each calls 0 and 1 is not the other's."""
    _, X, y = smooth(8000)
    low = y < np.median(y)

    def make():
        return streamk.MatchingPursuitRegressor(growth="fixed", features=256, scale_inputs=False, seed=1)

    a, b, whole, predict = halves_of(X, y, make, (np.flatnonzero(low), np.flatnonzero(~low)))
    merged = streamk.merge([a, b])
    errors = [np.sqrt(np.mean((predict(m, X) - y) ** 2)) for m in (a, b, merged, whole)]
    assert errors[2] < 0.6 * min(errors[:2])
    assert errors[2] < 1.05 * errors[3]
