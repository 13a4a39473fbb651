"""Accuracy and speed of the learners compared with those of another commit, in turns.

    python benchmarks/beside.py COMMIT [--data DIRECTORY] [--only NAME …]

The other commit is checked out during the run; both use this environment. Accuracy (R² of numbers) is the
mean of three seeds. Speeds are events a second of CPU time on one thread, the best of all turns and seeds,
since other work on the machine only slows a turn.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from states import ROOT, checked_out, measured

KACZMARZ, COVERTYPE = "KaczmarzClassifier", {"features": 1024, "memory": 0, "scales": (2.0, 1.0, 0.5, 0.25)}
ELEC2 = {"loss": "margin", "regularization": 1.0, "memory": 0, "scales": (4.0, 2.0, 1.0)}
E, C, A = ("elec2.csv.gz", "class"), ("covtype.csv.gz", "Cover_Type"), ("adult_train.csv.gz", "income")
B, K = ("bike_hourly.csv.gz", "cnt"), ("kin40k.csv.gz", "target")
CASES: dict[str, tuple[tuple[str, str], str, dict[str, Any]]] = {
    "Elec2, kernel": (E, "KernelClassifier", {}),
    "CoverType, kernel": (C, "KernelClassifier", {}),
    "Adult, kernel": (A, "KernelClassifier", {}),
    "bike, kernel": (B, "KernelRegressor", {}),
    "kin40k, kernel": (K, "KernelRegressor", {}),
    "Elec2": (E, KACZMARZ, ELEC2),
    "Elec2, defaults": (E, KACZMARZ, {}),
    "Elec2, memory=0": (E, KACZMARZ, {"memory": 0}),
    "CoverType": (C, KACZMARZ, COVERTYPE),
    "CoverType, structured": (C, KACZMARZ, {**COVERTYPE, "directions": "structured"}),
    "Adult": (A, KACZMARZ, {}),
    "Adult, pursuit": (A, "MatchingPursuitClassifier", {}),
    "Adult, Kaczmarz pursuit": (A, "KaczmarzPursuitClassifier", {}),
    "CoverType, Kaczmarz pursuit": (C, "KaczmarzPursuitClassifier", {}),
    "Adult, blocks": (A, KACZMARZ, {"block_size": 64}),
    "Adult, doubly stochastic": (A, "DoublyStochasticClassifier", {}),
}
SEEDS, TURNS, LOOPED, ROWS = (7, 1, 2), 5, 2500, 50_000


def measure(name: str, data: Path) -> dict[str, float]:
    """Return accuracy, and events a second in one pass and one by one."""
    import pandas as pd

    import streamk

    (file, target), cls, parameters = CASES[name]
    frame = pd.read_csv(data / file, nrows=ROWS)
    truths = frame.pop(target).tolist()
    make = getattr(streamk, cls)
    make(**parameters, seed=1).predict_learn_many(frame[:600], truths[:600])
    xs = frame[:LOOPED].to_dict("records")
    right, passes, loops = [], [], []
    for seed in SEEDS:
        learner, began = make(**parameters, seed=seed), time.process_time()
        found = learner.predict_learn_many(frame, truths)
        passes.append(len(truths) / (time.process_time() - began))
        if cls.endswith("Classifier"):
            right.append(statistics.mean(a == b for a, b in zip(found, truths, strict=True)))
        else:
            errors = statistics.fmean((a - b) ** 2 for a, b in zip(found, truths, strict=True))
            right.append(1.0 - errors / statistics.pvariance(truths))
        learner = make(**parameters, seed=seed)
        learner.learn_many(frame[:600], truths[:600])
        learner.predict_one(xs[0])
        began = time.process_time()
        for x, y in zip(xs, truths, strict=False):
            learner.predict_one(x)
            learner.learn_one(x, y)
        loops.append(LOOPED / (time.process_time() - began))
    return {"accuracy": statistics.mean(right), "pass": max(passes), "one": max(loops)}


def main() -> int:
    """Measure every case on both commits; fail if one is slower by more than a twentieth, or worse."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("commit")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(arguments.only[0], arguments.data)))
        return 0
    missed = False
    with checked_out(arguments.commit) as other:
        for name in arguments.only:
            found: dict[Path, list[dict[str, float]]] = {other: [], ROOT: []}
            for _ in range(TURNS):
                for tree, results in found.items():
                    options = ("-", "--measure", "--only", name, "--data", arguments.data.resolve())
                    results.append(measured(__file__, tree, *options))
            best = {tree: {k: max(r[k] for r in rs) for k in rs[0]} for tree, rs in found.items()}
            ratios = {k: best[ROOT][k] / best[other][k] for k in ("pass", "one")}
            gain = best[ROOT]["accuracy"] - best[other]["accuracy"]
            bad = min(ratios.values()) < 0.95 or gain < -0.001
            missed, mark = missed or bad, "  MISSED" if bad else ""
            print(
                f"{name}: accuracy {best[other]['accuracy']:.4f} → {best[ROOT]['accuracy']:.4f}; "
                f"a pass {best[ROOT]['pass']:,.0f} events/s, ratio {ratios['pass']:.2f}; "
                f"one by one {best[ROOT]['one']:,.0f}, ratio {ratios['one']:.2f}{mark}",
                flush=True,
            )
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
