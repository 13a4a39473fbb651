"""The key, the time and the headers of a record are fields, for one record as for many."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.contract.records import Raw
from connectors.events.decoding import EventFormat
from connectors.settings.tables import Settings
from connectors.state.training import changes, digest_of, training_of

RECORD = {"shop": "key", "at": "time", "region": "headers.region"}
COLUMNS = ["price", "y"]


def decoder(form="json", **named):
    named = {"target": "y", "record": RECORD, "columns": COLUMNS, **named}
    return EventFormat(**named).decoder(form)


def raw(value=b'{"price": 2.5, "y": "up"}', key=b"north", time=1_700_000_000_000, region=b"eu", offset=0):
    headers = () if region is None else (("region", b"old"), ("other", b"x"), ("region", region))
    return Raw(offset, value, key, time, headers)


def test_parts_become_fields():
    event = decoder().of_record(raw())
    assert event.fields == {"price": 2.5, "shop": "north", "at": 1_700_000_000_000, "region": "eu"}
    assert event.target == "up"


def test_parts_that_are_not_there_are_missing():
    event = decoder().of_record(raw(key=None, time=None, region=None))
    assert event.fields == {"price": 2.5, "shop": None, "at": None, "region": None}


def test_a_part_takes_the_place_of_a_field():
    assert decoder().of_record(raw(b'{"shop": "south", "y": 1}')).fields["shop"] == "north"


def test_bytes_that_are_no_text_do_not_end_the_run():
    assert decoder().of_record(raw(key=b"\xff\x00")).fields["shop"] == "\ufffd\x00"


@pytest.mark.parametrize("form", ["json", "csv"])
def test_parts_are_read_by_their_types(form):
    value = b"2.5,up" if form == "csv" else b'{"price": 2.5, "y": "up"}'
    typed = decoder(form, types={"shop": "number", "at": "datetime:epoch-ms", "region": "ignored"})
    fields = typed.of_record(raw(value, key=b"17")).fields
    assert fields["shop"] == 17.0
    assert "region" not in fields
    assert any(name.startswith("at@") for name in fields) or fields["at"] is not None
    assert typed.of_record(raw(value)).fields["shop"] is None
    assert typed.take_misfits()["shop"].count == 1


@pytest.mark.parametrize("form", ["json", "csv"])
def test_parts_may_be_the_target_the_key_or_no_feature(form):
    value = b"2.5,up" if form == "csv" else b'{"price": 2.5, "y": "up"}'
    assert decoder(form, ignore=["shop", "at"]).of_record(raw(value)).fields.keys() == {"price", "region"}
    assert decoder(form, features=["region"]).of_record(raw(value)).fields == {"region": "eu"}
    event = decoder(form, target="region", key="shop", time="at").of_record(raw(value))
    assert (event.target, event.key, event.time is not None) == ("eu", "north", True)


texts = st.one_of(st.none(), st.binary(max_size=3), st.sampled_from([b"a", b"7", b"NA"]))


@given(
    st.lists(st.tuples(texts, st.one_of(st.none(), st.integers(0, 10**13)), texts), min_size=1, max_size=5),
    st.sampled_from(["json", "csv"]),
    st.sampled_from([{}, {"shop": "number"}, {"at": "datetime:epoch-ms", "region": "category"}]),
)
def test_many_records_are_read_as_one_by_one(parts, form, types):
    value = b"2.5,up" if form == "csv" else b'{"price": 2.5, "y": "up"}'
    raws = [raw(value, *part, offset=k) for k, part in enumerate(parts)]
    many, single = decoder(form, types=types), decoder(form, types=types)
    events, targets = many.plain_records(raws)
    expected = [single.of_record(each) for each in raws]
    assert (events, targets) == ([e.fields for e in expected], [e.target for e in expected])
    assert many.misfits == single.misfits


def test_the_time_of_settings_is_a_date():
    settings = Settings.model_validate(
        {
            "source": {"kind": "topic", "topic": "t", "group": "g"},
            "events": {"target": "y", "record": RECORD},
        }
    )
    assert settings.format.types == {"at": "datetime:epoch-ms"}
    chosen = Settings.model_validate(
        {**settings.model_dump(by_alias=True), "schema": {"types": {"at": "number"}}}
    )
    assert chosen.format.types == {"at": "number"}


def test_parts_are_a_part_of_what_a_model_learned():
    tables = {"source": {"kind": "topic", "topic": "t", "group": "g"}, "events": {"target": "y"}}
    before = training_of(Settings.model_validate(tables))
    tables["events"] = {"target": "y", "record": RECORD, "repeats": 9}
    now = training_of(Settings.model_validate(tables))
    assert changes(before, now) == [("events.record", None, RECORD)]
    assert digest_of(before) != digest_of(now)


def test_the_key_of_an_event():
    assert decoder().key_of(raw()) == b"north"
    of_field = decoder(key="order.id")
    assert of_field.key_of(raw(json.dumps({"order": {"id": 7}}).encode())) == b"7"
    assert of_field.key_of(raw(b'{"y": 1}')) is None
    assert of_field.key_of(raw(b"no JSON")) is None
    assert decoder(key="shop").key_of(raw()) == b"north"
