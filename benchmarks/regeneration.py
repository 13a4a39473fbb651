"""What a random feature costs: streamk beside NumPy, scikit-learn and river, in one run.

    python benchmarks/regeneration.py [--features 4096] [--picture FILE] [--json]

Nanoseconds per feature and row for inputs ``d`` and rows ``n``: the feature map of streamk with its
frequencies at hand, and regenerated from the seed for every call; NumPy's ``cos(X @ W + b)`` with ``W``
kept, and redrawn for every call; scikit-learn's ``RBFSampler.transform``; river's ``RBFSampler``, whose
features are of one input each. Medians of turns, all on the same number of threads.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table
from river import feature_extraction
from sklearn.kernel_approximation import RBFSampler

import streamk

INPUTS = (8, 54, 256, 784, 3072)
ROWS = (1, 32, 256, 4096)
LARGEST = 2**25  # features times rows in one call
SHORTEST = 0.05  # seconds that a turn takes at least


def subjects(d: int, n: int, features: int) -> dict[str, Callable[[], object]]:
    """Return a call for each subject that makes ``n × features`` features of ``d`` inputs."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)).astype(np.float32)
    W = rng.normal(size=(d, features)).astype(np.float32)
    b = rng.uniform(0, 2 * np.pi, features).astype(np.float32)
    held = streamk.RandomFeatures(bandwidth=d**0.5, features=features, seed=1)
    sampler = RBFSampler(gamma=0.5 / d, n_components=features, random_state=1).fit(X)
    drawn = np.random.default_rng(1)

    def redrawn() -> object:
        fresh = drawn.standard_normal(size=W.shape, dtype=np.float32)
        return np.cos(X @ fresh + b)

    found: dict[str, Callable[[], object]] = {
        "streamk": lambda: held.transform(X),
        "streamk, regenerated": lambda: streamk.RandomFeatures(
            bandwidth=d**0.5, features=features, seed=1
        ).transform(X),
        "NumPy, W kept": lambda: np.cos(X @ W + b),
        "NumPy, W redrawn": redrawn,
        "scikit-learn": lambda: sampler.transform(X),
    }
    if n == 1 and d <= 54:
        event = dict(zip(map(str, range(d)), X[0].tolist(), strict=True))
        river = feature_extraction.RBFSampler(n_components=max(1, features // d), seed=1)
        river.learn_one(event)
        found["river (one input each)"] = lambda: river.transform_one(event)
        found["streamk, one event"] = lambda: held.transform_one(event)
    return found


def measure(calls: dict[str, Callable[[], object]], turns: int) -> dict[str, float]:
    """Return the median seconds of a call of each, the subjects taking turns."""
    repeats = {}
    for name, call in calls.items():
        call()
        began = time.perf_counter()
        call()
        repeats[name] = max(1, int(SHORTEST / max(time.perf_counter() - began, 1e-7)))
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(turns):
        for name, call in calls.items():
            began = time.perf_counter()
            for _ in range(repeats[name]):
                call()
            seconds[name].append((time.perf_counter() - began) / repeats[name])
    return {name: statistics.median(times) for name, times in seconds.items()}


def plot(results: list[dict[str, object]], path: Path) -> None:
    """Draw the cost at the most rows over the number of inputs, one line a subject."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    most = max(int(str(r["rows"])) for r in results)
    figure, panel = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for name in dict.fromkeys(str(r["subject"]) for r in results):
        points = [(r["inputs"], r["ns"]) for r in results if r["subject"] == name and r["rows"] == most]
        if points:
            panel.loglog(*zip(*points, strict=True), marker="o", label=name)
    panel.set(xlabel="inputs", ylabel="ns per feature and row", title=f"{most:,} rows")
    panel.grid(alpha=0.3, which="both")
    panel.legend()
    figure.savefig(path, dpi=120)


def main() -> None:
    """Measure every shape and print a table, or JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--features", type=int, default=4096)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    shapes = [(d, n) for d in INPUTS for n in ROWS if n * arguments.features <= LARGEST]
    results: list[dict[str, object]] = []
    for d, n in track(shapes, "measuring", console=Console(stderr=True)):
        for name, seconds in measure(subjects(d, n, arguments.features), arguments.turns).items():
            ns = seconds / (n * arguments.features) * 1e9
            results.append({"inputs": d, "rows": n, "subject": name, "ns": float(f"{ns:.3g}")})
    if arguments.json:
        print(json.dumps(results))
    else:
        names = list(dict.fromkeys(str(r["subject"]) for r in results))
        table = Table("inputs", "rows", *names, title="ns per feature and row")
        for d, n in shapes:
            found = {r["subject"]: r["ns"] for r in results if (r["inputs"], r["rows"]) == (d, n)}
            table.add_row(str(d), str(n), *(f"{found[k]:.3g}" if k in found else "" for k in names))
        Console().print(table)
    if arguments.picture:
        plot(results, arguments.picture)


if __name__ == "__main__":
    main()
