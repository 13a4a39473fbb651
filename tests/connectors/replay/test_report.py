import io
import json

import pytest
from rich.console import Console

from connectors.files.log import ReplayLog
from connectors.replay import report
from connectors.replay.page.words import decimal
from connectors.replay.progress import Scoring
from connectors.replay.run import replay_log


def small(tmp_path, target):
    path = tmp_path / "log.jsonl"
    rows = [{"a": float(i % 7), "y": target(i)} for i in range(2100)]
    path.write_text("\n".join(map(json.dumps, rows)))
    return replay_log(ReplayLog(path, "y"), "kaczmarz", parameters={"seed": 1, "features": 32})


def test_the_picture(tmp_path):
    runs = {
        "classes": small(tmp_path, lambda i: "uv"[i % 7 > 3]),
        "numbers": small(tmp_path, lambda i: i % 7 + 0.5),
    }
    path = tmp_path / "curves.png"
    report.plot(runs, path)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert path.stat().st_size > 10_000


def test_the_lines(tmp_path):
    out = io.StringIO()
    run = small(tmp_path, lambda i: f"a label much longer than a column {i % 2}")
    with report.lines(Console(file=out, width=60)) as watch:
        watch(run)
        watch(run)
    lines = out.getvalue().splitlines()
    assert len(lines) == 14
    assert [line.split()[0] for line in lines[-2:]] == ["2,048", "2,100"]
    assert "a label muc…" in lines[-1]


def test_the_summary_says_what_waits_and_what_was_interrupted(tmp_path):
    run = small(tmp_path, lambda i: "uv"[i % 2])
    run.interrupted = True
    learner = run.learner.clone({"block_size": 8})
    learner.learn_one({"a": 1.0}, "u")
    run.contest.models["kaczmarz"] = learner
    out = io.StringIO()
    report.summary(run, Console(file=out, width=100))
    assert "1 events wait for their block" in out.getvalue()
    assert "interrupted after 2,100 events" in out.getvalue()


@pytest.mark.parametrize("delay", [0, 20])
@pytest.mark.parametrize(
    ("target", "title"),
    [(lambda i: "uv"[i % 7 > 3], "accuracy by day"), (lambda i: 20_000.5 + i % 7, "MAE by day")],
)
def test_the_summary_has_the_headline_metric_of_every_slice(tmp_path, target, title, delay):
    path = tmp_path / "log.jsonl"
    days = ("Monday", "Tuesday", None)
    rows = [{"a": float(i % 7), "day": days[i % 3], "y": target(i)} for i in range(2100)]
    path.write_text("\n".join(map(json.dumps, rows)))
    run = replay_log(ReplayLog(path, "y"), "kaczmarz:features=32", scoring=Scoring(by="day"), delay=delay)
    out = io.StringIO()
    report.summary(run, Console(file=out, width=140))
    text = out.getvalue()
    assert title in text
    table = [line.split("│")[1:-1] for line in text[text.index(title) :].splitlines() if "│" in line]
    shown = {value.strip(): [cell.strip() for cell in cells] for value, *cells in table}
    assert shown.keys() == {"Monday", "Tuesday", "(missing)"}
    results = run.results()
    for value, (events, *metrics) in shown.items():
        assert int(events) == results.slices(run.names[0])[value][0] == 700
        assert metrics == [decimal(results.slices(name)[value][1]) for name in run.names]


def test_numbers_of_the_terminal_have_separators(tmp_path):
    run = small(tmp_path, lambda i: 1_000_000.5 * (i % 7))
    out = io.StringIO()
    console = Console(file=out, width=140)
    with report.lines(console) as watch:
        watch(run)
    report.summary(run, console)
    figures = [word for word in out.getvalue().replace("│", " ").split() if word[0].isdigit()]
    assert any("," in word for word in figures)
    assert not [word for word in figures if word.split(".")[0].isdigit() and len(word.split(".")[0]) > 3]
