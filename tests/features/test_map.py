"""A map grows without a change to what it had, and is its seed and nothing else."""

import pickle

import numpy as np
import pytest

import streamk
from streamk.encoding.rows import EncodedRows
from streamk.features.map import FeatureMap, choose, exponents_of, largest_unscaled
from streamk.features.matrix import fill
from streamk.features.spectra import AMPLITUDE
from streamk.kernels import kernel
from streamk.vector.angles import fill_angles


@pytest.mark.parametrize(
    ("name", "slots"),
    [
        ("gaussian", None),
        ("laplace", None),
        ("exponential-power:1.3", None),
        ("matern:2.5", 5),
        ("arc-cosine:1", 5),
        ("gaussian", 100),
        ("polynomial:3", None),
        ("laplacian", None),
        ("laplacian+gaussian+matern", None),
    ],
)
def test_old_features_stay_the_same_to_the_byte(name, slots):
    rng = np.random.default_rng(0)
    keys = np.arange(1, 6, dtype=np.uint64) if slots else rng.integers(2**32, 2**63, 5).astype(np.uint64)
    rows = EncodedRows(np.full((1, 5), -1, np.int32), keys[None], rng.normal(size=(9, 5)))

    def features(e):
        phi = np.empty((9, e.width), dtype=np.float32)
        fill(e, rows, np.zeros((0, 4)), AMPLITUDE, phi)
        return phi

    grown = FeatureMap(tuple(map(kernel, name.split("+"))), 1.5, (2.0, 1.0), 128, 5, slots)
    before = features(grown)
    for blocks in (2, 3, 9):
        grown.grow(128 * blocks)
        after = features(grown)
        assert after.shape == (9, 128 * blocks)
        assert (after[:, :128] == before).all()
        fresh = after[:, 128:].reshape(9, blocks - 1, 128)
        assert all((fresh[:, b] != before).mean() > 0.6 for b in range(blocks - 1))


@pytest.mark.parametrize("name", ["gaussian", "polynomial", "laplacian"])
def test_a_grown_map_estimates_its_kernel(name):
    """Two blocks have half the variance of one, so they are independent."""
    X = np.random.default_rng(1).normal(size=(2, 4)) * 0.6
    rows = EncodedRows(
        np.full((1, 4), -1, np.int32), np.arange(1, 5, dtype=np.uint64)[None] << np.uint64(40), X
    )
    exact = kernel(name)(X, X)[0, 1]
    found = {1: [], 4: []}
    for seed in range(400):
        e = FeatureMap((kernel(name),), 1.0, (1.0,), 64, seed)
        for blocks, estimates in found.items():
            e.grow(64 * blocks)
            phi = np.empty((2, e.width), dtype=np.float32)
            fill(e, rows, np.zeros((0, 4)), AMPLITUDE, phi)
            estimates.append(float(phi[0] @ phi[1]) / e.features)
    for blocks, estimates in found.items():
        assert abs(np.mean(estimates) - exact) < 4 * np.std(estimates) / 20, blocks
    assert 1.7 < np.std(found[1]) / np.std(found[4]) < 2.3


def angles_of(e, X):
    """Keyed angles of rows whose inputs are the same for both families, every second run of the second."""
    frequencies = np.random.default_rng(0).normal(size=(X.shape[1], e.width)).astype(np.float32)
    inputs = np.stack([X, 2.0 * X]).astype(np.float32)
    where = np.tile(np.arange(X.shape[1], dtype=np.int32), (len(X), 1))
    runs = np.array([[0, 64, 0], [64, 128, 1], [128, e.width, 0]])
    phi = np.empty((len(X), e.width), dtype=np.float32)
    fill_angles(inputs, where, np.full(len(X), X.shape[1]), frequencies, e.waves, runs, phi)
    exact = X @ frequencies.astype(np.float64)
    exact[:, 64:128] *= 2.0
    return phi, exact + e.phases


@pytest.mark.parametrize("width", [0, 1, 3, 4, 5, 11])
@pytest.mark.parametrize("features", [129, 700])
def test_angles_are_the_formula(features, width):
    e = FeatureMap((kernel("gaussian"),), 2.0, (2.0, 1.0), features, 9)
    X = np.random.default_rng(features).normal(size=(5, width)).astype(np.float32)
    found, exact = angles_of(e, X)
    np.testing.assert_allclose(found, exact, atol=2e-5)
    alone = np.concatenate([angles_of(e, X[i : i + 1])[0] for i in range(5)])
    assert alone.tobytes() == found.tobytes()


@pytest.mark.parametrize("slots", [None, 70])
def test_only_the_seed_is_state(slots):
    e = FeatureMap((kernel("gaussian"),), 2.0, (2.0, 1.0), 300, 9, slots)
    e.cover(200)
    e.hold_frequencies(np.arange(70_000, 70_030, dtype=np.uint64))
    state = e.__getstate__()
    assert not any(isinstance(value, np.ndarray) for value in state.values())
    again = pickle.loads(pickle.dumps(e))
    assert again.waves.tobytes() == e.waves.tobytes()
    assert again.record.block_keys.tobytes() == e.record.block_keys.tobytes()


def test_how_many_fields_scale_an_event():
    gaussian, laplacian, matern = map(kernel, ("gaussian", "laplacian", "matern"))
    assert exponents_of((gaussian, matern), None) == (-0.5,)
    assert exponents_of((laplacian,), None) == (-1.0,)
    assert exponents_of((laplacian, gaussian), None) == (-0.5, -1.0)
    assert exponents_of((laplacian, gaussian), 2.0) == (0.0,)


def test_numbers_too_large_to_be_distinguished():
    assert largest_unscaled((kernel("gaussian"),), 1.0, (1.0,)) == 1e5
    assert largest_unscaled((kernel("laplacian"), kernel("matern")), 20.0, (4.0, 0.5)) == 1e6
    assert largest_unscaled((kernel("gaussian"),), None, (2.0,)) == 2e5
    assert largest_unscaled((kernel("gaussian"),), 1e200, (1.0,)) == 1e15
    for name in ("polynomial", "arc-cosine"):
        assert largest_unscaled((kernel(name),), 1.0, (1.0,)) == 1e15


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
