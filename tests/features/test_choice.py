"""Automatic directions: one choice, by the first event learned, kept for ever."""

import numpy as np
import pytest

import streamk
from streamk.features.choice import choose


def learner(**extra):
    return streamk.KaczmarzClassifier(**{"features": 1024, "directions": "auto", "seed": 3, **extra})


def events(d, n=40):
    rng = np.random.default_rng(d)
    names = [f"x{j:02d}" for j in range(d)]
    return [
        ({**dict(zip(names, rng.normal(size=d).tolist(), strict=True)), "c": str(i % 3)}, bool(i % 2))
        for i in range(n)
    ]


def test_the_cost_model():
    assert choose(2, 2, 512, 4, 1) == "keyed"
    assert choose(54, 54, 1024, 4, 1) == "structured"
    assert choose(784, 784, 16384, 1, 256) == "structured"
    assert choose(784, 3, 512, 1, 1) == "keyed"
    assert choose(0, 0, 512, 1, 1) == choose(0, 0, 512, 1, 256) == "keyed"


@pytest.mark.parametrize(("d", "chosen"), [(2, "keyed"), (40, "structured")])
@pytest.mark.parametrize("extra", [{}, {"scale_inputs": False}, {"block_size": 7}])
def test_a_learner_is_the_one_it_chose(d, chosen, extra):
    if extra.get("block_size") and d == 2:
        chosen = choose(2, 2, 1024, 4, 7)
    pairs = events(d)
    auto, explicit, many = learner(**extra), learner(**extra, directions=chosen), learner(**extra)
    for x, y in pairs:
        auto.learn_one(x, y)
        explicit.learn_one(x, y)
    many.learn_many(*map(list, zip(*pairs, strict=True)))
    x = pairs[3][0]
    assert auto.predict_proba_one(x) == explicit.predict_proba_one(x) == many.predict_proba_one(x)
    assert auto.to_bytes() == many.to_bytes()
    again = streamk.loads(auto.to_bytes())
    assert again.to_bytes() == auto.to_bytes()
    for x, y in pairs:
        again.learn_one(x, y)
        auto.learn_one(x, y)
    assert again.to_bytes() == auto.to_bytes()


def test_a_refused_event_chooses_nothing():
    one, two = learner(), learner()
    with pytest.raises(ValueError, match="x00"):
        one.learn_one({"x00": float("inf")}, True)
    with pytest.raises(ValueError, match="x00"):
        one.learn_many([events(40)[0][0], {"x00": float("inf")}], [True, False])
    assert one.to_bytes() == two.to_bytes()
    assert streamk.loads(one.to_bytes()).to_bytes() == two.to_bytes()
    for x, y in events(40):
        one.learn_one(x, y)
        two.learn_one(x, y)
    assert one.to_bytes() == two.to_bytes()


@pytest.mark.parametrize(("d", "chosen"), [(2, "keyed"), (40, "structured")])
def test_a_map_is_the_one_it_chose(d, chosen):
    X = np.random.default_rng(0).normal(size=(30, d))
    auto, explicit = (
        streamk.RandomFeatures(features=1024, directions=directions, seed=3)
        for directions in ("auto", chosen)
    )
    assert auto.transform(X).tobytes() == explicit.transform(X).tobytes()
    x = events(d)[0][0]
    learned, plain = auto.clone(), explicit.clone()
    learned.learn_one(x)
    plain.learn_one(x)
    found, expected = learned.transform_one(x), plain.transform_one(x)
    assert list(found.values()) == list(expected.values())


def test_many_rows_with_names_of_their_own():
    """Keyed directions without scaling keep no names, so there is no end to them."""
    pairs = [({f"n{i}_{j}": 1.0 for j in range(2)}, float(i % 3)) for i in range(33_000)]
    one, many = (
        streamk.KaczmarzRegressor(directions="auto", scale_inputs=False, features=64, seed=1)
        for _ in range(2)
    )
    for x, y in pairs[:50]:
        one.learn_one(x, y)
    many.learn_many(*map(list, zip(*pairs[:50], strict=True)))
    assert one.to_bytes() == many.to_bytes()
    many.learn_many(*map(list, zip(*pairs[50:], strict=True)))
    fresh = streamk.KaczmarzRegressor(directions="auto", scale_inputs=False, features=64, seed=1)
    fresh.learn_many(*map(list, zip(*pairs, strict=True)))
    assert fresh.to_bytes() == many.to_bytes()


def test_a_refused_batch_chooses_nothing():
    made = streamk.RandomFeatures(features=64, directions="auto", seed=1)
    with pytest.raises(ValueError, match="out is"):
        made.transform(np.ones((3, 40)), out=np.zeros((2, 2), np.float32))
    assert not made._inputs.settled
