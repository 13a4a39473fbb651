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

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
from numba.extending import overload

from streamk.arrays import Array, Arrays, typed
from streamk.combining.combiner import adapt, combine, limit, mean_output, softmax
from streamk.combining.weighing import repeated
from streamk.compiling import INNER, both
from streamk.encoding.codec import EVENTS, KNOWN
from streamk.handles import Handle, make_handle
from streamk.losses import SQUARED

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


class Calibrating(NamedTuple):
    """The combiner as compiled code sees it: a loss, and ``(λ, ·)`` or ``(θ, Σ gradient²)``."""

    loss: int
    state: Array


class Calibration:
    """Calibrated probabilities of the mean output.

    Parameters
    ----------
    loss
        The code of the loss that the experts have.
    """

    def __init__(self, loss: int) -> None:
        self.loss = loss
        self.state: Array = np.array([0.5 if loss == SQUARED else 0.0, 0.0])

    @property
    def record(self) -> Calibrating:
        """The combiner as compiled code sees it."""
        return Calibrating(self.loss, self.state)

    def scratch(self, most: int) -> Handle:
        """Return a handle of scratch arrays for at most so many outputs."""
        return make_handle((np.empty(most, dtype=np.float32),))

    def merge_from(
        self, others: Sequence[Self], shares: Sequence[float], counts: Sequence[float] | None = None
    ) -> None:
        """Become the merge of several: the weighted mean."""
        self.state[:] = sum(share * other.state for share, other in zip(shares, others, strict=True))

    def state_dict(self) -> Arrays:
        """Return the arrays to store in a model file."""
        return {"calibration": self.state}

    def load_state_dict(self, arrays: Arrays) -> None:
        """Load the arrays of a model file; raise a ValueError if they are impossible."""
        state = typed(arrays, "calibration", np.float64, (2,))
        least = 0.0 if self.loss == SQUARED else -_HOTTEST
        if not (least <= state[0] <= _HOTTEST and 0.0 <= state[1] < np.inf):
            raise ValueError("its calibration is impossible")
        self.state = state.copy()


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
def calibrate(loss, outputs, given, target, events, state, weight):
    """Learn the calibration from one event: ``given`` are its probabilities before learning."""
    count = outputs.shape[0]
    if count < 2:
        return
    if loss == SQUARED:
        explained = (state[0] / count) / given[target]
        rate = repeated(max(1.0 / (events + 2.0), _SLOWEST_RATE), weight)
        state[0] = min(max(state[0] + rate * (explained - state[0]), _LEAST_SHARE), 1.0)
        return
    expected = 0.0
    for k in range(count):
        expected += given[k] * outputs[k]
    gradient = np.exp(state[0]) * (expected - outputs[target])
    state[1] += weight * gradient * gradient
    if state[1] > 0.0:
        state[0] = min(max(state[0] - 0.5 * weight * gradient / np.sqrt(state[1]), -_HOTTEST), _HOTTEST)


@overload(combine, jit_options=INNER)
def _combine(combiner, coding, outputs, scratch, out):
    if combiner.instance_class is not Calibrating:
        return None

    def calibrated(combiner, coding, outputs, scratch, out):
        out[:] = 0.0
        known = int(coding.counts[KNOWN])
        if known > 0:
            mean = scratch.value[0]
            mean_output(outputs, mean)
            probabilities(combiner.loss, mean[:known], combiner.state, out[:known])

    return calibrated


@overload(adapt, jit_options=INNER)
def _adapt(combiner, earlier, coding, outputs, scratch, given, target, weight):
    if combiner.instance_class is not Calibrating:
        return None

    def learn(combiner, earlier, coding, outputs, scratch, given, target, weight):
        known = int(coding.counts[KNOWN])
        if target < known:
            events = coding.counts[EVENTS]
            mean = scratch.value[0][:known]
            calibrate(combiner.loss, mean, given[:known], int(target), events, combiner.state, weight)

    return learn


@overload(limit, jit_options=INNER)
def _limit(combiner, coding, given, target):
    if combiner.instance_class is not Calibrating:
        return None
    return lambda combiner, coding, given, target: target
