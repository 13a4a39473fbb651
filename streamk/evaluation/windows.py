"""Curves: the metrics of windows of equally many events, and the sums of all."""

from __future__ import annotations

from typing import Generic, Self, TypeVar

import numpy as np

from streamk.arrays import AnyArray, Array, Json, SavedState
from streamk.evaluation.classes import ClassSums
from streamk.evaluation.exact import Sums, check_one_length, nest, part_of
from streamk.evaluation.metric import METRICS
from streamk.evaluation.numbers import NumberSums

KINDS: Json = {"classes": ClassSums, "numbers": NumberSums}
S = TypeVar("S", bound=Sums)


def fitting(events: float | None) -> int:
    """Return how many events a window has, at most 1,000, so that a log has 20 to 50 windows or more.

    ``events`` is how many the log has, None if that is not known.

    >>> [fitting(events) for events in (150, 1957, 45_312, None)]
    [10, 50, 1000, 1000]
    """
    return next((k for k in (10, 20, 50, 100, 200, 500) if events is not None and events <= 50 * k), 1000)


def kind_of(sums: Sums) -> str:
    """Return the name of a kind of sums in :data:`KINDS`."""
    return next(name for name, kind in KINDS.items() if isinstance(sums, kind))


class Curve(Generic[S]):
    """Windows of exactly ``interval`` events, whatever the chunks that events come in.

    A window is a row of numbers, in the order of ``columns`` and NaN for what is unknown: 10 million events
    in windows of 1,000 are 10,000 rows, 720 KB. The last window is cut when it is full; its events count in
    :meth:`whole` before.

    Parameters
    ----------
    sums
        Empty sums of the kind that is wanted.
    interval
        Events of a window.
    headline
        The metric whose value over all events is recorded at the end of every window, in ``cumulative``.
    before
        Events before the first: if they end within a window, the first row is of its rest.

    Examples
    --------
    >>> import numpy as np
    >>> curve = Curve(NumberSums(), interval=2)
    >>> curve.add(np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.5, 2.0]))
    >>> curve.column("mae")
    array([0.25])
    >>> curve.add(np.array([5.0, 7.0]), np.array([5.0, 0.0]))
    >>> curve.column("mae"), curve.whole().values()["mae"]
    (array([0.25, 0.5 ]), 1.7)
    """

    def __init__(self, sums: S, interval: int = 1000, headline: str | None = None, before: int = 0) -> None:
        if type(interval) is not int or interval < 1:
            raise ValueError(f"interval is {interval!r}; it must be a whole number of events")
        self.interval, self._headline, self._before = interval, headline, before
        self.cumulative: list[float] = []
        self.columns = sums.columns()
        self._cut = sums.copy()  # of all windows that are full
        self._window = sums.fresh()
        self._rows: Array = np.zeros((0, len(self.columns)))
        self._count = 0

    @property
    def rows(self) -> Array:
        """The windows that are full, ``(windows, columns)``."""
        return self._rows[: self._count]

    @property
    def events(self) -> int:
        """How many events there were."""
        return self._cut.events + self._window.events

    def column(self, name: str) -> Array:
        """Return a metric of every full window."""
        return self.rows[:, self.columns.index(name)]

    def add(self, *arrays: AnyArray | None) -> None:
        """Add events, as arrays that the sums take (None for one that is missing).

        Raises
        ------
        ValueError
            If lengths differ.
        """
        count, start = check_one_length(array for array in arrays if array is not None), 0
        while start < count:
            end = min(count, start + self.interval - (self._before + self.events) % self.interval)
            self._window.add(*(array if array is None else array[start:end] for array in arrays))
            start = end
            if (self._before + self.events) % self.interval == 0:
                self._close()

    def _close(self) -> None:
        values = self._window.values()
        if self._count == len(self._rows):
            room = np.zeros((max(8, len(self._rows)), len(self.columns)))
            self._rows = np.concatenate([self._rows, room])
        self._rows[self._count] = [values.get(name, np.nan) for name in self.columns]
        self._count += 1
        self._cut.merge(self._window)
        if self._headline is not None:
            value = METRICS[self._headline].formula(self._cut)
            self.cumulative.append(np.nan if value is None else value)
        self._window.clear()  # it has as many classes as the whole

    def whole(self) -> S:
        """Return a copy of the sums of all events."""
        whole = self._cut.copy()
        whole.merge(self._window)
        return whole

    def state(self) -> SavedState:
        """Return everything, as :meth:`restored` takes it."""
        header: Json = {"interval": self.interval, "headline": self._headline, "before": self._before}
        header |= {"kind": kind_of(self._cut), "cumulative": list(self.cumulative)}
        curve: SavedState = header, {"rows": self.rows.copy()}
        return nest(curve=curve, cut=self._cut.state(), window=self._window.state())

    @classmethod
    def restored(cls, state: SavedState) -> Self:
        """Return the curve that a state is of."""
        header, arrays = part_of(state, "curve")
        kind = KINDS[header["kind"]]
        settings = (header[name] for name in ("interval", "headline", "before"))
        curve = cls(kind.restored(part_of(state, "cut")), *settings)
        curve.cumulative = list(header["cumulative"])
        curve._window = kind.restored(part_of(state, "window"))
        curve._rows = arrays["rows"].copy()
        curve._count = len(curve._rows)
        return curve
