"""Column types: how they are inferred from the first records of a log, and how values are read by them.

========== ============================================================== =================================
type       values                                                         what a learner sees
========== ============================================================== =================================
number     ``12``, ``-1.5e3``, ``$1,234.00``, ``12.3 %``, ``(7)``, ``7-``  one number
boolean    ``true``/``false``, ``yes``/``no``, ``on``/``off``, ``t``/``f`` a category of two values
datetime   ISO 8601, seconds since 1970, or a format (``datetime:%d.%m.%y``) seven calendar inputs
category   strings that come again                                        a category
text       sentences                                                      counts of hashed words
identifier strings of which each is another one                           nothing
ignored    anything                                                       nothing
========== ============================================================== =================================

A value that does not fit the type of its column is missing, and is counted; it never becomes a category.
Per cent are read in that unit: ``12.3 %`` is 12.3. Currencies are dropped.
"""

from __future__ import annotations

import math
import re
import zlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, NamedTuple, cast

from connectors.events.names import nearest
from connectors.events.values import Fields, read_label
from streamk.encoding.calendar_inputs import read_iso, without_zone

NUMBER, BOOLEAN, DATETIME, CATEGORY = "number", "boolean", "datetime", "category"
TEXT, IDENTIFIER, IGNORED = "text", "identifier", "ignored"
TYPES = (NUMBER, BOOLEAN, DATETIME, CATEGORY, TEXT, IDENTIFIER, IGNORED)
NO_INPUT = (IDENTIFIER, IGNORED)
WORDS, FEW_WORDS = 64, 2  # inputs of a text column, and of one among more columns of other types
LOOK = 1000  # records from which types are inferred

_CURRENCY = (
    r"(?:[$€£¥₹₩₽₺₫₪฿]|USD|EUR|GBP|JPY|CHF|CAD|AUD|CNY|INR|SEK|NOK|DKK|PLN|BRL|MXN|ZAR|kr|zł|R\$|US\$)"
)
_GROUPS = {".": "[,' \u00a0\u2009\u202f’]", ",": "[.' \u00a0\u2009\u202f’]"}
_SPACE = r"[\s\u00a0\u2009\u202f]"
_NUMBERS = {
    decimal: re.compile(
        rf"(?P<open>\()?(?P<sign>[+\-−])?{_SPACE}?{_CURRENCY}?{_SPACE}?(?P<inner>[+\-−])?"
        rf"(?P<whole>[1-9]\d{{0,2}}(?:{group}\d{{3}})+|\d+|(?={re.escape(decimal)}\d))"
        rf"(?:{re.escape(decimal)}(?P<part>\d*))?(?P<power>[eE][+\-]?\d+)?{_SPACE}?(?:{_CURRENCY}|%)?"
        r"(?P<last>[\-−])?(?P<close>\))?",
        re.ASCII,
    )
    for decimal, group in _GROUPS.items()
}
_CODE = re.compile(r"\s*0\d+\s*", re.ASCII)  # 007 is not the number 7
_BOOLEANS = (("true", "false"), ("yes", "no"), ("on", "off"), ("t", "f"), ("y", "n"))
_WORD = re.compile(r"\w+")
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:?\d{2}.*)?")
_DAY = re.compile(r"(19|20)\d{2}(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(\.0*)?", re.ASCII)
_DATES = (
    "%d.%m.%Y", "%d.%m.%y", "%Y/%m/%d", "%d/%m/%Y", "%m/%d/%Y", "%d/%m/%y", "%m/%d/%y", "%d-%m-%Y",
    "%m-%d-%Y", "%Y年%m月%d日",
    "%d-%b-%Y", "%d-%b-%y", "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%b %d %Y",
)  # fmt: skip
_CLOCKS = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p", "T%H:%M:%S")
_FORMATS = (
    *(date + clock for date in _DATES for clock in _CLOCKS),
    *(clock.strip() for clock in _CLOCKS if clock[:1] == " "),  # the time of day alone
    "%a, %d %b %Y %H:%M:%S %z", "%a %b %d %H:%M:%S %Y", "%d/%b/%Y:%H:%M:%S %z",
)  # fmt: skip
_EPOCHS = {"epoch": 1, "epoch-ms": 10**3, "epoch-us": 10**6, "epoch-ns": 10**9}  # units of a second
_FROM, _UNTIL = 946_684_800, 2_208_988_800  # the years 2000 to 2039
_TIME_NAME = re.compile(
    r"(^|[^a-z])(time|date|datetime|timestamp|ts|epoch|day|when|created|updated|modified|at)([^a-z]|$)|time$|date$|At$"
)
_ID_NAME = re.compile(r"(^|[^a-z])(id|uuid|guid|key|row|index|number|no|nr)$|Id$|ID$|^unnamed")
_TOLERATED, _WORDS_OF_NONE = (
    0.9,
    2,
)  # share of numbers or dates in their columns, or words that stand for none
_TRIED, _LONGEST_DATE = 10, 40  # strings that each format is tried on first, and letters of a date
_UNIT = re.compile(r".*\d\s?(?P<unit>[^\W\d_°µμΩ]{1,10}[²³]?(?:/[^\W\d_]{1,4}[²³]?)?|[°µμΩ][^\W\d_]{0,4})")
_NINES = re.compile(r"-?9{2,}(\.9+)?")
_MANY = 50  # values above which as many categories as half of the rows are named
_FEW = 20  # values below which nothing counts as an identifier or a text
_UNIQUE, _SENTENCES, _LONG = 0.98, 0.5, 3.0  # shares of distinct values, and words of a text
_SPARSE = 0.02  # share of records with a value, at most, of a column that is nearly empty
_START = datetime(1970, 1, 1, tzinfo=UTC)
_STEPS = sorted(factor << power for power in range(20) for factor in (2, 3))  # distinguished counts of a bag


