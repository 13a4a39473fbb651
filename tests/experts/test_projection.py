"""Projections, event by event, against the same rule in plain NumPy and double precision."""

import numpy as np
import pytest
from numba import njit

from streamk.experts.expert import Observation, evaluate, step
from streamk.experts.projection import Projection
from streamk.losses import CODES

WIDTH, FIRST, COLUMNS, CLASSES = 192, 64, 64, 4


@njit
def teach(expert, phi, i, aim, known, weight):
    outputs = np.zeros((1, 2, expert.coefficients.shape[1]), dtype=np.float32)
    evaluate(expert, 0, phi, i, outputs)
    step(
        expert,
        0,
        Observation(phi, i, outputs, aim, known, weight, np.zeros(expert.coefficients.shape[1]), False),
    )


def squared(f, y):
    return np.eye(len(f))[y] - f, 1.0


def margin(f, y):
    rival = max((k for k in range(len(f)) if k != y), key=lambda k: f[k])
    way = np.eye(len(f))[y] - np.eye(len(f))[rival]
    return max(0.0, 1.0 - way @ f) * way, 2.0


def logistic(f, y):
    odds = np.exp(f[:, None] - f[None, :])  # of every class against every other
    return np.eye(len(f))[y] - 1.0 / odds.sum(axis=0), 1.0


LOSSES = {"squared": squared, "margin": margin, "logistic": logistic}


@pytest.mark.parametrize("gain", [1.0, 0.1])
@pytest.mark.parametrize("rho", [0.0, 0.5])
@pytest.mark.parametrize("loss", LOSSES)
def test_steps_are_those_of_the_formula(loss, rho, gain):
    rng = np.random.default_rng(3)
    made = Projection(CODES["class", loss], False, rho, None, slice(FIRST, FIRST + COLUMNS), gain)
    made.grow(CLASSES, WIDTH, WIDTH)
    rows = rng.normal(size=(300, WIDTH)).astype(np.float32)
    labels, weights = rng.integers(0, CLASSES, 300), rng.choice([0.5, 1.0, 3.0], 300)
    expected, known = np.zeros((CLASSES, COLUMNS)), 0
    for n, (row, y, weight) in enumerate(zip(rows, labels, weights, strict=True)):
        x, known = row[FIRST : FIRST + COLUMNS].astype(float), max(known, y + 1, 2)
        residual, length = LOSSES[loss](expected[:known] @ x, y)
        ridge = rho * (1.0 + n / 256) * COLUMNS / weight
        part = 1.0 - (1.0 - gain) ** weight  # of the way that so many steps go
        expected[:known] += np.outer(residual, x) / (length / part * x @ x + ridge)
        teach(made.record, np.stack([-row, row]), 1, float(y), known, weight)
    np.testing.assert_allclose(made.coefficients[0], expected, atol=2e-4)
    assert made.clock.tolist() == [300, 300]


def test_logistic_outputs_become_the_logits():
    """Classes are drawn from known logits, which small steps find."""
    rng = np.random.default_rng(4)
    made = Projection(CODES["class", "logistic"], False, 0.0, 0, gain=0.02)
    made.grow(2, 32, 32)
    true = np.zeros(32)
    true[:3] = 1.5, -1.0, 0.5
    for row in rng.normal(size=(20_000, 32)).astype(np.float32):
        y = rng.random() < 1.0 / (1.0 + np.exp(-row @ true))
        teach(made.record, row[None], 0, float(y), 2, 1.0)
    found = made.coefficients[0, 1] - made.coefficients[0, 0]
    np.testing.assert_allclose(found, true, atol=0.35)
