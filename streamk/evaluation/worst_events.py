"""The events that a contender predicted worst, in bounded memory, without the first tenth of a stream.

How long a stream is becomes known at its end only. So the worst are stored for each of a few segments, which
are an eighth to a quarter as long as all events before them, and a segment that the first tenth has reached
is removed.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappush, heappushpop
from typing import NamedTuple

import numpy as np

from streamk.arrays import Array
from streamk.encoding.fields import Event
from streamk.evaluation.adapters import Place

MOST = 10  # events that are listed
_FIRST = 10  # one in so many, the first ones, is not listed


class WorstEvent(NamedTuple):
    """An event with a large loss.

    Attributes
    ----------
    target, prediction
        The label and the probabilities by label, or two numbers.
    fields
        As they were when the event was predicted.
    place
        File and line, None without a log.
    at
        Its time in seconds since 1970, None if that is not known.
    """

    target: object
    prediction: object
    fields: Event
    place: Place | None = None
    at: float | None = None


class WorstEvents:
    """The events of the largest losses.

    Examples
    --------
    >>> worst = WorstEvents()
    >>> worst.add(np.array([9.0, 1.0, 3.0, 2.0] * 5), 1, lambda row: WorstEvent("a", "b", {"x": row}))
    >>> [(event, loss) for event, loss, _ in worst.listed(20)[:5]]  # event 1 is of the first tenth
    [(5, 9.0), (9, 9.0), (13, 9.0), (17, 9.0), (3, 3.0)]
    """

    def __init__(self) -> None:
        self._segments: dict[int, list[tuple[float, int, WorstEvent]]] = {}  # a heap by the first event

    def add(self, losses: Array, first: int, event: Callable[[int], WorstEvent]) -> None:
        """Add the losses of consecutive events, which ``event`` returns by their rows if it must.

        ``first`` is the number of the first event, from 1.
        """
        start = 0
        while start < len(losses):
            begin, end = _segment(first + start)
            heap = self._segments.setdefault(begin, [])
            stop = min(len(losses), start + end - first - start)
            least = heap[0][0] if len(heap) == MOST else -np.inf
            rows = start + np.flatnonzero(losses[start:stop] > least)
            for row in rows[np.argsort(-losses[rows], kind="stable")[:MOST]].tolist():
                loss, number = float(losses[row]), -(first + row)  # of equal losses the first stays
                if len(heap) < MOST:
                    heappush(heap, (loss, number, event(row)))
                elif loss > heap[0][0]:
                    heappushpop(heap, (loss, number, event(row)))
            start = stop
        events = first + len(losses) - 1
        for begin in [begin for begin in self._segments if _FIRST * (_segment(begin)[1] - 1) <= events]:
            del self._segments[begin]

    def listed(self, events: int) -> list[tuple[int, float, WorstEvent]]:
        """Return numbers, losses and events, the largest loss first, of so many events in all."""
        kept = [item for heap in self._segments.values() for item in heap if -item[1] * _FIRST > events]
        return [(-number, loss, event) for loss, number, event in sorted(kept, key=_order)[:MOST]]


def _order(item: tuple[float, int, WorstEvent]) -> tuple[float, int]:
    return -item[0], -item[1]


def _segment(event: int) -> tuple[int, int]:
    """Return the first event of the segment of an event, and of the next segment.

    >>> _segment(1), _segment(9), _segment(1000)
    ((1, 2), (8, 10), (896, 1024))
    """
    bits = max(event.bit_length() - 3, 0)
    begin = event >> bits << bits
    return begin, begin + (1 << bits)
