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

from collections.abc import Sequence
from typing import Any

import numpy as np

from streamk.arrays import AnyArray, Arrays
from streamk.encoding.rows import typed
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
        """Make room as in the arrays of now; what is new was 0."""
        if not self.arrays:
            self.begin(live, 0)
        for k, array in enumerate(live):
            if array.shape != self.arrays[k].shape:
                room = [
                    (0, now - before) for now, before in zip(array.shape, self.arrays[k].shape, strict=True)
                ]
                self.arrays[k] = _copy(np.pad(self.arrays[k], room))
                self._copies[k] = np.pad(self._copies[k], [(0, 0), *room])

    def until(self, events: float) -> float:
        """Return after how many more events copies are due."""
        return self.period - events % self.period

    def keep_alive(self, live: Live, events: int) -> None:
        """Copy the arrays of now if that is due and has not been done, after so many events."""
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
            used = np.flatnonzero(whole.any(axis=tuple(range(whole.ndim - 1)))).astype(np.int32)
            found |= {f"asked{k}.values": whole[..., used], f"asked{k}.used": used}
        return found

    def _with(self, live: Live) -> Any:
        return zip(self.arrays, self._copies, live, strict=True)

    def load_state_dict(self, arrays: Arrays, live: Live, events: int) -> None:
        """Take over the arrays of a model file, if they are possible; of none, what the arrays are now."""
        self.begin(live, events)
        for k, now in enumerate(live if "asked0.values" in arrays else ()):
            used = typed(arrays, f"asked{k}.used", np.int32, arrays[f"asked{k}.used"].shape[:1])
            if not (np.diff(used, prepend=-1) > 0).all() or not (used < now.shape[-1]).all():
                raise ValueError("its columns of earlier coefficients are impossible")
            shape = (1 + self._count, *now.shape[:-1], len(used))
            whole = typed(arrays, f"asked{k}.values", now.dtype.type, shape)
            if not (abs(whole) <= LARGEST_COEFFICIENT).all():
                raise ValueError("its earlier coefficients are impossible")
            self.arrays[k][:], self._copies[k][:] = 0.0, 0.0
            self.arrays[k][..., used], self._copies[k][..., used] = whole[0], whole[1:]


def _copy(array: AnyArray) -> AnyArray:
    return aligned(array) if array.dtype == np.float32 else array.copy()
