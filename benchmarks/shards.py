"""Measure learning in shards: accuracy compared with one learner, speed, size.

    python benchmarks/shards.py                      # everything, about half an hour
    python benchmarks/shards.py --only merge many    # some of it

CoverType (``covtype.csv.gz``) is cut into sixteen shards, by blocks of time and by the hash of an event's
number. In every round the merged model predicts all events of the round before any of them is learned, and so
does one learner that has learned all events of the rounds before: those of a round by hash in the order of
the file, those of blocks in turns. Both are judged on the same events.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sections import Row, measure

import streamk
from connectors.shards import hash_of
from streamk.distributed import Chunk, Trained, learn
from streamk.distributed.merging import Merging
from streamk.encoding.codec import EVENTS, KNOWN

SHARDS, ROUND = 16, 10_000
TURNS = 3
LEARNERS: dict[str, Callable[[], Any]] = {
    "recursion": lambda: streamk.MatchingPursuitClassifier(
        features=512, max_features=512, growth="fixed", seed=7
    ),
    "KernelClassifier": lambda: streamk.KernelClassifier(label_memory=False, seed=7),
    "KaczmarzClassifier": lambda: streamk.KaczmarzClassifier(seed=7),
}

EXACT: dict[str, Callable[[], Any]] = {
    "LSSVMClassifier": lambda: streamk.LSSVMClassifier(rows=4000, seed=7),
    "LowRankKernelClassifier": lambda: streamk.LowRankKernelClassifier(rows=4000, seed=7),
    "EigenProClassifier": lambda: streamk.EigenProClassifier(seed=7),
}


@dataclass(frozen=True)
class Part:
    """A shard of rows in memory."""

    name: str
    frame: pd.DataFrame
    targets: list[Any]

    def read(self, position: Any, count: int) -> Chunk:
        """Return rows from a position on."""
        start = position or 0
        stop = min(start + count, len(self.frame))
        return Chunk(self.frame[start:stop], self.targets[start:stop], stop, stop == len(self.frame))


def load(data: Path, events: int | None = None) -> tuple[pd.DataFrame, list[Any]]:
    """Return CoverType."""
    frame = pd.read_csv(data / "covtype.csv.gz", nrows=events)
    return frame, frame.pop("Cover_Type").tolist()


def places(events: int, by: str, shards: int) -> list[NDArray[np.intp]]:
    """Return the events of each shard."""
    if by == "blocks":
        which = np.arange(events) * shards // events
    else:
        which = np.array([hash_of(number) % shards for number in range(events)])
    return [np.flatnonzero(which == k) for k in range(shards)]


def parts(frame: pd.DataFrame, targets: list[Any], where: list[NDArray[np.intp]]) -> list[Part]:
    """Return the shards."""
    all_targets = np.array(targets)
    return [Part(f"part {k}", frame.iloc[at], all_targets[at].tolist()) for k, at in enumerate(where)]


def rounds(where: list[NDArray[np.intp]], trained: Trained, by: str) -> Iterator[NDArray[np.intp]]:
    """Yield the events of every round in the order in which one learner learns them."""
    begun = np.zeros(len(where), dtype=int)
    for number, entry in enumerate(trained.curve):
        takes = where[:1] if number == 0 else where  # the first shard learns the first events alone
        longest = next(
            count
            for count in range(entry.events // len(takes), ROUND + 1)
            if sum(len(at[b : b + count]) for at, b in zip(takes, begun, strict=False)) >= entry.events
        )
        found = [at[b : b + longest] for at, b in zip(takes, begun, strict=False)]
        begun[: len(takes)] += longest
        if by == "hash":
            yield np.sort(np.concatenate(found))
        else:
            turns = np.concatenate([np.arange(len(at)) for at in found])
            yield np.concatenate(found)[np.argsort(turns, kind="stable")]


def one_learner(
    model: Any, frame: pd.DataFrame, targets: list[Any], order: Iterator[NDArray[np.intp]]
) -> tuple[int, int]:
    """Return the number of events that one learner predicted, and predicted correctly, by round."""
    asked, right, truth = 0, 0, np.array(targets)
    for events in order:
        rows, labels = frame.iloc[events], truth[events]
        if model.events:
            asked += len(events)
            right += int((np.array(model.predict_many(rows)) == labels).sum())
        model.learn_many(rows, labels.tolist())
    return asked, right


def covtype(data: Path) -> Iterator[Row]:
    """Accuracy of the merged model on each following round, compared with one learner of everything."""
    frame, targets = load(data)
    for name, make in LEARNERS.items():
        for by in ("blocks", "hash"):
            where = places(len(frame), by, SHARDS)
            for scales in ("first", "running"):
                merged, one = _both(make, frame, targets, where, by, scales)
                yield (
                    f"CoverType, {SHARDS} shards by {by}, scales {scales}, {name}",
                    _shown(merged, one),
                    "≥ −0.2 points" if scales == "first" else "",
                    merged >= one - 0.002 or scales == "running",
                )


def exact(data: Path) -> Iterator[Row]:
    """The same of exact solvers, on the first 50,000 events."""
    frame, targets = load(data, 50_000)
    for name, make in EXACT.items():
        for by in ("blocks", "hash"):
            merged, one = _both(make, frame, targets, places(len(frame), by, SHARDS), by, "running")
            yield f"CoverType 50,000, {SHARDS} shards by {by}, {name}", _shown(merged, one), "", True


def _both(
    make: Callable[[], Any],
    frame: pd.DataFrame,
    targets: list[Any],
    where: list[NDArray[np.intp]],
    by: str,
    scales: str,
) -> tuple[float, float]:
    """Return the accuracies of the merged model and of one learner."""
    trained = learn(parts(frame, targets, where), make(), round=ROUND, scales=scales)
    tally: Any = trained.tally
    alone = make()
    if scales == "first":
        alone._codec.absorb([trained.learner._codec])
        alone._codec.counts[[EVENTS, KNOWN]] = 0.0
    asked, right = one_learner(alone, frame, targets, rounds(where, trained, by))
    return tally.right / tally.events, right / asked


def _shown(merged: float, one: float) -> str:
    return f"merged {merged:.4f}, one learner {one:.4f} ({100 * (merged - one):+.2f} points)"


def workers(data: Path) -> Iterator[Row]:
    """Two workers and one in turns, learning only: in the longest round, and over all but the first."""
    frame, targets = load(data, 150_000)
    shards = parts(frame, targets, places(len(frame), "hash", SHARDS))
    longest, whole = [], []
    for _ in range(TURNS):
        found = {}
        for count in (1, 2):
            curve = learn(
                shards, LEARNERS["KernelClassifier"](), round=ROUND, workers=count, evaluate=False
            ).curve
            most = max(curve, key=lambda entry: entry.events)
            found[count] = most.seconds, sum(entry.seconds for entry in curve[1:])
        longest.append(found[1][0] / found[2][0])
        whole.append(found[1][1] / found[2][1])
    for name, ratios in (("the longest round", longest), ("all rounds that grow", whole)):
        ratio = statistics.median(ratios)
        yield f"two workers, KernelClassifier, {name}", f"{ratio:.2f} times one", "≥ 1.8", ratio >= 1.8


def many(data: Path) -> Iterator[Row]:
    """Sixty-four shards on two workers, and in turn in one process."""
    frame, targets = load(data, 64_000)
    shards = parts(frame, targets, places(len(frame), "hash", 64))
    models = [
        learn(
            shards, LEARNERS["KaczmarzClassifier"](), round=200, workers=2, engine=engine
        ).learner.to_bytes()
        for engine in ("processes", "here")
    ]
    same = models[0] == models[1]
    yield "64 shards, two workers and none", "the same bytes" if same else "other bytes", "same", same


def merge(data: Path) -> Iterator[Row]:
    """Merge models in the tree of a round."""
    frame, targets = load(data, 80_000)
    for learner, count, wanted in (
        (streamk.KaczmarzClassifier(features=1024, max_features=1024, seed=7), 64, 0.2),
        (streamk.KernelClassifier(seed=7), 16, None),
    ):
        learner.learn_many(frame[:16_000], targets[:16_000])
        base, models = learner.to_bytes(), []
        for rows in (slice(a, b) for a, b in pairwise(range(16_000, 16_000 + 1000 * (count + 1), 1000))):
            model: Any = streamk.loads(base)
            model.learn_many(frame[rows], targets[rows])
            models.append(model.to_bytes())
        seconds = min(_merging(base, models) for _ in range(5))
        name = f"merge of {count} models, {type(learner).__name__} of {learner.features} features"
        sizes = f"{len(models[0]):,} bytes each"
        if wanted is None:
            yield name, f"{seconds:.3f} s, {sizes}", "", True
        else:
            yield name, f"{seconds:.3f} s, {sizes}", f"< {wanted} s", seconds < wanted


def _merging(base: bytes, models: list[bytes]) -> float:
    began, merging = time.perf_counter(), Merging(base, len(models))
    for k, model in enumerate(models):
        merging.put(k, model)
    merging.model()
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(
        measure(
            __doc__ or "",
            {"covtype": covtype, "exact": exact, "workers": workers, "many": many, "merge": merge},
        )
    )
