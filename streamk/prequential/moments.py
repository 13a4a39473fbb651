"""Times of events: what a column of times says, as seconds since 1970."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime
from typing import Any

_UNITS = ((1e17, 1e-9), (1e14, 1e-6), (1e11, 1e-3))  # from so many on, they are nano-, micro-, milliseconds


def moment(value: Any) -> float:
    """Return a time as seconds since 1970 in UTC.

    It is ISO 8601, in UTC where it names no zone, or a number: of seconds, or of milli-, micro- or
    nanoseconds if seconds would be after the year 5138.

    Raises
    ------
    ValueError
        If it is no time.

    Examples
    --------
    >>> moment("2001-09-09T01:46:40Z"), moment("2001-09-09"), moment(1_000_000_000_000), moment("1e9")
    (1000000000.0, 999993600.0, 1000000000.0, 1000000000.0)
    """
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            try:
                value = datetime.fromisoformat(value.strip())
            except ValueError:
                raise ValueError(f"{value!r} is no time: neither ISO 8601 nor a number") from None
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC).timestamp()
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e20:
        raise ValueError(f"{value!r} is no time: neither ISO 8601 nor a number")
    for least, unit in _UNITS:
        if abs(value) >= least:
            return float(value * unit)
    return float(value)


def moments(values: Iterable[Any]) -> list[float]:
    """Return many.

    >>> moments(["1970-01-02", 60])
    [86400.0, 60.0]
    """
    return list(map(moment, values))
