import datetime
import json
import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.events.decoding import Event, EventFormat
from connectors.events.values import label, labels_of, read_label
from tests.connectors.reading import decoder_of

PACK = {"json": msgspec.json.encode, "msgpack": msgspec.msgpack.encode}
FORMATS = ["json", "csv", "msgpack"]
COLUMNS = ["id", "price", "colour", "y", "n"]


def decoded(fields, format="json", **named):
    return decoder_of(format, **named)(PACK[format](fields))


def refuse(decoder, value, message):
    with pytest.raises(ValueError, match=message) as raised:
        decoder(value)
    return str(raised.value)


@pytest.mark.parametrize("format", PACK)
def test_roles(format):
    fields = {"id": 7, "at": "noon", "price": 2.5, "colour": None, "on": True, "y": "up", "n": 2}
    event = decoded(fields, format, target="y", key="id", time="at", weight="n")
    assert event == Event({"price": 2.5, "colour": None, "on": True}, "up", 2.0, 7, "noon")
    assert decoded(fields, format, target="y", ignore=["id", "at", "n", "absent"]).fields == event.fields
    assert decoded(fields, format) == Event(fields, None, None, None, None)


@pytest.mark.parametrize("format", PACK)
def test_roles_that_are_not_there(format):
    named = {"target": "y", "key": "id", "time": "at", "weight": "n"}
    assert decoded({"a": 1}, format, **named) == Event({"a": 1}, None, None, None, None)
    assert decoded(dict.fromkeys(["y", "id", "at", "n"]), format, **named) == Event(
        {}, None, None, None, None
    )
    assert decoded({}, format, **named) == Event({}, None, None, None, None)


@pytest.mark.parametrize(
    ("fields", "target", "left"),
    [
        ({"a": {"x": 1, "y": 2}}, 2, {"a.x": 1}),
        ({"a": {"y": 2}}, 2, {}),
        ({"a.y": 3, "a": {"y": 2}}, 3, {}),
        ({"a": {"y": None}}, None, {}),
        ({"a": {"x": 1}}, None, {"a.x": 1}),
        ({"a": 5}, None, {"a": 5}),
        ({"a": None}, None, {"a": None}),
        ({"a": [{"x": 1}]}, None, {"a.x": 1.0}),
        ({"y": 1}, None, {"y": 1}),
    ],
)
def test_a_path_into_objects(fields, target, left):
    assert decoded(fields, target="a.y") == Event(left, target, None, None, None)


def test_a_change_record():
    fields = {
        "before": None,
        "after": {"id": 1, "x": 0.5, "y": True},
        "source": {"ts": 9, "db": {"name": "n", "kind": "k"}},
    }
    named = {"target": "after.y", "key": "after.id", "time": "source.ts", "ignore": ["source", "before"]}
    assert decoded(fields, **named) == Event({"after.x": 0.5}, True, None, 1, 9)
    assert decoded(fields, **named, features={"x": "after.x"}).fields == {"x": 0.5}
    named["ignore"] = ["source.db.name", "before"]
    assert decoded(fields, **named) == Event({"after.x": 0.5, "source.db.kind": "k"}, True, None, 1, 9)


def test_features():
    fields = {"a": 1, "b": {"c": 2, "d.e": 3}, "y": 0}
    assert decoded(fields, features=["a", "b.c", "no", "b.no"]).fields == {
        "a": 1,
        "b.c": 2,
    }
    assert decoded(fields, features={"z": "b.c", "t": "b"}).fields == {"z": 2, "t.c": 2, "t.d.e": 3}
    assert decoded(fields, features=[], target="y") == Event({}, 0, None, None, None)


