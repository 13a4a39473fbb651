"""Ranks: where a number lies among the distinct values that were learned.

Random grids divide the axis of a number into cells of equal width, so they need numbers whose values are
spread evenly. A number ``z`` in deviations, between the knots ``q_k ≤ z < q_{k+1}`` of 64, has the rank::

    u = (k + (z − q_k)/(q_{k+1} − q_k))/63          r = √3 (2u − 1)

so ranks have the deviation 1, too. Below the first knot and above the last one, ``u`` is 0 and 1: beyond what
was learned, the cells are those at its end.

The knots are quantiles of the distinct values among the last 1,024 events
(:mod:`streamk.features.sample`); each distinct value counts once, so that of a number that is 0 in most
events, the others differ in rank. They are set after 128, 256, 512 and 1,024 events, and then move
with every doubling to the mean of all these quantiles. A number without knots, as all numbers are before,
keeps its deviations. So do those of events with more inputs than the sample stores.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numba import njit

from streamk.arrays import Array, Floats
from streamk.compiling import INNER
from streamk.encoding.scaling import CLIP, MEAN, spread
from streamk.features.sample import EVENTS, EventSample
from streamk.state import Field, Stateful

KNOTS, FIRST = 64, 128
_ROOT = 3.0**0.5


class Ranks(Stateful):
    """Knots of so many fields, ``(fields, 64)``, in inputs ``1 + z``; all are 0 for a field without."""

    def __init__(self, fields: int) -> None:
        self.knots: Floats = np.zeros((fields, KNOTS), dtype=np.float32)
        self.used = fields

    def move(self, sample: EventSample, statistics: Array, places: Mapping[int, int], events: int) -> None:
        """Move the knots towards the quantiles of the last events.

        ``statistics`` are those of numbers (:mod:`streamk.encoding.scaling`), ``places`` the fields by tag.
        """
        rows = sample.events().rows
        shape, levels = rows.values.shape, np.linspace(0.0, 1.0, KNOTS)
        slots, keys = np.broadcast_to(rows.slots, shape), np.broadcast_to(rows.keys, shape)
        windows = max(1.0, 1.0 + np.log2(events / EVENTS))
        for slot in np.unique(slots[slots >= 0]).tolist():
            there, deviation = slots == slot, spread(statistics, slot)
            place = places.get(int(keys[there][0]), 0)
            if place and deviation:
                z = (rows.values[there] - statistics[slot, MEAN]) / deviation
                knots = np.quantile(np.unique(1.0 + np.clip(z, -CLIP, CLIP)), levels)
                part = 1.0 / windows if self.knots[place].any() else 1.0
                self.knots[place] += part * (knots - self.knots[place])

    def fields(self) -> Iterator[Field]:
        """Yield the knots."""
        bounds = 1.0 - CLIP, 1.0 + CLIP
        yield Field("map.knots", "knots", *bounds, part=slice(self.used), default=0.0, possible=_rises)


def _rises(knots: Floats) -> bool:
    return bool((np.diff(knots, axis=1) >= 0.0).all())


@njit(**INNER)
def rank_of(knots, place, number):
    """Return ``1 + r`` of an input ``1 + z`` of the field at ``place``, itself without knots."""
    low, high = np.int64(0), np.int64(knots.shape[1] - 1)
    if knots[place, low] >= knots[place, high]:
        return number
    value = np.float32(number)
    if value <= knots[place, low]:
        rank = 0.0
    elif value >= knots[place, high]:
        rank = np.float64(high)
    else:
        while high - low > 1:
            middle = (low + high) // 2
            if knots[place, middle] <= value:
                low = middle
            else:
                high = middle
        below = np.float64(knots[place, low])
        rank = low + (np.float64(value) - below) / (np.float64(knots[place, high]) - below)
    return 1.0 + _ROOT * (2.0 * rank / (knots.shape[1] - 1) - 1.0)
