"""Sample weights reach every part: weight 0 teaches nothing, and weight 2 is the event twice."""

import numpy as np
import pytest
from numba import njit

import streamk
from streamk.encoding.scaling import FIXED, observe
from tests.laws.subjects import LEARNERS, build, events, subjects

NAMES = ["a", "b", "c"]


@pytest.mark.parametrize("name", subjects())
def test_weight_0_teaches_nothing(name):
    cls, extra = LEARNERS[name]
    one, other = build(cls, extra), build(cls, extra)
    pairs = events(60, classifies=one.classifies)
    strange = ({"a": 1e3, "new": 3.0, "colour": "violet"}, pairs[0][1])
    for k, (x, y) in enumerate(pairs):
        one.learn_one(x, y)
        other.learn_one(x, y)
        if k % 7 == 3:
            other.learn_one(*strange, w=0.0)
    assert one.to_bytes() == other.to_bytes()


def stream(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 3))
    y = np.sin(2.0 * z[:, 0]) + z[:, 1] * z[:, 2] + 0.3 * rng.normal(size=n)
    return z, y, rng.integers(1, 4, size=n)


@pytest.mark.parametrize("classifies", [True, False])
def test_least_squares_of_weight_2_are_those_of_the_event_twice(classifies):
    cls = streamk.MatchingPursuitClassifier if classifies else streamk.MatchingPursuitRegressor
    more = {} if classifies else {"scale_target": False}
    z, y, times = stream(400)
    targets = y > 0.0 if classifies else y
    weighted, repeated = (
        cls(features=64, growth="fixed", scale_inputs=False, seed=1, **more) for _ in range(2)
    )
    weighted.learn_many(z, targets, w=times.astype(float), names=NAMES)
    repeated.learn_many(np.repeat(z, times, axis=0), np.repeat(targets, times), names=NAMES)
    for one, other in zip(weighted._experts, repeated._experts, strict=True):
        np.testing.assert_allclose(one.coefficients, other.coefficients, rtol=1e-4, atol=1e-5)


@njit
def observe_all(values, weights, statistics):
    for i in range(values.size):
        observe(values[i], statistics, 0, np.inf, weights[i])


def test_scales_count_weights_as_repeated_values():
    rng = np.random.default_rng(1)
    values, times = rng.normal(3.0, 2.0, size=500), rng.integers(1, 6, size=500)
    weighted, repeated = np.zeros((1, FIXED)), np.zeros((1, FIXED))
    observe_all(values, times.astype(float), weighted)
    observe_all(np.repeat(values, times), np.ones(times.sum()), repeated)
    np.testing.assert_allclose(weighted[0, 0], repeated[0, 0], rtol=0.01)
    np.testing.assert_allclose(weighted[0, 1], np.repeat(values, times).mean(), rtol=0.02)
    np.testing.assert_allclose(weighted[0, 2] / weighted[0, 0], np.repeat(values, times).var(), rtol=0.03)


@pytest.mark.parametrize("classifies", [True, False])
def test_a_mixture_learns_weights_as_well_as_repeated_events(classifies):
    """The mean that weights ask for, against copies in random order: at most 1.4 times their error."""
    cls = streamk.KernelClassifier if classifies else streamk.KernelRegressor
    rng = np.random.default_rng(0)
    z, test = rng.normal(size=(4000, 3)), rng.normal(size=(400, 3))
    chance, asked = (1.0 / (1.0 + np.exp(-2.0 * (np.sin(2.0 * x[:, 0]) + x[:, 1]))) for x in (z, test))
    y = (rng.random(4000) < chance).astype(int)
    times, wanted = np.where(y > 0, 4, 1), 4.0 * asked / (1.0 + 3.0 * asked)
    copies = rng.permutation(np.repeat(np.arange(4000), times))
    errors = {}
    for name, rows, w in (
        ("once", np.arange(4000), None),
        ("weighted", np.arange(4000), times.astype(float)),
        ("copies", copies, None),
    ):  # fmt: skip
        learner = cls(features=768, label_memory=False, seed=4)
        learner.learn_many(z[rows], y[rows].tolist(), w=w, names=NAMES)
        if classifies:
            found = learner.predict_proba_many(test, names=NAMES)[:, learner.labels.index(1)]
        else:
            found = learner.predict_many(test, names=NAMES)
        errors[name] = np.sqrt(np.mean((found - wanted) ** 2))
    assert errors["weighted"] < 0.6 * errors["once"], errors
    assert errors["weighted"] < 1.4 * errors["copies"], errors


def test_heavy_targets_draw_the_prediction_to_their_mean():
    rng = np.random.default_rng(7)
    z, y = rng.normal(size=(3000, 3)), (rng.random(3000) < 0.5).astype(float)
    w = np.where(y > 0.0, 50.0, 1.0)
    learner = streamk.KernelRegressor(features=768, seed=7)
    learner.learn_many(z, y, w=w, names=NAMES)
    predicted = learner.predict_many(z[:300], names=NAMES)
    assert abs(predicted.mean() - np.average(y, weights=w)) < 0.03
    found = [learner.predict_interval_one(dict(zip(NAMES, row, strict=True))) for row in z[:100].tolist()]
    assert np.mean([interval.lower > 0.5 for interval in found]) > 0.9  # of the weight, 98 % lie at 1


def test_weights_of_a_rare_class_raise_its_recall():
    rng = np.random.default_rng(7)
    z = rng.normal(size=(8000, 3))
    score = z[:, 0] + 0.5 * z[:, 1] + np.sin(2.0 * z[:, 2]) + 0.8 * rng.normal(size=8000)
    rare = score > np.quantile(score, 0.977)
    recall = {}
    for weight in (1.0, 20.0):
        learner = streamk.KernelClassifier(features=768, seed=7)
        found = learner.predict_learn_many(z, rare.tolist(), w=np.where(rare, weight, 1.0), names=NAMES)
        recall[weight] = np.mean(np.array(found, dtype=bool)[4000:][rare[4000:]])
    assert recall[20.0] > max(0.7, recall[1.0] + 0.2), recall


@pytest.mark.parametrize("classifies", [True, False])
def test_weights_that_are_all_alike_are_weights_of_1(classifies):
    cls = streamk.KernelClassifier if classifies else streamk.KernelRegressor
    rng, said = np.random.default_rng(12), []
    z = rng.normal(size=(1500, 3))
    y = np.sin(2.0 * z[:, 0]) + z[:, 1] + 0.1 * rng.normal(size=1500)
    targets = ((y > 0.0) if classifies else y).tolist()
    for weight in (1.0, 1e-6, 1e7):
        learner = cls(features=768, seed=4)
        learner.learn_many(z[:700], targets[:700], w=[weight] * 700, names=NAMES)
        learner = streamk.loads(learner.to_bytes())  # with the mean weight
        learner.learn_many(z[700:], targets[700:], w=[weight] * 800, names=NAMES)
        predict = learner.predict_proba_many if classifies else learner.predict_many
        said.append(predict(z[:100], names=NAMES))
    for others in said[1:]:
        np.testing.assert_allclose(others, said[0], rtol=1e-6, atol=1e-6)


def test_a_merged_learner_has_the_mean_weight_of_all_parts():
    rng = np.random.default_rng(13)
    z, parts = rng.normal(size=(200, 3)), []
    for weight in (1.0, 5.0):
        parts.append(streamk.KernelRegressor(features=768, seed=4))
        parts[-1].learn_many(z, z[:, 0], w=[weight] * 200, names=NAMES)
    assert streamk.merge(parts)._codec.weights.tolist() == [400.0, 1200.0]
