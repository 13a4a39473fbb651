"""MNIST, pixels to test error: one pass of streamk against scikit-learn's features and one ridge solve.

    python benchmarks/ridge.py DATA/mnist.npz [--seeds 3] [--json]

Both with 16,384 features of the Gaussian kernel of one bandwidth, on the same threads, each in its own
process. The ridge is solved by Cholesky once; its penalty was chosen on the last 10,000 training images
(``--tune``). scikit-learn takes about 7 GB of memory and more than a minute a seed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from rich.console import Console

FEATURES, PENALTY = 16384, 0.3
PENALTIES = (0.01, 0.03, 0.1, 0.3, 1.0)


def _features(path: Path, seed: int, rows: slice):
    from mnist import SETTINGS, unit_images
    from sklearn.kernel_approximation import RBFSampler

    data = np.load(path)
    gamma = 0.5 / SETTINGS[FEATURES]["bandwidth"] ** 2
    sampler = RBFSampler(gamma=gamma, n_components=FEATURES, random_state=seed)
    return data, unit_images, sampler, sampler.fit_transform(unit_images(data["X_train"][rows]))


def _solve(Z, labels, penalties):
    from scipy.linalg import cho_factor, cho_solve

    gram, goal = Z.T @ Z, Z.T @ np.eye(10, dtype=Z.dtype)[labels]
    del Z
    for penalty in penalties:
        system = gram.copy() if len(penalties) > 1 else gram
        system[np.diag_indices(FEATURES)] += penalty
        yield penalty, cho_solve(cho_factor(system, overwrite_a=True), goal)


def ridge(path: Path, seed: int) -> dict[str, float]:
    """Learn the training images by scikit-learn's features and one ridge solve."""
    began = time.perf_counter()
    data, unit_images, sampler, Z = _features(path, seed, slice(None))
    _, weights = next(_solve(Z, data["y_train"], (PENALTY,)))
    predicted = (sampler.transform(unit_images(data["X_test"])) @ weights).argmax(axis=1)
    return {"test_error": float((predicted != data["y_test"]).mean()), "seconds": time.perf_counter() - began}


def tune(path: Path, seed: int) -> None:
    """Print the error of every penalty on the last 10,000 training images."""
    data, unit_images, sampler, Z = _features(path, seed, slice(50_000))
    held = sampler.transform(unit_images(data["X_train"][50_000:]))
    for penalty, weights in _solve(Z, data["y_train"][:50_000], PENALTIES):
        wrong = ((held @ weights).argmax(axis=1) != data["y_train"][50_000:]).mean()
        print(f"penalty {penalty}: {wrong:.2%}", flush=True)


def one_pass(path: Path, seed: int) -> dict[str, float]:
    """Learn the training images once with structured directions."""
    from mnist import one_pass

    began = time.perf_counter()
    result = one_pass(path, FEATURES, "structured", seed, quiet=True)
    return {"test_error": float(str(result["test_error"])), "seconds": time.perf_counter() - began}


def main() -> None:
    """Run both in turns and print errors, seconds and the ratio."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tune", action="store_true", help="try the penalties of the ridge instead")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--run", choices=("ridge", "one_pass"), help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=1, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        print(
            json.dumps({"ridge": ridge, "one_pass": one_pass}[arguments.run](arguments.data, arguments.seed))
        )
        return
    if arguments.tune:
        tune(arguments.data, arguments.seed)
        return
    results: dict[str, list[dict[str, float]]] = {"one_pass": [], "ridge": []}
    with Console(stderr=True).status("learning MNIST"):
        for seed in range(1, arguments.seeds + 1):
            for name, found in results.items():
                command = [sys.executable, __file__, str(arguments.data), "--run", name, "--seed", str(seed)]
                done = subprocess.run(command, capture_output=True, check=True)
                found.append(json.loads(done.stdout))
    if arguments.json:
        print(json.dumps(results))
        return
    for name, label in (
        ("one_pass", "streamk, one pass, structured"),
        ("ridge", "RBFSampler and one ridge solve"),
    ):
        errors = [r["test_error"] for r in results[name]]
        seconds = statistics.median(r["seconds"] for r in results[name])
        each = ", ".join(f"{e:.2%}" for e in errors)
        print(f"{label}: mean test error {statistics.mean(errors):.2%} ({each}), {seconds:.1f} s")
    ratio = statistics.median(
        a["seconds"] / b["seconds"] for a, b in zip(results["ridge"], results["one_pass"], strict=True)
    )
    print(f"streamk is {ratio:.1f} times faster")


if __name__ == "__main__":
    main()
