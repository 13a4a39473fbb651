"""The daemon on logs on disk, as real processes: how it ends, what it says, what it leaves behind."""

import gc
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import weakref
from types import SimpleNamespace

import pytest

import streamk
from connectors.cli import run as run_cli
from connectors.contract.errors import EXIT_CODES, BrokerUnavailable, Failure, Interruption
from connectors.daemon import run as daemon
from connectors.daemon.run import LiveSettings, changed_keys
from connectors.daemon.telemetry import Telemetry
from connectors.settings.file import load
from connectors.settings.tables import Settings
from connectors.state.disk import CheckpointStore
from tests.kafka.stand import events, newest
from tests.processes import ROOT, run


def write(path, sent):
    with path.open("a") as file:
        file.writelines(x if isinstance(x, str) else json.dumps(x) + "\n" for x in sent)


def settings(stand, **changes):
    base = {
        "source": {"kind": "file", "path": stand.directory / "log.jsonl"},
        "predictions": {"kind": "file", "path": stand.directory / "out.jsonl"},
        "dead_letters": {"kind": "file", "path": stand.directory / "dead.jsonl"},
    }
    return stand.settings(**{**base, **changes})


def learner_of(sent):
    learner = streamk.KaczmarzClassifier(features=64, seed=0)
    for x in sent:
        learner.learn_one({k: v for k, v in x.items() if k not in ("id", "y")}, x["y"])
    return learner


def directory(stand):
    return stand.directory / "daemon-checkpoints"


def test_learns_a_log_to_its_end(stand):
    sent = events(3000)
    write(stand.directory / "log.jsonl", [*sent[:100], "bad\n", *sent[100:]])
    assert run("run", settings(stand)).returncode == 0
    assert newest(directory(stand)).learner().to_bytes() == learner_of(sent).to_bytes()
    out = [json.loads(line) for line in (stand.directory / "out.jsonl").read_text().splitlines()]
    assert [f["target"] for f in out] == [x["y"] for x in sent]
    dead = json.loads((stand.directory / "dead.jsonl").read_text())
    assert "cannot be decoded" in dead["reason"]
    assert streamk.load(CheckpointStore(directory(stand)).paths()[-1]).events == 3000
    done = run("run", settings(stand))  # nothing is left to do
    assert done.returncode == 0
    assert len((stand.directory / "out.jsonl").read_text().splitlines()) == 3000


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_a_signal_ends_it_after_a_checkpoint(stand, number):
    log = stand.directory / "log.jsonl"
    write(log, events(1000))
    path = settings(stand, source__follow=True, checkpoints__seconds=100.0)
    process = stand.start(path)
    out = stand.directory / "out.jsonl"
    process.until(lambda: out.exists() and out.read_bytes().count(b"\n") == 1000)
    assert process.stop(number) == 0  # within 30 seconds, long before a checkpoint would be due
    assert newest(directory(stand)).learner().events == 1000
    assert f"{number.name}: finishing" in process.text()


def following(stand, sent=1000, **changes):
    """Return a daemon that has learned so many events and waits for more, without a checkpoint of them."""
    write(stand.directory / "log.jsonl", events(sent))
    changes = {
        "source__follow": True,
        "checkpoints__seconds": 1000.0,
        "checkpoints__events": 10**6,
        **changes,
    }
    process = stand.start(settings(stand, **changes))
    process.until(lambda: predicted(stand) == sent)
    return process, changes


def predicted(stand):
    out = stand.directory / "out.jsonl"
    return out.read_bytes().count(b"\n") if out.exists() else 0


def test_sigusr1_writes_a_checkpoint_at_once(stand):
    process, _ = following(stand)
    assert newest(directory(stand)).learner().events == 0
    for count in (1000, 1010):
        process.process.send_signal(signal.SIGUSR1)
        process.until(lambda n=count: newest(directory(stand)).learner().events == n)
        process.until(lambda n=count: process.text().count("SIGUSR1: wrote a checkpoint") == (n > 1000) + 1)
        write(stand.directory / "log.jsonl", events(10))
        process.until(lambda n=count: predicted(stand) == n + 10)
    process.kill()
    assert newest(directory(stand)).learner().events == 1010


