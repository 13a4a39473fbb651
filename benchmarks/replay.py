"""Cost of a replay in addition to its contenders: reading, scoring, and five contenders compared with one.

    python benchmarks/replay.py                     # five minutes; with --only cost, contenders, memory, less

Elec2, and the first 100,000 events of CoverType, as CSV and as JSON lines. ``benchmarks/decoding.py``
measures reading alone.
"""

from __future__ import annotations

import gzip
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pandas as pd
from sections import Row, measure

from connectors.files.log import ReplayLog
from connectors.replay.progress import Replay
from connectors.replay.run import replay_log

EVENTS, TURNS = 100_000, 3
MADE = 10_000_000
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
    """Return the seconds of a replay, and its results."""
    began = time.perf_counter()
    found = replay_log(ReplayLog(log, target), names, "classification", baseline=False)
    return time.perf_counter() - began, found


def cost(data: Path) -> Iterator[Row]:
    """Reading and scoring, as a share of the learner's own time; the minimum of some turns."""
    with tempfile.TemporaryDirectory() as folder:
        for name, log, target in logs(data, Path(folder)):
            for learner in (LEARNER, "kernel:features=768"):
                run(log, target, [learner])
                shares = []
                for _ in range(TURNS):
                    seconds, found = run(log, target, [learner])
                    own = found.results().seconds(learner)
                    shares.append(((seconds - own) / own, 1e6 * own / found.events))
                least, micro = min(shares)
                line = f"{name}: in addition to {micro:.1f} µs per event of {learner}"
                yield line, f"{least:.0%}", "< 30 %", least < 0.3


def contenders(data: Path) -> Iterator[Row]:
    """Five contenders in one run, against the sum of their own times there."""
    with tempfile.TemporaryDirectory() as folder:
        _, log, target = next(logs(data, Path(folder)))
        run(log, target, CONTENDERS)
        seconds, found = run(log, target, CONTENDERS)
        own = sum(found.results().seconds(name) for name in CONTENDERS)
        more = seconds / own - 1.0
        yield (
            "five contenders on Elec2, compared with the sum of their times",
            f"{more:.1%}",
            "≤ 10 %",
            more <= 0.1,
        )


def memory(data: Path) -> Iterator[Row]:
    """Ten million synthetic events with all metrics of a replay, in a separate process."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        early, last, seconds = pool.submit(_peaks, MADE).result()
    found = f"{early} MiB after 1 %, {last} MiB at the end, {seconds / MADE * 1e6:.1f} µs an event"
    yield f"{MADE:,} made events", found, "≤ 32 MiB more", last - early <= 32


def _peaks(events: int) -> tuple[int, int, float]:
    """Return the peak memory after a hundredth of a replay and at its end, in MiB, and its seconds."""
    peaks: list[int] = []

    def watch(run: Replay) -> None:
        if not peaks and run.events >= events // 100:
            peaks.append(_peak())

    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "made.csv.gz"
        block = b"".join(b"%d,%d.5,%d,%d\n" % (k, k * k, k % 7, k % 2) for k in range(10_000))
        with gzip.open(log, "wb", compresslevel=1) as file:
            file.write(b"a,b,c,y\n")
            for _ in range(events // 10_000):
                file.write(block)
        began = time.perf_counter()
        found = replay_log(ReplayLog(log, "y"), LEARNER, "classification", baseline=False, watch=watch)
        seconds = time.perf_counter() - began
    assert found.events == events
    return peaks[0], _peak(), seconds


def _peak() -> int:
    """Return the peak memory of this process in MiB; Linux's getrusage would include the parent's."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) >> 10


if __name__ == "__main__":
    sys.exit(measure(__doc__ or "", {"cost": cost, "contenders": contenders, "memory": memory}))
