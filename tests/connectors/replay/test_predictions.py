"""Every prediction of a replay in a file, from which an independent script computes the figures again."""

import ast
import contextlib
import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from connectors.files.log import ReplayLog
from connectors.replay.progress import ReplayCheckpoint, Scoring
from connectors.replay.run import replay_log
from connectors.replay.writing import PredictionWriter, write
from streamk.evaluation.contest import Scored

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))
import recompute  # a script, which is no package

SCRIPT = Path(recompute.__file__)
LEARNER = "kaczmarz:features=32,seed=1"
ROWS = 4600


def log_of(path, task, classes=2, rows=ROWS):
    """A log with a field of strings that are sometimes missing, and one of numbers of many values."""
    rng = np.random.default_rng(3)
    a = rng.normal(size=(rows, 2))
    if task == "classification":
        y = (np.digitize(a[:, 0], np.linspace(-1, 1, classes - 1)) + (rng.random(rows) < 0.1)) % classes
        target = [f"c{k}" for k in y]
    else:
        target = [repr(value) for value in (3 * a[:, 0] + rng.normal(size=rows)).tolist()]
    day = [("Monday", "", "Sunday")[k] for k in rng.integers(0, 3, rows)]
    fields = zip(a.tolist(), day, target, strict=True)
    lines = [f"{x0!r},{x1!r},{when},{y}" for (x0, x1), when, y in fields]
    path.write_text("a,b,day,y\n" + "\n".join(lines) + "\n")
    return path


def scored(
    folder,
    task,
    classes=2,
    delay=0,
    by=None,
    level=None,
    learners=LEARNER,
    baseline="full",
    rows=ROWS,
    metric=None,
):
    """Replay a log into a folder, and return its predictions and results."""
    log = ReplayLog(log_of(folder / "log.csv", task, classes, rows), "y")
    scoring = Scoring(by=by, level=level, predictions=folder / "p.jsonl", metric=metric)
    run = replay_log(log, learners, delay=delay, scoring=scoring, baseline=baseline)
    write(folder, run, log, ["streamk"], {})
    return folder / "p.jsonl", folder / "results.json"


def run_script(predictions, results):
    """The exit code of the script, and what it prints."""
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.setattr(sys, "argv", [str(SCRIPT), str(predictions), str(results)])
        with pytest.raises(SystemExit) as end:
            recompute.main()
    return int(end.value.code), printed.getvalue().splitlines()


def change_the_last(predictions, change):
    """Change the last line of a file of predictions."""
    lines = predictions.read_text().splitlines()
    row = json.loads(lines[-1])
    change(row)
    predictions.write_text("\n".join([*lines[:-1], json.dumps(row)]) + "\n")


LOGS = {
    "two classes": {"task": "classification"},
    "four classes": {"task": "classification", "classes": 4},
    "slices of strings": {"task": "classification", "by": "day"},
    "slices of numbers": {"task": "classification", "classes": 3, "by": "b"},
    "late labels": {"task": "classification", "delay": 3, "by": "day"},
    "many classes": {"task": "classification", "classes": 24, "baseline": "quick"},
    "regression": {"task": "regression", "by": "day"},
    "late numbers": {"task": "regression", "delay": 3, "by": "b"},
    "intervals": {"task": "regression", "level": 0.8, "learners": "kernel", "by": "day", "rows": 2300},
    "late intervals": {"task": "regression", "level": 0.8, "learners": "kernel", "delay": 5, "rows": 1200},
    "AUC": {"task": "classification", "classes": 3, "metric": "auc", "baseline": "quick", "rows": 1300},
    "log loss": {"task": "classification", "metric": "log_loss", "baseline": "quick", "rows": 1300},
    "R²": {"task": "regression", "metric": "r2", "delay": 3, "baseline": "quick", "rows": 1300},
}
USUAL = ["four classes", "slices of numbers", "late labels", "late numbers", "late intervals"]
USUAL += ["AUC", "R²"]


