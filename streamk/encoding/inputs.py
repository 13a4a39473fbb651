"""Names to numbers: an event becomes slots, keys and values.

A number has a *slot*, the index of its running statistics; a string or a boolean is the one-hot input
``name=value`` of value 1, which is not scaled. A missing value, ``None`` or NaN, is a number at its mean if
the learner has the name as a number, and nothing otherwise. Names are registered only by events that are
learned; a number that was never learned has no scale yet and adds nothing. The name of a field that is not a
string is converted to one, and whole numbers have one name as integer and float: ``1`` and ``1.0`` are one
name, as they are one key of a dict. Dates and times are numbers (:mod:`streamk.encoding.calendar_inputs`).

A *plan* is a cached encoding of events with the same fields, which avoids a look-up for each field. The next
event with the same fields overwrites the rows of a plan or a row buffer.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import chain
from operator import is_, itemgetter
from typing import Any, NamedTuple, Protocol

import numpy as np

from streamk.arrays import AnyArray, Array
from streamk.encoding.calendar_inputs import ELAPSED, calendar_names, with_calendar
from streamk.encoding.fields import (
    CATEGORIES,
    Event,
    as_float,
    check_event,
    check_events,
    kind_of,
    kind_of_value,
    named,
    no_dict,
    number_names,
    unaccepted,
)
from streamk.encoding.names import Names, NamesFullError
from streamk.encoding.rows import (
    ABSENT,
    UNSCALED,
    EncodedRows,
    RowError,
    empty_rows,
    first_bad,
    missing,
    without_nan,
)
from streamk.encoding.transforms import Transform

Entry = tuple[int, int]  # slot and key
_NONE = type(None)
_MOST_PLANS = 256
_LOOKED_AT = 4  # one in so many events without a plan
_MOST_WIDTHS = 64
_MOST_FAILURES = 8  # of a plan, whose events have other kinds of values by now
_Entries = tuple[Sequence[int], Sequence[int], Sequence[object]]  # slots, keys, values


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


class _Encoded(NamedTuple):
    """The last event: its plan, or its names if it had none; its values; its row."""

    form: Plan | tuple[Hashable, ...]
    values: tuple[object, ...]
    rows: EncodedRows

    def is_of(self, plan: Plan | None, names: tuple[Hashable, ...], values: tuple[object, ...]) -> bool:
        """Return whether an event of that plan has the same names and the same objects as values."""
        form = self.form
        if not _are_same(values, self.values):  # they differ soon from those of another event
            return False
        return form is plan or (isinstance(form, tuple) and _are_same(names, form))


def _are_same(values: tuple[object, ...], others: tuple[object, ...]) -> bool:
    return len(values) == len(others) and all(map(is_, values, others))


class Inputs(Names):
    """The encoder of events, with the names of a learner."""

    encoded = 0  # how often an event was encoded, or another encoding began

    def _forget(self) -> None:
        super()._forget()
        self._plans: dict[object, Plan] = {}
        self._sights: set[object] = set()
        self._misses = self._next_plan = 0
        self._buffers: dict[int, RowBuffer] = {}
        self._last: _Encoded | None = None
        self.encoded += 1
        self._number_types: set[type] = {int, float}
        self._moment_types: set[type] = set()

    def encode(self, x: Event, learning: bool) -> EncodedRows:
        """Return one encoded row; with ``learning``, new names are registered first.

        Numbers that are NaN, infinite or too large may still be there: see :meth:`encode_checked`.
        The arrays belong to the encoder and are overwritten by the next event of as many fields. An event of
        the same names and value objects as the one before, as when an event is learned after its prediction,
        is not encoded again; :attr:`encoded` counts the others.

        Raises a ValueError that names the field of a value that cannot be taken; no name was then registered.
        """
        try:
            names = tuple(x)
            plan = self._plans.get(names)
        except TypeError:
            raise ValueError(no_dict(x)) from None
        try:
            values = tuple(x.values())
            last = self._last
            if last is not None and last.is_of(plan, names, values):
                return last.rows
            self._last, self.encoded = None, self.encoded + 1
            if plan is not None:
                rows = plan.encode(x, self._number_types, self._categories, self)
                if rows is not None:
                    self._last = _Encoded(plan, values, rows)
                    return rows
                plan.failures += 1
                if plan.failures == _MOST_FAILURES:
                    del self._plans[names]
            else:
                self._misses += 1
                if self._misses % _LOOKED_AT == 0:
                    self._consider(names, x)
                if self._number_types.issuperset(map(type, values)):
                    rows = self._encode_numbers(x)
                    self._last = _Encoded(names, values, rows)
                    return rows
        except (AttributeError, KeyError):
            pass  # no dict, or names that are not known
        except (OverflowError, struct.error, TypeError, ValueError):
            self.check(x)
            raise
        try:
            entries = self._entries_of(x, learning)
        except NamesFullError:
            self.evict_for(number_names(x))
            entries = self._entries_of(x, learning)
        slots, keys, numbers = entries
        buffer = self._buffer_for(len(slots))
        put_slots, put_keys, put_values = buffer.put
        put_slots(buffer.slots, 0, *slots)
        put_keys(buffer.keys, 0, *keys)
        try:
            put_values(buffer.rows.values, 0, *numbers)
        except struct.error:  # an integer that has no float
            self.check(x)
            raise
        return buffer.rows

    def encode_checked(self, x: Event, learning: bool) -> EncodedRows:
        """Return one encoded row in which NaN is missing, or raise the ValueError that names a bad value."""
        rows = self.encode(x, learning)
        return self.with_missing(x, rows) if first_bad(rows, self.largest) >= 0 else rows

    def with_missing(self, x: Event, rows: EncodedRows) -> EncodedRows:
        """Return the row of ``x`` with NaN as missing; raise the ValueError of the first invalid value."""
        self.check(x)
        return without_nan(rows)

    def transform(self, rows: EncodedRows) -> EncodedRows:
        """Return encoded rows in which numbers of heavy tails are transformed, before they are scaled."""
        if not self.transforms:
            return rows
        if len(rows.values) > 1:
            return self._with_values(rows, Transform.apply)
        transforms, values = self._transforms_by_slot(), rows.values.copy()
        for j, slot in enumerate(rows.slots[0].tolist()):
            if slot in transforms:
                values[0, j] = transforms[slot].apply_one(float(values[0, j]))
        return EncodedRows(rows.slots, rows.keys, values)

    def restore_values(self, rows: EncodedRows) -> EncodedRows:
        """Return rows before :meth:`transform`, up to rounding."""
        return self._with_values(rows, Transform.invert) if self.transforms else rows

    def _with_values(self, rows: EncodedRows, change: Callable[[Transform, Array], Array]) -> EncodedRows:
        values, slots = rows.values.copy(), np.broadcast_to(rows.slots, rows.values.shape)
        for slot, one in self._transforms_by_slot().items():
            at = slots == slot
            values[at] = change(one, values[at])
        return EncodedRows(rows.slots, rows.keys, values)

    def _transforms_by_slot(self) -> dict[int, Transform]:
        if len(self._transforms) != len(self.transforms):
            self._transforms = {self.numbers[name]: one for name, one in self.transforms.items()}
        return self._transforms

    def _encode_numbers(self, x: Event) -> EncodedRows:
        """Return an encoded event of numbers; raise a KeyError if a name is not registered."""
        get = itemgetter(*x) if len(x) > 1 else None
        if get is not None:
            slots, keys = b"".join(get(self._slots)), b"".join(get(self._keys))
        else:
            slots, keys = b"".join(map(self._slots.__getitem__, x)), b"".join(map(self._keys.__getitem__, x))
        buffer = self._buffer_for(len(x))
        buffer.put[2](buffer.rows.values, 0, *x.values())
        buffer.slots[:], buffer.keys[:] = slots, keys
        return buffer.rows

    def _buffer_for(self, width: int) -> RowBuffer:
        buffer = self._buffers.get(width)
        if buffer is None:
            if len(self._buffers) >= _MOST_WIDTHS:
                self._buffers.clear()
            buffer = self._buffers[width] = RowBuffer.of(width)
        return buffer

    def _consider(self, names: tuple[Hashable, ...], x: Event) -> None:
        """Make a plan for events of these names at their second event, if a plan is possible for them.

        Names must be registered strings, and values present. A plan takes as long as a dozen events, so the
        more plans there are, the fewer are made.
        """
        if names not in self._sights:
            if len(self._sights) >= _MOST_PLANS:
                self._sights.clear()
            self._sights.add(names)
            return
        if self._misses < self._next_plan:
            return
        self._next_plan = self._misses + len(self._plans)
        if len(self._plans) >= _MOST_PLANS:
            del self._plans[next(iter(self._plans))]
        if (plan := plan_for(x, self)) is not None:
            self._plans[names] = plan

    def _entries_of(self, x: Event, learning: bool) -> _Entries:
        """Return slots, keys and values of an event's fields, registering names first if it is learned."""
        try:
            if x and self._number_types.issuperset(map(type, x.values())):
                # a list: CPython 3.11 leaks an iterator that raises while f(*iterator, key=…) unpacks it
                entries = list(map(self._entries.__getitem__, x))
                slots, keys = zip(*entries, strict=True)
                return slots, keys, list(x.values())
            if self._moment_types and not self._moment_types.isdisjoint(map(type, x.values())):
                x = with_calendar(named(x), self.scaled)
        except (AttributeError, KeyError, TypeError):
            pass
        try:
            return self._known_entries(x)
        except (AttributeError, KeyError, TypeError):
            return self._new_entries(x, learning)

    def _known_entries(self, x: Event) -> _Entries:
        """Return the entries of an event whose names are registered strings; else raise a KeyError."""
        slots, keys, values = [], [], []
        entries, categories, numbers = self._entries, self._categories, self._number_types
        name: Any  # a registered string, or its entry is missing
        for name, value in x.items():
            kind = type(value)
            if kind in numbers:
                slot, key = entries[name]
            elif kind is str:
                key, value = categories[name, value], 1.0
                slot = self.category_slot(name)
            elif kind is bool:
                key, value = categories[name, str(value)], 1.0
                slot = self.category_slot(name)
            elif value is None:
                if name not in entries and type(name) is str and not self.missing_numbers(name):
                    continue
                slot, key = entries[name]
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
        """Return the entries of any event; raise a ValueError if it is invalid."""
        fields = named(x)
        slots, keys, values = [], [], []
        unknown = []
        for name, value in fields.items():
            kind = kind_of_value(value)
            if kind is None:
                raise ValueError(unaccepted(name, value))
            if kind == "category":
                slots.append(self.category_slot(name))
                keys.append(self.category_key(name, str(value)))
                values.append(1.0)
            elif kind == "missing":
                for number in self.missing_numbers(name):
                    slot, key = self.entry(number)
                    slots.append(missing(slot))
                    keys.append(key)
                    values.append(0.0)
            elif kind == "moment":
                self._moment_types.add(type(value))
                return self._new_entries(with_calendar(fields, self.scaled), learning)
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

    def missing_numbers(self, field: str) -> list[str]:
        """Return the numbers that are missing if a field is: itself, or its calendar inputs."""
        if not self.scaled:
            return []
        if field in self.numbers or field + ELAPSED not in self.numbers:
            return [field] if field in self.numbers else []
        return [name for name in calendar_names(field) if name in self.numbers]

    def encode_many(self, events: Sequence[Event], learned: Sequence[bool]) -> EncodedRows:
        """Return encoded rows of events in turn, the names of the ``learned`` registered as they come.

        Raises a RowError for a value that cannot be taken, or NamesFullError; names may be registered then.
        """
        parts, row = [], 0
        try:
            for row, x in enumerate(events):
                parts.append(self._entries_of(x, learned[row]))
        except ValueError as error:
            raise RowError(row, str(error)) from None
        except NamesFullError as full:
            full.row = row
            raise
        if not parts:
            return empty_rows(0, 0)
        width = max(len(part[0]) for part in parts)
        rows = empty_rows(len(parts), width)
        filled = np.arange(width) < np.array([len(part[0]) for part in parts], dtype=np.intp)[:, None]
        arrays: tuple[AnyArray, ...] = rows
        for array, column in zip(arrays, zip(*parts, strict=True), strict=True):
            try:
                array[filled] = np.array(list(chain.from_iterable(column)), dtype=array.dtype)
            except (OverflowError, ValueError):  # a number that has no float
                check_events(events, self.largest)
                raise
        return without_nan(rows)

    def encode_alike(self, events: Sequence[Event]) -> EncodedRows | None:
        """Return encoded rows of events that all have the numbers of the first, known, and nothing else."""
        names = tuple(events[0]) if isinstance(events[0], Mapping) else ()
        if not names or not all(type(name) is str and name in self._entries for name in names):
            return None
        try:
            if set(map(len, events)) != {len(names)}:
                return None
            names = tuple(sorted(names, key=lambda name: self._entries[name][1]))
            values = list(chain.from_iterable(map(getter(names), events)))
            if not {*map(type, values)} <= {int, float}:
                return None
            encoded = np.fromiter(values, np.float64, len(values)).reshape(-1, len(names))
        except (KeyError, TypeError, OverflowError):
            return None
        slots, keys = zip(*(self._entries[str(name)] for name in names), strict=True)
        rows = EncodedRows(np.array([slots], dtype=np.int32), np.array([keys], dtype=np.uint64), encoded)
        return without_nan(rows)

    def check(self, x: Event) -> None:
        """Raise the ValueError that names the first field of ``x`` that cannot be taken, if any."""
        check_event(x, self.largest)