def test_sigusr2_is_ignored(stand):
    process, _ = following(stand)
    process.process.send_signal(signal.SIGUSR2)
    process.until(lambda: "SIGUSR2 is ignored; SIGUSR1 writes a checkpoint" in process.text())
    write(stand.directory / "log.jsonl", events(10))
    process.until(lambda: predicted(stand) == 1010)
    assert process.stop() == 0


def reload(process, *parts):
    """Ask for a reload, and wait for a line of the log that has these parts."""
    before = len(process.text())
    process.process.send_signal(signal.SIGHUP)
    process.until(lambda: any(all(p in line for p in parts) for line in process.text()[before:].splitlines()))
    return process.text()[before:]


def test_sighup_reloads_what_may_change(stand):
    process, changes = following(stand, checkpoints__keep=2)
    assert newest(directory(stand)).learner().events == 0
    settings(stand, **changes, limits={"names": 5}, log={"level": "debug"})
    log = reload(process, " info ", "SIGHUP: changed limits.names, log.level")
    assert "restart" not in log
    write(stand.directory / "log.jsonl", [{"new": 1.0, "y": True}, {"f00": 1.0, "y": True}])
    changes |= {"checkpoints__events": 1, "checkpoints__keep": 4}
    settings(stand, **changes, limits={"names": 5}, log={"level": "debug"})
    reload(process, "SIGHUP: changed checkpoints.events, checkpoints.keep")
    for count in (1006, 1011, 1016, 1021):
        write(stand.directory / "log.jsonl", events(5))
        process.until(lambda n=count: newest(directory(stand)).learner().events == n)
    process.until(lambda: len(CheckpointStore(directory(stand)).paths()) == 4)
    (letter,) = map(json.loads, (stand.directory / "dead.jsonl").read_text().splitlines())
    assert "1 names of numbers are new" in letter["reason"]
    assert "limits.names" in letter["reason"]
    assert "no setting has changed" in reload(process, "SIGHUP: no setting")
    assert process.stop() == 0


def test_sighup_names_what_needs_a_restart(stand):
    process, changes = following(stand)
    changes["predictions__path"] = stand.directory / "other.jsonl"
    changes["events__ignore"] = ["id", "f01"]
    settings(stand, **changes, telemetry={"port": 1}, dead_letters=None, limits={"labels": 7})
    log = reload(process, " warning ", "SIGHUP: restart the daemon to change")
    (line,) = [line for line in log.splitlines() if "restart" in line]
    assert line.endswith(
        "change events.ignore, predictions.path, [dead_letters], telemetry.port; the old values stay"
    )
    assert "SIGHUP: changed limits.labels\n" in log
    write(stand.directory / "log.jsonl", [*events(10), "bad\n"])
    process.until(lambda: predicted(stand) == 1010)
    process.until(lambda: (stand.directory / "dead.jsonl").read_text().count("\n") == 1)
    assert not (stand.directory / "other.jsonl").exists()
    assert process.stop() == 0
    assert newest(directory(stand)).learner().events == 1010


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[limits", "not valid TOML"),
        (None, "No such file"),
        ("[limits]\nratio = 7\nlabel = 3\n", "limits.ratio: Input should be less than or equal to 1; "),
    ],
)
def test_sighup_with_a_broken_file_is_a_line_of_the_log(stand, text, reason):
    process, changes = following(stand)
    path = settings(stand, **changes)
    good = path.read_text()
    if text is None:
        path.unlink()
    else:
        path.write_text(text if "\n" not in text else good + text)
    log = reload(process, " error ", "SIGHUP: ", reason, "; the settings stay as they were")
    assert log.count("\n") == 1
    write(stand.directory / "log.jsonl", events(10))
    process.until(lambda: predicted(stand) == 1010)
    path.write_text(good + "[limits]\nlabels = 7\n")
    reload(process, "SIGHUP: changed limits.labels")
    assert process.stop() == 0


def test_sighup_keeps_the_values_of_variables(stand):
    write(stand.directory / "log.jsonl", events(1000))
    path = settings(stand, source__follow=True)
    process = stand.start(path, {"STREAMK_LIMITS__LABELS": "5"})
    process.until(lambda: predicted(stand) == 1000)
    settings(stand, source__follow=True, limits={"labels": 7, "names": 70})
    log = reload(process, "SIGHUP: changed limits.names")
    assert "limits.labels" not in log
    assert process.stop() == 0


