"""Scaling of shards: the cost model of docs/scale.md, and a simulation of rounds that checks it.

    python benchmarks/scale.py [--json]

The costs of an event, a model and a merge are measured; rounds of up to a thousand workers are simulated,
task by task, with the merge tree of ``streamk.distributed``.
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from sections import ROOT

import streamk
from streamk.distributed.merging import Tree, merged
from streamk.threads import one_blas_thread

ROUND, SHARDS_A_WORKER = 10_000, 4
WORKERS = (1, 2, 8, 32, 128, 1000)
LINK = 1.25e9  # bytes a second: ten gigabits
SPREAD = 0.5  # of the logarithm of a task's time, with stragglers
REPEATS = 20  # of rounds with stragglers


class Costs(NamedTuple):
    """Seconds of an event, of a model opened and written, of a merge; bytes of a model, and of a second."""

    event: float
    opening: float
    merge: float
    model: int
    link: float = LINK

    @property
    def sending(self) -> float:
        """Seconds that the driver's link takes for a model."""
        return self.model / self.link


@dataclass
class Driver:
    """The driver's processor and link, each of which does one thing at a time."""

    costs: Costs
    processor: float = 0.0
    link: float = 0.0

    def send(self, now: float) -> float:
        """Return the time at which a model has been sent that was ready at ``time``."""
        self.link = max(self.link, now) + self.costs.sending
        return self.link

    def merge(self, arrivals: Sequence[float]) -> float:
        """Return the time at which models with these arrival times are merged into one."""
        tree = Tree(len(arrivals), self._join)
        for shard in sorted(range(len(arrivals)), key=arrivals.__getitem__):
            self.processor = max(self.processor, arrivals[shard])
            tree.put(shard, shard)
        return self.processor

    def _join(self, left: object, right: object) -> object:
        self.processor += self.costs.merge
        return left


def simulated(costs: Costs, workers: int, tasks: Sequence[float]) -> float:
    """Return the seconds of a round with these task times; a free worker starts the next task in order."""
    driver, arrivals = Driver(costs), []
    free = [0.0] * workers
    ends: list[tuple[float, int]] = []
    for number, seconds in enumerate(tasks):
        begun = driver.send(heapq.heappop(free))
        ended = begun + costs.opening + seconds
        heapq.heappush(free, ended)
        ends.append((ended, number))
    back = dict.fromkeys(range(len(tasks)), 0.0)
    driver.link = 0.0  # a link goes both ways
    for ended, number in sorted(ends):
        back[number] = driver.send(ended)
    arrivals = [back[number] for number in range(len(tasks))]
    return driver.merge(arrivals)


def in_two_tiers(costs: Costs, workers: int, tasks: Sequence[float]) -> float:
    """Return the seconds of a round in about √S groups of as many workers, each with its own driver."""
    wanted = math.sqrt(len(tasks))
    groups = min((k for k in range(1, workers + 1) if workers % k == 0), key=lambda k: abs(k - wanted))
    size, share = -(-len(tasks) // groups), workers // groups
    parts = [tasks[k : k + size] for k in range(0, len(tasks), size)]
    root = Driver(costs)
    begun = [root.send(0.0) for _ in parts]
    ends = [start + simulated(costs, share, part) for start, part in zip(begun, parts, strict=True)]
    root.link = 0.0
    order = sorted(range(len(parts)), key=ends.__getitem__)
    arrivals = [0.0] * len(parts)
    for k in order:
        arrivals[k] = root.send(ends[k])
    return root.merge(arrivals)


def on_paper(costs: Costs, workers: int, shards: int, events: int) -> float:
    """Return the seconds of a round without stragglers: the slowest of workers, link and merging, and what
    the others add before or after it."""
    task = costs.opening + events * costs.event
    turns = -(-shards // workers)
    first, last = costs.sending + task + costs.sending, math.log2(max(shards, 2)) * costs.merge
    return max(
        turns * (task + costs.sending) + costs.sending + min(last, (shards - 1) * costs.merge),
        shards * costs.sending + task + costs.sending + last,
        first + (shards - 1) * costs.merge,
    )


def measured(learner: Any, data: Path) -> Costs:
    """Measure a learner on CoverType."""
    frame = pd.read_csv(data / "covtype.csv.gz", nrows=32_000)
    targets = frame.pop("Cover_Type").tolist()
    learner.learn_many(frame[:16_000], targets[:16_000])
    base = learner.to_bytes()
    found = []
    for first in (16_000, 16_000, 24_000):  # the first time, code is made ready
        model: Any = streamk.loads(base)
        began = time.perf_counter()
        model.learn_many(frame[first : first + 8000], targets[first : first + 8000])
        found.append((time.perf_counter() - began, model))
    with one_blas_thread():
        opening = _least(lambda: streamk.loads(base).to_bytes())
        merging = _least(lambda: merged([found[1][1], found[2][1]], streamk.loads(base))) - opening / 2.0
    return Costs(min(found[1][0], found[2][0]) / 8000, opening, merging, len(found[1][1].to_bytes()))


def _least(work: Any) -> float:
    seconds = []
    for _ in range(5):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def rows(costs: Costs) -> list[dict[str, Any]]:
    """Return, for each number of workers, the time of a round and its share of learning."""
    found, rng = [], np.random.default_rng(0)
    for workers in WORKERS:
        shards, task = SHARDS_A_WORKER * workers, ROUND * costs.event
        best = shards * task / workers

        def slow(turn: Any = simulated, workers: int = workers, task: float = task) -> float:
            """Return the mean round where tasks differ, and take as long together."""
            rounds = []
            for _ in range(REPEATS if workers < 1000 else 3):
                spread = rng.lognormal(-0.5 * SPREAD**2, SPREAD, SHARDS_A_WORKER * workers)
                rounds.append(turn(costs, workers, (task * spread / spread.mean()).tolist()))
            return float(np.mean(rounds))

        paper, real = on_paper(costs, workers, shards, ROUND), simulated(costs, workers, [task] * shards)
        found.append({
            "workers": workers, "shards": shards, "MB": round(2e-6 * shards * costs.model, 1),
            "on paper": round(paper, 3), "simulated": round(real, 3), "learning": round(best / real, 3),
            "with stragglers": round(best / slow(), 3),
            "two tiers": round(best / in_two_tiers(costs, workers, [task] * shards), 3),
            "two tiers, stragglers": round(best / slow(in_two_tiers), 3),
        })  # fmt: skip
    return found


def main() -> None:
    """Measure, simulate, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    console, answer = Console(stderr=arguments.json), {}
    for learner in (streamk.KaczmarzClassifier(seed=7), streamk.KernelClassifier(seed=7)):
        name = type(learner).__name__
        with console.status(f"measuring {name}"):
            costs = measured(learner, arguments.data)
            found = rows(costs)
        title = (
            f"{name}: {1e6 * costs.event:.0f} µs an event, {1e3 * costs.opening:.1f} ms a model opened, "
            f"{1e3 * costs.merge:.1f} ms a merge, {costs.model:,} bytes; rounds of {ROUND:,} events a shard"
        )
        table = Table(*found[0], title=title, title_justify="left")
        for row in found:
            table.add_row(*map(str, row.values()))
        console.print(table)
        answer[name] = {"costs": costs._asdict(), "rounds": found}
    if arguments.json:
        print(json.dumps(answer))


if __name__ == "__main__":
    main()
