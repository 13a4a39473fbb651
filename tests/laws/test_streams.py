"""What ordinary streams do to scales: presence, absurd values, shifts, other units, lacking fields."""

import numpy as np
import pytest
from river import feature_extraction, linear_model, preprocessing

import streamk

CLASSIFIERS = {
    "kaczmarz": streamk.KaczmarzClassifier,
    "matching-pursuit": streamk.MatchingPursuitClassifier,
    "kaczmarz-pursuit": streamk.KaczmarzPursuitClassifier,
    "doubly-stochastic": streamk.DoublyStochasticClassifier,
}
REGRESSORS = {
    "kaczmarz": streamk.KaczmarzRegressor,
    "matching-pursuit": streamk.MatchingPursuitRegressor,
    "kaczmarz-pursuit": streamk.KaczmarzPursuitRegressor,
    "doubly-stochastic": streamk.DoublyStochasticRegressor,
}
NAMES = list("abcde")
SPREADS, MEANS = np.array([1.0, 2.0, 0.5, 10.0, 3.0]), np.array([0.0, 5.0, -1.0, 100.0, 0.0])


def table(n, seed=0):
    z = np.random.default_rng(seed).normal(size=(n, 5))
    return z * SPREADS + MEANS, z[:, 0] + np.sin(2 * z[:, 1]) + 0.5 * z[:, 2] * z[:, 3] > 0, z


def right(learner, X, y):
    return np.array(learner.predict_learn_many(X, y.tolist(), names=NAMES)) == y


