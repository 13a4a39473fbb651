"""Merging learners of one stream that began apart, whose blocks are under different relevance."""

import numpy as np
import pytest

import streamk
from streamk import model_file

NAMES = ["a", "b", "c", "d", "e"]


def rotated(n, seed):
    """A nonlinear function of rotated inputs, that needs relevance and many events."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, len(NAMES)))
    u = z @ np.linalg.qr(np.random.default_rng(0).normal(size=(len(NAMES), len(NAMES))))[0]
    return z, np.sin(2.0 * u[:, 0]) + u[:, 1] * u[:, 2] + 0.1 * rng.normal(size=n)


def quarters(cls, each=2500, **settings):
    """Four learners of a quarter each, rows that none has learned, and their targets."""
    X, y = rotated(4 * each + 6000, 1)
    targets = y.tolist() if cls is streamk.KernelRegressor else np.where(y > 0.0, "up", "down").tolist()
    models = []
    for k in range(4):
        rows = slice(k * each, (k + 1) * each)
        models.append(cls(features=768, seed=1, **settings))
        models[-1].learn_many(X[rows], targets[rows], names=NAMES)
    return models, X[4 * each :], targets[4 * each :]


def score(model, X, targets):
    """R² or accuracy."""
    found = model.predict_many(X, names=NAMES)
    if isinstance(targets[0], str):
        return np.mean(np.array(found) == targets)
    return 1.0 - np.mean(np.subtract(found, targets) ** 2) / np.var(targets)


@pytest.mark.parametrize(
    ("cls", "gain"), [(streamk.KernelRegressor, 0.01), (streamk.KernelClassifier, -0.02)]
)
def test_merge_gains_from_every_part_in_any_order(cls, gain):
    models, X, targets = quarters(cls)
    before = [model.to_bytes() for model in models]
    merged = streamk.merge(models)
    assert [model.to_bytes() for model in models] == before
    assert streamk.merge(models).to_bytes() == merged.to_bytes()
    assert score(merged, X, targets) > max(score(model, X, targets) for model in models) + gain
    assert abs(score(streamk.merge(models[::-1]), X, targets) - score(merged, X, targets)) < 0.005
    assert merged.events == 10_000


@pytest.mark.parametrize("cls", [streamk.KernelRegressor, streamk.KernelClassifier])
def test_merged_learner_learns_on(cls):
    models, X, targets = quarters(cls)
    merged = streamk.merge(models)
    copy, asked = (streamk.loads(merged.to_bytes()) for _ in range(2))
    before = score(asked, X[1000:], targets[1000:])
    for learner in (merged, copy):
        learner.learn_many(X[:1000], targets[:1000], names=NAMES)
    assert copy.to_bytes() == merged.to_bytes()
    assert score(merged, X[1000:], targets[1000:]) > before - 0.01


def test_impossible_sample_is_rejected():
    models, _, _ = quarters(streamk.KernelRegressor, each=50)
    header, arrays = models[0]._to_parts()
    for name, change in (
        ("map.sample.values", lambda a: a * np.nan),
        ("map.sample.goal", lambda a: -a),
        ("map.sample.labels", lambda a: a + np.float32(np.inf)),
        ("map.sample.slots", lambda a: a + np.int32(9)),
        ("map.sample.keys", lambda a: a[:, ::-1].copy()),
    ):
        with pytest.raises(ValueError, match=r"model|impossible|fit|belong"):
            streamk.loads(model_file.pack(header, arrays | {name: change(arrays[name])}))