class Misfit:
    """The value of a cell that does not fit the type of its column."""

    def __repr__(self) -> str:
        return "MISFIT"


MISFIT = Misfit()
Read = Callable[[Any], object]


def plain_number(text: str, decimal: str = ".") -> str | None:
    """Return the number in a string as Python writes it, every digit of it; None if it is none.

    >>> plain_number("$-1,234,567,890,123,456,789.50"), plain_number("(7 %)"), plain_number("seven")
    ('-1234567890123456789.50', '-7', None)
    """
    match = _NUMBERS[decimal].fullmatch(text.strip())
    if match is None or (match["open"] is None) != (match["close"] is None):
        return None
    whole = re.sub(r"\D", "", match["whole"]).lstrip("0") or "0"
    signs = [match["sign"], match["inner"], match["last"], match["open"] and "-"]
    minus = "-" if sum(sign in ("-", "−") for sign in signs if sign) % 2 else ""
    return f"{minus}{whole}{'.' if match['part'] else ''}{match['part'] or ''}{match['power'] or ''}"


def parse_number(text: str, decimal: str = ".") -> float | None:
    """Return the number in a string, None if it is none or not finite.

    Thousands may be grouped, a currency or ``%`` may stand next to it, and parentheses or a minus at the end
    mean minus.

    >>> [parse_number(text) for text in ("12", "$1,234.50", "12.3 %", "(7)", "-€5", "1,2", "1 000", "nan")]
    [12.0, 1234.5, 12.3, -7.0, -5.0, None, 1000.0, None]
    >>> parse_number("1.234,50 €", ","), parse_number("0.5-")
    (1234.5, -0.5)
    """
    text = text.strip()
    if decimal == "." and "_" not in text:
        try:
            number = float(text)
        except ValueError:
            pass
        else:
            return number if math.isfinite(number) else None
    written = plain_number(text, decimal)
    if written is None:
        return None
    number = float(written)
    return number if math.isfinite(number) else None


