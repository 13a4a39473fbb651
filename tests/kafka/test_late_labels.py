"""Labels from a second topic: killed or not, a daemon learns what a replay of the two logs learns.

Labels come after 0 to 10,000 events, some before their event, some twice, some never, some are contradicted.
"""

import contextlib
import json
import random
import threading
import time
from collections import Counter

import pytest

import streamk
from connectors.events.decoding import EventFormat
from connectors.replay.labels import ByLabels, KeyedLog
from connectors.replay.run import replay_log

from . import partition_models
from .stand import SHORT, newest, producer_of
from .test_kills import KILLS, kill_somewhere

SLICE = 20  # events of one time; between two such times, labels come


def slices(count, most, seed=5):
    """Yield events of one time, and the labels that come after them; ``most`` is how late labels are."""
    rng = random.Random(seed)
    events, labels = [], {}
    for i in range(count):
        x = {f"f{j}": round(rng.gauss(0, 1), 6) for j in range(5)}
        events.append({**x, "id": f"e{i}", "at": float(i // SLICE)})
        if rng.random() < 0.01:
            continue
        label = {"id": f"e{i}", "y": x["f0"] * x["f1"] > 0}
        moments = [i // SLICE + (-2 if rng.random() < 0.01 else rng.randrange(most) // SLICE)]
        if rng.random() < 0.01:
            moments.append(moments[0] + rng.randrange(30))
        for moment in moments:
            labels.setdefault(max(moment, 0), []).append({**label, "at": moment + 0.5})
        if rng.random() < 0.001:
            other = {**label, "y": not label["y"], "at": moments[-1] + 20.5}
            labels.setdefault(moments[-1] + 20, []).append(other)
    last = max(count // SLICE, *labels)
    for moment in range(last + 1):
        yield events[moment * SLICE : (moment + 1) * SLICE], labels.get(moment, [])


class TwoLogs(threading.Thread):
    """Sends events and labels by time, each after what comes before it is in its topic."""

    def __init__(self, stand, parts, pause=0.0):
        super().__init__(daemon=True)
        self._stand, self._parts, self._pause, self.ended = stand, parts, pause, threading.Event()

    def run(self):
        with contextlib.closing(producer_of(self._stand.servers)) as producer:
            for events, labels in self._parts:
                for topic, rows in (("in", events), ("labels", labels)):
                    if rows:
                        self._stand.send(rows, topic=topic, producer=producer)
                if self.ended.wait(self._pause):
                    return


def settings(stand, name="daemon", **changes):
    base = {
        "labels": {"kind": "topic", "topic": stand.topic("labels"), "time": "at"},
        "events": {"target": "y", "key": "id", "time": "at"},
        "checkpoints__events": 300,
        "checkpoints__seconds": 0.2,
    }
    return stand.settings(name, **{**base, **changes})


def plain(learner):
    for key in list(learner.waiting):
        learner.tell_one(key, None)
    return learner.to_bytes()


def replayed(directory, parts, learner):
    paths = {kind: directory / f"{kind}.jsonl" for kind in ("events", "labels")}
    for k, path in enumerate(paths.values()):
        path.write_text("".join(json.dumps(row) + "\n" for part in parts for row in part[k]))
    formats = [EventFormat("y", verbatim=("id", "at"), labelled=labelled) for labelled in (False, True)]
    late = ByLabels(str(paths["labels"]), formats[1], "at")
    log = KeyedLog(str(paths["events"]), formats[0])
    return replay_log(log, learner, baseline=False, delay=late).learner.to_bytes()


def read_up(stand, checkpoint, partitions=1):
    if checkpoint is None:
        return False
    ends = {f"{stand.topic(t)}-{p}": stand.end(t, p) for t in ("in", "labels") for p in range(partitions)}
    return ends == {name: at.position for name, at in checkpoint.partitions.items()}


def finish(stand, path, directory):
    """Let a daemon read both topics to their ends, and return its model after that."""
    daemon = stand.start(path)
    daemon.until(lambda: read_up(stand, newest(directory)))
    assert daemon.stop() == 0
    return newest(directory)


@pytest.mark.parametrize(
    ("learner", "count", "most", "kills"),
    [
        ("kaczmarz", 12_000, 2_000, 8),
        pytest.param("kaczmarz", 150_000, 10_000, KILLS, marks=pytest.mark.long),
        pytest.param("kernel", 60_000, 10_000, KILLS, marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize("live", [True, pytest.param(False, marks=pytest.mark.long)])
def test_kills_change_nothing(stand, learner, count, most, kills, live):
    """The logs are written by time while they are read, or before."""
    stand.topics(names=("in", "labels", "out", "dead"))
    parts = list(slices(count, most))
    traffic = TwoLogs(stand, parts, pause=0.02 if live else 0.0)
    parameters = {"features": 64} if learner == "kaczmarz" else {}
    path = settings(stand, learner={"name": learner, "parameters": parameters})
    directory, rng, done = stand.directory / "daemon-checkpoints", random.Random(7), 0
    traffic.start()
    if not live:
        traffic.join()
    while done < kills:
        done += kill_somewhere(stand.start(path), directory, rng)
    traffic.join()
    found = finish(stand, path, directory)
    model = plain(newest(directory).learner())
    options = ",".join(f"{key}={value}" for key, value in {**parameters, "seed": 0}.items())
    assert model == replayed(stand.directory, parts, f"{learner}:{options}")
    rows = [json.loads(record.value) for record in stand.read()]
    assert [row["key"] for row in rows] == [event["id"] for events, _ in parts for event in events]
    told = Counter(label["id"] for _, labels in parts for label in labels)
    assert found.learner().events == len(told)
    dead = [dict(record.headers)["streamk-reason"].decode() for record in stand.read("dead")]
    assert len(dead) == sum(contradictions(parts).values())
    assert all("and it was another one before" in reason for reason in dead)
    other = settings(
        stand, "undisturbed", source__group=f"{stand.name}-2", predictions=None,
        learner={"name": learner, "parameters": parameters},
    )  # fmt: skip
    again = finish(stand, other, stand.directory / "undisturbed-checkpoints")
    assert again.learner().to_bytes() == found.learner().to_bytes()


def contradictions(parts):
    """Count labels that come after another one of their event."""
    first, found = {}, Counter()
    for _, labels in parts:
        for label in labels:
            if first.setdefault(label["id"], label["y"]) != label["y"]:
                found[label["id"]] += 1
    return found


def test_keys_and_times_of_records(stand):
    """Without fields that name them, the keys of the records join, and their times decide."""
    stand.topics(names=("in", "labels", "out", "dead"))
    order = sorted((i + i % 40, i) for i in range(600))
    now = int(time.time() * 1000)  # the broker deletes what is old
    with contextlib.closing(producer_of(stand.servers)) as producer:
        for topic, records in (("in", [(i, i) for i in range(600)]), ("labels", order)):
            for at, i in records:
                x = {"a": float(i % 7), "b": float(i % 3)} if topic == "in" else {"y": i % 7 > i % 3}
                producer.send(
                    stand.topic(topic), json.dumps(x).encode(), timestamp_ms=now + at,
                    partition=0, key=b"e%d" % i,
                )  # fmt: skip
        producer.flush()
    config = settings(stand, labels={"kind": "topic", "topic": stand.topic("labels")}, events={"target": "y"})
    model = finish(stand, config, stand.directory / "daemon-checkpoints").learner()
    alone, left, early = streamk.KaczmarzClassifier(features=64, seed=0), list(order), set()

    def bring(until):
        while left and left[0][0] <= until:
            i = left.pop(0)[1]
            if i in alone.waiting:
                alone.tell_one(i, i % 7 > i % 3)
            else:
                early.add(i)

    for i in range(600):
        bring(i)
        alone.ask_one(i, {"a": float(i % 7), "b": float(i % 3)})
        if i in early:
            alone.tell_one(i, i % 7 > i % 3)
    bring(1000)
    assert model.events == 600
    assert model.to_bytes() == alone.to_bytes()


def test_two_daemons_share_partitions_of_events_and_labels(stand):
    """Each has its model; the one that reads events learns their labels."""
    stand.topics(partitions=2, names=("in", "labels", "out", "dead"))
    parts = list(slices(4000, 300))
    paths = {n: settings(stand, n, source__blank=True, kafka__session_seconds=SHORT) for n in ("a", "b")}
    daemons = {n: stand.start(path) for n, path in paths.items()}
    for daemon in daemons.values():
        daemon.until(daemon.begun)
    place = dict.fromkeys(("in", "labels"), 0)
    with contextlib.closing(producer_of(stand.servers)) as producer:
        for events, labels in parts:
            for topic, rows in (("in", events), ("labels", labels)):
                stand.send(rows, lambda i, r=rows: int(r[i]["id"][1:]) % 2, topic, producer=producer)
                place[topic] += len(rows)
    told = len({label["id"] for _, labels in parts for label in labels})
    directories = [stand.directory / f"{n}-checkpoints" for n in paths]

    def learned():
        stored = [newest(directory) for directory in directories]
        return sum(each.learner().events for each in stored if each is not None)

    daemons["a"].until(lambda: learned() == told)
    for daemon in daemons.values():
        assert daemon.stop() == 0
    keys = [json.loads(record.value)["key"] for record in stand.read()]
    assert sorted(keys) == sorted(event["id"] for events, _ in parts for event in events)


def test_models_of_partitions_move_with_what_waits(stand):
    """A daemon leaves and another is killed between an event and its label; positions of labels move, too."""
    partition_models.topics(stand, 2, names=("in", "labels", "out", "dead"))
    parts = list(slices(4000, 600))
    paths = {
        n: partition_models.settings(
            stand, n, labels={"kind": "topic", "topic": stand.topic("labels"), "time": "at"},
            events={"target": "y", "key": "id", "time": "at"},
        )
        for n in ("a", "b")
    }  # fmt: skip

    def send(some):
        with contextlib.closing(producer_of(stand.servers)) as producer:
            for events, labels in some:
                for topic, rows in (("in", events), ("labels", labels)):
                    stand.send(rows, lambda i, r=rows: int(r[i]["id"][1:]) % 2, topic, producer=producer)

    with partition_models.reading(stand) as found:

        def positions():
            return {n: p.position for each in found(2).values() for n, p in each.partitions.items()}

        def is_read():
            ends = {f"{stand.topic(t)}-{p}": stand.end(t, p) for t in ("in", "labels") for p in range(2)}
            return positions() == ends

        first = stand.start(paths["a"])
        send(parts[:80])
        first.until(is_read)
        second = stand.start(paths["b"])
        send(parts[80:140])
        second.until(is_read)
        assert first.stop() == 0
        send(parts[140:180])
        second.until(is_read)
        second.kill()
        send(parts[180:])
        third = stand.start(paths["a"])
        third.until(is_read)
        assert third.stop() == 0
        models = {p: snapshot.learner() for p, snapshot in found(2).items()}
    for p, model in models.items():
        mine = [[[row for row in rows if int(row["id"][1:]) % 2 == p] for rows in part] for part in parts]
        assert plain(model) == replayed(stand.directory, mine, "kaczmarz:features=64,seed=0")
    keys = [json.loads(record.value)["key"] for record in stand.read()]
    assert sorted(keys) == sorted(event["id"] for events, _ in parts for event in events)


def test_a_topic_of_labels_that_is_recreated(stand):
    """It is another topic, as one of events would be; labels in it are not skipped up to the old end."""
    stand.topics(names=("in", "labels", "out", "dead"))
    parts = list(slices(1000, 100))
    TwoLogs(stand, parts).run()
    path = settings(stand)
    daemon = stand.start(path)
    daemon.until(lambda: read_up(stand, newest(stand.directory / "daemon-checkpoints")))
    with stand.admin() as admin:
        admin.delete_topics([stand.topic("labels")])
    time.sleep(2.0)
    stand.topics(names=("labels",))
    stand.send([{"id": "new", "at": 1e6, "y": True}], topic="labels")
    stand.send([{"id": "new", "at": 1e6, "f0": 1.0}], topic="in")
    assert daemon.wait() == 7
    assert f"{stand.topic('labels')}-0 is not what was read before" in daemon.text()


def test_a_topic_with_too_few_partitions(stand):
    stand.topics(partitions=2, names=("in", "out", "dead"))
    stand.topics(names=("labels",))
    daemon = stand.start(settings(stand))
    assert daemon.wait() == 2
    assert "has 1 partition, and none for" in daemon.text()
