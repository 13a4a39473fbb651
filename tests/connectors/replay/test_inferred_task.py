"""Targets that show after the first 1,000 events that the inferred task is the wrong one."""

import json

import pytest
from typer.testing import CliRunner

from connectors.cli import app
from connectors.events.targets import InferredLabels
from connectors.files.log import ReplayLog
from connectors.replay.labels import ByLabels, Joined
from connectors.replay.run import replay_log
from tests.connectors.replay.test_labels import events_of, joined

LEARNER = "kaczmarz:features=32"


def csv_log(folder, targets):
    path = folder / "log.csv"
    path.write_text("a,y\n" + "".join(f"{i % 11},{y}\n" for i, y in enumerate(targets)))
    return path


FRACTION = [i % 7 for i in range(1500)] + [2.5] + [i % 7 for i in range(500)]
MANY = [i % 20 for i in range(1000)] + list(range(200))


@pytest.mark.parametrize(
    ("targets", "line", "why"), [(FRACTION, 1502, "is 2.5"), (MANY, 1102, "has more than 100 values")]
)
def test_a_replay_ends_at_the_first_target_that_is_no_class(tmp_path, targets, line, why):
    run = replay_log(ReplayLog(csv_log(tmp_path, targets), "y"), LEARNER, baseline=False)
    assert run.error == (
        f"{tmp_path}/log.csv, line {line}: `y` {why}, but classification was inferred from whole numbers; "
        "give --task regression, or --task classification if every number is a class"
    )
    assert (run.events, run.learner.events) == (line - 2, line - 2)


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("targets", [FRACTION, MANY])
def test_a_task_that_is_given_is_not_doubted(tmp_path, targets, task):
    run = replay_log(ReplayLog(csv_log(tmp_path, targets), "y"), LEARNER, task, baseline=False)
    assert (run.error, run.events) == ("", len(targets))


def test_strings_are_classes_however_many(tmp_path):
    targets = [f"c{i % 20}" for i in range(1000)] + [f"c{i}" for i in range(150)] + [2.5]
    run = replay_log(ReplayLog(csv_log(tmp_path, targets), "y"), LEARNER, baseline=False)
    assert (run.error, run.events) == ("", len(targets))


def label_logs(folder):
    events = [{"id": f"e{i}", "at": float(i), "a": i % 5} for i in range(1200)]
    labels = [{"id": f"e{i}", "at": i + 0.5, "y": 2.5 if i == 1100 else i % 3} for i in range(1200)]
    for name, rows in (("events", events), ("labels", labels)):
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return events_of(folder / "events.jsonl"), str(folder / "labels.jsonl")


def test_labels_that_are_joined_are_checked(tmp_path):
    events, labels = label_logs(tmp_path)
    run = replay_log(Joined(events, labels, joined("id")), LEARNER, baseline=False)
    assert "events.jsonl, line 1101: `y` is 2.5" in run.error
    assert run.events == 1100


def test_labels_that_come_late_are_checked(tmp_path):
    events, labels = label_logs(tmp_path)
    run = replay_log(events, LEARNER, baseline=False, delay=ByLabels(labels, joined("id"), "at"))
    assert "labels.jsonl, line 1101: `y` is 2.5" in run.error
    assert run.events == 1100


def test_training_ends_at_a_fraction(tmp_path):
    path = csv_log(tmp_path, FRACTION)
    arguments = ["train", str(path), "--target", "y", "--learner", "kaczmarz", "--workers", "1"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2
    assert "line 1502: `y` is 2.5, but classification was inferred" in " ".join(done.stderr.split())
    for task in ("classification", "regression"):
        assert CliRunner().invoke(app, [*arguments, "--task", task]).exit_code == 0


def test_labels_are_checked_one_by_one_as_at_once():
    for targets in (FRACTION, MANY, ["1", "1.0", "2.5"], [True, False], [None]):
        first = InferredLabels("y").first_wrong(targets)
        slow = InferredLabels("y")
        rows = (row for row, target in enumerate(targets) if slow.first_wrong([target]) is not None)
        assert next(rows, None) == first
