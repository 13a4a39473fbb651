"""The quick reader of fetched records beside the library's own, on a real broker's bytes and on bad ones."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
import zstandard
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from kafka import TopicPartition
from kafka.consumer.fetcher import Fetcher
from kafka.protocol.consumer import IsolationLevel
from kafka.record import MemoryRecords, MemoryRecordsBuilder
from kafka.record.util import calc_crc32c, encode_varint

from connectors.kafka import records as room
from connectors.kafka.records import QuickRecords, UnreadableBatchError, unpack_quickly
from connectors.stream import Raw

GOLDEN = Path(__file__).parent / "golden" / "fetches.msgpack.zst"
FETCHES = msgspec.msgpack.decode(zstandard.decompress(GOLDEN.read_bytes()))["fetches"]
PLACE = TopicPartition("t", 0)
Library = Fetcher.PartitionRecords


def fetch(**changes):
    return {"topic": "t", "offset": 0, "committed": True, "records": b"", "aborted": [], **changes}


def reader(kind, fetch, **options):
    """Return a reader of a fetch, and a list that tells when it is drained."""
    drained = []
    aborted = [SimpleNamespace(producer_id=p, first_offset=o) for p, o in fetch["aborted"]]
    level = IsolationLevel.READ_COMMITTED if fetch["committed"] else IsolationLevel.READ_UNCOMMITTED
    part = kind(
        fetch["offset"], PLACE, MemoryRecords(fetch["records"]), isolation_level=level,
        aborted_transactions=aborted, on_drain=drained.append, **options,
    )  # fmt: skip
    return part, drained


def plain(record):
    return record.offset, record.value, record.key, record.timestamp, list(record.headers)


def read(kind, fetch, n):
    """Return what a reader gives, n at a time, with the position after each; its error; and the reader."""
    part, drained = reader(kind, fetch)
    steps, error = [], None
    while part:
        try:
            taken = part.take(n)
        except Exception as found:
            error = found
            break
        steps.append(([plain(record) for record in taken], part.next_fetch_offset, part.leader_epoch))
    assert (error is None) == (drained == [part])
    return [step for step in steps if step[0]], error, part


def same(fetch, n):
    """Check the quick reader against the library; return the records, and the quick reader's error."""
    ours, our_error, quick = read(QuickRecords, fetch, n)
    theirs, their_error, library = read(Library, fetch, n)
    assert [step[0] for step in ours] == [step[0] for step in theirs]
    # the last position may be ahead: nothing is left there
    assert [step[1:] for step in ours[:-1]] == [step[1:] for step in theirs[:-1]]
    assert quick.aborted_producer_ids == library.aborted_producer_ids
    assert list(quick.aborted_transactions) == list(library.aborted_transactions)
    assert (quick.records_read, quick.bytes_read) == (library.records_read, library.bytes_read)
    assert (our_error is None) == (their_error is None), (our_error, their_error)
    if our_error is None:
        if ours:
            assert ours[-1][1] == quick.next_fetch_offset  # reached with the last record
        end = library.next_fetch_offset, library.leader_epoch
        assert (quick.next_fetch_offset, quick.leader_epoch) == end
    else:
        assert isinstance(our_error, UnreadableBatchError)
        assert ours[-1:] == theirs[-1:] or not ours
    return [record for step in ours for record in step[0]], our_error


def batches_of(data):
    records = MemoryRecords(data)
    while records.has_next():
        yield records.next_batch()


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


# what no broker would send, written by hand


def varint(value):
    found = bytearray()
    encode_varint(value, found.append)
    return bytes(found)


def stretch(value):
    return varint(-1) if value is None else varint(len(value)) + value


def record(offset=0, value=b"v", key=None, headers=(), time=0, before=b"\0", after=b"", size=None):
    pairs = b"".join(stretch(name) + stretch(content) for name, content in headers)
    body = (
        before
        + varint(time)
        + varint(offset)
        + stretch(key)
        + stretch(value)
        + varint(len(headers))
        + pairs
        + after
    )
    return varint(len(body) if size is None else size) + body


def batch(bodies, offset=0, count=None, last=None, attributes=0, producer=-1, magic=2, epoch=3, first=1000):
    from kafka.record.default_records import DefaultRecordBatch as Format

    body = b"".join(bodies)
    count = len(bodies) if count is None else count
    last = len(bodies) - 1 if last is None else last
    head = bytearray(
        Format.HEADER_STRUCT.pack(
            offset, 49 + len(body), epoch, magic, 0, attributes, last, first, 2000, producer, 0, 0, count
        )
    )
    whole = head + body
    whole[17:21] = calc_crc32c(bytes(whole[21:])).to_bytes(4, "big")
    return bytes(whole)


