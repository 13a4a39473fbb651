import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamk.schedules import averaging_weight, regularization_at


def test_regularization():
    assert regularization_at(0.5, math.inf, 0.0) == 0.5
    assert regularization_at(0.5, math.inf, 512.0) == 1.5
    assert regularization_at(0.5, 256.0, 10_000.0) == 1.0
    assert regularization_at(0.5, 0.0, 10_000.0) == 0.5


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=40))
def test_averaging_is_polynomial_decay(iterates):
    """The recurrence has the weights ``∏ (1 − w_s) w_t`` of Shamir and Zhang: t³-like, summing to 1."""
    mean = 0.0
    weights = np.zeros(len(iterates))
    for t, iterate in enumerate(iterates, 1):
        w = averaging_weight(float(t))
        mean += w * (iterate - mean)
        weights *= 1.0 - w
        weights[t - 1] = w
    t = np.arange(1, len(iterates) + 1)
    exact = t * (t + 1) * (t + 2)
    np.testing.assert_allclose(weights, exact / exact.sum(), atol=1e-12)
    np.testing.assert_allclose(mean, weights @ iterates, atol=1e-9)
