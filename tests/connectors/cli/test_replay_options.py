"""How the options of ``streamk replay`` go together, and what is refused before anything is read."""

import functools
import json

import pytest

import streamk
from tests import processes

run = functools.partial(processes.run, "replay")


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("logs") / "log.csv"
    path.write_text("\n".join(["id,a,y", *(f"{k},{k % 7}.5,{'ud'[k % 2]}" for k in range(400))]))
    return path


@pytest.fixture
def settings(log, tmp_path):
    path = tmp_path / "streamk.toml"
    source = f'[source]\nkind = "file"\npath = "{log}"\n[events]\nformat = "csv"\ntarget = "y"\n'
    learner = '[learner]\nname = "kaczmarz"\nparameters = {features = 96, memory = 500}\n'
    path.write_text(f'{source}{learner}[checkpoints]\ndirectory = "kept"\n')
    return path


def test_a_report_that_cannot_be_written_loses_nothing_else(log, tmp_path):
    (tmp_path / "page" / "results.json").mkdir(parents=True)  # no file can take its place
    model = tmp_path / "m.streamk"
    chosen = ["--target", "y", "--learner", "kaczmarz", "--json"]
    done = run(log, *chosen, "--report", tmp_path / "page", "--save", model)
    assert done.returncode == 2
    assert "results.json" in done.stderr
    assert json.loads(done.stdout)["events"] == 400
    assert streamk.load(model).events == 400


def test_parameters_of_the_settings_are_for_their_learner(settings, tmp_path):
    model = tmp_path / "m.streamk"
    for names, expected in (
        ([], (96, 500)),
        (["--learner", "kaczmarz:features=128"], (128, 500)),
        (["--learner", "kaczmarz:features=128", "--set", "features=256"], (256, 500)),
    ):
        done = run(settings, *names, "--save", model)
        assert done.returncode == 0, done.stderr
        learner = streamk.load(model)
        assert (learner.features, learner.memory) == expected
    done = run(settings, "--learner", "doubly-stochastic", "--save", model)  # it has no memory
    assert done.returncode == 0, done.stderr
    assert streamk.load(model).features == 64


def test_strict_applies_with_settings(settings, log, tmp_path):
    cut = tmp_path / "cut.csv"
    cut.write_text(log.read_text() + "\n1,2")
    settings.write_text(settings.read_text().replace(str(log), str(cut)))
    assert run(settings).returncode == 0
    done = run(settings, "--strict")
    assert done.returncode == 2
    assert "cut.csv, line 402: cannot be decoded" in done.stderr


Y = ["{log}", "--target", "y"]
JOINED = [*Y, "--labels", "{log}", "--key", "id"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            [*Y, "--learner", "river.dummy.NoChangeClassifier", "--save", "m"],
            "--save m: river.dummy.NoChange",
        ),
        (["{toml}", *JOINED[3:]], "--labels: it does not go with {toml}"),
        (["{toml}", "--decimal", ","], "--decimal: {toml} says it"),
        (["{toml}", "--target", "y"], "--target: {toml} says it, as events.target"),
        (["{toml}", "--from", "3"], "--from: it is for topics"),
        ([*Y, "--to", "3"], "--to: it is for a topic"),
        ([*Y, "--format", "json"], "--format: it is for a kafka:// address"),
        (["{toml}", "--format", "json"], "--format: {toml} says it, as events.format"),
        (["kafka://me:secret@h:1/t", "--target", "y"], "security is for the [kafka] of a .toml"),
        (["kafka://h:1", "--target", "y"], "write kafka://HOST:PORT/TOPIC"),
        (["kafka://h:1/t", "--target", "y", "--format", "csv"], "--format csv: it is json or msgpack"),
        (["kafka://h:1/t", *JOINED[1:]], "--labels: it is for logs on disk"),
        (["{log}"], "--target: name the field to predict"),
        ([*Y, "--report", "{log}/page"], "log.csv is not a directory"),
        ([*Y, "--labels", "-", "--key", "id", "--time", "a"], "give a file, not a pipe"),
    ],
)
def test_what_does_not_go_together(log, settings, tmp_path, arguments, message):
    def named(text):
        return text.replace("{log}", str(log)).replace("{toml}", str(settings))

    done = run(*map(named, arguments), cwd=tmp_path, input="")
    assert done.returncode == 2, done.stdout
    assert named(message) in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""  # nothing was replayed
