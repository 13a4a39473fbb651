"""Protocols of a replay: when labels come, next to a loop that does the same."""

import csv
import functools
import itertools
import json
import os

import numpy as np
import pytest

import streamk
from connectors.files.log import ReplayLog
from connectors.replay.contenders import MajorityClass, RunningMean
from connectors.replay.progress import ReplayCheckpoint, Scoring
from connectors.replay.run import replay_log
from streamk.evaluation import Contest, DelayByChunks
from tests import processes
from tests.connectors.replay.test_checkpoint import Stop

ROWS, LIGHT = 610, "kaczmarz:features=64,seed=1"
REFIT = "refit:sklearn.tree.DecisionTree"
command = functools.partial(processes.run, "replay")


@pytest.fixture(params=["classification", "regression"])
def task(request):
    return request.param


def events(task):
    rng = np.random.default_rng(4)
    for _ in range(ROWS):
        a, b = rng.normal(size=2).round(3).tolist()
        x = {"a": a, "b": b, "kind": "pqr"[rng.integers(3)]}
        yield x, a * b + (x["kind"] == "p") if task == "regression" else "uvw"[int(a > 0) + int(b > a)]


@pytest.fixture
def log(task, tmp_path):
    path = tmp_path / "log.csv"
    with path.open("w") as file:
        writer = csv.writer(file)
        writer.writerow(["a", "b", "kind", "y"])
        writer.writerows([*x.values(), y] for x, y in events(task))
    return path


def in_chunks(model, task):
    """Return what a loop over twentieths predicts, and the targets."""
    xs, ys = map(list, zip(*events(task), strict=True))
    cuts = np.linspace(0, ROWS, 21).astype(int)
    model.learn_many(xs[: cuts[1]], ys[: cuts[1]])
    predicted = []
    for a, b in itertools.pairwise(cuts[1:]):
        predicted += model.predict_many(xs[a:b])
        model.learn_many(xs[a:b], ys[a:b])
    return np.array(predicted), np.array(ys[cuts[1] :])


