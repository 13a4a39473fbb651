import json
import re

import numpy as np
import pytest
from river import datasets, metrics

import streamk
from connectors.files.log import ReplayLog
from connectors.replay.progress import Scoring
from connectors.replay.run import replay_log
from streamk.evaluation import DelayByTime
from tests.references import late_loop


@pytest.fixture
def bananas(tmp_path):
    path = tmp_path / "bananas.jsonl"
    lines = [json.dumps({**x, "y": y}) for x, y in datasets.Bananas().take(2500)]
    path.write_text("\n".join(lines))
    return path


def log(tmp_path, rows, **options):
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return ReplayLog(path, "y", **options)


def test_a_replay_is_a_river_loop(bananas):
    run = replay_log(ReplayLog(bananas, "y"), "kaczmarz", parameters={"seed": 7, "features": 128})
    learner = streamk.KaczmarzClassifier(seed=7, features=128)
    accuracy, kappa, loss = metrics.Accuracy(), metrics.CohenKappa(), metrics.LogLoss()
    for x, y in datasets.Bananas().take(2500):
        p = learner.predict_proba_one(x)
        if p:
            loss.update(y, p)
        accuracy.update(y, learner.predict_one(x))
        kappa.update(y, learner.predict_one(x))
        learner.learn_one(x, y)
    assert run.learner.to_bytes() == learner.to_bytes()
    results = run.results()
    result = results.metrics("kaczmarz")
    assert result["accuracy"] == pytest.approx(accuracy.get(), abs=1e-6)
    assert result["kappa"] == pytest.approx(kappa.get(), abs=2e-3)
    assert result["log_loss"] == pytest.approx(loss.get(), abs=1e-6)
    assert results.events == 2500
    assert results.ranking() == ["kaczmarz", "majority class", "linear model", "last value"]


@pytest.mark.parametrize("delay", [1, 100, 5000])
def test_late_labels_are_a_loop_too(bananas, delay):
    run = replay_log(
        ReplayLog(bananas, "y"), "kaczmarz", parameters={"seed": 7, "features": 128}, limit=1500, delay=delay
    )
    learner = streamk.KaczmarzClassifier(seed=7, features=128)
    accuracy, events = metrics.Accuracy(), list(datasets.Bananas().take(1500))
    said = late_loop(learner.predict_one, learner.learn_one, events, delay)
    for (_, y), label in zip(events, said, strict=True):
        accuracy.update(y, label)
    assert run.results().metrics("kaczmarz")["accuracy"] == pytest.approx(accuracy.get(), abs=1e-6)
    assert not run.contest.waiting
    assert (run.events, run.learner.events) == (1500, 1500)


def test_a_delay_that_is_none(bananas):
    with pytest.raises(ValueError, match="delay is -1; it must be a whole number"):
        replay_log(ReplayLog(bananas, "y"), delay=-1)


@pytest.mark.parametrize("strict", [True, False])
def test_a_late_label_that_is_bad_is_named_by_its_line(tmp_path, strict):
    rows = [{"a": float(i), "y": 5 if i == 3 else "uv"[i % 2]} for i in range(2300)]
    run = replay_log(log(tmp_path, rows), task="classification", delay=1200, strict=strict)
    said = run.error if strict else run.examples[0]
    assert "line 4: the label is 5" in said
    assert (run.events, run.refused) == ((3, 0) if strict else (2299, 1))
    assert run.learner.events == run.events


@pytest.mark.parametrize("strict", [True, False])
def test_a_late_target_that_is_refused_costs_no_other_event(tmp_path, strict):
    """What would have been counted, had it never been: targets come a second after their events."""
    rows = [{"t": float(i), "a": float(i % 4), "y": 1e300 if i in (3, 8) else float(i)} for i in range(10)]
    run = replay_log(
        log(tmp_path, rows),
        "kaczmarz",
        "regression",
        baseline=False,
        delay=DelayByTime("t", 1),
        strict=strict,
    )
    if strict:
        assert "line 4: the target is" in run.error
        assert (run.events, run.refused) == (3, 0)
        return
    assert (run.events, run.refused, run.learner.events, run.contest.waiting) == (8, 2, 8, 0)
    assert ["line 4" in run.examples[0], "line 9" in run.examples[1]] == [True, True]


