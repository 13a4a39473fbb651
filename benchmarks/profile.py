"""Microseconds of every part of an event, of the default learners on five public streams.

    python benchmarks/profile.py [--data DIRECTORY] [--only NAME …] [--json]

The learner of the first 8,000 events learns the next 8,000 in a pass, in batches of ten or one by one, which
includes what happens once in thousands of events, such as the opening of a block. Then it repeats each part
on the next 256 events, in compiled code. Times are CPU time of one thread: the least of five repetitions, and
of two for all events.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

os.environ["NUMBA_NUM_THREADS"] = "1"

import numpy as np
import pandas as pd
from numba import njit
from rich.console import Console
from rich.table import Table

import streamk
from streamk.encoding.codec import aim_of
from streamk.encoding.frames import batch
from streamk.encoding.label_history import NOW
from streamk.experts.expert import Observation
from streamk.experts.least_squares import LeastSquares
from streamk.features.raw_values import scale_inputs
from streamk.features.relevance import transform_row
from streamk.handles import make_group, make_handle
from streamk.learners import kernel_loop
from streamk.learners.kernel_loop import step_all

ROOT = Path(__file__).resolve().parent.parent
STREAMS = {
    "Elec2": ("elec2.csv.gz", "class", streamk.KernelClassifier),
    "CoverType": ("covtype.csv.gz", "Cover_Type", streamk.KernelClassifier),
    "Adult": ("adult_train.csv.gz", "income", streamk.KernelClassifier),
    "bike": ("bike_hourly.csv.gz", "cnt", streamk.KernelRegressor),
    "kin40k": ("kin40k.csv.gz", "target", streamk.KernelRegressor),
}
FIRST, EVENTS, BATCH, ROWS = 8_000, 16_000, 10, 256
TURNS, WHOLE_TURNS, TIMES = 5, 2, 8


@njit
def scale(handle, rows, scratch):
    for i in range(rows.values.shape[0]):
        scale_inputs(handle.coding, rows, i, scratch, i)
        transform_row(handle.features.sections, scratch, i)


@njit
def featurize(handle, rows, scratch):
    kernel_loop._featurize(handle, scratch, rows.values.shape[0])


@njit
def copy_inputs(handle, rows, scratch):
    for i in range(scratch.columns.shape[0]):
        kernel_loop.fill_columns(
            handle.features.sections, scratch, np.int64(i), np.bool_(False), scratch.columns
        )


@njit
def answer(handle, rows, scratch):
    phi, residual = scratch.columns, scratch.residual
    for i in range(phi.shape[0]):
        kernel_loop._answer(handle, np.int64(NOW), phi, np.int64(i), scratch, residual)


@njit
def adapt(handle, rows, scratch, targets):
    for i in range(rows.values.shape[0]):
        kernel_loop._adapt(handle, handle, scratch, scratch.residual, targets[i], 1.0)


@njit
def relevance(handle, rows, scratch, targets):
    for i in range(rows.values.shape[0]):
        aim = aim_of(handle.coding, targets[i])
        kernel_loop._take_products(handle, scratch, np.int64(i), aim, 1.0)


@njit
def step_group(coding, groups, scratch, targets, e, known):
    phi, residual = scratch.columns, scratch.residual.copy()
    for i in range(targets.shape[0]):
        aim = aim_of(coding, targets[i])
        step_all(groups, e, Observation(phi, np.int64(i), scratch.outputs, aim, known, 1.0, residual, False))


def microseconds(part: Callable[[], object]) -> float:
    """Return the least CPU time of a part, for one event."""
    part()
    found = []
    for _ in range(TURNS):
        began = time.process_time()
        for _ in range(TIMES):
            part()
        found.append((time.process_time() - began) / TIMES / ROWS)
    return 1e6 * min(found)


def whole(learner: Any, learn: Callable[[Any], object]) -> float:
    """Return the least CPU time of learning an event, each time by a copy of the learner."""
    found = []
    for _ in range(WHOLE_TURNS):
        own = copy.deepcopy(learner)
        began = time.process_time()
        learn(own)
        found.append((time.process_time() - began) / (EVENTS - FIRST))
    return 1e6 * min(found)


def measure(name: str, data: Path) -> dict[str, float]:
    """Return the microseconds of each part."""
    file, target, make = STREAMS[name]
    frame = pd.read_csv(data / file, nrows=EVENTS + ROWS)
    truths: list[Any] = frame.pop(target).tolist()
    learner = make(seed=7)
    learner.predict_learn_many(frame[:FIRST], truths[:FIRST])
    rest, labels = frame[FIRST:EVENTS], truths[FIRST:EVENTS]
    xs = rest.to_dict("records")
    found = {
        "a pass": whole(learner, lambda own: own.predict_learn_many(rest, labels)),
        "batches of ten rows": whole(learner, lambda own: in_batches(own, rest, labels)),
        "predict_one, learn_one": whole(learner, lambda own: one_by_one(own, xs, labels)),
    }
    learner.predict_learn_many(rest, labels)
    last = batch(frame[EVENTS:])
    last.prepare(learner._codec.inputs, None)
    rows = learner._codec.inputs.transform(last.rows(learner._codec.inputs, 0, ROWS))
    known = learner._codec.labels
    targets = np.array([float(y if known is None else known.codes[y]) for y in truths[EVENTS:]])
    assert learner._map is not None
    handles = learner._handles_of(learner._map)
    handle, scratch = handles.parameters, handles.scratch.arrays(ROWS, rows.values.shape[1])
    coding, _, _, groups, _ = learner._all_but_rows(learner._map)
    parts: dict[str, Callable[[], object]] = {
        "scale and transform inputs": lambda: scale(handle, rows, scratch),
        "features": lambda: featurize(handle, rows, scratch),
        "copies of inputs and labels": lambda: copy_inputs(handle, rows, scratch),
        "evaluate and combine": lambda: answer(handle, rows, scratch),
        "Newton's method of the combiner": lambda: adapt(handle, rows, scratch, targets),
        "moments of relevance": lambda: relevance(handle, rows, scratch, targets),
    }
    found |= {part: microseconds(run) for part, run in parts.items()}
    records = [record for group in groups for record in group]
    for e, (expert, record) in enumerate(zip(learner._experts, records, strict=True)):
        size = f", {len(expert.joined)} variables" if type(expert) is LeastSquares else ""
        one = (make_group(record, [make_handle(record)]),)
        steps = microseconds(partial(step_group, coding, one, scratch, targets, e, learner._outputs))
        found[expert.rule + size] = found.get(expert.rule + size, 0.0) + steps
    return found


def in_batches(learner: Any, frame: Any, labels: list[Any]) -> None:
    """Predict and learn ten rows of a frame at a time."""
    for start in range(0, len(frame), BATCH):
        learner.predict_learn_many(frame[start : start + BATCH], labels[start : start + BATCH])


def one_by_one(learner: Any, xs: list[dict[str, Any]], ys: list[Any]) -> None:
    """Predict and learn every event."""
    for x, y in zip(xs, ys, strict=True):
        learner.predict_one(x)
        learner.learn_one(x, y)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--only", nargs="+", choices=STREAMS, default=list(STREAMS))
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    results = {name: measure(name, arguments.data) for name in arguments.only}
    if arguments.json:
        print(json.dumps(results))
        return
    table = Table("µs an event", *results)
    for part in dict.fromkeys(part for found in results.values() for part in found):
        table.add_row(part, *(f"{found[part]:.2f}" if part in found else "" for found in results.values()))
    Console().print(table)


if __name__ == "__main__":
    main()
