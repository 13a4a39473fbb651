"""Ten million events: recursive least squares is still the exact solution (a minute; ``make long``)."""

import numpy as np
import pytest

import streamk
from streamk.experts.factor import covariance

from ..learners.test_kaczmarz import NAMES, features

pytestmark = pytest.mark.long


def test_recursive_least_squares_after_ten_million_events():
    learner = streamk.MatchingPursuitRegressor(
        growth="fixed", features=64, bandwidth=0.7, ridge=1.0, scale_inputs=False, seed=3
    )
    rng = np.random.default_rng(0)
    # the first thousand events settle the scale of the targets; the exact solution starts from there
    gram, moment = np.zeros((64, 64)), np.zeros(64)
    for chunk in range(100):
        X = rng.normal(size=(100_000, 4))
        y = np.sign(X[:, 0] * X[:, 1]) * (1.0 + 0.1 * X[:, 2])
        if chunk == 0:
            learner.learn_many(X[:1000], y[:1000], names=NAMES)
            start = learner._experts[0]
            gram = np.linalg.inv(covariance(start))
            moment = gram @ start.weights[0]
            X, y = X[1000:], y[1000:]
        before = learner._state[3:6].copy()
        learner.learn_many(X, y, names=NAMES)
        counts = before[0] + np.arange(len(y))
        means = (before[0] * before[1] + np.concatenate([[0], np.cumsum(y)[:-1]])) / counts
        squares = before[2] + before[0] * before[1] ** 2 + np.concatenate([[0], np.cumsum(y**2)[:-1]])
        aims = np.clip((y - means) / np.sqrt(squares / counts - means**2), -6, 6)
        phi = features(learner, X)
        gram += phi.T @ phi
        moment += phi.T @ aims
    assert learner.events == 10_000_000
    exact = np.linalg.solve(gram, moment)
    assert (learner._experts[0].diagonal > 0.0).all()
    T = features(learner, rng.normal(size=(1000, 4)))
    np.testing.assert_allclose(T @ learner._experts[0].weights[0], T @ exact, atol=1e-4)
    found = covariance(learner._experts[0])
    truth = np.linalg.inv(gram)
    assert np.linalg.norm(found - truth) < 1e-5 * np.linalg.norm(truth), np.linalg.norm(
        found - truth
    ) / np.linalg.norm(truth)
