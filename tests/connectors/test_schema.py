"""Column types: inferred from values as people write them, and read by them from then on."""

import datetime
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.events.decoding import EventFormat
from connectors.events.schema import MISFIT, TYPES, describe, flat, infer, inputs_of, parse_number, reader_of
from connectors.files.log import ReplayLog
from tests.connectors.reading import decoder_of

COLUMNS = [
    ("price", ["$1,234.00", "$5.10", "-$3", "($7.50)"], "number"),
    ("share", ["12.3%", "4 %", "0.5%"], "number"),
    ("n", ["1 000", "2 000 000", "3"], "number"),
    ("n", ["1", "2", "x"] + [str(k) for k in range(30)], "number"),
    ("n", ["?"] * 20 + [str(k) for k in range(40)], "number"),
    ("code", ["A1", "12", "13B"] * 10, "category"),
    ("zip", ["01067", "80331", "10115"], "category"),
    ("ok", ["yes", "No", "YES"], "boolean"),
    ("ok", [True, False], "boolean"),
    ("on", ["0", "1", "1"], "number"),
    ("day", ["2024-01-31", "2024-02-01"], "datetime:iso"),
    ("day", ["2024-01-31T10:00:00Z", "2024-02-01 11:30"], "datetime:iso"),
    ("day", ["31/12/2024", "01/02/2025"], "datetime:%d/%m/%Y"),
    ("day", ["12/31/2024", "02/01/2025"], "datetime:%m/%d/%Y"),
    ("day", ["01/02/24", "02/02/24", "03/02/24"], "datetime:%d/%m/%y"),
    ("day", ["31.12.2024 10:30", "01.01.2025 08:15"], "datetime:%d.%m.%Y %H:%M"),
    ("at", ["10/Oct/2000:13:55:36 -0700"], "datetime:%d/%b/%Y:%H:%M:%S %z"),
    ("date", ["20240131", "20240201"], "datetime:%Y%m%d"),
    ("lasted", ["09:43:00", "18:04:10"], "datetime:%H:%M:%S"),
    ("starts", ["09:43", "18:04"], "datetime:%H:%M"),
    ("starts", ["9:43 AM", "6:04 PM"], "datetime:%I:%M %p"),
    ("ts", [1700000000, 1700000060], "datetime:epoch"),
    ("created", ["1700000000123", "1700000060000"], "datetime:epoch-ms"),
    ("load", [1700000000, 1700000060], "number"),
    ("id", [f"A-{k}" for k in range(60)], "identifier"),
    ("user_id", list(range(1000, 1060)), "identifier"),
    ("user_id", [k % 7 for k in range(60)], "number"),
    ("value", list(range(1000, 1060)), "number"),
    ("note", [f"the order {k} came too late" for k in range(60)], "text"),
    ("colour", ["red", "blue"] * 20, "category"),
    ("mixed", ["a", 1, "b", 2], ""),
    ("none", [], ""),
]


def test_a_category_of_which_most_values_differ_is_named():
    few, many = ([f"{k % count}, 7" for k in range(60)] for count in (30, 52))
    assert describe("place", few, 60).warning == ""
    assert describe("place", many, 60).warning.startswith("52 different values in 60")


@pytest.mark.parametrize(("name", "values", "kind"), COLUMNS)
def test_types_are_inferred(name, values, kind):
    assert infer(name, values) == kind
    column = describe(name, values, len(values) + 2)
    assert (column.type, column.values, column.missing) == (kind, len(values), 2)
    assert inputs_of(kind)


def test_ambiguous_dates_are_warned_of():
    assert "day and month" in describe("d", ["01/02/2024", "03/02/2024", "02/02/2024"], 3).warning
    assert not describe("d", ["01.02.2024", "03.02.2024", "02.02.2024"], 3).warning  # the day is first
    assert describe("d", ["31/02/2024"], 1).type == "category"
    assert describe("d", ["13/02/2024", "01/02/2024"], 2).warning == ""


