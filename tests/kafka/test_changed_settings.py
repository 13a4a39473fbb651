"""One model, one group, one meaning: changed settings, other models and other programs stop the daemon."""

import contextlib
import json
import time

import pytest
from kafka import KafkaConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

from connectors.kafka.group import committed_positions
from connectors.settings.file import load
from connectors.state.positions import (
    metadata_of,
)
from connectors.state.training import digest_of, training_of

from .partition_models import command, run_to, settings, topics
from .stand import LIMIT, events


def twofold(count, seed=1):
    """Return events with a second target."""
    return [{**x, "z": x["f02"] > 0} for x in events(count, seed)]


def learned(stand, name="daemon"):
    checkpoint = stand.checkpoint(name)
    return sum(p.learned for p in checkpoint.partitions.values()) if checkpoint else 0


def run_until(stand, path, count, name="daemon"):
    daemon = stand.start(path)
    daemon.until(lambda: learned(stand, name) == count)
    assert daemon.stop() == 0, daemon.text()


def digests(path):
    """Return the digests in the notes of the group."""
    found = load(path)
    _, positions = committed_positions(found.source, found.kafka)
    return {metadata_of(committed).digest for committed in positions.values()}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"events__target": "z"}, "events.target = 'y', and the settings have events.target = 'z'"),
        *(
            pytest.param({name: value}, words, marks=pytest.mark.long)
            for name, value, words in [
                ("events__ignore", ["id", "z"], "events.ignore = ['id'], and the settings have"),
                ("events__features", ["f00", "f01"], "events.features = None, and the settings have"),
                ("events__weight", "f04", "events.weight = None, and the settings have"),
            ]
        ),
    ],
    ids=["target", "ignore", "features", "weight"],
)
def test_changed_settings_stop_the_daemon_until_they_are_adopted(stand, changes, words):
    stand.topics()
    stand.send(twofold(200))
    run_until(stand, stand.settings(), 200)
    before = stand.checkpoint()
    stand.send(twofold(100, 2))
    path = stand.settings(**changes)
    daemon = stand.start(path)
    assert daemon.wait() == 4
    assert words in daemon.text()
    assert "streamk adopt" in daemon.text()
    assert stand.checkpoint().parts == before.parts
    checked = command("check", path)
    assert (checked.returncode, words in checked.stderr) == (4, True)
    assert "nothing was written" in command("adopt", path, "--dry-run").stdout
    assert stand.start(path).wait() == 4
    done = command("adopt", path)
    assert done.returncode == 0, done.stderr
    assert "adopted 1 changed settings" in done.stdout
    assert digests(path) == {digest_of(training_of(load(path)))}
    daemon = stand.start(path)
    daemon.until(lambda: stand.checkpoint().partitions[f"{stand.topic('in')}-0"].position == 300)
    assert daemon.stop() == 0
    ((entry,),) = [found["changes"] for found in stand.checkpoint().adopted]
    assert entry[0] == next(iter(changes)).replace("__", ".")
    shown = command("checkpoints", "show", stand.directory / "daemon-checkpoints").stdout
    assert f"{entry[0]} from" in shown


def test_a_changed_learner_is_not_adopted(stand):
    stand.topics()
    stand.send(events(100))
    run_until(stand, stand.settings(), 100)
    done = command("adopt", stand.settings(learner__parameters={"features": 128}))
    assert done.returncode == 4
    assert "a changed learner cannot continue from this model" in done.stderr


def test_the_same_settings_in_other_words_are_no_change(stand):
    stand.topics()
    stand.send(twofold(100))
    run_until(stand, stand.settings(events__ignore=["z", "id"]), 100)
    stand.send(twofold(100, 2))
    run_until(
        stand,
        stand.settings(events__ignore=["id", "z"], learner__parameters={"features": 64, "seed": 0}),
        200,
    )


