"""The pursuit learners against closed forms, solved anew in float64 after every event or block."""

import numpy as np
import pytest

import streamk
from streamk.vector import factor
from tests.references import Scale

from .test_kaczmarz import NAMES, features, stream

SETTINGS = {"features": 64, "bandwidth": 2.0, "scale_inputs": False, "seed": 3}
PARTS = {"growth": "linear", "period": 60, "max_features": 192}


def reference(learner, X, y, w, classes, projects, together=1):
    """Solve the least squares of the open block over all its events, for every block of events."""
    phi = features(learner, X)
    size, most = learner.features, learner.max_features // learner.features
    rho = getattr(learner, "regularization", 0.0)
    Y = np.eye(classes)[y] if classes else y[:, None]
    A = np.zeros((phi.shape[1], Y.shape[1]))
    openings = 0
    for start in range(0, len(X), together):
        n, now = start, slice(start, start + together)
        due = 1 + n // learner.period
        if due > openings:
            openings = due
            at = slice((openings - 1) % most * size, (openings - 1) % most * size + size)
            F = min(openings, most) * size
            begin, G, c = A[at].copy(), learner.ridge * F * np.eye(size), 0.0
        aims = Y[now]
        if not classes:
            # a block of events is scaled by the events before it, the first by itself
            past = y[: start or (together if together > 1 else 0)]
            scale = Scale(past, w)
            aims = np.array([[scale.standardise(float(v))] for v in aims[:, 0]])
        known = (y[: now.stop].max() + 1) if classes else 1
        residual = np.zeros_like(aims)
        residual[:, :known] = (aims - phi[now] @ A)[:, :known]
        W, P = w[now][:, None], phi[now, at]
        target = residual + P @ A[at]  # what the others leave
        G += P.T @ (W * P)
        c = c + P.T @ (W * (target - P @ begin))
        step = np.linalg.solve(G, P.T @ (W * residual))
        A[at] += step
        if projects:
            others = np.ones(phi.shape[1], bool)
            others[at] = False
            others[F:] = False
            Q = phi[now][:, others]
            left = residual - P @ step
            ridge = rho * (1 + n / 256) * F / w[now]
            A[others] += Q.T @ np.linalg.solve(Q @ Q.T + np.diag(ridge), left)
        else:
            np.testing.assert_allclose(A[at], begin + np.linalg.solve(G, c), atol=1e-9)
    return A.T


@pytest.mark.parametrize("projects", [False, True])
@pytest.mark.parametrize("together", [1, 7])
def test_classifier_is_the_rule(projects, together):
    X, y, _ = stream(301)
    y[:3] = 0, 1, 2
    w = np.random.default_rng(1).uniform(0.1, 3.0, len(X))
    make = streamk.KaczmarzPursuitClassifier if projects else streamk.MatchingPursuitClassifier
    learner = make(block_size=together, **SETTINGS, **PARTS)
    learner.learn_many(X, y, w, names=NAMES)
    assert learner._growth.openings == (6 if together == 1 else 5)
    A = reference(learner, X, y, w, 3, projects, together)
    np.testing.assert_allclose(learner._experts[0].coefficients[0], A, atol=2e-5)


@pytest.mark.parametrize("projects", [False, True])
@pytest.mark.parametrize("together", [1, 7])
def test_regressor_is_the_rule(projects, together):
    X, _, y = stream(301)
    w = np.random.default_rng(1).uniform(0.1, 3.0, len(X))
    make = streamk.KaczmarzPursuitRegressor if projects else streamk.MatchingPursuitRegressor
    learner = make(block_size=together, **SETTINGS, **PARTS)
    learner.learn_many(X, y, w, names=NAMES)
    A = reference(learner, X, y, w, 0, projects, together)
    np.testing.assert_allclose(learner._experts[0].coefficients[0], A, atol=5e-5)


@pytest.mark.parametrize("block_size", [1, 50])
def test_a_single_block_is_the_ridge_solution(block_size):
    X, y, _ = stream(400)
    y[:3] = 0, 1, 2
    w = np.random.default_rng(1).uniform(0.1, 3.0, len(X))
    learner = streamk.MatchingPursuitClassifier(growth="fixed", ridge=0.2, block_size=block_size, **SETTINGS)
    learner.learn_many(X, y, w, names=NAMES)
    phi = features(learner, X)
    system = phi.T @ (w[:, None] * phi) + 0.2 * 64 * np.eye(64)
    exact = np.linalg.solve(system, phi.T @ (w[:, None] * np.eye(3)[y]))
    np.testing.assert_allclose(learner._experts[0].coefficients[0], exact.T, atol=5e-6)