def test_csv():
    decode = decoder_of("csv", "y", key="id", weight="n", columns=COLUMNS)
    assert decode(b"7,2.5,red,1,2") == Event({"price": 2.5, "colour": "red"}, "1", 2.0, "7", None)
    assert decode(b'7,-1e3,"a ""b"", c",up,') == Event(
        {"price": -1000.0, "colour": 'a "b", c'}, "up", None, "7", None
    )
    assert decode(b",,,,") == Event({"price": None, "colour": None}, None, None, None, None)
    assert decode('"7","2","två\nrader",1,1\r\n'.encode()).fields == {"price": 2.0, "colour": "två\nrader"}
    numbers = decoder_of("csv", "y", columns=COLUMNS, numbers=True)
    assert numbers(b"7,2.5,red,1,2").target == 1.0
    assert numbers(b"7,2.5,red,,2").target is None
    tabs = decoder_of("csv", "y", columns=["a", "y"], delimiter="\t")
    assert tabs(b"1,5\tup, down") == Event({"a": "1,5"}, "up, down", None, None, None)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b"", "0 values for 5 columns"),
        (b"\n", "0 values for 5 columns"),
        (b"1,2,3,4", "4 values for 5 columns"),
        (b"1,2,3,4,5,6", "6 values for 5 columns"),
        (b'1,2,"3,4,5', "unexpected end of data"),
        (b'1,2,"3"x,4,5', "',' expected after '\"'"),
        (b"1,2,3,4,5\n1,2,3,4,5", "new-line character"),
        (b"1,2\r3,3,4,5", "new-line character"),
        (b"1,2,\xff,4,5", "utf-8"),
        (b"1,2," + b"3" * 200_000 + b",4,5", "field larger"),
        (b"1,2,3,4,x", "the weight is 'x'"),
        (b"1,2,3,4,-1", "the weight is -1"),
        (b"1,2,3,4,1e999", "the weight is inf"),
    ],
)
def test_csv_that_is_refused(value, message):
    refuse(decoder_of("csv", "y", weight="n", columns=COLUMNS), value, message)


def test_csv_without_columns():
    for columns in (None, []):
        with pytest.raises(ValueError, match=r"events\.columns"):
            decoder_of("csv", "y", columns=columns)


@pytest.mark.parametrize(("columns", "name"), [(["a", "b", "a", "y"], "'a'"), (["a", "b"], "'y'")])
def test_columns_that_cannot_be_meant(columns, name):
    with pytest.raises(ValueError, match=name):
        decoder_of("csv", "y", columns=columns)


def test_nan_in_json_is_no_value():
    decode = decoder_of("json", "y")
    event = decode(b'{"a": NaN, "b": {"c": NaN}, "s": "a \\" NaN", "t": "\\\\", "y": 1}')
    assert (
        event.fields == decode(b'{"a": null, "b": {"c": null}, "s": "a \\" NaN", "t": "\\\\", "y": 1}').fields
    )
    assert decode(b'{"a": 1, "y": NaN}').target is None
    quotes = b'{"a": NaN, "b": "' + b'\\"' * 500_000  # in linear time
    refuse(decode, quotes, "truncated")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b"", "truncated"),
        (b'{"a": 1', "truncated"),
        (b'{"a": 1} {"a": 2}', "trailing"),
        (b"a,b", "malformed"),
        (b'{"a": xNaN}', "malformed"),
        (b'{"a": Infinity}', "malformed"),
        (b'{"a": 1e400}', "out of range"),
        (b'{"a": ' + b"1" * 5000 + b"}", "out of range"),
        (b'{"a": ' * 100_000, "recursion"),
        (b'{"a": "\xff"}', "cannot be decoded"),
        (b'{"a": "\\ud800"}', "cannot be decoded"),
        (b"\xef\xbb\xbf{}", "cannot be decoded"),
        ('{"a": 1}'.encode("utf-16"), "cannot be decoded"),
        (b'[{"a": 1}]', "an event must be an object of fields, not list"),
        (b"3", "an event must be an object of fields, not int"),
        (b"null", "an event must be an object of fields, not NoneType"),
        (b'"{}"', "an event must be an object of fields, not str"),
    ],
)
def test_json_that_is_refused(value, message):
    refuse(decoder_of("json", "y"), value, message)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b"", "truncated"),
        (b"\x81\xa1a", "truncated"),
        (b"\x80\x80", "trailing"),
        (b"\x81\xa1\xff\x01", "utf-8"),
        (b"\x91" * 100_000 + b"\x01", "recursion"),
        (b"\x81\x90\xc1", "malformed"),
        (b"\x81\x81\x01\x02\x03", "hashable"),
        (b"\xdf\xff\xff\xff\xff", "truncated"),
        (b"\x91\x01", "an event must be an object of fields, not list"),
        (b"\xc0", "an event must be an object of fields, not NoneType"),
        (b'{"a": 1}', "cannot be decoded"),
        (b"\x81\xa1a\xd7\xff" + b"\xff" * 8, "timestamp"),
    ],
)
def test_messagepack_that_is_refused(value, message):
    refuse(decoder_of("msgpack", "y"), value, message)


