"""Batches of records as a broker sends them, and as none would, and what reads them."""

from types import SimpleNamespace

from hypothesis import strategies as st
from kafka import TopicPartition
from kafka.consumer.fetcher import Fetcher
from kafka.protocol.consumer import IsolationLevel
from kafka.record import MemoryRecords
from kafka.record.default_records import DefaultRecordBatch as Format
from kafka.record.util import calc_crc32c, encode_varint

from connectors.kafka.records import QuickRecords, UnreadableBatchError

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
        if ours and not quick._handed_over:  # the library's position is there one poll later
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


GOOD = record(0)
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
