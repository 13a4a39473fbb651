"""Names to numbers: an event becomes slots, keys and values.

A number has a *slot*, where its running statistics live; a string or a boolean is the one-hot input
``name=value``, worth 1 and never scaled. ``None`` is a number at its mean where the learner knows the name as
a number, and nothing otherwise. Names are learned only from events that are learned; a number that was never
learned has no scale yet and adds nothing. The name of a field that is no text is its text, and that of a
whole number the same as a float: ``1`` and ``1.0`` are one name, and one key of a dict.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamk.encoding.fields import (
    CATEGORIES,
    Event,
    as_float,
    check_event,
    check_events,
    kind_of,
    named,
    no_dict,
    unaccepted,
)
from streamk.encoding.names import Names
from streamk.encoding.rows import UNSCALED, RowError, Rows, empty_rows, missing

_MOST_PLANS = 256
_LOOKED_AT = 4  # one in so many events without a plan
_MOST_WIDTHS = 64
_NOTHING = {type(None)}
_Entries = tuple[Sequence[int], Sequence[int], Sequence[Any]]  # slots, keys, values


class _Plan(NamedTuple):
    """How to encode the events that have these names, numbers and categories being where they were."""

    get_numbers: Callable[[Event], Sequence[Any]]
    categories: tuple[str, ...]
    numbers: int
    pack: Callable[..., None]
    put_keys: Callable[..., None]
    rows: Rows


class _Room(NamedTuple):
    """A row of so many fields, and how to fill it."""

    rows: Rows
    places: tuple[memoryview, memoryview, memoryview]
    put_slots: Callable[..., None]
    put_keys: Callable[..., None]
    put_values: Callable[..., None]

    @classmethod
    def of(cls, width: int) -> _Room:
        rows = empty_rows(1, width)
        places = rows.slots.data, rows.keys.data, rows.values.data
        return cls(rows, places, *(struct.Struct(f"{width}{kind}").pack_into for kind in "iQd"))


class Inputs(Names):
    """The encoder of events over the names that a learner knows."""

    def _forget(self) -> None:
        super()._forget()
        self._plans: dict[Any, _Plan] = {}
        self._sights: set[Any] = set()
        self._misses = 0
        self._rooms: dict[int, _Room] = {}
        self._number_types: set[type] = {int, float}

    def encode(self, x: Event, learning: bool) -> Rows:
        """Return one encoded row; with ``learning``, names not seen before are registered first.

        The arrays belong to the encoder and are overwritten by the next event of as many fields.

        Raises a ValueError that names the field of a value that cannot be taken; no name was then registered.
        """
        try:
            names = tuple(x)
            plan = self._plans.get(names)
        except TypeError:
            raise ValueError(no_dict(x)) from None
        if plan is not None:
            rows = plan.rows
            try:
                numbers = plan.get_numbers(x)
                if self._number_types.issuperset(map(type, numbers)):
                    plan.pack(rows.values, 0, *numbers)
                    if not plan.categories or self._put_categories(plan, x):
                        return rows
            except (OverflowError, struct.error, TypeError, ValueError):
                self.check(x)
                raise
        entries = self._entries_of(x, learning)
        if plan is None:
            self._misses += 1
            if self._misses % _LOOKED_AT == 0:  # names that come again are worth a plan
                if names in self._sights:
                    self._make_plan(names, x)
                elif len(self._sights) >= _MOST_PLANS:
                    self._sights.clear()
                self._sights.add(names)
        try:
            return self._row(*entries)
        except struct.error:  # an integer that has no float
            self.check(x)
            raise

    def _put_categories(self, plan: _Plan, x: Event) -> bool:
        """Put the keys of an event's categories into a plan's row; return whether they are all categories."""
        known, keys = self._categories, []
        for name in plan.categories:
            value = x[name]
            if type(value) is not str:
                if not isinstance(value, CATEGORIES):
                    return False
                value = str(value)
            keys.append(known.get((name, value)) or self.category_key(name, value))
        plan.put_keys(plan.rows.keys.data, 8 * plan.numbers, *keys)
        return True

    def _row(self, slots: Sequence[int], keys: Sequence[int], values: Sequence[Any]) -> Rows:
        room = self._rooms.get(len(slots))
        if room is None:
            if len(self._rooms) >= _MOST_WIDTHS:
                self._rooms.clear()
            room = self._rooms[len(slots)] = _Room.of(len(slots))
        rows, (slots_at, keys_at, values_at), put_slots, put_keys, put_values = room
        put_slots(slots_at, 0, *slots)
        put_keys(keys_at, 0, *keys)
        put_values(values_at, 0, *values)
        return rows

    def _make_plan(self, names: tuple[Hashable, ...], x: Event) -> None:
        """Keep how to encode events of these names, if all are texts, known, and there."""
        if len(self._plans) >= _MOST_PLANS:
            self._plans.clear()
        kinds = [kind_of(type(value)) for value in x.values()]
        if not all(type(name) is str for name in names) or "missing" in kinds:
            return
        numbers = [n for n, kind in zip(names, kinds, strict=True) if kind == "number"]
        if self.registers and not self.numbers.keys() >= set(numbers):
            return
        numbers.sort(key=lambda name: self._entries[str(name)][1])
        categories = [n for n, kind in zip(names, kinds, strict=True) if kind == "category"]
        rows = empty_rows(1, len(names))
        rows.values[:] = 1.0
        for j, name in enumerate(numbers):
            rows.slots[0, j], rows.keys[0, j] = self._entries[str(name)]
        self._plans[names] = _Plan(
            _getter(numbers),
            tuple(map(str, categories)),
            len(numbers),
            struct.Struct(f"{len(numbers)}d").pack_into,
            struct.Struct(f"{len(categories)}Q").pack_into,
            rows,
        )

    def _entries_of(self, x: Event, learning: bool) -> _Entries:
        """Return slots, keys and values of an event's fields, registering names first if it is learned."""
        try:
            found = list(map(self._entries.__getitem__, x))  # type: ignore[arg-type]  # others are not found
            given = x.values()
            others = {*map(type, given)} - self._number_types
            if found and others <= _NOTHING and (not others or self.scaled):
                slots, keys = zip(*found, strict=True)
                if not others:
                    return slots, keys, list(given)
                coded = [missing(s) if v is None else s for s, v in zip(slots, given, strict=True)]
                return coded, keys, [0.0 if v is None else v for v in given]
        except (AttributeError, KeyError, TypeError):
            pass
        try:
            return self._known_entries(x)
        except (AttributeError, KeyError, TypeError):
            return self._new_entries(x, learning)

    def _known_entries(self, x: Event) -> _Entries:
        """Return the entries of an event whose names are texts met before; else raise a KeyError."""
        slots, keys, values = [], [], []
        entries, categories, numbers = self._entries, self._categories, self._number_types
        for name, value in x.items():
            kind = type(value)
            if kind in numbers:
                slot, key = entries[name]  # type: ignore[index]
            elif kind is str or kind is bool:
                slot, key, value = UNSCALED, categories[name, str(value)], 1.0  # type: ignore[index]
            elif value is None:
                slot, key = entries[name]  # type: ignore[index]
                if slot == UNSCALED:
                    continue
                slot, value = missing(slot), 0.0
            else:
                raise KeyError(name)
            slots.append(slot)
            keys.append(key)
            values.append(value)
        return slots, keys, values

    def _new_entries(self, x: Event, learning: bool) -> _Entries:
        """Return the entries of any event, or refuse it."""
        fields = named(x)
        slots, keys, values = [], [], []
        unknown = []
        for name, value in fields.items():
            kind = kind_of(type(value))
            if kind is None:
                raise ValueError(unaccepted(name, value))
            if kind == "category":
                slots.append(UNSCALED)
                keys.append(self.category_key(name, str(value)))
                values.append(1.0)
            elif kind == "missing":
                if self.scaled and name in self.numbers:
                    slot, key = self.entry(name)
                    slots.append(missing(slot))
                    keys.append(key)
                    values.append(0.0)
            elif self.registers and name not in self.numbers:
                unknown.append(name)
            else:
                self._number_types.add(type(value))
                slot, key = self.entry(name)
                slots.append(slot)
                keys.append(key)
                values.append(as_float(name, value, self.largest))
        if not unknown:
            return slots, keys, values
        self.check(x)
        if learning:
            self.register(unknown)
            return self._new_entries(x, False)
        if not self.scaled:
            for position, name in enumerate(sorted(unknown), len(self.numbers)):
                slots.append(UNSCALED)
                keys.append(self.number_key(name, position))
                values.append(float(fields[name]))
        return slots, keys, values

    def encode_many(self, events: Sequence[Event], learned: Sequence[bool]) -> Rows:
        """Return encoded rows of events in turn, the names of the ``learned`` registered as they come.

        Raises a RowError for a value that cannot be taken; names may have been registered then.
        """
        parts, row = [], 0
        try:
            for row, x in enumerate(events):
                parts.append(self._entries_of(x, learned[row]))
        except ValueError as error:
            raise RowError(row, str(error)) from None
        if not parts:
            return empty_rows(0, 0)
        width = max(len(part[0]) for part in parts)
        rows = empty_rows(len(parts), width)
        filled = np.arange(width) < np.array([len(part[0]) for part in parts], dtype=np.intp)[:, None]
        arrays: tuple[NDArray[Any], ...] = rows
        for array, column in zip(arrays, zip(*parts, strict=True), strict=True):
            try:
                array[filled] = np.array(list(chain.from_iterable(column)), dtype=array.dtype)
            except (OverflowError, ValueError):  # a number that has no float
                check_events(events, self.largest)
                raise
        return rows

    def encode_alike(self, events: Sequence[Event]) -> Rows | None:
        """Return encoded rows of events that all have the numbers of the first, known, and nothing else."""
        names = tuple(events[0]) if isinstance(events[0], Mapping) else ()
        if not names or not all(type(name) is str and name in self._entries for name in names):
            return None
        try:
            if set(map(len, events)) != {len(names)}:
                return None
            values = list(chain.from_iterable(map(_getter(names), events)))
            if not {*map(type, values)} <= {int, float}:
                return None
            encoded = np.fromiter(values, np.float64, len(values)).reshape(-1, len(names))
        except (KeyError, TypeError, OverflowError):
            return None
        slots, keys = zip(*(self._entries[str(name)] for name in names), strict=True)
        return Rows(np.array([slots], dtype=np.int32), np.array([keys], dtype=np.uint64), encoded)

    def check(self, x: Event) -> None:
        """Raise the ValueError that names the first field of ``x`` that cannot be taken, if any."""
        check_event(x, self.largest)


def _getter(fields: Sequence[Hashable]) -> Callable[[Event], Sequence[Any]]:
    if len(fields) > 1:
        return itemgetter(*fields)
    return (lambda event: (event[fields[0]],)) if fields else lambda event: ()
