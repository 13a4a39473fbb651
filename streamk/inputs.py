"""Names to numbers: a dict becomes a row of slots, keys and values.

Fields are taken in one order whatever order they arrive in: numbers by name, then categories by name.
A number has a *slot*, where its running statistics live; a string or a boolean is the one-hot input
``name=value``, worth 1 and never scaled; ``None`` is missing and adds nothing. Names are learned only
from events that are learned; a number that was never learned has no scale yet and adds nothing.
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

from streamk.features.directions import AUTO, category_key, number_key, number_position_key, number_slot_key
from streamk.rows import ABSENT, LARGEST, LARGEST_UNSCALED, MOST_SLOTS, UNSCALED, Rows, first_bad

Event = Mapping[Hashable, Any]
MOST_NAMES = MOST_SLOTS
_TOO_MANY = (
    f"would be among more than {MOST_NAMES:,} names of numbers, the most that a learner holds. Use "
    "scale_inputs=False with keyed directions, which keeps no names, or put a free-form field into a string"
)
_MOST_PLANS = 256
_PLAIN_NUMBERS = {int, float}
_MOST_KEYS = 65_536


class _Plan(NamedTuple):
    """How to encode the events that have these names with these types."""

    names: tuple[str, ...] | None  # of the fields as they came, if not all are texts
    numbers: int
    get_numbers: Callable[[Event], Any] | None
    categories: tuple[tuple[str, Hashable], ...]
    pack: Callable[..., None]
    rows: Rows
    unknown: bool


def kind_of(value_type: type) -> str | None:
    """Return ``"number"``, ``"category"``, ``"missing"``, or None if the type is not accepted."""
    if issubclass(value_type, (bool, np.bool_, str)):
        return "category"
    if issubclass(value_type, (Real, Decimal)) and not issubclass(value_type, np.timedelta64):
        return "number"
    return "missing" if value_type is type(None) else None


class Inputs:
    """The names a learner knows, and the encoder of events over them.

    Parameters
    ----------
    directions
        ``"keyed"`` (by name), ``"dense"`` or ``"structured"`` (by order of first learning), or ``"auto"``:
        structured until :meth:`settle` says.
    scaled
        Whether numbers have slots of statistics.
    """

    def __init__(self, directions: str = "keyed", scaled: bool = True) -> None:
        self.settled = directions != AUTO
        self.directions, self.scaled = directions if self.settled else "structured", scaled
        self.numbers: dict[str, int] = {}
        self.statistics: NDArray[np.float64] = np.zeros((0, 3))
        self._forget()

    def _forget(self) -> None:
        self._plans: dict[Any, _Plan] = {}
        self._keys: dict[tuple[str, str], int] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in ("_plans", "_keys")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def settle(self, directions: str) -> None:
        """Say what directions numbers have from now on; rows encoded before are no more to be used."""
        self.settled, self.directions = True, directions
        if not self.registers:
            self.numbers.clear()
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

        The arrays belong to the encoder and are overwritten by the next event of the same shape.

        Raises
        ------
        ValueError
            If a value cannot be taken, naming its field; no name was then registered.
        """
        plan = self._plan_of(x)
        if learning and plan.unknown:
            self.check(x)
            self.register([str(name) for name, value in x.items() if kind_of(type(value)) == "number"])
            return self.encode(x, False)
        rows = plan.rows
        if plan.get_numbers is not None:
            try:
                plan.pack(rows.values, 0, *plan.get_numbers(x))
            except (OverflowError, struct.error, ValueError, TypeError):
                self.check(x)
                raise
        if plan.categories:
            keys = rows.keys[0]
            for j, (name, field) in enumerate(plan.categories, plan.numbers):
                keys[j] = self.category_key(name, str(x[field]))
        return rows

    def encode_alike(self, events: Sequence[Event]) -> Rows | None:
        """Return encoded rows of events that all have the numbers of the first, known, and nothing else.

        None if they are not so; a batch of such rows has one row of slots and keys.
        """
        plan = self._plan_of(events[0])
        if plan.unknown or plan.categories or plan.get_numbers is None or len(events[0]) != plan.numbers:
            return None
        if set(map(len, events)) != {plan.numbers}:
            return None
        try:
            values = list(chain.from_iterable(map(plan.get_numbers, events)))
            if not {*map(type, values)} <= _PLAIN_NUMBERS:
                return None
            encoded = np.fromiter(values, np.float64, len(values))
        except (KeyError, OverflowError):
            return None
        return Rows(plan.rows.slots.copy(), plan.rows.keys.copy(), encoded.reshape(-1, plan.numbers))

    def encode_checked(self, x: Event, learning: bool) -> Rows:
        """Return one encoded row as :meth:`encode` does, its numbers checked too."""
        rows = self.encode(x, learning)
        if first_bad(*rows) >= 0:
            self.check(x)
        return rows

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

    def meets_new(self, x: Event) -> bool:
        """Return whether learning ``x`` would register a name."""
        return self._plan_of(x).unknown

    def _plan_of(self, x: Event) -> _Plan:
        shape = _shape(x)
        plan = self._plans.get(shape)
        # 1, 1.0 and True are one key of a dict, but three names
        if plan is None or (plan.names is not None and plan.names != tuple(map(str, x))):
            plan = self._plan(x, shape)
        return plan

    def _plan(self, x: Event, shape: Any) -> _Plan:
        numbers: list[tuple[str, Hashable]] = []
        categories: list[tuple[str, Hashable]] = []
        names: set[str] = set()
        for field, value in x.items():
            name = str(field)
            if name in names:
                raise ValueError(f"two fields of the event have the same name {name!r}")
            names.add(name)
            kind = kind_of(type(value))
            if kind is None:
                raise ValueError(unaccepted(name, value))
            if kind != "missing":
                (numbers if kind == "number" else categories).append((name, field))
        numbers.sort(key=itemgetter(0))
        categories.sort(key=itemgetter(0))
        positions = self.positions([name for name, _ in numbers])
        unknown = self.registers and any(name not in self.numbers for name, _ in numbers)
        width = len(numbers) + len(categories)
        rows = Rows(
            np.full((1, width), UNSCALED, dtype=np.int32),
            np.zeros((1, width), dtype=np.uint64),
            np.ones((1, width), dtype=np.float64),
        )
        for j, (name, _) in enumerate(numbers):
            rows.slots[0, j] = self.slot(name)
            rows.keys[0, j] = self.number_key(name, positions[j])
        fields = [field for _, field in numbers]
        getter: Callable[[Event], Any] | None = None
        if fields:
            getter = _one_item(fields[0]) if len(fields) == 1 else itemgetter(*fields)
        plan = _Plan(
            None if all(type(field) is str for field in x) else tuple(map(str, x)),
            len(numbers),
            getter,
            tuple(categories),
            struct.Struct(f"{len(numbers)}d").pack_into,
            rows,
            unknown,
        )
        if len(self._plans) >= _MOST_PLANS:
            self._plans.clear()
        self._plans[shape] = plan
        return plan

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
        key = self._keys.get(pair)
        if key is None:
            if len(self._keys) >= _MOST_KEYS:
                self._keys.clear()
            key = self._keys[pair] = category_key(name, value)
        return key

    def register(self, names: Sequence[str]) -> None:
        """Learn the names of numbers first met in one event, in sorted order."""
        new = sorted(set(names) - self.numbers.keys()) if self.registers else []
        if len(self.numbers) + len(new) > MOST_NAMES:
            raise ValueError(f"field {new[0]!r} {_TOO_MANY}")
        for name in new:
            self.numbers[name] = len(self.numbers)
        if new:
            self._plans.clear()
            if self.scaled:
                grown = np.zeros((len(self.numbers), 3))
                grown[: len(self.statistics)] = self.statistics
                self.statistics = grown

    def forget_after(self, count: int) -> None:
        """Forget the names registered after the first ``count``."""
        if count != len(self.numbers):
            self.numbers = dict(list(self.numbers.items())[:count])
            self.statistics = self.statistics[:count]
            self._forget()

    def check(self, x: Event) -> None:
        """Raise the ValueError that names the first field of ``x`` that cannot be taken, if any."""
        self._plan_of(x)
        largest = LARGEST if self.scaled else LARGEST_UNSCALED
        for field, value in x.items():
            if kind_of(type(value)) == "number":
                check_number(str(field), value, largest)


def _shape(x: Event) -> tuple[tuple[Hashable, ...], tuple[type, ...]]:
    try:
        return (tuple(x), tuple(map(type, x.values())))
    except (AttributeError, TypeError):
        raise ValueError(
            f"an event must be a dict of field names to values, not {type(x).__name__}"
        ) from None


def _one_item(field: Hashable) -> Callable[[Event], Any]:
    return lambda event: (event[field],)


def unaccepted(name: str, value: object) -> str:
    """Return the sentence that refuses a value for its type."""
    return (
        f"field {name!r} is a {type(value).__name__}; a field must be a number, a boolean, a string "
        "or None (missing)"
    )


def check_number(name: str, value: Any, largest: float) -> None:
    """Raise ValueError if a number is NaN, infinite or too large to be squared."""
    try:
        number = float(value)
    except (OverflowError, ValueError):
        number = math.inf
    if not abs(number) <= largest:
        shown = f"{number:g}" if not math.isinf(number) else str(value)[:40]
        raise ValueError(
            f"field {name!r} is {shown}; numbers must be finite and at most {largest:g} in size "
            "(a missing value is None)"
        )