def test_chunks_are_a_loop(log, task):
    done = command(log, "--target", "y", "--protocol", "chunks", "--learner", LIGHT, "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["labels"] == "labels come " + str(DelayByChunks(ROWS))
    assert (result["events"], result["rows"]) == (ROWS - 30, ROWS)
    name = "KaczmarzRegressor" if task == "regression" else "KaczmarzClassifier"
    predicted, targets = in_chunks(getattr(streamk, name)(features=64, seed=1), task)
    metrics = result["contenders"][LIGHT]
    if task == "classification":
        assert metrics["accuracy"] == pytest.approx((predicted == targets).mean(), abs=1e-12)
    else:
        errors = ((predicted - targets) ** 2).sum() / ((targets - targets.mean()) ** 2).sum()
        assert metrics["r2"] == pytest.approx(1.0 - errors, abs=1e-9)


def test_chunks_of_models_that_predict_row_by_row(log, task):
    run = replay_log(ReplayLog(log, "y"), LIGHT, task, delay=DelayByChunks(ROWS))
    model = RunningMean() if task == "regression" else MajorityClass()
    pairs, cuts = list(events(task)), np.linspace(0, ROWS, 21).astype(int)
    correct, error = 0, 0.0
    for a, b in itertools.pairwise(cuts):
        for x, y in pairs[a:b] if a else ():
            answer = model.predict(x)
            if task == "regression":
                error += abs(answer - y)
            else:
                correct += max(answer, key=answer.get) == y
        for x, y in pairs[a:b]:
            model.learn(x, y)
    if task == "regression":
        mean = run.results().metrics("running mean")["mae"]
        assert mean == pytest.approx(error / (ROWS - cuts[1]), abs=1e-12)
    else:
        assert run.results().metrics("majority class")["accuracy"] == correct / (ROWS - cuts[1])


def test_a_checkpoint_and_predictions_in_chunks(log, task, tmp_path):
    level = None if task == "classification" else 0.9
    names = [LIGHT, REFIT + ("Regressor" if task == "regression" else "Classifier")]

    def replayed(name, checkpoint=None, watch=lambda run: None):
        return replay_log(
            ReplayLog(log, "y"), names, task, limit=ROWS, delay=DelayByChunks(ROWS), watch=watch,
            checkpoint=checkpoint, scoring=Scoring(100, "kind", level, tmp_path / name),
        )  # fmt: skip

    whole = replayed("whole.jsonl")
    for stop in (0, 100, 300, 10**9):
        run = replayed("parts.jsonl", ReplayCheckpoint(tmp_path / "kept", {}), Stop(stop))
    assert run.results().to_dict() == whole.results().to_dict()
    assert run.doublings == whole.doublings
    assert len(whole.doublings) == 19
    assert (tmp_path / "parts.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    lines = [json.loads(line) for line in (tmp_path / "whole.jsonl").read_text().splitlines()]
    assert [line["line"] for line in lines] == list(range(32, ROWS + 2))
    if task == "classification":
        labels = [y for _, y in events(task)]
        cuts = np.linspace(0, ROWS, 21).astype(int)
        last = [labels[cuts[cuts <= k].max() - 1] for k in range(30, ROWS)]
        assert [line["last"] for line in lines] == last


@pytest.mark.parametrize("task", ["regression"], indirect=True)
def test_rejected_rows_in_chunks(log, task):
    """The rows that a learner cannot learn are named, and change no other prediction."""
    lines = log.read_text().splitlines()
    for number in (50, 51, 300):
        lines[number] = "1e300," + lines[number].split(",", 1)[1]
    log.write_text("\n".join(lines))
    run = replay_log(ReplayLog(log, "y"), LIGHT, task, delay=DelayByChunks(ROWS))
    assert (run.refused, run.events) == (3, ROWS - 33)
    assert [str(each).split(":")[0].rsplit(" ", 1)[1] for each in run.examples] == ["51", "52", "301"]
    with pytest.raises(ValueError, match="line 51"):  # no event was scored before
        replay_log(ReplayLog(log, "y"), LIGHT, task, delay=DelayByChunks(ROWS), strict=True)


@pytest.mark.parametrize(("protocol", "delay"), [("prompt", None), ("100", "100"), ("1000", "1000")])
@pytest.mark.parametrize("task", ["regression"], indirect=True)
def test_protocols_by_number(log, task, protocol, delay):
    options = [log, "--target", "y", "--learner", LIGHT, "--json"]
    first = json.loads(command(*options, "--protocol", protocol).stdout)
    second = json.loads(command(*options, *(["--delay", delay] if delay else [])).stdout)
    for result in (first, second):
        del result["recommendation"]  # which names times
        for contender in result["contenders"].values():
            del contender["events_per_second"]
    assert first == second
    late = f"{int(delay):,} events late" if delay else "before the next event"
    assert first["labels"] == f"labels come {late}"


@pytest.mark.parametrize(("late", "seconds"), [("1d", 86400), ("90m", 5400)])
def test_labels_are_late_by_a_time_with_its_unit(tmp_path, late, seconds):
    path = tmp_path / "log.csv"
    rows = [f"2024-01-{1 + k // 24:02}T{k % 24:02}:00,{k % 7},{k % 7 + k // 24}" for k in range(100)]
    path.write_text("\n".join(["at,a,y", *rows]))
    options = [path, "--target", "y", "--time", "at", "--learner", LIGHT, "--task", "regression", "--json"]
    first, second = (json.loads(command(*options, "--delay", delay).stdout) for delay in (late, str(seconds)))
    assert first["labels"] == second["labels"] == {
        "1d": "labels come 1 day late by at", "90m": "labels come 90 minutes late by at"
    }[late]  # fmt: skip
    (one, _, *_), (other, _, *_) = (list(each["contenders"].values()) for each in (first, second))
    assert one["mae"] == other["mae"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--delay", "1d"], "--delay 1d: a time needs --time FIELD, which says when an event was"),
        (["--delay", "1w", "--time", "a"], "--delay 1w: it is a number of events, or with --time a time, as"),
        (["--delay", "d"], "--delay d: it is a number of events"),
        (["--delay", "1.5"], "--delay 1.5: it is a whole number of events"),
    ],
)
@pytest.mark.parametrize("task", ["regression"], indirect=True)
def test_wrong_delays_are_named(log, task, options, sentence):
    done = command(log, "--target", "y", "--learner", LIGHT, *options)
    assert done.returncode == 2
    assert sentence in " ".join(done.stderr.split())


def test_a_refitted_model_by_time(tmp_path):
    path = tmp_path / "log.csv"
    rows = [f"2024-01-{1 + k // 24:02}T{k % 24:02}:00,{k % 7},{k % 7 + k // 24}" for k in range(200)]
    path.write_text("\n".join(["at,a,y", *rows]))
    learner = f"{REFIT}Regressor,every=1d"
    done = command(
        path, "--target", "y", "--time", "at", "--learner", learner, "--task", "regression", "--json"
    )
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)["contenders"]
    assert results[learner]["model_bytes"] > 8 * 200
    assert results[learner]["mae"] < results["running mean"]["mae"]
    done = command(path, "--target", "y", "--learner", learner, "--save", tmp_path / "m")
    assert (done.returncode, "--time" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--protocol", "100", "--delay", "0"], "--protocol and --delay exclude each other"),
        (["--protocol", "chunk"], "--protocol chunk: no such protocol; did you mean chunks?"),
        (["--protocol", "100", "--time", "a"], "--protocol 100: with --time, labels come by that clock"),
        (
            ["--protocol", "prompt", "--time", "a"],
            "--protocol prompt: with --time, labels come by that clock",
        ),
    ],
)
@pytest.mark.parametrize("task", ["regression"], indirect=True)
def test_what_excludes_protocols(log, task, options, sentence):
    done = command(log, "--target", "y", *options)
    assert done.returncode == 2
    assert sentence in " ".join(done.stderr.split())


def test_chunks_of_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in ("-", tmp_path / "pipe"):
        done = command(path, "--target", "y", "--protocol", "chunks")
        assert done.returncode == 2
        assert f"--protocol chunks: {path} is a pipe, which cannot be read again" in done.stderr


def test_intervals_of_a_chunk_are_around_its_predictions():
    """Predictions for hundreds of events without a label have weights of stale experts; so have intervals."""
    rng = np.random.default_rng(5)
    xs = [{"a": float(a)} for a in rng.normal(size=1200)]
    ys = [3.0 * x["a"] + float(e) for x, e in zip(xs, rng.normal(size=1200), strict=True)]
    scored = []
    contest = Contest({"it": streamk.KernelRegressor(seed=1)}, "regression", level=0.9)
    contest.listener = lambda part: scored.append(part.intervals["it"])
    late = DelayByChunks(1200, 3)
    for x, y in zip(xs, ys, strict=True):
        late.event(contest, x, y)
    late.end(contest)
    plain = streamk.KernelRegressor(seed=1)
    for start, (lower, upper) in zip((400, 800), scored, strict=True):
        plain.learn_many(xs[start - 400 : start], ys[start - 400 : start])
        plain.predict_many(
            xs[start : start + 400]
        )  # as the contest does, which counts events without a label
        expected = plain.predict_interval_many(xs[start : start + 400], 0.9)
        np.testing.assert_allclose(lower, [each["lower"] for each in expected], rtol=1e-9)
        np.testing.assert_allclose(upper, [each["upper"] for each in expected], rtol=1e-9)
