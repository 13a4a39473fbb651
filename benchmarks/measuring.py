"""One pair of stream and peer: test, then train, until the end or the time limit."""

from __future__ import annotations

import os
import shutil
import time
from collections import deque
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from pathlib import Path
from typing import Any

import moa_peers
import numpy as np
import ours
import river_peers
import scikit_peers
import wabbit_peers
from cache import Cache, Result
from contest import Contestant, Peer, Setting
from label_columns import with_labels
from logs import STREAMS, Stream, load

from streamk.metrics.classes import ClassSums
from streamk.metrics.metric import TASKS
from streamk.metrics.numbers import NumberSums
from streamk.prequential import tabled
from streamk.prequential.codes import Codes

CHUNK = 200  # events between two readings of the clock
WARM = 60  # events before the measurement, for compilation
METRICS = {
    "classification": ["accuracy", "kappa", "kappa_temporal", "log_loss"],
    "regression": ["mae", "rmse", "r2"],
}
LIBRARIES = {
    "vowpalwabbit": "pip install -e '.[bench]'",
    "scikit-learn": "pip install scikit-learn",
    "capymoa": "pip install capymoa, and Java 17",
}


def peers(task: str) -> list[Peer]:
    """Return the peers of a task, ours first, of the libraries that are installed."""
    modules = (ours, river_peers, wabbit_peers, scikit_peers, moa_peers)
    return [peer for module in modules for peer in module.PEERS[task] if installed(peer.library)]


def installed(library: str) -> str:
    """Return the version of a library, for streamk a hash of the sources; None if it is not installed."""
    if library == "capymoa" and not (shutil.which("java") or os.environ.get("JAVA_HOME")):
        return ""
    if library == "streamk":
        return ours.sources()
    try:
        return version(library)
    except PackageNotFoundError:
        return ""


@dataclass(frozen=True)
class Job:
    """A pair to measure."""

    stream: str
    peer: Peer
    setting: Setting


def jobs(streams: list[str], chosen: list[str] | None, older: bool, delay: int) -> list[Job]:
    """Return the jobs, cheapest peers first, each with and without label memory."""
    found = []
    for name in streams:
        for peer in [*peers(STREAMS[name][0]), *(ours.OLDER if older else [])]:
            if chosen is None or any(part.lower() in peer.name.lower() for part in chosen):
                for seed in ours.SEEDS if peer.ours else (1,):
                    found += [Job(name, peer, Setting(memory, delay, seed)) for memory in (False, True)]
    return sorted(found, key=lambda job: (not job.peer.ours, job.peer.cost))


class Bench:
    """Measures jobs and stores results; the streams in use stay in memory."""

    def __init__(self, data: Path, cache: Cache, events: int | None, budget: float) -> None:
        self._data, self._cache, self._events, self._budget = data, cache, events, budget
        self._streams: dict[str, Stream] = {}
        self._versions: dict[str, str] = {}

    def stream(self, name: str) -> Stream:
        """Return a stream, cut at the requested number of events."""
        if name not in self._streams:
            self._streams[name] = load(name, self._data).first(self._events)
        return self._streams[name]

    def events(self, name: str) -> int:
        """Return the number of events of a stream."""
        return len(self.stream(name).targets)

    def known(self, job: Job) -> Result | None:
        """Return the result of a job if it is in the cache."""
        return self._cache.get(self._key(job), self._budget)

    def result(self, job: Job) -> Result:
        """Measure a job and store its result; a failure is not stored, so the next run tries again."""
        stream = self.stream(job.stream)
        found = {**self._key(job), "task": stream.task, "budget": self._budget}
        try:
            found |= measure(stream, job.peer, job.setting, self._budget)
        except Exception as error:  # of another library; it is printed, and the other jobs continue
            return {**found, "done": 0, "failed": f"{type(error).__name__}: {error}"[:200]}
        self._cache.put(found)
        return found

    def _key(self, job: Job) -> Result:
        library = job.peer.library
        return {
            "stream": job.stream, "peer": job.peer.name, "memory": job.setting.memory,
            "delay": job.setting.delay, "seed": job.setting.seed, "events": self.events(job.stream),
            "version": self._versions.setdefault(library, installed(library)),
        }  # fmt: skip


def measure(stream: Stream, peer: Peer, setting: Setting, budget: float) -> Result:
    """Return metrics, events per second (predict and learn), bytes, and the number of events in time."""
    shown = with_labels(stream, setting.delay) if setting.memory and not peer.ours else stream
    if peer.library == "streamk":
        warm = replace(shown, frame=shown.frame[:WARM], targets=shown.targets[:WARM])
        _follow(warm, peer, setting, budget)
    sums, contestant, seconds = _follow(shown, peer, setting, budget)
    names = METRICS[stream.task]
    if not contestant.probabilities:
        names = [name for name in names if name != "log_loss"]
    values = sums.values()
    return {
        **{name: round(values[name], 6) for name in names},
        "done": min(sums.events + setting.delay, len(shown.targets)),
        "events_per_second": round(sums.events / seconds) if seconds else 0,
        "bytes": contestant.size(),
    }


def _follow(stream: Stream, peer: Peer, setting: Setting, budget: float) -> tuple[Any, Contestant, float]:
    """Return sums, the contestant and its seconds at the end, or at the time limit.

    Events predicted before the first label are not scored.
    """
    contestant, classes = peer.make(stream, setting), stream.task == TASKS[0]
    sums: Any = ClassSums(ranked=False) if classes else NumberSums()
    codes, waiting, seconds, done = Codes(classes), deque[tuple[Any, Any]](), 0.0, 0
    arrived = [-1] * (1 + setting.delay)  # codes of labels, the last one first
    pairs = zip(contestant.prepare(stream), stream.targets, strict=True)
    while chunk := list(islice(pairs, CHUNK)):
        began = time.perf_counter()
        if setting.delay:
            predictions = [_predict_late(contestant, x, y, waiting, setting.delay) for x, y in chunk]
        else:
            predictions = contestant.answer([x for x, _ in chunk], [y for _, y in chunk])
        seconds += time.perf_counter() - began
        targets = codes.of([y for _, y in chunk])
        last = np.array([*arrived, *targets.tolist()][: len(targets)]) if classes else None
        arrived = [*arrived, *targets.tolist()][len(targets) :]
        scored = slice(max(0, setting.delay - done), None)
        done += len(chunk)
        answers = codes.arranged(tabled(predictions))[scored]
        sums.add(targets[scored], answers, *([last[scored]] if last is not None else []))
        if seconds > budget:
            break
    for pair in waiting:
        contestant.learn(*pair)
    return sums, contestant, seconds


def _predict_late(contestant: Contestant, x: Any, y: Any, waiting: deque[tuple[Any, Any]], delay: int) -> Any:
    """Predict an event, then learn the one whose label arrives."""
    found = contestant.predict(x)
    waiting.append((x, y))
    if len(waiting) > delay:
        contestant.learn(*waiting.popleft())
    return found
