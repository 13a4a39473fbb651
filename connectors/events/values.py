"""Strings to values: what a cell of CSV is as a feature, and as a target."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any, TypeVar

from streamk.arrays import Json

Reader = Callable[[str], object]
T = TypeVar("T")
Fields = Json  # of an event by name, as JSON, CSV or Arrow have them
Target = bool | int | float | str | None
Place = str | int | float | bytes | datetime | None  # a key or a time
_NUMBER = re.compile(r"[+-]?(?!0\d)(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_NANS = ("nan", "+nan", "-nan")


def read_value(text: str) -> float | str | None:
    """Return a CSV value as a number if it reads as one, None if it is empty, else the text.

    >>> [read_value(text) for text in ("3", "-1e3", " 2.5", "", "blue", "1_000")]
    [3.0, -1000.0, 2.5, None, 'blue', '1_000']
    """
    try:
        number = float(text)
    except ValueError:
        return text or None
    return number if "_" not in text else text


@lru_cache(4096)
def read_label(text: str) -> str | None:
    """Return the target in a CSV value: a number by its value, None if it is empty, else the text.

    CSV has no types, and the next label may be a word, so a label is always a text: ``1``, ``1.0`` and
    ``1e0`` are the class ``"1"``. What begins with a zero too many, as ``01``, is a code and not a number.

    >>> [read_label(text) for text in ("1", "1.0", " 1", "1e0", "-2.50", "01", "abc", "nan", "")]
    ['1', '1', '1', '1', '-2.5', '01', 'abc', 'nan', None]
    """
    number = text.strip()
    if not _NUMBER.fullmatch(number) or math.isinf(value := float(number)):
        return text or None
    if value == 0.0:
        return "0"
    exact = Decimal(number)
    return str(int(exact)) if exact == int(exact) else repr(value)


MISSING = ("", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL")


def value_reader(decimal: str = ".", missing: Sequence[str] = (), labels: bool = False) -> Reader:
    """Return :func:`read_value`, or with ``labels`` :func:`read_label`, for CSV as people have it.

    What is in ``missing``, but for spaces around, is None, and so is a NaN however it is written, if there is
    any. Where commas are decimal ones, what holds a point is a text: it may be a date or have thousands.

    >>> read = value_reader(",", MISSING)
    >>> [read(text) for text in ("3,14", "-2", "1.234,5", "31.12.2024", " NA ", "None", "?")]
    [3.14, -2.0, '1.234,5', '31.12.2024', None, 'None', '?']
    >>> value_reader(",", MISSING, labels=True)("2,50")
    '2.5'
    """
    read: Reader = read_label if labels else read_value
    if decimal == "." and not missing:
        return read
    gone = frozenset(missing)

    def read_cell(text: str) -> object:
        if missing and text.strip() in gone:
            return None
        if decimal == ".":
            value = read(text)
        elif "." in text:
            value = text
        else:
            value = read(text.replace(",", "."))
            value = text if isinstance(value, str) and not _NUMBER.fullmatch(value) else value
        if missing and (value != value or (labels and text.strip().lower() in _NANS)):
            return None
        return value

    return read_cell


def missing_or(read: Callable[[Any], T], missing: Sequence[str]) -> Callable[[Any], T | None]:
    """Return a reader that returns None for strings that are no value, but for spaces around them.

    >>> missing_or(float, ["", "NA"])(" NA "), missing_or(float, ["", "NA"])("2")
    (None, 2.0)
    """
    gone = frozenset(missing)
    if not gone:
        return read
    return lambda value: None if isinstance(value, str) and value.strip() in gone else read(value)


def label(target: object) -> object:
    """Return a target as a class label: whole numbers are integers, so ``1.0`` and ``1`` are one class.

    >>> label(1.0), label(Decimal("2.00")), label("1.0")
    (1, 2, '1.0')
    """
    if type(target) is Decimal and target.is_finite():
        return int(target) if target == int(target) else float(target)
    return int(target) if type(target) is float and target.is_integer() else target


def labels_of(targets: Sequence[object]) -> Sequence[object]:
    """Return targets as class labels."""
    return targets if set(map(type, targets)) <= {str, bool, int} else list(map(label, targets))


def kind_of(target: object) -> str:
    """Return what sort of target this is, in words."""
    if isinstance(target, bool):
        return "a truth"
    if isinstance(target, str):
        return "a text" if isinstance(read_value(target), str) else "a number in CSV"
    return "a number"


def label_name(label: object) -> str:
    """Return a label as a name in an object of JSON."""
    return str(label).lower() if isinstance(label, bool) else str(label)
