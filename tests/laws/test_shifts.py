"""Default learners follow another level or unit of their inputs and their target, and take many inputs."""

import numpy as np
import pytest

import streamk

NAMES = [f"x{j}" for j in range(5)]


def stream(n, seed=7):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 5))
    return z, np.sin(2.0 * z[:, 0]) + z[:, 1] * z[:, 2] + 0.5 * z[:, 3] + 0.05 * rng.normal(size=n)


def unexplained(y, found):
    return np.mean((np.asarray(found) - y) ** 2) / y.var()


@pytest.mark.parametrize("what", ["level", "unit", "target"])
def test_a_shift_is_over_after_2000_events(what):
    z, y = stream(6000)
    if what == "level":
        z[3000:] += 100.0
    elif what == "unit":
        z[3000:] *= 0.01
    else:
        y[3000:] += 1000.0
    found = streamk.KernelRegressor(features=768, seed=3).predict_learn_many(z, y, names=NAMES)
    before, after = (unexplained(y[part], found[part]) for part in (slice(2000, 3000), slice(4500, 6000)))
    assert after < before + 0.03, (before, after)


def test_a_classifier_follows_another_unit():
    z, y = stream(6000)
    z[3000:] = 0.01 * z[3000:] + 5.0
    labels = y > 0.0
    found = streamk.KernelClassifier(features=768, seed=3).predict_learn_many(z, labels.tolist(), names=NAMES)
    right = np.array(found) == labels
    assert right[4500:].mean() > right[2000:3000].mean() - 0.01


@pytest.mark.parametrize("inputs", [64, 130, 300])
def test_many_inputs_are_learned_as_by_a_linear_model(inputs):
    rng = np.random.default_rng(5)
    z = rng.normal(size=(5000, inputs))
    labels = z @ rng.normal(size=inputs) > 0.0
    names = [f"x{j}" for j in range(inputs)]
    found = streamk.KernelClassifier(features=768, seed=3).predict_learn_many(z, labels.tolist(), names=names)
    solved, *_ = np.linalg.lstsq(z[:2500], 2.0 * labels[:2500] - 1.0, rcond=None)
    linear = np.mean((z[2500:] @ solved > 0.0) == labels[2500:])
    assert np.mean(np.array(found)[2500:] == labels[2500:]) > linear - 0.01


def test_relevance_reaches_inputs_without_a_row_in_the_matrix():
    """Of 80 numbers only the last three matter; 63 have a row."""
    rng = np.random.default_rng(6)
    z = rng.normal(size=(6000, 80))
    y = np.sin(2.0 * z[:, 77]) + z[:, 78] + z[:, 79]
    names = [f"x{j:02d}" for j in range(80)]
    learner = streamk.KernelRegressor(features=768, seed=3)
    learner.learn_many(z, y, names=names)
    found = {name: min(values) for name, values in learner.summary()["relevance"].items()}
    assert len(found) == 80
    useful = min(found[name] for name in names[77:])
    assert useful > 2.0 * np.median([found[name] for name in names[:77]])
