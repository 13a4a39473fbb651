"""Records written by compiled code, beside the library's own way of writing them."""

from types import SimpleNamespace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kafka import TopicPartition
from kafka import errors as kafka_errors
from kafka.partitioner.default import murmur2
from kafka.producer.record_accumulator import RecordAccumulator
from kafka.record import MemoryRecords

from connectors.kafka import producer as room
from connectors.kafka.producer import StandardProducer, append, parts

PLACE = TopicPartition("t", 2)
NOW = 1_763_800_000.25
KEYS = st.one_of(st.none(), st.binary(max_size=9), st.binary(min_size=60, max_size=140))
VALUES = st.one_of(st.binary(max_size=9), st.binary(min_size=60, max_size=140), st.just(b"v" * 9000))


class Library:
    """What :class:`KafkaProducer` does with a message once it knows where to."""

    def __init__(self, batch_size=1 << 17):
        self._accumulator = RecordAccumulator(batch_size=batch_size)
        self.sent = 0

    def send(self, topic, value, key=None, headers=None, partition=None):
        self.sent += 1
        if partition is None:  # messages without a key go where keyed ones may go, too
            partition = PLACE.partition if key is None else (murmur2(key) & 0x7FFFFFFF) % 3
        place = TopicPartition(topic, partition)
        return self._accumulator.append(place, int(NOW * 1000), key, value, headers or [])[0]

    def partitions_for(self, topic):
        return {0, 1, 2}

    def batches(self, place=PLACE):
        """Close what is there, and return its bytes."""
        found = []
        for batch in self._accumulator._batches[place]:
            batch.records.close()
            found.append(bytes(batch.records.buffer()))
        return found


def standard(library):
    """Return our producer around a library's."""
    producer = StandardProducer.__new__(StandardProducer)
    producer._producer, producer._sent = library, []
    return producer


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    times = SimpleNamespace(now=NOW)
    monkeypatch.setattr(room.time, "time", lambda: times.now)
    return times


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(VALUES, KEYS), max_size=300),
    st.sampled_from([61, 100, 300, 1 << 14, 1 << 17]),
    st.lists(st.tuples(st.text(max_size=70), st.binary(max_size=140)), max_size=3),
)
@example([(b"v", None)] * 300, 1 << 17, [])
@example([(b"v" * 9000, b"k")] * 4, 1 << 14, [])
@example([(b"v", b"k")] * 300, 1 << 14, [("streamk-model", b"clicks"), ("", b"")])
def test_batches_are_the_librarys_to_the_byte(messages, size, headers):
    plain, quick = Library(size), Library(size)
    for value, key in messages:
        plain.send("t", value, key, headers)
    standard(quick).send_many("t", [value for value, _ in messages], [key for _, key in messages], headers)
    for partition in range(3):
        place = TopicPartition("t", partition)
        ours = quick.batches(place)
        assert ours == plain.batches(place)
        for data in ours:
            assert MemoryRecords(data).next_batch().validate_crc()


def test_few_messages_are_sent_by_the_library():
    """One opens each batch, and so chooses the partition, which may be another every time."""
    library = Library(10_000)
    standard(library).send_many("t", [b"v" * 100] * 1000, [None] * 1000)
    assert library.sent == len(library.batches()) == 12


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=20), st.integers(1, 7))
def test_the_partition_of_a_key_is_that_of_every_client(keys, count):
    partitions = [3 * k + 1 for k in range(count)]
    for key, found in zip(keys, parts(keys, partitions).tolist(), strict=True):
        assert found == partitions[(murmur2(key) & 0x7FFFFFFF) % count]


def test_times(clock):
    library = Library()
    future = library.send("t", b"first")
    clock.now = NOW + 70.0
    assert append(library, future, [b"a"], [None], (), []) == 1
    clock.now = NOW - 70.0  # a clock that was set back
    assert append(library, future, [b"b"], [b"k"], (), []) == 1
    (data,) = library.batches()
    batch = MemoryRecords(data).next_batch()
    first = int(NOW * 1000)
    assert [record.timestamp for record in batch] == [first, first + 70_000, first]
    assert (batch.first_timestamp, batch.max_timestamp) == (first, first + 70_000)


def test_a_batch_in_transit_does_not_change():
    library = Library()
    future = library.send("t", b"first")
    before = library.batches()
    assert append(library, future, [b"a"], [None], (), []) == 0
    assert library.batches() == before
    library._accumulator._batches[PLACE].clear()
    assert append(library, future, [b"a"], [None], (), []) == 0


def test_only_known_versions_are_written_into(monkeypatch):
    library = Library()
    future = library.send("t", b"first")
    monkeypatch.setattr(room.kafka, "__version__", "4.0.0")
    assert append(library, future, [b"a"], [None], (), []) == 0
    standard(library).send_many("t", [b"b"] * 5, [None] * 5)
    assert library.sent == 6


def test_messages_larger_than_a_batch_cost_no_more_each():
    """Only what may find room is looked at: the work would else grow with the square of their number."""
    library, seen = Library(1 << 12), []
    pack = room._pack
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(room, "_pack", lambda values, *more: seen.append(len(values[0])) or pack(values, *more))
        standard(library).send_many("t", [b"v" * 200_000] * 50, [None] * 50)
    assert library.sent == 50
    assert sum(seen) == 0


def test_a_batch_that_fails_whole_is_known():
    library = Library()
    producer = standard(library)
    producer.send_many("t", [b"v" * 50] * 40, [None] * 40)
    (batch,) = library._accumulator._batches[PLACE]
    assert not producer.too_large()
    batch.records.close()
    error = kafka_errors.MessageSizeTooLargeError()
    batch.complete_exceptionally(error, lambda _: error)
    assert producer.too_large()


def test_a_record_that_alone_is_too_large_is_known():
    """A batch is divided again and again; at the end one part fails, with the last record in it."""
    library = Library()
    producer = standard(library)
    producer.send_many("t", [b"v" * 50] * 5, [None] * 5)
    waiting = library._accumulator._batches[PLACE]
    while len(waiting) < 5:
        for _ in range(len(waiting)):
            batch = waiting.popleft()
            batch.records.close()
            if batch.record_count == 1:
                waiting.append(batch)
            else:
                parts_of = library._accumulator.split_and_reenqueue(batch)
                waiting.rotate(-parts_of)
    *others, last = waiting
    for batch in others:
        batch.complete(0, -1)
    assert not producer.too_large()
    error = kafka_errors.MessageSizeTooLargeError()
    last.complete_exceptionally(error, lambda _: error)
    assert producer.too_large()
    assert len(producer._sent) < 5 * 4  # a part is followed once, however many records it has


@pytest.mark.parametrize("failing", [0, 1])
def test_the_parts_of_a_batch_that_is_too_large_are_followed(failing):
    library = Library()
    producer = standard(library)
    producer.send_many("t", [b"v" * 50] * 40, [None] * 40)
    whole = library._accumulator._batches[PLACE].popleft()
    whole.records.close()
    assert library._accumulator.split_and_reenqueue(whole) == 2
    assert not producer.too_large()
    halves = list(library._accumulator._batches[PLACE])
    assert [half.record_count for half in halves] == [20, 20]
    halves[1 - failing].complete(0, -1)
    assert not producer.too_large()
    halves[failing].complete_exceptionally(
        kafka_errors.MessageSizeTooLargeError(), lambda _: kafka_errors.MessageSizeTooLargeError()
    )
    assert producer.too_large()
