"""A model for every partition: it moves with the position, and what is published is the merge of all."""

import contextlib
import json
import signal
import time
from contextlib import closing

import pytest
from kafka import KafkaProducer, TopicPartition
from kafka.admin import NewPartitions

import streamk
from connectors.kafka.group import GroupPositions
from connectors.kafka.sections import TopicSourceSection
from connectors.publish.fetching import fetch
from connectors.state.positions import (
    Owner,
    metadata_of,
)
from connectors.state.topic import owner_of

from .partition_models import (
    alone,
    check,
    churn,
    command,
    kafka,
    learned,
    partition,
    progress,
    reading,
    run_to,
    settings,
    topics,
)
from .stand import LIMIT, SHORT, events
from .test_kills import Traffic


def offsets(stand, p):
    """Return the offsets of a partition's predictions, in the order in which they were written."""
    found = (json.loads(record.value) for record in stand.read())
    return [row["offset"] for row in found if row["partition"] == partition(stand, p)]


@contextlib.contextmanager
def group(stand):
    source = TopicSourceSection(kind="topic", topic=stand.topic("in"), group=stand.name)
    with closing(GroupPositions(source, kafka(stand), None)) as positions:
        yield positions


# ---- models and positions


@pytest.mark.parametrize(
    ("producer", "models"),
    [
        ("kafka-python", 3),
        pytest.param("kafka-python", 1, marks=pytest.mark.long),
        pytest.param("confluent-kafka", 3, marks=pytest.mark.long),
    ],
)
def test_model_and_position_move_together(stand, producer, models):
    """One daemon leaves, another comes, a third is killed: each partition's model learns its events once."""
    topics(stand, 3, models)
    sent = events(3000)
    paths = {n: settings(stand, n, kafka__producer=producer) for n in ("a", "b", "c")}
    with reading(stand) as newest:
        first = stand.start(paths["a"])
        stand.send(sent[:1000], lambda i: i % 3)
        first.until(lambda: learned(newest, 3) == 1000)
        second = stand.start(paths["b"])
        stand.send(sent[1000:1500], lambda i: (1000 + i) % 3)
        second.until(second.begun)
        assert first.stop() == 0
        stand.send(sent[1500:2000], lambda i: (1500 + i) % 3)
        second.until(lambda: learned(newest, 3) == 2000)
        third = stand.start(paths["c"])
        third.until(third.begun)
        stand.send(sent[2000:], lambda i: (2000 + i) % 3)
        third.kill()
        second.until(lambda: learned(newest, 3) == 3000)
        assert second.stop() == 0
        found = newest(3)
    for p in range(3):
        assert (progress(found[p]).position, progress(found[p]).learned) == (1000, 1000)
        assert found[p].parts["model"] == alone(sent[p::3])
        assert offsets(stand, p) == list(range(1000))
    for name in "abc":
        assert not list((stand.directory / f"{name}-checkpoints").glob("*.checkpoint"))


def test_predictions_ahead_of_the_snapshot_are_not_written_again(stand):
    """The model begins where its snapshot ends, and learns what was emitted since without emitting it."""
    topics(stand, 1)
    sent = events(1500)
    path = settings(stand, checkpoints__events=1000, checkpoints__seconds=1e6)
    stand.send(sent[:1000])
    daemon = stand.start(path)
    with reading(stand) as newest:
        daemon.until(lambda: learned(newest, 1) == 1000)
        stand.send(sent[1000:1200])
        daemon.until(lambda: len(offsets(stand, 0)) == 1200)
        daemon.kill()
        assert progress(newest(1)[0]).position == 1000
    stand.send(sent[1200:])
    found = run_to(stand, 1500, 1, settings(stand, "other"))
    assert ": reading from position 1000, replaying without emitting up to 1200" in stand.daemons[-1].text()
    assert found[0].parts["model"] == alone(sent)
    assert offsets(stand, 0) == list(range(1500))


def test_no_predictions(stand):
    """Positions are committed with the snapshots alone."""
    topics(stand, 2, names=("in",))
    sent = events(600)
    stand.send(sent, lambda i: i % 2)
    path = settings(stand, predictions=None, dead_letters=None)
    found = run_to(stand, 600, 2, path)
    with group(stand) as positions:
        for p in range(2):
            told = positions.committed(partition(stand, p))
            owner = Owner(owner_of(stand.topic("models")), 0, 300)
            assert (told.position, metadata_of(told).owners) == (300, [owner])
            assert found[p].parts["model"] == alone(sent[p::2])


