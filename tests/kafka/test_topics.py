"""One daemon, several topics: a list of names, or a pattern that also matches topics that come later."""

import json
import os
import time
from contextlib import closing

import pytest
from kafka.admin import NewTopic

from connectors.kafka.client import topic_of
from connectors.state.topic import SnapshotReader
from tests.processes import run as command

from . import partition_models
from .partition_models import alone, kafka
from .stand import LIMIT, SHORT, events


def make(stand, **partitions):
    """Make topics of a test's own, each with so many partitions, and those that a daemon writes."""
    for name, count in partitions.items():
        stand.topics(names=(name,), configs={}) if count == 1 else make_large(stand, name, count)
    stand.topics(names=("out", "dead"))


def make_large(stand, name, count):
    with stand.admin() as admin:
        admin.create_topics([NewTopic(stand.topic(name), count, 1)])


def remake(stand, name):
    with stand.admin() as admin:
        admin.delete_topics([stand.topic(name)])
        deadline = time.monotonic() + LIMIT
        while stand.topic(name) in admin.list_topics() and time.monotonic() < deadline:
            time.sleep(0.1)
    stand.topics(names=(name,))


def topics(stand, *names):
    return [stand.topic(name) for name in names]


def positions(stand):
    """Return how many events of each topic the newest checkpoint has learned."""
    checkpoint, counts = stand.checkpoint(), {}
    for name, progress in checkpoint.partitions.items() if checkpoint else ():
        topic = topic_of(name).removeprefix(f"{stand.name}-")
        counts[topic] = counts.get(topic, 0) + progress.learned
    return counts


def run_until(stand, path, **counts):
    daemon = stand.start(path)
    daemon.until(lambda: positions(stand) == counts)
    assert daemon.stop() == 0
    return daemon.text()


def places(stand):
    """Return the partition and the offset of each prediction."""
    return sorted((row["partition"], row["offset"]) for r in stand.read() if (row := json.loads(r.value)))


def test_topics_of_different_sizes_are_learned_once(stand):
    """A daemon is killed in the midst; each model is that of its partition's events in order."""
    make(stand, one=1, three=3)
    partition_models.topics(stand, 2, names=())
    path = partition_models.settings(stand, source__topic=topics(stand, "one", "three"))
    sent = {"one": events(900, 1), "three": events(1500, 2)}
    names = [f"{stand.topic('one')}-0", *(f"{stand.topic('three')}-{p}" for p in range(3))]
    with closing(SnapshotReader(stand.topic("models"), kafka(stand))) as reader:

        def learned():
            return sum(s.partitions[name].learned for name, s in reader.all(names).items())

        daemon = stand.start(path)
        stand.send(sent["one"][:500], topic="one")
        stand.send(sent["three"][:600], lambda i: i % 3, topic="three")
        daemon.until(lambda: learned() > 0)
        daemon.kill()
        stand.send(sent["one"][500:], topic="one")
        stand.send(sent["three"][600:], lambda i: i % 3, topic="three")
        daemon = stand.start(path)
        daemon.until(lambda: learned() == 2400)
        assert daemon.stop() == 0
        snapshots = reader.all(names)
    assert snapshots[names[0]].parts["model"] == alone(sent["one"])
    for p in range(3):
        assert snapshots[names[1 + p]].parts["model"] == alone(sent["three"][p::3])
    expected = {names[0]: 900, **dict.fromkeys(names[1:], 500)}
    assert places(stand) == sorted((name, k) for name, count in expected.items() for k in range(count))
    done = command("check", path)
    assert f"source.topic: {stand.topic('three')} has 3 partitions" in done.stdout, done.stderr
    assert "4 of 4 partitions have a snapshot, and have learned 2,400 events" in done.stdout
    target = stand.directory / "published"
    assert command("publish", path, "-o", target).returncode == 0
    assert command("show", target).stdout


