"""Bytes to events: JSON, CSV or MessagePack, and which field is what. Every verb reads its events by this."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from itertools import repeat
from typing import Any, NamedTuple, Protocol, cast

import msgspec

from connectors.events.names import numbered
from connectors.events.schema import (
    DATETIME,
    MISFIT,
    NO_INPUT,
    NUMBER,
    TEXT,
    Read,
    check_type,
    flat,
    parse_number,
    plain_number,
    reader_of,
    without_unit,
    word_names,
    words_of,
)
from connectors.events.values import (
    MISSING,
    Fields,
    Place,
    Reader,
    Target,
    label,
    missing_or,
    read_label,
    read_value,
    value_reader,
)
from streamk.encoding.targets import check_weight

Parse = Callable[[bytes], Any]
_PLACES = (str, int, float, bytes, datetime, type(None))  # types of keys and times
WITHOUT_INPUT = "it has a target and no input"
_MARK = "\ufeff"  # byte-order mark
_KEPT = 1 << 16  # names of fields
_TOTALS = re.compile(
    r"(?:(?:grand|sub|overall)[ -]?)?totals?[ :]*|(?:sum|totaux|totale?s?|totaal|somme|suma)[ :]*"
    r"|(?:(?:gesamt|zwischen|end)?summe|(?:ins)?gesamt)[ :]*"
    r"|total (?:general|geral|général)|итого|всего|razem|ogółem|toplam|合計|合计|总计|総計|小計[ :]*"
    r"|(?:average|durchschnitt|mittelwert|moyenne)[ :]*",
    re.IGNORECASE,
)
_SHOWN = 40  # characters of a value in a message
_STRING_OR_NAN = re.compile(rb'"(?:[^"\\]|\\.)*"?|\bNaN\b', re.DOTALL)
_read_json = msgspec.json.Decoder().decode


class RawRecord(Protocol):
    """A record of a topic, as its client returns it."""

    @property
    def value(self) -> bytes | None:
        """Its bytes."""

    @property
    def key(self) -> bytes | None:
        """Its key."""

    @property
    def timestamp(self) -> int | None:
        """Milliseconds since the epoch."""

    @property
    def headers(self) -> Sequence[tuple[str, bytes]]:
        """Its headers."""

    @property
    def topic(self) -> str:
        """Its topic."""


class Record(NamedTuple):
    """One event as read: its line, its fields, and its target, not yet interpreted."""

    line: int
    fields: Fields
    target: object


class Location(NamedTuple):
    """Where a record is: its file, and its line, row or record; it prints as messages name it.

    >>> print(Location("run, line 2.csv", 12))
    run, line 2.csv, line 12
    """

    file: str
    line: int
    unit: str = "line"

    def __str__(self) -> str:
        return f"{self.file}, {self.unit} {self.line}"


class Rejected(str):
    """The sentence about a record that is not taken, with its place (None if it has none) and the reason.

    As an argument of an exception, it is also what ``str`` returns of that exception.
    """

    place: Location | None = None
    reason: str = ""

    @property
    def line(self) -> int:
        """The line of the record, 0 if it is not known."""
        return 0 if self.place is None else self.place.line

    def __str__(self) -> str:
        return self


def rejected(place: object, reason: object) -> Rejected:
    """Return the sentence that a record is not taken.

    >>> rejection = rejected(Location("log.csv", 12), "1 values for 2 columns")
    >>> rejection, rejection.place.line, rejection.reason
    ('log.csv, line 12: 1 values for 2 columns', 12, '1 values for 2 columns')
    """
    rejection = Rejected(f"{place}: {reason}")
    rejection.place, rejection.reason = place if isinstance(place, Location) else None, str(reason)
    return rejection


class Places(Protocol):
    """What names the lines of a log, and its target, in messages."""

    @property
    def target(self) -> str:
        """The field to predict."""

    def place(self, line: int) -> object:
        """Return what names a line in messages."""


def skipped(unreadable: int, unlabelled: int, target: str = "a target") -> str:
    """Return how many rows were skipped, as a sentence; empty if none were."""
    parts = [
        f"{unreadable:,} that cannot be decoded" if unreadable else "",
        f"{unlabelled:,} without {target}" if unlabelled else "",
    ]
    reasons = " and ".join(filter(None, parts))
    count = unreadable + unlabelled
    return f"skipped {count:,} row{'s' * (count != 1)}: {reasons}" if reasons else ""


class NoRecordError(ValueError):
    """A line of CSV is no record, as one of totals or of the names again."""


class Event(msgspec.Struct, frozen=True, gc=False):
    """A decoded record; a struct, which is made several times as fast as a tuple with names."""

    fields: Fields
    target: Target  # None: to be predicted only
    weight: float | None
    key: Place  # None: that of the record
    time: Place


@dataclass(frozen=True)
class EventFormat:
    """How records become events: what is set, and what was inferred from a log.

    Attributes
    ----------
    target, key, time, weight
        Fields that are not features. A name with dots is a path into nested objects.
    features
        Names of features, or a mapping of names to fields; None means every other field.
    ignore
        Fields that are no features.
    delimiter, decimal, encoding
        Of CSV, what separates values, ``.`` or ``,`` before fractions, and the encoding of text; None where a
        file decides.
    missing
        Strings of CSV that are no value. If they are not the usual ones, strings of other formats, too; and
        those that are numbers are no value however a number is written.
    dialect
        The delimiter and the decimal mark of the log that a model has learned; the mark holds for all files
        with this delimiter.
    types
        Types of fields (:mod:`connectors.events.schema`). A field without one is a number or a category by
        each of its values.
    columns
        Names of the values of CSV, where no header has them.
    skip, comment
        How many lines at the start of a text are not read, and what begins those that are not, wherever they
        are.
    numbers
        Whether targets are numbers; they are labels otherwise, and None is not known yet.
    verbatim
        Fields that stay as they are written, such as keys to join on.
    moments
        Fields by whose times labels come. They are read by their types if these are number or datetime, but
        values that do not fit stay as they are written, and so does what has another type.
    labelled
        Whether logs skip records without a target.
    record
        Fields that are no part of a record's value: its ``"key"``, ``"time"`` or ``"topic"``, or
        ``"headers.NAME"``.
    """

    target: str | None = None
    key: str | None = None
    time: str | None = None
    weight: str | None = None
    features: Sequence[str] | Mapping[str, str] | None = None
    ignore: Sequence[str] = ()
    delimiter: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    missing: Sequence[str] = MISSING
    dialect: Sequence[str] | None = None
    types: Mapping[str, str] = field(default_factory=dict)
    columns: Sequence[str] | None = None
    skip: int = 0
    comment: str | None = None
    numbers: bool | None = None
    verbatim: Sequence[str] = ()
    moments: Sequence[str] = ()
    labelled: bool = True
    record: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, kind in self.types.items():
            check_type(name, kind)
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in '"\r\n'):
            raise ValueError(f"delimiter {self.delimiter!r}: give one character, not a quote or a line end")
        if self.decimal not in (None, ".", ","):
            raise ValueError(f"decimal {self.decimal!r}: it is . or ,")
        if self.encoding is not None and not _is_text(self.encoding):
            raise ValueError(f"encoding {self.encoding!r} is unknown; use utf-8, utf-16 or windows-1252")
        if self.skip < 0:
            raise ValueError(f"skip {self.skip}: give the number of lines above the header")

    @property
    def roles(self) -> list[str]:
        """The fields that are not features."""
        return [name for name in (self.target, self.key, self.time, self.weight) if name is not None]

    @property
    def sources(self) -> list[str]:
        """The fields that are named as features."""
        named = self.features or ()
        return list(named.values() if isinstance(named, Mapping) else named)

    @property
    def required(self) -> list[str]:
        """The columns that CSV and Parquet must have."""
        roles = [name for name in self.roles if self.labelled or name != self.target]
        return [*roles, *self.verbatim, *self.moments]

    def with_types(self, types: Mapping[str, str]) -> EventFormat:
        """Return the same with more types; those that are there stay, and numbers get their unit."""
        units = {
            name: types[name]
            for name, kind in self.types.items()
            if kind == NUMBER and types.get(name, "").startswith(f"{NUMBER}:")
        }
        return replace(self, types={**types, **self.types, **units})

    def unlabelled(self) -> EventFormat:
        """Return the same for a log whose records may have no target."""
        return replace(self, labelled=False)

    def decoder(
        self,
        form: str,
        columns: Sequence[str] | None = None,
        delimiter: str | None = None,
        decimal: str | None = None,
        parse: Parse | None = None,
    ) -> Decoder:
        """Return the decoder of a log.

        Parameters
        ----------
        form
            ``"json"``, ``"csv"`` or ``"msgpack"``.
        columns, delimiter, decimal
            What a file of CSV says itself.
        parse
            As of :class:`Decoder`.

        Raises
        ------
        ValueError
            If a column is not there.
        """
        complete = replace(
            self,
            columns=self.columns or columns,
            delimiter=delimiter or self.delimiter or ",",
            decimal=decimal or self.decimal or ".",
        )
        return Decoder(form, complete, parse)


def _is_text(encoding: str) -> bool:
    """Return whether there is an encoding of text of this name."""
    try:
        return not encoding.isspace() and "a".encode(encoding).decode(encoding) == "a"
    except (LookupError, ValueError, TypeError):
        return False


@dataclass
class Misfits:
    """Values of a column that do not fit its type: how many, and the first."""

    count: int = 0
    example: object = None

    def add(self, other: Misfits) -> None:
        """Count what another counted after it."""
        self.count += other.count
        self.example = other.example if self.example is None else self.example

    def sentence(self, name: str, kind: str, rows: int) -> str:
        """Return what messages say of them, in a column of this name and type, of so many rows."""
        first = "" if self.example is None else f" (the first: {self.example!r})"
        return (
            f"{self.count:,} of {max(rows, self.count):,} values of {name} do not fit "
            f'"{kind}"{first} and are missing'
        )


class Decoder:
    """Decodes values and takes the target and its like out of the fields.

    Parameters
    ----------
    form
        ``"json"`` (one object), ``"msgpack"`` (one map), ``"csv"`` (one line), or ``"parquet"``, whose rows
        are fields already (:meth:`event`).
    format
        Which field is what, and how values are read.
    parse
        Returns the object in the bytes of a record, where ``form`` is not enough to read it; a ValueError
        says why there is none.

    Attributes
    ----------
    misfits
        By the name of a column.

    Raises
    ------
    ValueError
        If CSV has no names of columns, has one twice, or not the target.

    Examples
    --------
    >>> decode = Decoder("json", EventFormat("label", ignore=["id"]))
    >>> decode(b'{"id": 7, "price": 2.5, "label": true}')
    Event(fields={'price': 2.5}, target=True, weight=None, key=None, time=None)
    >>> changes = EventFormat("after.y", features={"x": "after.x"})
    >>> Decoder("json", changes)(b'{"after": {"x": 1, "y": "up"}}').fields
    {'x': 1}
    >>> prices = EventFormat("y", types={"price": "number"})
    >>> Decoder("json", prices)(b'{"price": "$1,200", "y": 1}').fields
    {'price': 1200.0}
    """

    def __init__(self, form: str, format: EventFormat, parse: Parse | None = None) -> None:
        self.form, self.format, self.parse = form, format, parse
        self.misfits: dict[str, Misfits] = {}
        self._decimal = format.decimal or "."
        ignored = {
            name for name, kind in format.types.items() if kind in NO_INPUT and name not in format.roles
        }
        self._ignored = frozenset({*format.ignore, *ignored} - {*format.moments})
        moments = {name for name in format.moments if _base_of(format, name) in (NUMBER, DATETIME)}
        self.verbatim = frozenset({*format.verbatim, *format.moments} - moments)
        features = format.features
        self._renamed = features if isinstance(features, Mapping) else None
        self._only = None if features is None or self._renamed is not None else frozenset(features)
        self._plain = not (format.key or format.time or format.weight or features is not None)
        self._parts = frozenset((*format.roles, *format.verbatim, *format.moments))
        self._known_names: dict[str, bool] = {}
        gone = {*format.roles, *self.verbatim, *self._ignored}
        self._texts = {
            name: word_names(name, kind)
            for name, kind in format.types.items()
            if kind.partition(":")[0] == TEXT
            and name not in gone
            and (self._only is None or name in self._only)
        }
        self._missing = self._missing_strings()
        self.absent = _absent(self._missing, self._decimal)
        missing = ("", *self._missing) if form == "csv" else self._missing
        of_types = {
            name: reader_of(kind, self._decimal)
            for name, kind in format.types.items()
            if name not in gone and name not in self._texts
        }
        of_types |= {name: _or_as_written(of_types[name]) for name in moments if name in of_types}
        self._typed = {
            name: missing_or(_unless(each, self.absent), missing) for name, each in of_types.items()
        }
        self._numbers = {name for name in self._typed if format.types[name] == NUMBER}
        self.read_target = self._target_reader()
        self._names = list(format.columns or ())
        if form == "csv":
            self._check_columns()
            readers = [self.reader(name) for name in self._names]
            self._columns = list(zip(self._names, readers, strict=True))
            self._kept = [(name, read) for name, read in self._columns if self.takes(name)]
        self._parse = (
            parse
            or {
                "json": _json,
                "msgpack": msgspec.msgpack.Decoder().decode,
                "csv": self._row,
                "parquet": self._no_bytes,
            }[form]
        )

    def _missing_strings(self) -> Sequence[str]:
        """Return the strings that are no value: of CSV the usual ones, or those of the settings."""
        return self.format.missing if self.form == "csv" or tuple(self.format.missing) != MISSING else ()

    @property
    def absent_numbers(self) -> list[float]:
        """The numbers that are no value."""
        return [value for value in self.absent if isinstance(value, float)]

    def is_missing(self, value: object) -> bool:
        """Return whether a value that was not read yet, as :meth:`raw` returns it, counts as missing."""
        if isinstance(value, str):
            if not (text := value.strip()) and self.form == "csv":
                return True
            if not self.absent:
                return text in self._missing
            return text in self._missing or parse_number(text, self._decimal) in self.absent
        return value is None or value != value or _is_absent(value, self.absent)

    def _check_columns(self) -> None:
        columns, target = self.format.columns, self.format.target
        if not columns:
            raise ValueError("events.columns must name the columns of CSV")
        if len(set(columns)) != len(columns):
            raise ValueError(
                f"two columns are named {next(n for n in columns if list(columns).count(n) > 1)!r}"
            )
        if target in self.format.required and target not in {*columns, *self.format.record}:
            raise ValueError(f"there is no column {target!r}; there are {', '.join(columns)}")

    def _target_reader(self) -> Read:
        """Return what reads a target: a number, or a label."""
        return _unless(self._plain_target_reader(), self.absent)

    def _plain_target_reader(self) -> Read:
        format, decimal, name, missing = self.format, self._decimal, self.format.target or "", self._missing
        base, _, unit = format.types.get(name, "").partition(":")
        numeric = base == NUMBER
        unit = unit if numeric else ""
        if format.numbers:

            def read_number(value: object) -> object:
                return target_number(
                    without_unit(value, unit) if isinstance(value, str) else value, name, decimal
                )

            return missing_or(read_number, missing)
        if self.form != "csv":
            return missing_or((lambda value: _read_unit(value, unit)) if numeric else label, missing)
        plain = value_reader(decimal, missing, labels=True)
        if not numeric:
            return plain

        def read(text: str) -> object:
            number = plain_number(without_unit(text, unit), decimal)
            return plain(text) if number is None else read_label(number)

        return missing_or(read, missing)

    def reader(self, name: str) -> Reader:
        """Return what reads the string of a column of CSV, other than words; it may return ``MISFIT``."""
        format = self.format
        if name == format.target:
            return self.read_target
        if name == format.key or name in self.verbatim:
            return lambda text: text or None
        if name in self._texts:
            return missing_or(str, format.missing)
        if name in self._typed:
            return self._typed[name]
        return _unless(value_reader(self._decimal, format.missing), self.absent)

    def text_names(self, name: str) -> list[str] | None:
        """Return the names of the inputs of a text column, None of any other."""
        return self._texts.get(name)

    @property
    def simple(self) -> bool:
        """Whether fields are features as they are, those that are not ignored, and there are no words."""
        format = self.format
        return not (format.key or format.time or format.weight or self._renamed or self._texts)

    def takes(self, name: str) -> bool:
        """Return whether a field is a feature, or has another part in an event."""
        taken = self._known_names.get(name)
        if taken is None:
            path = str(name)
            whole = {
                path,
                *(path[:at] for at, letter in enumerate(path) if letter == "."),
            }  # objects it is in
            taken = name in self._parts or (
                not whole & self._ignored and (self._only is None or bool(whole & self._only))
            )
            if len(self._known_names) < _KEPT:
                self._known_names[name] = taken
        return taken

    def is_whole(self, text: str) -> bool:
        """Return whether a string is a line of CSV, with as many values as there are columns."""
        try:
            rows = list(csv.reader([text], delimiter=self.format.delimiter or ",", strict=True))
        except csv.Error:
            return False
        return len(rows) == 1 and len(rows[0]) == len(self._names)

    def cells(self, value: bytes) -> list[str]:
        """Return the strings of a line of CSV.

        Raises
        ------
        ValueError
            If they are none, or not as many as there are columns.
        """
        rows = list(csv.reader([value.decode()], delimiter=self.format.delimiter or ",", strict=True))
        count = len(self._names)
        if len(rows) != 1 or len(rows[0]) != count:
            width = len(rows[0]) if rows else 0
            raise ValueError(f"{width} values for {count} columns")
        cells = rows[0]
        first = cells[0].removeprefix(_MARK).strip()
        if first == self._names[0] and numbered([first, *map(str.strip, cells[1:])])[0] == self._names:
            raise NoRecordError("the header again")
        if (total := self.total_in(cells)) is not None:
            raise NoRecordError(f"a row of totals ({total!r})")
        return cells

    def total_in(self, cells: Sequence[str]) -> str | None:
        """Return the word by which a row is no record but the totals of others, None if it has none.

        It is the first value, where at least half of the others are empty, the target aside, or the column
        has no words.
        """
        place, word = next(((k, cell) for k, cell in enumerate(cells) if cell), (0, ""))
        if not is_total(word):
            return None
        names, target = self._names, self.format.target
        pairs = zip(names, cells, strict=True)
        others = [cell for name, cell in pairs if name not in (target, names[place])]
        alone = len(others) > 0 and 2 * sum(map(bool, others)) <= len(others)
        return word if alone or _base_of(self.format, self._names[place]) in (NUMBER, DATETIME) else None

    def _no_bytes(self, value: bytes) -> Fields:
        raise ValueError("rows of Parquet are no bytes")

    def _row(self, value: bytes) -> Fields:
        cells = self.cells(value)
        if len(self._kept) < len(cells):
            return {
                name: read(text)
                for (name, read), text in zip(self._columns, cells, strict=True)
                if self.takes(name)
            }
        return {name: read(text) for (name, read), text in zip(self._kept, cells, strict=True)}

    def raw(self, value: bytes) -> Fields:
        """Return the fields of a record without their types: strings of CSV, flattened objects.

        Raises
        ------
        ValueError
            If it cannot be decoded.
        """
        if self.form != "csv":
            return self._object(value)
        try:
            return dict(zip(self._names, self.cells(value), strict=True))
        except (csv.Error, UnicodeDecodeError) as error:
            raise ValueError(f"cannot be decoded: {error}") from None

    def fields(self, value: bytes) -> Fields:
        """Return the fields of a record, of CSV as they are read, of other forms as they are.

        Raises
        ------
        ValueError
            If it cannot be decoded, or is no object.
        """
        try:
            fields = self._parse(value)
        except NoRecordError:
            raise
        except (ValueError, RecursionError, csv.Error, TypeError) as error:
            raise ValueError(f"cannot be decoded: {error}") from None
        if type(fields) is not dict:
            raise ValueError(f"an event must be an object of fields, not {type(fields).__name__}")
        return fields

    def _object(self, value: bytes) -> Fields:
        fields = self.fields(value)
        try:
            return self._flattened(fields)
        except (RecursionError, TypeError) as error:  # values of one name that cannot be added up
            raise ValueError(f"cannot be decoded: {error}") from None

    def _flattened(self, fields: Fields) -> Fields:
        if self.form == "csv" or not {dict, list} & set(map(type, fields.values())):
            return fields
        for name in self.format.roles:
            if isinstance(fields.get(name), (dict, list)):
                kind = "an object" if isinstance(fields[name], dict) else "a list"
                raise ValueError(f"{name!r} is {kind}; write the path of a value, as {name}.NAME")
        return flat(fields)

    def __call__(self, value: bytes) -> Event:
        """Return the event in the bytes of a record.

        Raises
        ------
        ValueError
            If it cannot be decoded; the sentence says why.
        """
        return self.event(self._object(value))

    def of_record(self, raw: RawRecord) -> Event:
        """Return the event of a record of a topic, raising ValueError if it cannot be decoded."""
        return self.event(self._object(raw.value or b"") | self.parts(raw))

    def key_of(self, raw: RawRecord) -> bytes | None:
        """Return the key of an event in a record, which may be a field; None if it has none."""
        if self.format.key is None:
            return raw.key
        try:
            key = (self.raw(raw.value or b"") | self.parts(raw)).get(self.format.key)
        except ValueError:
            return None
        return None if key is None else str(key).encode()

    def parts(self, raw: RawRecord) -> Fields:
        """Return the fields of a record that are no part of its value."""
        fields: Fields = {}
        for name, part in self.format.record.items():
            if part in ("time", "topic"):
                value: Place = raw.timestamp if part == "time" else raw.topic
            else:
                data = raw.key if part == "key" else dict(raw.headers).get(part.partition(".")[2])
                value = None if data is None else data.decode("utf-8", "replace")
            if self.form != "csv":
                fields[name] = value
            elif self.takes(name):
                fields[name] = self.reader(name)("" if value is None else str(value))
        return fields

    def event(self, fields: Fields) -> Event:
        """Return the event of fields, which :meth:`fields` returned; it takes the dict.

        Raises
        ------
        ValueError
            If the target, the weight, the key or the time is none.
        """
        format, csv_row = self.format, self.form == "csv"
        target = fields.pop(format.target, None) if format.target is not None else None
        if not csv_row:
            target = self.read_target(target)
        weight = key = time = None
        if not self._plain:
            key = fields.pop(format.key, None) if format.key else None
            time = fields.pop(format.time, None) if format.time else None
            for place in (key, time):
                if not isinstance(place, _PLACES):
                    raise ValueError(
                        f"a key or a time must be a string or a number, not {type(place).__name__}"
                    )
            if format.weight and (weight := fields.pop(format.weight, None)) is not None:
                weight = check_weight(weight)
        if not csv_row:
            fields = self._without_ignored(fields)
        fields = self._with_types(fields)
        if self._renamed is not None:
            fields = self._rename(fields, self._renamed)
        return Event(fields, target, weight, key, time)

    def _without_ignored(self, fields: Fields) -> Fields:
        if not self._ignored and self._only is None:
            return fields
        return {name: value for name, value in fields.items() if self.takes(name)}

    def _rename(self, fields: Fields, names: Mapping[str, str]) -> Fields:
        renamed: Fields = {}
        for name, source in names.items():
            inside = self._texts.get(source) or [
                each for each in fields if str(each).startswith(f"{source}.")
            ]
            if source in fields:
                renamed[name] = fields[source]
            renamed |= {name + each.removeprefix(source): fields[each] for each in inside}
        return renamed

    def _with_types(self, fields: Fields) -> Fields:
        """Read values by their types, and replace text by counts of its words; it changes the dict."""
        if self._missing and self.form != "csv":
            for name in [name for name, value in fields.items() if self.is_no_value(value)]:
                if name not in self.verbatim:
                    fields[name] = None
        if self._typed:
            self._type(fields, self.form == "csv")
        for name, words in self._texts.items():
            text = fields.pop(name, None)
            fields.update(zip(words, words_of("" if text is None else text, len(words)), strict=True))
        return fields

    def _type(self, fields: Fields, read_already: bool) -> None:
        if read_already:
            if MISFIT in fields.values():
                for name in [name for name, value in fields.items() if value is MISFIT]:
                    self.note_misfit(name, MISFIT)
                    fields[name] = None
            return
        for name, read in self._typed.items():
            value = fields.get(name)
            if value is None or (name in self._numbers and type(value) is float and value - value == 0.0):
                continue
            typed = read(value)
            if typed is MISFIT:
                self.note_misfit(name, value)
                typed = None
            fields[name] = typed

    @property
    def drops_values(self) -> bool:
        """Whether there are values that are none, other than the usual strings of CSV."""
        return bool(self.absent or (self._missing and self.form != "csv"))

    def is_no_value(self, value: object) -> bool:
        """Return whether a value that was read is none."""
        if isinstance(value, str) and self.form != "csv":
            return value.strip() in self._missing
        return _is_absent(value, self.absent)

    def note_misfit(self, name: str, value: object, count: int = 1) -> None:
        """Count values that do not fit the type of their column."""
        misfits = self.misfits.setdefault(name, Misfits())
        misfits.count += count
        if misfits.example is None and value is not MISFIT:
            misfits.example = str(value)[:_SHOWN]

    def take_misfits(self) -> dict[str, Misfits]:
        """Return what was counted since the last call."""
        misfits, self.misfits = self.misfits, {}
        return misfits

    def plain_records(self, raws: Sequence[RawRecord]) -> tuple[list[Fields], list[Target]] | None:
        """Return fields and targets of many records of a topic, as :meth:`plain` does."""
        return self.plain([raw.value for raw in raws], map(self.parts, raws) if self.format.record else ())

    def plain(
        self, values: Sequence[bytes | None], parts: Iterable[Fields] = ()
    ) -> tuple[list[Fields], list[Target]] | None:
        """Return fields and targets of many values; None if they must be decoded one by one.

        ``parts`` are fields of each record that are no part of its value.
        """
        if not self._plain:
            return None
        try:
            events: list[Fields] = list(map(self._parse, cast(Sequence[bytes], values)))
        except (ValueError, RecursionError, csv.Error, TypeError, AttributeError):
            return None
        if set(map(type, events)) != {dict}:
            return None
        if self.form != "csv":
            nested = map(_nests, values) if self.form == "json" else repeat(True)
            try:
                events = [self._flattened(e) if deep else e for e, deep in zip(events, nested, strict=False)]
            except (TypeError, ValueError, RecursionError):
                return None
        for fields, more in zip(events, parts, strict=False):
            fields.update(more)
        name = self.format.target
        targets = [None if name is None else fields.pop(name, None) for fields in events]
        if self.form != "csv":
            events = list(map(self._without_ignored, events))
        numeric = self.format.numbers or _base_of(self.format, self.format.target or "") == NUMBER
        if self.form != "csv" and (numeric or self._missing or {float, Decimal} & set(map(type, targets))):
            try:
                targets = list(map(self.read_target, targets))
            except ValueError:
                return None
        # at the end, since misfits are counted once
        if self._typed or self._texts or (self._missing and self.form != "csv"):
            events = list(map(self._with_types, events))
        return events, targets


def is_total(word: str) -> bool:
    """Return whether a value is a word for totals.

    >>> is_total("Grand total:"), is_total("Summe"), is_total("Totally")
    (True, True, False)
    """
    return word[:1].isalpha() and _TOTALS.fullmatch(word) is not None


def _base_of(format: EventFormat, name: str) -> str:
    """Return the type of a field without what follows the colon."""
    return format.types.get(name, "").partition(":")[0]


def _absent(missing: Sequence[str], decimal: str) -> frozenset[float | str]:
    """Return the numbers among strings that are no value, and the labels that they are."""
    absent: set[float | str] = set()
    for text in missing:
        if (number := parse_number(text, decimal)) is not None:
            absent |= {number, read_label(plain_number(text, decimal) or text) or text}
    return frozenset(absent)


def _is_absent(value: object, absent: frozenset[float | str]) -> bool:
    """Return whether a value is one of those that are none; True is not 1."""
    return type(value) in (int, float, str, Decimal) and value in absent


def _unless(read: Read, absent: frozenset[float | str]) -> Read:
    """Return a reader that returns None instead of values that are none."""
    if not absent:
        return read

    def present(value: object) -> object:
        typed = read(value)
        return None if _is_absent(typed, absent) else typed

    return present


def _nests(value: bytes | None) -> bool:
    """Return whether a JSON object may hold others or lists, without a look at each of its values."""
    return value is not None and (b"[" in value or value.count(b"{") > 1)


def _json(value: bytes) -> object:
    """Return what JSON holds; ``NaN``, which several programs write, is null."""
    try:
        return _read_json(value)
    except msgspec.DecodeError:
        if b"NaN" not in value:
            raise
        return _read_json(_STRING_OR_NAN.sub(lambda part: b"null" if part[0] == b"NaN" else part[0], value))


def _or_as_written(read: Read) -> Read:
    """Return a reader that returns a value that does not fit as it is."""

    def kept(value: object) -> object:
        typed = read(value)
        return value if typed is MISFIT else typed

    return kept


def _read_unit(value: object, unit: str) -> object:
    """Return a target of JSON, which is a number also where it is a string with a unit, as ``"12.3 %"``."""
    if isinstance(value, str) and isinstance(read_value(value), str):
        number = plain_number(without_unit(value, unit))
        if number is not None:
            return int(number) if number.lstrip("-").isdigit() else label(float(number))
    return label(value)


def target_number(value: object, name: str, decimal: str = ".") -> float | None:
    """Return a target as a number, None if there is none.

    Raises
    ------
    ValueError
        If it is not a number.
    """
    if isinstance(value, str) and (number := parse_number(value, decimal)) is not None:
        return number
    if value is None or value != value:
        return None
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"the target {name!r} is {str(value)[:_SHOWN]!r}, not a number")
    return value
