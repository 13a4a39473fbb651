"""Features of every kernel against the exact one, and what may stand beside what."""

import numpy as np
import pytest

import streamk
from streamk.encoding.keys import number_key, number_position_key
from streamk.encoding.rows import EncodedRows
from streamk.features.map import SPAN, FeatureMap
from streamk.features.matrix import fill, fill_here
from streamk.features.spectra import AMPLITUDE, radii
from streamk.kernels import kernel
from tests.test_kernels import NAMES, exact

KEYS = {
    "keyed": np.array([number_key(f"x{j}") for j in range(5)], dtype=np.uint64),
    "dense": np.array([number_position_key(j) for j in range(5)], dtype=np.uint64),
}
NONE = np.zeros((0, 4))


def rows_of(X, keys):
    return EncodedRows(np.full((1, len(keys)), -1, np.int32), keys[None], X)


def features(e, keys, X):
    phi = np.empty((len(X), e.width), dtype=np.float32)
    fill(e, rows_of(X, keys), NONE, AMPLITUDE, phi)
    return phi.astype(np.float64)


def made(names, bandwidth, count, scales=(1.0,), seed=5):
    return FeatureMap(tuple(map(kernel, names)), bandwidth, scales, count, seed)


def pairs():
    """Pairs of points at distances where the kernels differ most from one another."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(60, 5))
    step = rng.normal(size=(60, 5))
    step *= (np.linspace(0.05, 4.0, 60) / np.linalg.norm(step, axis=1))[:, None]
    return x, x + step


def truth_of(name, x, z, bandwidth):
    return np.diag(exact(name, x, z, bandwidth))


@pytest.mark.parametrize("directions", KEYS)
@pytest.mark.parametrize("name", NAMES)
def test_features_approximate_the_kernel(name, directions):
    (x, z), keys, bandwidth, F = pairs(), KEYS[directions], 1.3, 2**16
    e = made([name], bandwidth, F)
    estimate = (features(e, keys, x) * features(e, keys, z)).mean(axis=1)
    truth = truth_of(name, x, z, bandwidth)
    tolerance = 4.5 * 1.25 / np.sqrt(F)  # a feature's product has deviation at most 1.25
    assert np.abs(estimate - truth).max() < tolerance
    # The tolerance must be tight enough to see the commonest errors, a bandwidth wrong by √2 or 2.
    for factor in (0.5, 1 / np.sqrt(2), np.sqrt(2), 2.0):
        wrong = truth_of(name, x, z, bandwidth * factor)
        assert np.abs(wrong - truth).max() > 3 * tolerance


def test_the_least_exponential_power():
    """Its frequencies have tails so heavy that nearly all the kernel falls close to 0."""
    (x, z), keys, F = pairs(), KEYS["keyed"], 2**20
    e = made(["exponential-power:0.1"], 1.3, F)
    estimate = (features(e, keys, x[::4]) * features(e, keys, z[::4])).mean(axis=1)
    truth = truth_of("exponential-power:0.1", x[::4], z[::4], 1.3)
    tolerance = 4.5 * 1.25 / np.sqrt(F)
    assert np.abs(estimate - truth).max() < tolerance
    wrong = truth_of("exponential-power:0.1", x[::4], z[::4], 1.3 * np.sqrt(2))
    assert np.abs(wrong - truth).max() > 1.5 * tolerance


def test_scales_cycle_over_spans():
    x, z = pairs()
    scales = (4.0, 1.0, 0.25)
    e = made(["gaussian"], 1.3, 3 * 2**14, scales)
    product = features(e, KEYS["keyed"], x) * features(e, KEYS["keyed"], z)
    for s, scale in enumerate(scales):
        columns = (np.arange(e.width) // SPAN) % 3 == s
        estimate = product[:, columns].mean(axis=1)
        truth = truth_of("gaussian", x, z, 1.3 * scale)
        assert np.abs(estimate - truth).max() < 4.5 * 1.25 / np.sqrt(columns.sum())


@pytest.mark.parametrize("bandwidth", [1.3, None])
@pytest.mark.parametrize("names", [("laplacian", "gaussian"), ("gaussian", "laplacian", "matern:2.5")])
def test_several_kernels_are_their_mean(names, bandwidth):
    """With no bandwidth of its own, an event of five numbers is divided by √5, or by 5 for the Laplacian."""
    (x, z), F, scales = pairs(), 2**16 // len(names) // 128 * len(names) * 128, (2.0, 0.5)
    e = made(names, bandwidth, F, scales)
    product = features(e, KEYS["keyed"], x) * features(e, KEYS["keyed"], z)
    truths = []
    for k, name in enumerate(names):
        own = bandwidth or (5.0 if name == "laplacian" else np.sqrt(5.0))
        mean = sum(truth_of(name, x, z, own * scale) for scale in scales) / len(scales)
        columns = np.arange(e.width) // 64 % len(names) == k
        tolerance = 4.5 * 1.25 / np.sqrt(columns.sum())
        assert np.abs(product[:, columns].mean(axis=1) - mean).max() < tolerance
        truths.append(mean)
    whole, mean = product.mean(axis=1), np.mean(truths, axis=0)
    assert np.abs(whole - mean).max() < 4.5 * 1.25 / np.sqrt(F)
    assert np.abs(truths[0] - mean).max() > 3 * 4.5 * 1.25 / np.sqrt(F)


@pytest.mark.parametrize("bandwidth", [1.3, None])
def test_one_row_of_several_kernels_has_the_bytes_of_many(bandwidth):
    e, X = made(("laplacian", "gaussian", "laplace"), bandwidth, 300, (2.0, 1.0)), pairs()[0]
    whole = np.empty((60, e.width), dtype=np.float32)
    fill(e, rows_of(X, KEYS["keyed"]), NONE, AMPLITUDE, whole)
    alone = np.empty((60, e.width), dtype=np.float32)
    for i in range(60):
        fill_here(e, rows_of(X[i : i + 1], KEYS["keyed"]), NONE, AMPLITUDE, alone[i : i + 1])
    assert alone.tobytes() == whole.tobytes()


@pytest.mark.parametrize("name", [*NAMES, "matern:0.01", "rational-quadratic:0.01", "exponential-power:0.1"])
def test_radii_are_finite(name):
    assert np.isfinite(radii(kernel(name), 7, 4096)).all()
    assert np.isfinite(made([name], 1e-9, 4096, (1e-6,)).waves).all()


@pytest.mark.parametrize("text", ["laplacian", ("laplacian", "gaussian")])
@pytest.mark.parametrize("cls", [streamk.RandomFeatures, streamk.KaczmarzClassifier])
def test_fast_transforms_make_no_cauchy_directions(cls, text):
    with pytest.raises(ValueError, match="directions='structured': the laplacian kernel has a direction for"):
        cls(kernel=text, directions="structured")


@pytest.mark.parametrize("text", ["laplacian", ("gaussian", "laplacian")])
def test_automatic_directions_of_a_laplacian_are_keyed(text):
    X = np.random.default_rng(0).normal(size=(4, 60))
    auto, keyed, plain = (
        streamk.RandomFeatures(kernel=k, features=512, directions=d, seed=3)
        for k, d in ((text, "auto"), (text, "keyed"), ("gaussian", "auto"))
    )
    assert auto.transform(X).tobytes() == keyed.transform(X).tobytes()
    plain.transform(X)
    assert (auto._inputs.directions, plain._inputs.directions) == ("keyed", "structured")
    learners = [
        streamk.KaczmarzRegressor(kernel=text, features=512, directions=d, seed=3) for d in ("auto", "keyed")
    ]
    names = [f"x{j}" for j in range(60)]
    for learner in learners:
        learner.learn_many(X, [1.0, 2.0, 3.0, 4.0], names=names)
    x = dict(zip(names, X[0].tolist(), strict=True))
    assert learners[0].predict_one(x) == learners[1].predict_one(x)


@pytest.mark.parametrize("other", ["polynomial", "arc-cosine", "arc-cosine:0"])
def test_kernels_without_cosines_stand_alone(other):
    for cls in (streamk.RandomFeatures, streamk.KaczmarzClassifier):
        with pytest.raises(ValueError, match=f"'{other}' cannot be mixed with other kernels"):
            cls(kernel=("gaussian", other), features=64)
        with pytest.raises(ValueError, match="at least one kernel"):
            cls(kernel=())