@pytest.mark.parametrize(
    "name", [name if name in USUAL else pytest.param(name, marks=pytest.mark.long) for name in LOGS]
)
def test_every_figure_is_recomputed_and_one_changed_prediction_is_noticed(tmp_path, name):
    how = LOGS[name]
    predictions, results = scored(tmp_path, **how)
    assert run_script(predictions, results) == (0, ["every figure is the same"])
    found = json.loads(results.read_text())
    assert found["frozen"] is not None
    rows = list(map(json.loads, predictions.read_text().splitlines()))
    assert [row["line"] for row in rows] == [row["event"] + 1 for row in rows]
    first = rows[0]
    assert ("intervals" in first) == ("level" in how)
    learner = how.get("learners", LEARNER)

    def change(row):
        if how["task"] == "regression":
            row["predictions"][learner] += 1.0
        else:
            odd = next(label for label in found["labels"] if label != row["target"])
            row["predictions"][learner] = {odd: 1.0}

    change_the_last(predictions, change)
    code, odd = run_script(predictions, results)
    assert code == 1
    for metric in ("rmse",) if how["task"] == "regression" else ("log_loss", "calibration_error"):
        assert any(each.startswith(f"{learner}, {metric}: ") for each in odd), odd
    if "by" in how:
        assert any(each.startswith(f"{learner}, {how['by']} ") for each in odd), odd


def test_the_script_runs_without_the_packages(tmp_path):
    """As a program in another directory, with its exit code."""
    predictions, results = scored(tmp_path, "classification", baseline="quick", rows=300)
    command = [sys.executable, "-P", "-W", "error", SCRIPT, predictions, results]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "every figure is the same\n", "")
    change_the_last(predictions, lambda row: row.update(target="c1" if row["target"] == "c0" else "c0"))
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    assert f"{LEARNER}, accuracy: " in done.stdout


def test_a_changed_verdict_is_noticed(tmp_path):
    predictions, results = scored(tmp_path, **LOGS["two classes"])
    found = json.loads(results.read_text())
    pair = next(pair for pair in found["comparisons"] if pair["sure_since"])
    name = f"{pair['first']} versus {pair['second']}"
    for key in ("low", "high", "p", "sure_since", "ahead_since"):
        holder = pair["advantage"] if key in pair["advantage"] else pair
        before = holder[key]
        holder[key] = before + 0.25
        results.write_text(json.dumps(found))
        code, odd = run_script(predictions, results)
        assert (code, [each.partition(": ")[0] for each in odd]) == (1, [f"{name}, {key}"])
        holder[key] = before


def test_a_changed_interval_slice_or_window_is_noticed(tmp_path):
    predictions, results = scored(tmp_path, **LOGS["intervals"])
    whole = predictions.read_text()

    def wider(row):
        row["intervals"]["kernel"][1] += 100.0

    def another_day(row):
        row["by"] = "Monday" if row["by"] is None else None

    change_the_last(predictions, wider)
    code, odd = run_script(predictions, results)
    assert code == 1
    assert any(each.startswith("kernel, width: ") for each in odd)
    assert not any("mae" in each for each in odd)
    predictions.write_text(whole)
    change_the_last(predictions, another_day)
    code, odd = run_script(predictions, results)
    assert code == 1
    assert all(", day " in each for each in odd)
    predictions.write_text(whole)
    curve = pd.read_parquet(tmp_path / "curve.parquet")
    curve.loc[(curve["contender"] == "kernel") & (curve["events"] == 2000), "coverage"] += 1e-6
    curve.to_parquet(tmp_path / "curve.parquet")
    code, odd = run_script(predictions, results)
    assert code == 1
    assert [each.split(": ")[0] for each in odd] == ["kernel, window to event 2,000, coverage"]


def test_a_changed_figure_is_named(tmp_path):
    predictions, results = scored(tmp_path, "classification", by="day", baseline="quick")
    found = json.loads(results.read_text())
    contender = found["contenders"][0]
    contender["metrics"]["calibration_error"] += 1e-6
    contender["slices"][1]["metrics"]["brier"] += 1e-6
    contender["classes"]["confusion"][0][1] += 1
    contender["calibration"]["events"][3] += 1
    results.write_text(json.dumps(found))
    assert [each.split(": ")[0] for each in recompute.differences(predictions, results)] == [
        f"{LEARNER}, calibration_error",
        f"{LEARNER}, confusion of {found['labels'][0]} with {found['labels'][1]}",
        f"{LEARNER}, calibration bin 4, events",
        f"{LEARNER}, day {contender['slices'][1]['value']}, brier",
    ]


