"""Large values in a compacted topic: whatever compaction has removed, a value is whole or does not count."""

import random
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.kafka import compacted
from connectors.kafka.compacted import ChunkCollector, cut

SMALL = 40  # bytes of a chunk in these tests


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(compacted, "CHUNK", SMALL)


def body(seed, size):
    """Return bytes that do not get smaller."""
    return random.Random(seed).randbytes(size)


class Topic:
    """A partition: what was written, and what is left of it."""

    def __init__(self):
        self.records, self.counts = [], {}

    def write(self, name, value, about=None, tombstones=True):
        messages = cut(name, value, about, 0, self.counts.get(name, 0) if tombstones else 0)
        self.records += [SimpleNamespace(key=m.key, value=m.value, headers=m.headers) for m in messages]
        self.counts[name] = sum(m.value is not None for m in messages)
        return messages

    def compact(self, until=None):
        """Keep the last of each key among the first so many records, as brokers do sooner or later."""
        head, tail = self.records[:until], self.records[len(self.records) if until is None else until :]
        last = {record.key: record for record in head}
        self.records = [record for record in head if last[record.key] is record] + tail

    def read(self, names=None):
        collector = ChunkCollector(names)
        for record in reversed(self.records):
            collector.take(record)
        return collector


def test_a_value_is_read_as_it_was_written():
    topic, value = Topic(), body(1, 500)
    messages = topic.write("clicks-3", value, {"position": 7})
    assert len(messages) > 10
    assert max(len(message.value) for message in messages) == SMALL
    found = topic.read().values["clicks-3"]
    assert found == (value, {"position": 7}, len(messages))


def test_a_small_value_is_one_message():
    topic = Topic()
    (message,) = topic.write("clicks-3", b"x")
    assert message.key == b"clicks-3/0"
    assert topic.read().values["clicks-3"].body == b"x"


@given(
    st.lists(
        st.tuples(st.sampled_from(["a-1", "a-2", "a-2/0"]), st.integers(0, 300)), min_size=1, max_size=12
    ),
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 100)), max_size=4),
)
def test_the_newest_counts_whatever_was_compacted(writes, compactions):
    topic, newest = Topic(), {}
    for k, (name, size) in enumerate(writes):
        newest[name] = body(k, size)
        topic.write(name, newest[name], k)
        for at, until in compactions:
            if at == k:
                topic.compact(until)
    found = topic.read()
    assert {name: value.body for name, value in found.values.items()} == newest
    assert topic.read(["a-1"]).values.keys() == newest.keys() & {"a-1"}


def test_a_shorter_value_leaves_nothing_of_a_longer_one():
    topic = Topic()
    count = len(topic.write("a", body(1, 300)))
    topic.write("a", b"x")
    topic.compact()
    left = [record for record in topic.records if record.value is not None]
    assert [record.key for record in left] == [b"a/0"]
    assert len(topic.records) == count


@pytest.mark.parametrize("missing", [0, 3, -1])
def test_what_is_not_whole_does_not_count(missing):
    """The one before counts."""
    topic, first = Topic(), body(1, 300)
    topic.write("a", first)
    begun = len(topic.records)
    topic.write("a", body(2, 300))
    del topic.records[begun + missing if missing >= 0 else -1]
    found = topic.read()
    assert found.values["a"].body == first
    topic.compact()
    found = topic.read()
    assert found.values == {}


def test_damage_does_not_count():
    topic, first = Topic(), body(1, 300)
    topic.write("a", first)
    topic.write("a", body(2, 300))
    topic.records[-2].value = body(3, SMALL)
    found = topic.read()
    assert found.values["a"].body == first


@pytest.mark.parametrize(
    ("key", "headers"), [(None, []), (b"a", []), (b"a/x", []), (b"a/0", []), (b"\xff/0", [("x", b"1")])]
)
def test_messages_of_other_programs_are_skipped(key, headers):
    topic = Topic()
    topic.write("a", b"ours")
    topic.records.append(SimpleNamespace(key=key, value=b"theirs", headers=headers))
    assert topic.read().values["a"].body == b"ours"


def test_nothing_more_is_needed_once_all_are_found():
    topic = Topic()
    for name in ("a", "b"):
        topic.write(name, body(1, 100))
    collector, taken = ChunkCollector(["b"]), 0
    for record in reversed(topic.records):
        if collector.done:
            break
        collector.take(record)
        taken += 1
    assert taken == topic.counts["b"]
    assert not ChunkCollector(None).done
