"""Daemons killed by SIGKILL while events keep coming: nothing is lost, learned twice or written twice.

A third of the kills wait until a checkpoint is being written; the others come at random, from the first
moments of a start to the midst of transactions.
"""

import contextlib
import json
import random
import threading
import time
from collections import Counter

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from connectors.contract.records import Committed
from connectors.formats.addresses import place_of
from connectors.state.positions import (
    metadata_of,
)

from .stand import SHORT, Stand, events, newest

KILLS = 50
FEWER = [8, pytest.param(KILLS, marks=pytest.mark.long)]


class Traffic(threading.Thread):
    """Sends events a few at a time until told to stop, ``rate`` a second."""

    def __init__(self, send, rate):
        super().__init__(daemon=True)
        self._send, self._rate, self.ended, self.count = send, rate, threading.Event(), 0
        self._events = events(200_000)

    def run(self):
        while not self.ended.wait(0.05):
            step = self._rate // 20
            part = self._events[self.count : self.count + step]
            assert len(part) == step, "the traffic was too short"
            self._send(part, self.count)
            self.count += step

    def stop(self):
        self.ended.set()
        self.join()


def kill_somewhere(daemon, directory, rng):
    """Kill a daemon at a moment of the generator's choice."""
    moment = time.monotonic() + rng.uniform(0.2, 2.8)
    if rng.random() < 1 / 3:
        time.sleep(1.0)
        deadline = time.monotonic() + 3.0
        while not any(directory.glob(".*.checkpoint.*")) and time.monotonic() < deadline:
            pass
    else:
        time.sleep(max(0.0, moment - time.monotonic()))
    alive = daemon.process.poll() is None
    daemon.kill()
    return alive


def undisturbed(stand, directory, count):
    """Compare with the model of a daemon that nobody disturbs."""
    path = stand.settings("undisturbed", source__group=f"{stand.name}-2", predictions=None, dead_letters=None)
    daemon = stand.start(path)
    other = stand.directory / "undisturbed-checkpoints"
    daemon.until(lambda: (c := newest(other)) and c.learner().events == count)
    assert daemon.stop() == 0
    assert newest(directory).learner().to_bytes() == newest(other).learner().to_bytes()


def one_partition(stand, traffic, count, **settings):
    """Kill a daemon so many times while it learns; return its last progress."""
    path = stand.settings(checkpoints__events=200, checkpoints__seconds=0.2, **settings)
    directory = place_of(settings.get("checkpoints__directory", str(stand.directory / "daemon-checkpoints")))
    rng = random.Random(7)
    traffic.start()
    kills = 0
    while kills < count:
        kills += kill_somewhere(stand.start(path), directory, rng)
    daemon = stand.start(path)
    traffic.stop()
    name = f"{stand.topic('in')}-0"
    with granted(stand, name) as position:

        def learned():
            """A checkpoint of a killed daemon does not count if the group was not told of it."""
            c = newest(directory)
            return c and c.learner().events == traffic.count and c.partitions[name].position == position()

        daemon.until(learned)
    assert daemon.stop() == 0
    undisturbed(stand, directory, traffic.count)
    return newest(directory).partitions[name]


@contextlib.contextmanager
def granted(stand, partition):
    """A function that says up to where the group was told that a checkpoint goes."""
    place = TopicPartition(stand.topic("in"), int(partition.rpartition("-")[2]))
    with contextlib.closing(KafkaConsumer(bootstrap_servers=stand.servers, group_id=stand.name)) as reader:

        def position():
            found = reader.committed(place, metadata=True)
            owners = metadata_of(Committed(0, found.metadata)).owners if found else []
            return owners[-1].until if owners else None

        yield position


@pytest.mark.parametrize(
    ("producer", "count"),
    [
        ("kafka-python", 8),
        ("confluent-kafka", 5),
        *(pytest.param(name, KILLS, marks=pytest.mark.long) for name in ("kafka-python", "confluent-kafka")),
    ],
)
def test_one_partition(stand, producer, count):
    stand.topics()
    traffic = Traffic(lambda part, at: stand.send_often(part), 2000)
    progress = one_partition(stand, traffic, count, kafka__producer=producer)
    assert (progress.position, progress.learned) == (traffic.count, traffic.count)
    offsets = [json.loads(r.value)["offset"] for r in stand.read()]
    assert offsets == list(range(traffic.count))


@pytest.mark.parametrize("count", [5, pytest.param(KILLS, marks=pytest.mark.long)])
def test_checkpoints_at_an_address(stand, count):
    """The file system writes in place, so that a kill may leave a checkpoint that is cut short."""
    stand.topics()
    traffic = Traffic(lambda part, at: stand.send_often(part), 2000)
    address = f"file://{stand.directory}/remote"
    progress = one_partition(stand, traffic, count, checkpoints__directory=address)
    assert (progress.position, progress.learned) == (traffic.count, traffic.count)
    offsets = [json.loads(r.value)["offset"] for r in stand.read()]
    assert offsets == list(range(traffic.count))


@pytest.mark.parametrize("count", [3, pytest.param(KILLS, marks=pytest.mark.long)])
@pytest.mark.parametrize("codec", ["lz4", pytest.param("zstd", marks=pytest.mark.long)])
def test_a_compressed_topic(stand, codec, count):
    """The broker compresses what comes, so that records lie in larger batches than they were sent in."""
    stand.topics(names=("out", "dead"))
    stand.topics(configs={"compression.type": codec}, names=("in",))
    traffic = Traffic(lambda part, at: stand.send_often(part), 2000)
    progress = one_partition(stand, traffic, count)
    assert (progress.position, progress.learned) == (traffic.count, traffic.count)
    assert [json.loads(r.value)["offset"] for r in stand.read()] == list(range(traffic.count))


