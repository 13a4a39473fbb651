"""What tests of models of partitions stand on: topics of models, the newest snapshots, and trouble."""

import contextlib
import json
import random
import time
from collections import Counter
from contextlib import closing

from kafka.admin import NewTopic

import streamk
from connectors.kafka.sections import Kafka
from connectors.publish.fetching import fetch
from connectors.state.topic import SnapshotReader
from streamk.distributed.merging import Tree
from streamk.learners.loading import loads
from tests.processes import run as command

from .stand import SHORT

COMPACTED = {"cleanup.policy": "compact"}


def topics(stand, partitions, models=None, names=("in", "out", "dead")):
    """Make a test's topics, one of snapshots and one of published models among them."""
    if names:
        stand.topics(partitions, names=names)
    new = [
        NewTopic(stand.topic("models"), models or partitions, 1, topic_configs=COMPACTED),
        NewTopic(stand.topic("published"), 1, 1, topic_configs=COMPACTED),
    ]
    with stand.admin() as admin:
        admin.create_topics(new)


def settings(stand, name="daemon", **changes):
    often = {"checkpoints__events": 300, "checkpoints__seconds": 0.3}
    changes = {**often, "kafka__session_seconds": SHORT, **changes}
    return stand.settings(name, snapshots={"topic": stand.topic("models")}, **changes)


def partition(stand, number):
    return f"{stand.topic('in')}-{number}"


def kafka(stand):
    return Kafka(servers=[stand.servers])


@contextlib.contextmanager
def reading(stand):
    """Give a function that returns the newest snapshots of so many partitions, by number."""
    with closing(SnapshotReader(stand.topic("models"), kafka(stand))) as reader:

        def newest(partitions):
            found = reader.all([partition(stand, p) for p in range(partitions)])
            return {int(name.rpartition("-")[2]): snapshot for name, snapshot in found.items()}

        yield newest


def progress(snapshot):
    (found,) = snapshot.partitions.values()
    return found


def learned(newest, partitions):
    """Return how many events the snapshots of so many partitions have learned."""
    return sum(progress(snapshot).learned for snapshot in newest(partitions).values())


def alone(values):
    """Return the model of these events, learned in order by nobody else."""
    learner = streamk.KaczmarzClassifier(features=64, seed=0)
    xs = [{k: v for k, v in x.items() if k not in ("id", "y")} for x in values]
    learner.learn_many(xs, [x["y"] for x in values])
    return learner.to_bytes()


def tree(models):
    """Return the merge of models, by the order of their partitions."""
    found = Tree(len(models), lambda a, b: streamk.merge([a, b]))
    for leaf, model in enumerate(models):
        found.put(leaf, loads(model))
    return found.root.to_bytes()


def churn(stand, names, traffic, changes, kills, seed=8):
    """Let daemons leave and join, and kill them, in a mixed order; return those that run, and what was done.

    Half of the killed come back at once and find their partitions; the others come when these have been given
    to others.
    """
    paths = {name: settings(stand, name, checkpoints__events=200, checkpoints__seconds=0.2) for name in names}
    rng, running, done = random.Random(seed), {}, Counter()
    troubles = ["leave"] * changes + ["kill"] * kills
    rng.shuffle(troubles)
    traffic.start()
    for name in names:
        running[name] = stand.start(paths[name])
    for trouble in troubles:
        time.sleep(rng.uniform(0.1, 2.0))
        name = rng.choice(sorted(running))
        daemon = running.pop(name)
        assert daemon.process.poll() is None, daemon.text()[-3000:]
        if trouble == "kill":
            daemon.kill()
        else:
            assert daemon.stop() == 0, daemon.text()[-3000:]
        done[trouble] += 1
        time.sleep(rng.choice([0.0, 1.5 * SHORT]) if trouble == "kill" else rng.uniform(0.0, 1.0))
        running[name] = stand.start(paths[name])
        done["join"] += 1
    traffic.stop()
    return running, done


def check(stand, running, sent, partitions):
    """Raise unless every event is in one model once, predicted once, and the published one is their merge."""
    one = next(iter(running.values()))
    with reading(stand) as newest:
        one.until(lambda: learned(newest, partitions) >= len(sent))
        for daemon in running.values():
            assert daemon.stop() == 0, daemon.text()[-3000:]
        found = newest(partitions)
    models = []
    for p in range(partitions):
        at, mine = progress(found[p]), sent[p::partitions]
        assert (at.position, at.learned, at.refused) == (len(mine), len(mine), 0)
        models.append(found[p].parts["model"])
        assert loads(models[-1]).events == len(mine)
        assert models[-1] == alone(mine), f"the model of partition {p} is not that of its events in order"
    seen = Counter((row["partition"], row["offset"]) for r in stand.read() if (row := json.loads(r.value)))
    assert len(seen) == len(sent)
    assert set(seen.values()) == {1}
    publish = ["publish", stand.directory / "a.toml", "--to", stand.topic("published")]
    assert command(*publish).returncode == 0
    published = fetch(stand.topic("published"), kafka(stand))
    assert published.learner().to_bytes() == loads(tree(models)).frozen().to_bytes()
    assert published.about["events"] == len(sent)
    assert {name: at.position for name, at in published.version.items()} == {
        partition(stand, p): len(sent[p::partitions]) for p in range(partitions)
    }


def run_to(stand, count, partitions, path):
    """Run a daemon until the models have learned so many events, and stop it."""
    with reading(stand) as newest:
        daemon = stand.start(path)
        daemon.until(lambda: learned(newest, partitions) == count)
        assert daemon.stop() == 0
        return newest(partitions)
