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
        if not (len(self.numbers) or len(other.numbers)):
            return 0.5 * total
        places = np.concatenate([self.numbers, other.numbers])
        shares = self.numbers.searchsorted(places, side="right") / n
        shares -= other.numbers.searchsorted(places, side="right") / m
        return max(0.5 * total, float(shares.max()), -float(shares.min()))
