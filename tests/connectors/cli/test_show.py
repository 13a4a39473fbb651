"""``streamk show``: every learner, with and without events, checkpoints, files that are no models."""

import json
import random

import pytest
from typer.testing import CliRunner

import streamk
from connectors.cli import app
from connectors.events.learners import LEARNERS, build
from connectors.state.checkpoint import Checkpoint
from connectors.state.disk import CheckpointStore
from streamk.evaluation.metric import TASKS

SMALL = {"kernel": {"features": 768}, "kaczmarz": {"features": 64}, "eigenpro": {"centers": 20}}


def show(*arguments):
    return CliRunner().invoke(app, ["show", *map(str, arguments)])


def learner_of(name, task):
    return build(name, task, SMALL.get(name, {}))


def events(count, task):
    rng = random.Random(1)
    rows = [{"a": rng.gauss(10, 2), "noise": rng.random(), "c": rng.choice("xyz")} for _ in range(count)]
    return rows, [x["a"] > 10 if task == "classification" else 3.0 * x["a"] for x in rows]


@pytest.mark.parametrize("fitted", [False, True])
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner(tmp_path, monkeypatch, name, task, fitted):
    monkeypatch.setenv("COLUMNS", "160")
    learner, path = learner_of(name, task), tmp_path / "model.streamk"
    if fitted:
        learner.learn_many(*events(300, task))
    size = learner.save(path)
    done = show(path, "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["class"] == type(learner).__name__
    assert (found["learner"], found["task"], found["seed"], found["bytes"]) == (name, task, 0, size)
    assert found["parameters"] == SMALL.get(name, {})
    assert found["events"] + found["pending"] == (300 if fitted else 0)
    assert (found["labels"] is None) == (task == "regression")
    if fitted:
        assert found["labels"] is None or sorted(found["labels"]) == [False, True]
        a = next(row for row in found["inputs"] if row["name"] == "a")
        assert a["mean"] == pytest.approx(10, abs=0.5)
        assert a["deviation"] == pytest.approx(2, abs=0.3)
        assert "mean" in found["target"] if task == "regression" else found["target"] is None
    shown = show(path)
    assert shown.exit_code == 0, shown.output
    for text in (type(learner).__name__, f"({name})", f"{size:,} bytes", "format 12"):
        assert text in shown.stdout


def test_relevance_has_the_highest_first_and_experts_their_weights(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    learner, path = learner_of("kernel", "classification"), tmp_path / "model.streamk"
    learner.learn_many(*events(3000, "classification"))
    learner.save(path)
    found = json.loads(show(path, "--json").stdout)
    highest = [max(values) for values in found["relevance"].values()]
    assert next(iter(found["relevance"])) == "a"
    assert highest == sorted(highest, reverse=True)
    assert found["experts"] == streamk.load(path).summary()["experts"]
    text = show(path).stdout
    bars = {row.split()[1]: row.count("█") for row in text.splitlines() if "█" in row}
    assert bars["a"] == max(bars.values()) > 0


def test_relevance_is_by_column_with_its_name(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    rng, rows = random.Random(4), []
    for k in range(1500):
        colour, amount, note = rng.choice(["red", "blue"]), rng.gauss(0, 1), rng.choice(["too small", "fine"])
        mail, hit = f"user{rng.randrange(200)}@mail.example", rng.random() < (0.8 if colour == "red" else 0.2)
        day = f"2026-{1 + k // 140:02}-{1 + k % 28:02}"
        rows.append(f"{mail},{colour},{amount:.3f},{note},{day},{'yes' if hit else 'no'}\n")
    log, model = tmp_path / "log.csv", tmp_path / "model.streamk"
    log.write_text("mail,colour,amount,note,day,returned\n" + "".join(rows))
    options = ["--target", "returned", "--type", "note=text", "--no-baseline", "--save", str(model)]
    assert CliRunner().invoke(app, ["replay", str(log), *options]).exit_code == 0
    fields = json.loads(show(model, "--json").stdout)["fields"]
    assert next(iter(fields)) == "colour"
    assert fields.keys() == {"mail", "colour", "amount", "note", "day"}
    assert fields["mail"] < 0.1
    text = show(model).stdout
    assert "a string" not in text
    assert "#" not in text.partition("Relevance of inputs")[2].partition("Experts")[0]


def test_inputs_with_heavy_tails_have_a_median(tmp_path):
    rng = random.Random(2)
    xs = [{"income": 2.718 ** (3 * rng.gauss(0, 1))} for _ in range(1500)]
    learner = learner_of("kernel", "classification")
    learner.learn_many(xs, [x["income"] > 1 for x in xs])
    learner.save(tmp_path / "model")
    row = json.loads(show(tmp_path / "model", "--json").stdout)["inputs"][0]
    assert 0.5 < row["median"] < 2
    assert row["mean"] is None


def test_a_checkpoint_of_a_daemon(tmp_path):
    learner = learner_of("kaczmarz", "classification")
    learner.learn_many(*events(50, "classification"))
    with CheckpointStore(tmp_path / "kept").locked() as store:
        store.write(Checkpoint("log", {"model": learner.to_bytes()}))
    (path,) = store.paths()
    found = json.loads(show(path, "--json").stdout)
    assert (found["events"], found["bytes"]) == (50, path.stat().st_size)


@pytest.mark.parametrize("content", [b"", b"no model", b'{"a": 1}\n' * 40])
def test_a_file_that_is_no_model(tmp_path, content):
    path = tmp_path / "events.jsonl"
    path.write_bytes(content)
    done = show(path)
    assert done.exit_code == 2
    assert done.stderr.splitlines() == [
        f"streamk: {path} is not a streamk model file, or was cut short; save the model again"
    ]
    assert show(tmp_path).exit_code == 2
