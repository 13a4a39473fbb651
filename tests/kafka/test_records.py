"""The quick reader of fetched records beside the library's own, on a real broker's bytes and on bad ones."""

from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
import zstandard
from hypothesis import given, settings
from kafka.record import MemoryRecords, MemoryRecordsBuilder

from connectors.contract.records import Raw
from connectors.kafka import records as room
from connectors.kafka.records import QuickRecords, unpack_quickly

from .batches import (
    CONTROL,
    GOOD,
    SIZES,
    TRANSACTIONAL,
    Library,
    batch,
    batches_of,
    fetch,
    logs,
    read,
    reader,
    record,
    same,
)

GOLDEN = Path(__file__).parent / "golden" / "fetches.msgpack.zst"
FETCHES = msgspec.msgpack.decode(zstandard.decompress(GOLDEN.read_bytes()))["fetches"]


@pytest.mark.parametrize("number", [k for k, recorded in enumerate(FETCHES) if recorded["topic"] != "names"])
def test_fetches_of_a_real_broker_are_read_as_by_the_library(number):
    recorded = FETCHES[number]
    counts = {len(same(recorded, n)[0]) for n in (1, 2, 3, 5, 7, 10, 11, 100, None)}
    assert len(counts) == 1
    assert same(recorded, None)[1] is None


def test_the_recorded_fetches_have_every_case():
    batches = [batch for recorded in FETCHES for batch in batches_of(recorded["records"])]
    assert {batch.compression_type for batch in batches} == {0, 1, 2, 3, 4}
    assert {batch.timestamp_type for batch in batches} == {0, 1}
    assert any(batch.is_control_batch for batch in batches)
    assert any(batch.records_count == 0 for batch in batches)
    assert any(batch.records_count <= batch.last_offset_delta and batch.records_count for batch in batches)
    assert any(batch.attributes & 0x40 for batch in batches)  # tombstones with the time of their removal
    assert any(recorded["aborted"] for recorded in FETCHES)
    assert any(
        0 < MemoryRecords(recorded["records"]).valid_bytes() < len(recorded["records"])
        for recorded in FETCHES
    )
    records = [
        record for recorded in FETCHES if recorded["topic"] != "names" for record in same(recorded, None)[0]
    ]
    assert {None, b""} <= {value for _, value, _, _, _ in records}
    assert {None, b"k0"} <= {key for _, _, key, _, _ in records}
    assert any(len(value or b"") > 1_000_000 for _, value, _, _, _ in records)
    headers = [headers for _, _, _, _, headers in records]
    assert any(value is None for found in headers for _, value in found)
    assert any(len({name for name, _ in found}) < len(found) for found in headers)


def test_the_quick_way_is_taken(monkeypatch):
    def unexpected(*_):
        raise AssertionError("the library was asked")

    monkeypatch.setattr(QuickRecords, "_hand_over", unexpected)
    for recorded in FETCHES:
        part, _ = reader(QuickRecords, recorded)
        assert all(type(record) is Raw for record in part.take())


@pytest.mark.parametrize("n", [1, 2, None])
def test_header_names_that_are_not_utf_8(n):
    """The one difference in what is read: the library reads nothing more of the partition."""
    for recorded in (recorded for recorded in FETCHES if recorded["topic"] == "names" and recorded["offset"]):
        _, error, _ = read(Library, recorded, n)
        assert "UnicodeDecodeError" in str(error)
        steps, error, _ = read(QuickRecords, recorded, n)
        assert error is None
        ours = [one for step in steps for one in step[0]]
        assert [one[0] for one in ours] == [3, 4, 5, 6]
        assert ours[0][1] == b"{}"
        assert ours[0][4] == [("good", b"1"), ("caf\ufffd", b"2")]


@settings(max_examples=200, deadline=None)
@given(logs(), SIZES)
def test_any_log_is_read_as_by_the_library(log, n):
    assert same(log, n)[1] is None


def test_other_formats_are_left_to_the_library():
    for magic in (0, 1):
        for codec in (0, 1):
            builder = MemoryRecordsBuilder(magic, codec, 1000)
            for i in range(4):
                builder.append(1000 + i, b"key" * 10, b"value" * 10)
            builder.close()
            data = bytes(builder.buffer())
            found, error = same(fetch(records=batch([GOOD]) + data, offset=0), None)
            assert (len(found), error) == (5, None)
    strange = batch([GOOD], 1, magic=3, epoch=9, last=5)
    for n in (1, None):
        assert same(fetch(records=batch([GOOD]) + strange), n)[1] is None
        assert same(fetch(records=batch([GOOD]) + strange + batch([GOOD], 7)), n)[1] is None


MARKER = {"attributes": TRANSACTIONAL | CONTROL, "producer": 7}
COMMIT, ABORT = record(key=b"\0\0\0\1", value=b"\0" * 6), record(key=b"\0\0\0\0", value=b"\0" * 6)


@pytest.mark.parametrize(
    "tail",
    [
        batch([COMMIT], 2, **MARKER),
        batch([record(0)], 2, attributes=TRANSACTIONAL, producer=7) + batch([ABORT], 3, **MARKER),
        batch([], 2, last=5),
        batch([COMMIT], 2, **MARKER) + batch([], 3, last=5),
    ],
    ids=["marker", "aborted", "empty", "both"],
)
def test_the_position_is_past_what_brings_no_record(tail):
    data = batch([record(0), record(1)], attributes=TRANSACTIONAL, producer=8) + tail
    part, drained = reader(QuickRecords, fetch(records=data, aborted=[(7, 2)]))
    assert [raw.offset for raw in part.take(1)] == [0]
    assert (part.next_fetch_offset, drained) == (1, [])
    assert [raw.offset for raw in part.take(1)] == [1]
    assert part.next_fetch_offset == list(batches_of(data))[-1].next_offset
    assert drained == [part]
    assert not part
    data += batch([record(0)], part.next_fetch_offset, epoch=4)
    same(fetch(records=data, aborted=[(7, 2)]), 1)
    same(fetch(records=data, aborted=[(7, 2)]), 2)


def test_only_consumers_that_decode_nothing_read_quickly(monkeypatch):
    def consumer(**config):
        config = {"key_deserializer": None, "value_deserializer": None, **config}
        return SimpleNamespace(_fetcher=SimpleNamespace(config=config, PartitionRecords=Library))

    def chosen(made):
        unpack_quickly(made)
        return made._fetcher.PartitionRecords

    assert chosen(consumer()) is QuickRecords
    assert chosen(consumer(value_deserializer=bytes.decode)) is Library
    monkeypatch.setattr(room.kafka, "__version__", "4.0.0")
    assert chosen(consumer()) is Library
