"""Quadratic columns, against products written down one by one."""

import itertools

import numpy as np

import streamk
from streamk.features.columns.products import INPUTS, QUADRATIC, moved_products
from streamk.learners.refitting import columns_of


def columns(learner, event):
    """Return the quadratic columns of an event."""
    rows = learner._codec.inputs.encode_checked(event, False)
    sections = learner._map.sections
    return columns_of(learner, rows, np.zeros((1, 64), np.float32))[0, sections.columns_of("products")]


def place(a, b):
    return b * (b + 1) // 2 + a


def test_they_are_products_of_deviations_and_categories():
    learner = streamk.KernelRegressor(features=768, seed=1)
    rng = np.random.default_rng(0)
    for _ in range(50):
        x = {"a": rng.normal(5, 2), "b": rng.normal(), "c": "red" if rng.random() < 0.5 else "blue"}
        learner.learn_one(x, rng.normal())
    for event in (
        {"a": 7.0, "b": -1.0, "c": "red"},
        {"b": 0.5, "c": "green"},
        {"a": None, "b": 2.0, "c": "blue"},
    ):
        inputs = learner._codec.inputs
        z = {0: 1.0}
        for key, number in itertools.product(learner._map.sections.keys[1:5], ("a", "b")):
            if key == inputs.entry(number)[1] and event.get(number) is not None:
                count, mean, squares = inputs.statistics[inputs.numbers[number], :3]
                at = learner._map.sections.keys.tolist().index(key)
                z[at] = (event[number] - mean) / np.sqrt(squares / count)
        for pair, key in inputs.known_categories():
            if pair == ("c", event["c"]):
                z[learner._map.sections.keys.tolist().index(key)] = 1.0
        known = len(event) - (event["c"] == "green")
        expected = np.zeros(QUADRATIC)
        for a, b in itertools.combinations_with_replacement(sorted(z), 2):
            expected[place(a, b)] = z[a] * z[b] / (np.sqrt(known) if b else 1.0)
        np.testing.assert_allclose(columns(learner, event), expected, rtol=1e-5, atol=1e-6)
        assert np.count_nonzero(expected) >= 3


def test_columns_move_with_their_inputs():
    rng = np.random.default_rng(1)
    places = np.arange(600)
    places[1 : 1 + INPUTS] = 1 + rng.permutation(INPUTS)
    places[3], places[5] = -1, INPUTS + 4  # dropped, and beyond the inputs that have products
    found = moved_products(places)
    for a, b in itertools.combinations_with_replacement(range(1 + INPUTS), 2):
        low, high = sorted((places[a], places[b]))
        assert found[place(a, b)] == (place(low, high) if low >= 0 and high <= INPUTS else -1)
    assert (found[place(INPUTS, INPUTS) + 1 :] == -1).all()


def test_a_product_of_inputs_is_learned_early(monkeypatch):
    # the solution of few events does not need products
    monkeypatch.setattr("streamk.learners.few_events.share_of", lambda *_: 0.0)
    rng, r2 = np.random.default_rng(2), []
    x = rng.normal(size=(250, 8))
    y = x[:, 0] * x[:, 1] + x[:, 2] * x[:, 3] - x[:, 4] ** 2
    for products in (True, False):
        learner = streamk.KernelRegressor(seed=1, products=products)
        found = learner.predict_learn_many(x, y, names=[f"x{j}" for j in range(8)])[50:]
        r2.append(1 - np.mean((found - y[50:]) ** 2) / np.var(y[50:]))
    assert r2[0] > r2[1] + 0.15


def test_parts_with_inputs_in_another_order_are_merged():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(600, 4))
    y = x[:, 0] * x[:, 1] + x[:, 3] ** 2
    events = [dict(zip("abcd", row, strict=True)) for row in x.tolist()]
    parts = []
    for k in range(2):
        part = streamk.KernelRegressor(features=768, seed=1)
        if k:
            part.learn_one({"c": 0.1}, 0.0)  # its input has the first column
        for event, target in list(zip(events, y.tolist(), strict=True))[k::2]:
            part.learn_one(event, target)
        parts.append(part)
    one, other = (part._map.sections.keys[1:5].tolist() for part in parts)
    assert one != other
    merged = streamk.merge(parts)
    number = merged._names.index("least squares, products of inputs")
    tests = [dict(zip("abcd", row, strict=True)) for row in rng.normal(size=(100, 4)).tolist()]
    first = merged._map.sections.columns_of("products").start
    said = []
    for event in tests:
        rows = merged._codec.inputs.encode_checked(event, False)
        phi = columns_of(merged, rows, np.zeros((1, 64), np.float32))[0, first:]
        said.append(phi @ merged._experts[number].coefficients[0, 0])
    truth = np.array([t["a"] * t["b"] + t["d"] ** 2 for t in tests])
    assert np.corrcoef(said, truth)[0, 1] > 0.9
