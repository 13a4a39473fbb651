"""The mean of the experts' numbers: the combiner of regressors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
from numba.extending import overload

from streamk.arrays import Arrays
from streamk.combining.combiner import adapt, combine, limit, mean_output
from streamk.compiling import INNER
from streamk.encoding.codec import decode
from streamk.handles import Handle, make_handle


class Averaging(NamedTuple):
    """The combiner as compiled code sees it."""

    experts: int


class Mean:
    """The mean of the experts' numbers, in the units of the target."""

    def __init__(self, experts: int) -> None:
        self.record = Averaging(experts)

    def scratch(self, most: int) -> Handle:
        """Return a handle of scratch arrays for at most so many outputs."""
        return make_handle((np.empty(most, dtype=np.float32),))

    def merge_from(
        self, others: Sequence[Self], shares: Sequence[float], counts: Sequence[float] | None = None
    ) -> None:
        """Become the merge of several; there is nothing to merge."""

    def state_dict(self) -> Arrays:
        """Return the arrays to store in a model file."""
        return {}

    def load_state_dict(self, arrays: Arrays) -> None:
        """Load the arrays of a model file."""


@overload(combine, jit_options=INNER)
def _combine(combiner, coding, outputs, scratch, out):
    if combiner.instance_class is not Averaging:
        return None

    def average(combiner, coding, outputs, scratch, out):
        mean = scratch.value[0]
        mean_output(outputs, mean)
        out[0] = decode(coding, mean[0])

    return average


@overload(adapt, jit_options=INNER)
def _adapt(combiner, earlier, coding, outputs, scratch, given, target, weight):
    if combiner.instance_class is not Averaging:
        return None
    return lambda combiner, earlier, coding, outputs, scratch, given, target, weight: None


@overload(limit, jit_options=INNER)
def _limit(combiner, coding, given, target):
    if combiner.instance_class is not Averaging:
        return None
    return lambda combiner, coding, given, target: target
