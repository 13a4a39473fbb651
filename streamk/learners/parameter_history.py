"""Earlier parameters of a learner, for labels that come late.

The label of an event arrives ``delay`` events after its prediction. By then the experts have learned from the
events around it, and predict it better than they could at request time; a combiner that learned from these
outputs would give the experts far too much weight. So the combiner learns from outputs computed with earlier
coefficients, and updates the shares of its sets of weights by predictions with earlier weights.

Coefficients and weights are copied every quarter of the delay, so those used are between one delay and one
and a half old. When a block of features restarts, its earlier outputs are lost: the copied coefficients
belong to other features and predict nothing useful. The combiner therefore trusts the new block only after
the block has predicted well. With zeros in place of the copies, the combiner would trust the new block like
the old one (log loss on Elec2 with a delay of 1,000: 0.57 instead of 0.50).
"""

from __future__ import annotations

import numpy as np

from streamk.arrays import AnyArray, Arrays, padded
from streamk.state import Field, Live
from streamk.vector.lanes import aligned

_PARTS = 4


class ParameterHistory:
    """Copies of arrays, ``delay`` events old or a little older.

    Parameters
    ----------
    delay
        In events, at least 1.

    Attributes
    ----------
    period
        Events between two copies.
    arrays : list
        The arrays at the time when the event that is learned next was predicted.
    """

    def __init__(self, delay: int) -> None:
        self.period = max(1, delay // _PARTS)
        self._count = -(-delay // self.period)
        self.arrays: list[AnyArray] = []
        self._copies: list[AnyArray] = []
        self._taken = 0

    def begin(self, live: Live, events: int) -> None:
        """Fill all copies with the live arrays, after so many events."""
        self.arrays = [_copy(array) for _, array in live]
        self._copies = [np.array([array] * self._count) for _, array in live]
        self._taken = events // self.period

    def grow(self, live: Live) -> None:
        """Resize the copies to match the live arrays, zero-padded."""
        if not self.arrays:
            self.begin(live, 0)
        for k, (_, array) in enumerate(live):
            if array.shape != self.arrays[k].shape:
                self.arrays[k] = _copy(padded(self.arrays[k], array.shape))
                self._copies[k] = padded(self._copies[k], (self._count, *array.shape))

    def until(self, events: float) -> float:
        """Return the number of events until copies are due."""
        return self.period - events % self.period

    def record(self, live: Live, events: int) -> None:
        """Copy the live arrays after so many events, if a copy is due and not taken yet."""
        number, more = divmod(events, self.period)
        if more or number == self._taken:
            return
        self._taken, oldest = number, number % self._count
        for (_, array), earlier, copies in zip(live, self.arrays, self._copies, strict=True):
            earlier[:] = copies[oldest]
            copies[oldest] = array

    def state_dict(self, live: Live) -> Arrays:
        """Return the arrays to store in a model file: none if all copies equal the live arrays."""
        pairs = list(zip(self.arrays, self._copies, live, strict=True))
        if all((earlier == now).all() and (copies == now).all() for earlier, copies, (_, now) in pairs):
            return {}
        arrays: Arrays = {}
        for field, (earlier, copies, _) in zip(_fields(live), pairs, strict=True):
            arrays |= field.stored(np.concatenate([earlier[None], copies]))
        return arrays

    def load_state_dict(self, arrays: Arrays, live: Live, events: int) -> None:
        """Load the arrays of a model file; without any, copy the live arrays."""
        self.begin(live, events)
        for k, field in enumerate(_fields(live) if "asked0.values" in arrays else ()):
            whole = np.concatenate([self.arrays[k][None], self._copies[k]])
            field.load(arrays, whole)
            self.arrays[k][:], self._copies[k][:] = whole[0], whole[1:]


def _fields(live: Live) -> list[Field]:
    return [field.copied(f"asked{k}.values", f"asked{k}.used") for k, (field, _) in enumerate(live)]


def _copy(array: AnyArray) -> AnyArray:
    return aligned(array) if array.dtype == np.float32 else array.copy()