def test_sighup_keeps_the_options_of_the_command(stand, monkeypatch, caplog):
    taken = []
    monkeypatch.setattr(run_cli, "run", taken.append)
    monkeypatch.setattr(run_cli, "load_and_log", load)
    monkeypatch.setattr(logging.getLogger("connectors"), "propagate", True)
    monkeypatch.setattr(logging.getLogger("connectors"), "handlers", [])
    caplog.set_level(logging.INFO, "connectors")
    topic = {"kind": "topic", "topic": "in", "group": "g"}
    run_cli.run_command(settings(stand, source=topic), blank=True)
    (live,) = taken
    assert live.current.source.blank
    live.reload(lambda found: None)
    assert caplog.messages == [
        "seed 0; learner.parameters.seed changes it", "SIGHUP: no setting has changed",
    ]  # fmt: skip


def test_what_is_applied_on_sighup(stand):
    """Each part of the daemon has the new values, and a table that comes or goes is named."""
    path = settings(stand)
    live, found = LiveSettings(load(path, {}), lambda: load(path, {})), []
    telemetry, store = Telemetry(), CheckpointStore(stand.directory / "c")
    running = daemon._Daemon(live, store, telemetry)
    limit, requests = running._limit, running.requests
    settings(
        stand, limits={"restarts": 3}, telemetry={"window": 50, "stall_seconds": 7.0}, checkpoints__keep=9,
        checkpoints__seconds=5.0,
    )  # fmt: skip
    session = SimpleNamespace(adjust=lambda *parts: found.append(parts))
    running._reload(session)
    assert (found, store.keep) == ([], 3)  # no signal came
    requests.reload = True
    running._reload(session)
    assert not requests.reload
    assert (store.keep, limit.restarts) == (9, 3)
    assert (telemetry._losses.window, telemetry._stall) == (50, 7.0)
    assert found == [(live.current.checkpoints, live.current.limits)]
    assert live.current == load(path, {})
    before = live.current
    settings(stand, dead_letters=None, checkpoints__directory="elsewhere")
    requests.reload = True
    running._reload()
    assert changed_keys(live.current, load(path, {})) == [("dead_letters", ""), ("checkpoints", "directory")]
    assert live.current.checkpoints.directory == before.checkpoints.directory


def test_a_failure_is_in_the_form_of_the_log_that_was_set_last(stand):
    process, changes = following(stand, dead_letters=None)
    settings(stand, **changes, log={"form": "json"})
    reload(process, '"level": "info"', "SIGHUP: changed log.form")
    write(stand.directory / "log.jsonl", ["bad\n"])
    assert process.wait(30) == 3
    assert json.loads(process.text().splitlines()[-1])["exit_code"] == 3


def test_failures_are_lines_of_a_json_log_too(stand):
    write(stand.directory / "log.jsonl", [*events(10), "bad\n"])
    done = run("run", settings(stand, dead_letters=None, log={"form": "json"}))
    assert done.returncode == 3
    last = [json.loads(line) for line in done.stderr.splitlines()][-1]
    assert (last["level"], last["exit_code"]) == ("error", 3)
    assert "cannot be decoded" in last["message"]


def test_a_variable_that_is_no_setting_is_a_line_of_the_log(stand):
    write(stand.directory / "log.jsonl", events(10))
    path = settings(stand, log={"form": "json", "level": "warning"})
    variables = {"STREAMK_IMAGE_TAG": "secret", "STREAMK_TELEMETRY_PORT": "secret"}
    done = run("run", path, env={**os.environ, **variables})
    assert done.returncode == 0
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [(line["level"], line["message"].partition(":")[0]) for line in lines] == [
        ("warning", "STREAMK_IMAGE_TAG"),
        ("warning", "STREAMK_TELEMETRY_PORT"),
    ]
    assert "secret" not in done.stderr
    wrong = settings(stand, log={"form": "xml"})
    done = run("check", wrong, env={**os.environ, **variables})
    assert done.returncode == 2
    warnings = [line for line in done.stderr.splitlines() if " warning STREAMK_" in line]
    assert (len(warnings), "log.form: Input should be" in done.stderr) == (2, True)


