"""Measure the figures of the README: accuracy on real streams, speed relative to river, start, MNIST, size.

    make bench                                    # everything, about five minutes
    make bench BENCH="--only streams speed"       # some of it
    make bench BENCH="--data DIRECTORY --json"    # elsewhere, for a program

The directory holds ``elec2.csv.gz`` (target ``class``), ``covtype.csv.gz`` (``Cover_Type``),
``adult_train.csv.gz`` (``income``) and ``mnist.npz``. Speeds are ratios within one run: river and streamk
take turns on the same events in the same process, and the median of the turns counts.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from river import linear_model, preprocessing
from sections import ROOT, Row, measure, one_by_one

import streamk
from connectors.files.log import ReplayLog
from connectors.replay.run import replay_log
from streamk.evaluation.results import bytes_of

STREAMS: dict[str, dict[str, Any]] = {
    "Elec2": {
        "file": "elec2.csv.gz", "target": "class", "limit": None, "least": 0.925,
        "parameters": {"loss": "margin", "regularization": 1.0, "memory": 0, "scales": (4.0, 2.0, 1.0)},
    },
    "CoverType, first 100,000": {
        "file": "covtype.csv.gz", "target": "Cover_Type", "limit": 100_000, "least": 0.935,
        "parameters": {"features": 1024, "memory": 0, "scales": (2.0, 1.0, 0.5, 0.25)},
    },
    "Adult": {
        "file": "adult_train.csv.gz", "target": "income", "limit": None, "least": 0.84, "parameters": {},
    },
}  # fmt: skip
SEEDS = (7, 1, 2)
TURNS = 5


def streams(data: Path) -> Iterator[Row]:
    """Prequential accuracy, the minimum of three seeds, with the log loss of the first."""
    for name, stream in STREAMS.items():
        results = []
        for seed in SEEDS:
            log = ReplayLog(data / stream["file"], stream["target"])
            parameters = {**stream["parameters"], "seed": seed}
            run = replay_log(log, "kaczmarz", "classification", parameters, stream["limit"], baseline=False)
            results.append({**run.results().metrics("kaczmarz"), "model_bytes": bytes_of(run.learner)})
        worst = min(r["accuracy"] for r in results)
        first = results[0]
        found = (
            f"{worst:.4f} (kappa {first['kappa']:.3f}, log loss {first['log_loss']:.3f}, "
            f"{first['model_bytes']:,} bytes)"
        )
        yield (
            f"{name}: accuracy, least of {len(SEEDS)} seeds",
            found,
            f"≥ {stream['least']}",
            (worst >= stream["least"]),
        )


def speed(data: Path) -> Iterator[Row]:
    """Events a second on Elec2, streamk and river in turns."""
    frame = pd.read_csv(data / "elec2.csv.gz")
    labels = frame.pop("class")
    xs, truths = frame.to_dict("records"), (labels == "UP").tolist()

    def learner() -> streamk.KaczmarzClassifier:
        return streamk.KaczmarzClassifier(**STREAMS["Elec2"]["parameters"], seed=7)

    learner().predict_learn_many(frame[:64], labels[:64])
    learner().predict_one(xs[0])
    ours, rivers, many = [], [], []
    median = 0.0
    for _ in range(TURNS):
        river = preprocessing.StandardScaler() | linear_model.LogisticRegression()
        rivers.append(len(xs) / sum(one_by_one(river, xs, truths)))
        latencies = one_by_one(learner(), xs, labels.tolist())
        ours.append(len(xs) / sum(latencies))
        median = statistics.median(latencies) * 1e6
        began = time.perf_counter()
        learner().predict_learn_many(frame, labels)
        many.append(len(xs) / (time.perf_counter() - began))
    base = statistics.median(rivers)
    one, batch = statistics.median(ours), statistics.median(many)
    yield "Elec2: river StandardScaler|LogisticRegression, events/s", f"{base:,.0f}", "", True
    ratio = statistics.median(a / b for a, b in zip(ours, rivers, strict=True))
    yield "Elec2: predict_one + learn_one, events/s", f"{one:,.0f} ({ratio:.2f} × river)", "≥ 1 ×", ratio >= 1
    yield "Elec2: median latency of predict_one + learn_one", f"{median:.1f} µs", "≤ 15 µs", median <= 15
    ratio = statistics.median(a / b for a, b in zip(many, rivers, strict=True))
    yield "Elec2: predict_learn_many, events/s", f"{batch:,.0f} ({ratio:.1f} × river)", "≥ 4 ×", ratio >= 4


def fields(_: Path) -> Iterator[Row]:
    """Events with changing fields compared with events of one form, in turns."""
    rng, count = np.random.default_rng(0), 10_000
    names = [f"field {j:02d}" for j in range(20)]
    alike = [dict(zip(names, row, strict=True)) for row in rng.normal(size=(count, 20)).tolist()]
    ys, rare = [x["field 00"] > 0 for x in alike], iter(rng.random(60 * count).tolist())
    streams = {
        "alike": alike,
        "numbers 1 and 0.5 mixed": [{k: 1 if next(rare) < 0.5 else v for k, v in x.items()} for x in alike],
        "optional fields": [{k: v for k, v in x.items() if next(rare) < 0.7} for x in alike],
        "missing fields": [{k: v if next(rare) < 0.7 else None for k, v in x.items()} for x in alike],
    }
    rates: dict[str, list[float]] = {name: [] for name in streams}
    for _ in range(TURNS):
        for name, xs in streams.items():
            learner = streamk.KaczmarzClassifier(seed=7)
            rates[name].append(count / sum(one_by_one(learner, xs, ys)))
    for name in list(streams)[1:]:
        ratio = statistics.median(a / b for a, b in zip(rates[name], rates["alike"], strict=True))
        least = 0.8 if name == "optional fields" else 0.7
        yield (
            f"{name}, predict_one + learn_one",
            f"{ratio:.2f} × events alike",
            f"≥ {least} ×",
            ratio >= least,
        )
    learner = streamk.KaczmarzClassifier(seed=7)
    began = time.perf_counter()
    for i in range(50_000):
        learner.learn_one({f"name {i}": 1.0}, i % 2 == 0)
    seconds = time.perf_counter() - began
    yield "50,000 names, one an event", f"{seconds:.1f} s", "≤ 5 s", seconds <= 5


_FIRST = """
import time; a = time.perf_counter()
import streamk; b = time.perf_counter()
m = streamk.LEARNER(seed=1); m.learn_one({"x": 1.0}, True); m.predict_one({"x": 1.0})
print(b - a, time.perf_counter() - b)
"""


def _start(learner: str, cache: str) -> list[float]:
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache, "PYTHONPATH": str(ROOT)}
    code = _FIRST.replace("LEARNER", learner)
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True)
    return [float(number) for number in done.stdout.split()]


def start(data: Path) -> Iterator[Row]:
    """Seconds to import, and to the first prediction of two learners, on a first and a later start."""
    for learner in ("KaczmarzClassifier", "KernelClassifier"):
        with tempfile.TemporaryDirectory() as cache:
            first = _start(learner, cache)[1]
            later = [_start(learner, cache) for _ in range(5)]
        imported = statistics.median(times[0] for times in later)
        called = statistics.median(times[1] for times in later)
        yield f"{learner}: import streamk", f"{imported:.2f} s", "< 1.5 s", imported < 1.5
        yield f"{learner}: learn and predict, nothing compiled", f"{first:.1f} s", "≤ 8 s", first <= 8
        yield f"{learner}: learn and predict, a later start", f"{called:.2f} s", "< 1 s", called < 1


def mnist(data: Path) -> Iterator[Row]:
    """Test error of one pass, and whether two runs on other threads make the same file."""
    for features, most in ((4096, 0.031), (16384, 0.020)):
        results = []
        for threads in ("1", "2"):
            results.append(_mnist(data, features, "keyed", seed=7, threads=threads))
        one, two = results
        error = two["test_error"]
        found = f"{error:.2%} ({one['seconds']:.0f} s on one thread, {two['seconds']:.0f} s on two)"
        name = f"MNIST, one pass, {features:,} features"
        yield f"{name}: test error", found, f"≤ {most:.1%}", error <= most
        same = one["sha256"] == two["sha256"]
        yield f"{name}: model with 1 and with 2 threads", "same bytes" if same else "differ", "same", same
        if features == 4096:
            size = two["model_bytes"]
            yield f"{name}, 10 classes: model", f"{size:,} bytes", "≤ 200,000", size <= 200_000


def structured(data: Path) -> Iterator[Row]:
    """Structured compared with keyed directions: events per second, accuracy, and the test error of MNIST."""
    for name in ("Elec2", "CoverType, first 100,000"):
        stream = STREAMS[name]
        frame = pd.read_csv(data / stream["file"], nrows=stream["limit"])
        labels = frame.pop(stream["target"])
        rates: dict[str, list[float]] = {"keyed": [], "structured": []}
        found: dict[str, list[float]] = {"keyed": [], "structured": []}
        for seed in (*SEEDS, 3, 4):
            for directions, rate in rates.items():
                parameters = {**stream["parameters"], "directions": directions, "seed": seed}
                streamk.KaczmarzClassifier(**parameters).predict_learn_many(frame[:32], labels[:32])
                learner = streamk.KaczmarzClassifier(**parameters)
                began = time.perf_counter()
                predicted = learner.predict_learn_many(frame, labels)
                rate.append(len(labels) / (time.perf_counter() - began))
                found[directions].append(float((pd.Series(predicted) == labels).mean()))
        ratio = statistics.median(a / b for a, b in zip(rates["structured"], rates["keyed"], strict=True))
        yield (
            f"{name}: predict_learn_many, structured, events/s",
            f"{statistics.median(rates['structured']):,.0f} ({ratio:.2f} × keyed)",
            "",
            True,
        )
        means = {k: statistics.mean(v) for k, v in found.items()}
        yield (
            f"{name}: mean accuracy of {len(SEEDS) + 2} seeds, structured",
            f"{means['structured']:.4f} (keyed {means['keyed']:.4f})",
            "≥ keyed − 0.001",
            means["structured"] >= means["keyed"] - 0.001,
        )
    for features in (4096, 16384):
        errors = {k: [_mnist(data, features, k, seed) for seed in range(1, 6)] for k in rates}
        means = {k: statistics.mean(r["test_error"] for r in v) for k, v in errors.items()}
        yield (
            f"MNIST, one pass, {features:,} features: mean test error of 5 seeds, structured",
            f"{means['structured']:.2%} (keyed {means['keyed']:.2%})",
            "≤ keyed + 0.10 %",
            means["structured"] <= means["keyed"] + 0.001,
        )


def _mnist(data: Path, features: int, directions: str, seed: int, threads: str = "2") -> dict[str, Any]:
    script = ROOT / "benchmarks" / "mnist.py"
    command = [sys.executable, str(script), str(data / "mnist.npz"), "--json", "--features", str(features)]
    command += ["--directions", directions, "--seed", str(seed)]
    environment = {**os.environ, "NUMBA_NUM_THREADS": threads, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


SECTIONS: dict[str, Callable[[Path], Iterator[Row]]] = {
    "streams": streams,
    "speed": speed,
    "fields": fields,
    "start": start,
    "mnist": mnist,
    "structured": structured,
}


if __name__ == "__main__":
    sys.exit(measure(__doc__ or "", SECTIONS))