TEXTS = st.one_of(st.none(), st.binary(max_size=5), st.binary(min_size=60, max_size=200))
HEADERS = st.lists(st.tuples(st.text(max_size=3).map(str.encode), TEXTS), max_size=3)
RECORDS = st.builds(
    lambda offset, value, key, headers, time: {
        "offset": offset, "value": value, "key": key, "headers": headers, "time": time,
    },
    st.integers(-3, 200), TEXTS, TEXTS, HEADERS, st.integers(-(2**40), 2**40),
)  # fmt: skip
PRODUCERS = st.sampled_from([-1, 7, 8])
TRANSACTIONAL, CONTROL, APPEND_TIME = 0x10, 0x20, 0x08


@st.composite
def logs(draw):
    """Give a fetch of batches of records, markers and gaps."""
    offset, found = draw(st.integers(0, 50)), []
    for _ in range(draw(st.integers(0, 5))):
        offset += draw(st.sampled_from([0, 0, 3]))
        producer = draw(PRODUCERS)
        attributes = TRANSACTIONAL if producer > 0 and draw(st.booleans()) else 0
        epoch = draw(st.integers(0, 3))
        if attributes and draw(st.booleans()):
            marker = record(key=b"\0\0\0" + draw(st.sampled_from([b"\0", b"\1"])), value=b"\0" * 6)
            found.append(
                batch([marker], offset, attributes=attributes | CONTROL, producer=producer, epoch=epoch)
            )
            offset += 1
            continue
        attributes |= draw(st.sampled_from([0, 0, APPEND_TIME]))
        wanted = draw(st.lists(RECORDS, max_size=6))
        if draw(st.integers(0, 9)):
            for k, one in enumerate(wanted):
                one["offset"] = k
        last = max([len(wanted) - 1, 0]) + draw(st.sampled_from([0, 0, 2]))
        bodies = [record(**one) for one in wanted]
        found.append(batch(bodies, offset, last=last, attributes=attributes, producer=producer, epoch=epoch))
        offset += last + 1
    aborted = draw(st.lists(st.tuples(st.sampled_from([7, 8]), st.integers(0, 60)), max_size=3))
    return fetch(
        records=b"".join(found),
        aborted=aborted,
        committed=draw(st.booleans()),
        offset=draw(st.integers(0, 60)),
    )


SIZES = st.sampled_from([1, 2, 3, 4, None])


@settings(max_examples=200, deadline=None)
@given(logs(), SIZES)
def test_any_log_is_read_as_by_the_library(log, n):
    assert same(log, n)[1] is None


@settings(max_examples=400, deadline=None)
@given(logs(), SIZES, st.data())
def test_broken_bytes_are_read_as_by_the_library(log, n, data):
    """Bytes are changed, cut or put in, with and without a checksum that is right again."""
    broken = bytearray(log["records"])
    assume(broken)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(broken) - 1))
        change = data.draw(st.sampled_from(["set", "cut", "insert"]))
        if change == "set":
            broken[place] = data.draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF, broken[place] ^ 1]))
        elif change == "insert":
            broken[place:place] = data.draw(st.binary(min_size=1, max_size=3))
        elif len(broken) > 1:
            del broken[place : place + data.draw(st.integers(1, 3))]
            broken = broken or bytearray(b"\0")
    if data.draw(st.booleans()):
        mend(broken)
    agree({**log, "records": bytes(broken)}, n)


def mend(data):
    """Make the checksums of batches right."""
    pos = 0
    while pos + 61 <= len(data):
        end = pos + 12 + int.from_bytes(data[pos + 8 : pos + 12], "big", signed=True)
        if end <= pos or end > len(data):
            return
        data[pos + 17 : pos + 21] = calc_crc32c(bytes(data[pos + 21 : end])).to_bytes(4, "big")
        pos = end


def agree(broken, n):
    """Check the quick reader against the library, unless what ails the bytes are names of headers."""
    _, error, _ = read(Library, broken, n)
    if "UnicodeDecodeError" not in str(error):
        return same(broken, n)
    theirs, ours = (read(kind, broken, None)[0] for kind in (Library, QuickRecords))
    before, given = ([r for step in steps for r in step[0]] for steps in (theirs, ours))
    assert given[: len(before)] == before
    return given, error