def check_type(name: str, kind: str) -> str:
    """Return a type as it is written, refusing what is none.

    Raises
    ------
    ValueError
        If there is no such type; the sentence names the field.
    """
    base, _, detail = kind.partition(":")
    known = base in TYPES
    if known and detail:
        known = (
            (base == DATETIME and (detail == "iso" or detail in _EPOCHS or "%" in detail))
            or (base == TEXT and detail.isdigit() and int(detail) > 0)
            or (base == NUMBER and _UNIT.fullmatch(f"0{detail}") is not None)
        )
    if not known:
        meant = "" if base in TYPES else nearest(base, TYPES)
        forms = "number:UNIT, datetime:FORMAT (iso, epoch, epoch-ms or as %d.%m.%Y) or text:WORDS"
        types = f"use {', '.join(TYPES)}, {forms}"
        hint = f"did you mean {meant}?" if meant else types
        raise ValueError(f"type {kind!r} of the field {name!r} is unknown; {hint}")
    return kind


# ---- reading


def _read_number(decimal: str, unit: str) -> Read:
    def read(value: object) -> object:
        if isinstance(value, str):
            number = parse_number(without_unit(value, unit), decimal)
            return MISFIT if number is None else number
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return MISFIT
        return value if math.isfinite(value) else None if value != value else MISFIT

    return read


_TRUTHS = {word: number == 0 for pair in _BOOLEANS for number, word in enumerate(pair)}


def _read_boolean(value: object) -> object:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        value = value.strip()
        truth = _TRUTHS.get(value.lower())
        value = truth if truth is not None else {"1": 1, "0": 0}.get(value, value)
    return bool(value) if value in (0, 1) else MISFIT


def _read_moment(form: str) -> Read:
    unit = _EPOCHS.get(form)

    def read(value: Any) -> object:
        try:
            if unit is not None:
                seconds = float(value) / unit
                return _START + timedelta(seconds=seconds) if abs(seconds) < 1e11 else MISFIT
            text = str(value).strip()
            if form == "%Y%m%d":
                text = text.partition(".")[0]
            if form == "iso":
                return read_iso(text)
            bare, universal = without_zone(text)
            if not universal:
                return datetime.strptime(text, form)
            if "%z" in form:
                return datetime.strptime(f"{bare} +0000", form)
            return datetime.strptime(bare, form).replace(tzinfo=UTC)
        except (ValueError, OverflowError, TypeError):
            return MISFIT

    return read


def _read_category(value: object) -> object:
    if isinstance(value, str):
        return read_label(value) if value else value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def reader_of(kind: str, decimal: str = ".") -> Read:
    """Return a function from a value that is not missing to what a learner sees, or ``MISFIT``.

    Values are strings of CSV, or what JSON and its like have. Columns of text are not read by it
    (:func:`words_of`), and what is no input is not read at all.
    """
    base, _, detail = kind.partition(":")
    if base == NUMBER:
        return _read_number(decimal, detail)
    if base == DATETIME:
        return _read_moment(detail or "iso")
    return _read_boolean if base == BOOLEAN else _read_category


def word_names(name: str, kind: str) -> list[str]:
    """Return the names of the inputs of a text column.

    >>> word_names("note", "text:2")
    ['note#0', 'note#1']
    """
    return [f"{name}#{k}" for k in range(int(kind.partition(":")[2] or WORDS))]


def words_of(text: object, count: int) -> list[float]:
    """Return how often a text has words of each of ``count`` kinds: those of one CRC-32 modulo ``count``.

    >>> words_of("to be or not to be", 4)
    [2.0, 3.0, 0.0, 1.0]
    """
    counts = [0.0] * count
    for word in _WORD.findall(str(text).lower()):
        counts[zlib.crc32(word.encode()) % count] += 1.0
    return counts


# ---- inference


