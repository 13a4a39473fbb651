"""What decoding a log takes beside a learner of 512 features: microseconds an event, and the part of it.

``python benchmarks/decoding.py --data ../shared/data`` reads Elec2 and CoverType as CSV and as JSON lines;
``--made 10000000`` reads so many made events, and says how much memory that takes.
"""

from __future__ import annotations

import argparse
import gzip
import json
import resource
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from connectors.files.batches import Batch
from connectors.files.replayed import ReplayLog
from streamk import KaczmarzClassifier

STREAMS = {"Elec2": ("elec2.csv.gz", "class"), "CoverType": ("covtype.csv.gz", "Cover_Type")}
FEATURES = 512


def written(source: Path, target: str, folder: Path, rows: int) -> list[Path]:
    """Write the first rows as CSV and as JSON lines."""
    csv, lines = folder / f"{source.name}.csv", folder / f"{source.name}.jsonl"
    with gzip.open(source, "rb") as file, csv.open("wb") as plain:
        plain.writelines(islice(file, rows + 1))
    with lines.open("w") as file:
        for batch in ReplayLog(csv, target).batches():
            file.writelines(
                json.dumps({**x, target: y}) + "\n" for x, y in zip(batch.events, batch.targets, strict=True)
            )
    return [csv, lines]


def taken(batches: Iterator[Batch], dicts: bool) -> tuple[int, float]:
    """Return how many events there are, and the seconds it takes to have them in hand."""
    began, events = time.perf_counter(), 0
    for batch in batches:
        events += len(batch.targets)
        if dicts:
            list(batch.events)
    return events, time.perf_counter() - began


def learned(path: Path, target: str, dicts: bool) -> float:
    """Return the seconds of the learner's own passes."""
    model, seconds = KaczmarzClassifier(features=FEATURES), 0.0
    for batch in ReplayLog(path, target).batches():
        X = batch.events if dicts else batch.matrix
        names, y = None if dicts else batch.names, batch.targets
        began = time.perf_counter()
        model.predict_proba_learn_many(X, y, names=names)
        seconds += time.perf_counter() - began
    return seconds


def whole(path: Path, target: str, dicts: bool) -> float:
    """Return the seconds of reading, decoding and learning, one beside the other."""
    model, began = KaczmarzClassifier(features=FEATURES), time.perf_counter()
    for batch in ReplayLog(path, target).batches():
        X = batch.events if dicts else batch.matrix
        model.predict_proba_learn_many(X, batch.targets, names=None if dicts else batch.names)
    return time.perf_counter() - began


def compare(data: Path, rows: int, rounds: int) -> None:
    """Print a table: the least of some rounds, the events of each taken in turn."""
    print("stream, form, events as: decoding, learning (µs an event), part; all in one, what that adds")
    with tempfile.TemporaryDirectory() as folder:
        for name, (file, target) in STREAMS.items():
            for path in written(data / file, target, Path(folder), rows):
                for dicts in (False, True):
                    found = []
                    for _ in range(rounds):
                        # the thread's own iterator: here nothing runs beside it
                        events, decoding = taken(ReplayLog(path, target)._read(), dicts)
                        found.append((decoding, learned(path, target, dicts), whole(path, target, dicts)))
                    a, b, c = (min(times) / events * 1e6 for times in zip(*found, strict=True))
                    form, sort, adds = path.suffix[1:], "dicts" if dicts else "columns", c / b - 1
                    print(
                        f"{name:10} {form:6} {sort:8} {a:6.2f} {b:6.2f} {a / b:6.0%} {c:8.2f} {adds:6.0%}",
                        flush=True,
                    )


def bounded(events: int) -> None:
    """Print the memory that made events take."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "made.csv.gz"
        with gzip.open(path, "wb", compresslevel=1) as file:
            file.write(b"a,b,c,y\n")
            block = b"".join(b"%d,%d.5,%d,%d\n" % (k, k * k, k % 7, k % 2) for k in range(10_000))
            for _ in range(events // 10_000):
                file.write(block)
        log, seen, began, early = ReplayLog(path, "y"), 0, time.perf_counter(), 0
        model = KaczmarzClassifier(features=FEATURES)
        for batch in log.batches():
            model.predict_proba_learn_many(batch.matrix, batch.targets, names=batch.names)
            seen += len(batch)
            if not early and seen >= events // 100:
                early = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        last = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(
            f"{seen:,} made events in {time.perf_counter() - began:.0f} s; at most {early / 1024:.0f} MiB "
            f"after a hundredth of them, {last / 1024:.0f} MiB in the end"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--made", type=int, default=0)
    given = parser.parse_args()
    if given.made:
        bounded(given.made)
    else:
        compare(given.data, given.rows, given.rounds)
