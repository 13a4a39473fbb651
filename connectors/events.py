"""Bytes to events: JSON, CSV or MessagePack, and which field is what."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol

import msgspec

from connectors.values import label as label
from connectors.values import read_label as read_label
from connectors.values import read_value as read_value
from connectors.values import value_reader
from streamk.encoding.targets import check_weight

_MISSING = object()
_PLACES = (str, int, float, bytes, datetime, type(None))  # of keys and times


def parser(
    format: str,
    columns: Sequence[str] | None = None,
    delimiter: str = ",",
    texts: Sequence[str] = (),
    decimal: str = ".",
    missing: Sequence[str] = (),
) -> Callable[[bytes], Any]:
    """Return a function from the bytes of a record to its fields; it raises ValueError and its like."""
    if format == "json":
        return msgspec.json.Decoder().decode
    if format == "msgpack":
        return msgspec.msgpack.Decoder().decode
    if not columns:
        raise ValueError("events.columns must name the columns of CSV")
    names = list(columns)
    if len(set(names)) != len(names):
        raise ValueError(f"two columns are named {next(n for n in names if names.count(n) > 1)!r}")
    readers = [value_reader(decimal, missing, name in texts) for name in names]

    def parse(value: bytes) -> dict[str, Any]:
        rows = list(csv.reader([value.decode()], delimiter=delimiter, strict=True))
        if len(rows) != 1 or len(rows[0]) != len(names):
            found = len(rows[0]) if rows else 0
            raise ValueError(f"{found} values for {len(names)} columns")
        return {name: read(text) for name, read, text in zip(names, readers, rows[0], strict=True)}

    return parse


class Record(NamedTuple):
    """One event as read: its line, its fields, and its target, not yet interpreted."""

    line: int
    fields: dict[str, Any]
    target: Any


class Places(Protocol):
    """What names the lines of a log, and its target, in messages."""

    @property
    def target(self) -> str:
        """The field to predict."""
        ...

    def place(self, line: int) -> str:
        """Return how messages name a line."""
        ...


def left_out(unreadable: int, unlabelled: int) -> str:
    """Return how many records a replay left out, as a sentence; empty if none were."""
    if not unreadable + unlabelled:
        return ""
    return f"left out: {unreadable:,} records that cannot be decoded, {unlabelled:,} without a target"


class Event(msgspec.Struct, frozen=True, gc=False):
    """A decoded record; a struct, which is made several times as fast as a tuple with names."""

    fields: dict[str, Any]
    target: Any  # None: to be predicted only
    weight: float | None
    key: Any  # None: that of the record
    time: Any


class Decoder:
    """Decodes values and takes the target and its like out of the fields.

    Parameters
    ----------
    format
        ``"json"`` (one object), ``"msgpack"`` (one map), or ``"csv"`` (one line).
    columns, delimiter
        The names of the values of a CSV line, and what is between them.
    target, key, time, weight
        Fields that are not features. A name with dots is a path into nested objects, unless there is a field
        of that very name.
    decimal, missing
        Of CSV: what is between whole and fraction, and texts that are no value (:func:`value_reader`).
    numbers
        Whether targets are numbers; they are otherwise labels (:func:`label`; in CSV :func:`read_label`).
    features
        Names of features, or a mapping of names to fields; None means every other field.
    ignore
        Fields that are no features.

    Examples
    --------
    >>> decode = Decoder("json", target="label", ignore=["id"])
    >>> decode(b'{"id": 7, "price": 2.5, "label": true}')
    Event(fields={'price': 2.5}, target=True, weight=None, key=None, time=None)
    >>> Decoder("json", target="after.y", features={"x": "after.x"})(b'{"after": {"x": 1, "y": "up"}}').fields
    {'x': 1}
    """

    def __init__(
        self,
        format: str = "json",
        target: str | None = None,
        key: str | None = None,
        time: str | None = None,
        weight: str | None = None,
        features: Sequence[str] | Mapping[str, str] | None = None,
        ignore: Sequence[str] = (),
        columns: Sequence[str] | None = None,
        delimiter: str = ",",
        numbers: bool = False,
        decimal: str = ".",
        missing: Sequence[str] = (),
    ) -> None:
        if columns and target is not None and target not in columns:
            raise ValueError(f"there is no column {target!r}; there are {', '.join(columns)}")
        texts = () if numbers or target is None else (target,)
        self._parse, self._numbers = parser(format, columns, delimiter, texts, decimal, missing), numbers
        self._target, self._key, self._time, self._weight = target, key, time, weight
        if features is None or isinstance(features, Mapping):
            self._features = features
        else:
            self._features = {name: name for name in features}
        roles = [name for name in (target, key, time, weight) if name is not None]
        # the common way: every field is a feature, but for the target and some that are ignored
        named = [target or ".", *ignore]
        self._flat = key is time is weight is features is None and not any("." in name for name in named)
        self._ignored = tuple(ignore)
        self._left_out = list(dict.fromkeys([*roles, *ignore]))

    def __call__(self, value: bytes) -> Event:
        """Return the event in the bytes of a record.

        Raises
        ------
        ValueError
            If it cannot be decoded; the sentence says why.
        """
        try:
            fields = self._parse(value)
        except (ValueError, RecursionError, csv.Error, TypeError) as error:
            raise ValueError(f"cannot be decoded: {error}") from None
        if type(fields) is not dict:
            raise ValueError(f"an event must be an object of fields, not {type(fields).__name__}")
        if self._flat:
            target = fields.pop(self._target, None)
            target = target if self._numbers else label(target)
            for name in self._ignored:
                fields.pop(name, None)
            return Event(fields, target, None, None, None)
        weight = self._weight and _take(fields, self._weight)
        if weight is not None:
            weight = check_weight(weight)
        key, time = self._key and _take(fields, self._key), self._time and _take(fields, self._time)
        for place in (key, time):
            if not isinstance(place, _PLACES):
                raise ValueError(f"a key or a time must be a text or a number, not {type(place).__name__}")
        target = self._target and _take(fields, self._target)
        target = target if self._numbers else label(target)
        if self._features is not None:
            fields = {name: _take(fields, field) for name, field in self._features.items()}
        else:
            for name in self._left_out:
                if fields.pop(name, _MISSING) is _MISSING and "." in name:
                    _drop(fields, name.split("."))
        return Event(fields, target, weight, key, time)

    def plain(self, values: Sequence[bytes | None]) -> tuple[list[dict[str, Any]], list[Any]] | None:
        """Return fields and targets of many values; None if some must be looked at one by one."""
        if not self._flat:
            return None
        try:
            found: list[Any] = list(map(self._parse, values))  # type: ignore[arg-type]
        except (ValueError, RecursionError, csv.Error, TypeError, AttributeError):
            return None
        if set(map(type, found)) != {dict}:
            return None
        targets = [fields.pop(self._target, None) for fields in found]
        for name in self._ignored:
            for fields in found:
                fields.pop(name, None)
        if not self._numbers and float in set(map(type, targets)):
            targets = list(map(label, targets))
        return found, targets


def _take(fields: dict[str, Any], name: str) -> Any:
    """Return a field, or what is at the end of a path; None if it is not there."""
    found = fields.get(name, _MISSING)
    if found is not _MISSING:
        return found
    if "." not in name:
        return None
    inner: Any = fields
    for part in name.split("."):
        inner = inner.get(part) if isinstance(inner, dict) else None
    return inner


def _drop(fields: dict[str, Any], path: list[str]) -> None:
    """Remove what is at the end of a path, and the objects that are empty without it."""
    first, *rest = path
    inner = fields.get(first)
    if not rest:
        fields.pop(first, None)
    elif isinstance(inner, dict):
        _drop(inner, rest)
        if not inner:
            fields.pop(first)
