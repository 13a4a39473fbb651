"""Metrics of real daemons: through interruptions, behind open transactions, and of dead letters."""

import contextlib
import json
import random
import urllib.request

import pytest
from kafka import KafkaProducer

from .broker import free_port
from .stand import events


def scraped(port):
    """Return the series of a daemon, by name and labels; none while it does not listen."""
    with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        lines = [line for line in answer.read().decode().splitlines() if not line.startswith("#")]
        return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}
    return {}


def results(port):
    found = scraped(port)
    return {
        result: found.get(f'streamk_events_total{{result="{result}"}}') for result in ("learned", "refused")
    }


@pytest.mark.xdist_group("own broker")
@pytest.mark.parametrize(
    "outputs",
    [
        pytest.param(True, id="with outputs"),
        pytest.param(False, id="without outputs", marks=pytest.mark.long),
    ],
)
def test_an_interruption_counts_no_event_twice(own_broker, own, outputs):
    """The checkpoint is far behind when the broker is killed, so that the next session replays much."""
    own.topics(partitions=2)
    bad, port = [b"bad"] * outputs, free_port()
    own.send([*events(3000), *bad], lambda i: i % 2)
    changes = {} if outputs else {"predictions": None, "dead_letters": None}
    path = own.settings(
        telemetry={"port": port}, checkpoints__events=10**6, checkpoints__seconds=3600.0, **changes
    )
    daemon = own.start(path)
    daemon.until(lambda: results(port) == {"learned": 3000, "refused": len(bad)})
    if outputs:
        daemon.until(lambda: len(own.read("dead")) == 1)  # a commit that is under way waits for a minute
    found = scraped(port)
    assert found["streamk_partitions"] == 2
    assert found["streamk_checkpoint_age_seconds"] > 0
    own_broker.kill()
    daemon.until(lambda: scraped(port)["streamk_restarts_total"] > 0)
    assert scraped(port)["streamk_partitions"] == 0
    own_broker.start()
    own.send([*events(1000, 2), *bad], lambda i: i % 2)
    daemon.until(lambda: results(port) == {"learned": 4000, "refused": 2 * len(bad)})
    found = scraped(port)
    assert found["streamk_replayed_events_total"] >= 3000 + len(bad)
    assert found["streamk_model_events"] == 4000
    assert found['streamk_last_interruption_timestamp_seconds{cause="no_broker"}'] > 1e9
    assert found["streamk_partitions"] == 2
    assert found['streamk_rebalanced_partitions_total{change="assigned"}'] == (
        2 + found['streamk_rebalanced_partitions_total{change="lost"}']
    )
    assert daemon.stop() == 0


def test_a_new_process_counts_only_what_the_one_before_had_not_emitted(stand):
    stand.topics()
    stand.send(events(2000))
    port = free_port()
    path = stand.settings(telemetry={"port": port}, checkpoints__events=10**6, checkpoints__seconds=3600.0)
    daemon = stand.start(path)
    daemon.until(lambda: results(port)["learned"] == 2000)
    daemon.until(lambda: len(stand.read()) == 2000)  # emitted, and in no checkpoint
    daemon.kill()
    stand.send(events(500, 2))
    again = stand.start(path)
    again.until(lambda: scraped(port).get("streamk_model_events") == 2500)
    assert results(port)["learned"] == 500
    assert scraped(port)["streamk_replayed_events_total"] == 2000
    assert again.stop() == 0


def test_a_transaction_that_stays_open_is_visible(stand):
    stand.topics()
    stand.send(events(100))
    port = free_port()
    daemon = stand.start(stand.settings(telemetry={"port": port}))
    place = f'{{partition="{stand.topic("in")}-0"}}'
    daemon.until(lambda: scraped(port).get(f"streamk_lag_uncommitted{place}") == 0)
    producer = KafkaProducer(bootstrap_servers=stand.servers, transactional_id=f"{stand.name}-open")
    producer.init_transactions()
    producer.begin_transaction()
    for event in events(7, 2):
        producer.send(stand.topic("in"), json.dumps(event).encode(), partition=0)
    producer.flush()
    stand.send(events(20, 3))
    daemon.until(lambda: scraped(port)[f"streamk_lag_uncommitted{place}"] == 27)
    found = scraped(port)
    assert found[f"streamk_lag{place}"] == 0
    assert results(port)["learned"] == 100
    producer.commit_transaction()
    producer.close(timeout=5)
    daemon.until(lambda: results(port)["learned"] == 127)
    daemon.until(lambda: scraped(port)[f"streamk_lag_uncommitted{place}"] == 0)
    assert daemon.stop() == 0


def test_dead_letters_are_counted_by_cause(stand):
    stand.topics(configs={"max.message.bytes": "10000"}, names=("dead",))
    stand.topics(names=("in", "out"))
    undecodable = [b"bad", b"[1]", b"\xff" * 100_000]
    learner = [{"f00": 1e300, "y": True}, {"f00": 1.0, "y": "text"}]
    limits = [{f"name {i}": 1.0, "y": True} for i in range(4)]
    stand.send([*events(100), *undecodable, *learner, *limits, *events(10, 2)])
    port = free_port()
    daemon = stand.start(stand.settings(telemetry={"port": port}, limits={"names": 5}))
    daemon.until(lambda: results(port) == {"learned": 110, "refused": 9})
    daemon.until(lambda: len(stand.read("dead")) == 9)
    found = scraped(port)
    causes = ("undecodable", "learner", "limits")
    assert [found[f'streamk_dead_letters_total{{cause="{cause}"}}'] for cause in causes] == [3, 2, 4]
    assert daemon.stop() == 0


def test_truncated_dead_letters_are_counted(stand):
    stand.topics(configs={"max.message.bytes": "10000"}, names=("dead",))
    stand.topics(names=("in", "out"))
    chance = random.Random(1)
    stand.send([*events(10), chance.randbytes(100_000), b"bad", chance.randbytes(50_000)])
    port = free_port()
    daemon = stand.start(stand.settings(telemetry={"port": port}))
    daemon.until(lambda: scraped(port).get("streamk_truncated_dead_letters_total") == 2)
    assert sum("streamk-truncated" in dict(r.headers) for r in stand.read("dead")) == 2
    assert daemon.stop() == 0


def test_an_idle_daemon_has_no_age(stand):
    """Everything is in a checkpoint: its age is 0, however old it is."""
    stand.topics()
    stand.send(events(100))
    port = free_port()
    daemon = stand.start(stand.settings(telemetry={"port": port}))
    daemon.until(lambda: results(port)["learned"] == 100)
    daemon.until(lambda: scraped(port)["streamk_checkpoint_age_seconds"] == 0)
    found = scraped(port)
    assert found['streamk_commit_seconds_count{kind="checkpoint"}'] > 0
    assert found['streamk_commit_seconds_count{kind="outputs"}'] > 0
    assert found["process_resident_memory_bytes"] > 0
    assert daemon.stop() == 0
