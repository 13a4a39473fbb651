"""Every kernel against an independent exact form, and every feature map against its exact kernel."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.gaussian_process import kernels as sk
from streamk.expansion import Expansion

from streamk.encoding.keys import number_key, number_position_key
from streamk.features.activation import AMPLITUDE, activate
from streamk.features.map import SPAN
from streamk.kernels import kernel

NAMES = [
    "gaussian", "laplace", "matern:0.5", "matern", "matern:2.5", "matern:7", "rational-quadratic",
    "rational-quadratic:0.4", "exponential-power", "exponential-power:0.7", "exponential-power:1.6",
]  # fmt: skip


def exact(name, X, Z, bandwidth):
    """The same kernels from scikit-learn, or from the formula over SciPy's distances."""
    family, _, number = name.partition(":")
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


def features(expansion, keys, X):
    angles = X.astype(np.float32) @ expansion.frequencies(keys, slice(None), slice(0, expansion.width))
    angles += expansion.phases
    activate(expansion.kind, AMPLITUDE, angles, len(angles), expansion.features)
    return angles.astype(np.float64)


def pairs():
    """Pairs of points at distances where the kernels differ most from one another."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(60, 5))
    step = rng.normal(size=(60, 5))
    step *= (np.linspace(0.05, 4.0, 60) / np.linalg.norm(step, axis=1))[:, None]
    return x, x + step


@pytest.mark.parametrize("directions", ["keyed", "dense"])
@pytest.mark.parametrize("name", NAMES)
def test_features_approximate_the_kernel(name, directions):
    x, z = pairs()
    make = {"keyed": lambda j: number_key(f"x{j}"), "dense": number_position_key}[directions]
    keys = np.array([make(j) for j in range(5)], dtype=np.uint64)
    bandwidth, F = 1.3, 2**16
    expansion = Expansion(kernel(name), bandwidth, (1.0,), F, seed=5)
    estimate = (features(expansion, keys, x) * features(expansion, keys, z)).sum(axis=1) / F
    truth = np.diag(exact(name, x, z, bandwidth))
    error = np.abs(estimate - truth).max()
    assert error < 4.5 * 1.25 / np.sqrt(F)  # a feature's product has deviation at most 1.25
    # The tolerance must be tight enough to see the commonest error, a bandwidth wrong by √2.
    wrong = np.diag(exact(name, x, z, bandwidth * np.sqrt(2)))
    assert np.abs(wrong - truth).max() > 3 * 4.5 * 1.25 / np.sqrt(F)


def test_scales_cycle_over_blocks():
    keys = np.array([number_key(f"x{j}") for j in range(5)], dtype=np.uint64)
    x, z = pairs()
    scales = (4.0, 1.0, 0.25)
    whole = Expansion(kernel("gaussian"), 1.3, scales, 3 * 2**14, seed=5)
    product = features(whole, keys, x) * features(whole, keys, z)
    for s, scale in enumerate(scales):
        columns = (np.arange(whole.width) // SPAN) % 3 == s
        estimate = product[:, columns].mean(axis=1)
        truth = np.diag(exact("gaussian", x, z, 1.3 * scale))
        assert np.abs(estimate - truth).max() < 4.5 * 1.25 / np.sqrt(columns.sum())


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
        ("matern:1:2", "takes 1 number"),
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


@pytest.mark.parametrize("name", [*NAMES, "matern:0.01", "rational-quadratic:0.01", "exponential-power:0.05"])
def test_radii_are_finite(name):
    waves = Expansion(kernel(name), 1e-9, (1e-6,), 4096, seed=1).waves
    assert np.isfinite(waves).all()