@pytest.mark.parametrize("count", [3, pytest.param(KILLS, marks=pytest.mark.long)])
def test_a_topic_written_by_transactions(stand, count):
    """Every part is a transaction, and before each a part of another one is undone."""
    stand.topics()
    producer = KafkaProducer(bootstrap_servers=stand.servers, transactional_id=stand.name, linger_ms=5)
    producer.init_transactions()

    def send(part, at):
        for kept in (False, True):
            producer.begin_transaction()
            for i, event in enumerate(part if kept else part[:7]):
                body = {**event, "id": at + i} if kept else {**event, "y": "undone"}
                producer.send(stand.topic("in"), json.dumps(body).encode())
            producer.flush()
            (producer.commit_transaction if kept else producer.abort_transaction)()

    traffic = Traffic(send, 2000)
    with contextlib.closing(producer):
        progress = one_partition(stand, traffic, count)
    assert progress.learned == traffic.count
    assert progress.position == stand.end()
    parts, sent = traffic.count // 100, [r.offset for r in stand.read("in")]
    assert len(sent) == traffic.count == stand.end() - parts * (7 + 2)
    assert [json.loads(r.value)["offset"] for r in stand.read()] == sent


@pytest.mark.parametrize("count", [12, pytest.param(KILLS, marks=pytest.mark.long)])
def test_four_partitions_and_two_daemons(stand, count):
    """Either may be killed; partitions go back and forth between them."""
    stand.topics(partitions=4)
    traffic = Traffic(lambda part, at: stand.send_often(part, lambda i: (at + i) % 4), 2000)
    names = ("a", "b")
    often = {"checkpoints__events": 200, "checkpoints__seconds": 0.2, "kafka__session_seconds": SHORT}
    # a killed daemon may leave the other alone with a partition that it has never had
    paths = {n: stand.settings(n, source__blank=True, **often) for n in names}
    directories = {n: stand.directory / f"{n}-checkpoints" for n in names}
    rng = random.Random(8)
    traffic.start()
    running = {"a": stand.start(paths["a"])}
    kills = 0
    while kills < count:
        name = rng.choice(names)
        if name not in running:
            running[name] = stand.start(paths[name])
        kills += kill_somewhere(running.pop(name), directories[name], rng)
        if rng.random() < 0.7:  # else the other one takes over
            running[name] = stand.start(paths[name])
    for name in names:
        if name not in running:
            running[name] = stand.start(paths[name])
    traffic.stop()

    def learned():
        found = Counter()
        for directory in directories.values():
            checkpoint = newest(directory)
            for partition, progress in (checkpoint.partitions if checkpoint else {}).items():
                found[partition] += progress.learned
        return found

    running["a"].until(lambda: sum(learned().values()) >= traffic.count)
    assert running["a"].stop() == 0
    assert running["b"].stop() == 0
    assert learned() == {f"{stand.topic('in')}-{p}": traffic.count // 4 for p in range(4)}
    both = sum(newest(directory).learner().events for directory in directories.values())
    assert both == traffic.count
    found = Counter((v["partition"], v["offset"]) for r in stand.read() if (v := json.loads(r.value)))
    assert len(found) == traffic.count
    assert set(found.values()) == {1}


@pytest.mark.parametrize("count", FEWER)
def test_a_log_on_disk(tmp_path, count):
    """The same of a log that grows and predictions that go to a file."""
    stand = Stand("127.0.0.1:1", tmp_path)
    stand.name = "none"
    log, out = tmp_path / "log.jsonl", tmp_path / "out.jsonl"
    log.touch()

    def append(part, at):
        with log.open("a") as file:
            file.writelines(json.dumps(x) + "\n" for x in part)

    file_source = {"kind": "file", "path": log, "follow": True}
    common = {"source": file_source, "checkpoints__events": 200, "checkpoints__seconds": 0.2}
    common |= {"learner": {"name": "kernel", "parameters": {"features": 768}}}
    path = stand.settings(
        **common,
        predictions={"kind": "file", "path": out},
        dead_letters={"kind": "file", "path": tmp_path / "dead"},
    )
    directory = tmp_path / "daemon-checkpoints"
    traffic = Traffic(append, 500)  # so that learning it once more takes seconds on a busy machine, too
    rng = random.Random(9)
    traffic.start()
    kills = 0
    while kills < count:
        kills += kill_somewhere(stand.start(path), directory, rng)
    daemon = stand.start(path)
    traffic.stop()
    daemon.until(lambda: (c := newest(directory)) and c.learner().events == traffic.count)
    assert daemon.stop() == 0
    undisturbed = stand.settings(
        "undisturbed",
        source={**file_source, "follow": False},
        learner=common["learner"],
        predictions=None,
        dead_letters=None,
    )
    assert stand.start(undisturbed).wait() == 0
    other = newest(tmp_path / "undisturbed-checkpoints")
    assert newest(directory).learner().to_bytes() == other.learner().to_bytes()
    offsets = [json.loads(line)["offset"] for line in out.read_text().splitlines()]
    assert len(offsets) == traffic.count
    assert offsets == sorted(set(offsets))
