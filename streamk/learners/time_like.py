"""Time-like numbers: they have risen or fallen steadily since the first event.

Time stamps, counters and the charge of a battery do. Experts relate such a number to the targets of recent
events; it has had its earlier values only then, and later ones never. So where no labels come, predictions
use its last value, and that of a calendar input that has not been through its circle, as the day of the year
in the first year. Where labels come late, many together (:mod:`streamk.learners.rehearsal`), what experts
relate to it is that of the labels before, and it is at its mean. With prompt labels nothing changes. Of the
rows of a call, those with such a number a quarter of its deviation from its last value, as a log that was
learned has, are not among the next events: their predictions are those without labels.

A number with a constant slope is uniform: if its deviation is ``σ``, its range is ``√12 σ``, and its last
value is half of that from the mean. A number is time-like if both hold roughly, with the slope in the last
1,024 events and the deviation in all of them, and if it is correlated with time in the former. Measurements
with seasons that repeat fail the first, and codes the second. The target may be time-like, as the reading of
a meter is (:mod:`streamk.learners.level`).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from streamk.arrays import Array, Arrays, Integers, Places, typed
from streamk.encoding.calendar_inputs import ELAPSED, PERIODS
from streamk.encoding.inputs import Inputs
from streamk.encoding.rows import LARGEST, UNSCALED, EncodedRows, without_nan
from streamk.encoding.scaling import MEAN, spread
from streamk.features.sample import WIDTH, EventSample

_COMPARED, _FEWEST = 64, 32  # events of the sample, and values of a number
_AWAY = 0.25  # deviations from the last value, from which on a row is not among the next
_LINEAR = 0.9  # correlation with time
_LEAST, _MOST = 0.75, 1.35  # slope and last value, relative to those of a constant slope


class TimeLike:
    """The time-like numbers of a learner.

    Attributes
    ----------
    last
        Their slots and last values, ``(n, 2)``, when :meth:`look` was called.
    target
        Whether the number to predict was time-like then.
    """

    def __init__(self) -> None:
        self.last: Array = np.zeros((0, 2))
        self.target, self._events = False, -1

    def look(self, sample: EventSample, inputs: Inputs, target: Array | None, events: int) -> None:
        """Find time-like numbers after so many events, in a sample of the last ones, if there are any.

        ``target`` are the statistics of the number to predict, ``(1, n)``; None for classes.
        """
        if len(sample) and events != self._events:
            self._events, values = events, _last_values(sample, inputs, events)
            self.last = np.array([*values.items()]).reshape(-1, 2)
            self.target = target is not None and _is_time_like(sample, target, events)

    def steady(self, rows: EncodedRows, statistics: Array | None) -> EncodedRows:
        """Return rows whose time-like numbers have their last values, or with ``statistics`` their means."""
        if not len(self.last):
            return rows
        values, slots = rows.values.copy(), np.broadcast_to(rows.slots, rows.values.shape)
        for slot, last in self.last:
            values[slots == slot] = last if statistics is None else statistics[int(slot), MEAN]
        return EncodedRows(rows.slots, rows.keys, values)

    def are_away(self, rows: EncodedRows, statistics: Array) -> NDArray[np.bool_]:
        """Return in which rows a time-like number is a quarter deviation or more from its last value."""
        away, slots = np.zeros(len(rows.values), dtype=bool), np.broadcast_to(rows.slots, rows.values.shape)
        for slot, last in self.last:
            distance = abs(rows.values - last) >= _AWAY * spread(statistics, int(slot))
            away |= ((slots == slot) & distance).any(axis=1)
        return away

    def without(self, rows: EncodedRows) -> EncodedRows:
        """Return rows whose time-like numbers are missing."""
        if not len(self.last):
            return rows
        values = rows.values.copy()
        values[np.isin(np.broadcast_to(rows.slots, values.shape), self.last[:, 0])] = np.nan
        return without_nan(EncodedRows(rows.slots, rows.keys, values))

    def state_dict(self) -> Arrays:
        """Return the arrays to store in a model file, if there are time-like numbers."""
        target = {"time_like.target": np.ones(1, dtype=np.int64)} if self.target else {}
        return target | ({"time_like.last": self.last} if len(self.last) else {})

    def load_state_dict(self, arrays: Arrays, slots: int) -> None:
        """Load the array of a model file with so many slots; raise a ValueError if it is impossible."""
        self.target = "time_like.target" in arrays
        if self.target and typed(arrays, "time_like.target", np.int64, (1,))[0] != 1:
            raise ValueError("its time-like target is impossible")
        if "time_like.last" in arrays:
            last = typed(arrays, "time_like.last", np.float64, (len(arrays["time_like.last"]), 2))
            if not (np.isin(last[:, 0], np.arange(slots)) & (abs(last[:, 1]) <= LARGEST)).all():
                raise ValueError("its last values of time-like numbers are impossible")
            self.last = last.copy()


def _compared(sample: EventSample, events: int) -> tuple[Integers, Places]:
    """Return how long ago every so many events of a sample came, and their places in it."""
    ago = np.arange(0, len(sample), max(len(sample) // _COMPARED, 1))
    return ago, sample.latest(events)[ago]


def _last_values(sample: EventSample, inputs: Inputs, events: int) -> dict[int, float]:
    """Return the last values of time-like numbers, by slot."""
    record, (ago, at) = sample.record, _compared(sample, events)
    slots = np.where(np.arange(WIDTH) < record.counts[at, None], record.slots[at], UNSCALED)
    latest = dict(zip(slots[0].tolist(), record.values[at[0]].tolist(), strict=True))
    known = np.unique(slots[0, slots[0] >= 0])
    there = np.isin(slots, known)
    values = np.full((len(at), len(known)), np.nan)
    values[np.nonzero(there)[0], np.searchsorted(known, slots[there])] = record.values[at][there]
    counts, both, times, squares = _sums_of_squares(-ago, values)
    names, steady = list(inputs.numbers), dict[int, float]()
    for column in np.flatnonzero((both**2 > _LINEAR**2 * times * squares) & (counts >= _FEWEST)):
        slot = int(known[column])
        if names[slot] in inputs.transforms:
            continue
        last, width = latest[slot], math.sqrt(12.0) * float(spread(inputs.statistics, slot))
        slope = events * float(both[column] / times[column])
        if _is_uniform(slope, last - inputs.statistics[slot, MEAN], width):
            field, steady[slot] = names[slot].removesuffix(ELAPSED), last
            if field != names[slot]:
                parts = [f"{field}{part}" for part, period in PERIODS.items() if width < period]
                circles = [inputs.numbers.get(part + axis, -1) for part in parts for axis in (".sin", ".cos")]
                steady |= {slot: latest[slot] for slot in circles if slot in latest and slot >= 0}
    return steady


def _is_time_like(sample: EventSample, target: Array, events: int) -> bool:
    """Return whether the target is time-like, with the statistics ``target``."""
    ago, at = _compared(sample, events)
    values = sample.record.goal[0, at]
    counts, both, times, squares = (array[0] for array in _sums_of_squares(-ago, values[:, None]))
    if counts < _FEWEST or both**2 <= _LINEAR**2 * times * squares:
        return False
    slope, width = events * float(both / times), math.sqrt(12.0) * float(spread(target, 0))
    return _is_uniform(slope, float(values[0] - target[0, MEAN]), width)


def _is_uniform(slope: float, last: float, width: float) -> bool:
    """Return whether slope, last deviation and width are roughly those of a constant slope."""
    moved = math.copysign(2.0, slope) * last
    return _LEAST * width < min(abs(slope), moved) <= max(abs(slope), moved) < _MOST * width


def _sums_of_squares(times: Integers, values: Array) -> tuple[Integers, Array, Array, Array]:
    """Return how many values each column has, and sums of ``δt δv``, ``δt²`` and ``δv²`` over these.

    ``δ`` are deviations from means; a missing value is NaN.
    """
    there = ~np.isnan(values)
    counts = there.sum(axis=0)
    t, v = np.where(there, times[:, None], 0.0), np.where(there, values, 0.0)
    t, v = (np.where(there, array - array.sum(axis=0) / counts, 0.0) for array in (t, v))
    return counts, (t * v).sum(axis=0), (t * t).sum(axis=0), (v * v).sum(axis=0)
