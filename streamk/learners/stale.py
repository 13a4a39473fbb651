"""Stale experts: weights and intervals for predictions while no labels come.

A combiner's weights suit experts that have just learned the previous event. Where no labels come, the
experts no longer change, the label memory is out of date, and those weights are wrong: on the last quarter of
Elec2 log loss was 4.4. So a second combiner learns weights for *stale* experts. Their coefficients are copied
after 64, 128, 256, 512 events, and then after every 1,024; at one event in 16, drawn at random, the second
combiner learns from the outputs of the copies, with the label memory at its running mean. Two of its sets of
weights start equal; the third is set to the weights of the first combiner at every copy. It has separate
intervals, as wide as the errors of the copies.

Errors of stale experts resemble each other while a level persists, so that many events say little about the
next thousands. A squared weight costs 5,000 events (of numbers 200), so that weights stay near equal ones for
many events. At first half of the shares of numbers belong to sets of weights, and a tenth to the mean target;
and where labels come late, they move by the power 0.3.

Where numbers come late, and many at once, shares move by the power 0.08, and one set of weights is *patient*:
it has no share, but a part that is learned from all events since (:mod:`streamk.combining.stacking`). The
weights of many experts are uncertain after few events, so one event in four is learned, as a quarter of an
event. When that begins, all weights start again: what they learned of raw experts is wrong later.

Experts also become stale while events have no label. If ``a > 16`` events have come since the last label, the
prediction is ``f + (1 − 16/a)(g − f)``: ``f`` of the first combiner and ``g`` of the second, both with the
present experts. After 16 events the two have equal errors on Elec2. From 256 on, it is ``g``. The rows of one
call of ``predict_many`` are events without a label, too; and if labels come late
(:mod:`streamk.learners.rehearsal`), ``a`` is at least that.

Labels that come one by one, each at least 64 events late, say how good both combiners are at that distance:
the first one learns from outputs at the time of the prediction (:mod:`streamk.learners.waiting`), and the
second from copies. The prediction is then ``f + α (g − f)``. With the target ``y`` of standardised numbers,
or of one for the class and zero for others, ``α`` in [0, 1] is that of least squares over about the last
1,000 labels, to which 30 events are added that say one half::

    α = (Σ (g − f)·(y − f) + 15 m) / (Σ |g − f|² + 30 m),   where m is the mean of |g − f|²

When a block of features restarts, its copied coefficients belong to other features, and the second combiner
waits for the next copies.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numba import njit
from numpy.typing import NDArray

from streamk.arrays import AnyArray, Array, Arrays, Integers, padded, typed
from streamk.combining.combiner import part_of
from streamk.combining.stacking import Stacking
from streamk.compiling import INNER
from streamk.encoding.scaling import WIDE_CLIP
from streamk.features.counter import mix64
from streamk.state import Field, Live
from streamk.vector.lanes import aligned

FIRST, PERIOD, RARELY = 64.0, 1024.0, 16
_OFTEN = 4  # one number in so many is learned where many labels come late at once
_SPANS = np.inf, 100.0, np.inf  # events, of those it learns, that a set of weights remembers
_PENALTY_OF_CLASSES, _PENALTY_OF_NUMBERS = 5000.0, 200.0  # of a squared weight, in units of one event
_FOLLOWED = 0.01  # initial share of the set that copies the first combiner's weights
_OF_SETS, _OF_MEAN = 0.5, 0.1  # initial shares of numbers
_PACE, _PACE_OF_PARTS = 0.3, 0.08  # of shares of numbers, where labels come late; many at once
_SETTLED = 80  # by which steps of intervals are shortened, as if labels came so late
TRUSTED = 16.0  # events without a label before predictions change
_SURE = 256  # events without a label after which predictions are those of this combiner alone
_UNKNOWN = -1.0
_REMEMBERED, _BEFORE = 0.999, 30.0  # of the sums of an event's label; events that say one half


class StaleExperts:
    """Copies of coefficients, and the combiner of their outputs.

    Parameters
    ----------
    experts, classes, logits, saturated
        As for :class:`streamk.combining.stacking.Stacking`.

    Attributes
    ----------
    combiner
        The combiner with weights for stale experts.
    arrays : list
        The coefficients at the last copy.
    since
        The event count at the last copy, −1 while there is no usable copy.
    passed
        The number of events without a label since an event was learned: see :meth:`unlabelled`.
    sums
        Of products, of squares, and of labels, for :attr:`part`.
    """

    def __init__(
        self, experts: int, classes: bool, logits: Sequence[bool], saturated: Sequence[Sequence[int]] = ()
    ) -> None:
        penalty = _PENALTY_OF_CLASSES if classes else _PENALTY_OF_NUMBERS
        self.combiner = Stacking(
            experts, classes, logits, _SPANS, _SETTLED, penalty, saturated, may_be_patient=not classes
        )
        if classes:
            self.combiner.shares[:] = *[(1.0 - _FOLLOWED) / 2.0] * 2, _FOLLOWED
        else:
            self.combiner.start_shares(_OF_SETS, _OF_MEAN)
        self.combiner.level_shift.patience = np.inf
        self.arrays: list[AnyArray] = []
        self.since = _UNKNOWN
        self.passed = self._at = 0
        self.sums: Array = np.zeros(3)

    def set_late(self, late: bool, in_parts: bool) -> None:
        """Set whether labels come late, and many at once; the record of the combiner of numbers changes."""
        if not self.combiner.classes:
            self.combiner.pace = _PACE_OF_PARTS if in_parts else _PACE if late else 1.0
            self.combiner.patient = in_parts

    def begin_parts(self) -> None:
        """Start weights of numbers again when labels first come late, and many at once."""
        if self.combiner.patient and not self.combiner.compared.any():
            self.combiner.restart()

    @property
    def rarely(self) -> int:
        """One event in so many is learned; 0 for none."""
        return 0 if self.since < 0.0 else _OFTEN if self.combiner.patient else RARELY

    @contextmanager
    def alone(self, events: int) -> Iterator[None]:
        """Return a context in which predictions are those of this combiner alone."""
        before = self.passed, self._at
        self.count_unlabelled(_SURE, events)
        try:
            yield
        finally:
            self.passed, self._at = before

    def unlabelled(self, events: int) -> int:
        """Return the number of events without a label since the last of ``events`` learned ones."""
        return self.passed if self._at == events else 0

    def count_unlabelled(self, count: int, events: int) -> None:
        """Set the number of events without a label since the last of ``events`` learned ones."""
        self.passed, self._at = count, events

    @property
    def part(self) -> float:
        """The share of this combiner where labels come one by one, and late."""
        return part_of(self.sums, 0.5, _BEFORE)

    def label_of(self, answers: Array, target: Array) -> None:
        """Compare the target ``(K,)`` of an event with the predictions ``(2, K)`` of both combiners."""
        difference = answers[1] - answers[0]
        error = (target - answers[0]).clip(-WIDE_CLIP, WIDE_CLIP)
        self.sums *= _REMEMBERED
        self.sums += float((difference * error).sum()), float((difference**2).sum()), 1.0

    def share(self, unlabelled: int | Integers) -> Array:
        """Return the share of this combiner in a prediction, after so many events without a label."""
        if not self.combiner.has_learned:
            return np.zeros(np.shape(unlabelled))
        return np.where(unlabelled < _SURE, 1.0 - TRUSTED / np.maximum(unlabelled, TRUSTED), 1.0)

    def until(self, events: float) -> float:
        """Return the number of events until copies are due."""
        period = _period(events)
        return period - events % period

    def grow(self, live: Live) -> None:
        """Resize the copies to match the live arrays, zero-padded."""
        if not self.arrays:
            self.arrays = [aligned(array.copy()) for _, array in live]
        for k, (_, array) in enumerate(live):
            if array.shape != self.arrays[k].shape:
                self.arrays[k] = aligned(padded(self.arrays[k], array.shape))

    def forget(self) -> None:
        """Wait for the next copies: a block of features has started again."""
        self.since = _UNKNOWN

    def is_due(self, events: int) -> bool:
        """Return whether coefficients should be copied after so many events."""
        return not events % _period(events) and events != self.since

    def copy(self, live: Live, combiner: Stacking, events: int) -> bool:
        """Copy coefficients; return whether ``rarely`` has changed."""
        if not self.combiner.has_learned:
            self.combiner.start_intervals(combiner)
        self.combiner.follow_weights(combiner)
        for copied, (_, array) in zip(self.arrays, live, strict=True):
            copied[:] = array
        waited, self.since = self.since < 0.0, float(events)
        return waited

    def state_dict(self, live: Live, events: int, closed: bool = False) -> Arrays:
        """Return the arrays of a model file: none before the first copies, and no copies if ``closed``."""
        unlabelled = self.unlabelled(events)
        waiting = {"stale.unlabelled": np.array([unlabelled])} if unlabelled else {}
        waiting |= {"stale.sums": self.sums.copy()} if self.sums.any() else {}
        if not self.combiner.has_learned and self.since < 0.0:
            return waiting
        arrays = waiting | {f"stale.{name}": array for name, array in self.combiner.state_dict().items()}
        arrays["stale.since"] = np.array([self.since])
        if self.since >= 0.0 and not closed:
            for field, array, (_, now) in zip(copied_fields(live), self.arrays, live, strict=True):
                arrays |= field.stored(array, now if field.by_row else None)
        return arrays

    def load_state_dict(self, arrays: Arrays, live: Live, events: int, closed: bool = False) -> None:
        """Load the arrays of a model file, without the copies if ``closed``; a ValueError if impossible."""
        self.arrays = []
        self.grow(live)
        if "stale.unlabelled" in arrays:
            count = int(typed(arrays, "stale.unlabelled", np.int64, (1,))[0])
            if count <= 0:
                raise ValueError("its count of events without a label is impossible")
            self.count_unlabelled(count, events)
        if "stale.sums" in arrays:
            self.sums[:] = typed(arrays, "stale.sums", np.float64, (3,))
            if not (np.isfinite(self.sums).all() and min(self.sums[1:]) >= 0.0):
                raise ValueError("its comparison of late predictions is impossible")
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
        if closed:
            self.since = _UNKNOWN
        if self.since >= 0.0:
            for field, array, (_, now) in zip(copied_fields(live), self.arrays, live, strict=True):
                field.load(arrays, array, now if field.by_row else None)


def copied_fields(live: Live) -> list[Field]:
    """Return the fields of copies of live arrays."""
    return [field.copied(f"stale.values{k}", f"stale.used{k}") for k, (field, _) in enumerate(live)]


def _period(events: float) -> float:
    """Return the number of events between copies: the largest power of two so far, from 64 to 1,024."""
    return min(max(2.0 ** math.floor(math.log2(max(events, 1.0))), FIRST), PERIOD)


def unlabelled_before(unlabelled: NDArray[np.bool_], learned: NDArray[np.bool_], count: int) -> Integers:
    """Return how many events without a label came since the last learned one, before each row and at the end.

    ``count`` is the number before the first row; for ``n`` rows the result has ``n + 1`` numbers.
    """
    counts = count + np.concatenate([[0], np.cumsum(unlabelled)])
    at_last = np.maximum.accumulate(np.concatenate([[0], np.where(learned, counts[1:], 0)]))
    return counts - at_last


@njit(**INNER)
def is_drawn(rarely, events):
    """Return whether the event that follows so many is one in ``rarely``, at random; never if that is 0.

    Of the first 2,048 events it is one in as many as there are 128 before.
    """
    among = np.uint64(max(min(rarely, int(events) // 128), 1))
    return rarely > 0 and mix64(np.uint64(int(events)) ^ np.uint64(0x7374616C65)) % among == np.uint64(0)
