"""Checkpoints at an address: a store without locks and renames, which may fail or take a number twice."""

import json
import random
import sys
import time

import fsspec
import pytest

from connectors.contract.errors import AWAY, CHECKPOINT, USAGE, Failure
from connectors.daemon.run import LiveSettings, _Daemon
from connectors.daemon.telemetry import Telemetry
from connectors.formats.addresses import RemotePath
from connectors.serving.service import learning
from connectors.settings.file import load
from connectors.settings.tables import Checkpoints, Settings
from connectors.state.disk import CheckpointStore
from tests.kafka.stand import events
from tests.processes import run

from .test_checkpoint import checkpoint, fill
from .test_run import fails, learner_of, settings, write

ADDRESS = "memory://bucket/prefix"


@pytest.fixture(autouse=True)
def memory():
    system = fsspec.filesystem("memory")
    yield system
    system.store.clear()


def store(**options):
    return CheckpointStore(RemotePath.of(ADDRESS), **options)


def numbers(some):
    return [int(path.stem) for path in some.paths()]


def test_checkpoints_are_written_read_and_thinned():
    with store(keep=2).locked() as held:
        assert held.newest() is None
        for n in range(4):
            size = held.write(checkpoint(10 + n))
            held.prune()
        assert numbers(held) == [3, 4]
        assert held.paths()[-1].stat().st_size == size
        assert held.newest().learner().events == 13
    assert store().identity() == held.model
    with store().locked() as again:
        assert again.model == held.model


def test_the_last_of_hours_and_days_stay(memory, monkeypatch):
    with store(keep=2, hours=2).locked() as held:
        fill(held, 5)
        base = fsspec.filesystem("memory").modified(held.paths()[0].address)
        hours = {f"{n:010d}.checkpoint": hour for n, hour in ((1, 0), (2, 1), (3, 1), (4, 2), (5, 2))}
        moved = lambda self, place: base.replace(hour=hours[place.rpartition("/")[2]])  # noqa: E731
        monkeypatch.setattr(type(memory), "modified", moved)
        held.prune()
        assert numbers(held) == [3, 4, 5]


@pytest.mark.parametrize("cut", [0, 1, 100, -1])
def test_a_checkpoint_that_was_cut_short_is_set_aside(memory, cut):
    with store().locked() as held:
        fill(held, 2)
        place = held.paths()[-1].address
        memory.pipe_file(place, memory.cat_file(place)[:cut])
        assert held.newest().number == 1
        assert memory.exists(f"{place}.damaged")
        assert not memory.exists(place)
    with store().locked() as again:
        again.write(checkpoint())
        assert numbers(again) == [1, 3]


def test_of_two_processes_the_one_whose_number_is_taken_ends():
    with store().locked() as first, store().locked() as second:
        assert first.model == second.model
        first.write(checkpoint(10))
        with pytest.raises(Failure, match="another process writes the checkpoints in memory://") as failure:
            second.write(checkpoint(11))
        assert failure.value.code == CHECKPOINT
        first.write(checkpoint(12))
        assert [path.read_bytes() for path in first.paths()] == [p.read_bytes() for p in second.paths()]
        assert numbers(first) == [1, 2]
        assert first.newest().learner().events == 12


def test_a_number_that_another_process_has_removed_is_not_free():
    with store(keep=2).locked() as first, store().locked() as second:
        fill(first, 4)
        first.prune()
        with pytest.raises(Failure, match="another process"):
            second.write(checkpoint(11))
        assert numbers(first) == [3, 4]


def test_a_process_that_reads_a_newer_checkpoint_of_another_one_cannot_write():
    with store().locked() as first, store().locked() as second:
        first.write(checkpoint(10))
        assert second.newest().number == 1
        with pytest.raises(Failure, match="another process"):
            second.write(checkpoint(11))


