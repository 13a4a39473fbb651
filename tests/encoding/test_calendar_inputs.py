"""Dates and times: circles and elapsed seconds, the same from dicts and from frames."""

import datetime as dt
import math
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import streamk
from streamk.encoding.calendar_inputs import calendar_columns, calendar_names, moments_of, with_calendar

BERLIN = ZoneInfo("Europe/Berlin")
EPOCH = dt.datetime(1970, 1, 1)
MOMENTS = [
    dt.datetime(2024, 2, 29, 23, 59, 59, 999_999),
    dt.datetime(1969, 12, 31, 12),
    dt.datetime(2024, 12, 31),
    dt.datetime(2023, 3, 1, 6, 30),
    dt.datetime(1900, 1, 1, 0, 0, 0, 1),
]


def expected(moment, elapsed):
    """The inputs of a naive datetime, from the calendar of the standard library."""
    part = (moment - dt.datetime.combine(moment.date(), dt.time())) / dt.timedelta(days=1)
    year = moment.year
    length = (dt.date(year, 12, 31) - dt.date(year, 1, 1)).days + 1 if year < 9999 else 365
    places = {
        "time_of_day": part,
        "weekday": (moment.weekday() + part) / 7,
        "day_of_year": (moment.timetuple().tm_yday - 1 + part) / length,
    }
    found = {}
    for name, place in places.items():
        found[f"t@{name}.sin"] = math.sin(2 * math.pi * place)
        found[f"t@{name}.cos"] = math.cos(2 * math.pi * place)
    return found | {"t@elapsed": elapsed}


@given(st.datetimes(max_value=dt.datetime(9998, 12, 31)))
@example(dt.datetime(1, 1, 1))
@example(dt.datetime(2000, 2, 29))
@example(dt.datetime(1900, 3, 1))
def test_inputs_are_those_of_the_calendar(moment):
    found = with_calendar({"t": moment}, True)
    wanted = expected(moment, (moment - EPOCH) / dt.timedelta(seconds=1))
    assert found == pytest.approx(wanted, rel=1e-12, abs=1e-9)
    assert list(found) == calendar_names("t")


def test_a_date_has_no_time_of_day():
    found = with_calendar({"t": dt.date(2024, 5, 17)}, True)
    assert list(found) == calendar_names("t", timed=False)
    midnight = with_calendar({"t": dt.datetime(2024, 5, 17)}, True)
    assert found == {name: midnight[name] for name in found}
    assert with_calendar({"t": np.datetime64("2024-05-17")}, True) == found


def test_circles_follow_the_wall_clock_and_seconds_universal_time():
    aware = dt.datetime(2024, 7, 1, 12, 0, tzinfo=BERLIN)
    naive = with_calendar({"t": dt.datetime(2024, 7, 1, 12, 0)}, True)
    found = with_calendar({"t": aware}, True)
    assert naive.pop("t@elapsed") - found.pop("t@elapsed") == 7200.0
    assert found == naive


@pytest.mark.parametrize("moment", MOMENTS)
def test_all_types_of_a_moment_agree(moment):
    wanted = with_calendar({"t": moment}, True)
    for other in (np.datetime64(moment, "us"), np.datetime64(moment, "ns"), pd.Timestamp(moment)):
        assert with_calendar({"t": other}, True) == wanted
    column = np.array([moment], dtype="datetime64[us]")
    columns = calendar_columns("t", moments_of("t", column, column))
    assert {name: float(values[0]) for name, values in columns} == wanted


def stream(kind="naive", count=60, missing=True):
    rng = np.random.default_rng(4)
    events = []
    for i in range(count):
        t = dt.datetime(2024, 3, 28, 22) + dt.timedelta(minutes=97 * i, microseconds=int(rng.integers(1e6)))
        t = {"naive": t, "aware": t.replace(tzinfo=BERLIN), "date": t.date()}[kind]
        x = {"a": float(rng.normal()), "t": None if missing and i % 6 == 1 else t}
        events.append((x, float(i % 24) + x["a"]))
    return events


