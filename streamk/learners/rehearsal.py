"""Rehearsal: where labels come late, experts learn earlier events again.

Experts that follow the last events suit the next one, and not one long after. Where labels come late, each
learned event is therefore followed by an earlier one, drawn at random from a uniform sample of those so far.
Experts learn it again (Robins 1995), and so does the combiner of stale experts for one in 16. Scales,
relevance, the weights of experts for the next event and counts do not change by it. The label memory is at
its running mean for both.

Dates, counters and other inputs that never repeat would hold what the other inputs should, and carry
predictions beyond what was learned. So values of categories that were not known when the event was predicted
are skipped, and predictions use the mean of time-like numbers (:mod:`streamk.learners.time_like`).

How late labels come is seen at the labels: it is the number of events that were predicted since the label
before. If it was at least 64 at two labels that followed predictions, one after the other, labels come late,
until one comes sooner. Labels that follow each other without a prediction between them say nothing. A single
look at a test set between two parts of a stream therefore changes nothing that is learned.

Labels may also come one by one, each long after its event. This is seen if events wait for their labels
(:mod:`streamk.learners.waiting`): a label is as late as many events were predicted after its event. If eight
in a row were more than half as late again as they usually are, the least of them is the usual one; if eight
were less than two thirds as late, the most. If that is at least 64, earlier events are learned again.

Labels come in *parts* if 256 events or more were predicted before the last one that followed predictions
(:mod:`streamk.learners.shuffled`).

The sample begins with the last 1,024 events when labels come late or in parts, and grows only while they do.
It holds at most 32,768 events if it begins with parts and 4,096 otherwise, fewer if they are wide.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamk.arrays import Array, Arrays, typed
from streamk.encoding.rows import EncodedRows, stack
from streamk.encoding.seen import SeenValues
from streamk.features.counter import GOLDEN64, MASK64, block_keys
from streamk.features.reservoir import Reservoir
from streamk.learners.learner import with_prefix

LATE, PART = 64, 256  # events predicted since the label before, if it comes late; in parts of the stream
_IN_A_ROW = 8  # labels that come later than usually, or sooner
_LEAST, _OTHERWISE, _MOST = 256, 4096, 32_768  # events of the sample; the last if labels come in parts
_INPUTS = 2**19  # of them all in parts, and otherwise half
_DRAWS = 0x4452_4157  # differs from all random streams of features
_AGAIN = np.array([[1.0], [-1.0]])  # an event that is learned again has a negative weight


class Rehearsal:
    """How late labels come, and the sample of earlier events.

    Attributes
    ----------
    predicted
        The number of events predicted since an event was learned; not saved.
    lateness
        How many events late labels come, 0 if that is less than 64.
    usual
        How many events late labels usually are that come one by one.
    reservoir
        The sample, None until labels come late.
    """

    def __init__(self) -> None:
        self.predicted = self.lateness = self.usual = 0
        self._run = self._bound = 0  # labels in a row later than usually, negative: sooner; the nearest
        self.reservoir: Reservoir | None = None
        # events predicted before the last two labels that followed predictions, 0 for fewer than 64
        self._waited = 0, 0
        self._known = SeenValues()  # values of categories that were learned when events were predicted

    @property
    def rehearses(self) -> bool:
        """Whether earlier events are learned again."""
        return max(self.lateness, self.usual) >= LATE

    @property
    def are_late(self) -> bool:
        """Whether the last labels came later than before the next event."""
        return bool(self.lateness or self.usual or self._run)

    @property
    def in_parts(self) -> bool:
        """Whether 256 events were predicted before the last label that followed predictions."""
        return self._waited[1] >= PART

    @property
    def part(self) -> int:
        """How late labels came in the last parts, 0 if they do not come in parts."""
        return max(self.lateness, self._waited[1]) if self.in_parts else 0

    @property
    def samples(self) -> bool:
        """Whether events are added to the sample."""
        return self.in_parts or self.rehearses

    def label_of(self, later: int) -> bool:
        """See a label before which so many later events were predicted; return whether ``usual`` changes."""
        before = self.usual
        side = (2 * later > 3 * before + 1) - (3 * later + 1 < 2 * before)
        goes_on = side * self._run > 0
        self._bound = side * min(side * self._bound, side * later) if goes_on else abs(side) * later
        self._run = self._run + side if goes_on else side
        if abs(self._run) == _IN_A_ROW:
            self.usual, self._run, self._bound = self._bound, 0, 0
        return self.usual != before

    def lateness_after(self, predicted: int) -> int:
        """Return how late labels come, if one comes after so many events were predicted."""
        least = min(self._waited[1], predicted) if predicted else self.lateness
        return least if least >= LATE else 0

    def label_comes(self, predicted: int, seen: SeenValues) -> None:
        """See a label after so many events were predicted; ``seen`` are the values learned before it."""
        first_part = self.in_parts and not self.rehearses
        self.predicted, self.lateness = 0, self.lateness_after(predicted)
        if predicted:
            self._waited = self._waited[1], predicted if predicted >= LATE else 0
            if self.lateness:
                self._known.copy_from(seen)
        if first_part and not self.in_parts:  # it was one look at many events, or the first of single labels
            self.reservoir = None

    def no_label_comes(self, count: int) -> None:
        """See events that have no label: they do not wait for one any more."""
        self.predicted = max(self.predicted - count, 0)

    def begin(self, seed: int, rows: EncodedRows, earlier: EncodedRows, goal: Array) -> None:
        """Begin the sample with earlier events; ``rows`` are those that come next."""
        width = max(rows.values.shape[1], earlier.values.shape[1], 1)
        most, inputs = (_MOST, _INPUTS) if self.in_parts else (_OTHERWISE, _INPUTS // 2)
        self.reservoir = Reservoir(min(max(inputs // width, _LEAST), most), seed)
        if goal.shape[1]:
            self.reservoir.add(earlier, goal)

    def move(self, places: NDArray[np.int32]) -> None:
        """Move slot ``k`` to ``places[k]``, as :meth:`Reservoir.move` does."""
        if self.reservoir is not None:
            self.reservoir.move(places)

    def take(self, rows: EncodedRows, goal: Array) -> None:
        """Sample events, and repeat none."""
        assert self.reservoir is not None
        self.reservoir.add(rows, goal)

    def follow(self, rows: EncodedRows, goal: Array, seen: SeenValues) -> list[tuple[EncodedRows, Array]]:
        """Return events to learn, each followed by an earlier one, of negative weight; sample them.

        They are in one part, or a part each if there is one event. Their values of categories are recorded in
        ``seen``.
        """
        reservoir = self.reservoir
        assert reservoir is not None
        seen.add(rows)
        if self.lateness:  # labels that come one by one make new values known again and again
            rows = self._known.known(rows)
        count, before = goal.shape[1], reservoir.seen
        held = np.minimum(before + np.arange(count), reservoir.most)  # before each event
        keys = block_keys((reservoir.seed ^ _DRAWS) + before * GOLDEN64 & MASK64, count)
        draws = (keys % np.maximum(held, 1).astype(np.uint64)).astype(np.intp)
        stored, goals = reservoir.rows() if before else (rows, goal)
        if count == 1:
            again = [(stored.select(draws), goals[:, draws] * _AGAIN)] if before else []
            reservoir.add(rows, goal)
            return [(rows, goal), *again]
        old = np.flatnonzero(draws < len(reservoir))
        earlier, targets = stored.select(draws[old]), goals[:, draws[old]]
        source = np.full(count, -1)
        source[old] = count + np.arange(len(old))
        latest: dict[int, int] = {}  # of these events, by place
        places = reservoir.add(rows, goal).tolist()
        for k, (draw, place) in enumerate(zip(draws.tolist(), places, strict=True)):
            source[k] = latest.get(draw, source[k])
            if place >= 0:
                latest[place] = k
        order = np.column_stack([np.arange(count), source]).ravel()
        weights = np.tile([1.0, -1.0], count)[order >= 0]
        order = order[order >= 0]
        both = np.concatenate([goal, targets], axis=1)[:, order]
        both[1] *= weights
        return [(stack([rows, earlier]).select(order), both)]

    def state_dict(self) -> Arrays:
        """Return the arrays to store in a model file; none before labels come late."""
        if self.reservoir is None and not (self.lateness or self.usual or self._run or self.in_parts):
            return {}
        most = 0 if self.reservoir is None else self.reservoir.most
        lateness = np.array([*self._waited, self.usual, self._run, self._bound, most], dtype=np.int64)
        arrays = {"rehearsal.lateness": lateness}
        if self.reservoir is not None:
            arrays |= {f"rehearsal.{name}": array for name, array in self._known.state_dict().items()}
            arrays |= self.reservoir.state_dict()
        return arrays

    def load_state_dict(
        self, arrays: Arrays, seed: int, slots: int, largest: float, closed: bool = False
    ) -> None:
        """Load the arrays of a model file, without the sample if ``closed``; a ValueError if impossible."""
        if "rehearsal.lateness" not in arrays:
            return
        lateness = typed(arrays, "rehearsal.lateness", np.int64, (6,)).tolist()
        first, last, usual, run, bound, most = lateness
        possible = min(first, last, usual, bound) >= 0 and abs(run) < _IN_A_ROW
        if not possible or (most and not _LEAST <= most <= _MOST):
            raise ValueError("how late labels came is impossible")
        self._waited, self.usual, self._run, self._bound = (first, last), usual, run, bound
        self.lateness = min(first, last) if min(first, last) >= LATE else 0
        if most and not closed:
            self._known.load_state_dict(with_prefix(arrays, "rehearsal."))
            self.reservoir = Reservoir(most, seed)
            self.reservoir.load_state_dict(arrays, slots, largest)