def test_the_script_imports_nothing_of_streamk():
    names = [
        name
        for node in ast.walk(ast.parse(SCRIPT.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [node.module] if isinstance(node, ast.ImportFrom) else [each.name for each in node.names]
        )
    ]
    assert names
    assert not {name.split(".")[0] for name in names} & {"streamk", "connectors"}


def test_lines_of_a_batch_belong_to_its_events_also_when_it_is_scored_in_parts(tmp_path):
    file = PredictionWriter(tmp_path / "p.jsonl", ["a"], classes=False)
    for first, targets, lines in ((1, [1.0, 2.0], [12, 17]), (3, [3.0], [20])):
        places = [("log.csv", line) for line in lines]
        file.add(Scored(None, targets, {"a": np.array(targets)}, {}, None, None, first, places))
    file.close()
    rows = list(map(json.loads, (tmp_path / "p.jsonl").read_text().splitlines()))
    assert [(row["event"], row["line"], row["target"]) for row in rows] == [
        (1, 12, 1),
        (2, 17, 2),
        (3, 20, 3),
    ]


@pytest.mark.parametrize("delay", [0, 3])
def test_a_table_of_predictions_has_the_ends_of_intervals_and_the_field_of_slices(tmp_path, delay):
    log = log_of(tmp_path / "log.csv", "regression", rows=300)
    options = {"delay": delay, "baseline": "quick"}
    for file in ("p.csv", "p.jsonl"):
        scoring = Scoring(by="day", level=0.9, predictions=tmp_path / file)
        replay_log(ReplayLog(log, "y"), "kernel", scoring=scoring, **options)
    table = pd.read_csv(tmp_path / "p.csv")
    assert list(table)[:7] == [
        "event",
        "line",
        "by: day",
        "target",
        "kernel",
        "kernel: lower",
        "kernel: upper",
    ]
    assert not any(name.startswith("last value:") for name in table)
    rows = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    ends = [row["intervals"].get("kernel", [np.nan, np.nan]) for row in rows]
    np.testing.assert_array_equal(table[["kernel: lower", "kernel: upper"]], ends)
    values = [row["predictions"]["kernel"] for row in rows]
    assert all(low < value < high for value, (low, high) in zip(values[50:], ends[50:], strict=True))
    assert table["by: day"].fillna("").tolist() == [row["by"] or "" for row in rows]
    assert [row["line"] for row in rows] == [row["event"] + 1 for row in rows]


class Stop:
    """Presses Ctrl-C after some events, once a checkpoint is due."""

    def __init__(self, after):
        self.after = after

    def __call__(self, run):
        if run.events >= self.after:
            raise KeyboardInterrupt


@pytest.mark.parametrize("suffix", [".jsonl", ".csv"])
def test_an_interrupted_file_ends_with_the_same_bytes(tmp_path, suffix):
    path = log_of(tmp_path / "log.csv", "classification")
    whole = tmp_path / f"whole{suffix}"
    replay_log(ReplayLog(path, "y"), LEARNER, scoring=Scoring(predictions=whole))
    for after in (1000, 3000, 10**9):
        keep = ReplayCheckpoint(tmp_path / "kept", {})
        keep.due = lambda: True
        parts = tmp_path / f"parts{suffix}"
        try:
            replay_log(
                ReplayLog(path, "y"),
                LEARNER,
                scoring=Scoring(predictions=parts),
                checkpoint=keep,
                watch=Stop(after),
            )
        except KeyboardInterrupt:
            with parts.open("ab") as file:
                file.write(b"what was written after the checkpoint")
    assert parts.read_bytes() == whole.read_bytes()
    assert len(whole.read_text().splitlines()) == ROWS + (suffix == ".csv")
    parts.write_bytes(b"")
    with pytest.raises(ValueError, match="is shorter than when the replay was interrupted"):
        replay_log(
            ReplayLog(path, "y"),
            LEARNER,
            scoring=Scoring(predictions=parts),
            checkpoint=ReplayCheckpoint(tmp_path / "kept", {}),
        )
