"""The scripts of the papers, on samples: they run, reach what a sample allows, and write their tables."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

PAPERS = Path(__file__).parent.parent.parent / "examples" / "papers"
DATA = Path(__file__).parent.parent.parent.parent / "shared" / "data"


def rows_of(script, out, *arguments, data=DATA, code=0):
    command = [sys.executable, str(PAPERS / script), "--data", str(data), "--json", "--out", str(out)]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout), done.stderr


def error_of(row):
    return float(row["ours"].split("%")[0])


@pytest.mark.skipif(not (DATA / "mnist.npz").is_file(), reason="the data sets are not here")
@pytest.mark.parametrize(
    ("solvers", "count", "highest"),
    [
        (["pursuit"], 1, 6.0),
        (["nystrom"], 2, 9.0),
        pytest.param(["kaczmarz-pursuit", "kaczmarz", "fourier"], 3, 6.0, marks=pytest.mark.long),
    ],
)
def test_andrecut(tmp_path, solvers, count, highest):
    rows, _ = rows_of("andrecut2016.py", tmp_path, "--quick", "--only", *solvers)
    assert len(rows) == count
    assert max(map(error_of, rows)) <= highest
    assert max(row["megabytes"] for row in rows) < 1000
    assert (tmp_path / "andrecut2016.md").read_text().count("\n") == 2 + len(rows)
    assert (tmp_path / "andrecut2016.png").stat().st_size > 1000


@pytest.mark.long
@pytest.mark.skipif(not (DATA / "mnist.npz").is_file(), reason="the data sets are not here")
def test_variants_of_fourier_magnitudes(tmp_path):
    rows, _ = rows_of("andrecut2016.py", tmp_path, "--quick", "--only", "variants")
    errors = {row["what"].partition(": ")[2]: error_of(row) for row in rows}
    assert len(errors) == len(rows)
    assert errors["pixels and magnitudes by columns"] < errors["pixels"] < 7.0
    assert max(errors.values()) < 20.0


@pytest.mark.skipif(not (DATA / "mnist.npz").is_file(), reason="the data sets are not here")
@pytest.mark.parametrize(
    ("section", "highest"),
    [
        ("adult", 15.5),
        pytest.param("digits", 8.0, marks=pytest.mark.long),
        pytest.param("eights", 1.5, marks=pytest.mark.long),  # the same code for two digits
        pytest.param("scattering", 5.0, marks=pytest.mark.long),
    ],
)
def test_dai(tmp_path, section, highest):
    rows, _ = rows_of("dai2014.py", tmp_path, "--quick", "--only", section)
    assert 0.0 < max(map(error_of, rows)) <= highest


def test_machart(tmp_path):
    """Errors of sinc are near those of ridge regression; easy sets are learned; missing ones are named."""
    rng = np.random.default_rng(0)
    images = {f"X_{part}": rng.normal(size=(n, 16)) for part, n in (("train", 120), ("test", 60))}
    digits = {name.replace("X", "y"): 4 * (X[:, 0] > 0.5) for name, X in images.items()}
    np.savez(tmp_path / "usps.npz", **images, **digits)
    X = rng.normal(size=(400, 2))
    lines = [f"{a},{'MFI'[i % 3]},{b},{a + b}" for i, (a, b) in enumerate(X.tolist())]
    (tmp_path / "boston.csv").write_text("a,kind,b,y\n" + "\n".join(lines) + "\n")
    rows, said = rows_of("machart2011.py", tmp_path / "out", "--quick", data=tmp_path, code=1)
    assert "abalone.csv is missing. Abalone is published" in said.replace("\n", " ")
    found = {row["what"]: float(row["ours"].split()[0]) for row in rows}
    assert found["sinc, **SLKL M=200**"] < min(0.014, 1.05 * found["sinc, KRR n=200"])
    assert found["boston, **SLKL M=128**"] < 0.1
    assert found["boston in [−1, 1], **SLKL M=128**"] < 0.1
    assert found["USPS, **SLKL M=64**"] < 15
    assert 0.0 < found["sinc, m₀ M=200"] < 100
    assert (tmp_path / "out/machart2011.png").stat().st_size > 5000


@pytest.mark.parametrize(
    ("section", "name"),
    [
        ("random", "EigenPro 3, {} random centers"),
        pytest.param("k-means", "EigenPro 3, {} k-means centers", marks=pytest.mark.long),
        pytest.param("kaczmarz", "Kaczmarz, one pass, {} features", marks=pytest.mark.long),
    ],
)
def test_eigenpro(tmp_path, section, name):
    """Ten noisy shapes, as images."""
    rng = np.random.default_rng(0)
    shapes = rng.integers(0, 256, size=(10, 64))
    y = rng.integers(0, 10, size=5000).astype(np.uint8)
    X = np.clip(shapes[y] + 130 * rng.normal(size=(5000, 64)), 0, 255).astype(np.uint8)
    np.savez(tmp_path / "mnist.npz", X_train=X[:4000], y_train=y[:4000], X_test=X[4000:], y_test=y[4000:])
    rows, _ = rows_of("eigenpro3.py", tmp_path / "out", "--quick", "--only", section, data=tmp_path)
    assert [row["what"] for row in rows] == [name.format(count) for count in (100, 500)]
    assert section == "kaczmarz" or max(map(error_of, rows)) < 4.0
    assert all(row["seconds"] > 0 and row["megabytes"] > 50 for row in rows)


def test_peak_memory_is_of_the_process_alone():
    """Whoever starts it has more."""
    ballast = np.ones(1 << 27)  # 1 GiB
    code = "import report; print(report.peak_megabytes())"
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=PAPERS, capture_output=True, text=True, check=True
    )
    assert 10.0 < float(found.stdout) < 600.0 < ballast.nbytes / (1 << 20)


def small(path, channels, side=8):
    """Write images of three classes: a bright third, somewhere along one side."""
    rng = np.random.default_rng(1)
    arrays = {}
    for part, count in (("train", 300), ("test", 60)):
        labels = rng.integers(0, 3, size=count)
        images = rng.integers(0, 80, size=(count, channels, side, side))
        for image, label in zip(images, labels, strict=True):
            image[:, :, 2 * label : 2 * label + 3] += 150
        arrays |= {f"X_{part}": images.reshape(count, -1).astype(np.uint8), f"y_{part}": labels}
    np.savez(path, **arrays)


def test_files_of_one_s_own_are_taken_as_they_are(tmp_path):
    small(tmp_path / "cifar10.npz", 3)
    small(tmp_path / "usps.npz", 1)
    rows, _ = rows_of("andrecut2016.py", tmp_path, "--quick", "--only", "cifar10", "usps", data=tmp_path)
    assert [error_of(row) for row in rows] == [0.0] * 4


def test_what_is_missing_is_named_with_where_it_is_published(tmp_path):
    rows, said = rows_of("andrecut2016.py", tmp_path, "--only", "usps", "pursuit", data=tmp_path, code=1)
    assert rows == []
    assert "usps.npz is missing. USPS is published" in said.replace("\n", " ")
    np.savez(tmp_path / "mnist.npz", X_train=np.zeros((3, 4)))
    _, said = rows_of("andrecut2016.py", tmp_path, "--only", "pursuit", data=tmp_path, code=1)
    assert "lacks y_train, X_test, y_test" in said.replace("\n", " ")