def test_the_level_of_the_log(stand):
    write(stand.directory / "log.jsonl", events(10))
    for level, lines in (("info", True), ("error", False)):
        done = run("run", settings(stand, log={"level": level}))
        assert (done.returncode, " info " in done.stderr) == (0, lines)


def test_a_password_in_an_address_is_in_no_output(stand):
    write(stand.directory / "log.jsonl", events(10))
    path = settings(stand, kafka={"servers": ["reader:hunter2@broker:9092"]})
    for command in (["check", path], ["run", path], ["reset", path, "--to", "latest"]):
        done = run(*command)
        assert done.returncode == 2
        (line,) = done.stderr.splitlines()
        assert "kafka.servers: an address holds a user name or a password" in line
        assert "hunter2" not in done.stdout + done.stderr


def test_a_model_rolled_back(stand):
    log = stand.directory / "log.jsonl"
    path = settings(stand, checkpoints__keep=10, checkpoints__seconds=100.0)
    sent = events(900)
    for n in (300, 600):
        write(log, sent[n - 300 : n])
        assert run("run", path).returncode == 0
    listed = json.loads(run("checkpoints", "list", directory(stand), "--json").stdout)
    assert [c["events"] for c in listed] == [0, 300, 600]
    back = listed[1]["number"]
    assert f"the model of checkpoint {back}" in run("checkpoints", "rollback", directory(stand), back).stdout
    assert newest(directory(stand)).learner().events == 300
    write(log, sent[600:])
    assert run("run", path).returncode == 0
    assert newest(directory(stand)).learner().to_bytes() == learner_of(sent).to_bytes()
    assert len((stand.directory / "out.jsonl").read_text().splitlines()) == 900
    shown = run("checkpoints", "show", directory(stand))
    assert "events: 900" in shown.stdout
    assert "log.jsonl" in shown.stdout


def test_a_rollback_that_skips(stand):
    log = stand.directory / "log.jsonl"
    path = settings(stand, checkpoints__keep=10, checkpoints__seconds=100.0)
    sent = events(900)
    for n in (300, 600):
        write(log, sent[n - 300 : n])
        assert run("run", path).returncode == 0
    listed = json.loads(run("checkpoints", "list", directory(stand), "--json").stdout)
    assert run("checkpoints", "rollback", directory(stand), listed[1]["number"], "--skip").returncode == 0
    write(log, sent[600:])
    assert run("run", path).returncode == 0
    expected = learner_of([*sent[:300], *sent[600:]])
    assert newest(directory(stand)).learner().to_bytes() == expected.to_bytes()


def fails(stand, path, code, message):
    done = run("run", path)
    assert done.returncode == code, done.stderr
    assert code in EXIT_CODES
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_ways_to_fail(stand):
    log = stand.directory / "log.jsonl"
    write(log, events(200))
    fails(stand, settings(stand, source__path=stand.directory / "nothing"), 2, "nothing: No such file")
    fails(
        stand,
        settings(stand, checkpoints__directory=str(log / "sub")),
        4,
        "cannot be opened: Not a directory",
    )
    fails(stand, settings(stand, predictions__path=stand.directory / "no" / "out"), 8, "No such file")
    fails(stand, settings(stand, predictions__path="/dev/null"), 8, "/dev/null is not a regular file")
    assert run("run", settings(stand)).returncode == 0
    fails(
        stand, settings(stand, learner={"name": "kaczmarz-pursuit"}), 4, "ask for a KaczmarzPursuitClassifier"
    )
    whole = log.read_text()
    log.write_text("x" + whole[1:])
    fails(stand, settings(stand), 7, "is another log than the one of the checkpoint")
    log.write_text(whole[:5000])
    fails(stand, settings(stand), 7, "fewer than the")
    for path in CheckpointStore(directory(stand)).paths():
        path.write_bytes(path.read_bytes()[:-1])
    for _ in range(2):
        fails(stand, settings(stand), 4, "can be used; put a copy back")


def limited(path):
    shell = f"ulimit -f 4; exec {sys.executable} -m connectors.cli run {path}"
    return subprocess.run(["bash", "-c", shell], capture_output=True, text=True, cwd=ROOT, timeout=60)


