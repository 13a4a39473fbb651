"""Savepoints of partition models: kept in a file while daemons run, and gone back to, all or none."""

import time
from contextlib import closing

from kafka.admin import NewPartitions

from connectors.kafka.client import member_name
from connectors.kafka.producer import TransactionalWriter
from connectors.state.disk import CheckpointStore
from connectors.state.positions import metadata_of
from tests.processes import Command
from tests.processes import run as command

from .partition_models import alone, kafka, learned, partition, progress, reading, run_to, settings, topics
from .stand import events
from .test_partition_models import group, offsets
from .test_topics import remake

SENT = events(900)


def send(stand, begin, end):
    stand.send(SENT[begin:end], lambda i: (begin + i) % 2)


def saved_at(stand, path, count):
    """Learn so many events, and keep a savepoint while the daemon runs."""
    send(stand, 0, count)
    with reading(stand) as newest:
        daemon = stand.start(path)
        daemon.until(lambda: learned(newest, 2) == count)
        done = command("checkpoints", "save", path, "before")
        assert done.returncode == 0, done.stderr
        assert (stand.directory / "daemon-checkpoints" / "before.savepoint").exists()
        refused = command("checkpoints", "rollback", path, "before")
        assert refused.returncode == 4  # the directory is locked
        assert daemon.stop() == 0


def rollback(path, *options):
    return command("checkpoints", "rollback", path, "before", *options)


def test_events_since_a_savepoint_are_learned_again(stand):
    """Silently, and the models are those of an undisturbed run."""
    topics(stand, 2)
    path = settings(stand)
    saved_at(stand, path, 300)
    send(stand, 300, 600)
    run_to(stand, 600, 2, path)
    done = rollback(path)
    assert (done.returncode, done.stdout) == (0, "the newest snapshots now hold the models of before\n")
    with reading(stand) as newest:
        assert {p: progress(s).position for p, s in newest(2).items()} == {0: 150, 1: 150}
    send(stand, 600, 900)
    models = run_to(stand, 900, 2, path)
    for p in range(2):
        assert models[p].parts["model"] == alone(SENT[p::2])
        assert offsets(stand, p) == list(range(450))
    assert rollback(path).returncode == 0  # as often as wanted
    models = run_to(stand, 900, 2, path)
    assert models[0].parts["model"] == alone(SENT[0::2])


def test_events_since_a_savepoint_are_skipped(stand):
    topics(stand, 2)
    path = settings(stand)
    saved_at(stand, path, 300)
    send(stand, 300, 600)
    run_to(stand, 600, 2, path)
    assert rollback(path, "--skip").returncode == 0
    with reading(stand) as newest:
        assert {p: progress(s).position for p, s in newest(2).items()} == {0: 300, 1: 300}
        assert newest(2)[0].parts["model"] == alone(SENT[0:300:2])
    send(stand, 600, 900)
    models = run_to(stand, 900, 2, path)
    for p in range(2):
        assert models[p].parts["model"] == alone(SENT[p:300:2] + SENT[600 + p :: 2])
        assert offsets(stand, p) == list(range(450))


def test_what_cannot_be_gone_back_to_is_named(stand):
    topics(stand, 2)
    path = settings(stand)
    done = command("checkpoints", "save", path, "early")
    assert done.returncode == 2
    assert f"no snapshot of {partition(stand, 0)}, {partition(stand, 1)}" in done.stderr
    saved_at(stand, path, 300)
    other = settings(stand, "other")
    done = command("checkpoints", "rollback", other, "before")
    assert (done.returncode, "there is no savepoint 'before'" in done.stderr) == (2, True)
    elsewhere = settings(stand, "daemon", source__group=f"{stand.name}-2")
    assert "belongs to the group" in rollback(elsewhere).stderr
    changed = settings(stand, "daemon", events__ignore=["id", "f00"])
    done = rollback(changed)
    assert done.returncode == 4
    assert "was trained with events.ignore = ['id'], and the settings have" in done.stderr
    path = settings(stand)
    daemon = stand.start(settings(stand, "member"))
    daemon.until(daemon.begun)
    done = rollback(path)
    assert (done.returncode, "members are in the group" in done.stderr) == (2, True)
    assert daemon.stop() == 0
    with stand.admin() as admin:
        admin.create_partitions({stand.topic("in"): NewPartitions(3)})
    stand.send(SENT[300:400], 2)
    run_to(stand, 400, 3, path)
    done = rollback(path)
    assert done.returncode == 0
    assert f"{partition(stand, 2)} stays as it is: before does not hold it" in done.stdout
    run_to(stand, 400, 3, path)
    remake(stand, "in")
    done = rollback(path)
    assert done.returncode == 7
    assert f"{partition(stand, 0)}: its topic was deleted and recreated after the savepoint" in done.stderr
    assert rollback(path, "--skip").returncode == 0


def test_a_killed_rollback_is_whole_or_not_there(stand):
    """Both partitions and their positions go back, or none; the next attempt ends it."""
    topics(stand, 2)
    path = settings(stand)
    saved_at(stand, path, 300)
    send(stand, 300, 600)
    run_to(stand, 600, 2, path)
    started = time.monotonic()
    assert rollback(path).returncode == 0
    seconds, steps = time.monotonic() - started, 10
    for step in range(steps):
        run_to(stand, 600, 2, path)
        attempt = Command("checkpoints", "rollback", path, "before")
        time.sleep(seconds * (0.3 + 0.8 * step / steps))
        attempt.kill()
        attempt.wait()
        assert state(stand) in ((300, 300), (150, 150))
    assert rollback(path).returncode == 0
    assert state(stand) == (150, 150)
    models = run_to(stand, 600, 2, path)
    for p in range(2):
        assert models[p].parts["model"] == alone(SENT[p:600:2])
        assert offsets(stand, p) == list(range(300))


def state(stand):
    """Return up to where both models go and how much they have learned, as the group has it, too."""
    model = CheckpointStore(stand.directory / "daemon-checkpoints").identity()
    with closing(TransactionalWriter(kafka(stand), member_name(model), "test")):
        pass  # what the killed command has left open is aborted
    with reading(stand) as newest, group(stand) as positions:
        snapshots = newest(2)
        until = [metadata_of(positions.committed(partition(stand, p))).owners[-1].until for p in range(2)]
    found = [(progress(snapshots[p]).position, snapshots[p].learner().events) for p in range(2)]
    assert until == [at for at, _ in found]
    (one,) = set(found)
    return one
