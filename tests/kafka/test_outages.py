"""Brokers that go away and come back, daemons that come and go, topics where nothing happens."""

import contextlib
import json
import time
import urllib.error
import urllib.request
from collections import Counter

import pytest

from .broker import free_port
from .stand import SHORT, events
from .test_kills import Traffic


def total(stand, name="daemon"):
    checkpoint = stand.checkpoint(name)
    return sum(p.learned for p in checkpoint.partitions.values()) if checkpoint else 0


@pytest.mark.xdist_group("own broker")
@pytest.mark.parametrize("seconds", [3, pytest.param(120, marks=pytest.mark.long)])
def test_a_broker_that_goes_away_in_the_middle(own_broker, own, seconds):
    own.topics(partitions=2)
    sent = events(40_000)
    own.send(sent, lambda i: i % 2)
    daemon = own.start(own.settings())
    daemon.until(lambda: total(own) > 5000)
    own_broker.kill()
    time.sleep(seconds)
    assert daemon.process.poll() is None
    assert total(own) < len(sent)
    own_broker.start()
    own.send(sent[:1000], lambda i: i % 2)
    daemon.until(lambda: total(own) == 41_000)
    assert daemon.stop() == 0
    assert own.checkpoint().learner().events == 41_000
    found = Counter((v["partition"], v["offset"]) for r in own.read() if (v := json.loads(r.value)))
    assert len(found) == 41_000
    assert set(found.values()) == {1}


@pytest.mark.xdist_group("own broker")
def test_a_broker_absent_for_too_long_ends_the_run(own_broker, own):
    own.topics()
    own.send(events(100))
    daemon = own.start(own.settings(kafka__away_seconds=4.0))
    daemon.until(lambda: total(own) == 100)
    own_broker.kill()
    assert daemon.wait() == 5
    assert "it has been so for" in daemon.text()
    assert "kafka.away_seconds" in daemon.text()
    own_broker.start()
    daemon = own.start(own.settings())
    own.send(events(100))
    daemon.until(lambda: total(own) == 200)
    assert daemon.stop() == 0


@pytest.mark.xdist_group("own broker")
def test_a_broker_that_comes_later(own_broker, own):
    own.topics()
    own.send(events(100))
    own_broker.stop()
    daemon = own.start(own.settings())
    daemon.until(lambda: "no broker answers" in daemon.text())
    assert daemon.stop() == 0  # it obeys while it waits
    own_broker.launch()
    daemon = own.start(own.settings())
    while total(own) < 100:  # where the broker takes longer than the daemon waits for a first answer
        if daemon.process.poll() is not None:
            assert daemon.process.returncode == 5
            daemon = own.start(own.settings())
        time.sleep(0.1)
    assert daemon.stop() == 0


def test_a_second_daemon_joins_and_leaves(stand):
    stand.topics(partitions=4)
    traffic = Traffic(lambda part, at: stand.send_often(part, lambda i: (at + i) % 4), 1000)
    kafka = {
        "servers": [stand.servers],
        "session_seconds": 100.0,
    }  # who leaves says so, and is not waited for
    first = stand.start(stand.settings("a", kafka=kafka))
    traffic.start()
    first.until(lambda: total(stand, "a") > 500)
    second = stand.start(stand.settings("b", kafka=kafka))
    second.until(lambda: total(stand, "b") > 500)
    assert "revoked" in first.text()
    assert second.stop() == 0
    second_total = total(stand, "b")
    now = traffic.count
    first.until(lambda: total(stand, "a") + second_total > now + 1000)
    traffic.stop()
    first.until(lambda: total(stand, "a") + second_total >= traffic.count)
    assert first.stop() == 0
    assert "restarting the session" not in first.text() + second.text()
    counts = Counter()
    for name in ("a", "b"):
        for partition, progress in stand.checkpoint(name).partitions.items():
            counts[partition] += progress.learned
    assert counts == {f"{stand.topic('in')}-{p}": len(range(p, traffic.count, 4)) for p in range(4)}
    found = Counter((v["partition"], v["offset"]) for r in stand.read() if (v := json.loads(r.value)))
    assert len(found) == traffic.count
    assert set(found.values()) == {1}


def test_a_topic_where_nothing_happens(stand):
    stand.topics()
    daemon = stand.start(stand.settings(kafka__session_seconds=SHORT))
    daemon.until(lambda: "from position 0" in daemon.text())
    time.sleep(2 * SHORT)
    stand.send(events(100))
    daemon.until(lambda: total(stand) == 100)
    time.sleep(1.5 * SHORT)
    stand.send(events(100))
    daemon.until(lambda: total(stand) == 200)
    assert daemon.stop() == 0
    assert "restarting the session" not in daemon.text()


@pytest.mark.parametrize(
    "configs",
    [
        {"cleanup.policy": "compact"},
        {"message.timestamp.before.max.ms": "1", "message.timestamp.type": "CreateTime"},
    ],
    ids=["compacted", "too old"],
)
@pytest.mark.parametrize("name", ["out", "dead"])
def test_a_topic_that_rejects_messages_ends_it(stand, configs, name):
    """A compacted topic takes no message without a key, however often the session restarts."""
    names = {"in", "out", "dead"} - {name}
    stand.topics(names=sorted(names))
    stand.topics(configs=configs, names=(name,))
    stand.send([b"bad", *events(200)])  # first, so that nothing is committed before it
    daemon = stand.start(stand.settings())
    assert daemon.wait() == 8
    assert "a topic rejects a message" in daemon.text()
    assert "restarting the session" not in daemon.text()
    assert total(stand) == 0


def test_a_standby_is_ready(stand):
    """A daemon more than there are partitions has joined, and takes over when it is needed."""
    stand.topics()
    stand.send(events(100))
    port = free_port()
    first = stand.start(stand.settings("a"))
    first.until(lambda: total(stand, "a") == 100)
    second = stand.start(stand.settings("b", telemetry={"port": port}, source__blank=True))
    second.until(lambda: answer(port, "ready") == (200, "ok\n"))
    assert answer(port, "healthz") == (200, "ok\n")
    assert "standing by" in second.text()
    assert first.stop() == 0
    stand.send(events(100))
    second.until(lambda: total(stand, "b") == 100)
    assert answer(port, "ready") == (200, "ok\n")
    assert second.stop() == 0


def answer(port, path):
    """Return the code and the body of a daemon's answer, None while it does not listen."""
    with contextlib.suppress(ConnectionError):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}") as found:
                return found.status, found.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except urllib.error.URLError:
            return None
