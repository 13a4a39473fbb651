"""Predictions in a topic: what they hold, and what they take from the event's record."""

import json
import re
import signal
from itertools import chain

import pytest
from kafka import KafkaProducer
from kafka.admin import NewTopic

from connectors.contract.records import PREDICTIONS, Committed, Output, Raw

from .stand import events
from .test_confluent import Log, sink_of
from .test_daemon import learned

TRACE, OTHER = ("traceparent", b"00-1\xff-01"), ("other", b"x")


@pytest.fixture(params=["kafka-python", pytest.param("confluent-kafka", marks=pytest.mark.long)])
def producer(request):
    return request.param


def copied(record):
    """Return the headers of a prediction but those that name its model."""
    assert [name for name, _ in record.headers][-2:] == ["streamk-model", "streamk-group"]
    return list(record.headers)[:-2]


def send_with_headers(stand, sent, headers, partitions=1, keys=None):
    producer = KafkaProducer(bootstrap_servers=stand.servers)
    for i, event in enumerate(sent):
        producer.send(
            stand.topic("in"), json.dumps(event).encode(), key=keys and keys[i], headers=headers(i),
            partition=i % partitions,
        )  # fmt: skip
    producer.flush()
    producer.close(timeout=5)


def run(stand, count, **changes):
    daemon = stand.start(stand.settings(**changes))
    daemon.until(learned(stand, count))
    assert daemon.stop() == 0
    return daemon


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (None, []),
        (["traceparent"], [TRACE, ("traceparent", b"2")]),
        (["none", "other"], [OTHER]),
        (True, [TRACE, OTHER, ("traceparent", b"2"), ("empty", b"")]),
    ],
)
def test_headers_are_copied_to_the_predictions(stand, producer, wanted, expected):
    stand.topics()
    sent = events(600)
    keys = [f"k{i % 7}".encode() for i in range(600)]

    def headers(i):
        return [TRACE, OTHER, ("traceparent", b"2"), ("empty", b"")] if i % 3 else []

    send_with_headers(stand, sent, headers, keys=keys)
    stand.send([b"bad"])
    place = {"kind": "topic", "topic": stand.topic("out")}
    run(
        stand, 600, kafka__producer=producer,
        predictions=place if wanted is None else {**place, "headers": wanted},
    )  # fmt: skip
    found = stand.read()
    assert [json.loads(r.value)["offset"] for r in found] == list(range(600))
    assert [r.key for r in found] == keys
    assert [copied(r) for r in found] == [expected if i % 3 else [] for i in range(600)]
    (letter,) = stand.read("dead")
    assert {name for name, _ in letter.headers} == {"streamk-reason", "streamk-partition", "streamk-offset"}


def test_headers_and_order_by_key_on_several_partitions(stand, producer):
    stand.topics(names=("in", "dead"))
    with stand.admin() as admin:
        admin.create_topics([NewTopic(stand.topic("out"), 3, 1)])
    sent = events(900)
    keys = [f"k{i % 11}".encode() for i in range(900)]
    # some batches have no headers at all, and are written the quick way
    send_with_headers(stand, sent, lambda i: [("trace", b"%d" % i)] if i % 300 < 50 else [], keys=keys)
    run(stand, 900, kafka__producer=producer, predictions__headers=True)
    parts = [stand.read(partition=n) for n in range(3)]
    offsets = [[json.loads(r.value)["offset"] for r in part] for part in parts]
    assert all(found == sorted(found) for found in offsets)
    assert sorted(chain.from_iterable(offsets)) == list(range(900))
    for part, found in zip(parts, offsets, strict=True):
        expected = [[("trace", b"%d" % i)] if i % 300 < 50 else [] for i in found]
        assert [copied(r) for r in part] == expected


@pytest.mark.parametrize(
    ("wanted", "headers", "singly"),
    [((), [OTHER], 0), (["other"], [], 0), (["other"], [TRACE], 0), (["other"], [OTHER], 50)],
)
def test_predictions_without_headers_are_sent_together(stand, producer, wanted, headers, singly, monkeypatch):
    stand.topics(names=("out", "dead"))
    outputs = [Output(PREDICTIONS, "log", Raw(i, b"x", b"k", None, headers), b"%d" % i) for i in range(50)]
    with sink_of(stand, producer, Log(), headers=wanted) as sink:
        sent, many, one = [], sink._producer.send_many, sink._producer.send
        monkeypatch.setattr(sink._producer, "send_many", lambda *parts: sent.append("many") or many(*parts))
        monkeypatch.setattr(sink._producer, "send", lambda *parts: sent.append("one") or one(*parts))
        sink.begin("log", 0)
        sink.write(outputs)
        sink.commit({"log": Committed(50)})
    assert ("many" in sent) == (not singly)
    assert singly == 0 or sent.count("one") == singly
    assert [r.value for r in stand.read()] == [output.body for output in outputs]


def test_the_most_probable_labels_alone(stand, producer):
    stand.topics()
    sent = [{"a": i % 7, "y": f"label {i % 50}"} for i in range(400)]
    stand.send(sent)
    run(stand, 400, kafka__producer=producer, predictions__top=3)
    found = [json.loads(r.value) for r in stand.read()]
    assert [f["offset"] for f in found] == list(range(400))
    assert all(len(f["probabilities"]) <= 3 for f in found)
    assert all(f["prediction"] == max(f["probabilities"], key=f["probabilities"].get) for f in found[1:])
    assert max(len(f["probabilities"]) for f in found) == 3
    assert [f.get("reason") for f in found] == ["no label learned yet"] + [None] * 399
    assert found[0]["prediction"] is None


def test_a_number_that_becomes_a_string_is_in_the_log_once(stand):
    stand.topics()
    sent = events(300)
    for x in sent[200::2]:
        x["f01"] = "n/a"
    stand.send(sent)
    daemon = run(stand, 300)
    (line,) = [line for line in daemon.text().splitlines() if " warning " in line]
    place = re.escape(stand.topic("in"))
    assert re.search(rf"{place}-0, offset 200: the field 'f01' was a number .* and is 'n/a' here", line)
    assert len(stand.read()) == 300


@pytest.mark.parametrize("snapshots", [False, True])
def test_signals_reload_the_settings_and_write_a_checkpoint(stand, snapshots):
    stand.topics()
    changes = {"checkpoints__seconds": 1000.0, "checkpoints__events": 10**6}
    if snapshots:
        stand.topics(names=("models",), configs={"cleanup.policy": "compact"})
        changes["snapshots"] = {"topic": stand.topic("models")}
    stand.send(events(500))
    daemon = stand.start(stand.settings(**changes))
    daemon.until(lambda: len(stand.read()) == 500)
    daemon.process.send_signal(signal.SIGUSR1)
    daemon.until(lambda: "SIGUSR1: wrote a checkpoint" in daemon.text())
    if snapshots:
        assert len(stand.read("models"))
    else:
        assert stand.checkpoint().learner().events == 500
    stand.settings(**changes, limits={"names": 5}, learner={"name": "kernel"})
    daemon.process.send_signal(signal.SIGHUP)
    daemon.until(lambda: "SIGHUP: changed limits.names" in daemon.text())
    daemon.until(lambda: "restart the daemon to change learner.name, learner.parameters" in daemon.text())
    stand.send([{"new": 1.0, "y": True}, *events(10)])
    daemon.until(lambda: len(stand.read()) == 510)
    (letter,) = stand.read("dead")
    assert b"limits.names" in dict(letter.headers)["streamk-reason"]
    assert "restarting the session" not in daemon.text()
    daemon.kill()
