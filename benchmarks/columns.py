"""A raw table compared with its cleaned columns, and reported latencies with those of a plain loop.

    python benchmarks/columns.py             # both
    python benchmarks/columns.py --only table

The table has an id, a time stamp, a currency, per cent, free text and a category; the cleaned one has the
hour, the numbers and the category. Neither gets any option. The error may be 5 % above the cleaned one's.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import math
import random
import tempfile
import time
from pathlib import Path

import numpy as np

import streamk
from connectors.files.log import ReplayLog
from connectors.replay.run import replay_log

ROWS = 20_000
WORDS = [
    "the", "quick", "brown", "fox", "jumps", "over", "lazy", "dog", "while", "rain", "falls", "on", "green",
    "fields", "near", "old", "town", "river", "bank",
]  # fmt: skip


def write(folder: Path) -> tuple[Path, Path]:
    """Write both tables."""
    rng, moment = random.Random(1), datetime.datetime(2024, 1, 1)
    made, cleaned = folder / "made.csv", folder / "cleaned.csv"
    with made.open("w", newline="") as a, cleaned.open("w", newline="") as b:
        raw, clean = csv.writer(a), csv.writer(b)
        raw.writerow(["order_id", "when", "price", "share", "note", "colour", "y"])
        clean.writerow(["hour", "price", "share", "colour", "y"])
        for k in range(ROWS):
            moment += datetime.timedelta(minutes=rng.randint(1, 30))
            price, share = rng.lognormvariate(6, 1.2), rng.uniform(0, 100)
            colour = rng.choice(["red", "green", "blue"])
            level = {"red": 1, "green": -2, "blue": 0}[colour]
            y = 3 * math.sin(moment.hour / 24 * 2 * math.pi) + math.log(price) * share / 20 + level
            y = f"{y + rng.gauss(0, 0.5):.4f}"
            note = " ".join(rng.choices(WORDS, k=rng.randint(5, 12))) + f" {rng.randint(0, 99_999)}"
            shown = moment.isoformat(" "), f"${price:,.2f}", f"{share:.1f}%"
            raw.writerow([f"ORD-{k:07d}", *shown, note, colour, y])
            clean.writerow([moment.hour + moment.minute / 60, f"{price:.2f}", f"{share:.1f}", colour, y])
    return made, cleaned


def table() -> None:
    """Print the errors on both tables, and the time of the first with all baselines."""
    with tempfile.TemporaryDirectory() as folder:
        made, cleaned = write(Path(folder))
        began = time.perf_counter()
        found = replay_log(ReplayLog(made, "y"), baseline="full").results()
        seconds = time.perf_counter() - began
        own = found.metrics("kernel")["mae"]
        clean = replay_log(ReplayLog(cleaned, "y"), baseline="none").results().metrics("kernel")["mae"]
    print(f"MAE {own:.4f}, cleaned {clean:.4f}: {own / clean - 1:+.1%} (bound 5 %)")
    print(f"{ROWS:,} rows with all baselines: {seconds:.1f} s (bound 20 s)")


def latency() -> None:
    """Print reported latencies next to those of a plain loop over the same log."""
    with tempfile.TemporaryDirectory() as folder:
        made, _ = write(Path(folder))
        measured = (
            replay_log(ReplayLog(made, "y"), baseline="none").results().measured()["kernel"]["latency_us"]
        )
        events = [(record.fields, float(record.target)) for record in ReplayLog(made, "y")]
    learner = streamk.KernelRegressor(seed=0)
    loop: dict[str, list[float]] = {"predict": [], "learn": [], "predict_learn": []}
    for x, y in events:
        began = time.perf_counter()
        learner.predict_one(x)
        asked = time.perf_counter()
        learner.learn_one(x, y)
        done = time.perf_counter()
        for name, seconds in zip(loop, (asked - began, done - asked, done - began), strict=True):
            loop[name].append(1e6 * seconds)
    for name, times in loop.items():
        reported, median = float(np.median(measured[name])), float(np.median(times))
        print(f"{name}: {reported:.1f} µs reported, {median:.1f} in a loop: {reported / median - 1:+.0%}")


def main() -> None:
    """Run the selected measurements."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", choices=["table", "latency"])
    only = parser.parse_args().only
    for name, run in (("table", table), ("latency", latency)):
        if only in (None, name):
            run()


if __name__ == "__main__":
    main()
