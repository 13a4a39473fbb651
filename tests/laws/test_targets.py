"""Targets of another kind: effects that multiply, effects that add, and noise."""

import numpy as np
import pytest

import streamk

EVENTS = 3000


def sales(multiply, seed=5):
    """Shops and goods, whose effects on a target multiply or add."""
    rng = np.random.default_rng(seed)
    shops, goods = rng.normal(size=30), rng.normal(size=20)
    xs, y = [], np.empty(EVENTS)
    for i in range(EVENTS):
        shop, item, price = rng.integers(30), rng.integers(20), rng.uniform(0.5, 2.0)
        xs.append({"shop": f"s{shop}", "item": f"g{item}", "price": float(price)})
        effects = shops[shop] + goods[item] - 1.5 * price + 0.3 * rng.normal()
        y[i] = 20.0 * np.exp(effects) if multiply else 100.0 + 20.0 * effects
    return xs, y


@pytest.mark.parametrize("multiply", [True, False])
def test_effects_may_multiply_or_add(multiply):
    xs, y = sales(multiply)
    late, errors = slice(EVENTS // 2, None), []
    for seed in (1, 2, 3):  # .125 of the variance if effects multiply, noise is .102
        learner = streamk.KernelRegressor(features=768, label_memory=False, seed=seed)
        found = np.array(learner.predict_learn_many(xs, y.tolist()))
        errors.append(np.mean((found - y)[late] ** 2))
    assert np.mean(errors) < 0.15 * y[late].var()
    weights = {row["expert"]: row["weight"] for row in learner.summary()["experts"]}
    of_logarithms = weights["binning, logarithms"] + weights["least squares, logarithm"]
    assert of_logarithms > 0.5 if multiply else of_logarithms < 0.1


@pytest.mark.parametrize("level", [0.0, 1000.0])
def test_noise_is_predicted_as_well_as_by_its_mean(level):
    rng = np.random.default_rng(3)
    xs = [{f"x{j}": float(v) for j, v in enumerate(row)} for row in rng.normal(size=(EVENTS, 6))]
    y = level + rng.normal(size=EVENTS)
    learner = streamk.KernelRegressor(features=768, seed=2)
    found = np.array(learner.predict_learn_many(xs, y.tolist()))
    assert np.mean((found - y)[500:] ** 2) < 1.01 * y[500:].var()


def test_the_unit_of_targets_that_multiply_changes_no_prediction():
    xs, y = sales(True)
    found = []
    for unit in (1.0, 1024.0):
        learner = streamk.KernelRegressor(features=768, seed=2)
        found.append(np.array(learner.predict_learn_many(xs[:800], (unit * y[:800]).tolist())) / unit)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6, atol=1e-6)


def test_a_rare_kind_of_event_may_have_targets_far_from_all_others():
    rng = np.random.default_rng(4)
    rare = np.arange(EVENTS) % 80 == 79
    xs = [{"kind": "rare" if r else "usual", "a": rng.normal()} for r in rare]
    y = 100.0 * rare + rng.normal(size=EVENTS)
    learner = streamk.KernelRegressor(features=768, label_memory=False, seed=2)
    found = np.array(learner.predict_learn_many(xs, y.tolist()))
    assert y.mean() + 7.0 * y.std() < found[rare][-5:].mean() < 110.0  # nearly nine deviations off
    assert abs(found[~rare][-500:]).mean() < 3.0
