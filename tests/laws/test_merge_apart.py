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


def by_hour(n, seed):
    """Steps by hour and day, whose importance every part finds out by itself, and six numbers without any."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.integers(24, size=n), rng.integers(7, size=n), rng.normal(size=(n, 6))])
    steps = np.random.default_rng(0).normal(size=(24, 7))
    y = steps[X[:, 0].astype(int), X[:, 1].astype(int)] + 0.3 * X[:, 2] + 0.1 * rng.normal(size=n)
    return X, y.tolist()


def taught(rows, X, y, model=None):
    model = streamk.KernelRegressor(features=768, label_memory=False, seed=1) if model is None else model
    model.learn_many(X[rows], y[rows], names=[f"x{k}" for k in range(8)])
    return model


@pytest.mark.parametrize("each", [2500, 9000])  # tables begin again, or those of one part learn from others
def test_tables_of_parts_with_other_grids_are_not_mixed(each):
    """The same cell of another grid holds other events: the mean of both is noise."""
    X, y = by_hour(4 * each + 2000, 2)
    models = [taught(slice(each * k, each * (k + 1)), X, y) for k in range(4)]
    sections = [model._map.sections for model in models]
    assert not any(sections[0].has_grids_of(other) for other in sections[1:])
    names = [f"x{k}" for k in range(8)]
    merged, turned = streamk.merge(models), streamk.merge(models[::-1])
    rows, targets = X[4 * each :], y[4 * each :]
    *of_parts, one, other = (
        r2(m.predict_many(rows, names=names), targets) for m in (*models, merged, turned)
    )
    assert min(one, other) > max(of_parts) + 0.03
    assert abs(one - other) < 0.005
    assert turned._map.sections.has_grids_of(merged._map.sections)
    tables = next(expert for expert in merged._experts if expert.rule == "tables")
    assert tables.clock[0] == (4096 if each == 2500 else each + 3 * 1024)
    values = [expert for expert in merged._experts if expert.rule == "values"]  # which do not depend on grids
    assert [expert.clock[0] for expert in values] == [4.0 * each] * 2


def test_few_events_are_learned_again_in_grids_of_all_parts():
    X, y = by_hour(9000, 4)
    models = [taught(slice(1400 * k, 1400 * (k + 1)), X, y) for k in range(4)]
    merged, names = streamk.merge(models), [f"x{k}" for k in range(8)]
    assert not any(merged._map.sections.has_grids_of(model._map.sections) for model in models)
    tables = next(expert for expert in merged._experts if expert.rule == "tables")
    assert tables.clock[0] == 4096
    assert tables.coefficients[:, 0].sum() == pytest.approx(480 * 4096, rel=0.01)
    scores = [r2(model.predict_many(X[6000:], names=names), y[6000:]) for model in (merged, *models)]
    assert scores[0] > max(scores[1:]) + 0.05


def test_the_grids_of_most_events_stay():
    """Of three shards that continue from one model, one has found another importance."""
    X, y = by_hour(4000, 3)
    base = taught(slice(2500), X, y)
    shards = [
        taught(slice(2500 + 500 * k, 3000 + 500 * k), X, y, streamk.loads(base.to_bytes())) for k in range(3)
    ]
    shards[0]._map.sections.importance[:] = 1.0
    merged = streamk.merge(shards, base=base)
    assert merged._map.sections.has_grids_of(shards[1]._map.sections)
    k = next(k for k, e in enumerate(merged._experts) if e.rule == "tables")
    two = streamk.merge(shards[1:], base=base)
    found, wanted = (model._experts[k].coefficients for model in (merged, two))
    np.testing.assert_allclose(found, wanted, rtol=0.01, atol=0.001)  # in almost the same unit of the target
    assert found[:, 0].sum() == pytest.approx(480 * 3500)  # events in the cells of all grids


def r2(found, targets):
    return 1.0 - np.mean(np.subtract(found, targets) ** 2) / np.var(targets)


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
