"""Names to numbers: an event becomes slots, keys and values.

A number has a *slot*, where its running statistics live; a string or a boolean is the one-hot input
``name=value``, worth 1 and never scaled. ``None`` is a number at its mean where the learner knows the name as
a number, and nothing otherwise. Names are learned only from events that are learned; a number that was never
learned has no scale yet and adds nothing. The name of a field that is no text is its text, and that of a
whole number the same as a float: ``1`` and ``1.0`` are one name, and one key of a dict.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from itertools import chain
from numbers import Real
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamk.encoding.keys import AUTO, category_key, number_key, number_position_key, number_slot_key
from streamk.encoding.rows import (
    ABSENT,
    LARGEST,
    LARGEST_UNSCALED,
    MOST_SLOTS,
    UNSCALED,
    RowError,
    Rows,
    empty_rows,
    missing,
)
from streamk.encoding.scaling import FIXED

Event = Mapping[Hashable, Any]
MOST_NAMES = MOST_SLOTS
_TOO_MANY = (
    f"would be among more than {MOST_NAMES:,} names of numbers, the most that a learner holds. Use "
    "scale_inputs=False with keyed directions, which keeps no names, or put a free-form field into a string"
)
_MOST_PLANS = 256
_LOOKED_AT = 4  # one in so many events without a plan
_MOST_WIDTHS = 64
_MOST_KEYS = 65_536
_CATEGORIES = (bool, np.bool_, str)
_NOTHING = {type(None)}
_Entries = tuple[Sequence[int], Sequence[int], Sequence[Any]]  # slots, keys, values


class _Plan(NamedTuple):
    """How to encode the events that have these names, numbers and categories being where they were."""

    get_numbers: Callable[[Event], Sequence[Any]]
    categories: tuple[str, ...]
    numbers: int
    pack: Callable[..., None]
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


def kind_of(value_type: type) -> str | None:
    """Return ``"number"``, ``"category"``, ``"missing"``, or None if the type is not accepted."""
    if issubclass(value_type, _CATEGORIES):
        return "category"
    if issubclass(value_type, (Real, Decimal)) and not issubclass(value_type, np.timedelta64):
        return "number"
    return "missing" if value_type is type(None) else None


def name_of(field: Hashable) -> str:
    """Return the name of a field: its text, and for a whole number that of an integer.

    Examples
    --------
    >>> name_of("a"), name_of(1), name_of(1.0), name_of(True)
    ('a', '1', '1', 'True')
    """
    if isinstance(field, (float, np.floating)) and float(field).is_integer():
        field = int(field)
    return str(field)


class Inputs:
    """The names a learner knows, and the encoder of events over them.

    Parameters
    ----------
    directions
        ``"keyed"`` (by name), ``"dense"`` or ``"structured"`` (by order of first learning), or ``"auto"``:
        structured until :meth:`settle` says.
    scaled
        Whether numbers have slots of statistics.
    largest
        What numbers that are not scaled may not exceed.
    kept
        Numbers of statistics of each name.
    """

    def __init__(
        self,
        directions: str = "keyed",
        scaled: bool = True,
        largest: float = LARGEST_UNSCALED,
        kept: int = FIXED,
    ) -> None:
        self.settled = directions != AUTO
        self.directions, self.scaled = directions if self.settled else "structured", scaled
        self.largest = LARGEST if scaled else largest
        self.numbers: dict[str, int] = {}
        self.statistics: NDArray[np.float64] = np.zeros((0, kept))
        self._forget()

    def _forget(self) -> None:
        self._plans: dict[Any, _Plan] = {}
        self._sights: set[Any] = set()
        self._misses = 0
        self._entries: dict[str, tuple[int, int]] = {}
        self._categories: dict[tuple[str, str], int] = {}
        self._rooms: dict[int, _Room] = {}
        self._number_types: set[type] = {int, float}

    def __getstate__(self) -> dict[str, Any]:
        state = {k: v for k, v in self.__dict__.items() if not k.startswith("_")}
        return {**state, "statistics": self.statistics[: len(self.numbers)].copy()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def settle(self, directions: str) -> None:
        """Say what directions numbers have from now on; rows encoded before are no more to be used."""
        self.settled, self.directions = True, directions
        if not self.registers:
            self.numbers.clear()
        self._forget()

    def set_names(self, names: Sequence[str], statistics: NDArray[np.float64]) -> None:
        """Take over names and, if they are scaled, their statistics."""
        self.numbers = {name: slot for slot, name in enumerate(names)}
        self.statistics = statistics.copy()
        self._forget()

    @property
    def registers(self) -> bool:
        """Whether a number's name must be known before it counts."""
        return self.scaled or self.positional

    @property
    def positional(self) -> bool:
        """Whether a number's direction is that of its position."""
        return self.directions != "keyed"

    def encode(self, x: Event, learning: bool) -> Rows:
        """Return one encoded row; with ``learning``, names not seen before are registered first.

        The arrays belong to the encoder and are overwritten by the next event of as many fields.

        Raises
        ------
        ValueError
            If a value cannot be taken, naming its field; no name was then registered.
        """
        try:
            names = tuple(x)
            plan = self._plans.get(names)
        except TypeError:
            raise ValueError(_no_dict(x)) from None
        if plan is not None:
            rows, first = plan.rows, plan.numbers
            try:
                numbers = plan.get_numbers(x)
                if self._number_types.issuperset(map(type, numbers)):
                    plan.pack(rows.values, 0, *numbers)
                    if not plan.categories:
                        return rows
                    keys = rows.keys[0]
                    for j, name in enumerate(plan.categories, first):
                        value = x[name]
                        if not isinstance(value, _CATEGORIES):
                            break
                        keys[j] = self.category_key(name, str(value))
                    else:
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
                if len(self._sights) >= _MOST_PLANS:
                    self._sights.clear()
                self._sights.add(names)
        try:
            return self._row(*entries)
        except struct.error:  # an integer that has no float
            self.check(x)
            raise

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
        """Return the entries of an event whose names are texts that were met before; else raise a KeyError."""
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
        named = _named(x)
        slots, keys, values = [], [], []
        unknown = []
        for name, value in named.items():
            kind = kind_of(type(value))
            if kind is None:
                raise ValueError(unaccepted(name, value))
            if kind == "category":
                slots.append(UNSCALED)
                keys.append(self.category_key(name, str(value)))
                values.append(1.0)
            elif kind == "missing":
                if self.scaled and name in self.numbers:
                    slot, key = self._entry(name)
                    slots.append(missing(slot))
                    keys.append(key)
                    values.append(0.0)
            elif self.registers and name not in self.numbers:
                unknown.append(name)
            else:
                self._number_types.add(type(value))
                slot, key = self._entry(name)
                slots.append(slot)
                keys.append(key)
                values.append(_as_float(name, value, self.largest))
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
                values.append(float(named[name]))
        return slots, keys, values

    def _entry(self, name: str) -> tuple[int, int]:
        """Return slot and key of a number that is registered, if it must be."""
        entry = self._entries.get(name)
        if entry is None:
            if not self.registers and len(self._entries) >= _MOST_KEYS:
                self._entries.clear()
                self._plans.clear()
            entry = self._entries[name] = self.slot(name), self.number_key(name, self.numbers.get(name, 0))
        return entry

    def encode_many(self, events: Sequence[Event], learned: Sequence[bool]) -> Rows:
        """Return encoded rows of events in turn, the names of the ``learned`` registered as they come.

        Raises
        ------
        RowError
            If a value cannot be taken, naming row and field; names may have been registered then.
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
                self.check_many(events)
                raise
        return rows

    def check_many(self, events: Sequence[Event]) -> None:
        """Raise the RowError that names row and field of the first value that cannot be taken, if any."""
        row = 0
        try:
            for row, x in enumerate(events):  # noqa: B007 (an error names the row)
                self.check(x)
        except ValueError as error:
            raise RowError(row, str(error)) from None

    def encode_alike(self, events: Sequence[Event]) -> Rows | None:
        """Return encoded rows of events that all have the numbers of the first, known, and nothing else.

        None if they are not so; a batch of such rows has one row of slots and keys.
        """
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
        slots, keys = zip(*map(self._entries.__getitem__, names), strict=True)  # type: ignore[arg-type]
        return Rows(np.array([slots], dtype=np.int32), np.array([keys], dtype=np.uint64), encoded)

    @contextmanager
    def forgetting_on_error(self) -> Iterator[None]:
        """Forget the names registered and the directions settled since, if a value is refused."""
        before, settled = len(self.numbers), self.settled
        try:
            yield
        except ValueError:
            if self.settled and not settled:
                self.settle("structured")
                self.settled = False
            self.forget_after(before)
            raise

    def positions(self, names: Sequence[str]) -> list[int]:
        """Return the positions of sorted names; new ones follow the known, as learning would place them."""
        new = iter(range(len(self.numbers), len(self.numbers) + len(names)))
        return [self.numbers[name] if name in self.numbers else next(new) for name in names]

    def slot(self, name: str) -> int:
        """Return the slot of a number, −1 if it has no statistics (scaling off, or not yet learned)."""
        return self.numbers.get(name, UNSCALED) if self.scaled else UNSCALED

    def number_key(self, name: str, position: int) -> int:
        """Return the direction of a number; a number that cannot be scaled yet is absent."""
        if self.scaled and name not in self.numbers:
            return ABSENT
        if self.directions == "structured":
            if position >= MOST_SLOTS:
                raise ValueError(f"field {name!r} {_TOO_MANY}")
            return number_slot_key(position)
        return number_key(name) if self.directions == "keyed" else number_position_key(position)

    def category_key(self, name: str, value: str) -> int:
        """Return the direction of ``name=value``."""
        pair = (name, value)
        key = self._categories.get(pair)
        if key is None:
            if len(self._categories) >= _MOST_KEYS:
                self._categories.clear()
            key = self._categories[pair] = category_key(name, value)
        return key

    def register(self, names: Sequence[str]) -> None:
        """Learn the names of numbers first met in one event, in sorted order."""
        new = sorted({name for name in names if name not in self.numbers}) if self.registers else []
        if len(self.numbers) + len(new) > MOST_NAMES:
            raise ValueError(f"field {new[0]!r} {_TOO_MANY}")
        for name in new:
            self.numbers[name] = len(self.numbers)
        if self.scaled and len(self.numbers) > len(self.statistics):
            room = max(8, 2 * len(self.statistics), len(self.numbers))
            grown = np.zeros((room, self.statistics.shape[1]))
            grown[: len(self.statistics)] = self.statistics
            self.statistics = grown

    def forget_after(self, count: int) -> None:
        """Forget the names registered after the first ``count``."""
        if count != len(self.numbers):
            self.numbers = dict(list(self.numbers.items())[:count])
            self._forget()

    def check(self, x: Event) -> None:
        """Raise the ValueError that names the first field of ``x`` that cannot be taken, if any."""
        for name, value in _named(x).items():
            kind = kind_of(type(value))
            if kind is None:
                raise ValueError(unaccepted(name, value))
            if kind == "number":
                check_number(name, value, self.largest)


def _named(x: Event) -> dict[str, Any]:
    """Return an event by names."""
    try:
        named = {name_of(field): value for field, value in x.items()}
    except AttributeError:
        raise ValueError(_no_dict(x)) from None
    if len(named) < len(x):
        names = [name_of(field) for field in x]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"two fields of the event have the same name {twice!r}")
    return named


def _no_dict(x: object) -> str:
    return f"an event must be a dict of field names to values, not {type(x).__name__}"


def _getter(fields: Sequence[Hashable]) -> Callable[[Event], Sequence[Any]]:
    if len(fields) > 1:
        return itemgetter(*fields)
    return (lambda event: (event[fields[0]],)) if fields else lambda event: ()


def unaccepted(name: str, value: object) -> str:
    """Return the sentence that refuses a value for its type."""
    return (
        f"field {name!r} is a {type(value).__name__}; a field must be a number, a boolean, a string "
        "or None (missing)"
    )


def _as_float(name: str, value: Any, largest: float) -> float:
    try:
        return float(value)
    except (OverflowError, ValueError):
        check_number(name, value, largest)
        raise


def check_number(name: str, value: Any, largest: float) -> None:
    """Raise ValueError if a number is NaN, infinite or too large to be squared, or to be told from others."""
    try:
        number = float(value)
    except (OverflowError, ValueError):
        number = math.inf
    if not abs(number) <= largest:
        shown = f"{number:g}" if not math.isinf(number) else str(value)[:40]
        remedy = "" if largest == LARGEST else ", for want of scaling: scale it, or subtract where it begins"
        raise ValueError(
            f"field {name!r} is {shown}; numbers must be finite and at most {largest:g} in size{remedy} "
            "(a missing value is None)"
        )
