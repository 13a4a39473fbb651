"""A log of MessagePack as the source of a daemon."""

import msgspec
import pytest

from connectors.contract.errors import POSITION, USAGE, Failure
from connectors.files import source as module

from .test_following import add, came, followed
from .test_source import (
    JSON,
    PACK,
    ROWS,
    made,
    opened,
    read,
    rest,
    sources,  # noqa: F401 (a fixture that closes what was opened)
    write,
)

FIELDS = [{"a": a, "c": c} for a, c in ROWS]
RECORDS = [msgspec.msgpack.encode(fields) for fields in FIELDS]
LOG = b"".join(RECORDS)
STARTS = [sum(map(len, RECORDS[:k])) for k in range(len(RECORDS) + 1)]


@pytest.mark.parametrize("pack", PACK)
def test_events_and_positions(tmp_path, pack):
    path = write(tmp_path, LOG, pack)
    assert read(path, "msgpack") == FIELDS
    for k, start in enumerate(STARTS):
        source, _ = opened(path, "msgpack")
        source.begin("log", start)
        records = rest(source)
        assert [record.value for record in records] == RECORDS[k:]
        assert [record.offset for record in records] == STARTS[k:-1]


def test_records_that_are_written_byte_by_byte(tmp_path):
    path = write(tmp_path, b"")
    source, found = followed(path, "msgpack"), []
    for k in range(len(LOG)):
        add(path, LOG[k : k + 1])
        found += came(source)
        assert len(found) == sum(start <= k + 1 for start in STARTS[1:])
    assert found == RECORDS


def test_many_polls_lose_no_record(tmp_path):
    many = [msgspec.msgpack.encode({"a": i, "c": "x" * (i % 700)}) for i in range(5000)]
    source, assigned = opened(write(tmp_path, b"".join(many)), "msgpack")
    source.begin("log", assigned.first)
    assert [record.value for record in rest(source)] == many


def test_a_log_that_is_renamed_and_recreated(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_GRACE", 0.0)
    path = write(tmp_path, LOG)
    source = followed(path, "msgpack")
    assert came(source) == RECORDS
    path.rename(tmp_path / "log.1")
    path.write_bytes(RECORDS[0])
    found = []
    for _ in range(5):
        found += came(source)
    assert found == RECORDS[:1]


@pytest.mark.parametrize(
    ("tail", "why"), [(b"\x81\xa1a", "the last record is not whole"), (b"\xc1", "it is no MessagePack")]
)
def test_bytes_that_are_no_record_end_the_run_after_those_before(tmp_path, tail, why):
    source, _ = opened(write(tmp_path, LOG + tail), "msgpack")
    source.begin("log", 0)
    batch = source.poll(0).batches["log"]
    assert [record.value for record in batch.records] == RECORDS
    with pytest.raises(Failure, match=f"log after byte {len(LOG)}: {why}") as caught:
        source.poll(0)
    assert caught.value.code == POSITION


def test_a_checkpoint_recognises_the_log(tmp_path):
    path = write(tmp_path, LOG)
    source, _ = opened(path, "msgpack")
    mark = source.mark({"log": STARTS[3]})
    made(path, "msgpack").recognise(mark)
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(Failure, match="is another log than the one of the checkpoint"):
        made(write(other, b"".join(reversed(RECORDS))), "msgpack").recognise(mark)


@pytest.mark.parametrize("form", ["json", "csv", "msgpack"])
def test_parquet_is_refused_with_advice(tmp_path, form):
    with pytest.raises(Failure, match=r"log: it is Parquet.*streamk train, or give JSON lines") as caught:
        made(write(tmp_path, b"PAR1" + JSON.encode()), form)
    assert caught.value.code == USAGE


@pytest.mark.parametrize("pack", PACK)
@pytest.mark.parametrize("form", ["json", "csv", "msgpack"])
def test_checkpoints_on_the_way_do_not_change_what_is_read(tmp_path, form, pack):
    """A checkpoint reads the head of a log, which is longer than what is read at once."""
    rows = [{"a": i, "c": "x" * (i % 900)} for i in range(6000)]
    if form == "csv":
        lines = [b"a,c", *(f"{row['a']},{row['c']}".encode() for row in rows)]
        expected, data = lines[1:], b"\n".join(lines) + b"\n"
    else:
        expected = list(map((msgspec.json if form == "json" else msgspec.msgpack).encode, rows))
        data = b"".join(each + b"\n" * (form == "json") for each in expected)
    source, assigned = opened(write(tmp_path, data, pack), form)
    source.begin("log", assigned.first)
    found = []
    while not (polled := source.poll(0, 250)).finished:
        batch = polled.batches["log"]
        found += [record.value for record in batch.records]
        assert len(found) <= len(expected)
        source.mark({"log": batch.next})
    assert found == expected