class ColumnProfile(NamedTuple):
    """What the first records say of a column.

    Attributes
    ----------
    name, type
        Its name and the inferred type; the type is empty where there is no value to infer one from.
    values, missing
        How many records have a value, and how many have none.
    distinct
        Different values.
    examples
        The first few different values.
    misfits
        Values that do not fit the type.
    warning
        What a person should look at; empty if nothing.
    stand_ins
        Numbers that may stand for no value, as -999 far below all others.
    """

    name: str
    type: str
    values: int
    missing: int
    distinct: int
    examples: tuple[object, ...]
    misfits: int
    warning: str
    stand_ins: tuple[float, ...] = ()


class ColumnProfiles(list[ColumnProfile]):
    """The columns of a log, a table in a notebook.

    Attributes
    ----------
    notes
        Sentences about all of them.
    """

    def __init__(self, columns: Iterable[ColumnProfile] = (), notes: Sequence[str] = ()) -> None:
        super().__init__(columns)
        self.notes = list(notes)

    def _repr_html_(self) -> str:
        from streamk.html_tables import html_table  # streamk takes a second to import

        names = ["", "type", "missing", "distinct", "examples", "a learner sees", "look at"]
        rows = [
            [
                column.name,
                column.type or "mixed",
                f"{column.missing:,}",
                f"{column.distinct:,}",
                ", ".join(str(each)[:20] for each in column.examples),
                inputs_of(column.type),
                column.warning,
            ]
            for column in self
        ]
        return html_table(f"columns in the first {LOOK:,} records", names, rows)


def infer(name: str, values: Sequence[object], decimal: str = ".") -> str:
    """Return the type of a column from its values, none of them missing; empty if it has no single type.

    >>> infer("price", ["$1,234.00", "$5.10"]), infer("ok", ["yes", "no"]), infer("plz", ["01067", "80331"])
    ('number', 'boolean', 'category')
    >>> infer("day", ["31.12.2024", "01.01.2025"]), infer("ts", [1700000000, 1700000060])
    ('datetime:%d.%m.%Y', 'datetime:epoch')
    >>> infer("id", [f"A-{k}" for k in range(50)]), infer("colour", ["red", "blue"] * 20)
    ('identifier', 'category')
    """
    if not values:
        return ""
    kinds = set(map(type, values))
    if kinds == {bool}:
        return BOOLEAN
    if kinds <= {int, float}:
        numbers_only = cast(Sequence[float], values)
        return _of_numbers(name, numbers_only, numbers_only)
    if kinds & {bool} or not kinds <= {int, float, str}:
        return ""
    strings = [str(value) for value in values]
    numbers = [parse_number(text, decimal) for text in strings]
    valid = [number for number in numbers if number is not None]
    if valid and _are_mostly(numbers, strings):
        if any(map(_CODE.fullmatch, strings)):
            return CATEGORY
        return NUMBER if any("%" in text for text in strings) else _of_numbers(name, valid, strings)
    if kinds != {str}:
        return ""
    if unit := _unit_of(strings, decimal):
        return f"{NUMBER}:{unit}"
    words = {text.strip().lower() for text in strings}
    if any(words <= set(pair) for pair in _BOOLEANS):
        return BOOLEAN
    if form := _date_format(strings):
        return f"{DATETIME}:{form}"
    return _of_strings(strings)


def _unit_of(strings: Sequence[str], decimal: str) -> str:
    """Return the unit that follows nearly all values, which are numbers else; empty if there is none.

    >>> _unit_of(["83.1 rpm", "84 rpm"], "."), _unit_of(["1.5kg", "2kg"], "."), _unit_of(["12A", "13A"], ".")
    ('rpm', 'kg', '')
    """
    matches = [_UNIT.fullmatch(text.strip()) for text in strings[:_TRIED]]
    units = Counter(each["unit"] for each in matches if each is not None)
    unit, count = units.most_common(1)[0] if units else ("", 0)
    if 2 * count < len(matches):
        return ""
    bare = [without_unit(text, unit) for text in strings]
    numbers = [
        parse_number(text, decimal) if text != old else None for text, old in zip(bare, strings, strict=True)
    ]
    apart = any(text[-1:].isspace() or decimal in text for text in bare)
    return unit if apart and _are_mostly(numbers, strings) else ""