def test_a_model_of_several_chunks(stand):
    topics(stand, 1, names=("in",))
    sent = events(60)
    stand.send(sent[:40])
    big = {"name": "kaczmarz", "parameters": {"features": 400_000}}
    path = settings(stand, predictions=None, dead_letters=None, learner=big)
    run_to(stand, 40, 1, path)
    stand.send(sent[40:])
    found = run_to(stand, 60, 1, path)
    learner = streamk.KaczmarzClassifier(features=400_000, seed=0)
    for x in sent:
        learner.learn_one({k: v for k, v in x.items() if k not in ("id", "y")}, x["y"])
    assert found[0].parts["model"] == learner.to_bytes()
    assert len(stand.read("models")) >= 4


def test_what_an_open_transaction_hides_is_waited_for(stand):
    """A stranger's transaction on the topic of snapshots holds up who would begin, and nobody is wrong."""
    topics(stand, 1)
    sent = events(1000)
    stand.send(sent[:500])
    run_to(stand, 500, 1, settings(stand))
    stranger = KafkaProducer(bootstrap_servers=stand.servers, transactional_id=f"{stand.name}-stranger")
    with contextlib.closing(stranger):
        stranger.init_transactions()
        stranger.begin_transaction()
        stranger.send(stand.topic("models"), b"?", key=b"other/0", partition=0).get(10)
        stand.send(sent[500:])
        daemon = stand.start(settings(stand))  # whose snapshots nobody can see
        deadline = time.monotonic() + LIMIT
        while len(offsets(stand, 0)) < 1000 and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(1.0)
        assert daemon.stop() == 0
        other = stand.start(settings(stand, "other"))
        time.sleep(3.0)
        assert not other.begun()
        stranger.abort_transaction()
        other.until(other.begun)
        assert "-0: reading from position 1000" in other.text()
        assert other.stop() == 0
    with reading(stand) as newest:
        assert newest(1)[0].parts["model"] == alone(sent)


# ---- what operators do


def test_snapshots_that_are_lost(stand):
    topics(stand, 1)
    sent = events(600)
    stand.send(sent[:400])
    path = settings(stand)
    run_to(stand, 400, 1, path)
    with stand.admin() as admin:
        admin.delete_topics([stand.topic("models"), stand.topic("published")])
        deadline = time.monotonic() + LIMIT
        while stand.topic("models") in admin.list_topics() and time.monotonic() < deadline:
            time.sleep(0.1)
    assert stand.start(path).wait() == 2  # there is no such topic
    topics(stand, 1, names=())
    daemon = stand.start(path)
    assert daemon.wait() == 4
    assert "up to 400, and none is there. Put the topic back" in daemon.text()
    stand.send(sent[400:])
    found = run_to(stand, 200, 1, settings(stand, source__blank=True))
    assert found[0].parts["model"] == alone(sent[400:])
    assert offsets(stand, 0) == list(range(600))


def test_reset(stand):
    topics(stand, 2)
    sent = events(400)
    stand.send(sent, lambda i: i % 2)
    path = settings(stand)
    run_to(stand, 400, 2, path)
    done = command("reset", path, "--to", "150", "--partition", "1")
    assert done.returncode == 0, done.stderr
    with reading(stand) as newest:
        assert [progress(newest(2)[p]).position for p in range(2)] == [200, 150]
    found = run_to(stand, 450, 2, path)
    assert found[1].parts["model"] == alone([*sent[1::2], *sent[301::2]])
    assert offsets(stand, 1) == [*range(200), *range(150, 200)]
    assert command("reset", path, "--to", "checkpoint", "--dry-run").stdout.count("200") == 6


def test_a_position_set_from_outside(stand):
    topics(stand, 1)
    stand.send(events(300))
    path = settings(stand)
    run_to(stand, 300, 1, path)
    with stand.admin() as admin:
        from kafka import OffsetAndMetadata

        admin.alter_group_offsets(
            stand.name, {TopicPartition(stand.topic("in"), 0): OffsetAndMetadata(100, "", -1)}
        )
    daemon = stand.start(path)
    assert daemon.wait() == 7
    assert "was set to 100 from outside, and this model has read up to 300" in daemon.text()
    assert command("reset", path, "--to", "group").returncode == 0
    run_to(stand, 500, 1, path)


