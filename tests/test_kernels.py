"""Every kernel against an independent exact form."""

import math

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.gaussian_process import kernels as sk

from streamk.kernels import kernel

NAMES = [
    "gaussian", "laplace", "matern:0.5", "matern", "matern:2.5", "matern:7", "rational-quadratic",
    "rational-quadratic:0.4", "exponential-power", "exponential-power:0.7", "exponential-power:1.6",
    "laplacian",
]  # fmt: skip


def exact(name, X, Z, bandwidth):
    """The same kernels from scikit-learn, or from the formula over SciPy's distances."""
    family, _, number = name.partition(":")
    if family == "laplacian":
        return np.array(
            [[math.exp(-sum(map(abs, x - z)) / bandwidth) for z in np.asarray(Z)] for x in np.asarray(X)]
        )
    if family == "gaussian":
        return sk.RBF(bandwidth)(X, Z)
    if family == "matern":
        return sk.Matern(bandwidth, nu=float(number or 1.5))(X, Z)
    if family == "rational-quadratic":
        return sk.RationalQuadratic(bandwidth, float(number or 1))(X, Z)
    power = 1.0 if family == "laplace" else float(number or 1)
    return np.exp(-((cdist(X, Z) / bandwidth) ** power))


@pytest.mark.parametrize("name", NAMES)
def test_exact_values(name):
    rng = np.random.default_rng(1)
    X, Z = rng.normal(size=(20, 4)), rng.normal(size=(30, 4))
    Z[0] = X[0]
    np.testing.assert_allclose(kernel(name)(X, Z, 1.7), exact(name, X, Z, 1.7), atol=1e-6)


@pytest.mark.parametrize("order", [0, 1, 2])
def test_exact_arc_cosine_is_its_integral(order):
    """``k = 2 E[max(0, ωᵀx)ⁿ max(0, ωᵀz)ⁿ]``, by quadrature over the plane of x and z."""
    x, z = np.array([1.5, 0.0]), np.array([-0.3, 0.9])
    angle = (np.arange(400_000) + 0.5) / 400_000 * 2 * np.pi
    across = np.column_stack([np.cos(angle), np.sin(angle)])
    ramps = [np.maximum(0.0, across @ v) ** order if order else across @ v > 0 for v in (x, z)]
    moment = {0: 1.0, 1: 2.0, 2: 8.0}[order]  # E[r^{2n}] of a plane Gaussian
    quadrature = 2.0 * moment * np.mean(ramps[0] * ramps[1])
    value = kernel(f"arc-cosine:{order}")(x[None], z[None], 1.0)[0, 0]
    np.testing.assert_allclose(value, quadrature, rtol=1e-5)
    np.testing.assert_allclose(
        kernel(f"arc-cosine:{order}")(2 * x[None], 2 * z[None], 2.0), [[value]], rtol=1e-12
    )


def test_exact_polynomial():
    rng = np.random.default_rng(1)
    X, Z = rng.normal(size=(20, 4)), rng.normal(size=(30, 4))
    expected = sk.DotProduct(np.sqrt(0.5))(X / 1.7, Z / 1.7) ** 3
    np.testing.assert_allclose(kernel("polynomial:3:0.5")(X, Z, 1.7), expected, rtol=1e-10)


@pytest.mark.parametrize("name", NAMES)
def test_far_from_the_origin_is_as_exact_as_near_it(name):
    far, near = np.array([[1e8]]), np.array([[0.0]])
    np.testing.assert_array_equal(kernel(name)(far, far + 1.0), kernel(name)(near, near + 1.0))
    if name == "gaussian":
        assert kernel(name)(far, far + 1.0)[0, 0] == np.exp(-0.5)


