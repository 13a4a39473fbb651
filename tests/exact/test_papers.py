"""The scripts that make tables of papers again, on few events."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent.parent.parent


def test_machart_2011_in_a_minute(tmp_path):
    """What is there is run and what is not is named; errors of sinc are near those of ridge regression."""
    rng = np.random.default_rng(0)
    images = {f"X_{part}": rng.normal(size=(n, 16)) for part, n in (("train", 120), ("test", 60))}
    digits = {name.replace("X", "y"): 4 * (X[:, 0] > 0.5) for name, X in images.items()}
    np.savez(tmp_path / "usps.npz", **images, **digits)
    X = rng.normal(size=(400, 2))
    lines = [f"{a},{'MFI'[i % 3]},{b},{a + b}" for i, (a, b) in enumerate(X.tolist())]
    (tmp_path / "boston.csv").write_text("a,kind,b,y\n" + "\n".join(lines) + "\n")
    made = subprocess.run(
        [
            sys.executable, str(ROOT / "examples/papers/machart2011.py"), "--quick", "--json",
            "--data", str(tmp_path), "--out", str(tmp_path / "out"),
        ],
        capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert "abalone.csv is missing from" in " ".join(made.stderr.split())
    assert "archive.ics.uci.edu" in made.stderr
    rows = {row["what"]: row for row in json.loads(made.stdout)}

    def error(what):
        return float(rows[what]["ours"].split()[0])

    assert error("sinc, **SLKL M=200**") < min(0.014, 1.05 * error("sinc, KRR n=200"))
    assert error("boston, **SLKL M=128**") < 0.1
    assert error("USPS, **SLKL M=64**") < 15
    assert 0.0 < error("sinc, m₀ M=200") < 100
    assert all(row["megabytes"] > 10.0 for row in rows.values())
    table = (tmp_path / "out/machart2011.md").read_text()
    assert table.count("\n") == 2 + len(rows)
    assert (tmp_path / "out/machart2011.png").stat().st_size > 5000
