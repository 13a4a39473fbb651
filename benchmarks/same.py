"""Compare models, predictions and results.json with those of another commit, to the byte.

    python benchmarks/same.py COMMIT [--data DIRECTORY] [--limit N]

Every learner learns generated events (numbers, strings, missing values, weights) one by one and in a pass;
its model, frozen model, merged model and predictions are hashed. CSV logs of the directory are replayed, and
results are compared without times. The other commit is checked out for the time of the run; both use this
environment. The exit code is 1 if anything differs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from states import ROOT, checked_out, measured

VARIANTS: dict[str, dict[str, Any]] = {
    "": {},
    "structured": {"directions": "structured"},
    "blocks": {"block_size": 16},
    "average": {"average": True},
    "laplacian": {"kernel": "laplacian"},
    "memory": {"memory": 300},
    "margin": {"loss": "margin"},
    "huber": {"loss": "huber"},
    "without relevance": {"relevance": False},
    "growth": {"growth": "sqrt", "max_features": 256},
}
TARGETS = {
    "elec2": "class", "adult_train": "income", "covtype": "Cover_Type", "bike_hourly": "", "kin40k": "",
    "abalone": "", "phishing": "", "boston": "",
}  # fmt: skip  # an empty one is the last column
TIMES = {"seconds", "latencies", "microseconds", "rate", "events_per_second", "speed", "command", "versions"}


def digest(value: Any) -> str:
    """Return a hash of bytes, or of what prints as this."""
    return hashlib.sha256(value if isinstance(value, bytes) else repr(value).encode()).hexdigest()[:16]


def generated() -> tuple[list[dict[str, Any]], list[str], list[float], list[float]]:
    """Return events, classes, numbers and weights."""
    draw, xs, labels, numbers = random.Random(3), [], [], []
    for _ in range(1000):
        x: dict[str, Any] = {
            "a": draw.gauss(0, 1),
            "b": draw.random() * 100,
            "c": draw.choice("xyz"),
            "k": 1.0,
        }
        if draw.random() < 0.1:
            x.pop("b")
        level = x["a"] + x.get("b", 50) / 50 + (x["c"] == "x")
        xs.append(x)
        numbers.append(level + draw.gauss(0, 0.2))
        labels.append("p" if level > 1.6 else "q" if level > 0.8 else "r")
    return xs, labels, numbers, [draw.choice((0.5, 1.0, 2.0)) for _ in xs]


def models() -> dict[str, str]:
    """Return hashes of models and predictions by learner and settings."""
    import streamk

    xs, labels, numbers, weights = generated()
    found = {}
    for name in sorted(streamk.__all__):
        cls = getattr(streamk, name)
        if not name.endswith(("Classifier", "Regressor")):
            continue
        targets: list[Any] = labels if name.endswith("Classifier") else numbers
        for variant, settings in VARIANTS.items():
            try:
                one, other = (cls(seed=7, **settings) for _ in range(2))
            except (TypeError, ValueError):  # it has no such parameter
                continue
            predictions = []
            for x, y, w in zip(xs[:300], targets, weights, strict=False):
                predictions.append(one.predict_one(x))
                one.learn_one(x, y, w)
            predictions += list(one.predict_learn_many(xs[300:700], targets[300:700]))
            other.learn_many(xs[700:], targets[700:], weights[700:])
            key = f"{name} {variant}".strip()
            found[f"{key}, model"] = digest(one.to_bytes())
            found[f"{key}, predictions"] = digest(predictions)
            found[f"{key}, frozen"] = digest(one.frozen().to_bytes())
            try:
                found[f"{key}, merged"] = digest(streamk.merge([one, other]).to_bytes())
            except ValueError as error:
                found[f"{key}, merged"] = str(error)
    return found


def without_times(value: Any) -> Any:
    """Return results without what a clock has measured."""
    if isinstance(value, dict):
        return {name: without_times(part) for name, part in value.items() if name not in TIMES}
    return list(map(without_times, value)) if isinstance(value, list) else value


def results(data: Path, limit: int) -> dict[str, Any]:
    """Return the results of replays by log."""
    found = {}
    for path in sorted(data.glob("*.csv*")):
        name = path.name.split(".")[0]
        if name not in TARGETS:
            continue
        target = TARGETS[name] or first_line(path)[-1]
        with tempfile.TemporaryDirectory() as report:
            command = [sys.executable, "-m", "connectors.cli", "replay", path, "--target", target, "--json"]
            subprocess.run(
                [*command, "--limit", str(limit), "--report", report], capture_output=True, check=True
            )
            found[name] = without_times(json.loads((Path(report) / "results.json").read_text()))
    return found


def first_line(path: Path) -> list[str]:
    """Return the names of columns."""
    import pandas as pd

    return [str(name) for name in pd.read_csv(path, nrows=1).columns]


def differing(here: Any, there: Any, place: str = "") -> list[str]:
    """Return the places where two results differ."""
    if isinstance(here, dict) and isinstance(there, dict):
        names = sorted({*here, *there})
        return [d for name in names for d in differing(here.get(name), there.get(name), f"{place}/{name}")]
    if isinstance(here, list) and isinstance(there, list) and len(here) == len(there):
        pairs = enumerate(zip(here, there, strict=True))
        return [d for k, pair in pairs for d in differing(*pair, f"{place}/{k}")]
    return [] if here == there else [place]


def main() -> int:
    """Run both sides and print what differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commit", help="commit to compare with")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--limit", type=int, default=4000, help="events of each log")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps({"models": models(), "results": results(arguments.data, arguments.limit)}))
        return 0
    options = ("-", "--measure", "--limit", arguments.limit, "--data", arguments.data.resolve())
    with checked_out(arguments.commit) as other:
        sides = [measured(__file__, tree, *options) for tree in (ROOT, other)]
    here, there = sides
    found = differing(here, there)
    print(
        f"{len(here['models'])} hashes of models and {len(here['results'])} replays, {len(found)} differences"
    )
    print("\n".join(found))
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