@pytest.mark.parametrize("there", [True, False])
def test_a_store_without_conditional_writes_names_the_other_process(memory, monkeypatch, there):
    """A store may ignore the mode of a write, and a repeated request finds its own object."""
    plain = type(memory).pipe_file
    monkeypatch.setattr(
        type(memory), "pipe_file", lambda self, place, value, mode="": plain(self, place, value)
    )
    with store().locked() as first, store().locked() as second:
        first.write(checkpoint(10))
        if there:
            with pytest.raises(Failure, match="another process"):
                second.write(checkpoint(11))
        else:
            first.paths()[0].create(first.paths()[0].read_bytes())


@pytest.mark.parametrize(
    ("method", "what"),
    [("pipe_file", "written"), ("ls", "listed"), ("cat_file", "cannot be read"), ("rm_file", "removed")],
)
def test_a_dead_store_is_a_failure_of_one_sentence(memory, monkeypatch, method, what):
    class StoreError(Exception):
        """What libraries of stores raise: no OSError."""

    def die(*arguments, **named):
        raise StoreError("no answer from https://key@host/bucket?signature=1\nin 60 s")

    with store(keep=2).locked() as held:
        fill(held, 3)
        before = dict(memory.store)
        monkeypatch.setattr(type(memory), method, die)
        step = held.prune if method == "rm_file" else held.newest if method != "pipe_file" else None
        with pytest.raises(Failure, match=what) as failure:
            held.write(checkpoint()) if step is None else step()
        assert failure.value.code == AWAY
        assert "no answer from https://host/bucket" in str(failure.value)
        assert "key" not in str(failure.value)
        assert "\n" not in str(failure.value)
        assert memory.store == before


def test_settings_name_an_address():
    assert Checkpoints(directory="memory://b/p/").directory == RemotePath("memory://b/p")
    for address, why in (("nothing://b", "Protocol not known"), (7, "must be a path, or an address")):
        with pytest.raises(ValueError, match=why):
            Checkpoints(directory=address)
    assert str(RemotePath.of("memory://me:word@host/p?key=1")) == "memory://host/p"


def test_without_the_library_an_address_is_a_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(ValueError, match=r"memory://b: pip install 'streamk\[remote\]' to use addresses"):
        Checkpoints(directory="memory://b")


def test_a_service_needs_a_directory_of_this_machine(stand, memory):
    path = settings(stand, checkpoints__directory=ADDRESS)
    with (
        pytest.raises(Failure, match="is an address, and a log of requests grows") as failure,
        learning(load(path), None),
    ):
        pass
    assert failure.value.code == USAGE
    assert not memory.store


# ---- whole processes


def local(stand):
    return f"file://{stand.directory}/remote/prefix"


def newest(address):
    found = CheckpointStore(RemotePath.of(address))
    return found.newest(aside=False)


def test_a_daemon_saves_rolls_back_resets_and_lists(stand):
    log, sent, address = stand.directory / "log.jsonl", events(900), local(stand)
    path = settings(stand, checkpoints__directory=address, checkpoints__keep=9, checkpoints__seconds=100.0)
    log.touch()
    assert f"{address} holds none yet" in run("check", path).stdout
    for n in (300, 600):
        write(log, sent[n - 300 : n])
        done = run("run", path)
        assert done.returncode == 0, done.stderr
        if n == 300:
            assert "kept checkpoint" in run("checkpoints", "save", address, "before").stdout
            assert "is there already" in run("checkpoints", "save", address, "before").stderr
    listed = run("checkpoints", "list", address)
    assert "savepoint before" in listed.stdout, listed.stderr
    assert [c["events"] for c in json.loads(run("checkpoints", "list", address, "--json").stdout)] == [
        0,
        300,
        600,
    ]
    assert "has learned 600 events" in run("check", path).stdout
    assert run("checkpoints", "rollback", address, "before").returncode == 0
    write(log, sent[600:])
    assert run("run", path).returncode == 0
    assert newest(address).learner().to_bytes() == learner_of(sent).to_bytes()
    assert len((stand.directory / "out.jsonl").read_text().splitlines()) == 900
    assert "events: 900" in run("checkpoints", "show", address).stdout
    done = run("reset", path, "--to", "earliest")
    assert done.returncode == 0, done.stderr
    assert {p.position for p in newest(address).partitions.values()} == {0}
    assert "no savepoint 'nothing'" in run("checkpoints", "rollback", address, "nothing").stderr
    assert run("checkpoints", "list", "nothing://b").returncode == 2