def test_a_full_disk(stand):
    """A file that may not grow stands for it. The checkpoint before is intact, and a run goes on from it."""
    write(stand.directory / "log.jsonl", events(500))
    path = settings(stand, learner__parameters={"features": 2048}, predictions=None, dead_letters=None)
    assert run("run", path).returncode == 0
    write(stand.directory / "log.jsonl", events(500))
    before = newest(directory(stand)).number
    done = limited(path)
    assert done.returncode == 4, done.stderr
    assert "cannot be written: File too large; those there are intact" in done.stderr
    assert newest(directory(stand)).number == before
    assert not list(directory(stand).glob(".*.checkpoint.*"))
    assert run("run", path).returncode == 0
    assert newest(directory(stand)).learner().events == 1000


def test_a_full_disk_for_predictions(stand):
    write(stand.directory / "log.jsonl", events(500))
    path = settings(stand)
    done = limited(path)
    assert done.returncode == 8, done.stderr
    assert "out.jsonl cannot be written: File too large; the checkpoint is intact" in done.stderr
    assert newest(directory(stand)).learner().events == 0
    assert run("run", path).returncode == 0
    offsets = [
        json.loads(line)["offset"] for line in (stand.directory / "out.jsonl").read_text().splitlines()
    ]
    assert len(offsets) == len(set(offsets)) == 500


def test_how_long_brokers_may_be_absent(monkeypatch, tmp_path):
    """The time counts from the interruption, however long the session before lasted."""

    class Idle:
        committed, processed = {}, 0

    clock, sessions = [0.0], []
    monkeypatch.setattr(daemon.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(
        threading.Event, "wait", lambda event, seconds: clock.__setitem__(0, clock[0] + seconds)
    )

    def session(self):
        lasts, opens = sessions.pop(0)
        with self._limit.applied():
            if opens:
                self._limit.follow(Idle())
            clock[0] += lasts
            raise BrokerUnavailable("gone")

    monkeypatch.setattr(daemon._Daemon, "_run_session", session)
    read = {
        "source": {"kind": "file", "path": "log"},
        "events": {"target": "y"},
        "kafka": {"away_seconds": 100.0},
    }
    chosen = Settings.model_validate(read)
    telemetry = Telemetry()
    hour = (3600.0, True)
    away = (20.0, False)
    sessions[:] = [hour, away, hour, away, away, (50.0, False), (50.0, False)]
    with pytest.raises(Failure, match="gone; it has been so for 1") as raised:
        daemon._Daemon(LiveSettings(chosen, None), CheckpointStore(tmp_path), telemetry).run()
    assert raised.value.code == 5
    assert not sessions


def test_sessions_that_end_leave_nothing_behind(monkeypatch, tmp_path):
    """Clients refer to themselves; and what has settled is not looked at by collections."""
    left, alive = [], []

    class Client:
        def __init__(self):
            self.itself = self

    def session(self):
        alive.append(sum(client() is not None for client in left))
        client = Client()
        left.append(weakref.ref(client))
        gc.freeze()
        if len(left) == 5:
            self.requests.stop.set()
        raise Interruption("again")

    monkeypatch.setattr(daemon._Daemon, "_run_session", session)
    monkeypatch.setattr(threading.Event, "wait", lambda event, seconds: None)
    monkeypatch.setattr(daemon, "_LONGEST_PAUSE", 0.01)
    chosen = Settings.model_validate({"source": {"kind": "file", "path": "log"}, "events": {"target": "y"}})
    try:
        daemon._Daemon(LiveSettings(chosen, None), CheckpointStore(tmp_path), Telemetry()).run()
    finally:
        gc.unfreeze()
    assert alive == [0] * 5


def test_two_daemons_in_one_directory(stand):
    log = stand.directory / "log.jsonl"
    write(log, events(10))
    path = settings(stand, source__follow=True)
    process = stand.start(path)
    process.until(lambda: newest(directory(stand)) is not None)
    fails(stand, path, 4, "another process uses the checkpoints")
    assert process.stop() == 0


def test_init_and_check(tmp_path):
    path = tmp_path / "streamk.toml"
    done = run("init", path)
    assert done.returncode == 0
    assert f"streamk check {path}" in done.stdout
    assert run("init", path).returncode == 2
    log = tmp_path / "log.jsonl"
    write(log, events(10))
    environment = {
        "STREAMK_SOURCE__KIND": "file",
        "STREAMK_SOURCE__PATH": str(log),
        "STREAMK_EVENTS__TARGET": "y",
    }
    text = path.read_text().replace('topic = "events"', "")
    text = text.replace('group = "streamk-events-label"', "").replace('kind = "topic"', 'kind = "file"', 1)
    path.write_text(text)
    done = run("check", path, env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr
    assert f"source.path: {log} can be read" in done.stdout
    done = run("check", path, env={**os.environ, **environment, "STREAMK_SOURCE__PATH": "/no/such"})
    assert done.returncode == 2
    assert "/no/such: No such file" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["checkpoints", "list", "{t}"], "there are no checkpoints in"),
        (["checkpoints", "show", "{t}", "3"], "there are no checkpoints in"),
        (["checkpoints", "rollback", "{t}", "3"], "there are no checkpoints in"),
        (["run", "{t}/nothing.toml"], "streamk init writes an example"),
        (["run"], "config"),
    ],
)
def test_wrong_things(tmp_path, arguments, message):
    done = run(*(a.replace("{t}", str(tmp_path)) for a in arguments))
    assert done.returncode == 2
    assert message in done.stderr.lower() or message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_savepoint_outlives_the_checkpoints_after_it(stand):
    log = stand.directory / "log.jsonl"
    path = settings(stand, checkpoints__keep=2, checkpoints__seconds=100.0)
    sent = events(1500)
    for n in range(300, 1501, 300):
        write(log, sent[n - 300 : n])
        assert run("run", path).returncode == 0
        if n == 300:
            kept = run("checkpoints", "save", directory(stand), "before-upgrade")
            assert "kept checkpoint" in kept.stdout
    assert "savepoint before-upgrade" in run("checkpoints", "list", directory(stand)).stdout
    for name, sentence in (
        ("before-upgrade", "is there already"),
        ("a/b", "a name has letters"),
        ("12", "is no number"),
    ):
        done = run("checkpoints", "save", directory(stand), name)
        assert (done.returncode, sentence in done.stderr) == (2, True), done.stderr
    done = run("checkpoints", "rollback", directory(stand), "before")
    assert "no savepoint 'before'" in done.stderr
    assert "there are before-upgrade" in done.stderr
    assert run("checkpoints", "rollback", directory(stand), "before-upgrade").returncode == 0
    assert newest(directory(stand)).learner().events == 300
    assert run("run", path).returncode == 0
    assert newest(directory(stand)).learner().to_bytes() == learner_of(sent).to_bytes()
    assert len((stand.directory / "out.jsonl").read_text().splitlines()) == 1500


