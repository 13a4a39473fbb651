"""``--metric``: ranking, verdict and recommendation on terminal and page and in JSON follow one metric."""

import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

from connectors.cli import app
from connectors.files.log import ReplayLog
from connectors.replay.report import recommendation
from connectors.replay.run import replay_log

LEARNER = "kaczmarz:features=64"


def command(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


@pytest.fixture(scope="module")
def fraud(tmp_path_factory):
    """A log of 5,000 rows, of which 1.3 % are frauds that depend on the inputs."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(5000, 3))
    hit = rng.random(5000) < 1.0 / (1.0 + np.exp(6.2 - 1.6 * x[:, 0] - 1.3 * x[:, 1]))
    assert 0.012 < hit.mean() < 0.014
    path = tmp_path_factory.mktemp("fraud") / "fraud.csv"
    rows = [f"{a:.4f},{b:.4f},{c:.4f},{'yes' if y else 'no'}\n" for (a, b, c), y in zip(x, hit, strict=True)]
    path.write_text("a,b,c,fraud\n" + "".join(rows))
    return path


def test_a_rare_class_is_not_left_to_the_majority(fraud):
    run = replay_log(ReplayLog(fraud, "fraud"), LEARNER)
    results = run.results()
    assert results.compare("majority class", "linear model").leader is None
    for name, standing in run.contest.standings.items():  # the cheapest by far
        standing.seconds = 0.001 if name == "majority class" else 1.0
    found = recommendation(results)
    assert found.startswith("Use linear model: its log loss is 0.0")
    assert "below that of majority class (95 % interval" in found
    assert "; there is no clear winner on accuracy (95 % interval" in found
    assert "linear model is better than majority class by" in results.verdict()


@pytest.mark.parametrize(("metric", "title"), [("log_loss", "log loss"), ("auc", "AUC")])
def test_everything_follows_the_metric(fraud, tmp_path, metric, title):
    options = ["--target", "fraud", "--learner", LEARNER, "--metric", metric]
    done = command("replay", fraud, *options, "--report", tmp_path)
    assert done.exit_code == 0, done.output
    text = " ".join(done.stdout.split())
    assert f"events {title} since last" in text
    assert f"linear model is better than {'majority class' if metric == 'log_loss' else LEARNER} by" in text
    assert f"Use linear model: its {title} is 0." in text
    assert re.search(rf"Had labels stopped after event [\d,]+: {title} 0\.", text)
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["headline"] == metric
    assert f" of {title} (95 % interval" in results["verdict"]
    assert {pair["measure"] for pair in results["comparisons"]} == {metric}
    page = (tmp_path / "index.html").read_text()
    for part in (f"ranked by {title}", f"of the column, in {title},", f"Use linear model: its {title}"):
        assert part in page
    assert f"curve-{metric}" in page
    done = command("replay", fraud, *options, "--json")
    found = json.loads(done.stdout)
    assert (found["metric"], found["verdict"]) == (metric, results["verdict"])
    assert f"its {title} is 0." in found["recommendation"]


def test_tuning_ranks_by_the_metric(fraud):
    options = ["--target", "fraud", "--learner", "kaczmarz", "--grid", "features=64|32", "--limit", 3000]
    rankings = {}
    for metric in ("log_loss", "auc"):
        done = command("tune", fraud, *options, "--metric", metric, "--json")
        assert done.exit_code == 0, done.output
        found = json.loads(done.stdout)
        assert found["headline"] == metric
        values = [each["metrics"][metric] for each in found["ranking"]]
        assert values == sorted(values, reverse=metric == "auc")
        rankings[metric] = values
    assert len(rankings["auc"]) + len(rankings["log_loss"]) > 2


@pytest.mark.parametrize("subcommand", ["replay", "tune"])
def test_wrong_metrics_are_one_sentence(fraud, subcommand):
    options = [subcommand, fraud, "--target", "fraud", "--learner", "kaczmarz"]
    done = command(*options, "--metric", "beauty")
    assert done.exit_code == 2
    assert "metric 'beauty' is unknown; use accuracy, log_loss, balanced_accuracy," in done.stderr
    done = command(*options, "--metric", "rmse")
    assert done.exit_code == 2
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("streamk: metric 'rmse' does not fit classification; use accuracy, log_loss,")


def test_a_checkpoint_of_another_metric_is_rejected(fraud, tmp_path):
    options = ["replay", fraud, "--target", "fraud", "--learner", LEARNER, "--limit", 1000]
    assert command(*options, "--checkpoint", tmp_path, "--metric", "auc").exit_code == 0
    done = command(*options, "--checkpoint", tmp_path)
    assert done.exit_code == 2
    assert "its metric is 'auc', not None" in done.stderr
