"""Fields of events: their names, the types that are accepted, and the errors for others."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from numbers import Real
from typing import Any, SupportsFloat

import numpy as np

from streamk.arrays import Json
from streamk.encoding.calendar_inputs import with_calendar
from streamk.encoding.rows import LARGEST, RowError

Event = Mapping[str, Any] | Mapping[Hashable, Any]
CATEGORIES = (bool, np.bool_, str)
_OF_PANDAS = {
    "Series": "; pass x.to_dict()",
    "DataFrame": "; a frame of events goes to the methods whose names end in _many",
}


def kind_of(value_type: type) -> str | None:
    """Return ``"number"``, ``"category"``, ``"moment"``, ``"missing"``, or None if a type is not accepted."""
    if issubclass(value_type, CATEGORIES):
        return "category"
    if issubclass(value_type, (Real, Decimal)) and not issubclass(value_type, np.timedelta64):
        return "number"
    if value_type is type(None) or _is_missing(value_type):
        return "missing"
    return "moment" if issubclass(value_type, (date, np.datetime64)) else None


def _is_missing(value_type: type) -> bool:
    """Return whether a type is that of pandas.NA or pandas.NaT; pandas need not be installed."""
    return value_type.__name__ in ("NAType", "NaTType") and value_type.__module__.startswith("pandas.")


def kind_of_value(value: object) -> str | None:
    """Return the :func:`kind_of` the type of a value; NaN and NaT are missing.

    Examples
    --------
    >>> kind_of_value(1.0), kind_of_value(float("nan")), kind_of_value(None), kind_of_value([])
    ('number', 'missing', 'missing', None)
    """
    kind = kind_of(type(value))
    return "missing" if kind in ("number", "moment") and is_nan(value) else kind


def is_nan(value: object) -> bool:
    """Return whether a number is NaN, or a moment NaT."""
    try:
        return bool(value != value)
    except ArithmeticError:  # a signaling NaN, which is an error
        return False


def name_of(field: Hashable) -> str:
    """Return the name of a field as a string; a whole number has that of an integer.

    Examples
    --------
    >>> name_of("a"), name_of(1), name_of(1.0), name_of(True)
    ('a', '1', '1', 'True')
    """
    if isinstance(field, (float, np.floating)) and float(field).is_integer():
        field = int(field)
    return str(field)


def named(x: Event) -> Json:
    """Return an event by names."""
    try:
        named = {name_of(field): value for field, value in zip(x, x.values(), strict=True)}
    except (
        AttributeError,
        TypeError,
    ):  # a Series has both methods of a dict's, and values that are no method
        raise ValueError(no_dict(x)) from None
    if len(named) < len(x):
        names = [name_of(field) for field in x]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"two fields of the event have the same name {twice!r}")
    return named


def number_names(x: Event) -> list[str]:
    """Return the names of an event's numbers."""
    fields = with_calendar(named(x), scaled=True)
    return [name for name, value in fields.items() if kind_of_value(value) == "number"]


def no_dict(x: object) -> str:
    """Return the error of a value that is no event.

    >>> no_dict([1.0])
    'an event must be a dict of field names to values, not list'
    """
    kind = type(x)
    of_pandas = _OF_PANDAS.get(kind.__name__, "") if kind.__module__.startswith("pandas") else ""
    return f"an event must be a dict of field names to values, not {kind.__name__}{of_pandas}"


def unaccepted(name: str, value: object) -> str:
    """Return the error of a value of a type that is not accepted."""
    return (
        f"field {name!r} is a {type(value).__name__}; a field must be a number, a boolean, a string, "
        "a date or time, or missing (None or NaN)"
    )


def as_float(name: str, value: SupportsFloat, largest: float) -> float:
    """Return a number as a float; raise a ValueError if it has none."""
    try:
        return float(value)
    except (OverflowError, ValueError):
        check_number(name, value, largest)
        raise


def check_number(name: str, value: SupportsFloat, largest: float) -> None:
    """Raise ValueError if a number is infinite, or too large to be squared or distinguished from others."""
    try:
        number = float(value)
    except (OverflowError, ValueError):
        number = math.inf
    if abs(number) > largest:
        shown = f"{number:g}" if not math.isinf(number) else str(value)[:40]
        remedy = " because inputs are not scaled; scale the field, or subtract its starting value"
        raise ValueError(
            f"field {name!r} is {shown}; numbers must be finite and at most {largest:g} in size"
            f"{remedy * (largest != LARGEST)} (a missing value is None or NaN)"
        )


def check_event(x: Event, largest: float) -> None:
    """Raise the ValueError that names the first field of an event that cannot be taken, if any."""
    for name, value in with_calendar(named(x), scaled=largest >= LARGEST).items():
        kind = kind_of(type(value))
        if kind is None:
            raise ValueError(unaccepted(name, value))
        if kind == "number":
            check_number(name, value, largest)


def check_events(events: Sequence[Event], largest: float) -> None:
    """Raise the RowError that names row and field of the first value that cannot be taken, if any."""
    row = 0
    try:
        for row, x in enumerate(events):  # noqa: B007 (an error names the row)
            check_event(x, largest)
    except ValueError as error:
        raise RowError(row, str(error)) from None
