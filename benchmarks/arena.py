"""Submission files of StreamArena, a public board: one JSON file for each stream and seed.

Format and rules are those of ``submissions/README.md`` and ``benchmarks/validate_submission.py`` in
``TechyNilesh/StreamArena``: test, then train, with prompt labels, on the whole stream in its order, with one
configuration for all streams and seeds 1 to 10. ``kappa_m`` compares with a prequential majority class, as
MOA computes it.

Of its 38 streams of classes and numbers, those of :data:`STREAMS` are here, with as many rows and inputs.
*airlines* is here in another order, *adult* with other labels, and the other 30 are not.
"""

from __future__ import annotations

import dataclasses
import json
import platform
import time
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from logs import CLASSES, Stream, load
from ours import NAMES
from sklearn.metrics import average_precision_score, roc_auc_score

import streamk
from streamk.evaluation import Contest, Results

SEEDS = range(1, 11)
CONTACT = "to be set before it is submitted"
NOTES = (
    "The rows are a copy of the public data with as many rows and inputs, not the file of the Hub. log_loss "
    "is without events before the first label; the positive class of pr_auc is the last of the sorted labels."
)


class Theirs(NamedTuple):
    """A stream of StreamArena: its key, rows and inputs."""

    key: str
    rows: int
    inputs: int


STREAMS = {
    "Elec2": Theirs("real/electricity", 45_312, 8),
    "CoverType": Theirs("real/forest_cover", 581_012, 54),
    "Poker": Theirs("real/poker", 829_201, 10),
    "bike_hourly": Theirs("real/bike", 17_379, 12),
    "elevators": Theirs("real/elevators", 16_599, 18),
    "fried": Theirs("synth/fried", 40_768, 10),
}


def write(names: list[str], data: Path, directory: Path, events: int | None) -> Iterator[Path]:
    """Measure streams, and yield the file of each result when it is written."""
    for name in names:
        stream, theirs = load(name, data), STREAMS[name]
        shape = len(stream.targets), stream.frame.shape[1]
        if shape != (theirs.rows, theirs.inputs):
            raise ValueError(f"{name} has {shape} rows and inputs; {theirs.key} has {theirs[1:]}")
        for seed in SEEDS:
            found = record(stream.first(events), theirs.key, seed, events)
            path = directory / found["algorithm"] / f"{theirs.key.replace('/', '__')}__seed{seed}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(found, indent=2) + "\n")
            yield path


def record(stream: Stream, key: str, seed: int, events: int | None) -> dict[str, Any]:
    """Return the content of a file."""
    name = NAMES[stream.task].removeprefix("streamk ")
    learner = getattr(streamk, name)(seed=seed)
    contest, positives, labels = Contest({name: learner}, stream.task), [], stream.labels

    def listen(scored: Any) -> None:
        table = scored.answers[name]
        column = [*table.labels].index(labels[-1]) if labels[-1] in table.labels else None
        positives.append(np.zeros(len(table.rows)) if column is None else table.rows[:, column])

    contest.listener = listen if len(labels) == 2 else None
    xs, began, cpu = stream.frame.to_dict("records"), time.perf_counter(), time.process_time()
    contest.take(xs, stream.targets)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    if error := contest.standings[name].error:
        raise ValueError(error)
    values = Results(contest).metrics(name)
    if stream.task == CLASSES:
        metrics = {
            "accuracy": 100.0 * values["accuracy"], "kappa": 100.0 * values["kappa"],
            "kappa_t": 100.0 * values["kappa_temporal"],
            "kappa_m": 100.0 * kappa_m(values["accuracy"], stream.targets),
            "log_loss": values["log_loss"], "roc_auc": None, "pr_auc": None,
        }  # fmt: skip
    else:
        metrics = {each: values[each] for each in ("rmse", "mae", "r2")}
    if positives:
        truths, scores = np.array(stream.targets) == labels[-1], np.concatenate(positives)
        metrics["roc_auc"] = float(roc_auc_score(truths, scores))
        metrics["pr_auc"] = float(average_precision_score(truths, scores))
    settings = {f.name: getattr(learner, f.name) for f in dataclasses.fields(learner) if f.name != "seed"}
    return {
        "task": stream.task, "algorithm": name, "dataset": key, "seed": seed, "status": "ok",
        "window_size": 1000, "max_instances": events, "timestamp": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "platform": platform.platform(), "python": platform.python_version(), "metrics": metrics,
        "wallclock_s": round(seconds, 3), "cpu_time_s": round(cpu, 3), "hyperparameters": settings,
        "submission": {
            "author": metadata.metadata("streamk")["Author"], "contact_or_repo": CONTACT,
            "library_versions": {"streamk": metadata.version("streamk")}, "notes": NOTES,
        },
    }  # fmt: skip


def kappa_m(accuracy: float, targets: list[Any]) -> float:
    """Return ``(p − q)/(1 − q)``, ``q`` being how often the label is the most frequent one so far.

    As in MOA, the label itself counts.

    >>> kappa_m(0.75, ["a", "a", "b", "a"])
    0.0
    """
    counts = dict.fromkeys(sorted(set(targets)), 0)
    right = 0
    for target in targets:
        counts[target] += 1
        right += max(counts, key=counts.__getitem__) == target
    share = right / len(targets)
    return (accuracy - share) / (1.0 - share) if share < 1.0 else 0.0
