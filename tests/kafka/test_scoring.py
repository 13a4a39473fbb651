"""A daemon learns, its model is published, others follow and predict: killed or not, every prediction names a
version that was published, and comes once."""

import json
import random
import time

import pytest
import zstandard

from connectors.contract.errors import USAGE
from connectors.publish.following import version_of
from tests.processes import Command

from .partition_models import command, topics
from .stand import LIMIT, SHORT, events
from .test_kills import Traffic, kill_somewhere

PARTITIONS = 3


def scorer(stand, name="scorer", **changes):
    base = {
        "source": {"kind": "topic", "topic": stand.topic("in"), "group": f"{stand.name}-scorers"},
        "learner": {"follow": stand.topic("published")},
        "predictions": {"kind": "topic", "topic": stand.topic("scores")},
        "dead_letters": None,
        "kafka__session_seconds": SHORT,
    }
    return stand.settings(name, **{**base, **changes})


def make_topics(stand):
    topics(stand, PARTITIONS, names=("in", "out", "dead", "scores"))


def versions(stand):
    """Return all versions that were ever published."""
    found = set()
    for record in stand.read("published"):
        about = json.loads(dict(record.headers)["streamk-about"])
        found.add(version_of(zstandard.ZstdDecompressor().decompress(record.value), about["events"]))
    return found


def check_scores(stand, count):
    """Check that every event is predicted once, by a published model, and return the versions."""
    records = stand.read("scores")
    bodies = [json.loads(record.value) for record in records]
    assert len(bodies) == count
    assert len({(body["partition"], body["offset"]) for body in bodies}) == count
    for record, body in zip(records, bodies, strict=True):
        named = {f"streamk-{key}": body[key].encode() for key in ("model", "version", "group")}
        assert dict(record.headers) == named
    assert {(body["model"], body["group"]) for body in bodies} == {
        (stand.topic("in"), f"{stand.name}-scorers")
    }
    assert {body["version"] for body in bodies} <= versions(stand)
    return {body["version"] for body in bodies}


def learned(stand, count):
    checkpoint = stand.checkpoint()
    return checkpoint is not None and sum(p.learned for p in checkpoint.partitions.values()) == count


def test_a_model_is_learned_published_and_followed(stand):
    make_topics(stand)
    stand.send(events(900), lambda i: i % PARTITIONS)
    follower = stand.start(scorer(stand))
    follower.until(lambda: "no model is published in" in follower.text())
    assert stand.end("scores") == 0
    path, to = stand.settings(), stand.topic("published")
    learner = stand.start(path)
    learner.until(lambda: learned(stand, 900))
    done = command("publish", path, "--to", to)
    assert done.returncode == 0, done.stderr
    assert "published already" in command("publish", path, "--to", to).stdout
    follower.until(lambda: len(stand.read("scores")) == 900)
    (first,) = check_scores(stand, 900)
    assert first.startswith("900-")
    stand.send(events(300, 2), lambda i: i % PARTITIONS)
    learner.until(lambda: learned(stand, 1200))
    assert learner.stop() == 0
    follower.until(lambda: len(stand.read("scores")) == 1200)
    assert command("publish", path, "--to", to).returncode == 0
    follower.until(lambda: follower.text().count("predicting with") == 2)
    stand.send(events(30, 3), lambda i: i % PARTITIONS)
    follower.until(lambda: len(stand.read("scores")) == 1230)
    assert follower.stop() == 0
    assert {version.partition("-")[0] for version in check_scores(stand, 1230)} == {"900", "1200"}
    out = {tuple(dict(record.headers).items()) for record in stand.read("out")}
    assert out == {(("streamk-model", stand.topic("in").encode()), ("streamk-group", stand.name.encode()))}
    checked = command("check", scorer(stand))
    assert checked.returncode == 0, checked.stderr
    assert f"learner.follow: {to} holds {stand.topic('in')} 1200-" in checked.stdout


def test_a_second_model_on_the_same_topic_is_refused_unless_it_is_allowed(stand):
    make_topics(stand)
    stand.send(events(200), lambda i: i % PARTITIONS)
    learner = stand.start(stand.settings())
    learner.until(lambda: learned(stand, 200))
    out = {"kind": "topic", "topic": stand.topic("out")}
    other = {"kind": "topic", "topic": stand.topic("in"), "group": f"{stand.name}-other"}
    second = stand.settings("second", source=other, predictions=out)
    words = f"holds predictions of the group '{stand.name}', and this is the group '{stand.name}-other'"
    for done in (command("check", second), command("run", second)):
        assert done.returncode == USAGE
        assert words in done.stderr
    daemon = stand.start(stand.settings("second", source=other, predictions={**out, "shared": True}))
    daemon.until(lambda: len(stand.read("out")) == 400)
    assert daemon.stop() == 0
    assert learner.stop() == 0
    assert "holds predictions of the group" in command("run", stand.settings()).stderr


def test_a_learner_does_not_share_the_group_of_scorers(stand):
    make_topics(stand)
    stand.send(events(200), lambda i: i % PARTITIONS)
    path = stand.settings()
    learner = stand.start(path)
    learner.until(lambda: learned(stand, 200))
    assert learner.stop() == 0
    assert command("publish", path, "--to", stand.topic("published")).returncode == 0
    source = {"kind": "topic", "topic": stand.topic("in"), "group": stand.name}
    done = command("run", scorer(stand, source=source))
    assert done.returncode == 4
    assert "a model with other settings" in done.stderr


KILLS = [4, pytest.param(20, marks=pytest.mark.long)]


@pytest.mark.parametrize("kills", KILLS)
def test_kills_of_learner_publisher_and_scorers(stand, kills):
    make_topics(stand)
    path, to, rng = (
        stand.settings(kafka__session_seconds=SHORT),
        stand.topic("published"),
        random.Random(kills),
    )
    traffic = Traffic(lambda part, at: stand.send_often(part, lambda i: (at + i) % PARTITIONS), 400)
    traffic.start()
    starts = {"daemon": lambda: stand.start(path)}
    for k in range(3):
        starts[f"scorer{k}"] = lambda k=k: stand.start(scorer(stand, f"scorer{k}"))
    running = {name: start() for name, start in starts.items()}
    publisher = Command("publish", path, "--to", to, "--every", "1")
    try:
        running["daemon"].until(lambda: bool(versions(stand)) or publisher.poll() is not None)
        for _ in range(kills):
            name = rng.choice([*starts, "publisher"])
            if name == "publisher":
                time.sleep(rng.random())
                publisher.kill()
                publisher.wait()
                publisher = Command("publish", path, "--to", to, "--every", "1")
            else:
                kill_somewhere(running[name], stand.directory / f"{name}-checkpoints", rng)
                running[name] = starts[name]()
        traffic.stop()
        deadline = time.monotonic() + LIMIT
        while len(stand.read("scores")) < traffic.count:
            assert time.monotonic() < deadline, [daemon.text()[-2000:] for daemon in running.values()]
            time.sleep(0.5)
        running["daemon"].until(lambda: learned(stand, traffic.count))
        for daemon in running.values():
            assert daemon.stop() == 0, daemon.text()[-3000:]
    finally:
        traffic.stop()
        publisher.kill()
    assert len(check_scores(stand, traffic.count)) > 1
