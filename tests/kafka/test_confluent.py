"""Both producers write the same, keep the same promises, and say the same of what goes wrong."""

import contextlib
import json
import random
import sys
import threading
import time
from pathlib import Path

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka import errors as kafka_errors

import streamk
from connectors.cli.check import check
from connectors.contract.errors import BrokerUnavailable, Failure, Interruption
from connectors.contract.records import DEAD_LETTERS, PREDICTIONS, Committed, Output, Raw
from connectors.daemon.run import open_source_and_sinks, start_session
from connectors.daemon.telemetry import Telemetry
from connectors.kafka import confluent_producer
from connectors.kafka.confluent_producer import configuration, encoded_membership, membership
from connectors.kafka.sections import Kafka
from connectors.kafka.sink import TopicSink
from connectors.settings.file import load
from connectors.state.disk import CheckpointStore
from connectors.state.positions import (
    metadata_of,
)

from .broker import lacking
from .stand import LIMIT, events
from .test_daemon import learned

PRODUCERS = ["kafka-python", "confluent-kafka"]


@pytest.fixture(params=PRODUCERS)
def producer(request):
    return request.param


@contextlib.contextmanager
def opened(path):
    """Give a session in this process, and its source and sink."""
    settings = load(path)
    store = CheckpointStore(settings.checkpoints.directory)
    with store.locked(), open_source_and_sinks(settings, store) as (source, sinks):
        telemetry = Telemetry()
        yield start_session(settings, store, source, sinks, telemetry), source, sinks["topics"]


def go_on(session, position, seconds=LIMIT):
    """Let a session work up to a position, and make its outputs visible."""
    deadline = time.monotonic() + seconds
    while not session.positions or min(session.positions.values()) < position:
        assert time.monotonic() < deadline, session.positions
        session.step()
    session._commit()


def written(stand):
    return [json.loads(r.value)["offset"] for r in stand.read()]


def test_predictions_and_dead_letters(stand, producer):
    stand.topics()
    sent = events(3000)
    stand.send([*sent[:1000], b"bad", *sent[1000:]], keys=[f"k{i}".encode() for i in range(3001)])
    daemon = stand.start(stand.settings(kafka__producer=producer))
    daemon.until(learned(stand, 3000))
    assert daemon.stop() == 0
    records = stand.read()
    assert [json.loads(r.value)["offset"] for r in records] == [i for i in range(3001) if i != 1000]
    assert [r.key.decode() for r in records] == [json.loads(r.value)["key"] for r in records]
    (letter,) = stand.read("dead")
    headers = dict(letter.headers)
    assert (letter.key, letter.value) == (b"k1000", b"bad")
    assert headers["streamk-offset"] == b"1000"
    assert headers["streamk-partition"] == f"{stand.topic('in')}-0".encode()
    assert b"cannot be decoded" in headers["streamk-reason"]


@contextlib.contextmanager
def sink_of(stand, producer, source, topics=("out", "dead"), headers=()):
    kinds = dict(zip((PREDICTIONS, DEAD_LETTERS), map(stand.topic, topics), strict=True))
    kafka = Kafka(servers=[stand.servers], producer=producer)
    sink = TopicSink(kinds, kafka, stand.name, source, headers)
    try:
        yield sink
    finally:
        sink.close()


class Log:
    """A source that is no topic."""

    name = "log"


def letter(offset, value=b"x", key=None, headers=()):
    return Output(DEAD_LETTERS, "log", Raw(offset, value, key, None, headers), b"why")


def test_every_byte_of_a_letter(stand, producer):
    """Nothing is lost of what others put into a record, or made of it."""
    stand.topics(names=("out", "dead"))
    odd = [("trace", b"\0\xff"), ("trace", b""), ("empty", None), ("über", b"1"), ("", b"2"), ("a\0b", b"3")]
    raws = [letter(0, b"", b"", odd), letter(1, None, None), letter(2, b"\0a\0", b"\0k\0")]
    with sink_of(stand, producer, Log()) as sink:
        sink.begin("log", 0)
        sink.write(raws)
        sink.commit({"log": Committed(3)})
    found = stand.read("dead")
    assert [(r.value, r.key) for r in found] == [(b"", b""), (b"", None), (b"\0a\0", b"\0k\0")]
    cut = "a\ufffdb" if producer == "confluent-kafka" else "a\0b"
    assert found[0].headers[:6] == [*((name, value or b"") for name, value in odd[:5]), (cut, b"3")]
    assert all(r.headers[-3] == ("streamk-reason", b"why") for r in found)