def test_a_topic_is_added_to_the_list_and_removed_from_it(stand):
    """What is learned stays; the new topic is read from where source.start says."""
    make(stand, a=1, b=1, c=1)
    for seed, name in enumerate("abc"):
        stand.send(events(100, seed), topic=name)
    run_until(stand, stand.settings(source__topic=stand.topic("a")), a=100)
    run_until(stand, stand.settings(source__topic=topics(stand, "a", "b")), a=100, b=100)
    path = stand.settings(source__topic=topics(stand, "a", "b", "c"), source__start="latest")
    daemon = stand.start(path)
    daemon.until(lambda: f"{stand.topic('c')}-0: reading from position 100" in daemon.text())
    stand.send(events(50, 4), topic="c")
    daemon.until(lambda: positions(stand) == {"a": 100, "b": 100, "c": 50})
    assert daemon.stop() == 0
    stand.send(events(30, 5), topic="b")
    run_until(stand, stand.settings(source__topic=topics(stand, "b", "c")), a=100, b=130, c=50)
    other = stand.settings(source__topic=stand.topic("in"), predictions=None)
    stand.topics(names=("in",))
    done = command("run", other)
    assert done.returncode == 4
    assert f"belongs to '{stand.topic('b')}, {stand.topic('c')}', and the source is" in done.stderr


def test_missing_topics_are_named(stand):
    make(stand, a=1)
    path = stand.settings(source__topic=topics(stand, "a", "x", "y"))
    done = command("run", path)
    assert done.returncode == 2
    assert f"no topic '{stand.topic('x')}' and no topic '{stand.topic('y')}' that" in done.stderr
    path = stand.settings(source__topic=f"^{stand.name}-in")
    for name in ("run", "check"):
        done = command(name, path)
        assert done.returncode == 2
        assert f"no topic that matches '^{stand.name}-in' that this client may describe" in done.stderr


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_a_pattern_reads_topics_that_come_later(stand, start):
    make(stand, **{"in-a": 1})
    stand.send(events(100), topic="in-a")
    path = stand.settings(source__topic=f"^{stand.name}-in-", source__start=start)
    daemon = stand.start(path)
    daemon.until(daemon.begun)
    stand.send(events(50, 2), topic="in-a")
    old = 150 if start == "earliest" else 50
    daemon.until(lambda: positions(stand) == {"in-a": old})
    make_large(stand, "in-b", 2)
    stand.send(events(200, 3), lambda i: i % 2, topic="in-b")
    daemon.until(lambda: positions(stand) == {"in-a": old, "in-b": 200})
    assert daemon.stop() == 0
    stand.topics(names=("in-c",))  # while none runs
    stand.send(events(40, 4), topic="in-c")
    run_until(stand, path, **{"in-a": old, "in-b": 200, "in-c": 40})
    assert len(set(places(stand))) == len(places(stand)) == old + 240


def test_a_topic_of_several_is_recreated(stand):
    """The others are learned on; the new one under the old name is refused, or read as settings say."""
    make(stand, a=1, b=1)
    stand.send(events(100, 1), topic="a")
    stand.send(events(100, 2), topic="b")
    path = stand.settings(source__topic=topics(stand, "a", "b"))
    run_until(stand, path, a=100, b=100)
    remake(stand, "b")
    stand.send(events(70, 3), topic="b")
    stand.send(events(20, 4), topic="a")
    done = command("run", path)
    assert done.returncode == 7
    assert f"{stand.topic('b')}-0 is not what was read before" in done.stderr
    path = stand.settings(source__topic=topics(stand, "a", "b"), source__expired="earliest")
    daemon = stand.start(path)
    daemon.until(lambda: positions(stand) == {"a": 120, "b": 170})
    remake(stand, "b")  # while it is read
    stand.send(events(30, 5), topic="b")
    daemon.until(lambda: positions(stand) == {"a": 120, "b": 200})
    assert daemon.stop() == 0
    assert "was recreated" in daemon.text()


def test_two_daemons_share_topics(stand):
    """One is killed; all events are learned and predicted once."""
    make(stand, one=1, three=3)
    changes = {"source__topic": topics(stand, "one", "three"), "kafka__session_seconds": SHORT}
    daemons = [stand.start(stand.settings(name, **changes)) for name in ("a", "b")]
    for daemon in daemons:
        daemon.until(daemon.begun)
    stand.send(events(300, 1), topic="one")
    stand.send(events(900, 2), lambda i: i % 3, topic="three")
    daemons[1].until(lambda: len(places(stand)) > 100)
    daemons[0].kill()
    stand.send(events(300, 3), topic="one")
    daemons[1].until(lambda: len(places(stand)) >= 1500)
    assert daemons[1].stop() == 0
    assert len(set(places(stand))) == len(places(stand)) == 1500


