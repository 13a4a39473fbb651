import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamk.schedules import Growth, averaging_weight, regularization_at


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


def test_growth_opens_blocks_and_then_the_old_ones_again():
    growth = Growth("linear", period=10, size=64, most=200)
    opened = []
    for events in range(60):
        if growth.due(events):
            opened.append((events, growth.open(events), growth.columns.start // 64, growth.blocks))
    assert opened == [
        (0, True, 0, 1), (10, True, 1, 2), (20, True, 2, 3), (30, False, 0, 3), (40, False, 1, 3),
        (50, False, 2, 3),
    ]  # fmt: skip
    growth.open_again()
    assert growth.due(55)
    assert not growth.open(55)
    assert growth.columns == slice(128, 192)
    assert not growth.due(59)


def test_growth_that_is_late_opens_the_block_that_is_due():
    growth = Growth("sqrt", period=10, size=64, most=10_000)
    assert growth.open(0)
    assert growth.open(155)
    assert (growth.openings, growth.blocks, growth.columns.start) == (4, 4, 192)
    fixed = Growth("fixed", period=10, size=50, most=10_000)
    assert fixed.open(0)
    assert not fixed.due(1e15)
    assert fixed.columns == slice(0, 50)
