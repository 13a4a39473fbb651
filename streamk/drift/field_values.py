"""The values of a field in a set of events: numbers, and other values by count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, SupportsFloat

import numpy as np

from streamk.arrays import Array
from streamk.encoding.fields import kind_of_value

ABSENT = object()  # the value of a field that an event does not have


_NONE = Counter[object]()


class FieldValues(NamedTuple):
    """The values of a field in a set of events.

    Attributes
    ----------
    numbers
        Sorted.
    others
        Strings, booleans, None for missing values and :data:`ABSENT`, with their counts.
    events
        How many events there are.
    """

    numbers: Array
    others: Counter[object]
    events: int

    @classmethod
    def of(cls, values: Iterable[object]) -> FieldValues:
        """Return the values of a field, one of each event."""
        values = list(values)
        numbers: list[float] = [v for v in values if type(v) is float or type(v) is int]  # as most are
        others = Counter[object]()
        if len(numbers) < len(values):
            for value, count in Counter(
                v for v in values if not (type(v) is float or type(v) is int)
            ).items():
                kind = None if value is ABSENT else kind_of_value(value)
                if kind == "number" and isinstance(value, SupportsFloat):  # as all numbers are
                    numbers += [float(value)] * count
                else:
                    others[None if kind == "missing" else value] += count
        ordered = np.sort(np.array(numbers, np.float64))  # NaN comes last
        if len(ordered) and ordered[-1] != ordered[-1]:
            there = int(np.searchsorted(ordered, np.nan))
            others[None] += len(ordered) - there
            ordered = ordered[:there]
        return cls(ordered, others, len(values))

    @classmethod
    def of_each(cls, columns: Mapping[str, Sequence[object]]) -> dict[str, FieldValues]:
        """Return the values of several fields in the same events; those that are all numbers together."""
        numbers = [name for name, column in columns.items() if set(map(type, column)) <= {float, int}]
        ordered = np.sort(np.array([columns[name] for name in numbers], np.float64), axis=-1)
        plain = {
            name: cls(row, _NONE, len(row))
            for name, row in zip(numbers, ordered, strict=True)
            if row[-1] == row[-1]  # NaN would come last
        }
        return {name: plain.get(name) or cls.of(column) for name, column in columns.items()}

    @property
    def missing(self) -> float:
        """The share of events whose value is missing or absent."""
        others = self.others
        return (others[None] + others[ABSENT]) / max(self.events, 1) if others else 0.0

    def values(self) -> dict[str, float]:
        """Return the values that are no numbers as strings, the most frequent first, with their shares."""
        there = self.others.most_common() if self.others else []
        return {str(v): n / self.events for v, n in there if v is not None and v is not ABSENT}

    def distance(self, other: FieldValues) -> float:
        """Return the share of events whose value has moved, 0 to 1 (:func:`streamk.drift.discrepancies`)."""
        n, m = self.events, other.events
        total = abs(len(self.numbers) / n - len(other.numbers) / m)
        for atom in {*self.others, *other.others}:
            total += abs(self.others[atom] / n - other.others[atom] / m)
        gap = _gaps(self.numbers[None], other.numbers[None], n, m)
        return max(0.5 * total, float(gap[0]))

    @classmethod
    def distances(cls, before: Mapping[str, FieldValues], now: Mapping[str, FieldValues]) -> dict[str, float]:
        """Return the distances of fields in two sets of events; those that are all numbers together."""
        both = [name for name in now if name in before]
        numbers = [name for name in both if not (before[name].others or now[name].others)]
        gaps = {}
        if numbers:
            first, second = (np.stack([part[name].numbers for name in numbers]) for part in (before, now))
            largest = _gaps(first, second, first.shape[1], second.shape[1])
            gaps = dict(zip(numbers, largest.tolist(), strict=True))
        return {name: gaps[name] if name in gaps else before[name].distance(now[name]) for name in both}


def _gaps(first: Array, second: Array, events: int, others: int) -> Array:
    """Return the largest differences of distribution functions of each row, of so many events in all."""
    places = np.concatenate([first, second], axis=1)
    if not places.shape[1]:
        return np.zeros(len(places))
    order = places.argsort(axis=1, kind="stable")
    places = np.take_along_axis(places, order, axis=1)
    sums = np.where(order < first.shape[1], others, -events).cumsum(axis=1)
    sums[:, :-1][places[:, :-1] == places[:, 1:]] = 0  # not between equal numbers
    gaps: Array = np.abs(sums).max(axis=1) / (events * others)
    return gaps
