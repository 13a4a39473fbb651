"""Dead letters in a topic: every bad record becomes one, whatever its size."""

import collections
import contextlib
import json
import random
import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from typer.testing import CliRunner

from connectors.cli import app
from connectors.contract.records import DEAD_LETTERS, Output, Raw
from connectors.kafka import client
from connectors.kafka.dead_letters import TopicLimit, letter, original, read, topic_limits
from connectors.kafka.producer import StandardProducer
from tests.processes import Command

from .stand import events
from .test_daemon import learned

DEFAULT_LIMIT = 1_048_588  # bytes of a batch, the brokers' own default
LIMITS = {"max.message.bytes": str(DEFAULT_LIMIT)}
NOISE = random.Random(5).randbytes(3_000_000)  # no codec compresses it


@pytest.fixture(params=["kafka-python", pytest.param("confluent-kafka", marks=pytest.mark.long)])
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
    assert daemon.wait() == 8
    assert "raise the topic's max.message.bytes" in daemon.text()
    assert stand.checkpoint().learner().events == 0
    assert stand.read() == []


def test_limits_that_may_not_be_described_are_the_brokers_defaults(monkeypatch):
    class Admin:
        def describe_configs(self, resources, config_filter):
            return {"topic": {"a": {}}}

        def close(self):
            pass

    monkeypatch.setattr(client, "administrator", lambda options: Admin())
    assert topic_limits({}, ["a", "b"]) == dict.fromkeys("ab", TopicLimit(DEFAULT_LIMIT, True))


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


def run(*arguments):
    done = CliRunner().invoke(app, ["dead-letters", *map(str, arguments)])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def refused(stand, values, count):
    """Let a daemon refuse so many records of these, and stop it."""
    for value in values:
        stand.send([value]) if isinstance(value, bytes) else send(stand, *value)
    daemon = stand.start(stand.settings(limits={"ratio": 1.0}))
    daemon.until(lambda: len(stand.read("dead")) == count)
    assert daemon.stop() == 0


def test_show_counts_by_reason_and_lists_the_newest(stand):
    stand.topics(names=("in", "out"))
    stand.topics(names=("dead",), configs={"max.message.bytes": "2000"})
    rich = b"[red]\x1b[31m" + b"x" * 100
    refused(stand, [b"bad", (NOISE[:5000], b"key"), (rich, None), (b'{"y": [1], "f00": 1}', b"k")], 4)
    stand.send([b"somebody else's"], topic="dead")
    config = stand.settings()
    done = run("show", config, "--json")
    assert done.exit_code == 0, done.output
    summary, *rows = map(json.loads, done.stdout.splitlines())
    assert (summary["dead_letters"], summary["truncated"]) == (4, 1)
    assert sum(summary["reasons"].values()) == 4
    assert list(summary["reasons"].values()) == sorted(summary["reasons"].values(), reverse=True)
    assert [row["offset"] for row in rows] == [0, 1, 2, 3]
    assert {row["partition"] for row in rows} == {f"{stand.topic('in')}-0"}
    assert [row["key"] for row in rows] == [None, "key", None, "k"]
    assert [row["size"] for row in rows] == [3, 5000, len(rich), 20]
    assert [row["truncated"] for row in rows] == [False, True, False, False]
    assert rows[0]["value"] == "bad"
    assert rows[2]["value"] == rich.decode()[:60]
    assert all(row["reason"] in summary["reasons"] for row in rows)
    done = run("show", config, "--json", "--limit", 1)
    assert [json.loads(line).get("offset") for line in done.stdout.splitlines()] == [None, 3]
    table = run("show", config).stdout
    assert "in all, 1 of them truncated" in " ".join(table.split())
    assert "\x1b[31m" not in table
    assert "[red]" in table


def test_a_retried_record_is_the_original_one(stand):
    stand.topics(2)
    bad = json.dumps({"id": 1, "f00": 1.0, "label": True}).encode()
    stand.send([*events(10)])
    producer = KafkaProducer(bootstrap_servers=stand.servers)
    producer.send(stand.topic("in"), b"{", b"key", [("trace", b"1"), ("trace", b"2")], partition=1).get(30)
    producer.send(stand.topic("in"), None, b"gone", partition=1).get(30)
    producer.send(stand.topic("in"), bad[:-1], None, partition=0).get(30)
    producer.close(timeout=5)
    refused(stand, [], 3)
    config = stand.settings()
    ends = stand.end("in"), stand.end("in", 1)
    dry = run("retry", config, "--dry-run")
    assert "would send 3 dead letters" in dry.stdout
    assert (stand.end("in"), stand.end("in", 1)) == ends
    done = run("retry", config)
    assert done.exit_code == 0, done.output
    assert f"sent 3 dead letters to {stand.topic('in')}" in done.stdout
    assert "skipped 0 dead letters: truncated" in done.stdout
    found = [(r.key, r.value, r.headers) for r in stand.read("in", 1)[2:]]
    place = f"{stand.topic('in')}-1"
    assert found == [
        (b"key", b"{", [("trace", b"1"), ("trace", b"2"), ("streamk-retried", f"{place}:0".encode())]),
        (b"gone", None, [("streamk-retried", f"{place}:1".encode())]),
    ]
    assert [r.value for r in stand.read("in")[11:]] == [bad[:-1]]
    again = run("retry", config)
    assert "sent 0 dead letters" in again.stdout
    assert "no position" not in again.stdout
    refused(stand, [], 6)  # they fail again, and keep the place of their first failure
    assert "sent 3 dead letters" in run("retry", config).stdout
    marks = [dict(r.headers).get("streamk-retried") for r in stand.read("in", 1)]
    assert marks == [None, None] + 2 * [f"{place}:0".encode(), f"{place}:1".encode()]


