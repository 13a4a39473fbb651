"""Cost of decoding a log compared with a learner of 512 features: microseconds per event, and share.

``python benchmarks/decoding.py --data ../shared/data`` reads Elec2 and CoverType as CSV and as JSON lines.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from connectors.events.batches import RecordBatch
from connectors.files.log import ReplayLog
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


def taken(batches: Iterator[RecordBatch], dicts: bool) -> tuple[int, float]:
    """Return the number of events, and the seconds of reading and decoding them."""
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
    """Return the seconds of reading, decoding and learning in parallel."""
    model, began = KaczmarzClassifier(features=FEATURES), time.perf_counter()
    for batch in ReplayLog(path, target).batches():
        X = batch.events if dicts else batch.matrix
        model.predict_proba_learn_many(X, batch.targets, names=None if dicts else batch.names)
    return time.perf_counter() - began


def compare(data: Path, rows: int, rounds: int) -> None:
    """Print a table: the minimum of some rounds, with the measurements in turns."""
    print("stream, form, events as: decoding, learning (µs an event), part; all in one, what that adds")
    with tempfile.TemporaryDirectory() as folder:
        for name, (file, target) in STREAMS.items():
            for path in written(data / file, target, Path(folder), rows):
                for dicts in (False, True):
                    found = []
                    for _ in range(rounds):
                        # the thread's own iterator: here nothing runs in parallel
                        events, decoding = taken(ReplayLog(path, target)._read(), dicts)
                        found.append((decoding, learned(path, target, dicts), whole(path, target, dicts)))
                    a, b, c = (min(times) / events * 1e6 for times in zip(*found, strict=True))
                    form, sort, adds = path.suffix[1:], "dicts" if dicts else "columns", c / b - 1
                    print(
                        f"{name:10} {form:6} {sort:8} {a:6.2f} {b:6.2f} {a / b:6.0%} {c:8.2f} {adds:6.0%}",
                        flush=True,
                    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    compare(given.data, given.rows, given.rounds)