def test_a_key_goes_where_all_clients_put_it(stand):
    """So a topic is in order by key whichever producer writes, and whichever wrote before."""
    stand.topics(names=("dead",))
    stand.topics(partitions=7, names=("in",))
    for producer in PRODUCERS:
        with sink_of(stand, producer, Log(), ("in", "dead")) as sink:
            outputs = [Output(PREDICTIONS, "log", Raw(i, b"", b"%d" % i), b"{}") for i in range(100)]
            sink.begin("log", 0)
            sink._emitted.clear()  # the second one writes the same
            sink.write(outputs)
            sink.commit({"log": Committed(100)})
    places = {}
    consumer = KafkaConsumer(
        bootstrap_servers=stand.servers, auto_offset_reset="earliest", enable_auto_commit=False
    )
    with contextlib.closing(consumer):
        consumer.assign([TopicPartition(stand.topic("in"), p) for p in range(7)])
        deadline = time.monotonic() + LIMIT
        while sum(map(len, places.values())) < 200 and time.monotonic() < deadline:
            for place, records in consumer.poll(500).items():
                for record in records:
                    places.setdefault(record.key, []).append(place.partition)
    assert len(places) == 100
    assert all(one == other for one, other in places.values())
    assert len({one for one, _ in places.values()}) == 7


def test_the_note_is_read_by_the_next_session(stand, producer):
    stand.topics()
    stand.send(events(1000))
    path = stand.settings(kafka__producer=producer, checkpoints__events=10**6, checkpoints__seconds=1e6)
    with opened(path) as (session, source, _):
        go_on(session, 1000)
        name = f"{stand.topic('in')}-0"
        position, text = source.committed([name])[name]
        assert position == 1000
        note = metadata_of(Committed(0, text))
        assert [owner[1:] for owner in note.owners] == [(0, 0)]
        assert note.partition_count == 1
    other = "confluent-kafka" if producer == "kafka-python" else "kafka-python"
    stand.send(events(500))
    with opened(stand.settings(kafka__producer=other)) as (session, _, _):
        go_on(session, 1500)
        session.finish()
    assert written(stand) == list(range(1500))
    assert stand.checkpoint().learner().events == 1500


@pytest.mark.parametrize("change", [{"generation_id": 77}, {"member_id": "somebody"}])
def test_the_broker_refuses_who_is_not_in_the_group(stand, producer, change):
    """What proves the membership is sent, and looked at."""
    stand.topics()
    stand.send(events(100))
    path = stand.settings(kafka__producer=producer)
    with opened(path) as (session, source, _):
        go_on(session, 100)
        stand.send(events(100))
        true = source.membership
        source.membership = lambda: true()._replace(**change)
        with pytest.raises((Interruption, Failure), match=r"(?i)generation|member|identity|epoch"):
            go_on(session, 200)
    assert written(stand) == list(range(100))
    with opened(path) as (session, _, _):
        go_on(session, 200)
        session.finish()
    assert written(stand) == list(range(200))


def test_a_layout_that_is_the_librarys_own(stand):
    """Compared with what confluent-kafka itself makes of a member, with a fixed name and without one."""
    from confluent_kafka import Consumer

    stand.topics(names=("in",))
    for instance in ("fixed", None):
        options = {"bootstrap.servers": stand.servers, "group.id": f"{stand.name}-é{instance}"}
        consumer = Consumer(options | ({"group.instance.id": instance} if instance else {}))
        with contextlib.closing(consumer):
            consumer.subscribe([stand.topic("in")])
            deadline = time.monotonic() + LIMIT
            while not consumer.assignment() and time.monotonic() < deadline:
                consumer.poll(0.1)
            theirs = bytes(consumer.consumer_group_metadata())
            ours = encoded_membership(1, options["group.id"], consumer.memberid(), instance)
            assert theirs == ours
    assert membership("jobs") == encoded_membership(-1, "jobs", "", None)