class Factor:
    """``U D Uᵀ`` and coefficients, moved event by event by the package's update."""

    def __init__(self, size, ridge):
        self.diagonal, self.factor = np.full(size, 1 / ridge), np.zeros(factor.factor_size(size))
        self.weights, self.size = np.zeros(size), size

    def add(self, x, residual, w):
        padded = np.zeros(-(-self.size // 16) * 16)
        padded[: self.size] = x
        gain = np.zeros_like(padded)
        left = factor.update(self.diagonal, self.factor, padded, 1.0 / w, gain)
        self.weights += gain[: self.size] * residual / left
        return 1.0 / w / left

    @property
    def covariance(self):
        upper = factor.as_matrix(self.factor, self.size)
        return (upper * self.diagonal) @ upper.T


def test_the_covariance_is_the_inverse():
    rng = np.random.default_rng(0)
    phi = rng.normal(size=(200, 33))
    active = Factor(33, 0.5)
    w = rng.uniform(0.1, 10.0, 200)
    y = rng.normal(size=200)
    for i in range(200):
        residual = y[i] - phi[i] @ active.weights
        share = active.add(phi[i], residual, w[i])
        np.testing.assert_allclose(y[i] - phi[i] @ active.weights, share * residual, atol=1e-12)
    gram = phi.T @ (w[:, None] * phi) + 0.5 * np.eye(33)
    np.testing.assert_allclose(active.covariance, np.linalg.inv(gram), rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(factor.information(active.diagonal, active.factor), gram, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(active.weights, np.linalg.solve(gram, phi.T @ (w * y)), atol=1e-10)
    diagonal, packed = factor.of_information(gram)
    np.testing.assert_allclose(diagonal, active.diagonal, rtol=1e-9)
    np.testing.assert_allclose(packed, active.factor, atol=1e-9)


def test_the_recursion_stays_exact_where_the_textbook_breaks():
    """Almost dependent features, weights over twelve orders of magnitude, a ridge of almost nothing."""
    rng = np.random.default_rng(1)
    base = rng.normal(size=(3000, 4))
    phi = np.repeat(base, 4, axis=1) + 1e-4 * rng.normal(size=(3000, 16))
    w = 10.0 ** rng.uniform(-6, 6, 3000)
    active, P = Factor(16, 1e-6), np.eye(16) / 1e-6
    for i in range(3000):
        active.add(phi[i], 0.0, w[i])
        v = P @ phi[i]
        P -= np.outer(v, v) / (1.0 / w[i] + phi[i] @ v)
    truth = np.linalg.inv(phi.T @ (w[:, None] * phi) + 1e-6 * np.eye(16))
    assert (active.diagonal > 0.0).all()
    assert np.linalg.norm(active.covariance - truth) < 1e-3 * np.linalg.norm(truth)
    assert np.linalg.norm(P - truth) > np.linalg.norm(active.covariance - truth)


def test_next_to_no_weight_is_next_to_no_step():
    for block_size in (1, 2):
        learner = streamk.MatchingPursuitClassifier(features=64, block_size=block_size, seed=1)
        for y in "abab":
            learner.learn_one({"a": 1.0}, y, w=1e-320)
        assert np.abs(learner._experts[0].coefficients).max() < 1e-30


def test_closed_is_small_predicts_the_same_and_learns_on():
    X, y, _ = stream(300)
    for block_size in (1, 7):
        learner = streamk.KaczmarzPursuitClassifier(block_size=block_size, **SETTINGS, **PARTS)
        learner.learn_many(X, y, names=NAMES)
        before = learner.to_bytes()
        closed = learner.closed()
        assert len(closed.to_bytes()) < 0.4 * len(before)
        assert (closed.predict_proba_many(X, names=NAMES) == learner.predict_proba_many(X, names=NAMES)).all()
        closed.learn_many(X, y, names=NAMES)
        assert np.isfinite(closed._experts[0].coefficients).all()
        assert learner.to_bytes() == before
        again = streamk.loads(learner.closed().to_bytes())
        again.learn_many(X, y, names=NAMES)
        assert again.to_bytes() == closed.to_bytes()


def test_parameters_have_checks():
    with pytest.raises(ValueError, match="ridge=0: ridge must be a number from 1e-12 to 1e12"):
        streamk.MatchingPursuitClassifier(ridge=0)
    with pytest.raises(ValueError, match="loss='margin': loss must be 'squared'"):
        streamk.KaczmarzPursuitClassifier(loss="margin")


@pytest.mark.parametrize("array", ["diagonal", "factor", "weights"])
def test_an_impossible_open_block_is_refused(array):
    learner = streamk.MatchingPursuitClassifier(features=64, seed=1)
    learner.learn_one({"a": 1.0}, "x")
    header, arrays = learner._to_parts()
    for bad in (np.full_like(arrays[f"expert0.{array}"], np.nan), arrays[f"expert0.{array}"][:-1]):
        with pytest.raises(
            ValueError, match=r"its (numbers of an open block are impossible|diagonal|factor|weights)"
        ):
            type(learner)._from_parts(header, {**arrays, f"expert0.{array}": bad})
