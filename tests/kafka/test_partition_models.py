"""A model for every partition: it moves with the position, and what is published is the merge of all."""

import contextlib
import json
import subprocess

import pytest
from kafka import KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.admin import NewTopic

import streamk
from connectors.daemon import ownership
from connectors.daemon.partition_bound import owner_of
from connectors.kafka.snapshots import SnapshotReader
from connectors.settings import Kafka

from .stand import COMMAND, ROOT, events

COMPACTED = {"cleanup.policy": "compact"}


def topics(stand, partitions, models=None, names=("in", "out", "dead")):
    stand.topics(partitions, names=names)
    new = [
        NewTopic(stand.topic("models"), models or partitions, 1, topic_configs=COMPACTED),
        NewTopic(stand.topic("published"), 1, 1, topic_configs=COMPACTED),
    ]
    with stand.admin() as admin:
        admin.create_topics(new)


def settings(stand, name="daemon", **changes):
    changes = {"checkpoints__events": 300, "checkpoints__seconds": 0.3, **changes}
    return stand.settings(name, snapshots={"topic": stand.topic("models")}, **changes)


def partition(stand, number):
    return f"{stand.topic('in')}-{number}"


@contextlib.contextmanager
def reading(stand):
    """Give a function that returns the newest snapshots, by number."""
    with SnapshotReader(stand.topic("models"), Kafka(servers=[stand.servers])) as reader:

        def newest(partitions):
            found = reader.all([partition(stand, p) for p in range(partitions)])
            return {int(name.rpartition("-")[2]): snapshot for name, snapshot in found.items()}

        yield newest


def learned(newest, partitions):
    """Return how many events the snapshots of so many partitions have learned."""
    return sum(next(iter(s.partitions.values())).learned for s in newest(partitions).values())


def alone(values):
    """Return the model of a partition with these events, learned by nobody else."""
    learner = streamk.KaczmarzClassifier(features=64, seed=0)
    for x in values:
        learner.learn_one({k: v for k, v in x.items() if k not in ("id", "y")}, x["y"])
    return learner.to_bytes()


def command(*arguments):
    return subprocess.run(
        [*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=60, cwd=ROOT
    )


def offsets(stand, p):
    """Return the offsets of a partition's predictions, in the order in which they were written."""
    found = (json.loads(record.value) for record in stand.read())
    return [row["offset"] for row in found if row["partition"] == partition(stand, p)]


@pytest.mark.parametrize("producer", ["kafka-python", "confluent-kafka"])
@pytest.mark.parametrize("models", [1, 3])
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
        second.until(lambda: "replaying" in second.text() or ": from " in second.text())
        assert first.stop() == 0
        stand.send(sent[1500:2000], lambda i: (1500 + i) % 3)
        second.until(lambda: learned(newest, 3) == 2000)
        third = stand.start(paths["c"])
        third.until(lambda: ": from " in third.text())
        stand.send(sent[2000:], lambda i: (2000 + i) % 3)
        third.kill()
        second.until(lambda: learned(newest, 3) == 3000, 90)
        assert second.stop() == 0
        found = newest(3)
    for p in range(3):
        progress = found[p].partitions[partition(stand, p)]
        assert (progress.position, progress.learned) == (1000, 1000)
        assert found[p].parts["model"] == alone(sent[p::3])
        assert offsets(stand, p) == list(range(1000))
    for name in "abc":
        assert not list((stand.directory / f"{name}-checkpoints").glob("*.checkpoint"))
