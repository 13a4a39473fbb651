"""Two reports are compared by their figures; what else differs is named."""

import copy
import json

import pytest

from tests.processes import run


def report(**changes):
    contenders = [
        {
            "name": name,
            "metrics": {"log_loss": loss, "accuracy": accuracy, "mine": 1.0},
            "interval": {"mean": accuracy, "low": accuracy - 0.01, "high": accuracy + 0.01, "level": 0.95},
        }
        for name, loss, accuracy in (("kernel", 0.3, 0.9), ("linear model", 0.5, 0.8))
    ]
    log = [{"name": "log.csv", "bytes": 9, "sha256": "ab"}]
    whole = {"task": "classification", "headline": "accuracy", "events": 900, "target": "y", "log": log}
    return {**whole, "delay": "at once", "contenders": contenders, **changes}


def written(tmp_path, *reports):
    places = []
    for k, each in enumerate(reports):
        place = tmp_path / f"report{k}"
        place.mkdir()
        (place / "results.json").write_text(json.dumps(each))
        places.append(place)
    return places


def compared(tmp_path, *reports):
    done = run("compare", *written(tmp_path, *reports), "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_metric_of_every_contender(tmp_path):
    after = report()
    after["contenders"][0]["metrics"] |= {"accuracy": 0.95, "log_loss": 0.35}
    after["contenders"][0]["interval"] |= {"low": 0.94, "high": 0.96}
    found = compared(tmp_path, report(), after)
    rows = {(row["contender"], row["metric"]): row for row in found["rows"]}
    assert len(rows) == 4  # "mine" is no metric of streamk
    assert rows["kernel", "accuracy"]["difference"] == pytest.approx(0.05)
    assert rows["kernel", "accuracy"]["better"] is True
    assert rows["kernel", "log_loss"]["better"] is False
    assert rows["linear model", "accuracy"]["better"] is None
    assert [row["metric"] for row in found["rows"]][:2] == ["accuracy", "log_loss"]
    assert found["remarks"] == ["kernel: the 95 % intervals of accuracy do not overlap."]


def test_what_else_differs_is_named(tmp_path):
    after = copy.deepcopy(report(events=800, target="z", log=[{"sha256": "cd"}]))
    after["contenders"][1]["name"] = "tree"
    after["contenders"][0]["interval"] = {"mean": 0.905, "low": 0.89, "high": 0.91, "level": 0.95}
    assert compared(tmp_path, report(), after)["remarks"] == [
        "The logs differ: the figures are of other events.",
        "The targets differ: y and z.",
        "The numbers of events differ: 900 and 800.",
        "Only the first report has linear model.",
        "Only the second report has tree.",
        "kernel: the 95 % intervals of accuracy overlap.",
    ]


def test_the_table(tmp_path):
    done = run("compare", *written(tmp_path, report(), report()))
    assert done.returncode == 0
    for part in ("kernel", "log loss", "0.9000", "change"):
        assert part in done.stdout


@pytest.mark.parametrize(
    ("second", "sentence"),
    [
        (report(task="regression"), "is of classification, and"),
        (report(contenders=[{"name": "x", "metrics": {}}]), "the reports have no contender of the same name"),
        ({"task": "classification"}, "is no report of streamk replay; give what --report wrote"),
        ([], "is no report of streamk replay; give what --report wrote"),
    ],
)
def test_what_cannot_be_compared(tmp_path, second, sentence):
    done = run("compare", *written(tmp_path, report(), second))
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in done.stderr


def test_a_report_that_is_not_there(tmp_path):
    (place,) = written(tmp_path, report())
    done = run("compare", place, tmp_path / "none")
    assert done.returncode == 2
    assert "No such file or directory; give what streamk replay --report wrote" in done.stderr