@given(st.floats(-1e12, 1e12), st.sampled_from(["{:,.2f}", "${:,.2f}", "{:.2f} %", "€ {:,.2f}"]))
def test_formatted_numbers_are_read_as_they_were(number, form):
    expected = float(f"{number:.2f}")
    text = form.format(abs(expected))
    assert parse_number(text) == abs(expected)
    assert parse_number(f"-{text}") == parse_number(f"({text})") == -abs(expected)


@given(st.text(max_size=12), st.sampled_from(".,"))
def test_any_text_is_a_finite_number_or_none(text, decimal):
    number = parse_number(text, decimal)
    assert number is None or math.isfinite(number)


VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12)
KINDS = [*TYPES, "datetime:epoch", "datetime:%d.%m.%Y", "datetime:%Y%m%d", "text:3"]


@given(VALUES, st.sampled_from(KINDS))
def test_any_value_is_read_or_missing(value, kind):
    if value is not None and kind.split(":")[0] not in ("text", "identifier", "ignored"):
        found = reader_of(kind)(value)
        known = (int, float, str, bool, datetime.datetime, type(None))
        assert found is MISFIT or isinstance(found, known)
        assert not isinstance(found, float) or math.isfinite(found) or kind == "category"


def test_a_value_that_does_not_fit_is_missing_and_counted():
    types = {"a": "number", "b": "boolean", "c": "datetime:iso"}
    for form in ("json", "csv"):
        decode = decoder_of(form, "y", types=types, columns=["a", "b", "c", "y"])
        good = (
            b'{"a": "$5", "b": "no", "c": "2024-01-31", "y": 1}' if form == "json" else b"$5,no,2024-01-31,1"
        )
        bad = b'{"a": "many", "b": "maybe", "c": "soon", "y": 1}' if form == "json" else b"many,maybe,soon,1"
        found = decode(good).fields
        assert found == {"a": 5.0, "b": False, "c": datetime.datetime(2024, 1, 31)}
        assert not decode.misfits
        assert decode(bad).fields == {"a": None, "b": None, "c": None}
        assert {name: each.count for name, each in decode.misfits.items()} == {"a": 1, "b": 1, "c": 1}


def test_words_are_counted_by_their_hash():
    decode = decoder_of("json", "y", types={"t": "text:4"})
    one = decode(b'{"t": "The cat, the dog", "y": 1}').fields
    assert sum(one.values()) == 4
    assert max(one.values()) >= 2
    assert list(one) == ["t#0", "t#1", "t#2", "t#3"]
    assert set(decode(b'{"y": 1}').fields.values()) == {0.0}


def test_unknown_types_are_refused():
    for kind in ("digit", "datetime:soon", "text:0", "number:3", ""):
        with pytest.raises(ValueError, match=r"type .* of the field 'a' is unknown; use number"):
            EventFormat("y", types={"a": kind})


def test_fields_of_that_very_name_count():
    assert flat({"a.b": 1, "a": {"b": 2, "c": 3}}) == {"a.b": 1, "a.c": 3}


def test_columns_of_a_log_are_a_table_in_a_notebook(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("price,<b>,ok\n1.5,red,yes\nNA,blue,no\n")
    log = ReplayLog([str(path)], EventFormat(target="ok"))
    log.look()
    text = log.columns._repr_html_()
    assert "&lt;b&gt;" in text
    assert "<td>number</td><td>1</td><td>1</td><td>1.5</td><td>1 number</td>" in text


def test_fields_that_a_log_does_not_have_are_named(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"price": 1.5, "place": {"x": 1}, "ok": true}\n')
    format = EventFormat(
        target="ok", types={"pricee": "number"}, ignore=["place", "shop"], features=["price"]
    )
    log = ReplayLog([str(path)], format)
    log.look()
    assert log.notes[:2] == [
        "no field 'pricee' in the first records; did you mean price?",
        "no field 'shop' in the first records; use price, place.x or ok",
    ]
