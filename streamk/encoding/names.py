"""The names of a learner's inputs: their slots, their statistics and their directions.

When a learner holds the maximum number of names, those of rare numbers are evicted. A name's *use* is how
often its number was learned; it halves at each eviction. Between evictions it costs nothing, since the
statistics of a number count its values: ``uses`` ``(names, 3)`` holds their counts at the last eviction, in
two columns, and the use up to then. Names without a row are newer. If scales follow the stream, counts end at
the horizon, and the age of the statistics replaces them.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from streamk.arrays import Array, Json, Places
from streamk.encoding.event_buffer import EventBuffer
from streamk.encoding.keys import (
    AUTO,
    category_key,
    category_slot,
    number_key,
    number_position_key,
    number_slot_key,
)
from streamk.encoding.rows import ABSENT, LARGEST, LARGEST_UNSCALED, MOST_SLOTS, UNSCALED
from streamk.encoding.scaling import AGE, COUNT, FIXED, FOLLOWING, GIVEN, HELD
from streamk.encoding.transforms import Transform

SHARE = 8  # one in so many names leaves at a time
COLUMNS = 3
_COUNTED, _AGED, _USE = range(COLUMNS)
_FADING = 0.5
MOST_NAMES = MOST_SLOTS
_MOST_KEYS = 65_536
_LONGEST = 256  # characters of a category whose key is cached
MOST_CHANGED = 20  # fields whose change of kind is recorded
IN_A_STRING = "Put a free-form field into a string"


class NamesFullError(Exception):
    """The error of too many names of numbers, in row ``row`` of a batch or in an event."""

    row = 0


def no_uses() -> Array:
    """Return the uses of a learner without any eviction."""
    return np.zeros((0, COLUMNS))


def faded(statistics: Array, uses: Array) -> Array:
    """Return the present uses of all names, one row for each row of the statistics."""
    now = np.zeros((len(statistics), COLUMNS))
    now[: len(uses)] = uses
    counted, aged = statistics[:, COUNT].copy(), np.zeros(len(statistics))
    counted += (counted > 0.0) & ~np.isnan(statistics[:, HELD])  # the value held is not counted
    counted = np.maximum(counted, 1.0)  # it waits to be learned
    if statistics.shape[1] == FOLLOWING:
        aged = statistics[:, AGE]
    since = np.maximum(counted - now[:, _COUNTED], np.abs(aged - now[:, _AGED]))
    now[:, _USE] = _FADING * now[:, _USE] + since
    now[:, _COUNTED], now[:, _AGED] = counted, aged
    return now


def staying(statistics: Array, uses: Array, held: Sequence[int], leave: int) -> Places:
    """Return the slots that stay, in order, after ``leave`` evictions of the least used, oldest names.

    ``uses`` are those of :func:`faded`; ``held`` slots stay, and names with fixed scales are evicted last.
    """
    fixed = statistics[:, HELD] == GIVEN
    order = np.lexsort((uses[:, _USE], fixed))
    gone = order[~np.isin(order, held)][:leave]
    return np.setdiff1d(np.arange(len(statistics)), gone)


def most_used(parts: Sequence[Any], most: int | None) -> tuple[list[str], dict[str, float] | None]:
    """Return the union of the names of learners' inputs, at most the ``most`` used ones, and their uses.

    ``parts`` are :class:`Names`; with ``most`` None, no name is evicted. The order is
    that of first appearance. The uses are None if there was no eviction in any of them and none is needed.
    """
    names = list(dict.fromkeys(chain.from_iterable(part.numbers for part in parts)))
    if most is None or (len(names) <= most and not any(len(part.uses) for part in parts)):
        return names, None
    total = dict.fromkeys(names, 0.0)
    for part in parts:
        statistics = part.statistics[: part.slots]
        use = np.where(statistics[:, HELD] == GIVEN, np.inf, faded(statistics, part.uses)[:, _USE])
        for name, value in zip(part.numbers, use.tolist(), strict=True):
            total[name] += value
    leave = sorted(names, key=total.__getitem__)[: max(0, len(names) - most)]
    gone = set(leave)
    return [name for name in names if name not in gone], total


def pooled_uses(statistics: Array, names: Sequence[str], use: dict[str, float] | None) -> Array:
    """Return the uses of names with pooled statistics; ``use`` is the result of :func:`most_used`."""
    if use is None:
        return no_uses()
    uses, sums = faded(statistics, no_uses()), np.array([use[name] for name in names])
    uses[:, _USE] = np.where(np.isfinite(sums), sums, uses[:, _USE])
    return uses


class Movable(Protocol):
    """Encoded events whose slots follow the names."""

    def move(self, places: NDArray[np.int32]) -> None:
        """Move slot ``k`` to ``places[k]``; numbers of evicted names, of place −1, are absent."""
        ...


class Names:
    """Names of numbers in the order of learning, and the keys of numbers and categories.

    Parameters
    ----------
    directions
        ``"keyed"`` (by name), ``"dense"`` or ``"structured"`` (by order of first learning), or ``"auto"``:
        structured until :meth:`settle` chooses.
    scaled
        Whether numbers have slots of statistics.
    largest
        The largest absolute value of numbers that are not scaled.
    kept
        How many numbers the statistics of a name have.
    evicts
        Whether rare names are evicted if there are too many, if directions are keyed.
    remedy
        The advice in the error about too many names, if none are evicted.

    Attributes
    ----------
    transforms
        The transforms of numbers with heavy tails, by name.
    changed
        Fields that changed from numbers to categories or back since this object was made: the name, and
        whether it became a category. Only the first :data:`MOST_CHANGED`.
    """

    changed: tuple[tuple[str, bool], ...] = ()
    waiting: EventBuffer | None = None  # encoded events that are yet to be learned
    samples: tuple[Movable, ...] = ()  # encoded events that were learned

    def __init__(
        self,
        directions: str = "keyed",
        scaled: bool = True,
        largest: float = LARGEST_UNSCALED,
        kept: int = FIXED,
        evicts: bool = False,
        remedy: str = IN_A_STRING,
    ) -> None:
        self.settled = directions != AUTO
        self.directions, self.scaled = directions if self.settled else "structured", scaled
        self.largest = LARGEST if scaled else largest
        self.numbers: dict[str, int] = {}
        self.transforms: dict[str, Transform] = {}
        self.statistics: Array = np.zeros((0, kept))
        self.evicts, self.remedy, self.uses = evicts, remedy, no_uses()
        self._forget()

    def _forget(self) -> None:
        """Clear the caches of slots and keys."""
        self._entries: dict[Hashable, tuple[int, int]] = {}
        self._slots: dict[Hashable, bytes] = {}  # of the entries, as they stand in memory
        self._keys: dict[Hashable, bytes] = {}
        self._categories: dict[tuple[str, str], int] = {}
        self._category_slots: dict[str, int] = {}
        self._category_fields: set[str] = set()  # of which a value was met
        self._transforms: dict[int, Transform] = {}  # by slot

    def __getstate__(self) -> Json:
        state = {k: v for k, v in self.__dict__.items() if not k.startswith("_") and k != "changed"}
        return {**state, "statistics": self.statistics[: len(self.numbers)].copy()}

    def __setstate__(self, state: Json) -> None:
        self.__dict__.update(state)
        self._forget()

    def settle(self, directions: str) -> None:
        """Set the directions of numbers; rows encoded before must no longer be used."""
        self.settled, self.directions = True, directions
        if not self.registers:
            self.numbers.clear()
        self._forget()

    def set_names(self, names: Sequence[str], statistics: Array, uses: Array | None = None) -> None:
        """Replace the names and, if they are scaled, their statistics and uses."""
        self.numbers = {name: slot for slot, name in enumerate(names)}
        self.statistics = statistics.copy()
        self.uses = no_uses() if uses is None else uses
        self.set_transforms({name: one for name, one in self.transforms.items() if name in self.numbers})
        self._forget()

    def set_transforms(self, transforms: dict[str, Transform]) -> None:
        """Transform these numbers, and no others."""
        self.transforms, self._transforms = transforms, {}

    @property
    def slots(self) -> int:
        """How many names have statistics."""
        return len(self.numbers) if self.scaled else 0

    @property
    def registers(self) -> bool:
        """Whether a number's name must be known before it counts."""
        return self.scaled or self.positional

    @property
    def positional(self) -> bool:
        """Whether a number's direction is that of its position."""
        return self.directions != "keyed"

    @property
    def most(self) -> int | None:
        """The number of names above which rare ones are evicted, None if none are."""
        return MOST_NAMES if self.evicts and self.scaled and not self.positional else None

    def positions(self, names: Sequence[str]) -> list[int]:
        """Return the positions of sorted names; new ones follow the others, as if they were registered."""
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
                raise ValueError(self._too_many(name))
            return number_slot_key(position)
        return number_key(name) if self.directions == "keyed" else number_position_key(position)

    def category_key(self, name: str, value: str) -> int:
        """Return the direction of ``name=value``."""
        pair = (name, value)
        key = self._categories.get(pair)
        if key is None:
            if name not in self._category_fields:
                self._meet_category(name)
            key = category_key(name, value)
            if len(value) <= _LONGEST:
                if len(self._categories) >= _MOST_KEYS:
                    self._categories.clear()
                self._categories[pair] = key
        return key

    def _meet_category(self, name: str) -> None:
        """Record that a field has values that are categories."""
        if len(self._category_fields) >= _MOST_KEYS:
            self._category_fields.clear()
        self._category_fields.add(name)
        if name in self.numbers or name in self._entries:
            self._note_change(name, True)

    def _note_change(self, name: str, category: bool) -> None:
        if len(self.changed) < MOST_CHANGED and name not in dict(self.changed):
            self.changed = (*self.changed, (name, category))

    def category_slot(self, name: str) -> int:
        """Return the number that all values of a category have as their slot."""
        slot = self._category_slots.get(name)
        if slot is None:
            if len(self._category_slots) >= _MOST_KEYS:
                self._category_slots.clear()
            slot = self._category_slots[name] = category_slot(name)
        return slot

    def known_categories(self) -> list[tuple[tuple[str, str], int]]:
        """Return recent categories, each a name and a value, with their keys."""
        return list(self._categories.items())

    def entry(self, name: str) -> tuple[int, int]:
        """Return slot and key of a number that is registered, if it must be."""
        entry = self._entries.get(name)
        if entry is None:
            if not self.registers and len(self._entries) >= _MOST_KEYS:
                self._forget()
            if name in self._category_fields:
                self._note_change(name, False)
            entry = self._entries[name] = self.slot(name), self.number_key(name, self.numbers.get(name, 0))
            self._slots[name], self._keys[name] = struct.pack("i", entry[0]), struct.pack("Q", entry[1])
        return entry

    def register(self, names: Sequence[str]) -> None:
        """Register the new names of numbers of one event, in sorted order.

        If there are too many, raise NamesFullError if rare names can be evicted (:meth:`evict_for`), else a
        ValueError.
        """
        new = sorted({name for name in names if name not in self.numbers}) if self.registers else []
        if len(self.numbers) + len(new) > MOST_NAMES:
            if self.most is not None:
                raise NamesFullError
            raise ValueError(self._too_many(new[0]))
        for name in new:
            self.numbers[name] = len(self.numbers)
        if self.scaled and len(self.numbers) > len(self.statistics):
            size = max(8, 2 * len(self.statistics), len(self.numbers))
            grown = np.zeros((size, self.statistics.shape[1]))
            grown[: len(self.statistics)] = self.statistics
            self.statistics = grown

    def _too_many(self, name: str) -> str:
        remedy = 'Use directions="keyed", or put a free-form field into a string'
        return (
            f"field {name!r} would be among more than {MOST_NAMES:,} names of numbers, the most that a "
            f"learner holds. {remedy if self.positional else self.remedy}"
        )

    def evict_for(self, names: Sequence[str]) -> None:
        """Evict the least used names, at least an eighth, so that those of one event can be registered.

        Slots of later names decrease: a name's slot is always its index among the names.
        """
        check_fits(names)
        known = [self.numbers[name] for name in names if name in self.numbers]
        needed = len(self.numbers) + len(names) - len(known) - MOST_NAMES
        statistics = self.statistics[: len(self.numbers)]
        uses = faded(statistics, self.uses)
        stay = staying(statistics, uses, known, max(needed, MOST_NAMES // SHARE))
        places = np.full(len(self.numbers), UNSCALED, dtype=np.int32)
        places[stay] = np.arange(len(stay))
        kept = list(self.numbers)
        self.set_names([kept[slot] for slot in stay.tolist()], statistics[stay], uses[stay])
        for stored in self.samples if self.waiting is None else (self.waiting, *self.samples):
            stored.move(places)

    def forget_after(self, count: int) -> None:
        """Remove the names registered after the first ``count``."""
        if count != len(self.numbers):
            self.numbers = dict(list(self.numbers.items())[:count])
            self._forget()

    @contextmanager
    def forgetting_on_error(self) -> Iterator[None]:
        """Undo registrations of names and the choice of directions in the block if it raises a ValueError."""
        before, settled = len(self.numbers), self.settled
        try:
            yield
        except ValueError:
            if self.settled and not settled:
                self.settle("structured")
                self.settled = False
            self.forget_after(before)
            raise


def check_fits(names: Sequence[str]) -> None:
    """Raise a ValueError if one event has more names of numbers than a learner holds."""
    if len(names) > MOST_NAMES:
        raise ValueError(
            f"the event has {len(names):,} numbers, and a learner holds the names of {MOST_NAMES:,} at most. "
            f"{IN_A_STRING}"
        )
