"""Tensor sketches against explicit convolutions and the exact polynomial kernel."""

import numpy as np
import pytest

from streamk.features.counter import stream_key
from streamk.features.sketch import CONSTANT_KEY, sketch_of, tensor_sketch
from streamk.kernels import kernel

BANDWIDTHS = np.array([1.5, 0.75])


def sketches(source, X, keys, features):
    phi = np.full((len(X), features + 64), np.nan, dtype=np.float32)
    found = np.tile(keys, (len(X), 1))
    tensor_sketch(
        source, X.astype(np.float32), found, np.full(len(X), len(keys)), features, np.float32(2**0.5), phi
    )
    assert not phi[:, features:].any()
    return phi[:, :features].astype(np.float64)


def explicit(source, x, keys, features):
    """Count sketches by the rule, convolved by the definition, one scale after the other."""
    scales, degree = source.keys.shape
    size, parts = features // scales, []
    for s in range(scales):
        product = np.zeros(size)
        product[0] = 1.0
        for d in range(degree):
            cells = np.zeros(size)
            values = [*(x * float(source.gains[s])), float(source.constant)]
            for value, name in zip(values, [*keys, CONSTANT_KEY], strict=True):
                word = int(stream_key(source.keys[s, d], np.uint64(name)))
                cells[word % size] += -value if word >> 63 else value
            product = sum(product[k] * np.roll(cells, k) for k in range(size))
        parts.append(np.sqrt(size) * product)
    return np.concatenate(parts)


@pytest.mark.parametrize("degree", [1, 2, 3, 5])
@pytest.mark.parametrize("features", [4, 64, 256])
def test_products_are_those_of_convolutions(degree, features):
    rng = np.random.default_rng(degree)
    X = rng.normal(size=(9, 7))
    keys = rng.integers(1, 2**63, size=7).astype(np.uint64)
    source = sketch_of(3, degree, 0.7, BANDWIDTHS, features)
    phi = sketches(source, X, keys, features)
    other = np.array([explicit(source, x, keys, features) for x in X])
    np.testing.assert_allclose(
        phi @ phi.T, other @ other.T, rtol=1e-4, atol=1e-4 * np.abs(other @ other.T).max()
    )


@pytest.mark.parametrize("name", ["polynomial:1", "polynomial", "polynomial:3:0.5"])
def test_unbiased(name):
    rng = np.random.default_rng(1)
    X, F, seeds = rng.normal(size=(10, 6)) * 0.7, 256, 400
    keys = rng.integers(1, 2**63, size=6).astype(np.uint64)
    exact = kernel(name)(X, X, 1.5)
    k = kernel(name)
    error = []
    for seed in range(seeds):
        phi = sketches(sketch_of(seed, k.degree, k.constant, np.array([1.5]), F), X, keys, F)
        error.append(phi @ phi.T / F - exact)
    error = np.array(error)
    deviation = error.std(axis=0) + 1e-9
    assert (np.abs(error.mean(axis=0)) < 5 * deviation / np.sqrt(seeds) + 1e-5).all()
    # Pham and Pagh (2013), Lemma 7: the variance is at most 3^p/F times the kernels' product
    bound = 3.0**k.degree / F * np.outer(np.diag(exact), np.diag(exact))
    assert (error.var(axis=0) < 1.3 * bound).all()
    wrong = kernel(name)(X, X, 1.5 * np.sqrt(2))
    assert (np.abs(wrong - exact) / deviation).max() * np.sqrt(seeds) > 15


def test_order_and_absence():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(3, 5))
    keys = rng.integers(1, 2**63, size=5).astype(np.uint64)
    source = sketch_of(3, 2, 1.0, BANDWIDTHS, 64)
    phi = sketches(source, X, keys, 64)
    np.testing.assert_allclose(sketches(source, X[:, ::-1], keys[::-1], 64), phi, atol=1e-5)
    X[:, 4] = 0.0
    assert sketches(source, X, keys, 64).tobytes() == sketches(source, X[:, :4], keys[:4], 64).tobytes()


def test_every_sketch_has_a_key_of_its_own():
    for seed in range(20):
        for degree in range(1, 9):
            keys = sketch_of(seed, degree, 1.0, np.ones(4), 256, blocks=5).keys
            assert keys.shape == (20, degree)
            assert len(set(keys.ravel().tolist())) == keys.size


def test_golden_sketch():
    phi = sketches(
        sketch_of(1, 2, 1.0, np.array([1.0]), 8), np.array([[0.5, -1.0]]), np.array([5, 7], np.uint64), 8
    )
    np.testing.assert_array_equal(phi[0].astype(np.float32), np.array(GOLDEN, dtype=np.float32))


GOLDEN = [
    -0.25,
    -1.0606601238250732,
    -1.7677669525146484,
    -1.0606601238250732,
    -0.25,
    0.7071067690849304,
    0.0,
    -0.7071067690849304,
]