def later_half(model, pairs):
    found = []
    for x, y in pairs:
        found.append(model.predict_one(x) == y)
        model.learn_one(x, y)
    return np.mean(found[len(found) // 2 :])


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_word_that_is_there_is_seen(name):
    """Its count is always 1, so it has no variance; that it is there is all there is to know."""
    rng = np.random.default_rng(0)
    pairs = []
    for _ in range(4000):
        y = bool(rng.random() < 0.5)
        words = [f"w{i}" for i in rng.choice(60, size=6, replace=False)] + ["good"] * y
        pairs.append((" ".join(words), y))
    model = feature_extraction.BagOfWords() | CLASSIFIERS[name](seed=7)
    assert later_half(model, pairs) >= 0.99


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_one_hot_numbers_without_zeros_are_categories(name):
    rng = np.random.default_rng(0)
    pairs = []
    for _ in range(4000):
        x = {"colour": str(rng.choice(list("rgbk"))), "shape": str(rng.choice(list("ABCDE")))}
        pairs.append((x, bool((x["colour"] == "r") != (rng.random() < 0.05))))
    best = later_half(preprocessing.OneHotEncoder(drop_zeros=True) | linear_model.LogisticRegression(), pairs)
    model = preprocessing.OneHotEncoder(drop_zeros=True) | CLASSIFIERS[name](seed=7)
    assert later_half(model, pairs) >= best - 0.005


@pytest.mark.parametrize("change", ["shifted", "another unit"])
@pytest.mark.parametrize("memory", [0, 1000])
@pytest.mark.parametrize("name", ["kaczmarz", "kaczmarz-pursuit"])
def test_scales_follow_the_stream_where_the_learner_does(name, memory, change):
    X, y, _ = table(14_000)
    X[10_000:] = X[10_000:] + 100 * SPREADS if change == "shifted" else X[10_000:] / 100
    found = right(CLASSIFIERS[name](memory=memory, seed=7), X, y)
    assert found[12_000:].mean() >= found[6_000:10_000].mean() - 0.02


@pytest.mark.parametrize("change", ["shifted", "another unit"])
def test_the_scale_of_the_target_follows_too(change):
    X, _, z = table(14_000)
    y = 7.0 + 3.0 * (z[:, 0] + np.sin(2 * z[:, 1]))
    unit = 1.0
    y[10_000:], unit = (y[10_000:] + 500.0, 1.0) if change == "shifted" else (y[10_000:] / 100, 0.01)
    learner = streamk.KaczmarzRegressor(memory=0, seed=7)
    errors = np.abs(np.array(learner.predict_learn_many(X, y, names=NAMES)) - y)
    assert errors[12_000:].mean() / unit <= 1.1 * errors[6_000:10_000].mean()


@pytest.mark.parametrize("at", [0, 1, 10, 3000, 10_000])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_one_absurd_input_spoils_nothing(name, at):
    X, y, _ = table(20_000)
    usual = right(CLASSIFIERS[name](seed=7), X, y)
    X[at, 0] = 1e6
    found = right(CLASSIFIERS[name](seed=7), X, y)
    assert abs(found[10_000:].mean() - usual[10_000:].mean()) <= 0.01
    assert found[at + 3 :].mean() >= usual[at + 3 :].mean() - 0.01


@pytest.mark.parametrize("at", [0, 1, 10, 3000, 10_000])
@pytest.mark.parametrize("name", REGRESSORS)
def test_one_absurd_target_spoils_nothing(name, at):
    X, _, z = table(20_000)
    y = 7.0 + 3.0 * (z[:, 0] + np.sin(2 * z[:, 1]))
    others = np.arange(20_000) > max(at, 2)

    def error(targets):
        found = REGRESSORS[name](seed=7).predict_learn_many(X, targets, names=NAMES)
        return np.abs(np.array(found) - y)[others].mean()

    usual = error(y)
    absurd = y.copy()
    absurd[at] = 1e6
    assert error(absurd) <= 1.1 * usual


def test_one_absurd_target_spoils_nothing_where_errors_are_tiny():
    X, _, z = table(20_000)
    y, absurd = np.tanh(z[:, 0]), np.tanh(z[:, 0])
    absurd[10_000] = 1e6
    errors = []
    for targets in (y, absurd):
        learner = streamk.MatchingPursuitRegressor(growth="fixed", features=128, seed=7)
        found = learner.predict_learn_many(X[:, :1], targets, names=["a"])
        errors.append(np.abs(np.array(found) - y)[10_001:].mean())
    assert errors[0] < 0.01
    assert errors[1] <= 1.1 * errors[0]


def test_targets_that_come_again_are_learned_however_far():
    """One in 25 is 1,000 times the deviation of the others, and says so beforehand."""
    rng = np.random.default_rng(0)
    far = rng.random(6000) < 0.04
    X, y = far[:, None] * 1.0, np.where(far, 1000.0, rng.normal(size=6000))
    learner = streamk.KaczmarzRegressor(seed=1)
    found = np.array(learner.predict_learn_many(X, y, names=["a"]))
    assert abs(found[3000:][far[3000:]].mean() - 1000.0) < 300.0


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_first_event_with_one_field_costs_nothing(name):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(4000, 30))
    y = (X[:, :3].sum(axis=1) + 0.3 * rng.normal(size=4000) > 0).tolist()
    events = [{f"x{j}": v for j, v in enumerate(row)} for row in X.tolist()]
    accuracy = []
    for first in (events[0], {"x0": events[0]["x0"]}):
        found = CLASSIFIERS[name](seed=7).predict_learn_many([first, *events[1:]], y)
        accuracy.append(np.mean([a == b for a, b in zip(found, y, strict=True)]))
    assert accuracy[1] > accuracy[0] - 0.01


def test_missing_is_at_the_mean_and_absent_is_not():
    X, y, _ = table(500)
    learner = streamk.KaczmarzClassifier(seed=7)
    learner.learn_many(X, y, names=NAMES)
    statistics = learner._codec.inputs.statistics[learner._codec.inputs.numbers["b"]]
    x = dict(zip(NAMES, X[0].tolist(), strict=True))
    at_the_mean, absent = {**x, "b": float(statistics[1])}, {k: v for k, v in x.items() if k != "b"}
    missing = learner.predict_proba_one({**x, "b": None})
    assert missing == learner.predict_proba_one(at_the_mean) != learner.predict_proba_one(absent)
    assert learner.predict_proba_one({**x, "never seen": None}) == learner.predict_proba_one(x)


@pytest.mark.parametrize("name", ["memory", "seed", "features", "kernel"])
def test_a_parameter_is_fixed_once_a_learner_is_made(name):
    learner = streamk.KaczmarzClassifier(seed=1)
    before = learner.to_bytes()
    with pytest.raises(AttributeError, match=f"{name} is fixed once a learner is made.*clone"):
        setattr(learner, name, 0)
    assert learner.to_bytes() == before
    assert learner.clone({"memory": 0}).memory == 0


def test_large_targets_that_a_flag_explains_are_learned():
    """One in 100 is 250 times the deviation of the others; after about forty, they are predicted."""
    rng = np.random.default_rng(0)
    flag, x = rng.random(6000) < 0.01, rng.normal(size=6000)
    y = 0.2 * x + 50.0 * flag
    found = np.array(
        streamk.KernelRegressor(seed=1).predict_learn_many(np.column_stack([flag, x]), y, names=["a", "b"])
    )
    late = np.arange(6000) >= 4500
    assert abs(found - y)[late & flag].mean() < 5.0
    assert abs(found - y)[late & ~flag].mean() < 0.1