def test_objects_and_lists_are_no_targets():
    for value, kind in (({"b": 2}, "an object"), ([1], "a list")):
        for role in ("target", "weight", "key", "time"):
            refuse(decoder_of("json", **{role: "y"}), json.dumps({"y": value}).encode(), f"'y' is {kind}")


def test_objects_and_lists_are_inputs():
    fields = {"a": [1, 2.5], "b": {"c": {"d": "x"}}, "tags": ["u", "v", "u", None, True], "e": [], "f": {}}
    bag = {"tags.u": 1.0, "tags.u.>=2": 1.0, "tags.v": 1.0, "tags.True": 1.0}
    assert decoded(fields).fields == {"a.0": 1, "a.1": 2.5, "b.c.d": "x", **bag}
    items = {"items": [{"price": 2, "kind": "k"}, {"price": 3.5}]}
    assert decoded(items).fields == {"items.price": 5.5, "items.kind.k": 1.0}
    refuse(decoder_of("json"), b'{"a": [{"b": 1}], "a.b": "x"}', "cannot be decoded")


def test_what_only_messagepack_has_is_left_to_the_learner():
    moment = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    event = decoded({"t": moment, "b": b"\xff", "n": math.inf}, "msgpack", time="t")
    assert event == Event({"b": b"\xff", "n": math.inf}, None, None, None, moment)
    assert decoded({1: 2, "y": 3}, "msgpack", target="y") == Event({1: 2}, 3, None, None, None)


@pytest.mark.parametrize("weight", ["1", -1, -0.5, 10**400, "", float("-1e300")])
def test_weights_that_are_refused(weight):
    value = json.dumps({"a": 1, "w": weight}).encode()
    said = refuse(decoder_of("json", weight="w"), value, "weight is|out of range")
    assert "\n" not in said


@pytest.mark.parametrize("weight", [0, 1, 0.25, 1e300])
def test_weights(weight):
    event = decoded({"a": 1, "w": weight}, weight="w")
    assert (event.weight, event.fields) == (weight, {"a": 1})
    assert type(event.weight) is float


def test_a_decoder_keeps_nothing():
    decode = decoder_of("json", target="a.y", features=["x"], key="k", weight="w")
    first = decode(b'{"x": 1, "a": {"y": 1}, "k": "k", "w": 3}')
    assert decode(b'{"x": 2}') == Event({"x": 2}, None, None, None, None)
    assert first == Event({"x": 1}, 1, 3.0, "k", None)


# ---- any bytes

ROLES = {"target": "y", "key": "k", "time": "a.t", "weight": "w"}
names = st.sampled_from(["a", "y", "k", "t", "w", "x", "a.t", ""])
values = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.floats(), st.text(), st.binary()
    ),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(names | st.integers(-9, 9), inner, max_size=3)
    ),
    max_leaves=8,
)
objects = st.dictionaries(names, values, max_size=6)
damage = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=3)


def attempt(format, value):
    """Return the event in bytes, None if they are refused; anything else is raised."""
    decode = decoder_of(format, **ROLES, columns=["a", "y", "k", "w"])
    try:
        event = decode(value)
    except ValueError as error:
        return None if type(error) is ValueError and str(error) else pytest.fail(repr(error))
    assert type(event) is Event
    assert type(event.fields) is dict
    assert event.weight is None or (type(event.weight) is float and 0 <= event.weight < math.inf)
    assert not {"y", "k", "w"} & event.fields.keys()
    return event


@pytest.mark.parametrize("format", FORMATS)
@given(value=st.binary(max_size=60))
def test_any_bytes(format, value):
    attempt(format, value)


@pytest.mark.parametrize("format", FORMATS)
@given(text=st.text('{}[]":,.-+0123456789eE\\u tfnlasry\n\r\t\0', max_size=60))
def test_any_text(format, text):
    attempt(format, text.encode())


@pytest.mark.parametrize("format", FORMATS)
@given(fields=objects, cut=st.integers(0, 200), flips=damage)
def test_damaged_events(format, fields, cut, flips):
    value = bytearray(
        ",".join(map(repr, fields.values())).encode(errors="replace")
        if format == "csv"
        else PACK[format](fields)
    )
    if format != "csv" and not {"w", "k", "a", "a.t", "y"} & fields.keys():
        assert attempt(format, bytes(value)) is not None
    for place, byte in flips:
        if value:
            value[place % len(value)] ^= byte
    attempt(format, bytes(value))
    attempt(format, bytes(value[:cut]))