def test_a_daemon_starts_with_a_model_that_has_learned(stand):
    log, model = stand.directory / "log.jsonl", stand.directory / "trained.streamk"
    sent = events(900)
    learner_of(sent[:500]).save(model)
    write(log, sent[500:700])
    path = settings(stand, learner__start=str(model))
    assert run("run", path).returncode == 0
    assert newest(directory(stand)).learner().to_bytes() == learner_of(sent[:700]).to_bytes()
    model.unlink()  # from here on the checkpoints count
    write(log, sent[700:])
    assert run("run", path).returncode == 0
    assert newest(directory(stand)).learner().to_bytes() == learner_of(sent).to_bytes()


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda path: None, "cannot be read: No such file"),
        (lambda path: path.write_bytes(b"hello"), "cannot be used"),
        (lambda path: streamk.KaczmarzRegressor(features=64, seed=0).save(path), "holds a KaczmarzRegressor"),
        (lambda path: streamk.KaczmarzClassifier(features=32, seed=0).save(path), "features=32"),
        (lambda path: learner_of(events(50)).frozen().save(path), "does not learn; publish with --learns"),
    ],
)
def test_a_model_to_start_with_that_does_not_fit(stand, make, sentence):
    model = stand.directory / "model.streamk"
    make(model)
    write(stand.directory / "log.jsonl", events(10))
    fails(stand, settings(stand, learner__start=str(model)), 2, sentence)
