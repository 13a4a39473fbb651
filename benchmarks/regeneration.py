"""Cost of a random feature: streamk compared with NumPy, scikit-learn and river, in one run.

    python benchmarks/regeneration.py [--features 4096] [--picture FILE] [--json]

Nanoseconds per feature and row for inputs ``d`` and rows ``n``, all on the same number of threads: fast
transforms and frequencies in a table, stored (and into the same array every time) and regenerated from the
seed for every call; NumPy's ``cos(X @ W + b)`` with ``W`` stored, and redrawn for every call; scikit-learn's
``RBFSampler.transform``; river's ``RBFSampler``, whose features use one input each. Then normal numbers, and
the prediction of one event. Medians of turns; the ratios are medians of the ratios of the turns.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from peak import additions, bandwidth
from rich.console import Console
from rich.progress import track
from rich.table import Table
from river import feature_extraction
from sklearn.kernel_approximation import RBFSampler

import streamk
from streamk.vector.random_numbers import GROUP, fill_normals

INPUTS = (8, 54, 256, 784, 3072)
ROWS = (1, 32, 256, 4096)
LARGEST = 2**25  # features times rows in one call
SHORTEST = 0.1  # minimum seconds of a turn
REST = 0.1  # seconds before a turn, until the threads of the previous subject are idle
STRUCTURED, KEPT, REDRAWN = "structured", "NumPy, W kept", "NumPy, W redrawn"
REGENERATED = "structured, regenerated"
IN_PLACE, NUMPY_IN_PLACE = "structured, in place", "NumPy, W kept, in place"
EVENTS = ((54, 4096, 7, 40.0), (784, 16384, 10, 300.0))  # inputs, features, classes, target in microseconds
Calls = dict[str, Callable[[], object]]
Result = dict[str, Any]


def subjects(d: int, n: int, features: int) -> Calls:
    """Return a call for each subject that makes ``n × features`` features of ``d`` inputs."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)).astype(np.float32)
    W = rng.normal(size=(d, features)).astype(np.float32)
    b = rng.uniform(0, 2 * np.pi, features).astype(np.float32)
    sampler = RBFSampler(gamma=0.5 / d, n_components=features, random_state=1).fit(X)
    drawn = np.random.default_rng(1)

    def held(directions: str) -> Callable[[], object]:
        made = streamk.RandomFeatures(bandwidth=d**0.5, features=features, directions=directions, seed=1)
        return lambda: made.transform(X)

    def regenerated(directions: str) -> Callable[[], object]:
        return lambda: held(directions)()

    def redrawn() -> object:
        fresh = drawn.standard_normal(size=W.shape, dtype=np.float32)
        return np.cos(X @ fresh + b)

    def in_place() -> object:
        np.matmul(X, W, out=Z)
        np.add(Z, b, out=Z)
        return np.cos(Z, out=Z)

    Z = np.zeros((n, features), dtype=np.float32)
    kept = streamk.RandomFeatures(bandwidth=d**0.5, features=features, directions="structured", seed=1)
    mine = kept.transform(X)
    found: Calls = {
        STRUCTURED: held("structured"),
        IN_PLACE: lambda: kept.transform(X, out=mine),
        REGENERATED: regenerated("structured"),
        "keyed": held("keyed"),
        "keyed, regenerated": regenerated("keyed"),
        KEPT: lambda: np.cos(X @ W + b),
        NUMPY_IN_PLACE: in_place,
        REDRAWN: redrawn,
        "scikit-learn": lambda: sampler.transform(X),
    }
    if n == 1 and d <= 54:
        event = dict(zip(map(str, range(d)), X[0].tolist(), strict=True))
        river = feature_extraction.RBFSampler(n_components=max(1, features // d), seed=1)
        river.learn_one(event)
        found["river (one input each)"] = lambda: river.transform_one(event)
    return found


def measure(calls: Calls, turns: int) -> dict[str, list[float]]:
    """Return the seconds of a call of each subject in every turn."""
    repeats = {}
    for name, call in calls.items():
        call()
        began = time.perf_counter()
        call()
        repeats[name] = max(1, int(SHORTEST / max(time.perf_counter() - began, 1e-7)))
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    for turn in range(turns):
        for name in (
            names[turn % len(names) :] + names[: turn % len(names)]
        ):  # no subject always follows the same one
            call = calls[name]
            time.sleep(REST)
            call()
            began = time.perf_counter()
            for _ in range(repeats[name]):
                call()
            seconds[name].append((time.perf_counter() - began) / repeats[name])
    return seconds


def ratio(slow: list[float], fast: list[float]) -> float:
    """Return the speed ratio, the median over the turns."""
    return statistics.median(a / b for a, b in zip(slow, fast, strict=True))


def additions_of(d: int, copies: int = 2) -> float:
    """Return the additions of a structured feature: three transforms, shared by the copies."""
    return 3 * max(6, (d - 1).bit_length()) / copies


COSINE = 14  # operations of a vector from projection to feature


def features_table(shapes: list[tuple[int, int]], features: int, turns: int) -> list[Result]:
    """Measure every subject for every shape."""
    results = []
    for d, n in track(shapes, "features", console=Console(stderr=True)):
        seconds = measure(subjects(d, n, features), turns)
        costs = {k: statistics.median(v) / (n * features) * 1e9 for k, v in seconds.items()}
        results.append(
            {
                "inputs": d,
                "rows": n,
                "ns": {k: float(f"{ns:.3g}") for k, ns in costs.items()},
                "kept": ratio(seconds[KEPT], seconds[STRUCTURED]),
                "in place": ratio(seconds[NUMPY_IN_PLACE], seconds[IN_PLACE]),
                "redrawn": ratio(seconds[REDRAWN], seconds[STRUCTURED]),
                "regenerated": ratio(seconds[REDRAWN], seconds[REGENERATED]),
            }
        )
    return results


@njit(nogil=True)
def _normals(keys, out):
    for i in range(keys.shape[0]):
        fill_normals(keys[i], out, 0, 0)


def normal_cost() -> float:
    """Return nanoseconds for a normal number, on one thread."""
    keys = np.arange(1, 20_001, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    out = np.empty((1, GROUP), dtype=np.float32)
    seconds = measure({"": lambda: _normals(keys, out)}, 5)[""]
    return statistics.median(seconds) / (len(keys) * GROUP) * 1e9


def event_cost(d: int, features: int, classes: int) -> float:
    """Return microseconds of ``predict_one``, including names, features and outputs, on one thread."""
    rng = np.random.default_rng(0)
    names = [f"x{j:03d}" for j in range(d)]
    learner = streamk.KaczmarzClassifier(features=features, scales=(1.0,), directions="structured", seed=1)
    learner.learn_many(rng.normal(size=(100, d)), rng.integers(0, classes, 100), names=names)
    event = dict(zip(names, rng.normal(size=d).tolist(), strict=True))
    return statistics.median(measure({"": lambda: learner.predict_one(event)}, 5)[""]) * 1e6


def plot(results: list[Result], roof: float, slope: float, path: Path) -> None:
    """Draw the costs over the inputs, and the structured ones under the machine's roofs."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    most = [r for r in results if r["rows"] == max(x["rows"] for x in results)]
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    for name in most[0]["ns"]:
        left.loglog([r["inputs"] for r in most], [r["ns"][name] for r in most], marker="o", label=name)
    inputs = [r["inputs"] for r in most]
    left.set_xticks(inputs, [f"{d:,}" for d in inputs])
    left.minorticks_off()
    left.set(xlabel="inputs", ylabel="ns per feature and row", title=f"{most[0]['rows']:,} rows")
    left.grid(alpha=0.3)
    left.legend(fontsize=7)
    intensity = np.geomspace(0.5, 100)
    right.loglog(intensity, np.minimum(roof, intensity * slope), color="black", label="what the machine can")
    for r in most:
        adds = additions_of(r["inputs"]) + COSINE
        right.loglog(
            adds / 4, adds / r["ns"][IN_PLACE], marker="o", linestyle="", label=f"{r['inputs']} inputs"
        )
    right.set(xlabel="operations per byte written", ylabel="operations per ns", title="structured: roofline")
    right.grid(alpha=0.3, which="both")
    right.legend(fontsize=8)
    figure.savefig(path, dpi=120)


def main() -> None:
    """Measure every shape and print tables, or JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--features", type=int, default=4096)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--inputs", type=int, nargs="+", default=list(INPUTS))
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    roof, slope = additions(), bandwidth()
    shapes = [(d, n) for d in arguments.inputs for n in ROWS if n * arguments.features <= LARGEST]
    results = features_table(shapes, arguments.features, arguments.turns)
    for r in results:
        additions_per_ns = additions_of(r["inputs"]) / r["ns"][IN_PLACE]
        r["share of peak"] = additions_per_ns / roof
        r["with cosines"] = (additions_per_ns + COSINE / r["ns"][IN_PLACE]) / roof
    events = [
        {"inputs": d, "features": f, "classes": k, "us": event_cost(d, f, k), "wanted": w}
        for d, f, k, w in EVENTS
    ]
    normals = normal_cost()
    if arguments.picture:
        plot(results, roof, slope, arguments.picture)
    if arguments.json:
        print(
            json.dumps(
                {"peak": roof, "bandwidth": slope, "features": results, "events": events, "normal": normals}
            )
        )
        return
    names = list(dict.fromkeys(name for r in results for name in r["ns"]))
    table = Table("inputs", "rows", *names, title="ns per feature and row")
    ratios = Table(
        "inputs", "rows", "W kept", "W kept, both in place", "W redrawn", "W redrawn, seed regenerated",
        "additions, of peak", "with the cosines",
        title="structured: times faster than NumPy",
    )  # fmt: skip
    for r in results:
        shape = str(r["inputs"]), str(r["rows"])
        table.add_row(*shape, *(f"{r['ns'][k]:.3g}" if k in r["ns"] else "" for k in names))
        ratios.add_row(
            *shape,
            *(f"{r[k]:.1f}" for k in ("kept", "in place", "redrawn", "regenerated")),
            f"{r['share of peak']:.0%}",
            f"{r['with cosines']:.0%}",
        )
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(table, ratios)
    console.print(
        f"peak: {roof:.0f} additions/ns, {slope:.0f} bytes/ns; "
        f"a normal number: {normals:.2f} ns on one thread"
    )
    for e in events:
        console.print(
            f"one event, {e['inputs']} inputs, {e['features']:,} features, {e['classes']} classes: "
            f"{e['us']:.1f} µs (wanted: ≤ {e['wanted']:.0f})"
        )


if __name__ == "__main__":
    main()
