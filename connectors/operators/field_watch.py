"""What fields hold, watched as events pass: misfits, missing values, size of numbers, changes of kind.

Every 1,000 events, shares and medians are compared with those of the first 1,000 of the run, or of those at
the last warning about the field. A field is named in the log once for each change, so that a sensor that is
off for a year is one line.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from connectors.contract.records import Raw
from connectors.events.decoding import Event, Misfits
from connectors.events.values import Fields
from streamk.encoding.fields import name_of
from streamk.encoding.names import MOST_CHANGED

log = logging.getLogger(__name__)
WINDOW = 1000  # events
MOST = 64  # fields that are watched, and have separate series
_SAMPLED = 50  # events of a batch that are examined
_FEWEST = 100  # events of a window that a share is computed from
_TOLERATED = 0.01  # share of misfits
_CHANGE = 0.25  # of the share of missing values
_UNIT = 100.0  # ratio of medians
_EXAMPLE = 60  # characters of a value in a warning
_REST = "(other fields)"


class _Seen(NamedTuple):
    """A field in one window: the share of events without a value, and the median size of its numbers."""

    missing: float
    size: float | None


class FieldWatch:
    """Watches the fields of a stream.

    Parameters
    ----------
    count
        Counts misfits: called with the name of a field and a number.
    show
        Takes the share of missing values of every field in the last window.
    """

    def __init__(
        self,
        count: Callable[[str, int], None] = lambda name, count: None,
        show: Callable[[Mapping[str, float]], None] = lambda shares: None,
    ) -> None:
        self._count, self._show = count, show
        self._before: dict[str, _Seen] = {}
        self._misfitting = dict[str, Misfits]()  # of the window
        self._named = set[str]()  # fields whose misfits the log has named
        self._events = self._examined = 0
        self._values: dict[str, list[object]] = {}

    def add(self, events: Sequence[Fields], misfits: Mapping[str, Misfits], types: Mapping[str, str]) -> None:
        """Take a batch of events, the values in it that do not fit the types of their fields, and these."""
        self._events += len(events)
        for event in events[:: max(1, len(events) // _SAMPLED)]:
            self._examined += 1
            for name, value in event.items():
                values = self._values.get(name)
                if values is None:
                    if len(self._values) >= MOST:
                        continue
                    values = self._values[name] = []
                if value is not None and value == value:
                    values.append(value)
        for name, of_field in misfits.items():
            self._count(name if name in self._values else _REST, of_field.count)
            self._misfitting.setdefault(name, Misfits()).add(of_field)
        if misfits:
            self._name_misfits(types)
        if self._events >= WINDOW:
            self._end()

    def _name_misfits(self, types: Mapping[str, str]) -> None:
        """Log fields of whose values more than 1 % do not fit, once each."""
        for name, of_field in self._misfitting.items():
            if name in self._named or self._events < _FEWEST or of_field.count <= _TOLERATED * self._events:
                continue
            if len(self._named) < MOST:
                self._named.add(name)
                log.warning("%s", of_field.sentence(name, types.get(name, "its type"), self._events))

    def _end(self) -> None:
        """Compare a whole window with an earlier one, and begin the next."""
        now = {name: self._seen(name) for name in {**self._before, **self._values}}
        if self._examined >= _FEWEST:
            for name, seen in now.items():
                before = self._before.setdefault(name, seen)
                if (sentence := _difference(name, before, seen)) and name not in self._misfitting:
                    log.warning("%s", sentence)
                    self._before[name] = seen
                elif before.size is None and seen.size is not None:
                    self._before[name] = before._replace(size=seen.size)
            self._show({name: seen.missing for name, seen in now.items()})
            self._values, self._examined = {}, 0
        self._named &= self._misfitting.keys()
        self._misfitting, self._events = {}, 0

    def _seen(self, name: str) -> _Seen:
        values = self._values.get(name, [])
        sizes = [abs(value) for value in values if isinstance(value, int | float) and value]
        return _Seen(1.0 - len(values) / max(self._examined, 1), median(sizes) if sizes else None)


def _difference(name: str, before: _Seen, now: _Seen) -> str:
    """Return what has changed in a field, empty if nothing.

    >>> _difference("rpm", _Seen(0.0, 850.0), _Seen(1.0, None))
    'the field rpm is missing in 100 % of the last 1,000 events, and was in 0 % before'
    >>> _difference("rpm", _Seen(0.0, 850.0), _Seen(0.0, 8.5e5))
    'numbers of the field rpm are 1000 times as large as before: half are above 850000, and were above 850'
    """
    if abs(now.missing - before.missing) >= _CHANGE:
        return (
            f"the field {name} is missing in {now.missing:.0%} of the last {WINDOW:,} events, and was in "
            f"{before.missing:.0%} before"
        ).replace("%", " %")
    if before.size and now.size and not 1.0 / _UNIT < now.size / before.size < _UNIT:
        times = f"{now.size / before.size:.4g}"
        return (
            f"numbers of the field {name} are {times} times as large as before: half are above "
            f"{now.size:.6g}, and were above {before.size:.6g}"
        )
    return ""


def warn_of_changes(
    changed: Sequence[tuple[str, bool]],
    partition: str,
    records: Sequence[Raw],
    decode: Callable[[bytes], Event],
    warned: set[str],
) -> None:
    """Log one warning for each field that changed from numbers to categories or the reverse.

    A learner learns both: a number that arrives as a string is a category from then on. That is rarely meant.

    Parameters
    ----------
    changed
        Names, and whether the field is a category since (:attr:`streamk.encoding.names.Names.changed`).
    partition, records, decode
        Where the last of them changed: records of this partition, and what decodes them.
    warned
        Fields that the log of this process has named already; others are added.
    """
    for name, category in changed:
        if name in warned or len(warned) >= MOST_CHANGED:
            continue
        kinds = (str, bool) if category else (int, float)
        for raw in records:
            value = _value(raw, name, decode)
            if type(value) in kinds:
                warned.add(name)
                before, now = ("number", "category") if category else ("category", "number")
                log.warning(
                    "%s, offset %d: the field %r was a %s in all events before, and is %.*s here; "
                    "it is also learned as a %s (logged once a field)",
                    partition, raw.offset, name, before, _EXAMPLE, repr(value), now,
                )  # fmt: skip
                break


def _value(raw: Raw, name: str, decode: Callable[[bytes], Event]) -> object:
    try:
        fields = decode(raw.value or b"").fields
    except ValueError:
        return None
    return next((value for field, value in fields.items() if name_of(field) == name), None)
