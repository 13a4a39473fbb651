"""``streamk train``: what it shows and saves, on a terminal too, Ctrl-C, wrong things."""

import csv
import json
import os
import signal
import subprocess

import pytest
from river import datasets
from typer.testing import CliRunner

import streamk
from connectors.cli import app
from connectors.files.log import ReplayLog
from connectors.shards import shards_of
from streamk.distributed import learn
from tests.processes import Command

from .terminal import shown

LEARNER = "--learner", "kaczmarz", "--set", "features=64", "--set", "seed=7"


@pytest.fixture(scope="module")
def bananas(tmp_path_factory):
    path = tmp_path_factory.mktemp("logs") / "bananas.csv"
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["a", "b", "y"])
        rows.writerows([*x.values(), int(y)] for x, y in datasets.Bananas().take(2000))
    return path


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def train(log, *arguments):
    return run("train", log, "--target", "y", *LEARNER, "--workers", 1, *arguments)


def test_a_line_a_round_and_a_summary(bananas, tmp_path):
    model, cut = tmp_path / "m.streamk", ("--shards", 4, "--round", 200)
    done = train(bananas, *cut, "--save", model)
    assert done.exit_code == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "seed 7"
    assert lines[1].split() == ["round", "pass", "shards", "events", "accuracy", "events/s", "bytes"]
    assert [line.split()[:4] for line in lines[2:4]] == [["1", "1", "1", "200"], ["2", "1", "4", "256"]]
    assert "2,000 events" in done.stdout
    assert f"saved to {model}: {model.stat().st_size:,} bytes" in done.stdout
    again = train(bananas, *cut, "--workers", 2, "--json", "--save", tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == model.read_bytes()
    result = json.loads(again.stdout)
    assert (result["events"], result["shards"], result["passes"]) == (2000, 4, 1)
    assert (
        result["rounds"] == len(result["curve"]) == sum(line.split()[0].isdigit() for line in lines if line)
    )
    assert result["accuracy"] > 0.5
    assert again.stderr.splitlines()[-1] == f"saved to {tmp_path / 'again'}: {model.stat().st_size:,} bytes"


def test_one_shard_learns_what_replay_learns(bananas, tmp_path):
    trained, replayed = tmp_path / "trained", tmp_path / "replayed"
    assert train(bananas, "--by", "file", "--save", trained).exit_code == 0
    done = run("replay", bananas, "--target", "y", *LEARNER, "--no-baseline", "--save", replayed)
    assert done.exit_code == 0
    assert trained.read_bytes() == replayed.read_bytes()


def test_a_terminal_gets_bars(bananas):
    chosen = "--shards", 2, "--round", 300, "--workers", 1
    text, code = shown("train", bananas, "--target", "y", *LEARNER, *chosen, columns=120)
    assert code == 0
    assert "bananas.csv[" in text
    assert "events" in text
    assert "2,000 events" in text
    assert "events/s " not in text.split("2,000 events")[0]


def test_interrupted_training_continues_from_the_checkpoint(bananas, tmp_path):
    """Ctrl-C reaches the workers too; nobody prints a traceback, and the model is that of a whole run."""
    checkpoint, model = tmp_path / "run", tmp_path / "model"
    given = [
        bananas,
        "--target",
        "y",
        *LEARNER,
        "--by",
        "file",
        "--round",
        10,
        "--workers",
        1,
        "--checkpoint",
        checkpoint,
    ]
    with Command(
        "train", *given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        for _ in range(5):
            process.stdout.readline()
        os.killpg(process.pid, signal.SIGINT)
        said = process.stderr.read()
        assert process.wait(timeout=20) == 130
    assert "the same command continues from" in said
    assert "Traceback" not in said
    assert streamk.load(checkpoint).events > 0
    done = run("train", *given, "--save", model)
    assert done.exit_code == 0, done.stderr
    assert f"continuing from {checkpoint}" in done.stdout
    whole = run("train", *given[:-2], "--save", tmp_path / "whole")
    assert whole.exit_code == 0
    assert model.read_bytes() == (tmp_path / "whole").read_bytes()


def test_interrupted_without_a_checkpoint(bananas):
    command = "train", bananas, "--target", "y", *LEARNER, "--by", "file", "--round", 1
    with Command(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        for _ in range(3):  # the seed, the heading and the first round
            process.stdout.readline()
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
        assert process.wait(timeout=20) == 130
    assert "nothing is stored; --checkpoint FILE" in said
    assert "Traceback" not in said


def test_the_command_is_the_library(bananas, tmp_path):
    model = tmp_path / "m"
    done = train(bananas, "--by", "hash", "--shards", 3, "--round", 300, "--save", model)
    assert done.exit_code == 0, done.stderr
    log = ReplayLog(bananas, "y")
    log.look()
    shards = shards_of(log.paths, log.format, "classification", "hash", 3)
    learner = streamk.KaczmarzClassifier(features=64, seed=7)
    assert (
        learn(shards, learner, round=300, engine="here").learner.to_bytes() == streamk.load(model).to_bytes()
    )


def test_two_runs_give_one_model_and_print_their_seed(bananas, tmp_path):
    paths, cut = [tmp_path / "a", tmp_path / "b"], ("--shards", 2, "--round", 500, "--workers", 1)
    for path in paths:
        done = run("train", bananas, "--target", "y", "--learner", "kaczmarz", *cut, "--save", path)
        assert done.exit_code == 0, done.stderr
        assert done.stdout.splitlines().count("seed 0; --set seed=N changes it") == 1
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert run("train", bananas, "--target", "y", "--set", "seed=3", *cut).stdout.startswith("seed 3\n")
    done = run("train", bananas, "--target", "y", *cut, "--json")
    assert json.loads(done.stdout)["seed"] == 0


def test_models_of_two_runs_merge_as_the_readme_shows(bananas, tmp_path):
    header, *rows = bananas.read_text().splitlines()
    for name, part in (("monday", rows[:900]), ("tuesday", rows[900:1800])):
        (tmp_path / f"{name}.csv").write_text("\n".join([header, *part]))
        log, model = tmp_path / f"{name}.csv", tmp_path / f"{name}.streamk"
        done = run("train", log, "--target", "y", "--learner", "kaczmarz", "--workers", 1, "--save", model)
        assert done.exit_code == 0, done.stderr
    whole, both = tmp_path / "whole.streamk", tmp_path / "both.streamk"
    (tmp_path / "all.csv").write_text("\n".join([header, *rows[:1800]]))
    given = "--target", "y", "--learner", "kaczmarz", "--workers", 1
    assert run("train", tmp_path / "all.csv", *given, "--save", whole).exit_code == 0
    done = run("merge", tmp_path / "monday.streamk", tmp_path / "tuesday.streamk", "-o", both)
    assert done.exit_code == 0, done.stderr
    found = {}
    for path in (whole, both):
        model = streamk.load(path)
        assert model.events == 1800
        events = [dict(zip(("a", "b", "y"), row.split(","), strict=True)) for row in rows[1800:]]
        guesses = [model.predict_one({"a": float(x["a"]), "b": float(x["b"])}) for x in events]
        found[path] = sum(guess == x["y"] for guess, x in zip(guesses, events, strict=True)) / len(events)
    assert found[whole] > 0.75
    assert found[both] > found[whole] - 0.05


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{log}", "--target", "z"], "there is no column 'z'; use a, b or y"),
        (["{log}"], "--target"),
        (["{log}.missing", "--target", "y"], "No such file"),
        (["{log}*.gz", "--target", "y"], "there is no such file"),
        (["{log}", "--target", "y", "--by", "size"], "--by size: use blocks or hash or file"),
        (["{log}", "{bad}", "--target", "y", "--by", "hash"], "--by hash is for one log"),
        (["{log}", "--target", "y", "--learner", "forest"], "--learner forest: no such learner"),
        (["{log}", "--target", "y", "--set", "size=3"], "--set size=3: kernel has no such parameter; use"),
        (["{log}", "--target", "y", "--task", "ranking"], "classification or regression"),
        (["{log}", "--target", "y", "--round", "0"], "'--round'"),
        (["{log}", "--target", "y", "--save", "/no/such/place/m"], "there is no directory"),
        (["{log}", "--target", "y", "--save", "/dev/null"], "this is not a file"),
        (["{log}", "--target", "y", "--checkpoint", "/no/such/place/m"], "there is no directory"),
        (["{log}", "--target", "y", "--checkpoint", "{log}"], "is not a streamk model file"),
        (
            ["{bad}", "--target", "y", "--strict", "--learner", "kaczmarz"],
            "bad.csv, line 3: cannot be decoded",
        ),
    ],
)
def test_wrong_things(bananas, tmp_path, arguments, message):
    bad = tmp_path / "bad.csv"
    bad.write_text("a,y\n1,0\n1,0,2\n")
    done = run("train", *(a.replace("{log}", str(bananas)).replace("{bad}", str(bad)) for a in arguments))
    assert done.exit_code == 2, done.output
    assert message in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.stderr


def test_events_that_the_learner_refuses_are_skipped_as_in_a_replay(tmp_path):
    """One of 300 costs nothing; with --strict it ends the run."""
    path, model = tmp_path / "log.csv", tmp_path / "m.streamk"
    rows = [("1e300" if i == 150 else i % 13, i % 3) for i in range(300)]
    path.write_text("a,y\n" + "".join(f"{a},{y}\n" for a, y in rows))
    done = train(path, "--json", "--save", model)
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["events"], found["skipped"]) == (299, 1)
    replayed = run("replay", path, "--target", "y", *LEARNER, "--json", "--baseline", "none")
    assert (json.loads(replayed.stdout)["events"], json.loads(replayed.stdout)["refused"]) == (299, 1)
    strict = train(path, "--strict")
    assert strict.exit_code == 2
    assert "line 152: field 'a' is 1e+300" in " ".join(strict.stderr.split())


def test_many_refused_events_are_a_warning(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("a,y\n" + "".join(f"{'1e300' if i % 20 == 7 else i % 13},{i % 3}\n" for i in range(300)))
    done = train(path)
    assert done.exit_code == 1
    assert "15 of 300 rows (5.0%) were skipped" in done.stderr
    assert train(path, "--allow-skipped").exit_code == 0
