"""What ``streamk replay --report`` writes, and how its options go together."""

import csv
import json
import os
import random
import re
import subprocess

import pytest
from pyarrow import parquet

from tests.processes import run

from .terminal import COMMAND


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """CSV as people have it: two files, semicolons, decimal commas, missing values, a broken line."""
    path = tmp_path_factory.mktemp("logs")
    rng = random.Random(7)
    for part in range(2):
        with (path / f"part{part}.csv").open("w", newline="", encoding="utf-8-sig") as file:
            writer = csv.writer(file, delimiter=";")
            writer.writerow(["a", "b", "day", "label"])
            for i in range(1500):
                a, b = rng.gauss(0, 1), rng.gauss(0, 1)
                said = "NA" if i % 100 == 7 else f"{a:.4f}".replace(".", ",")
                writer.writerow(
                    [said, f"{b:.4f}".replace(".", ","), f"d{i % 3}", "up" if a * b > 0 else "down"]
                )
                if i == 700:
                    writer.writerow(["1,0", "2,0"])
    return path


def test_from_a_csv_of_their_own_to_a_page(logs, tmp_path):
    report = tmp_path / "report"
    contenders = ["kernel", "kaczmarz:features=64", "river.tree.HoeffdingTreeClassifier"]
    chosen = [word for name in contenders for word in ("--learner", name)]
    done = run(
        "replay", f"{logs}/part*.csv", "--target", "label", *chosen, "--by", "day", "--interval", 500,
        "--report", report,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "semicolons between values and decimal commas" in done.stderr
    assert "classification, since `label` has " in done.stderr
    assert "skipped 2 rows: 2 that cannot be decoded (" in done.stdout
    assert done.stdout.count("cannot be decoded") == 1
    found = json.loads((report / "results.json").read_text())
    assert found["events"] == 3000
    assert [each["name"] for each in found["contenders"]] == [
        *contenders,
        "last value",
        "majority class",
        "linear model",
    ]
    assert [each["value"] for each in found["contenders"][0]["slices"]] == ["d0", "d1", "d2"]
    assert found["left_out"]["unreadable"] == 2
    assert [file["name"] for file in found["log"]] == ["part0.csv", "part1.csv"]
    assert len(found["log"][0]["sha256"]) == 64
    assert found["contenders"][0]["summary"]["relevance"].keys() >= {"a", "b"}
    table = parquet.read_table(report / "curve.parquet").to_pydict()
    assert table["events"][:6] == [500, 1000, 1500, 2000, 2500, 3000]
    measured = json.loads((report / "measured.json").read_text())
    assert measured["kernel"]["events_per_second"] > 0
    page = (report / "index.html").read_text()
    assert "kernel is better than" in page
    assert re.search(r'<p class="advice">Use [^<]* time[^<]* (kB|MB|bytes)', page)
    assert "part0.csv" in page


def test_again_the_same_bytes(logs, tmp_path):
    """In interpreters that order sets and hash names in their own ways."""
    command = [*COMMAND, "replay", f"{logs}/part0.csv", "--target", "label", "--report", "report"]
    texts = []
    for name in ("1", "2"):
        (tmp_path / name).mkdir()
        subprocess.run(command, cwd=tmp_path / name, env={**os.environ, "PYTHONHASHSEED": name}, check=True)
        texts.append((tmp_path / name / "report" / "results.json").read_bytes())
    assert texts[0] == texts[1]


def test_a_dialect_that_is_given(logs):
    done = run(
        "replay", f"{logs}/part0.csv", "--target", "label", "--delimiter", ";", "--decimal", ",", "--json",
        "--limit", 500,
    )  # fmt: skip
    assert json.loads(done.stdout)["contenders"]["kernel"]["accuracy"] > 0.6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{log}", "--target", "label", "--strict"], "part0.csv, line 703"),
        (["{log}", "--target", "label", "--delay", "soon"], "--delay soon"),
        (["{log}", "--target", "label", "--delay", "1.5"], "whole number of events"),
        (["{log}", "--target", "label", "--labels", "{log}"], "--labels and --key belong together"),
        (["{log}", "--target", "label", "--report", "{log}"], "this is not a directory"),
        (["{log}", "--target", "label", "--learner", "kernel", "--learner", "kernel"], "is there twice"),
        (["{log}", "--target", "label", "--learner", "river.no.Model"], "river has no such model"),
        (
            ["{log}", "--target", "label", "--learner", "river.dummy.NoChangeClassifier", "--set", "a=1"],
            "--set is",
        ),
        (["{log}", "--target", "no"], "'no'"),
        (["nothing*.csv", "--target", "label"], "no such file"),
    ],
)
def test_wrong_things(logs, arguments, message):
    done = run("replay", *(a.replace("{log}", f"{logs}/part0.csv") for a in arguments))
    assert done.returncode == 2, done.stdout
    assert message in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.stderr
