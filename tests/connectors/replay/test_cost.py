"""``--cost``: on the terminal, in JSON and on the page; resumed replays; what is rejected."""

import json
import os
import signal

import pytest
from typer.testing import CliRunner

from connectors.cli import app
from tests.connectors.replay.test_metric import fraud  # noqa: F401  # a fixture

LEARNER = "kaczmarz:features=64"


def command(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def mean_cost(log, predictions, name, fn, fp):
    """The mean cost by the file of predictions."""
    total = count = 0
    for line in predictions.read_text().splitlines():
        row = json.loads(line)
        p = row["predictions"][name] or {}
        wrong = not p or (p.get("yes", 0.0) > fp / (fp + fn)) != (row["target"] == "yes")
        total += wrong * (fn if row["target"] == "yes" else fp)
        count += 1
    assert count == len(log.read_text().splitlines()) - 1
    return total / count


def test_the_cost_is_everywhere(fraud, tmp_path):  # noqa: F811
    options = ["--target", "fraud", "--learner", LEARNER, "--predictions", tmp_path / "p.jsonl"]
    done = command("replay", fraud, *options, "--cost", "fn=50,fp=1", "--report", tmp_path / "page")
    assert done.exit_code == 0, done.output
    text = " ".join(done.output.split())
    assert "positive is yes, the rarer one of the first 1,000 labels; --positive changes that" in text
    assert "above a probability of 0.0196" in text
    assert "events mean cost since last" in text
    assert "of mean cost (95 % interval" in text
    results = json.loads((tmp_path / "page" / "results.json").read_text())
    assert results["headline"] == "cost"
    assert results["costs"] == {"fn": 50.0, "fp": 1.0, "positive": "yes", "threshold": 1 / 51}
    assert {pair["measure"] for pair in results["comparisons"]} == {"cost"}
    for contender in results["contenders"]:
        expected = mean_cost(fraud, tmp_path / "p.jsonl", contender["name"], 50, 1)
        assert contender["metrics"]["cost"] == pytest.approx(expected, abs=2e-4), contender["name"]
    assert "ranked by mean cost" in (tmp_path / "page" / "index.html").read_text()


def test_json_and_the_other_label(fraud):  # noqa: F811
    options = ["--target", "fraud", "--learner", LEARNER, "--no-baseline", "--json", "--limit", "1500"]
    done = command("replay", fraud, *options, "--cost", "fp=50, fn=1", "--positive", "no")
    assert done.exit_code == 0, done.output
    assert "positive is no, named; contenders decide for it above a probability of 0.98" in done.stderr
    other = json.loads(done.stdout)
    assert other["metric"] == "cost"
    assert other["costs"]["positive"] == "no"
    rare = json.loads(command("replay", fraud, *options, "--cost", "fn=50,fp=1").stdout)
    assert rare["contenders"][LEARNER]["accuracy"] == other["contenders"][LEARNER]["accuracy"]
    assert rare["contenders"][LEARNER]["cost"] == pytest.approx(other["contenders"][LEARNER]["cost"])


def test_an_interrupted_replay_continues_with_its_costs(fraud, tmp_path):  # noqa: F811
    options = ["--target", "fraud", "--learner", LEARNER, "--json", "--delay", "20", "--cost", "fn=50,fp=1"]
    whole = json.loads(command("replay", fraud, *options).stdout)
    from connectors.replay import run

    class Interrupting(run.Refusals):
        def __init__(self, replay, strict):
            super().__init__(replay, strict)
            os.kill(os.getpid(), signal.SIGINT)

    directory = tmp_path / "checkpoint"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "Refusals", Interrupting)
        first = command("replay", fraud, *options, "--checkpoint", directory)
    assert first.exit_code == 130
    other = command("replay", fraud, *options[:-1], "fn=5,fp=1", "--checkpoint", directory)
    assert "is of another replay: its cost is 'fn=50,fp=1', not 'fn=5,fp=1'" in other.stderr
    again = json.loads(command("replay", fraud, *options, "--checkpoint", directory).stdout)
    assert again["events"] == 5000
    for name, values in whole["contenders"].items():
        assert again["contenders"][name]["cost"] == values["cost"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--cost", "50,1"], "--cost 50,1: write fn=COST,fp=COST, as fn=50,fp=1"),
        (["--cost", "fn=50"], "--cost fn=50: write fn=COST,fp=COST, as fn=50,fp=1"),
        (["--cost", "fn=x,fp=1"], "--cost fn=x,fp=1: write"),
        (
            ["--cost", "fn=2,fp=1", "--metric", "auc"],
            "--cost ranks contenders by the mean cost, not by auc; give",
        ),
        (["--metric", "cost"], "metric 'cost' is of the costs of errors; set them, as --cost fn=50,fp=1"),
        (["--positive", "yes"], "--positive yes is for --cost; give both"),
        (["--cost", "fn=2,fp=1", "--positive", "maybe"], "the positive label 'maybe' is none of no, yes"),
        (["--cost", "fn=2,fp=1", "--target", "a"], "are for two classes, not for regression"),
        (["--cost", "fn=2,fp=1", "--target", "b", "--task", "classification"], "are for two classes; labels"),
    ],
)
def test_what_is_rejected(fraud, options, sentence):  # noqa: F811
    done = command("replay", fraud, "--target", "fraud", "--learner", LEARNER, *options)
    assert done.exit_code == 2, done.output
    assert sentence in " ".join(done.stderr.split())
