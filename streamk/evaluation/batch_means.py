"""Batch means: sums of a stream's values over units of equally many events, for confidence intervals.

There are at most 256 units: when all are full, pairs become one, and units from then on are twice as long.
So memory does not grow, a stream of 256 events or more has 128 to 255 full units, and the sum of a unit
depends on the order of events alone, not on their chunks.
"""

from __future__ import annotations

from typing import Self

import numpy as np

from streamk.arrays import Array, SavedState

MOST = 256


class BatchMeans:
    """Sums over consecutive units of a stream.

    Attributes
    ----------
    length
        Events of a unit: a power of two.
    events
        How many there were.

    Examples
    --------
    >>> import numpy as np
    >>> units = BatchMeans()
    >>> units.add(np.arange(1000.0))
    >>> units.length, len(units.means()), units.means()[:3], units.mean()
    (4, 250, array([1.5, 5.5, 9.5]), 499.5)
    """

    def __init__(self) -> None:
        self.length = 1
        self.events = 0
        self._sums: Array = np.zeros(MOST)

    def add(self, values: Array) -> None:
        """Add values of consecutive events: losses, or differences of losses."""
        values = np.asarray(values, np.float64)
        while len(values):
            part = values[: MOST * self.length - self.events]
            places = np.arange(self.events, self.events + len(part)) // self.length
            with np.errstate(invalid="ignore"):
                np.add.at(self._sums, places, part)  # in order, as one by one
            self.events += len(part)
            values = values[len(part) :]
            if self.events == MOST * self.length:
                self._double()

    def _double(self) -> None:
        with np.errstate(invalid="ignore"):
            pairs = self._sums[::2] + self._sums[1::2]
        self._sums = np.concatenate([pairs, np.zeros(MOST - len(pairs))])
        self.length *= 2

    def means(self) -> Array:
        """Return the mean of every full unit."""
        averages: Array = self._sums[: self.events // self.length] / self.length
        return averages

    def mean(self) -> float:
        """Return the mean of all events, 0 if there were none."""
        return float(self._sums.sum()) / max(self.events, 1)

    def state(self) -> SavedState:
        """Return everything, as :meth:`restored` takes it."""
        return {"length": self.length, "events": self.events}, {"sums": self._sums.copy()}

    @classmethod
    def restored(cls, state: SavedState) -> Self:
        """Return the units that a state is of."""
        header, arrays = state
        units = cls()
        units.length, units.events = header["length"], header["events"]
        units._sums = arrays["sums"].copy()
        return units
