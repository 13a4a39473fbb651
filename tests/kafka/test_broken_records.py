"""The quick reader of fetched records beside the library's own, on bytes that no broker would send."""

import os
import subprocess
import sys

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from kafka.record.util import calc_crc32c

from connectors.kafka.records import QuickRecords, UnreadableBatchError

from .batches import (
    GOOD,
    PLACE,
    SIZES,
    Library,
    batch,
    fetch,
    logs,
    read,
    reader,
    record,
    same,
    varint,
)


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


def test_the_position_follows_the_library_where_it_reads_the_batch():
    """The library reads batches whose offsets are beyond 62 bits; its position ends one poll later."""
    log = fetch(records=batch([record(), record()], offset=2**63 - 2**40, last=2), committed=False)
    records, error = agree(log, 1)
    assert len(records) == 2
    assert error is None


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
def test_unusual_but_readable_batches(what):
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


def test_a_wrong_checksum_is_an_error_if_checked():
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