def test_a_batch_that_is_refused_during_its_commit_ends_the_wait(stand, monkeypatch):
    """Kafka-python finds out while it waits for the end of the transaction, after the batch was divided."""
    monkeypatch.setattr("connectors.kafka.producer.LONGEST", 20.0)
    stand.topics(names=("dead",))
    stand.topics(names=("out",), configs={"max.message.bytes": "150"})
    for _ in range(4):
        with sink_of(stand, "kafka-python", Log()) as sink:
            sink.begin("log", 0)
            sink.write(
                [Output(PREDICTIONS, "log", Raw(i, b""), random.Random(i).randbytes(200)) for i in range(10)]
            )
            with pytest.raises(Failure, match=r"raise the topic's max\.message\.bytes") as raised:
                sink.commit({"log": Committed(10)})
        assert raised.value.code == 8


def test_many_letters_that_the_topic_takes_one_by_one(stand, producer):
    stand.topics(names=("in", "out"))
    stand.topics(names=("dead",), configs={"max.message.bytes": "2000"})
    stand.send([*events(10), *[b"x" * 900] * 50])
    daemon = stand.start(stand.settings(kafka__producer=producer, limits={"ratio": 1.0}))
    daemon.until(lambda: len(stand.read("dead")) == 50)
    assert daemon.stop() == 0


def test_a_log_and_a_crash_between_transaction_and_checkpoint(stand, producer):
    """What the transaction says of the log is believed: nothing is written again."""
    stand.topics(names=("out", "dead"))
    sent, log = events(3000), stand.directory / "log.jsonl"
    log.write_text("".join(json.dumps(x) + "\n" for x in sent))
    path = stand.settings(
        source={"kind": "file", "path": log, "follow": True},
        kafka__producer=producer, checkpoints__events=10**6, checkpoints__seconds=1e6,
    )  # fmt: skip
    size = log.stat().st_size
    for _ in range(2):
        with opened(path) as (session, _, _):
            go_on(session, size)

            def full(checkpoint):
                raise OSError("no space left")

            session._backend.store.write = full
            with pytest.raises(OSError, match="no space left"):
                session.save()
    with log.open("a") as file:
        file.writelines(json.dumps(x) + "\n" for x in events(500, 2))
    with opened(path) as (session, _, _):
        go_on(session, log.stat().st_size)
        session.finish()
    found = [json.loads(r.value) for r in stand.read()]
    assert [f["target"] for f in found] == [x["y"] for x in [*sent, *events(500, 2)]]
    learner = streamk.KaczmarzClassifier(features=64, seed=0)
    for x in [*sent, *events(500, 2)]:
        learner.learn_one({k: v for k, v in x.items() if k not in ("id", "y")}, x["y"])
    assert stand.checkpoint().learner().to_bytes() == learner.to_bytes()


def test_what_was_not_committed_is_undone(stand, producer):
    """At once, not when the transaction times out, and no thread is left."""
    stand.topics(names=("out", "dead"))
    before = threading.active_count(), len(list(_tasks()))
    for n in range(2):
        with sink_of(stand, producer, Log()) as sink:
            sink.begin("log", 0)
            sink.write([letter(i) for i in range(100)])
            if n:
                sink.commit({"log": Committed(100)})
    assert [int(dict(r.headers)["streamk-offset"]) for r in stand.read("dead")] == list(range(100))
    assert stand.end("dead") <= 100 + 100 + 2
    deadline = time.monotonic() + LIMIT
    while (threading.active_count(), len(list(_tasks()))) > before and time.monotonic() < deadline:
        time.sleep(0.1)
    assert threading.active_count() <= before[0]
    assert len(list(_tasks())) <= before[1]


def _tasks():
    return Path("/proc/self/task").iterdir()


def test_a_twin_fences_the_other_off(stand, producer):
    stand.topics(names=("out", "dead"))
    with sink_of(stand, producer, Log()) as old:
        old.begin("log", 0)
        old.write([letter(0)])
        with sink_of(stand, producer, Log()) as new:
            new.begin("log", 0)
            new.write([letter(0)])
            with pytest.raises(Interruption) as caught:
                old.commit({"log": Committed(1)})
            assert not isinstance(caught.value, BrokerUnavailable)
            new.commit({"log": Committed(1)})
    assert len(stand.read("dead")) == 1


