"""Calibrated probabilities: the combiner of classifiers.

The outputs of several experts are averaged first. With the squared loss and targets in {0, 1}, the output
``f_k`` estimates ``P(k|x)`` itself, so the probabilities are the Euclidean projection of ``f`` onto the
simplex (a softmax of a perfect (1, 0) would give 0.73). A finite sample makes ``f`` overconfident; the
projection ``s`` is therefore mixed with the uniform distribution, ``p = (1 − λ) s + λ/K``, and ``λ`` is
learned by online expectation maximisation: it is the share of recent events that the uniform part explains
better.

With the margin loss, outputs are scores, so ``p = softmax(e^θ f)`` with the inverse temperature ``e^θ``
learned by AdaGrad on the log loss.

Both calibrations have one or two numbers of state, learned from the prediction made *before* each event is
learned. Neither changes the order of the classes.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator

import numpy as np

from streamk.arrays import Array
from streamk.combining.combiner import Combiner, adapt, combine, mean_output, repeated, softmax
from streamk.compiling import both
from streamk.dispatch import implements
from streamk.encoding.codec import EVENTS, KNOWN
from streamk.losses import SQUARED
from streamk.state import FINITE, MEAN, Field

_HOTTEST = 10.0  # of an inverse temperature's logarithm
_LEAST_SHARE = 1e-6
_SLOWEST_RATE = 1e-3


@both()
def project_simplex(outputs, out):
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


Calibrating = namedtuple("Calibrating", "loss state")


class Calibration(Combiner):
    """Calibrated probabilities of the mean output.

    Parameters
    ----------
    loss
        The code of the loss that the experts have.
    """

    record_type = Calibrating

    def __init__(self, loss: int) -> None:
        self.loss = loss
        self.state: Array = np.array([0.5 if loss == SQUARED else 0.0, 0.0])

    def fields(self) -> Iterator[Field]:
        """Yield the state."""
        least = 0.0 if self.loss == SQUARED else -_HOTTEST
        bounds = (least, 0.0), (_HOTTEST, FINITE)
        yield Field("calibration", "calibration", *bounds, attribute="state", merge=MEAN)


@both()
def probabilities(loss, outputs, state, out):
    """Fill ``out`` (float64, ``K``) with the calibrated class probabilities of ``outputs``."""
    count = outputs.shape[0]
    if loss == SQUARED:
        project_simplex(outputs, out)
        for k in range(count):
            out[k] = (1.0 - state[0]) * out[k] + state[0] / count
        return
    inverse = np.exp(state[0])
    for k in range(count):
        out[k] = inverse * outputs[k]
    softmax(out)


@both()
def calibrate(loss, outputs, predicted, target, events, state, weight):
    """Learn the calibration from one event: ``predicted`` are its probabilities before learning."""
    count = outputs.shape[0]
    if count < 2:
        return
    if loss == SQUARED:
        explained = (state[0] / count) / predicted[target]
        rate = repeated(max(1.0 / (events + 2.0), _SLOWEST_RATE), weight)
        state[0] = min(max(state[0] + rate * (explained - state[0]), _LEAST_SHARE), 1.0)
        return
    expected = 0.0
    for k in range(count):
        expected += predicted[k] * outputs[k]
    gradient = np.exp(state[0]) * (expected - outputs[target])
    state[1] += weight * gradient * gradient
    if state[1] > 0.0:
        state[0] = min(max(state[0] - 0.5 * weight * gradient / np.sqrt(state[1]), -_HOTTEST), _HOTTEST)


@implements(combine, Calibrating)
def _combine(combiner, coding, outputs, scratch, out):
    out[:] = 0.0
    known = int(coding.counts[KNOWN])
    if known > 0:
        mean = scratch.value[0]
        mean_output(outputs, mean)
        probabilities(combiner.loss, mean[:known], combiner.state, out[:known])


@implements(adapt, Calibrating)
def _adapt(combiner, earlier, coding, outputs, scratch, combined, goal):
    target, weight = goal
    known = int(coding.counts[KNOWN])
    if target < known:
        events = coding.counts[EVENTS]
        mean = scratch.value[0][:known]
        calibrate(combiner.loss, mean, combined[:known], int(target), events, combiner.state, weight)
