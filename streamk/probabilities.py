"""Honest probabilities from the outputs of a classifier, calibrated on the run.

**Squared loss.** With targets in {0, 1} the output ``f_k`` estimates ``P(k|x)`` itself, so the
probabilities are the Euclidean projection of ``f`` onto the simplex (a softmax of a perfect (1, 0)
would say 0.73). A finite sample makes ``f`` overconfident; the projection ``s`` is therefore mixed
with the uniform distribution, ``p = (1 − λ) s + λ/K``, and ``λ`` is learned by online expectation
maximisation: the share of the last events that the uniform part explains better.

**Margin loss.** Outputs are scores, so ``p = softmax(e^θ f)`` with the inverse temperature ``e^θ``
learned by AdaGrad on the log loss.

Both calibrations are one or two numbers of state per coefficient set, learned from the prediction made
*before* each event is learned. Neither changes the order of the classes.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from streamk.losses import SQUARED

STATE = 2  # numbers of state per coefficient set
_LEAST_SHARE = 1e-6
_SLOWEST_RATE = 1e-3


@njit(cache=True, error_model="numpy")
def project_simplex(outputs, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` with the closest point of the probability simplex (Michelot 1986).

    ``p_k = max(f_k − τ, 0)`` where ``τ`` makes the sum 1: start from all classes and drop those
    that fall to 0, until none does.
    """
    threshold = -np.inf
    while True:
        total, count = 0.0, 0
        for k in range(outputs.shape[0]):
            if outputs[k] > threshold:
                total += np.float64(outputs[k])
                count += 1
        if count == 0:
            break
        raised = (total - 1.0) / count
        if raised <= threshold:
            break
        threshold = raised
    for k in range(outputs.shape[0]):
        out[k] = max(np.float64(outputs[k]) - threshold, 0.0)


@njit(cache=True, error_model="numpy")
def initialise(loss, state):  # type: ignore[no-untyped-def]
    """Set the calibration state of one coefficient set: ``(λ, ·)`` or ``(θ, Σ gradient²)``."""
    state[0] = 0.5 if loss == SQUARED else 0.0
    state[1] = 0.0


@njit(cache=True, error_model="numpy")
def probabilities(loss, outputs, state, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` (float64, ``K``) with the calibrated class probabilities of ``outputs``."""
    count = outputs.shape[0]
    if loss == SQUARED:
        project_simplex(outputs, out)
        for k in range(count):
            out[k] = (1.0 - state[0]) * out[k] + state[0] / count
        return
    inverse = np.exp(state[0])
    highest = -np.inf
    for k in range(count):
        out[k] = inverse * outputs[k]
        highest = max(highest, out[k])
    total = 0.0
    for k in range(count):
        out[k] = np.exp(out[k] - highest)
        total += out[k]
    for k in range(count):
        out[k] /= total


@njit(cache=True, error_model="numpy")
def calibrate(loss, outputs, given, target, events, state):  # type: ignore[no-untyped-def]
    """Learn the calibration from one event: ``given`` are its probabilities before learning."""
    count = outputs.shape[0]
    if count < 2:
        return
    if loss == SQUARED:
        explained = (state[0] / count) / given[target]
        rate = max(1.0 / (events + 2.0), _SLOWEST_RATE)
        state[0] = min(max(state[0] + rate * (explained - state[0]), _LEAST_SHARE), 1.0)
        return
    expected = 0.0
    for k in range(count):
        expected += given[k] * outputs[k]
    gradient = np.exp(state[0]) * (expected - outputs[target])
    state[1] += gradient * gradient
    if state[1] > 0.0:
        state[0] = min(max(state[0] - 0.5 * gradient / np.sqrt(state[1]), -10.0), 10.0)