def without_unit(text: str, unit: str) -> str:
    """Return a value without its unit, and without what follows that; a value without a unit is itself.

    >>> without_unit("83.1 rpm", "rpm"), without_unit("83.1", "rpm"), without_unit("83.1", "")
    ('83.1 ', '83.1', '83.1')
    """
    return text.strip().removesuffix(unit) if unit else text


def _are_mostly(read: Sequence[object], strings: Sequence[str]) -> bool:
    """Return whether strings are of a type: None is read where one does not fit.

    Nine in ten must fit; or half of them, where all others are one or two words that stand for none.
    """
    fitting = [value for value in read if value is not None]
    if len(fitting) >= _TOLERATED * len(strings):
        return True
    words = {text for text, value in zip(strings, read, strict=True) if value is None}
    return len(words) <= _WORDS_OF_NONE and len(set(fitting)) > _FEW and 2 * len(fitting) >= len(strings)


def _of_numbers(name: str, values: Sequence[float], written: Sequence[object]) -> str:
    """Return number, or what numbers stand for where the name says so."""
    whole = all(float(value).is_integer() for value in values)
    if _TIME_NAME.search(name):
        least = _TOLERATED * len(values)
        if whole and sum(_DAY.fullmatch(f"{value:.0f}") is not None for value in values) >= least:
            return f"{DATETIME}:%Y%m%d"
        for form, unit in _EPOCHS.items():
            if sum(_FROM * unit <= value <= _UNTIL * unit for value in values) >= least:
                return f"{DATETIME}:{form}"
    unique = len(set(written)) == len(written) >= _FEW  # several integers above 2**53 are one double
    return IDENTIFIER if whole and unique and _ID_NAME.search(name) else NUMBER


def _of_strings(strings: Sequence[str]) -> str:
    distinct = len(set(strings))
    if len(strings) < _FEW:
        return CATEGORY
    words = sum(len(text.split()) for text in strings) / len(strings)
    if words >= _LONG and distinct >= _SENTENCES * len(strings):
        return TEXT
    return IDENTIFIER if distinct >= _UNIQUE * len(strings) else CATEGORY


def _date_format(strings: Sequence[str]) -> str:
    """Return the format that most strings have, empty if there is none (:func:`_are_mostly`).

    Where day and month can be either, that order is taken that more strings fit, then in which time does not
    run backwards, or the day first.
    """
    stripped = [text.strip() for text in strings]
    if 2 * sum(any(map(str.isdigit, text)) and len(text) <= _LONGEST_DATE for text in stripped) < len(
        stripped
    ):
        return ""
    by_form: dict[str, list[datetime]] = {}
    for form in ("iso", *_FORMATS):
        moments = _moments(form, stripped)
        if moments is None:
            continue
        if form == "iso":
            return form
        by_form[form] = moments
    most = max(map(len, by_form.values()), default=0)
    best = [form for form, moments in by_form.items() if len(moments) == most]
    if len(best) > 1:
        for form in best:
            moments = by_form[form]
            if len(set(moments)) > 1 and all(a <= b for a, b in pairwise(moments)):
                return form
    return best[0] if best else ""


