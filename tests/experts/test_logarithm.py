"""Least squares for the logarithm of a number, against ridge regression of logarithms in plain NumPy."""

import numpy as np
import pytest
from numba import njit

import streamk
from streamk.encoding.codec import Unit
from streamk.encoding.scaling import COUNT, MEAN, SQUARES
from streamk.experts.expert import Merge, Observation, evaluate, step
from streamk.experts.logarithm import SMALL, Logarithm, relative_logarithm, without_logarithm
from streamk.features.columns.plain import LINEAR, PLAIN
from streamk.losses import CODES

PENALTY, CONSTANT, INPUTS = 0.5, 4.0, 3
TARGET = 60.0, 30.0


@njit
def teach(expert, phi, aim, weight, again):
    outputs = np.zeros((1, 2, 1), dtype=np.float32)
    evaluate(expert, 0, phi, 0, outputs)
    before = outputs.copy()
    step(expert, 0, Observation(phi, 0, outputs, aim, 1, weight, np.zeros(1), again))
    return before[0, 1, 0]


def expert(target=TARGET, forgetting=1.0):
    statistics = np.zeros((1, 10))
    statistics[0, [COUNT, MEAN, SQUARES]] = 100.0, target[0], 100.0 * target[1] ** 2
    made = Logarithm(CODES["number", "squared"], PENALTY, forgetting, CONSTANT, statistics)
    made.grow(1, PLAIN, PLAIN + 64)
    return made


def row(inputs, label=0.0):
    """The columns of an event whose last label was ``label``, standardised."""
    phi = np.full((1, PLAIN + 64), 7.0, dtype=np.float32)
    phi[0, :PLAIN] = 0.0
    phi[0, 0], phi[0, 1 : 1 + INPUTS], phi[0, LINEAR] = CONSTANT, inputs, CONSTANT * label
    return phi


def logarithm(y, small):
    return np.sign(y) * np.log1p(np.abs(y) / small)


def small_of(made, deviation):
    """``ε`` of an expert, in deviations of its target."""
    count, _, first, second = made.sizes
    if count < 2.0:
        return SMALL
    return min(
        SMALL, np.exp(first / count - 3.0 * np.sqrt(second / count - (first / count) ** 2)) / deviation
    )


def stream(n=80, seed=1, wide=0.5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, INPUTS))
    y = 60.0 * np.exp(wide * X @ [1.0, -0.5, 0.2] + 0.1 * rng.normal(size=n))
    return X, y, rng.choice([0.5, 1.0, 2.0], n)


def learned(made, X, y, w, target=TARGET):
    standard = (y - target[0]) / target[1]
    for k in range(len(y)):
        teach(made.record, row(X[k], standard[k - 1] if k else 0.0), standard[k], w[k], False)
    return made


@pytest.mark.parametrize("wide", [0.5, 4.0])
def test_coefficients_are_ridge_regression_of_logarithms(wide):
    """Also where ``ε`` is much less than at first: the first events then were learned with another one."""
    X, y, w = stream(wide=wide)
    made, (mean, deviation), last, rows, aims = expert(), TARGET, 0.0, [], []
    for x, z, weight in zip(X, (y - mean) / deviation, w, strict=True):
        small = small_of(made, deviation)
        label = relative_logarithm(last, mean / deviation, small)
        rows.append([CONSTANT, *x, CONSTANT * label])
        aims.append(logarithm(z + mean / deviation, small) - logarithm(mean / deviation, small))
        teach(made.record, row(x, last), z, weight, False)
        last = z
    phi, aims = np.array(rows), np.array(aims)
    wanted = np.linalg.solve(phi.T @ (phi * w[:, None]) + PENALTY * np.eye(phi.shape[1]), phi.T @ (w * aims))
    found = made.coefficients[0, 0][[0, 1, 2, 3, LINEAR]]
    np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=2e-4)
    assert (small_of(made, deviation) < 0.01) == (wide > 1.0)


def test_outputs_are_without_logarithms():
    X, y, w = stream()
    made = learned(expert(), X, y, w)
    small = small_of(made, TARGET[1])
    coefficients, mean = made.coefficients[0, 0].astype(float), TARGET[0] / TARGET[1]
    label = relative_logarithm(0.5, mean, small)
    whole = coefficients[:4] @ [CONSTANT, 1.0, -1.0, 2.0] + coefficients[LINEAR] * CONSTANT * label
    found = teach(made.record, row([1.0, -1.0, 2.0], 0.5), 0.0, 1.0, True)
    whole += logarithm(mean, small)
    assert found == pytest.approx(np.sign(whole) * small * np.expm1(abs(whole)) - mean, rel=1e-3)