def bananas_by_time(tmp_path):
    """Return a log of events a second apart."""
    rows = [{**x, "t": float(i), "y": y} for i, (x, y) in enumerate(datasets.Bananas().take(2500))]
    return log(tmp_path, rows)


@pytest.mark.parametrize("delay", [DelayByTime("t", 1e6), DelayByTime("t", 300.0), 300])
def test_events_come_in_chunks_however_many_wait(tmp_path, delay):
    seen = []
    run = replay_log(
        bananas_by_time(tmp_path), "kaczmarz:features=64", baseline=False, delay=delay,
        watch=lambda run: seen.append(run.contest.waiting),
    )  # fmt: skip
    assert len(seen) == 5  # three chunks, one of them cut at three quarters, and the end
    assert (run.events, run.contest.waiting) == (2500, 0)


def test_lines_at_powers_of_two_are_those_of_a_count(tmp_path):
    """A second is an event here: by either, the same is scored, and shown."""
    shown = [
        replay_log(
            bananas_by_time(tmp_path), "kaczmarz:features=64,seed=1", baseline=False, delay=delay
        ).doublings
        for delay in (300, DelayByTime(lambda x: x["t"], 300.5))
    ]
    assert [point.events for point in shown[0]] == [*(2**k for k in range(12)), 2500]
    assert shown[1] == shown[0]


def test_regression(tmp_path):
    rng = np.random.default_rng(0)
    rows = [{"a": a, "y": float(np.sin(2 * a) * 10 + 50)} for a in rng.normal(size=1500).tolist()]
    run = replay_log(log(tmp_path, rows), parameters={"seed": 1})
    results = run.results()
    ours, line = (results.metrics(name) for name in (run.names[0], "linear model"))
    assert run.task == "regression"
    assert ours["r2"] > 0.8 > line["r2"]
    assert ours["rmse"] >= ours["mae"] > 0


@pytest.mark.parametrize(
    ("targets", "task"),
    [
        (["a", "b"], "classification"),
        ([True, False], "classification"),
        ([1, 2, 3], "classification"),
        (["1", "2"], "classification"),
        ([1.5, 2.0], "regression"),
        (["1.5", "2.0"], "regression"),
        (list(range(30)), "regression"),
    ],
)
def test_the_task_is_inferred_from_the_targets(tmp_path, targets, task):
    rows = [{"a": 1.0, "y": y} for y in targets]
    assert replay_log(log(tmp_path, rows), baseline=False).task == task


def test_windows_fit_the_log(tmp_path):
    rows = [{"a": k % 7, "y": k % 2 == 0} for k in range(1500)]
    for limit, windows in ((None, 30), (400, 40)):
        run = replay_log(log(tmp_path, rows), "kaczmarz", baseline=False, limit=limit)
        assert len(run.results().windows("kaczmarz").rows) == windows


def test_the_curves(bananas):
    parameters = {"seed": 7, "features": 64}
    run = replay_log(
        ReplayLog(bananas, "y"), "kaczmarz", parameters=parameters, limit=2100, scoring=Scoring(1000)
    )
    assert [p.events for p in run.doublings] == [*(2**i for i in range(12)), 2100]
    windows = run.results().windows("kaczmarz")
    assert len(windows.rows) == len(windows.cumulative) == 2
    recent = windows.rows[:, windows.columns.index("accuracy")]
    assert windows.cumulative[1] == pytest.approx(recent.mean())
    last = run.doublings[-1]
    assert last.overall[0] * 2100 == pytest.approx(run.doublings[-2].overall[0] * 2048 + last.recent[0] * 52)


