"""Dead letters in a topic: every bad record becomes one, whatever its size."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka import KafkaProducer

from connectors.kafka import topic_limits
from connectors.kafka.dead_letters import letter, original, read
from connectors.kafka.topic_limits import TopicLimit
from connectors.stream import DEAD_LETTERS, Output, Raw

from .stand import events
from .test_daemon import learned

DEFAULT_LIMIT = 1_048_588  # bytes of a batch, the brokers' own default
LIMITS = {"max.message.bytes": str(DEFAULT_LIMIT)}
NOISE = random.Random(5).randbytes(3_000_000)  # no codec compresses it


@pytest.fixture(params=["kafka-python", "confluent-kafka"])
def producer(request):
    return request.param


def send(stand, value, key=None, headers=(), compression=None):
    """Send one record with headers."""
    producer = KafkaProducer(
        bootstrap_servers=stand.servers, max_request_size=1 << 26, compression_type=compression
    )
    producer.send(stand.topic("in"), value, key, list(headers)).get(30)
    producer.close(timeout=5)


def learn_around(stand, producer, *records, **options):
    """Let a daemon learn 200 events before and after the records, and start it again; return the letters."""
    path = stand.settings(kafka__producer=producer)
    sent = events(401)
    stand.send(sent[:200])
    for record in records:
        send(stand, *record, **options)
    stand.send(sent[200:400])
    for more in ([], sent[400:]):
        stand.send(more)
        daemon = stand.start(path)
        daemon.until(learned(stand, 400 + len(more)))
        assert daemon.stop() == 0
    bad = range(200, 200 + len(records))
    assert [json.loads(r.value)["offset"] for r in stand.read()] == [
        i for i in range(401 + len(records)) if i not in bad
    ]
    progress = stand.checkpoint().partitions[f"{stand.topic('in')}-0"]
    assert (progress.learned, progress.refused) == (401, len(records))
    letters = stand.read("dead")
    assert [int(dict(r.headers)["streamk-offset"]) for r in letters] == list(bad)
    return letters


def test_a_record_near_the_limit_becomes_a_stub(stand, producer):
    stand.topics(configs=LIMITS)
    value = NOISE[: DEFAULT_LIMIT - 100]
    (letter,) = learn_around(stand, producer, (value,))
    headers = dict(letter.headers)
    assert headers["streamk-truncated"] == str(len(value)).encode()
    assert headers["streamk-partition"] == f"{stand.topic('in')}-0".encode()
    assert b"cannot be decoded" in headers["streamk-reason"]
    assert letter.value == value[:1024]


def test_a_compressed_record_of_3_mb_stays_whole(stand, producer):
    stand.topics(configs=LIMITS)
    value = NOISE[:400_000] + b"x" * 2_600_000
    (letter,) = learn_around(stand, producer, (value, b"key", [("trace", b"1")]), compression="gzip")
    assert (letter.key, letter.value) == (b"key", value)
    assert [name for name, _ in letter.headers] == [
        "trace", "streamk-reason", "streamk-partition", "streamk-offset",
    ]  # fmt: skip


def test_a_topic_that_decompresses_gets_a_stub(stand, producer):
    """Brokers measure what they write, and that is larger than what was sent."""
    stand.topics(names=("in", "out"), configs=LIMITS)
    stand.topics(names=("dead",), configs={**LIMITS, "compression.type": "uncompressed"})
    value = b"x" * 3_000_000
    (letter,) = learn_around(stand, producer, (value, b"key", [("trace", b"1")]), compression="gzip")
    assert (letter.key, letter.value) == (b"key", value[:1024])
    assert letter.headers[0] == ("trace", b"1")
    assert letter.headers[-1] == ("streamk-truncated", b"3000000")


def test_a_topic_with_a_larger_limit_gets_the_whole_record(stand, producer):
    stand.topics(names=("in", "dead"), configs={"max.message.bytes": "4000000"})
    stand.topics(names=("out",))
    (letter,) = learn_around(stand, producer, (NOISE,))
    assert letter.value == NOISE


def test_keys_and_headers_that_do_not_fit_are_dropped(stand, producer):
    stand.topics(names=("in", "out"), configs=LIMITS)
    stand.topics(names=("dead",), configs={"max.message.bytes": "2000"})
    large = NOISE[:3000]
    letters = learn_around(
        stand, producer, (b"bad", b"key", [("trace", large)]), (b"bad", large), (large, b"key", [("t", b"1")])
    )
    assert [(r.key, r.value, r.headers[0][0]) for r in letters] == [
        (b"key", b"bad", "streamk-reason"), (None, b"bad", "streamk-reason"), (b"key", large[:1024], "t"),
    ]  # fmt: skip
    assert [r.headers[-1] for r in letters] == [("streamk-truncated", size) for size in (b"3", b"3", b"3000")]


def test_a_prediction_that_does_not_fit_ends_the_run(stand, producer):
    stand.topics(names=("in", "dead"))
    stand.topics(names=("out",), configs={"max.message.bytes": "150"})
    stand.send(events(10))
    daemon = stand.start(stand.settings(kafka__producer=producer))
    assert daemon.wait(60) == 8
    assert "raise the topic's max.message.bytes" in daemon.text()
    assert stand.checkpoint().learner().events == 0
    assert stand.read() == []


def test_limits_that_may_not_be_described_are_the_brokers_defaults(monkeypatch):
    class Admin:
        def describe_configs(self, resources, config_filter):
            return {"topic": {"a": {}}}

        def close(self):
            pass

    monkeypatch.setattr(topic_limits, "administrator", lambda options: Admin())
    assert topic_limits.topic_limits({}, ["a", "b"]) == dict.fromkeys("ab", TopicLimit(DEFAULT_LIMIT, True))


TEXT = st.text(max_size=300)
BYTES = st.binary(max_size=200).flatmap(lambda b: st.sampled_from([b, b * 40, NOISE[: 40 * len(b)]]))


@given(
    st.one_of(st.none(), BYTES), st.one_of(st.none(), BYTES), st.lists(st.tuples(TEXT, BYTES), max_size=4),
    TEXT, st.integers(2000, 20_000), st.booleans(),
)  # fmt: skip
def test_every_letter_fits_its_topic(key, value, headers, reason, largest, compressed):
    limit = TopicLimit(largest, compressed)
    raw = Raw(17, value, key, None, headers)
    found = letter(Output(DEAD_LETTERS, "clicks-3", raw, reason.encode()), limit)
    assert limit.takes(*found)
    there = read(Raw(0, found.value, found.key, None, found.headers))
    assert (there.partition, there.offset, there.reason) == ("clicks-3", 17, reason)
    assert there.size == len(value or b"")
    assert (value or b"").startswith(there.value)
    if not there.truncated:
        assert (found.key, found.value, found.headers[: len(headers)]) == (key, value or b"", headers)
        again = original(Raw(0, found.value, found.key, None, found.headers), there)
        names = [(n, v) for n, v in headers if not n.startswith("streamk-")]
        assert (again.key, again.value, again.headers[:-1]) == (key, value, names)
