"""Predictions without new labels: how far experts that have stopped learning can be trusted.

The weights of a combiner are those of experts that have just learned the event before. Where no labels come,
the experts stand still, the label memory says nothing, and those weights are wrong: on the last quarter of
Elec2 log loss was 4.4. So a second combiner learns what to expect of experts that stand still. After 64,
128, 256, 512 events, and then after every 1,024, their coefficients are copied; at one event in 16, drawn at
random, it learns from what the copies predict, with the label memory at its running mean. Two of its sets of
weights begin as equal ones; the third takes the weights of the first combiner with every copy. It has
intervals of its own, which are as wide as the errors of the copies.

Events that have no label make experts stand still, too. While ``a`` of them, more than 16, have come since
the last label, a prediction is ``f + (1 − 16/a)(g − f)``: ``f`` of the first combiner, ``g`` of the second,
with the experts as they are. After so many events the two err alike on Elec2.

When a block of features starts again, its copied coefficients mean nothing any more, and the second combiner
waits for the next copies.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numba import njit
from numpy.typing import NDArray

from streamk.arrays import AnyArray, Array, Arrays, Integers, padded, typed, unpacked, used_columns
from streamk.combining.stacking import Stacking
from streamk.compiling import INNER
from streamk.experts.expert import LARGEST_COEFFICIENT
from streamk.features.counter import mix64
from streamk.features.lanes import aligned

FIRST, PERIOD, RARELY = 64.0, 1024.0, 16
_SPANS = np.inf, 100.0, np.inf  # events, of those it learns, that a set of weights remembers
_PENALTY = 100.0  # of a squared weight: few events are learned, and they resemble each other
_FOLLOWED = 0.01  # share that the weights for fresh labels begin with
_SETTLED = 80  # by which steps of intervals are shortened, as if labels came so late
_TRUSTED = 16.0  # events without a label before predictions change
_UNKNOWN = -1.0
Live = Sequence[AnyArray]


class StaleExperts:
    """Copies of coefficients, and the combiner of what they predict.

    Parameters
    ----------
    experts, classes, logits
        As for :class:`streamk.combining.stacking.Stacking`.

    Attributes
    ----------
    combiner
        Its weights are those for experts that stand still.
    arrays : list
        Coefficients as they were when they were copied last.
    since
        The event count at that moment, −1 while there are no copies of use.
    """

    def __init__(self, experts: int, classes: bool, logits: Sequence[bool]) -> None:
        self.combiner = Stacking(experts, classes, 0, logits, _SPANS, _SETTLED, _PENALTY)
        if classes:
            self.combiner.shares[:] = *[(1.0 - _FOLLOWED) / 2.0] * 2, _FOLLOWED
        self.combiner.level_shift.patience = np.inf
        self.arrays: list[AnyArray] = []
        self.since = _UNKNOWN
        self._unlabelled = self._at = 0

    @property
    def rarely(self) -> int:
        """One event in so many is learned; 0 for none."""
        return RARELY if self.since >= 0.0 else 0

    def unlabelled(self, events: int) -> int:
        """Return how many events without a label came after the last of so many that were learned."""
        return self._unlabelled if self._at == events else 0

    def count_unlabelled(self, count: int, events: int) -> None:
        """Let ``count`` events without a label have come after the last of so many that were learned."""
        self._unlabelled, self._at = count, events

    def share(self, unlabelled: int | Integers) -> Array:
        """Return the part of a prediction that is this combiner's, after so many events without a label."""
        trusted = not self.combiner.has_learned
        return np.where(trusted, 0.0, 1.0 - _TRUSTED / np.maximum(unlabelled, _TRUSTED))

    def until(self, events: float) -> float:
        """Return after how many more events copies are due."""
        period = _period(events)
        return period - events % period

    def grow(self, live: Live) -> None:
        """Resize the copies to match the live arrays, zero-padded."""
        if not self.arrays:
            self.arrays = [aligned(array.copy()) for array in live]
        for k, array in enumerate(live):
            if array.shape != self.arrays[k].shape:
                self.arrays[k] = aligned(padded(self.arrays[k], array.shape))

    def forget(self) -> None:
        """Wait for the next copies: a block of features has started again."""
        self.since = _UNKNOWN

    def copy(self, live: Live, combiner: Stacking, events: int) -> bool:
        """Copy coefficients if that is due; return whether ``rarely`` has changed."""
        if events % _period(events) or events == self.since:
            return False
        if not self.combiner.has_learned:
            self.combiner.start_intervals(combiner)
        self.combiner.follow_weights(combiner)
        for copied, array in zip(self.arrays, live, strict=True):
            copied[:] = array
        waited, self.since = self.since < 0.0, float(events)
        return waited

    def state_dict(self, events: int) -> Arrays:
        """Return the arrays that a model file keeps; none before the first copies."""
        unlabelled = self.unlabelled(events)
        waiting = {"stale.unlabelled": np.array([unlabelled])} if unlabelled else {}
        if not self.combiner.has_learned and self.since < 0.0:
            return waiting
        found = waiting | {f"stale.{name}": array for name, array in self.combiner.state_dict().items()}
        found["stale.since"] = np.array([self.since])
        if self.since >= 0.0:
            for k, array in enumerate(self.arrays):
                used = used_columns(array)
                found |= {f"stale.values{k}": array[..., used], f"stale.used{k}": used}
        return found

    def load_state_dict(self, arrays: Arrays, live: Live, events: int) -> None:
        """Take over the arrays of a model file, if they are possible."""
        self.arrays = []
        self.grow(live)
        if "stale.unlabelled" in arrays:
            count = int(typed(arrays, "stale.unlabelled", np.int64, (1,))[0])
            if count <= 0:
                raise ValueError("its count of events without a label is impossible")
            self.count_unlabelled(count, events)
        if "stale.since" not in arrays:
            return
        kept = {n.removeprefix("stale."): a for n, a in arrays.items() if n.startswith("stale.")}
        self.combiner.load_state_dict(kept)
        self.since = float(typed(arrays, "stale.since", np.float64, (1,))[0])
        if not (
            self.since == _UNKNOWN
            or (0.0 <= self.since <= events and self.since % _period(self.since) == 0.0)
        ):
            raise ValueError("the age of its copies is impossible")
        for k, now in enumerate(live if self.since >= 0.0 else ()):
            whole = unpacked(arrays, f"stale.values{k}", f"stale.used{k}", now, "copied coefficients")
            if not (abs(whole) <= LARGEST_COEFFICIENT).all():
                raise ValueError("its copied coefficients are impossible")
            self.arrays[k][:] = whole


def _period(events: float) -> float:
    """Return how many events lie between copies: of early ones as many as came before, at least 64."""
    return min(max(2.0 ** math.floor(math.log2(max(events, 1.0))), FIRST), PERIOD)


def unlabelled_before(unlabelled: NDArray[np.bool_], learned: NDArray[np.bool_], count: int) -> Integers:
    """Return for ``n`` rows, and after them, how many events without a label came since the last learned.

    ``count`` is that before the first, and the result has ``n + 1`` numbers.
    """
    counts = count + np.concatenate([[0], np.cumsum(unlabelled)])
    at_last = np.maximum.accumulate(np.concatenate([[0], np.where(learned, counts[1:], 0)]))
    return counts - at_last


@njit(**INNER)
def is_drawn(rarely, events):
    """Return whether the event that follows so many is one in ``rarely``, at random; never if that is 0."""
    return rarely > 0 and mix64(np.uint64(int(events)) ^ np.uint64(0x7374616C65)) % np.uint64(rarely) == 0
