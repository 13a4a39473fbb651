"""Alarms: changes of what events, predictions and labels hold, with or without labels.

One event in ten is examined, and 100 of them are a window, of 1,000 events. Predictions and labels are
watched as the fields are. A field is compared with its first window, which checkpoints hold, for its missing
values and the size of its numbers, and with the window before last for all of its values. What a field
usually does is no alarm: a clock or an identifier has other values in each window.

All events count for labels that are all equal, and for the share of events that are refused.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, islice
from math import sqrt
from operator import ne
from typing import NamedTuple, Protocol

import msgspec
import numpy as np

from connectors.contract.records import Raw
from connectors.events.decoding import Event, Misfits
from connectors.events.values import Fields, Target
from streamk.arrays import Array
from streamk.drift.field_values import ABSENT, FieldValues
from streamk.encoding.fields import name_of
from streamk.encoding.names import MOST_CHANGED

log = logging.getLogger(__name__)
ALARMS = ("missing", "size", "values", "misfits", "kind", "constant", "refused", "error")
WINDOW = 1000  # events
MOST = 64  # fields that are watched, and have separate series
QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)
PREDICTIONS, LABELS, OTHERS = "(predictions)", "(labels)", "(other fields)"  # in place of a field's name
_EXAMINED = 100  # events of a window
_EACH = WINDOW // _EXAMINED
_FEWEST = 100  # events that a share of misfits is computed from
_TOLERATED = 0.01  # share of misfits, or of refused events
_CHANGE = 0.25  # of the share of missing values
_DEVIATIONS = 5.5  # of a difference of shares: two in 10⁸ where nothing has changed
_UNIT = 100.0  # ratio of medians
_FEW, _MANY = 15, 40  # numbers of a window that have a size, and quartiles
_MOVED, _MORE = 0.5, 0.25  # share of values, and how much more than usual
_USUAL = 5  # windows that determine what is usual
_FADES = 0.99  # per window
_SETTLES = 2  # windows after an alarm that are part of the same change
_UNSEEN = 1000  # categories of a field that are held
_RUN = 500  # equal labels
_RARE = 25.0  # expected changes of the label in a run without one: once in 10¹⁰
_EXAMPLE = 60  # characters of a value in a warning


class ColumnWindow(NamedTuple):
    """What the values of a field, of predictions or of labels were in one window.

    Attributes
    ----------
    missing
        Share of events without a value.
    quantiles
        Of the numbers, :data:`QUANTILES`; empty without numbers.
    values
        The most frequent other values with their shares of events.
    moved
        Share of values that differ from those of the window before last; None at first.
    unseen
        Share of events with a category that no window before had; None at first, and for identifiers.
    """

    missing: float
    quantiles: Sequence[float]
    values: Mapping[str, float]
    moved: float | None
    unseen: float | None


class Known(msgspec.Struct):
    """What a checkpoint holds of a field.

    Attributes
    ----------
    missing
        Share of events without a value, in the first window or the last alarm about the field.
    sizes
        The quartiles of the absolute values other than 0 of its numbers, then.
    usual
        The greatest share of values that differed from the window before last, fading.
    compared
        How many windows this is known of.
    settles
        How many windows are still part of the last change.
    """

    missing: float
    sizes: Sequence[float] = ()
    usual: float = 0.0
    compared: int = 0
    settles: int = 0


class KnownLabels(msgspec.Struct):
    """What a checkpoint holds of labels: how many there were, how often another followed, runs of equals."""

    labels: int = 0
    changes: int = 0
    run: int = 0
    longest: int = 0
    last: Target = None
    named: bool = False

    def add(self, values: Sequence[Target]) -> bool:
        """Count labels; return whether those since the last change are unexpectedly many, once a run."""
        if not values:
            return False
        changed = np.fromiter(map(ne, values, chain((self.last,), values)), bool, len(values))
        changed[0] &= self.labels > 0
        (starts,) = changed.nonzero()
        if len(starts):
            self.longest = max(self.longest, int(np.diff(starts, prepend=-self.run).max()))
            self.run, self.named = -int(starts[-1]), False
        self.changes += len(starts)
        self.last, self.run, self.labels = values[-1], self.run + len(values), self.labels + len(values)
        least = (self.changes - 3.0 * sqrt(self.changes)) / (2.0 * max(self.labels, 1))
        named = self.named
        self.named = named or (self.run >= max(_RUN, 2 * self.longest) and self.run * least >= _RARE)
        return self.named and not named


class WatchState(msgspec.Struct):
    """What a checkpoint holds of a stream: fields, labels, and the share of events that are refused."""

    fields: dict[str, Known] = {}
    labels: KnownLabels = msgspec.field(default_factory=KnownLabels)
    refused: float = 0.0


class Watcher(Protocol):
    """Takes what a watch sees."""

    def alarm(self, kind: str, sentence: str) -> None:
        """Take a change, of one of the kinds :data:`ALARMS`."""

    def misfit(self, field: str, count: int) -> None:
        """Count values that do not fit the type of a field."""

    def watched(self, columns: Mapping[str, ColumnWindow]) -> None:
        """Take what all fields, predictions and labels were in a window."""


class StreamWatch:
    """Watches the events of a stream.

    Parameters
    ----------
    watcher
        Takes what it sees.
    """

    def __init__(self, watcher: Watcher) -> None:
        self._watcher, self._known = watcher, WatchState()
        self._events = 0
        self._window: list[Fields] = []  # the events examined
        self._columns: dict[str, list[object]] = {PREDICTIONS: [], LABELS: []}
        self._before: list[dict[str, FieldValues]] = []  # the last two windows
        self._categories: dict[str, set[object]] = {}
        self._misfitting = dict[str, Misfits]()  # of so many events
        self._since = 0
        self._named, self._series = set[str](), set[str]()  # fields whose misfits are an alarm, or counted
        self._causes = set[str]()  # of refusals that the log has named
        self._handled = self._refused = 0  # events since the share of refusals was compared

    def to_bytes(self) -> bytes:
        """Return what is known, for a checkpoint."""
        return msgspec.json.encode(self._known)

    def restore(self, part: bytes | None) -> None:
        """Continue with what a checkpoint holds, if it does, and nothing is known yet."""
        if part is not None and self._known == WatchState():
            self._known = msgspec.json.decode(part, type=WatchState)

    def rows(self, count: int) -> range:
        """Return which of the next ``count`` events are examined, and count them all."""
        first = -self._events % _EACH
        self._events += count
        self._since += count
        return range(first, count, _EACH)

    def add(self, events: Sequence[Fields], predictions: Sequence[object], labels: Sequence[Target]) -> None:
        """Take the events that are examined, with their predictions and labels."""
        at = 0
        while at < len(events):
            part = slice(at, at + _EXAMINED - len(self._window))
            self._window += events[part]
            self._columns[PREDICTIONS] += predictions[part]
            self._columns[LABELS] += labels[part]
            at = part.stop
            if len(self._window) == _EXAMINED:
                self._end()

    def labels(self, values: Sequence[Target]) -> None:
        """Count all labels."""
        known = self._known.labels
        before = max(known.longest, 1)
        if known.add(values):
            self._watcher.alarm(
                "constant",
                f"the last {known.run:,} labels are all {known.last!r}; before, at most {before:,} in a row "
                "were equal",
            )

    def refusals(self, events: int, refused: Sequence[tuple[str, str]]) -> None:
        """Count events, and those of them that were refused: the cause and the reason of each."""
        self._handled += events
        self._refused += len(refused)
        for cause, reason in refused:
            if cause not in self._causes:
                self._causes.add(cause)
                log.warning("refused (%s), logged once a cause: %s", cause, reason)
        if self._handled < WINDOW:
            return
        share, known = self._refused / self._handled, self._known.refused
        if share - known >= _TOLERATED and _differ(share, known, self._handled):
            self._known.refused = share
            self._watcher.alarm(
                "refused",
                f"{self._refused:,} of the last {self._handled:,} events are refused, and "
                f"{percent(known)} were before" + (f"; the last: {refused[-1][1]}" if refused else ""),
            )
        elif share < known / 2:
            self._known.refused = share
        self._handled = self._refused = 0

    def misfits(self, misfits: Mapping[str, Misfits], types: Mapping[str, str]) -> None:
        """Take the values of a batch that do not fit the types of their fields, and these."""
        for name, of_field in misfits.items():
            if len(self._series) < MOST:
                self._series.add(name)
            self._watcher.misfit(name if name in self._series else OTHERS, of_field.count)
            sums = self._misfitting.setdefault(name, Misfits())
            sums.add(of_field)
            few = self._since < _FEWEST or sums.count <= _TOLERATED * self._since
            if not few and name not in self._named and len(self._named) < MOST:
                self._named.add(name)
                sentence = sums.sentence(name, types.get(name, "its type"), self._since)
                self._watcher.alarm("misfits", sentence)
        if self._since >= WINDOW:
            self._named &= self._misfitting.keys()
            self._misfitting, self._since = {}, 0

    def _end(self) -> None:
        """Compare a whole window with earlier ones, and begin the next."""
        window, known = self._window, dict.fromkeys(self._known.fields)
        if len(known) < MOST + len(self._columns):
            known |= dict.fromkeys([*self._columns, *chain.from_iterable(window)])
        now = FieldValues.of_each(
            {
                name: self._columns.get(name) or [event.get(name, ABSENT) for event in window]
                for name in islice(known, MOST + len(self._columns))
            }
        )
        before = self._before[0] if len(self._before) == 2 else {}
        moved = FieldValues.distances(before, now)
        self._watcher.watched(
            {name: self._compare(name, before, values, moved.get(name)) for name, values in now.items()}
        )
        self._before = [*self._before[-1:], now]
        self._window, self._columns = [], {PREDICTIONS: [], LABELS: []}

    def _compare(
        self, name: str, before: Mapping[str, FieldValues], now: FieldValues, moved: float | None
    ) -> ColumnWindow:
        """Compare a column with earlier windows, and return what it is now."""
        quartiles = _quartiles(now)
        new = Known(now.missing, quartiles, settles=_SETTLES if self._before else 0)
        known = self._known.fields.setdefault(name, new)
        if name == PREDICTIONS:  # which are missing until the first label
            known.missing = min(known.missing, now.missing)
        if known.usual >= _MOVED and name in before:  # as of a clock, whose first window says nothing
            known.sizes = _quartiles(before[name])
        if name in self._named:  # misfits are missing values
            known.settles = _SETTLES + 1
        if known.settles:
            known.settles -= 1
            known.missing, known.sizes = now.missing, quartiles or known.sizes
        else:
            kind, sentence = _difference(name, known, now, quartiles, moved)
            if kind:
                self._watcher.alarm(kind, sentence)
                known.missing, known.sizes, known.settles = now.missing, quartiles or known.sizes, _SETTLES
            elif moved is not None:
                known.usual, known.compared = max(moved, known.usual * _FADES), known.compared + 1
            known.sizes = known.sizes or quartiles
        quantiles = _quantiles(now.numbers, QUANTILES) if len(now.numbers) else ()
        return ColumnWindow(now.missing, quantiles, now.values(), moved, self._unseen(name, now))

    def _unseen(self, name: str, now: FieldValues) -> float | None:
        """Return the share of events with a new category, and hold these."""
        first = name not in self._categories
        there = self._categories.setdefault(name, set())
        new = {v: n for v, n in now.others.items() if v not in there and v is not None and v is not ABSENT}
        if len(there) < _UNSEEN:
            there.update(new)
            return None if first else sum(new.values()) / now.events
        return None


def _quartiles(values: FieldValues) -> Sequence[float]:
    """Return the quartiles of the absolute values of numbers other than 0.

    Of few numbers they are the least, the median and the greatest, and of fewer none.
    """
    sizes = values.numbers
    if len(sizes) < _FEW:
        return ()
    if sizes[0] <= 0.0:
        sizes = np.abs(sizes[sizes != 0.0])
        sizes.sort()
        if len(sizes) < _FEW:
            return ()
    return _quantiles(sizes, QUANTILES[1:4] if len(sizes) >= _MANY else QUANTILES[::2])


def _quantiles(ordered: Array, shares: Sequence[float]) -> list[float]:
    """Return the nearest values to these shares of an ordered array that is not empty."""
    return [float(ordered[round(share * (len(ordered) - 1))]) for share in shares]


def percent(share: float) -> str:
    """Return a share in words.

    >>> percent(0.25)
    '25 %'
    """
    return f"{share:.0%}".replace("%", " %")


def _differ(share: float, other: float, events: int) -> bool:
    """Return whether shares of two sets of so many events differ by more than chance."""
    both = 0.5 * (share + other)
    return abs(share - other) >= _DEVIATIONS * sqrt(2.0 * both * (1.0 - both) / events)


def _difference(
    name: str, known: Known, now: FieldValues, quartiles: Sequence[float], moved: float | None
) -> tuple[str, str]:
    """Return the kind of what has changed in a field, and a sentence; empty if nothing has.

    >>> rpm = FieldValues.of([8.5e5] * 100)
    >>> _difference("rpm", Known(0.0, [800.0, 850.0, 900.0]), rpm, [8.5e5] * 3, None)[0]
    'size'
    >>> _difference("rpm", Known(0.0), FieldValues.of([None] * 100), (), None)[1]
    'the field rpm is missing in 100 % of the last 1,000 events, and was in 0 % before'
    """
    plural = name in (PREDICTIONS, LABELS)
    subject = name[1:-1] if plural else f"the field {name}"
    change = abs(now.missing - known.missing)
    if change >= _CHANGE and _differ(now.missing, known.missing, _EXAMINED):
        are, were = ("are", "were") if plural else ("is", "was")
        return "missing", (
            f"{subject} {are} missing in {percent(now.missing)} of the last {WINDOW:,} events, and {were} "
            f"in {percent(known.missing)} before"
        )
    if quartiles and known.sizes:
        (low, middle, high), (least, half, most) = quartiles, known.sizes
        apart = low > most or high < least
        if apart and not 1.0 / _UNIT < middle / half < _UNIT:
            return "size", (
                f"numbers of {subject} are {middle / half:.4g} times as large as before: half are above "
                f"{middle:.6g}, and were above {half:.6g}"
            )
    limit = max(_MOVED, known.usual + _MORE)
    if moved is not None and known.compared >= _USUAL and moved >= limit:
        return "values", (
            f"{percent(moved)} of the values of {subject} in the last {WINDOW:,} events differ from those "
            f"before, and usually {percent(known.usual)} or fewer do"
        )
    return "", ""


def warn_of_changes(
    changed: Sequence[tuple[str, bool]],
    partition: str,
    records: Sequence[Raw],
    decode: Callable[[Raw], Event],
    warned: set[str],
    watcher: Watcher,
) -> None:
    """Raise one alarm for each field that changed from numbers to categories or the reverse.

    A learner learns both: a number that arrives as a string is a category from then on. That is rarely meant.

    Parameters
    ----------
    changed
        Names, and whether the field is a category since (:attr:`streamk.encoding.names.Names.changed`).
    partition, records, decode
        Where the last of them changed: records of this partition, and what decodes them.
    warned
        Fields that this process has named already; others are added.
    watcher
        Takes the alarms.
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
                watcher.alarm(
                    "kind",
                    f"{partition}, offset {raw.offset}: the field {name!r} was a {before} in all events "
                    f"before, and is {repr(value)[:_EXAMPLE]} here; it is also learned as a {now} (logged "
                    "once a field)",
                )
                break


def _value(raw: Raw, name: str, decode: Callable[[Raw], Event]) -> object:
    try:
        fields = decode(raw).fields
    except ValueError:
        return None
    return next((value for field, value in fields.items() if name_of(field) == name), None)