def test_a_second_model_in_the_group_stops(stand):
    """The first one learns everything; the second one tells why it does not start."""
    stand.topics(partitions=2)
    sent = twofold(400)
    stand.send(sent[:200], lambda i: i % 2)
    first = stand.start(stand.settings("a"))
    first.until(lambda: learned(stand, "a") == 200)
    second = stand.start(stand.settings("b", events__target="z", source__blank=True))
    assert second.wait() == 4
    assert "a model with other settings (events or learner) reads it in the group" in second.text()
    checked = command("check", stand.settings("c", events__target="z"))
    assert checked.returncode == 4
    assert "a model with other settings" in checked.stderr
    stand.send(sent[200:], lambda i: i % 2)
    first.until(lambda: learned(stand, "a") == 400)
    assert first.stop() == 0


def test_two_models_that_start_together_do_not_share_a_topic(stand):
    stand.topics(partitions=2)
    stand.send(twofold(200), lambda i: i % 2)
    daemons = [
        stand.start(stand.settings(name, events__target=target, source__blank=True))
        for name, target in (("a", "y"), ("b", "z"))
    ]
    deadline = time.monotonic() + LIMIT
    while all(daemon.process.poll() is None for daemon in daemons) and time.monotonic() < deadline:
        time.sleep(0.1)
    ends = [daemon.process.poll() for daemon in daemons]
    assert 4 in ends, ends
    assert set(ends) <= {4, None}


def test_another_program_in_the_group_stops_the_daemon(stand):
    stand.topics(partitions=2)
    stand.send(events(200), lambda i: i % 2)
    foreign = KafkaConsumer(
        stand.topic("in"), bootstrap_servers=stand.servers, group_id=stand.name, client_id="dashboard",
        partition_assignment_strategy=[CooperativeStickyAssignor], enable_auto_commit=False,
    )  # fmt: skip
    with contextlib.closing(foreign):
        foreign.poll(3000)
        daemon = stand.start(stand.settings())
        deadline = time.monotonic() + LIMIT
        while daemon.process.poll() is None and time.monotonic() < deadline:
            foreign.poll(200)
        assert daemon.process.poll() == 2
        foreign.poll(200)
        assert command("check", stand.settings()).returncode == 2
    assert "'dashboard' at" in daemon.text()
    assert "choose a source.group of its own" in daemon.text()


@pytest.mark.parametrize("to", ["checkpoint", "250"])
def test_a_group_that_was_deleted_stops_the_daemon(stand, to):
    """Its offsets said which predictions were written; without them, some would be written twice."""
    stand.topics()
    stand.send(events(250))
    path = stand.settings()
    run_until(stand, path, 250)
    with stand.admin() as admin:
        admin.delete_groups([stand.name])
    stand.send(events(50, 2))
    daemon = stand.start(path)
    assert daemon.wait() == 7
    assert f"the group '{stand.name}' has no position" in daemon.text()
    assert "reset SETTINGS --to checkpoint" in daemon.text()
    checked = command("check", path)
    assert (checked.returncode, "has no position" in checked.stderr) == (7, True)
    assert command("reset", path, "--to", to).returncode == 0
    run_until(stand, path, 300)
    assert [json.loads(r.value)["offset"] for r in stand.read()] == list(range(300))


def test_changed_settings_and_a_model_for_every_partition(stand):
    topics(stand, 2)
    sent = twofold(300)
    stand.send(sent[:200], lambda i: i % 2)
    path = settings(stand)
    run_to(stand, 200, 2, path)
    changed = settings(stand, events__target="z")
    daemon = stand.start(changed)
    assert daemon.wait() == 4
    assert "events.target = 'y', and the settings have events.target = 'z'" in daemon.text()
    done = command("adopt", changed)
    assert done.returncode == 0, done.stderr
    assert "adopted 1 changed settings" in done.stdout
    stand.send(sent[200:], lambda i: i % 2)
    found = run_to(stand, 300, 2, changed)
    assert {snapshot.training["events.target"] for snapshot in found.values()} == {"z"}
    assert all(len(snapshot.adopted) == 1 for snapshot in found.values())
    assert stand.start(settings(stand)).wait() == 4  # the settings from before


def test_no_group_by_default(stand, tmp_path):
    path = stand.settings(source={"kind": "topic", "topic": "t"})
    done = command("check", path)
    assert done.returncode == 2
    assert "source.group: this setting must be given" in done.stderr
    example = tmp_path / "example.toml"
    assert command("init", example).returncode == 0
    assert 'group = "streamk-events-label"' in example.read_text()
