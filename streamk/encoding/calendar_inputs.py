"""Calendar inputs: what a date or a time of a field becomes.

A moment of field ``t`` is seven numbers: sine and cosine of its place in the day, in the week and in the
year, and the seconds since 1970. Moments that are near on a circle are near as inputs: 23:59 and 00:01, the
31st of December and the first of January. A date without a time of day has no place in the day. The circles
use local time, the seconds universal time; for a time without a time zone, both use it unchanged. Inputs that
are not scaled have no unit for seconds, so there are only circles.

Dicts and frames both use :func:`calendar_row`, which is compiled, so they agree to the last bit. Times are
truncated to whole microseconds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.stable.v2.typing import IntoSeries
from numba import njit
from numpy.typing import NDArray

from streamk.arrays import AnyArray, Array, Integers
from streamk.compiling import ENTRY, both
from streamk.encoding.rows import RowError

ELAPSED = "@elapsed"
_OF_DAY = ("@time_of_day.sin", "@time_of_day.cos")
_OF_DATE = ("@weekday.sin", "@weekday.cos", "@day_of_year.sin", "@day_of_year.cos", ELAPSED)
_ENDINGS = (*_OF_DAY, *_OF_DATE)
PERIODS = {"@time_of_day": 86_400.0, "@weekday": 604_800.0, "@day_of_year": 31_556_952.0}  # seconds
_SECOND = 1_000_000
_DAY = 86_400 * _SECOND
_THURSDAY = 3  # the first of January 1970, days of the week counted from Monday
_EPOCH = date(1970, 1, 1).toordinal()
_FIRST, _LAST = (
    int(np.datetime64(text, "us").astype(np.int64)) for text in ("0001-01-01", "9999-12-31T23:59:59.999999")
)
_ZONE = re.compile(r"(.*\d)\s*(?:UTC|GMT|Z)", re.IGNORECASE)
_DATES = ("Y", "M", "W", "D")  # units of datetime64 that are no times of day
Ints = Integers


def without_zone(text: str) -> tuple[str, bool]:
    """Return a time without ``UTC``, ``GMT`` or ``Z`` at its end, and whether it had one of them.

    >>> without_zone("2024-01-05 10:00:00 UTC"), without_zone("5 Jan 2024")
    (('2024-01-05 10:00:00', True), ('5 Jan 2024', False))
    """
    text = text.strip()
    zone = _ZONE.fullmatch(text) if text[-1:].isalpha() else None
    return (text, False) if zone is None else (zone[1], True)


def read_iso(text: str) -> datetime:
    """Return the time that a string of ISO 8601 is, also with the name of universal time after a space.

    Raises
    ------
    ValueError
        If it is none.

    Examples
    --------
    >>> print(read_iso("2024-01-05 10:00:00 UTC"), read_iso("2024-01-05T10:00+01:00"), read_iso("2024-01-05"))
    2024-01-05 10:00:00+00:00 2024-01-05 10:00:00+01:00 2024-01-05 00:00:00
    """
    bare, universal = without_zone(text)
    moment = datetime.fromisoformat(bare)
    return moment.replace(tzinfo=UTC) if universal and moment.tzinfo is None else moment


class Moment(NamedTuple):
    """Microseconds since 1970 by the wall clock and in universal time; whether there is a time of day."""

    wall: int
    universal: int
    timed: bool


class Moments(NamedTuple):
    """The same of a column, whose missing moments are 0, with a mask of those present (None: all are)."""

    wall: Ints
    universal: Ints
    timed: bool
    present: NDArray[np.bool_] | None


@both()
def calendar_row(wall, universal):
    """Return the seven calendar inputs of a moment in microseconds."""
    days = wall // _DAY
    part = (wall - days * _DAY) / _DAY
    # the year by the civil calendar, which repeats after 400 years; it begins in March here
    shifted = days + 719_468
    era = shifted // 146_097
    of_era = shifted - era * 146_097
    year = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_march = of_era - (365 * year + year // 4 - year // 100)
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)  # of the year that has this March
    if of_march >= 306:  # January and February belong to the next year
        number, following = of_march - 306, year + 1
        leap = following % 4 == 0 and (following % 100 != 0 or following % 400 == 0)
    else:
        number = of_march + (60 if leap else 59)
    turn = 2.0 * math.pi
    of_day = turn * part
    of_week = turn * (((days + _THURSDAY) % 7 + part) / 7.0)
    of_year = turn * ((number + part) / (366.0 if leap else 365.0))
    return (
        math.sin(of_day), math.cos(of_day), math.sin(of_week), math.cos(of_week), math.sin(of_year),
        math.cos(of_year), universal / _SECOND,
    )  # fmt: skip


@njit(nogil=True, **ENTRY)
def _fill(wall, universal, out):
    for i in range(wall.shape[0]):
        row = calendar_row(wall[i], universal[i])
        out[i, 0], out[i, 1], out[i, 2], out[i, 3] = row[0], row[1], row[2], row[3]
        out[i, 4], out[i, 5], out[i, 6] = row[4], row[5], row[6]


def calendar_names(field: str, timed: bool = True, scaled: bool = True) -> list[str]:
    """Return the names of the calendar inputs of a field.

    Examples
    --------
    >>> calendar_names("t", timed=False)
    ['t@weekday.sin', 't@weekday.cos', 't@day_of_year.sin', 't@day_of_year.cos', 't@elapsed']
    """
    endings = _ENDINGS if timed else _OF_DATE
    return [field + ending for ending in (endings if scaled else endings[:-1])]


def with_calendar(fields: Mapping[str, object], scaled: bool) -> dict[Any, Any]:
    """Return the fields of an event with numbers in the place of moments.

    Raises a ValueError if a moment has no year, or one of its inputs the name of another field.
    """
    inputs: dict[object, object] = {}
    for name, value in fields.items():
        if isinstance(value, (date, np.datetime64)) and not _is_nat(value):
            moment = _moment(name, value)
            row = calendar_row(moment.wall, moment.universal)
            names = calendar_names(name, moment.timed, scaled)
            check_apart(name, names, fields)
            inputs |= zip(names, row if moment.timed else row[2:], strict=False)
        else:
            inputs[name] = value
    return inputs


def calendar_columns(field: str, moments: Moments) -> list[tuple[str, Array]]:
    """Return names and numbers of the calendar inputs of a column."""
    out = np.empty((len(moments.wall), len(_ENDINGS)))
    _fill(moments.wall, moments.universal, out)
    columns = out.T if moments.timed else out.T[len(_OF_DAY) :]
    return list(zip(calendar_names(field, moments.timed), np.ascontiguousarray(columns), strict=True))


def moments_in(field: str, column: nw.Series[IntoSeries]) -> Moments:
    """Return a column of dates or times of a frame as moments; a ValueError names one that has no year."""
    zone = getattr(column.dtype, "time_zone", None)
    if zone is None:
        values = column.to_numpy()
        if values.dtype.kind != "M":  # dates as objects
            known = [value if isinstance(value, date) else None for value in values.tolist()]
            values = np.array(known, dtype="datetime64[D]")
        return moments_of(field, values, values, isinstance(column.dtype, nw.Datetime))
    universal = column.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    return moments_of(field, column.dt.replace_time_zone(None).to_numpy(), universal.to_numpy())


def moments_of(field: str, wall: AnyArray, universal: AnyArray, timed: bool = True) -> Moments:
    """Return columns of datetime64 as moments; a ValueError names one that has no year."""
    gone = np.isnat(wall)
    columns = []
    for column in (wall, universal):
        seconds = column.astype("datetime64[s]").astype(np.int64)
        far = ~gone & ~((seconds >= _FIRST // _SECOND) & (seconds <= _LAST // _SECOND))
        if far.any():
            raise RowError(int(far.argmax()), _too_far(field, column[far.argmax()]))
        columns.append(np.where(gone, 0, column.astype("datetime64[us]").astype(np.int64)))
    return Moments(columns[0], columns[1], timed, ~gone if gone.any() else None)


def is_timed(unit: str) -> bool:
    """Return whether moments in a unit of datetime64 have a time of day."""
    return unit not in _DATES


def check_apart(field: str, names: Sequence[str], others: Collection[str]) -> None:
    """Raise a ValueError if a calendar input of a field has the name of another field."""
    for name in names:
        if name in others:
            raise ValueError(
                f"field {name!r} has the name of a calendar input of field {field!r}; rename one of them"
            )


def _moment(name: str, value: date | np.datetime64) -> Moment:
    if isinstance(value, np.datetime64):
        wall = value.astype("datetime64[s]").astype(np.int64)
        if not _FIRST // _SECOND <= wall <= _LAST // _SECOND:
            raise ValueError(_too_far(name, value))
        micros = int(value.astype("datetime64[us]").astype(np.int64))
        return Moment(micros, micros, is_timed(np.datetime_data(value.dtype)[0]))
    days = (value.toordinal() - _EPOCH) * _DAY
    if not isinstance(value, datetime):
        return Moment(days, days, False)
    seconds = 3600 * value.hour + 60 * value.minute + value.second
    micros = days + seconds * _SECOND + value.microsecond
    offset = value.utcoffset()
    if offset is None:
        return Moment(micros, micros, True)
    early = (offset.days * 86_400 + offset.seconds) * _SECOND + offset.microseconds
    return Moment(micros, micros - early, True)


def _is_nat(value: object) -> bool:
    """Return whether a moment is missing: NumPy's NaT, or that of pandas."""
    return bool(value != value)


def _too_far(field: str, value: object) -> str:
    return f"field {field!r} is {value!s:.40}; a moment must be in the years 1 to 9999"