@pytest.mark.parametrize("nu", [0.01, 0.5, 1.0, 3.3, 20.0, 99.0, 100.0])
def test_matern_is_a_falling_number_from_one_to_zero(nu):
    r = np.concatenate([[0.0], np.geomspace(1e-12, 1e3, 2000)])
    k = kernel(f"matern:{nu}")(np.zeros((1, 1)), r[:, None])[0]
    assert np.isfinite(k).all()
    assert k[0] == 1.0
    assert ((k >= 0.0) & (k <= 1.0)).all()
    assert (np.diff(k) < 1e-9).all()
    if nu > 90:
        assert np.abs(k - np.exp(-0.5 * r * r)).max() < 3e-3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cubic", "unknown"),
        (3, "unknown"),
        ("gaussian:2", "takes no number"),
        ("matern:x", "positive number"),
        ("matern:-1", "positive number"),
        ("matern:nan", "positive number"),
        ("exponential-power:2", "below 2"),
        ("exponential-power:0.01", "from 0.1"),
        ("matern:1:2", "takes 1 number"),
        ("matern:101", "at most 100"),
        ("laplacian:2", "takes no number"),
        ("arc-cosine:3", "0, 1 or 2"),
        ("arc-cosine:0.5", "0, 1 or 2"),
        ("polynomial:0", "positive number"),
        ("polynomial:9", "from 1 to 8"),
        ("polynomial:1.5", "whole number"),
        ("polynomial:2:-1", "at least 0"),
        ("polynomial:2:1:1", "takes 2 numbers"),
    ],
)
def test_what_is_not_a_kernel_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        kernel(text)


TEXTS = (
    "gaussian", "laplace", "laplacian", "matern", "matern:2.5", "matern:0.8", "rational-quadratic:2",
    "exponential-power:1.3", "arc-cosine", "arc-cosine:0", "polynomial", "polynomial:4:0",
)  # fmt: skip


def rows(count, width, seed, centre=0.0):
    return (np.random.default_rng(seed).normal(size=(count, width)) + centre).astype(np.float32)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("count", [1, 255, 256, 257, 600])
def test_blocks_are_exact(text, count):
    X, Z = rows(count, 7, 1), rows(130, 7, 2)
    exact = kernel(text)(X.astype(np.float64), Z.astype(np.float64), 1.7)
    block = kernel(text).block(X, Z, 1.7)
    assert block.dtype == np.float32
    assert block.shape == exact.shape
    np.testing.assert_allclose(block, exact, atol=2e-6 * np.abs(exact).max())


@pytest.mark.parametrize("text", ["gaussian", "laplace", "matern", "laplacian"])
@pytest.mark.parametrize("centre", [0.0, 1000.0])
def test_rows_that_nearly_meet_are_exact(text, centre):
    """Where lengths are far above distances, the difference of sums would be noise."""
    X = rows(60, 5, 1, centre)
    Z = np.vstack([X[:30], X[30:] + np.float32(2e-3 if centre else 1e-5)])
    exact = kernel(text)(X.astype(np.float64), Z.astype(np.float64), 0.05)
    np.testing.assert_allclose(kernel(text).block(X, Z, 0.05), exact, atol=3e-6)
    assert (kernel(text).block(X, X, 0.05).diagonal() == 1.0).all()


@given(st.integers(1, 300), st.integers(1, 40), st.integers(0, 5))
def test_any_shape(count, others, width):
    X, Z = rows(count, width, 3), rows(others, width, 4)
    exact = (
        kernel("laplace")(X.astype(np.float64), Z.astype(np.float64)) if width else np.ones((count, others))
    )
    np.testing.assert_allclose(kernel("laplace").block(X, Z), exact, atol=3e-6)


@pytest.mark.parametrize("text", ["laplace", "polynomial:3", "laplacian"])
def test_threads_never_show(text):
    X, Z = rows(1500, 20, 5), rows(700, 20, 6)
    before, found = numba.get_num_threads(), []
    try:
        for threads in (1, before):
            numba.set_num_threads(threads)
            found.append(kernel(text).block(X, Z, 2.0).tobytes())
    finally:
        numba.set_num_threads(before)
    assert found[0] == found[-1]


def test_nothing_gives_nothing():
    for text in ("gaussian", "laplacian", "polynomial"):
        assert kernel(text).block(rows(0, 3, 1), rows(2, 3, 1)).shape == (0, 2)
        assert kernel(text).block(rows(2, 3, 1), rows(0, 3, 1)).shape == (2, 0)