def _moments(form: str, strings: Sequence[str]) -> list[datetime] | None:
    """Return the times in strings by a format, without zones and misfits; None unless most are of it."""
    read = _read_moment(form)

    def parse(text: str) -> datetime | None:
        moment = read(text) if form != "iso" or _ISO.fullmatch(text) else MISFIT
        return moment.replace(tzinfo=None) if isinstance(moment, datetime) else None

    sample = strings[:: max(1, len(strings) // _TRIED)]
    if 2 * sum(parse(text) is not None for text in sample) < len(sample):
        return None
    moments = [parse(text) for text in strings]
    return [moment for moment in moments if moment is not None] if _are_mostly(moments, strings) else None


def describe(
    name: str, values: Sequence[object], records: int, kind: str = "", decimal: str = "."
) -> ColumnProfile:
    """Return what the values of a column say, none of them missing, of so many records.

    Parameters
    ----------
    kind
        The type; inferred if empty.
    """
    inferred = kind or infer(name, values, decimal)
    if kind == NUMBER and all(isinstance(value, str) for value in values):
        unit = _unit_of([str(value) for value in values], decimal)
        inferred = f"{NUMBER}:{unit}" if unit else kind
    base = inferred.partition(":")[0]
    misfits: list[object] = []
    numbers: list[float] = []
    if base in (NUMBER, BOOLEAN, DATETIME):
        read = [reader_of(inferred, decimal)(value) for value in values]
        misfits = [value for value, typed in zip(values, read, strict=True) if typed is MISFIT]
        numbers = [typed for typed in read if isinstance(typed, int | float)] if base == NUMBER else []
    none = stand_ins(numbers)
    distinct = list(dict.fromkeys(map(str, values)))
    warnings = [_misfitting(base, values, misfits)]
    if not kind:
        constant = records == len(values) > 1 == len(distinct) and base not in NO_INPUT
        warnings = [warnings[0] or _warning(base, inferred, values, constant), _of_order(numbers, none)]
        if 0 < len(values) <= _SPARSE * records:
            warnings.append(f"nearly empty: {len(values):,} of the first {records:,} records have a value")
    warnings += [f"{number:.10g} may stand for no value; --missing={number:.10g}" for number in none]
    return ColumnProfile(
        name,
        inferred,
        len(values),
        records - len(values),
        len(distinct),
        tuple(distinct[:3]),
        len(misfits),
        "; ".join(filter(None, warnings)),
        none,
    )


def stand_ins(numbers: Sequence[float]) -> tuple[float, ...]:
    """Return the numbers of nines that lie far outside of all others, and so may stand for no value.

    >>> stand_ins([20.5, -999.0, 21.0, 22.0]), stand_ins([1.0, 45.0, 99.0]), stand_ins([3, 4, 9999])
    ((-999.0,), (), (9999,))
    """
    distinct = set(numbers)
    nines = {n for n in distinct if not -99 < n < 99 and _NINES.fullmatch(f"{n:.10g}")}
    others = distinct - nines
    if not nines or len(others) < 2:
        return ()
    low, high = min(others), max(others)
    width = 2 * (high - low)
    return tuple(sorted(n for n in nines if n < low - width or n > high + width or n < 0 <= low))


def _of_order(numbers: Sequence[float], none: Sequence[float]) -> str:
    """Return a warning about numbers that only rise or only fall, as those of a clock do."""
    kept = [number for number in numbers if number not in none]
    if len(kept) < _FEW or len(set(kept)) < _FEW // 2:
        return ""
    rises = all(a <= b for a, b in pairwise(kept))
    if not rises and not all(a >= b for a, b in pairwise(kept)):
        return ""
    return f"never {'falls' if rises else 'rises'}: it may only say when an event was; --ignore removes it"


def _misfitting(base: str, values: Sequence[object], misfits: Sequence[object]) -> str:
    if not misfits:
        return ""
    words = ", ".join(map(repr, list(dict.fromkeys(map(str, misfits)))[:3]))
    read = f"{len(misfits):,} of {len(values):,} values are no {base} and are read as missing"
    return f"{read}: {words}; --missing accepts them"


def _warning(base: str, kind: str, values: Sequence[object], constant: bool) -> str:
    if not values:
        return "no values in the first records"
    if not kind:
        return "values of several types; --type sets one"
    if constant:
        return "constant"
    if base == IDENTIFIER:
        return "every row has a different value; --type sets a type to learn from it"
    if base == CATEGORY and (different := len(set(map(str, values)))) > max(_MANY, len(values) / 2):
        return f"{different:,} different values in {len(values):,}: as a category it says little; see --type"
    if base == CATEGORY and any(map(_CODE.fullmatch, map(str, values))):
        return "codes with leading zeros are categories"
    if "%m" in kind and all(_ambiguous(str(value), kind.partition(":")[2]) for value in values):
        return "day and month can be either; --type sets the format"
    return ""


def _ambiguous(text: str, form: str) -> bool:
    if "%d" not in form or "%b" in form or "%B" in form or form.startswith(("%Y", "%d.%m")):
        return False
    moment = datetime.strptime(text.strip(), form)
    return moment.day <= 12


def inputs_of(kind: str) -> str:
    """Return what a learner sees of a column, in words."""
    base, _, detail = kind.partition(":")
    if base == TEXT:
        return f"{int(detail or WORDS):,} hashed words"
    return {
        NUMBER: "1 number", BOOLEAN: "category", DATETIME: "7 calendar inputs", CATEGORY: "category",
        IDENTIFIER: "ignored", IGNORED: "ignored", "": "numbers and categories",
    }[base]  # fmt: skip


def flat(fields: Mapping[str, object]) -> Fields:
    """Return fields without objects and lists: ``{"a": {"b": 1}}`` is ``{"a.b": 1}``.

    Numbers of a list have their places in their names. Other values of a list are a bag: an input of 1 for
    each different value, and one more from 2, 3, 4, 6, 8, 12, … times on. What is always 1 where it is
    present says nothing but its presence, so a value that is absent is zero, and not a count that is missing.
    Fields of objects in a list are bags, too, and their numbers are added up.

    >>> flat({"a": {"b": 1}, "v": [2, 3], "tags": ["x", "y", "x"]})
    {'a.b': 1, 'v.0': 2, 'v.1': 3, 'tags.x': 1.0, 'tags.x.>=2': 1.0, 'tags.y': 1.0}
    """
    inputs = {name: value for name, value in fields.items() if not isinstance(value, (dict, list, tuple))}
    counts: dict[str, int] = {}
    for name, value in fields.items():
        if isinstance(value, (dict, list, tuple)):
            _flatten(inputs, counts, name, value)
    for name, count in counts.items():
        inputs.setdefault(name, 1.0)  # a field of that very name counts
        for step in _STEPS[: bisect_right(_STEPS, count)]:
            inputs.setdefault(f"{name}.>={step}", 1.0)
    return inputs


def _flatten(inputs: Fields, counts: dict[str, int], name: str, value: object) -> None:
    if isinstance(value, dict):
        for key, inner in value.items():
            _flatten(inputs, counts, f"{name}.{key}", inner)
    elif isinstance(value, (list, tuple)):
        if all(isinstance(each, (int, float)) and not isinstance(each, bool) for each in value):
            for place, each in enumerate(value):
                inputs.setdefault(f"{name}.{place}", each)
        else:
            for each in value:
                _count(inputs, counts, name, each)
    else:
        inputs.setdefault(name, value)


def _count(inputs: Fields, counts: dict[str, int], name: str, value: object) -> None:
    """Add one element of a list to the counts of its values."""
    if isinstance(value, dict):
        for key, inner in value.items():
            _count(inputs, counts, f"{name}.{key}", inner)
    elif isinstance(value, (list, tuple)):
        for each in value:
            _count(inputs, counts, name, each)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        inputs[name] = inputs.get(name, 0.0) + value
    elif value is not None:
        place = f"{name}.{value}"
        counts[place] = counts.get(place, 0) + 1
