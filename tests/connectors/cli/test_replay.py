"""The command as a user types it: real processes, pipes, a terminal, Ctrl-C, wrong things."""

import contextlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from river import datasets

import streamk
from tests.processes import Command, run

from .terminal import COMMAND, shown


@pytest.fixture(scope="module")
def bananas(tmp_path_factory):
    path = tmp_path_factory.mktemp("logs") / "bananas.jsonl"
    path.write_text("\n".join(json.dumps({**x, "y": y}) for x, y in datasets.Bananas().take(3000)))
    return path


def test_lines_at_powers_of_two_and_a_summary(bananas, tmp_path):
    model = tmp_path / "m.streamk"
    chosen = "--learner", "kaczmarz", "--set", "features=64", "--set", "seed=7"
    done = run("replay", bananas, "--target", "y", "--save", model, *chosen)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split()[:4] == ["events", "accuracy", "since", "last"]
    assert lines[0].split()[-2:] == ["label", "prediction"]
    assert [int(line.split()[0].replace(",", "")) for line in lines[1:13]] == [2**i for i in range(12)]
    assert "linear model" in done.stdout
    assert f"saved to {model}: {model.stat().st_size:,} bytes" in done.stdout
    learner = streamk.load(model)
    assert (learner.features, learner.events) == (64, 3000)


def test_json(bananas):
    done = run("replay", bananas, "--target", "y", "--json", "--no-baseline", "--limit", 1000)
    assert done.returncode == 0, done.stderr
    assert "classification, since `y` has booleans" in done.stderr
    result = json.loads(done.stdout)
    accounted = {"rows", "events", "skipped", "misfits"}
    ranked = {"metric", "verdict", "recommendation", "costs"}
    assert result.keys() == {"task", "refused", "contenders", "seed", "labels", "drift"} | ranked | accounted
    assert [len(event["fields"]) > 0 for event in result["contenders"]["kernel"]["worst"]] == [True] * 10
    assert (result["metric"], result["recommendation"], result["costs"]) == ("accuracy", "", None)
    assert (result["rows"], result["skipped"], result["misfits"]) == (1000, 0, {})
    keys = {"accuracy", "kappa", "kappa_temporal", "log_loss", "auc", "events_per_second", "model_bytes"}
    keys |= {"thresholds", "worst"}
    assert keys <= result["contenders"]["kernel"].keys()
    assert result["events"] == 1000


def test_late_labels(bananas):
    done = run("replay", bananas, "--target", "y", "--delay", 5, "--limit", 500)
    assert done.stdout.startswith("labels come 5 events late\n")
    assert "500 events, labels come 5 events late" in done.stdout
    assert run("replay", bananas, "--target", "y", "--delay", "-1").returncode == 2


def test_the_same_seed_saves_the_same_bytes(bananas, tmp_path):
    """In interpreters that order sets and hash names in their own ways."""
    files = [tmp_path / "1", tmp_path / "2"]
    for path in files:
        command = [*COMMAND, "replay", bananas, "--target", "y", "--set", "seed=3", "--save", path]
        subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": path.name}, check=True)
    assert files[0].read_bytes() == files[1].read_bytes()


def test_a_pipe(bananas):
    with bananas.open() as file:
        done = run("replay", "-", "--target", "y", "--json", stdin=file)
    assert json.loads(done.stdout)["events"] == 3000


def test_a_reader_that_goes_away(bananas):
    shell = f"{' '.join(COMMAND)} replay {bananas} --target y | head -n 2"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True)
    assert len(done.stdout.splitlines()) == 2
    assert "Traceback" not in done.stderr


def test_a_terminal_gets_a_live_table(bananas):
    text, code = shown("replay", bananas, "--target", "y", columns=100)
    assert code == 0
    assert "bananas.jsonl" in text
    assert "log loss" in text
    assert "since last" not in text


