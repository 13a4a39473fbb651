"""Units of a metric that is no mean over events, such as AUC, by the jackknife.

A mean has a value in every unit of a stream (:mod:`streamk.evaluation.bootstrap`). Of another metric ``m``,
the value that unit ``i`` of ``n`` counts with is its pseudo-value ``n·m − (n − 1)·m₍ᵢ₎``, where ``m₍ᵢ₎`` is
the metric of all other units (Tukey 1958). Sums of units are stored, at most 64; when all are full, pairs
become one.
"""

from __future__ import annotations

from itertools import accumulate

import numpy as np

from streamk.arrays import AnyArray
from streamk.evaluation.bootstrap import FEWEST, MOST, BatchMeans
from streamk.evaluation.exact import Sums, check_one_length
from streamk.evaluation.metric import Metric

_UNITS = 64


class BatchSums:
    """Sums of consecutive units of a stream.

    Parameters
    ----------
    empty
        Sums of the kind that is wanted.

    Examples
    --------
    >>> import numpy as np
    >>> from streamk.evaluation.metric import METRICS
    >>> from streamk.evaluation.numbers import NumberSums
    >>> units, errors = BatchSums(NumberSums()), np.random.default_rng(1).normal(size=1000)
    >>> units.add(np.zeros(1000), errors)
    >>> rmse = units.losses(METRICS["rmse"])
    >>> rmse.length, rmse.mean() == units.loss(METRICS["rmse"]), len(rmse.means())
    (16, True, 62)
    """

    def __init__(self, empty: Sums) -> None:
        self._length, self._full, self._open = 1, list[Sums](), empty.fresh()

    def add(self, *arrays: AnyArray | None) -> None:
        """Add events, as arrays that the sums take (None for one that is missing)."""
        left = check_one_length(array for array in arrays if array is not None)
        while left:
            taken = min(left, self._length - self._open.events)
            self._open.add(*(None if a is None else a[len(a) - left :][:taken] for a in arrays))
            left -= taken
            if self._open.events == self._length:
                self._full.append(self._open)
                self._open = self._open.fresh()
            if len(self._full) == _UNITS:
                self._full = [a + b for a, b in zip(self._full[::2], self._full[1::2], strict=True)]
                self._length *= 2

    def _merged(self, first: int = 0) -> Sums:
        """Return the sums of all events from a unit on."""
        *_, whole = accumulate([*self._full[first:], self._open], initial=self._open.fresh())
        return whole

    def loss(self, metric: Metric, since: int = 0) -> float:
        """Return a metric as a loss, after so many events: a multiple of the length of units."""
        return metric.loss(self._merged(since // self._length))

    def losses(self, metric: Metric) -> BatchMeans:
        """Return the pseudo-values of a metric as a loss; their mean is that of all events."""
        count, length, sums = len(self._full), self._length, np.zeros(MOST)
        if count >= FEWEST:
            empty = self._open.fresh()
            before = list(accumulate(self._full, initial=empty))
            after = list(accumulate(self._full[::-1], initial=empty))
            others = [metric.loss(before[k] + after[count - 1 - k]) for k in range(count)]
            sums[:count] = length * (count * metric.loss(before[-1]) - (count - 1) * np.array(others))
        events = count * length + self._open.events
        sums[count] = events * self.loss(metric) - sums.sum()  # as if of the unit that is not full
        return BatchMeans.restored(({"length": length, "events": events}, {"sums": sums}))
