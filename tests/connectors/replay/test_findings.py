"""What a report says beyond metrics: the worst predictions, thresholds, and the drift of inputs."""

import json
import math

import numpy as np
import pytest
from typer.testing import CliRunner

from connectors.cli import app
from connectors.replay.input_drift import InputSample
from streamk.evaluation import Contest, ModelAdapter, Results
from streamk.evaluation.adapters import EventChunk
from streamk.evaluation.classes import ClassSums
from streamk.evaluation.costs import Costs
from streamk.evaluation.thresholds import thresholds_of
from streamk.evaluation.worst_events import WorstEvent, WorstEvents

LEARNER = "kaczmarz:features=64"


def replayed(*arguments):
    options = ["--learner", LEARNER, "--no-baseline", "--json"]
    done = CliRunner().invoke(app, ["replay", *map(str, arguments), *options])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.fixture
def halves(tmp_path):
    """Two files of one log, of which the field ``kind`` changes with the second."""
    rng = np.random.default_rng(5)
    for part in range(2):
        rows = [
            f"{a!r},{'pq'[part]},{b!r},{i},{'yes' if a + b + 0.5 * rng.normal() > 1.5 else 'no'}"
            for i, (a, b) in enumerate(rng.normal(size=(700, 2)).tolist())
        ]
        (tmp_path / f"{part}.csv").write_text("a,kind,b,minute,y\n" + "\n".join(rows) + "\n")
    return [tmp_path / "0.csv", tmp_path / "1.csv"]


@pytest.mark.parametrize("late", [[], ["--delay", "20"], ["--protocol", "chunks"]])
def test_worst_events_are_those_of_the_predictions_with_their_rows(halves, tmp_path, late):
    told = replayed(*halves, "--target", "y", "--predictions", tmp_path / "p.jsonl", *late)
    rows = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    losses = {}
    for row in rows:
        if 10 * row["event"] > len(rows) and row["predictions"][LEARNER]:
            losses[row["event"]] = -math.log(max(row["predictions"][LEARNER].get(row["target"], 0.0), 1e-15))
    expected = sorted(losses, key=lambda event: -losses[event])[:10]
    worst = told["contenders"][LEARNER]["worst"]
    assert [each["event"] for each in worst] == expected
    assert [each["loss"] for each in worst] == pytest.approx([losses[event] for event in expected])
    for each in worst:
        row = rows[each["event"] - 1]
        assert (each["line"], each["target"]) == (row["line"], row["target"])
        lines = (tmp_path / each["file"]).read_text().splitlines()
        written = dict(zip(lines[0].split(","), lines[each["line"] - 1].split(","), strict=True))
        assert written.pop("y") == each["target"]
        assert {name: str(value).removesuffix(".0") for name, value in each["fields"].items()} == written


def test_the_time_of_a_worst_event_is_that_of_its_row(halves):
    told = replayed(halves[0], "--target", "y", "--time", "minute", "--delay", "60")
    assert {each["at"] - each["line"] for each in told["contenders"][LEARNER]["worst"]} == {-2.0}


def test_worst_events_do_not_depend_on_chunks():
    losses = np.random.default_rng(2).exponential(size=5000).round(1)
    listed = []
    for size in (1, 7, 1000, 5000):
        worst = WorstEvents()
        for first in range(0, 5000, size):
            worst.add(losses[first : first + size], first + 1, lambda row: WorstEvent(row, row, {}))
        listed.append([(event, loss) for event, loss, _ in worst.listed(5000)])
        assert sum(map(len, worst._segments.values())) <= 180
    assert listed[0] == listed[1] == listed[2] == listed[3]
    order = np.lexsort((np.arange(5000), -losses))
    assert [event for event, _ in listed[0]] == [k + 1 for k in order if k >= 500][:10]


class Says(ModelAdapter):
    def predict(self, x):
        return {"yes": x["p"], "no": 1.0 - x["p"]}

    def learn(self, x, y):
        pass


def test_thresholds_are_those_of_the_scores():
    rng = np.random.default_rng(3)
    scores = rng.beta(0.5, 3, size=4000)
    positive = rng.random(4000) < scores
    ys = ["yes" if each else "no" for each in positive]
    costs = Costs(fn=20, fp=1, positive="yes")
    contest = Contest({"a": Says()}, "classification", metric=costs)
    contest.take([{"p": float(p)} for p in scores], ys)
    told = Results(contest).thresholds("a")
    assert told["positive"] == "yes"
    by_name = {row.get("name"): row for row in told["table"]}
    for row in told["table"]:
        called = scores > row["threshold"]
        assert row["called"] == pytest.approx(called.mean(), abs=5e-3)
        assert row["recall"] == pytest.approx(called[positive].mean(), abs=5e-3)
        if called.sum() > 20:
            assert row["precision"] == pytest.approx(positive[called].mean(), abs=1e-2)

    def cost(threshold):
        called = scores > threshold
        return 20 * (positive & ~called).sum() + (called & ~positive).sum()

    assert cost(by_name["least cost"]["threshold"]) <= min(map(cost, scores)) + 40
    assert by_name["implied by costs"]["threshold"] == costs.threshold
    assert [row["threshold"] for row in told["table"]] == sorted(row["threshold"] for row in told["table"])


def test_three_classes_have_no_thresholds():
    sums = ClassSums()
    sums.add(np.array([0, 1, 2]), np.full((3, 3), 1 / 3), np.array([-1, 0, 1]))
    assert thresholds_of(sums, 1) is None


def test_fields_are_in_the_order_of_how_far_they_moved(halves):
    fields = replayed(*halves, "--target", "y")["drift"]["fields"]
    assert fields[0]["field"] == "kind"
    assert fields[0]["moved"] == 1.0
    assert fields[0]["values"]["p"][0] == fields[0]["values"]["q"][-1] == 1.0
    by_name = {each["field"]: each for each in fields}
    assert by_name["a"]["moved"] < 0.2
    assert len(by_name["a"]["median"]) == len(by_name["a"]["missing"]) == 20
    assert all(low < middle < high for low, middle, high in zip(
        *(by_name["a"][part] for part in ("low", "median", "high")), strict=True
    ))  # fmt: skip


def test_a_sample_is_bounded_and_independent_of_chunks():
    rows = [
        {"hour": float(k % 24), "id": f"n{k}", "clock": k, "gone": None if k > 30_000 else 1.0}
        for k in range(60_000)
    ]
    drifts = []
    for size in (137, 60_000):
        sample = InputSample()
        for first in range(0, len(rows), size):
            sample.add(EventChunk(rows[first : first + size]))
        assert 2000 < len(sample._rows) <= 4096
        drifts.append(sample.drift())
    assert drifts[0] == drifts[1]
    by_name = {each["field"]: each for each in drifts[0]["fields"]}
    assert by_name["hour"]["moved"] < 0.05  # all hours are sampled as often
    assert by_name["id"]["remark"] == "nearly every value once"
    assert by_name["clock"]["remark"] == "follows the order of the log"
    assert by_name["gone"]["moved"] == 1.0
    assert (by_name["gone"]["missing"][0], by_name["gone"]["missing"][-1]) == (0.0, 1.0)
    assert InputSample().drift() is None
