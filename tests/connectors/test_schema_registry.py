"""Records of Avro and JSON whose schemas are in a registry."""

import base64
import datetime
import decimal
import struct
import uuid

import pytest

from connectors.contract.errors import DENIED, USAGE, BrokerUnavailable, Failure
from connectors.formats.schema_registry import SchemaRegistry
from tests.kafka.schema_registry import Registry, avro, json_record

EVENT = {
    "type": "record",
    "name": "Event",
    "fields": [
        {"name": "price", "type": ["null", "double"], "default": None},
        {"name": "shop", "type": {"type": "enum", "name": "Shop", "symbols": ["north", "south"]}},
        {"name": "y", "type": "boolean"},
    ],
}
WIDER = {**EVENT, "fields": [{"name": "count", "type": "long"}, *EVENT["fields"]]}
VALUE = {"price": 1.0, "shop": "north", "y": True}


@pytest.fixture
def registry():
    return Registry()


@pytest.fixture
def url(registry):
    with registry.served() as address:
        yield address


def test_each_record_is_read_by_the_schema_that_wrote_it(registry, url):
    registry.add(7, EVENT)
    registry.add(8, WIDER)
    parse = SchemaRegistry(url).parser("avro")
    event = {"price": 2.5, "shop": "south", "y": True}
    for _ in range(3):
        assert parse(avro(7, EVENT, event)) == event
        assert parse(avro(8, WIDER, {"count": 3, **event})) == {"count": 3, **event}
    assert registry.requests == ["/schemas/ids/7", "/schemas/ids/8"]


def test_values_become_those_of_json(registry, url):
    logical = {
        "at": {"type": "long", "logicalType": "timestamp-millis"},
        "day": {"type": "int", "logicalType": "date"},
        "clock": {"type": "int", "logicalType": "time-millis"},
        "id": {"type": "string", "logicalType": "uuid"},
        "price": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        "tags": {"type": "array", "items": "string"},
    }
    schema = {
        "type": "record",
        "name": "E",
        "fields": [{"name": name, "type": kind} for name, kind in logical.items()],
    }
    registry.add(1, schema)
    value = {
        "at": datetime.datetime(2026, 11, 29, 8, 30, tzinfo=datetime.UTC),
        "day": datetime.date(2026, 11, 29),
        "clock": datetime.time(8, 30),
        "id": uuid.UUID(int=5),
        "price": decimal.Decimal("12.50"),
        "tags": ["a", "b"],
    }
    assert SchemaRegistry(url).parser("avro")(avro(1, schema, value)) == {
        "at": "2026-11-29T08:30:00+00:00",
        "day": "2026-11-29",
        "clock": "08:30:00",
        "id": str(uuid.UUID(int=5)),
        "price": 12.5,
        "tags": ["a", "b"],
    }


def test_schemas_refer_to_others(registry, url):
    money = {
        "type": "record", "name": "Money", "namespace": "shop", "fields": [{"name": "eur", "type": "double"}]
    }  # fmt: skip
    order = {"type": "record", "name": "Order", "fields": [{"name": "price", "type": "shop.Money"}]}
    registry.add(1, money, subject="money")
    registry.add(2, order, references=[{"name": "shop.Money", "subject": "money", "version": 1}])
    named = {}
    avro(1, money, {"eur": 1.0}, named)
    value = {"price": {"eur": 2.5}}
    assert SchemaRegistry(url).parser("avro")(avro(2, order, value, named)) == value


def test_json_needs_no_schema(registry, url):
    parse = SchemaRegistry(url).parser("json")
    assert parse(json_record(9, {"a": 1})) == {"a": 1}
    assert registry.requests == []


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        (b"", "does not begin with the number of a schema"),
        (b'{"a": 1}', "does not begin with the number of a schema"),
        (struct.pack(">bI", 0, 99), "schema 99 is not in the registry"),
        (avro(7, EVENT, VALUE)[:-1], "not of schema 7"),
        (avro(7, EVENT, VALUE) + b"x", "not of schema 7: bytes are left over"),
        (struct.pack(">bI", 0, 7) + b"\x02" + b"\xff" * 20, "not of schema 7"),
        (struct.pack(">bI", 0, 8) + b"x", "schema 8 is PROTOBUF, and events.format is avro"),
        (struct.pack(">bI", 0, 6) + b"x", "schema 6 cannot be used"),
        (struct.pack(">bI", 0, 5) + b"x", "schema 5 cannot be used: gone 1 is not in the registry"),
    ],
)
def test_records_that_cannot_be_read(registry, url, record, sentence):
    registry.add(7, EVENT)
    registry.add(8, "syntax", kind="PROTOBUF")
    registry.add(6, {"type": "record", "name": "E", "fields": [{"name": "a", "type": "Nowhere"}]})
    registry.add(5, EVENT, references=[{"name": "N", "subject": "gone", "version": 1}])
    with pytest.raises(ValueError, match=sentence):
        SchemaRegistry(url).parser("avro")(record)


def test_a_schema_may_come_later(registry, url):
    parse, record = SchemaRegistry(url).parser("avro"), avro(7, EVENT, VALUE)
    with pytest.raises(ValueError, match="schema 7 is not in"):
        parse(record)
    registry.add(7, EVENT)
    assert parse(record) == VALUE


def test_a_registry_that_does_not_answer_refuses_no_event(registry, url):
    parse, record = SchemaRegistry(url).parser("avro"), struct.pack(">bI", 0, 7)
    registry.status = 503
    with pytest.raises(BrokerUnavailable, match=r"registry\.url: http.* answers 503"):
        parse(record)
    with pytest.raises(BrokerUnavailable, match=r"registry\.url: http.* does not answer"):
        SchemaRegistry("http://127.0.0.1:9").parser("avro")(record)


def test_credentials():
    pair = "Basic " + base64.b64encode("me:sécret".encode()).decode()
    registry = Registry(pair)
    with registry.served() as url:
        assert SchemaRegistry(url, "me", "sécret").get("subjects") == []
        with pytest.raises(Failure, match=r"refuses registry\.username") as raised:
            SchemaRegistry(url, "me", "wrong").get("subjects")
        assert raised.value.code == DENIED


def test_avro_without_its_library(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "fastavro", None)
    with pytest.raises(Failure, match=r"pip install 'streamk\[avro\]'") as raised:
        SchemaRegistry("http://r").parser("avro")
    assert raised.value.code == USAGE
