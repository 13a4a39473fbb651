"""Times of events: values of a column of times as seconds since 1970."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, date, datetime
from typing import Any

from streamk.encoding.calendar_inputs import read_iso

_DAY = re.compile(r"\s*(19|20)\d{6}(\.0*)?\s*", re.ASCII)  # 19000101 to 20991231
_UNITS = ((1e17, 1e-9), (1e14, 1e-6), (1e11, 1e-3))  # from so many on, they are nano-, micro-, milliseconds


def moment(value: Any) -> float:
    """Return a time as seconds since 1970 in UTC.

    It is ISO 8601, in UTC where it names no zone (``UTC`` and ``GMT`` may follow), or a number: of seconds,
    or of milli-, micro- or nanoseconds if seconds would be after the year 5138. Eight digits that are a day
    from 1900 to 2099, as 20240131, are that day; as seconds they would be a moment of August 1970.

    Raises
    ------
    ValueError
        If it is no time.

    Examples
    --------
    >>> moment("2001-09-09T01:46:40Z"), moment("2001-09-09"), moment(1_000_000_000_000), moment("1e9")
    (1000000000.0, 999993600.0, 1000000000.0, 1000000000.0)
    >>> moment(20010909), moment("20010909"), moment(20010931)
    (999993600.0, 999993600.0, 20010931.0)
    """
    if isinstance(value, str | int | float) and (day := _day(str(value))) is not None:
        value = day
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            try:
                value = read_iso(value)
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


def _day(text: str) -> date | None:
    """Return the day that eight digits are, None if they are none."""
    if _DAY.fullmatch(text):
        digits = text.strip()
        try:
            return date(int(digits[:4]), int(digits[4:6]), int(digits[6:8]))
        except ValueError:
            pass
    return None


def moments(values: Iterable[object]) -> list[float]:
    """Return many.

    >>> moments(["1970-01-02", 60])
    [86400.0, 60.0]
    """
    return list(map(moment, values))
