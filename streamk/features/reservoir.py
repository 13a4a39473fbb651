"""A uniform sample of the events so far, of bounded size: the events with the smallest tickets.

Event ``n`` with the fields ``x`` has a ticket, 64 bits that look random and are a function of the seed, of
``n`` and of ``x`` (all modulo ``2⁶⁴``; ``mix64`` and ``golden`` are those of
:mod:`streamk.features.counter`)::

    content(x)      = Σ_j mix64(key_j ^ mix64(the bits of value_j))
    ticket(s, n, x) = mix64(mix64(s + (n + 1) · golden) ^ content(x))

The ``most`` events with the smallest tickets are stored, which is a uniform sample without replacement. So is
the merge of several samples, if tickets of common events count once. Two samples of one seed number their
events alike, so the ticket of event ``n`` depends on its fields, too. A new event takes the place of the one
it replaces, so the sample does not depend on the size of batches.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from streamk.arrays import Array, Arrays, Places, padded, typed
from streamk.compiling import ENTRY
from streamk.encoding.rows import (
    ABSENT,
    LARGEST,
    EncodedRows,
    empty_rows,
    from_parts,
    moved,
    parts_of,
    stack,
)
from streamk.features.counter import GOLDEN64, MASK64, block_keys, mix64

Tickets = NDArray[np.uint64]
_STREAM = 0x5245_5345_5256  # differs from all random streams of features


class Sample(NamedTuple):
    """Events: their tickets ``(n,)``, rows, and targets and weights ``(2, n)``."""

    tickets: Tickets
    rows: EncodedRows
    goal: Array

    def select(self, places: Places) -> Sample:
        """Return the events at these places."""
        return Sample(self.tickets[places], self.rows.select(places), self.goal[:, places])


class Reservoir:
    """Encoded rows with their targets and weights ``(2, n)``, raw: not yet scaled.

    Parameters
    ----------
    most
        How many events are stored at most.
    seed
        Of the tickets.
    """

    def __init__(self, most: int, seed: int) -> None:
        self.most, self.seed, self.seen = most, seed, 0
        self._rows = empty_rows(0, 0)  # and after them as many more as came before, to be filled
        self._goal: Array = np.zeros((2, 0))
        self._tickets: list[int] = []  # by place
        self._last: list[tuple[int, int]] = []  # a heap: of the greatest ticket, its negative and the place

    def __len__(self) -> int:
        return min(self.seen, self.most)

    def add(self, rows: EncodedRows, goal: Array) -> Places:
        """Add rows that have weight, in order; they are copied. Return the place of each, −1 for none."""
        count = goal.shape[1]
        tickets = block_keys((self.seed ^ _STREAM) + self.seen * GOLDEN64 & MASK64, count)
        _know_content(tickets, rows.keys, np.ascontiguousarray(rows.values).view(np.uint64))
        first, taken = min(count, self.most - len(self)), np.full(count, -1)
        taken[:first] = len(self) + np.arange(first)
        self.seen += count
        if first:
            self._tickets += tickets[:first].tolist()
            self._put(taken[:first], rows.select(slice(first)), goal[:, :first])
        if first < count:
            kept, places = self._exchange(tickets, first)
            if len(kept):
                taken[kept] = places
                _, last = np.unique(places[::-1], return_index=True)  # of two for one place, the later
                chosen = kept[len(places) - 1 - last]
                self._put(taken[chosen], rows.select(chosen), goal[:, chosen])
        return taken

    def _exchange(self, tickets: Tickets, first: int) -> tuple[Places, Places]:
        """Return which events, from number ``first`` on, replace a stored one, and its place."""
        last = self._last
        if not last:
            last += [(-ticket, place) for place, ticket in enumerate(self._tickets)]
            heapq.heapify(last)
        kept, places = [], []
        for k in first + np.flatnonzero(tickets[first:] < -last[0][0]):
            ticket = int(tickets[k])
            if ticket < -last[0][0]:
                place = last[0][1]
                heapq.heapreplace(last, (-ticket, place))
                self._tickets[place] = ticket
                kept.append(k)
                places.append(place)
        return np.array(kept, dtype=np.intp), np.array(places, dtype=np.intp)

    def _put(self, places: Places, rows: EncodedRows, goal: Array) -> None:
        """Store rows at these places, each a different one; the first without a row may be among them."""
        rows, whole, end = stack([rows]), self._rows, int(places.max()) + 1
        if not len(whole.values) and len(rows.keys) == 1:
            whole = EncodedRows(
                rows.slots.copy(), rows.keys.copy(), empty_rows(0, rows.values.shape[1]).values
            )
        alike = _alike(rows, whole)
        if not alike:
            width = max(rows.keys.shape[1], whole.keys.shape[1])
            if len(whole.keys) < len(whole.values) or whole.keys.shape[1] < width:
                whole = _expanded(whole, width)
            rows = _expanded(rows, width)
        if end > len(whole.values):
            length = min(max(end, 2 * len(whole.values)), self.most)
            whole = _lengthened(whole, length, not alike or len(whole.keys) > 1)
            self._goal = padded(self._goal, (2, length))
        if not alike:
            whole.slots[places], whole.keys[places] = rows.slots, rows.keys
        whole.values[places], self._goal[:, places], self._rows = rows.values, goal, whole

    def rows(self) -> tuple[EncodedRows, Array]:
        """Return the rows and their goals, in the order of their places."""
        return self._rows.select(slice(len(self))), self._goal[:, : len(self)]

    def move(self, places: NDArray[np.int32]) -> None:
        """Move slot ``k`` to ``places[k]``; numbers of evicted names, of place −1, are absent."""
        if len(self):
            rows, self._goal = self.rows()
            self._rows = stack([moved(rows, places)])

    def sample(self) -> Sample:
        """Return the stored events, in the order of their places."""
        return Sample(np.array(self._tickets, dtype=np.uint64), *self.rows())

    def merge_from(self, samples: Sequence[Sample], seen: int) -> None:
        """Become the sample of all events behind other samples, ``seen`` in total; this one is empty.

        Events are stored in the order of the samples.
        """
        tickets = np.concatenate([sample.tickets for sample in samples])
        rows, goal = stack([s.rows for s in samples]), np.concatenate([s.goal for s in samples], axis=1)
        kept = np.sort(np.argsort(tickets, kind="stable")[: self.most])
        self._tickets, selected, self._goal = tickets[kept].tolist(), rows.select(kept), goal[:, kept]
        self._rows, self.seen = stack([selected]).copy(), seen

    def state_dict(self) -> Arrays:
        """Return the arrays to store in a model file; none before the first event."""
        if not self.seen:
            return {}
        tickets, rows, goal = self.sample()
        return parts_of("reservoir", stack([rows]), goal) | {
            "reservoir.seen": np.array([self.seen], dtype=np.int64),
            "reservoir.tickets": tickets,
        }

    def load_state_dict(self, arrays: Arrays, slots: int, largest: float = LARGEST) -> None:
        """Load the arrays of a model file; raise a ValueError if they are impossible with so many slots."""
        if "reservoir.seen" not in arrays:
            return
        seen = int(typed(arrays, "reservoir.seen", np.int64, (1,))[0])
        count = min(seen, self.most)
        rows, goal = from_parts("reservoir", arrays, count, slots, largest)
        self._tickets = typed(arrays, "reservoir.tickets", np.uint64, (count,)).tolist()
        self._rows, self._goal, self.seen = rows.copy(), goal.copy(), seen


@njit(**ENTRY)
def _know_content(tickets, keys, values):
    """Make numbers of events tickets of their fields, too; ``values`` are the bits of theirs."""
    for i in range(len(tickets)):
        shared, content = min(i, len(keys) - 1), np.uint64(0)
        for j in range(values.shape[1]):
            if keys[shared, j] != ABSENT:
                content += mix64(keys[shared, j] ^ mix64(values[i, j]))
        tickets[i] = mix64(tickets[i] ^ content)


def _alike(rows: EncodedRows, whole: EncodedRows) -> bool:
    """Return whether both have one row of fields for all rows, and the same one."""
    once = len(rows.keys) == len(whole.keys) == 1 and rows.keys.shape == whole.keys.shape
    return once and bool((rows.keys == whole.keys).all() and (rows.slots == whole.slots).all())


def _lengthened(rows: EncodedRows, count: int, separate: bool) -> EncodedRows:
    """Return so many rows, the last ones to be filled, each with slots and keys if they are ``separate``."""
    longer = empty_rows(count, rows.keys.shape[1])
    longer.values[: len(rows.values)] = rows.values
    if not separate:
        return EncodedRows(rows.slots, rows.keys, longer.values)
    longer.slots[: len(rows.slots)], longer.keys[: len(rows.keys)] = rows.slots, rows.keys
    return longer


def _expanded(rows: EncodedRows, width: int) -> EncodedRows:
    """Return rows of at least that width, each with separate slots and keys."""
    expanded = empty_rows(len(rows.values), max(width, rows.keys.shape[1]))
    used = slice(rows.keys.shape[1])
    expanded.slots[:, used], expanded.keys[:, used], expanded.values[:, used] = rows
    return expanded