def test_chunks_do_not_show(bananas, monkeypatch):
    from connectors.replay import run as module

    whole = replay_log(ReplayLog(bananas, "y"), parameters={"seed": 7}).results().to_dict()
    monkeypatch.setattr(module, "CHUNK", 37)
    assert replay_log(ReplayLog(bananas, "y"), parameters={"seed": 7}).results().to_dict() == whole


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"a": 1e300, "y": "u"}, "line 3: field 'a' is 1e\\+300"),
        ({"a": 1.0, "y": 5}, "line 3: the label is 5"),
        ({"a": 1.0, "y": ["u"]}, "line 3: 'y' is a list"),
    ],
)
@pytest.mark.parametrize("chunk", [1, 2, 1000])
@pytest.mark.parametrize("strict", [True, False])
def test_a_bad_record_is_named_by_its_line(tmp_path, monkeypatch, row, message, chunk, strict):
    """It ends a strict replay, and is counted by others, which go on."""
    from connectors.replay import run as module

    monkeypatch.setattr(module, "CHUNK", chunk)
    rows = [{"a": 1.0, "y": "u"}, {"a": 2.0, "y": "v"}, row, {"a": 3.0, "y": "u"}]
    source = log(tmp_path, rows, strict=strict)
    run = replay_log(source, task="classification", strict=strict)
    assert run.events == run.learner.events == (2 if strict else 3)
    if strict:
        assert re.search(message, run.error)
    else:
        assert run.refused + source.unreadable == 1
        assert re.search(message, [*source.examples, *run.examples][0])
        assert not run.error


def test_a_bad_first_record_is_an_error(tmp_path):
    for strict in (True, False):
        with pytest.raises(ValueError, match="line 1: field 'a' is 1e\\+300"):
            replay_log(log(tmp_path, [{"a": 1e300, "y": "u"}]), strict=strict)


def test_a_target_that_is_not_a_number(tmp_path):
    run = replay_log(log(tmp_path, [{"a": 1, "y": 1.5}, {"a": 1, "y": "x"}]), task="regression", strict=True)
    assert "line 2: the target 'y' is 'x', not a number" in run.error


def test_unknown_names(tmp_path):
    with pytest.raises(ValueError, match="learner forest: no such learner; use kernel, kaczmarz"):
        replay_log(log(tmp_path, [{"y": 1}]), "forest", "classification")


def test_blocks_wait_and_are_reported(bananas):
    run = replay_log(
        ReplayLog(bananas, "y"),
        "kaczmarz",
        parameters={"block_size": 64, "seed": 1},
        limit=1000,
        baseline=False,
    )
    assert run.learner.pending == 1000 % 64


@pytest.mark.parametrize(
    ("labels", "classes"),
    [(["0", "1", "0.0", "1.0", "1e0"], ["0", "1"]), (["1", "1.0", "up", "01", " 1"], ["1", "up", "01"])],
)
def test_labels_of_csv_that_are_one_number_are_one_class(tmp_path, labels, classes):
    path = tmp_path / "log.csv"
    path.write_text("a,y\n" + "".join(f"{i},{y}\n" for i, y in enumerate(labels)))
    run = replay_log(ReplayLog(path, "y"), task="classification", parameters={"seed": 1})
    assert list(run.learner.predict_proba_one({"a": 1.0})) == classes


def test_a_parameter_that_only_the_other_task_has(bananas):
    for task in ("classification", None):
        with pytest.raises(ValueError, match=r"parameters\.quantile: \w+ has no such parameter; use kernel"):
            replay_log(ReplayLog(bananas, "y"), "doubly-stochastic", task, {"quantile": "0.5"})


def test_the_field_of_slices_must_exist(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("a,day,y\n" + "1,mo,u\n2,tu,v\n" * 50)
    with pytest.raises(ValueError, match=r"--by dya: there is no such field; did you mean day"):
        replay_log(ReplayLog(path, "y"), "kaczmarz", scoring=Scoring(by="dya"))
    run = replay_log(ReplayLog(path, "y"), "kaczmarz", scoring=Scoring(by="day"))
    assert run.events == 100
