"""The example of the paper, on a small problem that is made here."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "papers" / "eigenpro3.py"


@pytest.fixture
def digits(tmp_path):
    """Ten noisy shapes, as images."""
    rng = np.random.default_rng(0)
    shapes = rng.integers(0, 256, size=(10, 64))
    y = rng.integers(0, 10, size=5000).astype(np.uint8)
    X = np.clip(shapes[y] + 130 * rng.normal(size=(5000, 64)), 0, 255).astype(np.uint8)
    np.savez(tmp_path / "mnist.npz", X_train=X[:4000], y_train=y[:4000], X_test=X[4000:], y_test=y[4000:])
    return tmp_path


def run(*arguments):
    environment = {**os.environ, "PYTHONPATH": str(SCRIPT.parents[2])}
    return subprocess.run(
        [sys.executable, str(SCRIPT), *map(str, arguments)], env=environment, capture_output=True, text=True
    )


def test_the_quick_run(digits):
    done = run("--data", digits, "--quick", "--json", "--out", digits / "out", "--most", 100)
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    assert [(r["learner"].split(",")[0], r["centers"], r["choose"]) for r in results] == [
        ("EigenPro 3", 100, "random"), ("EigenPro 3", 100, "k-means"), ("Kaczmarz", 100, "features"),
    ]  # fmt: skip
    assert max(r["error"] for r in results[:2]) < 4.0
    assert all(r["seconds"] < 30.0 and r["peak_mib"] > 50 for r in results)
    table = (digits / "out" / "eigenpro3.md").read_text().splitlines()
    assert len(table) == 5
    assert json.loads((digits / "out" / "eigenpro3.json").read_text()) == results


def test_data_that_is_not_there(tmp_path):
    done = run("--data", tmp_path)
    assert done.returncode == 2
    assert f"there is no {tmp_path}/mnist.npz" in done.stderr
    assert "https://www.openml.org/d/554" in done.stderr