def test_the_topic_of_events_recreated(stand):
    """As with checkpoints: the run ends, or goes on with the old model, and so does what is published."""
    topics(stand, 1)
    path = settings(stand, source__expired="earliest")
    stand.send(events(200))
    run_to(stand, 200, 1, path)
    assert command("publish", path, "--to", stand.topic("published")).returncode == 0
    with stand.admin() as admin:
        admin.delete_topics([stand.topic("in")])
        deadline = time.monotonic() + LIMIT
        while stand.topic("in") in admin.list_topics() and time.monotonic() < deadline:
            time.sleep(0.1)
    stand.topics(1, names=("in",))
    refusing = stand.start(settings(stand, "refusing"))
    assert refusing.wait(30) == 7
    stand.send(events(100, 2))
    found = run_to(stand, 300, 1, path)
    assert progress(found[0]).position == 100
    assert found[0].parts["model"] == alone([*events(200), *events(100, 2)])
    assert command("publish", path, "--to", stand.topic("published")).returncode == 0
    assert fetch(stand.topic("published"), kafka(stand)).about["events"] == 300


def test_check(stand):
    topics(stand, 2)
    path = settings(stand)
    found = command("check", path)
    assert found.returncode == 0, found.stderr
    assert "is compacted; 0 of 2 partitions have a snapshot" in found.stdout
    stand.send(events(100), lambda i: i % 2)
    run_to(stand, 100, 2, path)
    assert "2 of 2 partitions have a snapshot, and have learned 100 events" in command("check", path).stdout
    stand.topics(names=("plain",))
    plain = stand.settings("plain", snapshots={"topic": stand.topic("plain")})
    for name, code in (("check", 2), ("run", 2)):
        found = command(name, plain)
        assert found.returncode == code
        assert "--add-config cleanup.policy=compact" in found.stderr
    with stand.admin() as admin:
        admin.create_partitions({stand.topic("models"): NewPartitions(5)})
    assert command("check", path).returncode == 0


# ---- trouble


def test_daemons_that_return_after_an_eviction(stand):
    """Paused for longer than the group waits, then gone on with: what they had not committed is undone."""
    topics(stand, 2)
    paths = {name: settings(stand, name, checkpoints__events=100, checkpoints__seconds=0.1) for name in "ab"}
    traffic = Traffic(lambda part, at: stand.send_often(part, lambda i: (at + i) % 2), 800)
    traffic.start()
    running = {name: stand.start(path) for name, path in paths.items()}
    for daemon in running.values():
        daemon.until(daemon.begun)
    for name in "aba":
        running[name].process.send_signal(signal.SIGSTOP)
        time.sleep(2 * SHORT)
        running[name].process.send_signal(signal.SIGCONT)
        time.sleep(1.5)
    traffic.stop()
    assert any("restarting the session" in daemon.text() for daemon in running.values())
    check(stand, running, events(200_000)[: traffic.count], 2)


def test_daemons_that_come_go_and_are_killed(stand):
    """The same with 20 of each is in tests/long."""
    topics(stand, 8, 3)
    traffic = Traffic(lambda part, at: stand.send_often(part, lambda i: (at + i) % 8), 800)
    running, done = churn(stand, "abc", traffic, 3, 3)
    assert (done["leave"], done["kill"]) == (3, 3)
    check(stand, running, events(200_000)[: traffic.count], 8)


def test_a_mistyped_target_loses_no_event(stand):
    """Where nothing was learned yet, events are learned from the start under the corrected settings."""
    topics(stand, 1)
    stand.send(events(2000)[:1000])
    with reading(stand) as newest:
        daemon = stand.start(settings(stand, events__target="labl", limits__without_target=1500))
        daemon.until(lambda: newest(1))
        stand.send(events(2000)[1000:])
        assert daemon.wait() == 3
        for _ in range(2):  # the second time after a session that began again and saved nothing
            slow = {"checkpoints__events": 100_000, "checkpoints__seconds": 60}
            daemon = stand.start(settings(stand, events__target="yy", limits__without_target=1500, **slow))
            assert daemon.wait() == 3, daemon.text()
        daemon = stand.start(settings(stand))
        daemon.until(lambda: learned(newest, 1) == 2000)
        assert daemon.stop() == 0
    assert offsets(stand, 0) == list(range(2000))
