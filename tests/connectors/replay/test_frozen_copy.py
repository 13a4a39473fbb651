"""The frozen copy of the first contender predicts the last quarter of a log."""

import gzip
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from connectors.cli import app

LEARNER = "kaczmarz:features=64"


def command(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


@pytest.mark.parametrize("rows", [500, 1500, 20_000])
@pytest.mark.parametrize("form", ["csv", "csv.gz", "jsonl", "labels"])
def test_the_copy_without_labels_starts_after_three_quarters(tmp_path, rows, form):
    rng = np.random.default_rng(1)
    table = [(k, round(float(x), 4), "uv"[int(x > 0)]) for k, x in enumerate(rng.normal(size=rows))]
    path, options = tmp_path / f"log.{form}", ["--limit", rows * 2] * (rows == 1500)
    if form == "jsonl":
        path.write_text("".join(json.dumps({"a": x, "y": y}) + "\n" for _, x, y in table))
    elif form == "labels":
        path = tmp_path / "log.csv"
        path.write_text("key,a\n" + "".join(f"k{k},{x}\n" for k, x, _ in table))
        labels = tmp_path / "labels.csv"
        labels.write_text("key,y\n" + "".join(f"k{k},{y}\n" for k, _, y in table))
        options += ["--labels", labels, "--key", "key"]
    else:
        text = ("a,y\n" + "".join(f"{x},{y}\n" for _, x, y in table)).encode()
        path.write_bytes(gzip.compress(text) if form.endswith("gz") else text)
    page = tmp_path / "page"
    done = command(
        "replay",
        path,
        "--target",
        "y",
        "--learner",
        LEARNER,
        "--baseline",
        "none",
        "--report",
        page,
        *options,
    )
    assert done.exit_code == 0, done.output
    frozen = json.loads((page / "results.json").read_text())["frozen"]
    assert frozen["since"] + frozen["events"] == rows
    assert 0.745 <= frozen["since"] / rows <= 0.765
    printed = " ".join(done.stdout.split())
    assert f"Had labels stopped after event {frozen['since']:,}: accuracy" in printed
    assert f" on the other {frozen['events']:,}; with labels " in printed
