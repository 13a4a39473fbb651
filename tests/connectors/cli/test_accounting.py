"""Every row and value is accounted for: events, skipped rows, and values that do not fit their types."""

import json

import pytest
from typer.testing import CliRunner

from connectors.cli import app

FAST = ["--learner", "kaczmarz", "--set", "features=16"]
VALUES = {"number": ("1.5", "w0"), "datetime:iso": ("2024-03-01", "soon"), "boolean": ("yes", "perhaps")}


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def text(done):
    return " ".join(done.stderr.split())


def rows(kind, count, every):
    """Return CSV in which one value in so many does not fit, after the first 1,000 records."""
    good, bad = VALUES[kind]
    for k in range(count):
        yield f"{k % 7},{bad if k >= 1000 and k % every == 0 else good},{'pq'[k % 2]}\n"


def commands(files, tmp_path, *options, trains=True):
    """Yield what replay, train and predict did."""
    model, target = tmp_path / "m.streamk", ("--target", "y", *FAST, "--json")
    yield run("replay", *files, *target, "--baseline", "none", "--save", model, *options)
    if trains:  # which starts a process
        yield run("train", *files, *target, "--workers", 1, "--round", 300, *options)
    if model.exists():
        yield run("predict", model, *files, "-o", tmp_path / "p.jsonl", "--json", *options)


@pytest.mark.parametrize("kind", VALUES)
def test_values_that_do_not_fit_are_reported(tmp_path, kind):
    log = tmp_path / "log.csv"
    log.write_text("a,b,y\n" + "".join(rows(kind, 1500, 10)))
    said = f'50 of 1,500 values of b do not fit "{kind}" (the first: {VALUES[kind][1]!r}) and are missing'
    for done in commands([log], tmp_path, trains=kind == "number"):
        assert done.exit_code == 1, done.output
        found = json.loads(done.stdout)
        assert found["misfits"] == {"b": {"count": 50, "type": kind, "example": VALUES[kind][1]}}
        assert (found["rows"], found["skipped"]) == (1500, 0)
        assert said in text(done).replace("│ ", "").replace(" │", "")
        assert "--type FIELD=TYPE sets a type" in text(done)
    for done in commands([log], tmp_path, "--allow-skipped", trains=False):
        assert done.exit_code == 0, done.output
    for done in commands([log], tmp_path, "--strict", trains=kind == "number"):
        assert done.exit_code == 2
        assert f"{VALUES[kind][1]!r} in b does not fit" in text(done)


def test_files_and_skipped_rows_are_counted_together(tmp_path):
    for name in ("one.csv", "two.csv"):
        (tmp_path / name).write_text("a,b,y\n" + "".join(rows("number", 1600, 200)) + "1,2\n")
    files = [tmp_path / "one.csv", tmp_path / "two.csv"]
    for done in commands(files, tmp_path):
        assert done.exit_code == 0, done.output  # below 1 %
        found = json.loads(done.stdout)
        assert (found["rows"], found["skipped"], found["misfits"]["b"]["count"]) == (3202, 2, 6)


def test_a_type_that_is_given_counts_too(tmp_path):
    log = tmp_path / "log.csv"
    log.write_text("a,b,y\n" + "1,u,p\n2,3,q\n" * 50)
    done = run("replay", log, "--target", "y", *FAST, "--baseline", "none", "--json", "--type", "b=number")
    assert done.exit_code == 1
    assert json.loads(done.stdout)["misfits"] == {"b": {"count": 50, "type": "number", "example": "u"}}


def test_results_hold_what_is_missing(tmp_path):
    log = tmp_path / "log.csv"
    log.write_text("a,b,y\n" + "".join(rows("number", 1200, 100)) + "1,2,\n")
    done = run("replay", log, "--target", "y", *FAST, "--baseline", "none", "--report", tmp_path / "page")
    assert done.exit_code == 0, done.output
    assert "1,201 rows: 1,200 events, 1 skipped" in done.stdout
    found = json.loads((tmp_path / "page" / "results.json").read_text())
    assert (found["rows"], found["skipped"], found["misfits"]["b"]["count"]) == (1201, 1, 2)