GOOD = record(0)
BROKEN = {
    "too long": record(1, size=300),
    "too short": record(1, size=3),
    "of no length": record(1, size=0),
    "of negative length": record(1, size=-5),
    "with more behind it": record(1, after=b"\0"),
    "with fewer headers": record(1)[:-1] + varint(2),
    "with negative headers": record(1)[:-1] + varint(-1),
    "with billions of headers": varint(12) + record(1)[1:-1] + varint(1 << 40),
    "with a nameless header": record(1, headers=[(None, b"v")]),
    "with a key beyond it": varint(9) + b"\0\0\2" + varint(100) + b"k\1\0" + b"\0",
    "with a value beyond it": varint(9) + b"\0\0\2\1" + varint(100) + b"v\0" + b"\0",
    "with a number without end": varint(12) + b"\0" + b"\xff" * 11,
    "with a number beyond 64 bits": varint(18) + b"\0" + b"\xff" * 9 + b"\7" + b"\2\1\1\0" + b"\0\0\0",
    "cut": record(1)[:-2],
    "cut in a number": record(1)[:2] + b"\x80",
    "missing": b"",
}


@pytest.mark.parametrize("what", BROKEN)
@pytest.mark.parametrize("n", [1, 2, None])
def test_a_broken_record_is_the_librarys_error_after_what_is_before_it(what, n):
    data = batch([record(0)]) + batch([record(0), BROKEN[what]], 1)
    found, error = same(fetch(records=data), n)
    assert [one[0] for one in found] == [0, 1]
    assert "t-0" in str(error)
    assert "offset 1" in str(error)
    assert (error.partition, error.offset) == (PLACE, 1)


ODD = {
    "a number in more bytes than it needs": [record(0, before=b"\x80\x80\0")],
    "a number of ten bytes": [varint(15) + b"\0" + b"\x80" * 9 + b"\0" + b"\0\1\1\0"],
    "attributes of two bytes": [record(0, before=b"\xff\1")],
    "offsets that go back": [record(3), record(1)],
    "the key of length minus two": [varint(6) + b"\0\0\0" + varint(-2) + b"\1\0"],
    "times beyond all": [record(0, time=(1 << 62) - 1), record(1, time=-(1 << 62))],
    "a time beyond that": [record(0, time=(1 << 63) - 1)],
    "nothing": [],
}


@pytest.mark.parametrize("what", ODD)
def test_what_is_odd_but_readable(what):
    for options in ({}, {"first": (1 << 63) - 1}, {"offset": (1 << 63) - 10}, {"first": -(1 << 63)}):
        for first in (0, 2):
            assert same(fetch(records=batch(ODD[what], **options), offset=first), None)[1] is None


def test_offsets_that_go_back_in_what_the_library_reads():
    found, _ = same(fetch(offset=5, records=batch([GOOD], 5) + batch(ODD["a time beyond that"])), None)
    assert [one[0] for one in found] == [5, 0]


@pytest.mark.parametrize("count", [-1, 0, 3, 2**31 - 1])
def test_a_wrong_number_of_records(count):
    found, error = same(fetch(records=batch([record(0), record(1)], count=count)), None)
    assert error is not None
    assert len(found) == max(min(count, 2), 0)


def test_nothing_is_read_beyond_the_bytes(tmp_path):
    """The tests of broken records, where Numba checks every index and raises errors of its own."""
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    chosen = ["-k", "a_broken_record or odd_but or wrong_number", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-x", *chosen, __file__],
        env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
    assert "100%" in done.stdout


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


@pytest.mark.parametrize("codec", range(1, 8))
def test_a_batch_that_cannot_be_decompressed(codec):
    data = batch([GOOD]) + batch([b"no such thing"], 1, count=1, attributes=codec)
    found, error = same(fetch(records=data), None)
    assert len(found) == 1
    assert "t-0: the batch at offset 1 cannot be read" in str(error)


def test_a_missing_codec_is_named(monkeypatch):
    monkeypatch.setattr("kafka.codec.has_lz4", lambda: False)
    _, error = same(fetch(records=batch([b"x"], attributes=3)), None)
    assert "Libraries for lz4" in str(error)


def test_a_wrong_checksum_is_an_error_unless_nobody_asks():
    data = bytearray(batch([GOOD]) + batch([record(0), record(1, b"value")], 1) + batch([GOOD], 3))
    data[data.index(b"value")] ^= 1
    found, error = same(fetch(records=bytes(data)), None)
    assert len(found) == 1
    assert "checksum" in str(error)
    part, _ = reader(QuickRecords, fetch(records=bytes(data)), check_crcs=False)
    assert [raw.offset for raw in part.take()] == [0, 1, 2, 3]


def test_an_error_comes_again_until_the_fetch_is_dropped():
    """The library's reader would be asked again and again, without end."""
    part, drained = reader(QuickRecords, fetch(records=batch([GOOD]) + batch([GOOD], 1, attributes=7)))
    assert len(part.take(5)) == 1
    for _ in range(3):
        assert part
        with pytest.raises(UnreadableBatchError, match="offset 1"):
            part.take(5)
    part.drain()
    assert not part
    assert drained == [part]


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
