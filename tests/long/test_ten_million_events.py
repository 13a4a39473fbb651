"""Ten million events: recursive least squares is still the exact solution (a minute; ``make long``)."""

import numpy as np
import pytest

import streamk

from ..learners.test_kaczmarz import NAMES, features

pytestmark = pytest.mark.long


def test_recursive_least_squares_after_ten_million_events():
    learner = streamk.MatchingPursuitRegressor(
        growth="fixed", features=64, bandwidth=0.7, scale_inputs=False, scale_target=False, seed=3
    )
    rng = np.random.default_rng(0)
    gram, moment = 64.0 * np.eye(64), np.zeros(64)
    for _ in range(100):
        X = rng.normal(size=(100_000, 4))
        y = np.sign(X[:, 0] * X[:, 1]) * (1.0 + 0.1 * X[:, 2])
        learner.learn_many(X, y, names=NAMES)
        phi = features(learner, X)
        gram += phi.T @ phi
        moment += phi.T @ y
    assert learner.events == 10_000_000
    exact, expert = np.linalg.solve(gram, moment), learner._experts[0]
    assert (expert.diagonal > 0.0).all()
    T = features(learner, rng.normal(size=(1000, 4)))
    np.testing.assert_allclose(T @ expert.weights[0], T @ exact, atol=1e-4)
    gap = np.linalg.norm(expert.information - gram) / np.linalg.norm(gram)
    assert gap < 1e-5, gap
