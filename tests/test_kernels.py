"""Every kernel against an independent exact form."""

import math

import numpy as np
import pytest
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