def test_interrupted_in_the_middle(tmp_path):
    """Ctrl-C ends the replay between two chunks; the figures and the saved model are whole."""
    model = tmp_path / "m.streamk"
    command = "replay", "-", "--target", "y", "--save", model
    process = Command(*command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    row = json.dumps({"a": 1.5, "b": "red", "y": True})
    process.stdin.write(f"{row}\n" * 3500)
    process.stdin.flush()
    while not process.stdout.readline().strip().startswith("1,024"):
        pass
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(f"{row}\n" * 1500)
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    rest = process.stdout.read()
    process.stdout.close()
    assert process.wait() == 130
    assert "interrupted after" in rest
    assert 1000 <= streamk.load(model).events < 5000


def wait_until_idle(pid):
    """Wait until a process has used no processor time for two seconds: it waits for its input."""
    used, since = -1, time.monotonic()
    while time.monotonic() - since < 2.0:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        now = int(fields[11]) + int(fields[12])
        if now != used or now == 0:
            used, since = now, time.monotonic()
        time.sleep(0.05)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks Linux whether the process waits")
@pytest.mark.parametrize("rows", [200, 1500])
def test_interrupted_while_waiting_for_the_next_record(tmp_path, rows):
    """One Ctrl-C is enough, and every record that was read is in the figures and in the model."""
    model = tmp_path / "m.streamk"
    command = "replay", "-", "--target", "y", "--save", model, "--task", "classification"
    with Command(*command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdin.write(f"{json.dumps({'a': 1.5, 'y': True})}\n" * rows)
        process.stdin.flush()
        wait_until_idle(process.pid)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 130
        assert f"interrupted after {rows:,} events" in process.stdout.read()
    assert streamk.load(model).events == rows


def test_a_record_cut_short_loses_nothing_before_it(bananas, tmp_path):
    cut, model = tmp_path / "cut.jsonl", tmp_path / "m.streamk"
    whole = bananas.read_bytes()
    cut.write_bytes(whole[: len(whole) // 2])
    counted = run("replay", cut, "--target", "y")
    assert counted.returncode == 0
    assert "cut.jsonl, line" in counted.stdout
    done = run("replay", cut, "--target", "y", "--save", model, "--strict")
    assert done.returncode == 2
    line = len(cut.read_bytes().splitlines())
    assert f"cut.jsonl, line {line}: cannot be decoded" in done.stderr
    assert f"{line - 1:,} events" in done.stdout
    assert streamk.load(model).events == line - 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["replay", "{log}", "--target", "nothing"], "the target 'nothing' is missing; there are"),
        (["replay", "{log}.missing", "--target", "y"], "No such file"),
        (
            ["replay", "{log}", "--target", "y", "--set", "size=3"],
            "--set size=3: kernel has no such parameter; use features, label_memory",
        ),
        (["replay", "{log}", "--target", "y", "--set", "features"], "write KEY=VALUE"),
        (["replay", "{log}", "--target", "y", "--set", "features=many"], "features='many'"),
        (
            ["replay", "{log}", "--target", "y", "--learner", "kaczmarz", "--set", "loss=hinge"],
            "'squared' or 'margin'",
        ),
        (["replay", "{log}", "--target", "y", "--learner", "forest"], "use kernel, kaczmarz"),
        (["replay", "{log}", "--target", "y", "--task", "ranking"], "classification or regression"),
        (["replay", "{log}", "--target", "y", "--save", "/no/such/place/m"], "there is no directory"),
        (["replay", "{log}", "--target", "y", "--save", "/dev/null"], "this is not a file"),
        (
            ["replay", "{log}", "--target", "y", "--learner", "kaczmarz", "--set", "kernel={}"],
            "kernel {} is unknown",
        ),
        (["replay", "{log}", "--target", "y", "--limit", "0"], "'--limit'"),
        (["replay", "{log}"], "--target"),
        (["learn"], "learn"),
    ],
)
def test_wrong_things(bananas, arguments, message):
    done = run(*(a.replace("{log}", str(bananas)) for a in arguments))
    assert done.returncode == 2
    assert message in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("options", "seed", "line"),
    [
        ([], 0, "seed 0; --set seed=N changes it"),
        (["--set", "seed=3"], 3, "seed 3"),
        (["--learner", "kaczmarz:seed=4"], 4, "seed 4"),
        (["--learner", "river.forest.ARFClassifier"], 0, "seed 0; river.forest.ARFClassifier:seed=N changes"),
    ],
)
def test_the_seed_is_printed(bananas, options, seed, line):
    given = "replay", bananas, "--target", "y", "--limit", 100, "--no-baseline", *options
    assert line in run(*given).stdout
    assert json.loads(run(*given, "--json").stdout)["seed"] == seed
