"""`streamk explain`: the record on a line, importance of fields, and sentences for what is not there."""

import json
import random

import pytest
from typer.testing import CliRunner

import streamk
from connectors.cli import app
from connectors.cli.explain import importance_of
from streamk.evaluation.metric import METRICS

FAST = ["--learner", "kernel", "--set", "features=768"]


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)), env={"COLUMNS": "100"})


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A log with a broken line, a model of its classes with its predictions, and one of its numbers."""
    folder, rng = tmp_path_factory.mktemp("explain"), random.Random(3)
    lines = ["amount,country,when,note,fraud,loss"]
    for k in range(800):
        amount, country = rng.uniform(0, 100), rng.choice(["AT", "CH"])
        when = f"2024-{k // 28 % 12 + 1:02}-{k % 28 + 1:02} 10:00"
        lines.append(
            f"{amount:.2f},{country},{when},n{k % 3},{amount > 60 and country == 'CH'},{amount / 10:.3f}"
        )
    lines[100] = "1,2,3,4,5,6,7,8,9"
    log = folder / "log.csv"
    log.write_text("\n".join(lines) + "\n")
    for target, other in (("fraud", "loss"), ("loss", "fraud")):
        done = run(
            "train",
            log,
            "--target",
            target,
            "--ignore",
            other,
            *FAST,
            "--save",
            folder / f"{target}.streamk",
            "--workers",
            1,
        )
        assert done.exit_code == 0, done.output
    done = run("predict", folder / "fraud.streamk", log, "-o", folder / "p.jsonl", "--json")
    assert done.exit_code == 0, done.output
    return folder


def explained(*arguments):
    done = run("explain", *arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_record_is_explained_by_what_predict_prints(files):
    predicted = [json.loads(line) for line in (files / "p.jsonl").read_text().splitlines()]
    for row in (predicted[0], predicted[150], predicted[-1]):
        found = explained(
            files / "fraud.streamk", files / "log.csv", "--line", row["line"], "--label", "true"
        )
        assert found["prediction"] == pytest.approx(row["p(True)"], abs=1e-9)
        assert found["base"] + sum(found["contributions"].values()) == pytest.approx(row["p(True)"], abs=1e-6)
        assert found["contributions"].keys() == {"amount", "country", "when", "note"}
        written = (files / "log.csv").read_text().splitlines()[row["line"] - 1].split(",")
        assert found["values"]["when"] == f"{written[2]}:00"
        assert found["values"]["amount"] == float(written[0])
        assert (found["label"], found["target"]) == ("True", row["target"])


def test_numbers_are_explained_in_the_terminal(files):
    done = run("explain", files / "loss.streamk", files / "log.csv", "--line", 9, "--top", 2)
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"{files / 'log.csv'}, line 9: prediction ")
    assert [line.split()[0] for line in lines[1:5]] == ["field", "base", "amount", lines[4].split()[0]]
    assert lines[5].startswith("2 other fields")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--line", 5000], "line 5000 is not there; the last event is on line 801"),
        (["--line", 101], "line 101: "),
        (["--line", 1], "line 1 holds no event that can be read"),
        (["--line", 3, "--label", "maybe"], "the model has no such class; its classes are"),
        (["--label", "true"], "--label: this is for one record; name it with --line"),
        (["--metric", "rmse"], "metric 'rmse' does not fit classification"),
    ],
)
def test_errors_name_what_is_missing(files, arguments, sentence):
    done = run("explain", files / "fraud.streamk", files / "log.csv", *arguments)
    assert done.exit_code == 2, done.output
    assert sentence in " ".join(done.output.split())


def test_fields_are_ranked_by_exchange(files):
    found = explained(files / "fraud.streamk", files / "log.csv")
    assert (found["metric"], found["events"]) == ("log_loss", 799)
    rows = {row["field"]: row for row in found["fields"]}
    assert [row["field"] for row in found["fields"]][:2] == ["amount", "country"]
    assert rows["country"]["low"] > 0.0
    assert rows["amount"]["low"] < rows["amount"]["importance"] < rows["amount"]["high"]
    auc = explained(files / "fraud.streamk", files / "log.csv", "--metric", "auc")
    assert {row["field"] for row in auc["fields"][:2]} == {"amount", "country"}
    assert 0.0 < auc["fields"][0]["importance"] < 0.6
    shown = run("explain", files / "loss.streamk", files / "log.csv", "--metric", "rmse", "--limit", 300)
    assert shown.exit_code == 0, shown.output
    assert "over 300 events" in shown.stdout
    assert [line.split()[0] for line in shown.stdout.splitlines()[1:3]] == ["field", "amount"]


def test_model_without_names_of_fields_is_reported(files, tmp_path):
    learner = streamk.KaczmarzRegressor(features=64, scale_inputs=False, seed=1)
    learner.learn_many([{"amount": float(k % 7)} for k in range(100)], [float(k % 7) for k in range(100)])
    learner.save(tmp_path / "m.streamk")
    done = run("explain", tmp_path / "m.streamk", files / "log.csv", "--line", 3)
    assert done.exit_code == 0, done.output
    assert "m.streamk holds no names of fields" in " ".join(done.output.split())


def test_importance_is_the_difference_of_the_metric():
    events = [{"a": float(k % 7), "b": float(k % 5)} for k in range(700)]
    targets = [3.0 * x["a"] for x in events]
    learner = streamk.KaczmarzRegressor(features=128, seed=7)
    learner.learn_many(events, targets)
    base, fields = importance_of(learner, events, targets, METRICS["mae"])
    errors = [abs(y - p) for y, p in zip(targets, learner.view_array(events).tolist(), strict=True)]
    assert base == pytest.approx(sum(errors) / 700)
    assert [each.field for each in fields] == ["a", "b"]
    assert fields[0].low > 0.0