@pytest.mark.xdist_group("own broker")
@pytest.mark.skipif(bool(lacking()), reason=lacking())
def test_a_lost_broker(own_broker, own, monkeypatch):
    """Waits end, closing is quick, and no thread goes on looking for it."""
    stand = own
    producer = "confluent-kafka"  # kafka-python's outages have a file of their own
    for module in ("sink", "producer", "confluent_producer"):
        monkeypatch.setattr(f"connectors.kafka.{module}.LONGEST", 3.0)
    for module in ("producer", "confluent_producer"):
        monkeypatch.setattr(f"connectors.kafka.{module}.PATIENCE", 2.0)
    stand.topics(names=("out", "dead"))
    before = threading.active_count(), len(list(_tasks()))
    with sink_of(stand, producer, Log()) as sink:
        sink.begin("log", 0)
        sink.write([letter(i) for i in range(100)])
        sink.commit({"log": Committed(100)})
        sink.write([letter(100 + i) for i in range(100)])
        own_broker.kill()
        began = time.monotonic()
        with pytest.raises(BrokerUnavailable):
            sink.commit({"log": Committed(200)})
        assert time.monotonic() - began < 10
    assert time.monotonic() - began < 25
    deadline = time.monotonic() + LIMIT
    while (threading.active_count(), len(list(_tasks()))) > before and time.monotonic() < deadline:
        time.sleep(0.1)
    assert threading.active_count() <= before[0]
    assert len(list(_tasks())) <= before[1]


def test_without_the_library(stand, monkeypatch):
    stand.topics(names=("out", "dead"))
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with (
        pytest.raises(Failure, match=r"is not installed: pip install 'streamk\[confluent\]'") as caught,
        sink_of(stand, "confluent-kafka", Log()),
    ):
        pass
    assert caught.value.code == 2
    with pytest.raises(Failure, match="is not installed"):
        list(check(load(stand.settings(kafka__producer="confluent-kafka"))))


def test_another_version_of_the_library(monkeypatch):
    monkeypatch.setattr(confluent_producer, "version", lambda name: "2.17.0")
    with pytest.raises(Failure, match=r"is 2\.17\.0, and 2\.16\.x is wanted"):
        confluent_producer.load_library()


@pytest.mark.parametrize(
    ("name", "fatal", "error"),
    [
        ("ILLEGAL_GENERATION", False, kafka_errors.IllegalGenerationError),
        ("TOPIC_AUTHORIZATION_FAILED", False, kafka_errors.TopicAuthorizationFailedError),
        ("INVALID_PRODUCER_EPOCH", True, kafka_errors.InvalidProducerEpochError),
        ("_INCONSISTENT", True, kafka_errors.ProducerFencedError),
        ("_FENCED", False, kafka_errors.ProducerFencedError),
        ("_STATE", False, kafka_errors.InvalidProducerEpochError),
        ("_TIMED_OUT", False, kafka_errors.KafkaTimeoutError),
        ("_ALL_BROKERS_DOWN", False, kafka_errors.KafkaConnectionError),
        ("_UNKNOWN_TOPIC", False, kafka_errors.UnknownTopicOrPartitionError),
    ],
)
def test_errors_in_the_other_librarys_words(name, fatal, error):
    import confluent_kafka

    code = getattr(confluent_kafka.KafkaError, name)
    with pytest.raises(error, match="so it is"), confluent_producer.translated(confluent_kafka):
        raise confluent_kafka.KafkaException(confluent_kafka.KafkaError(code, "so it is", fatal))


def test_settings_in_the_librarys_words(tmp_path):
    plain = configuration(Kafka(servers=["a:1", "b:2"]))
    assert (plain["bootstrap.servers"], plain["security.protocol"]) == ("a:1,b:2", "plaintext")
    assert not any(key.startswith(("ssl", "sasl")) for key in plain)
    kafka = Kafka(
        tls=True, ca="ca.pem", certificate="own.pem", certificate_key="own.key", certificate_password="k",
        check_hostname=False, mechanism="SCRAM-SHA-256", username="u", password="p",
    )  # fmt: skip
    found = configuration(kafka)
    assert {key: value for key, value in found.items() if key.startswith(("ssl", "sasl", "security"))} == {
        "security.protocol": "sasl_ssl", "ssl.ca.location": "ca.pem", "ssl.certificate.location": "own.pem",
        "ssl.key.location": "own.key", "ssl.key.password": "k",
        "ssl.endpoint.identification.algorithm": "none", "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "u", "sasl.password": "p",
    }  # fmt: skip
    alone = configuration(Kafka(tls=True, certificate="both.pem"))
    assert alone["ssl.key.location"] == "both.pem"
    assert alone["ssl.endpoint.identification.algorithm"] == "https"