def test_sizes_are_those_of_targets_that_were_learned_once():
    X, y, w = stream()
    y[5] = 0.0
    made = learned(expert(), X, y, w)
    kept, weights = np.log(np.delete(y, 5)), np.delete(w, 5)
    total = weights.sum()
    np.testing.assert_allclose(made.sizes, [total, total, weights @ kept, weights @ kept**2], rtol=1e-12)
    before = made.sizes.copy()
    teach(made.record, row(X[0]), 9.0, 1.0, True)
    np.testing.assert_array_equal(made.sizes, before)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_targets_of_both_signs_have_no_logarithm(sign):
    X, y, w = stream(300)
    made = learned(expert((sign * TARGET[0], TARGET[1])), X, sign * y, w, (sign * TARGET[0], TARGET[1]))
    assert abs(teach(made.record, row([1.0, 1.0, 1.0]), 0.0, 1.0, True)) > 0.1
    for _ in range(5):
        teach(made.record, row([0.0, 0.0, 0.0]), -5.0 * sign, 1.0, False)
    assert teach(made.record, row([1.0, 1.0, 1.0]), 0.0, 1.0, True) == 0.0


def test_targets_of_any_size_and_sign_stay_finite():
    made = expert((0.0, 0.0))
    for target in ((0.0, 0.0), (60.0, 30.0), (-1e15, 1.0), (1e-9, 1e15)):
        made.target[0, [MEAN, SQUARES]] = target[0], 100.0 * target[1] ** 2
        for aim in (0.0, 1e30, -1e30, 1e-30, 3.0):
            assert np.isfinite(teach(made.record, row([1e6, -1e6, 0.0], aim), aim, 1e9, False))
    assert np.isfinite(made.coefficients).all()
    assert np.isfinite(made.sizes).all()


@pytest.mark.parametrize("z", [-3.0, -1e-9, 0.0, 2.0, 1e6])
@pytest.mark.parametrize("small", [SMALL, 1e-12])
def test_logarithms_are_taken_back(z, small):
    found = without_logarithm(relative_logarithm(z, 2.0, small), 2.0, small)
    assert found == pytest.approx(z, rel=1e-9, abs=1e-9)


def test_a_merge_has_the_information_of_all_parts():
    X, y, w = stream(120)
    whole, halves = learned(expert(), X, y, w), []
    for half in (slice(60), slice(60, None)):
        halves.append(learned(expert(), X[half], y[half], w[half]))
    merged = expert()
    merged.merge_from(halves, Merge([0.5, 0.5], [([0], Unit(1.0, 0.0)), ([0], Unit(3.0, 2.0))]))
    np.testing.assert_allclose(merged.coefficients, whole.coefficients, rtol=0.1, atol=0.01)
    np.testing.assert_allclose(merged.sizes, whole.sizes, rtol=1e-12)


def test_prices_are_learned_better_with_it():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(800, 5))
    y = 2e5 * np.exp(0.5 * X @ [1.0, 0.8, -0.6, 0.4, 0.2] + 0.05 * rng.normal(size=800))
    errors = {}
    for logarithm in (True, False):
        learner = streamk.KernelRegressor(features=768, label_memory=False, logarithm=logarithm, seed=1)
        found = learner.predict_learn_many(X, y.tolist(), names=list("abcde"))
        errors[logarithm] = np.mean((np.array(found) - y)[400:] ** 2)
    assert errors[True] < 0.6 * errors[False]


def test_it_is_only_in_regressors_that_ask_for_it():
    without, with_it = (
        {row["expert"] for row in streamk.KernelRegressor(logarithm=asked).summary()["experts"]}
        for asked in (False, True)
    )
    assert with_it - without == {"least squares, logarithm"}
    made = next(e for e in streamk.KernelRegressor()._experts if isinstance(e, Logarithm))
    assert 0.9 < made.forgetting < 1.0  # prices drift
    with pytest.raises(ValueError, match="logarithm=1: logarithm must be True or False"):
        streamk.KernelRegressor(logarithm=1)
    with pytest.raises(TypeError, match="logarithm"):
        streamk.KernelClassifier(logarithm=True)
