"""A new metric is one entry of a table: replay, its page, its ranking and ``--json`` then have it."""

import json

from typer.testing import CliRunner

from connectors.cli import app
from streamk.evaluation.classes import ClassSums
from streamk.evaluation.metric import CLASSES, METRICS, Metric

MISSES = Metric(
    "misses", "wrong labels in a thousand", -1, lambda sums: 1000 - 1000 * sums.right / sums.events
)


def test_a_new_metric_is_one_entry(monkeypatch, tmp_path):
    monkeypatch.setattr(ClassSums, "METRICS", (*CLASSES, MISSES))
    monkeypatch.setitem(METRICS, "misses", MISSES)
    log = tmp_path / "log.csv"
    log.write_text("a,y\n" + "".join(f"{k % 7},{'uv'[k % 7 > 3]}\n" for k in range(400)))
    options = ["--learner", "kaczmarz", "--target", "y", "--json", "--report", str(tmp_path / "page")]
    done = CliRunner().invoke(app, ["replay", str(log), *options])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)["contenders"]["kaczmarz"]
    assert abs(found["misses"] - 1000 * (1 - found["accuracy"])) < 1e-6
    assert MISSES.title in (tmp_path / "page" / "index.html").read_text()