def test_retried_events_are_learned_once_the_settings_fit(stand):
    stand.topics()
    sent = [{"id": i, "f00": float(i % 7), "y": i % 3} for i in range(60)]
    stand.send(sent)
    daemon = stand.start(stand.settings(limits={"ratio": 1.0, "labels": 2}))
    daemon.until(lambda: len(stand.read("dead")) == 20)
    assert daemon.stop() == 0
    config = stand.settings(limits={"labels": 3})
    assert "sent 20 dead letters" in run("retry", config).stdout
    daemon = stand.start(config)
    daemon.until(learned(stand, 60))
    assert daemon.stop() == 0
    targets = [json.loads(r.value)["target"] for r in stand.read()]
    assert collections.Counter(targets) == {0: 20, 1: 20, 2: 20}
    assert len(stand.read("dead")) == 20


def test_stubs_and_letters_of_others_are_skipped(stand):
    stand.topics(names=("in", "out"))
    stand.topics(names=("dead",), configs={"max.message.bytes": "2000"})
    refused(stand, [b"bad", (NOISE[:5000], b"key")], 2)
    marks = [("streamk-reason", b"no"), ("streamk-partition", b"other-0"), ("streamk-offset", b"0")]
    producer = KafkaProducer(bootstrap_servers=stand.servers)
    producer.send(stand.topic("dead"), b"bad", None, marks).get(30)
    producer.close(timeout=5)
    done = run("retry", stand.settings())
    assert f"sent 1 dead letters to {stand.topic('in')}" in done.stdout
    assert "skipped 1 dead letters: truncated" in done.stdout
    assert f"skipped 1 dead letters: not of {stand.topic('in')}" in done.stdout
    assert [r.value for r in stand.read("in")] == [b"bad", NOISE[:5000], b"bad"]


def test_a_letter_that_the_source_does_not_take_stops_nothing(stand):
    stand.topics(names=("in",), configs={"max.message.bytes": "3000"})
    stand.topics(names=("out", "dead"))
    value = NOISE[:2920]  # with the header of a retry it is too large
    refused(stand, [value, b"bad"], 2)
    done = run("retry", stand.settings())
    assert done.exit_code == 0, done.output
    assert "sent 1 dead letters" in done.stdout
    assert f"skipped 1 dead letters: too large for {stand.topic('in')}" in done.stdout


def letters(stand, count):
    """Write so many dead letters of the topic ``in``, once the brokers have a coordinator for groups."""
    consumer = KafkaConsumer(bootstrap_servers=stand.servers, group_id=stand.name)
    with contextlib.closing(consumer):
        consumer.committed(TopicPartition(stand.topic("in"), 0))
    producer = KafkaProducer(bootstrap_servers=stand.servers, linger_ms=5)
    for i in range(count):
        marks = [("streamk-reason", b"no"), ("streamk-partition", f"{stand.topic('in')}-0".encode()),
                 ("streamk-offset", b"%d" % i)]  # fmt: skip
        producer.send(stand.topic("dead"), b"%d" % i, None, marks)
    producer.flush()
    producer.close(timeout=5)


def test_a_killed_retry_sends_nothing_twice(stand):
    stand.topics()
    letters(stand, 8000)
    config = stand.settings()
    log, killed = stand.directory / "retry.log", []
    for kill_at in (1, 2500, 5000):
        with log.open("ab") as file:
            process = Command("dead-letters", "retry", config, stdout=file, stderr=file, env={})
        while stand.end("in") < kill_at and process.poll() is None:
            pass
        process.kill()
        killed.append(process.wait() == -signal.SIGKILL)
    done = run("retry", config)
    assert done.exit_code == 0, done.output
    assert any(killed), log.read_text()
    assert [int(r.value) for r in stand.read("in")] == list(range(8000))
    assert "sent 0 dead letters" in run("retry", config).stdout


def test_a_retry_that_ends_before_its_commit_is_undone(stand, monkeypatch):
    stand.topics()
    letters(stand, 1200)
    commit, done = StandardProducer.commit, []

    def end(self, *arguments):
        done.append(1)
        if len(done) == 2:
            self._producer.flush()
            raise SystemExit(1)
        commit(self, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(StandardProducer, "commit", end)
        assert run("retry", stand.settings()).exit_code == 1
    assert "sent 700 dead letters" in run("retry", stand.settings()).stdout
    assert [int(r.value) for r in stand.read("in")] == list(range(1200))


def test_a_recreated_topic_of_dead_letters_is_retried_from_its_first(stand):
    stand.topics()
    letters(stand, 3)
    assert "sent 3 dead letters" in run("retry", stand.settings()).stdout
    with stand.admin() as admin:
        admin.delete_topics([stand.topic("dead")])
        while stand.topic("dead") in admin.list_topics():
            pass
    stand.topics(names=("dead",))
    letters(stand, 2)
    done = run("retry", stand.settings())
    assert "sent 2 dead letters" in done.stdout
    assert "has no position" in done.stdout


def test_missing_topics_are_named(stand):
    stand.topics(names=("in",))
    for command in ("show", "retry"):
        done = run(command, stand.settings())
        assert done.exit_code == 2
        assert f"dead_letters.topic: there is no topic '{stand.topic('dead')}'" in done.output