@pytest.mark.parametrize(
    "value",
    [
        b"\x81\xa1k\xd4\x01\x00",
        b"\x81\xa1k\x81\xc0\x01",
        b"\x81\xa1k\x81\xc3\x01",
        b"\x81\xa1k\x91\x81\x91\x01\x01",
        b"\x81\xa1t\xd4\x05\x00",
    ],
    ids=["extension", "map of nil", "map of true", "map of an array", "time"],
)
def test_keys_and_times_can_be_written(value):
    try:
        event = decoder_of("msgpack", key="k", time="t")(value)
    except ValueError:
        return
    msgspec.json.encode([event.key, event.time])


# ---- labels


@pytest.mark.parametrize(
    ("texts", "label"),
    [
        (["1", "1.0", "1.", " 1", "1 ", "+1", "1e0", "10E-1", "0.1e1"], "1"),
        (["0", "0.0", "-0", ".0", "0e5", "1e-999"], "0"),
        (["-2.5", "-2.50", "-25e-1"], "-2.5"),
        (["1000", "1e3", "1000.000"], "1000"),
        (["9007199254740993", "9007199254740993.0", "9.007199254740993e15"], "9007199254740993"),
        (["12345678901234567890"], "12345678901234567890"),
    ],
)
def test_labels_of_csv_that_are_one_number(texts, label):
    assert [read_label(text) for text in texts] == [label] * len(texts)


@pytest.mark.parametrize(
    "text",
    [
        "abc",
        "01",
        "-01",
        "007.0",
        "nan",
        "inf",
        "1e999",
        "1_000",
        "0x1",
        "1,5",
        "1 2",
        "١",
        "true",
        " a",
        ".",
    ],
)
def test_labels_of_csv_that_are_strings(text):
    assert read_label(text) == text


@given(st.floats(-(2.0**53), 2.0**53) | st.integers(-(2**70), 2**70))
def test_a_number_however_written_is_one_label(number):
    label = read_label(str(number))
    assert read_label(label) == label
    assert float(label) == float(number)
    assert label == read_label(f"{number:.400f}" if isinstance(number, float) else f"{number}.00")


@given(st.text(max_size=8) | st.from_regex(r"[-+]?[0-9]{1,3}\.?[0-9]{0,3}e?-?[0-9]{0,12}", fullmatch=True))
def test_any_label_of_csv_is_itself_when_read_again(text):
    label = read_label(text)
    assert label is None if text == "" else read_label(label) == label


def test_labels_of_the_decoder():
    decode = decoder_of("csv", "y", columns=["a", "y"])
    lines = [b"1,1", b"2,1.0", b"3,abc", b"4,01", b"5, 1e0", b"6,"]
    assert [decode(line).target for line in lines] == ["1", "1", "abc", "01", "1", None]
    for decode in (decoder_of("json", "y"), decoder_of("json", "y", key="k")):
        found = [decode(b'{"y": %s}' % y).target for y in (b"1", b"1.0", b"1.5", b'"1.0"', b"true")]
        assert found == [1, 1, 1.5, "1.0", True]
        assert [type(y) for y in found] == [int, int, float, str, bool]
    assert type(decoder_of("json", "y", numbers=True)(b'{"y": 1.0}').target) is float


@pytest.mark.parametrize("targets", [["a", "b"], [True, 1, "1"], [1.0, 2, 2.5], [None, 3.0], []])
def test_labels_at_once_are_those_of_each(targets):
    found = list(labels_of(targets))
    assert [(type(y), y) for y in found] == [(type(label(y)), label(y)) for y in targets]


def test_an_attempt_to_decode_records_together_counts_no_misfit():
    decode = EventFormat("y", types={"a": "number"}, numbers=True).decoder("json")
    values = [b'{"a": "x", "y": 1}', b'{"a": 1, "y": "seven"}']
    assert decode.plain(values) is None
    assert not decode.take_misfits()
    assert decode.plain(values[:1]) is not None
    assert decode.take_misfits()["a"].count == 1


@pytest.mark.parametrize(
    "value",
    [
        b'{"a": {"b": 1.5}, "y": true}',
        b'{"a": [1, "u"], "y": true}',
        b'{"a": "{[", "y": true}',
        b'{"a": 1, "y": true}',
    ],
)
def test_records_decoded_together_are_those_decoded_one_by_one(value):
    decode = decoder_of("json", "y")
    plain = b'{"a": 2, "y": false}'
    events, targets = decode.plain([plain, value])
    assert (events, targets) == ([{"a": 2}, decode(value).fields], [False, True])