def test_the_topic_is_an_input(stand):
    """Also of a recorded log, of a replay and of training in shards."""
    make(stand, **{"in-a": 1, "in-b": 2})
    stand.send(events(200, 1), topic="in-a")
    stand.send(events(200, 2), lambda i: i % 2, topic="in-b")
    path = stand.settings(source__topic=f"^{stand.name}-in-", events__record={"where": "topic"})
    run_until(stand, path, **{"in-a": 200, "in-b": 200})
    log = stand.directory / "log.jsonl"
    assert command("record", path, log).returncode == 0
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    counts = {name: sum(row["where"] == stand.topic(name) for row in rows) for name in ("in-a", "in-b")}
    assert counts == {"in-a": 200, "in-b": 200}
    done = command("record", path, stand.directory / "one.jsonl", "--partition", "1")
    assert (done.returncode, len((stand.directory / "one.jsonl").read_text().splitlines())) == (0, 100)
    done = command("replay", path, "--json")
    assert done.returncode == 0, done.stderr
    done = command("train", path, "--save", stand.directory / "trained")
    assert done.returncode == 0, done.stderr


def test_the_topic_is_learned(stand):
    """The same events have opposite labels in two topics; the second has events once the first is learned."""
    make(stand, c=1, d=1)
    path = stand.settings(source__topic=topics(stand, "c", "d"), events__record={"where": "topic"})
    there = events(200, 1)
    other = [{**x, "y": not x["y"]} for x in there]
    stand.send(there, topic="c")
    daemon = stand.start(path)
    daemon.until(lambda: (c := stand.checkpoint()) and c.learner().events == 200)
    stand.send(other, topic="d")
    daemon.until(lambda: stand.checkpoint().learner().events == 400)
    assert daemon.stop() == 0
    sent = [{**x, "where": stand.topic(name)} for name, rows in (("c", there), ("d", other)) for x in rows]
    assert stand.checkpoint().parts["model"] == alone(sent)
    assert alone(sent) != alone([{**x, "where": stand.topic("c")} for x in sent])


def test_dead_letters_return_to_their_topics(stand):
    make(stand, a=1, b=1)
    stand.send([b"{", *events(10, 1)], topic="a")
    stand.send([*events(10, 2), b"[", b"]"], topic="b")
    path = stand.settings(source__topic=topics(stand, "a", "b"))
    run_until(stand, path, a=10, b=10)
    done = command("dead-letters", "retry", path)
    assert "sent 3 dead letters" in done.stdout, done.stderr
    assert [r.value for r in stand.read("a")][-1:] == [b"{"]
    assert [r.value for r in stand.read("b")][-2:] == [b"[", b"]"]
    assert "sent 0 dead letters" in command("dead-letters", "retry", path).stdout


def test_reset_of_several_topics(stand):
    make(stand, a=1, b=1)
    for seed, name in enumerate("ab"):
        stand.send(events(100, seed), topic=name)
    path = stand.settings(source__topic=topics(stand, "a", "b"))
    run_until(stand, path, a=100, b=100)
    done = command("reset", path, "--to", "40")
    assert done.returncode == 0, done.stderr
    run_until(stand, path, a=160, b=160)
    only = {**os.environ, "STREAMK_SOURCE__TOPIC": stand.topic("b")}
    one = command("reset", path, "--to", "earliest", env=only)
    assert one.returncode == 0, one.stderr
    run_until(stand, path, a=160, b=260)
    done = command("reset", path, "--exclude", "20..30", env=only)
    assert done.returncode == 0, done.stderr
    daemon = stand.start(path)  # from the checkpoint of the reset, with 320 events
    daemon.until(lambda: stand.checkpoint().learner().events == 320 + 90)
    assert daemon.stop() == 0