def test_of_two_daemons_one_ends_with_a_sentence(stand):
    log = stand.directory / "log.jsonl"
    write(log, events(10))
    outputs = {"predictions": None, "dead_letters": None}
    path = settings(stand, source__follow=True, checkpoints__directory=local(stand), **outputs)
    both = [stand.start(path), stand.start(path)]
    both[0].until(lambda: both[0].text().count("reading from") == 2)
    write(log, events(20)[10:])
    while all(daemon.process.poll() is None for daemon in both):
        time.sleep(0.05)
    ended, other = sorted(both, key=lambda daemon: daemon.process.poll() is None)
    assert ended.wait() == 4
    assert "another process writes the checkpoints" in ended.text()
    other.until(lambda: newest(local(stand)).learner().events == 20)
    assert other.stop() == 0


def test_a_store_that_cannot_be_written_ends_the_daemon_with_a_sentence(stand):
    write(stand.directory / "log.jsonl", events(10))
    (stand.directory / "remote").write_text("no directory")
    fails(stand, settings(stand, checkpoints__directory=local(stand)), 4, "checkpoints in file://")


@pytest.mark.parametrize(("kind", "code"), [(PermissionError, CHECKPOINT), (TimeoutError, AWAY)])
def test_access_that_is_denied_needs_a_person_and_a_time_out_does_not(memory, monkeypatch, kind, code):
    def die(*arguments, **named):
        raise kind("no")

    monkeypatch.setattr(type(memory), "ls", die)
    with pytest.raises(Failure, match="cannot be listed: no") as failure, store().locked():
        pass
    assert failure.value.code == code


def test_events_that_wait_for_labels_stay_in_memory(tmp_path):
    section = {"source": {"kind": "file", "path": "log"}, "events": {"target": "y"}}
    for directory, on_disk in ((ADDRESS, False), (str(tmp_path), True)):
        values = Settings.model_validate({**section, "checkpoints": {"directory": directory}})
        held = CheckpointStore(values.checkpoints.directory)
        daemon = _Daemon(LiveSettings(values, lambda: None), held, Telemetry(classes=True))
        assert (daemon._aside is not None) == on_disk


def test_killed_daemons_learn_every_event_once(stand):
    """A kill in the midst of a write leaves an object that is cut short here: a file is not written whole."""
    log, sent, rng = stand.directory / "log.jsonl", events(4000), random.Random(5)
    path = settings(
        stand, source__follow=True, checkpoints__directory=local(stand), checkpoints__events=100,
        checkpoints__seconds=0.05, learner__parameters={"features": 2048},
    )  # fmt: skip
    log.touch()
    for kill in range(8):
        write(log, sent[kill * 500 : (kill + 1) * 500])
        daemon = stand.start(path)
        goal = kill * 500 + rng.randrange(500)
        daemon.until(lambda goal=goal: (c := newest(local(stand))) and c.learner().events >= goal)
        daemon.kill()
        if kill % 2:
            last = CheckpointStore(RemotePath.of(local(stand))).paths()[-1]
            whole = last.read_bytes()
            last.unlink()
            last.create(whole[: rng.randrange(len(whole))])
    assert (
        run(
            "run",
            settings(stand, checkpoints__directory=local(stand), learner__parameters={"features": 2048}),
        ).returncode
        == 0
    )
    out = [json.loads(line)["offset"] for line in (stand.directory / "out.jsonl").read_text().splitlines()]
    assert len(out) == 4000
    assert out == sorted(set(out))
    assert newest(local(stand)).learner().events == 4000