def frames(events, kind):
    columns = {name: [x[name] for x, _ in events] for name in events[0][0]}
    arrow = {"naive": pa.timestamp("us"), "aware": pa.timestamp("us", "Europe/Berlin"), "date": pa.date32()}
    table = pa.table({"a": columns["a"], "t": pa.array(columns["t"], arrow[kind])})
    yield table
    yield pl.from_arrow(table)
    yield table.to_pandas(types_mapper=pd.ArrowDtype)
    yield table.to_pandas()  # objects, if they are dates
    mixed = pl.Series("a", columns["a"], dtype=pl.Object)
    yield pl.from_arrow(table).with_columns(mixed)


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("directions", ["keyed", "structured"])
@pytest.mark.parametrize("missing", [True, False])
@pytest.mark.parametrize("kind", ["naive", "aware", "date"])
def test_frames_equal_a_loop(kind, missing, directions, scaled):
    events = stream(kind, missing=missing)
    settings = {"features": 64, "seed": 2, "directions": directions, "scale_inputs": scaled}
    one = streamk.KaczmarzRegressor(**settings)
    for x, y in events:
        one.learn_one(x, y)
    said = [one.predict_one(x) for x, _ in events]
    for X in frames(events, kind):
        many = streamk.KaczmarzRegressor(**settings)
        many.learn_many(X, [y for _, y in events])
        assert many.to_bytes() == one.to_bytes(), type(X)
        found = many.predict_many(X)
        assert (found.to_pylist() if isinstance(X, pa.Table) else list(found)) == said
    dicts = streamk.KaczmarzRegressor(**settings)
    dicts.learn_many([x for x, _ in events], [y for _, y in events])
    assert dicts.to_bytes() == one.to_bytes()


@pytest.mark.parametrize("unit", ["ns", "us", "s", "D"])
def test_arrays_equal_a_loop(unit):
    T = np.array([x["t"] for x, _ in stream(missing=False)], dtype=f"datetime64[{unit}]")[:, None]
    T[7] = "NaT"
    one, many = (streamk.KaczmarzRegressor(features=64, seed=2) for _ in range(2))
    for i, t in enumerate(T[:, 0]):
        one.learn_one({"t": t}, float(i % 5))
    many.learn_many(T, [float(i % 5) for i in range(len(T))], names=["t"])
    assert many.to_bytes() == one.to_bytes()


def test_a_missing_moment_is_at_the_mean():
    learner = streamk.KaczmarzRegressor(features=64, seed=2)
    for x, y in stream(missing=False):
        learner.learn_one(x, y)
    said = {learner.predict_one({"a": 0.5, "t": nothing}) for nothing in (None, math.nan, pd.NaT, pd.NA)}
    assert len({*said, learner.predict_one({"a": 0.5, "t": np.datetime64("NaT")})}) == 1
    means = dict.fromkeys(calendar_names("t"))
    assert said == {learner.predict_one({"a": 0.5} | means)}
    assert said != {learner.predict_one({"a": 0.5})}


@pytest.mark.parametrize("other", ["t@elapsed", "t@weekday.sin"])
def test_a_collision_of_names_is_refused(other):
    x = {"t": dt.datetime(2024, 1, 1), other: 1.0}
    learner = streamk.KaczmarzRegressor(features=64, seed=2)
    message = f"field '{other}' has the name of a calendar input of field 't'; rename one of them"
    for _ in range(3):
        with pytest.raises(ValueError, match=message):
            learner.learn_one(x, 1.0)
        with pytest.raises(ValueError, match=message):
            learner.predict_one(x)
    for X in ([x], pl.DataFrame([x]), pd.DataFrame([x]), pa.Table.from_pylist([x])):
        with pytest.raises(ValueError, match=message):
            learner.learn_many(X, [1.0])
    assert learner.events == 0


def test_moments_without_a_year_are_refused():
    learner = streamk.KaczmarzRegressor(features=64, seed=2)
    far = np.array([["2024-01-01"], ["20000-01-01"]], dtype="datetime64[s]")
    with pytest.raises(ValueError, match=r"row 1: field 't' is 20000-01-01.*; a moment must be in the years"):
        learner.learn_many(far, [1.0, 2.0], names=["t"])
    with pytest.raises(ValueError, match="field 't' is 20000-01-01"):
        learner.learn_one({"t": far[1, 0]}, 1.0)
    for value in (dt.time(12), dt.timedelta(1), np.timedelta64(1, "s")):
        with pytest.raises(ValueError, match="field 't' is a time"):
            learner.learn_one({"t": value}, 1.0)


def test_an_hourly_cycle_is_learned_from_a_datetime_alone():
    rng = np.random.default_rng(0)
    learner, errors, plain = streamk.KaczmarzRegressor(seed=1), [], []
    for i in range(3000):
        t = dt.datetime(2024, 1, 1) + dt.timedelta(minutes=37 * i)
        y = 10.0 + 5.0 * math.sin(2 * math.pi * (t.hour + t.minute / 60) / 24) + 0.1 * rng.normal()
        errors.append(abs(learner.predict_one({"t": t}) - y))
        plain.append(abs(10.0 - y))
        learner.learn_one({"t": t}, y)
    assert np.mean(errors[2000:]) < 0.15 * np.mean(plain[2000:])
