"""Plans: how to encode the next event of fields that have come before, without looking at each of them.

The rows of a plan or a room are overwritten by the next event of its fields.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from streamk.encoding.fields import CATEGORIES, Event
from streamk.encoding.rows import Rows, empty_rows, missing

Entry = tuple[int, int]  # slot and key
_NONE = type(None)


class Room(NamedTuple):
    """A row of so many fields, and how to fill it: its bytes, or numbers to ``put`` into each array."""

    rows: Rows
    slots: memoryview
    keys: memoryview
    put: tuple[Callable[..., None], ...]

    @classmethod
    def of(cls, width: int) -> Room:
        """Make a row of ``width`` fields."""
        rows = empty_rows(1, width)
        slots, keys = (array.data.cast("B") if width else memoryview(bytearray()) for array in rows[:2])
        return cls(rows, slots, keys, tuple(struct.Struct(f"{width}{kind}").pack_into for kind in "iQd"))


class Plan:
    """How to encode the events that have these names, numbers and categories being where they were.

    Parameters
    ----------
    numbers
        Names and entries of numbers.
    categories
        Names of categories.
    scaled
        Whether a number may be missing: at its mean.
    """

    def __init__(self, numbers: Sequence[tuple[str, Entry]], categories: Sequence[str], scaled: bool) -> None:
        ordered = sorted(numbers, key=lambda number: number[1][1])  # by key, as they will be added up
        names: list[Hashable] = [name for name, _ in ordered]
        self.get_numbers, self.categories, self.count = getter(names), tuple(categories), len(names)
        self.rows = empty_rows(1, len(ordered) + len(categories))
        self.rows.values[:] = 1.0
        for j, (_, (slot, key)) in enumerate(ordered):
            self.rows.slots[0, j], self.rows.keys[0, j] = slot, key
        self._put_numbers = struct.Struct(f"{self.count}d").pack_into
        self._put_categories = struct.Struct(f"{len(categories)}Q").pack_into
        self._holed: Rows | None = None
        if scaled:
            self._holed = Rows(self.rows.slots.copy(), self.rows.keys, self.rows.values)
            self._slots, self._slots_there = self.rows.slots[0].data, self._holed.slots[0].data
            self._missing = [missing(slot) for _, (slot, _) in ordered]

    def encode(
        self, x: Event, types: set[type], known: dict[tuple[str, str], int], key_of: Callable[[str, str], int]
    ) -> Rows | None:
        """Return an encoded event, or None if it has other kinds of values.

        ``types`` are those of numbers, ``known`` keys of categories, and ``key_of`` finds others.
        """
        numbers, rows = self.get_numbers(x), self.rows
        if not types.issuperset(map(type, numbers)):
            if self._holed is None:
                return None
            rows, numbers = self._holed, list(numbers)
            self._slots_there[:] = self._slots
            for j, value in enumerate(numbers):
                if value is None:
                    numbers[j], self._slots_there[j] = 0.0, self._missing[j]
            if not types.issuperset(map(type, numbers)):
                return None
        self._put_numbers(rows.values.data, 0, *numbers)
        if self.categories:
            keys = []
            for name in self.categories:
                value = x[name]
                if type(value) is not str:
                    if not isinstance(value, CATEGORIES):
                        return None
                    value = str(value)
                keys.append(known.get((name, value)) or key_of(name, value))
            self._put_categories(rows.keys.data, 8 * self.count, *keys)
        return rows


def getter(fields: Sequence[Hashable]) -> Callable[[Event], Sequence[Any]]:
    """Return a function that gives the values of these fields."""
    if len(fields) > 1:
        return itemgetter(*fields)
    return (lambda event: (event[fields[0]],)) if fields else lambda event: ()
