"""Plans: cached encodings of events with the same fields, which avoid a look-up for each field.

The next event with the same fields overwrites the rows of a plan or a row buffer.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, Protocol

from streamk.encoding.fields import CATEGORIES, Event, kind_of
from streamk.encoding.rows import ABSENT, EncodedRows, empty_rows, missing

Entry = tuple[int, int]  # slot and key
_NONE = type(None)


class Fields(Protocol):
    """The methods of the encoder that plans use."""

    numbers: dict[str, int]

    @property
    def registers(self) -> bool:
        """Whether a number's name must be registered before it counts."""
        ...

    @property
    def scaled(self) -> bool:
        """Whether numbers have slots of statistics."""
        ...

    def entry(self, name: str) -> Entry:
        """Return slot and key of a number."""
        ...

    def category_key(self, name: str, value: str) -> int:
        """Return the direction of ``name=value``."""
        ...

    def category_slot(self, name: str) -> int:
        """Return the number that all values of a category have as their slot."""
        ...

    def missing_numbers(self, field: str) -> list[str]:
        """Return the numbers that are missing if a field is."""
        ...


class RowBuffer(NamedTuple):
    """A row of so many fields, and how to fill it: its bytes, or numbers to ``put`` into each array."""

    rows: EncodedRows
    slots: memoryview
    keys: memoryview
    put: tuple[Callable[..., None], ...]

    @classmethod
    def of(cls, width: int) -> RowBuffer:
        """Make a row of ``width`` fields."""
        rows = empty_rows(1, width)
        slots, keys = (array.data.cast("B") if width else memoryview(bytearray()) for array in rows[:2])
        return cls(rows, slots, keys, tuple(struct.Struct(f"{width}{kind}").pack_into for kind in "iQd"))


class Plan:
    """A plan for events with these names in this order, the same of them numbers and the same categories.

    Parameters
    ----------
    numbers
        Names and entries of numbers.
    categories
        Names and slots of categories.
    scaled
        Whether a number may be missing: at its mean.
    """

    def __init__(
        self, numbers: Sequence[tuple[str, Entry]], categories: Sequence[tuple[str, int]], scaled: bool
    ) -> None:
        ordered = sorted(numbers, key=lambda number: number[1][1])  # by key, as they will be added up
        names: list[Hashable] = [name for name, _ in ordered]
        self.get_numbers, self.count = getter(names), len(names)
        self.categories = tuple(name for name, _ in categories)
        self.rows = empty_rows(1, len(ordered) + len(categories))
        self.rows.values[:] = 1.0
        for j, (_, (slot, key)) in enumerate(ordered):
            self.rows.slots[0, j], self.rows.keys[0, j] = slot, key
        self.rows.slots[0, len(ordered) :] = [slot for _, slot in categories]
        self._put_numbers = struct.Struct(f"{self.count}d").pack_into
        self._put_categories = struct.Struct(f"{len(categories)}Q").pack_into
        self.failures = 0
        self._looked_at, self._only_categories = -1, False
        self._holed: EncodedRows | None = None
        if scaled:
            self._holed = EncodedRows(self.rows.slots.copy(), self.rows.keys, self.rows.values)
            there = self._holed.slots[0, : len(ordered)].data
            self._slots, self._slots_there = self.rows.slots[0, : len(ordered)].data, there
            self._missing = [missing(slot) for _, (slot, _) in ordered]

    def encode(
        self, x: Event, types: set[type], known: dict[tuple[str, str], int], others: Fields
    ) -> EncodedRows | None:
        """Return an encoded event, or None if it has other kinds of values.

        ``types`` are those of numbers, ``known`` keys of categories; ``others`` finds those not known, and
        whether a category that is missing was a number before.
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
                    if value is None and self._are_categories(others):
                        keys.append(ABSENT)
                        continue
                    if not isinstance(value, CATEGORIES):
                        return None
                    value = str(value)
                keys.append(known.get((name, value)) or others.category_key(name, value))
            self._put_categories(rows.keys.data, 8 * self.count, *keys)
        return rows

    def _are_categories(self, others: Fields) -> bool:
        """Return whether the categories of this plan are no numbers that the learner holds, by any event."""
        if self._looked_at != len(others.numbers):
            self._looked_at = len(others.numbers)
            self._only_categories = not any(map(others.missing_numbers, self.categories))
        return self._only_categories


def plan_for(x: Event, inputs: Fields) -> Plan | None:
    """Return a plan for events with the fields of ``x``, None if there are names not known, or moments.

    A missing field that is no known number counts as a category, until the plan has failed.
    """
    kinds = {name: kind_of(type(value)) for name, value in x.items()}
    names = [name for name in kinds if type(name) is str]
    if len(names) < len(kinds) or "moment" in kinds.values():
        return None
    categories = [
        name
        for name in names
        if kinds[name] == "category" or (kinds[name] == "missing" and not inputs.missing_numbers(name))
    ]
    numbers = [name for name in names if name not in categories]
    if inputs.registers and not inputs.numbers.keys() >= set(numbers):
        return None
    slots = [(name, inputs.category_slot(name)) for name in categories]
    return Plan([(name, inputs.entry(name)) for name in numbers], slots, inputs.scaled)


def getter(fields: Sequence[Any]) -> Callable[[Event], Sequence[object]]:
    """Return a function that gives the values of these fields."""
    if len(fields) > 1:
        return itemgetter(*fields)
    return (lambda event: (event[fields[0]],)) if fields else lambda event: ()
