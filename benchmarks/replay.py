"""What a replay costs beside its contenders: reading, scoring, and five of them against each alone.

    python benchmarks/replay.py                     # a minute; with --only cost, contenders, some of it

Elec2, and the first 100,000 events of CoverType, as CSV and as JSON lines. ``benchmarks/decoding.py`` has the
reading alone, and the memory that ten million events take.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
from sections import Row, measure

from connectors.files.replayed import ReplayLog
from connectors.replay.progress import Replay
from connectors.replay.run import replay

EVENTS, TURNS = 100_000, 3
LEARNER = "kaczmarz:features=512"
CONTENDERS = [
    "kernel",
    LEARNER,
    "doubly-stochastic",
    "river.tree.HoeffdingTreeClassifier",
    "river.preprocessing.StandardScaler|river.linear_model.LogisticRegression",
]


def logs(data: Path, folder: Path) -> Iterator[tuple[str, Path, str]]:
    """Yield names, logs and targets."""
    for name in ("elec2", "covtype"):
        frame = pd.read_csv(data / f"{name}.csv.gz", nrows=EVENTS)
        target = str(frame.columns[-1])
        frame.to_csv(folder / f"{name}.csv", index=False)
        frame.to_json(folder / f"{name}.jsonl", orient="records", lines=True)
        for form in ("csv", "jsonl"):
            yield f"{name}, {form}", folder / f"{name}.{form}", target


def run(log: Path, target: str, names: list[str]) -> tuple[float, Replay]:
    """Return the seconds of a replay, and what it found."""
    began = time.perf_counter()
    found = replay(ReplayLog(log, target), names, "classification", baseline=False)
    return time.perf_counter() - began, found


def cost(data: Path) -> Iterator[Row]:
    """Reading and book-keeping, as a part of the learner's own time; the least of some turns."""
    with tempfile.TemporaryDirectory() as folder:
        for name, log, target in logs(data, Path(folder)):
            run(log, target, [LEARNER])
            shares = []
            for _ in range(TURNS):
                seconds, found = run(log, target, [LEARNER])
                own = found.results().seconds(LEARNER)
                shares.append((seconds - own) / own)
            micro = 1e6 * own / found.events
            least = min(shares)
            yield f"{name}: beside {micro:.1f} µs of learning", f"{least:.0%}", "< 30 %", least < 0.3


def contenders(data: Path) -> Iterator[Row]:
    """Five contenders in one run, against the sum of their own times there."""
    with tempfile.TemporaryDirectory() as folder:
        _, log, target = next(logs(data, Path(folder)))
        run(log, target, CONTENDERS)
        seconds, found = run(log, target, CONTENDERS)
        own = sum(found.results().seconds(name) for name in CONTENDERS)
        more = seconds / own - 1.0
        yield "five contenders on Elec2, beside the sum of their times", f"{more:.1%}", "≤ 10 %", more <= 0.1


if __name__ == "__main__":
    sys.exit(measure(__doc__ or "", {"cost": cost, "contenders": contenders}))
