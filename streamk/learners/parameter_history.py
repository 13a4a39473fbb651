"""What a learner knew when it was asked, if labels come late.

The label of an event arrives ``delay`` events after it was asked for. By then experts have learned from its
neighbours, and say of it what they could not have said before; a combiner that learned from that would trust
them far too much. So it learns from what experts say with the coefficients of that time, and weighs its sets
of weights by what they said with the weights of that time.

Copies are taken every quarter of the delay, so what is used is between one delay and one and a half old. When
a block of features begins anew, what its experts said before is lost. Their old coefficients then say nothing
of use, and so the combiner waits until the new block has been seen to be right. With silence in
their place it would trust the new block like the old one (log loss on Elec2, delay 1,000: 0.57, and 0.50 so).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from streamk.arrays import AnyArray, Arrays, padded, unpacked, used_columns
from streamk.experts.expert import LARGEST_COEFFICIENT
from streamk.features.lanes import aligned

_PARTS = 4
Live = Sequence[AnyArray]


class ParameterHistory:
    """Copies of some arrays as they were ``delay`` events ago or a little earlier.

    Parameters
    ----------
    delay
        In events, at least 1.

    Attributes
    ----------
    period
        Events between two copies.
    arrays : list
        What the arrays were when the event that is learned next was asked for.
    """

    def __init__(self, delay: int) -> None:
        self.period = max(1, delay // _PARTS)
        self._count = -(-delay // self.period)
        self.arrays: list[AnyArray] = []
        self._copies: list[AnyArray] = []
        self._taken = 0

    def begin(self, live: Live, events: int) -> None:
        """Take arrays as what they have been for long, after so many events."""
        self.arrays = [_copy(array) for array in live]
        self._copies = [np.array([array] * self._count) for array in live]
        self._taken = events // self.period

    def grow(self, live: Live) -> None:
        """Resize the copies to match the live arrays, zero-padded."""
        if not self.arrays:
            self.begin(live, 0)
        for k, array in enumerate(live):
            if array.shape != self.arrays[k].shape:
                self.arrays[k] = _copy(padded(self.arrays[k], array.shape))
                self._copies[k] = padded(self._copies[k], (self._count, *array.shape))

    def until(self, events: float) -> float:
        """Return after how many more events copies are due."""
        return self.period - events % self.period

    def record(self, live: Live, events: int) -> None:
        """Copy the live arrays after so many events, if that is due and not done yet."""
        number, more = divmod(events, self.period)
        if more or number == self._taken:
            return
        self._taken, oldest = number, number % self._count
        for array, asked, copies in zip(live, self.arrays, self._copies, strict=True):
            asked[:] = copies[oldest]
            copies[oldest] = array

    def state_dict(self, live: Live) -> Arrays:
        """Return the arrays that a model file keeps: none if all is as it is now."""
        if all((asked == now).all() and (copies == now).all() for asked, copies, now in self._with(live)):
            return {}
        found: Arrays = {}
        for k, (asked, copies, _) in enumerate(self._with(live)):
            whole = np.concatenate([asked[None], copies])
            used = used_columns(whole)
            found |= {f"asked{k}.values": whole[..., used], f"asked{k}.used": used}
        return found

    def _with(self, live: Live) -> Iterator[tuple[AnyArray, AnyArray, AnyArray]]:
        return zip(self.arrays, self._copies, live, strict=True)

    def load_state_dict(self, arrays: Arrays, live: Live, events: int) -> None:
        """Take the arrays of a model file; without any, the live arrays."""
        self.begin(live, events)
        for k, now in enumerate(live if "asked0.values" in arrays else ()):
            like = np.empty((1 + self._count, *now.shape), dtype=now.dtype)
            whole = unpacked(arrays, f"asked{k}.values", f"asked{k}.used", like, "earlier coefficients")
            if not (abs(whole) <= LARGEST_COEFFICIENT).all():
                raise ValueError("its earlier coefficients are impossible")
            self.arrays[k][:], self._copies[k][:] = whole[0], whole[1:]


def _copy(array: AnyArray) -> AnyArray:
    return aligned(array) if array.dtype == np.float32 else array.copy()
