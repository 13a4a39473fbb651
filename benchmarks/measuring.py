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
from contest import Contestant, Peer, Setting
from data_file import DataFile, Result
from label_columns import with_labels
from logs import STREAMS, Stream, load

from streamk.evaluation import tabled
from streamk.evaluation.adapters import Codes
from streamk.evaluation.classes import ClassSums
from streamk.evaluation.metric import TASKS
from streamk.evaluation.numbers import NumberSums

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


def peers(task: str, every: bool = False) -> list[Peer]:
    """Return the peers of a task, ours first: of the libraries that are installed, or all."""
    modules = (ours, river_peers, wabbit_peers, scikit_peers, moa_peers)
    return [peer for module in modules for peer in module.PEERS[task] if every or installed(peer.library)]


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


@dataclass(frozen=True)
class Selection:
    """What is measured or shown.

    Attributes
    ----------
    parts
        Parts of the names of peers; None for all.
    older
        Whether streamk's learners with settings take part.
    every
        Whether peers take part whose libraries are not installed.
    """

    streams: list[str]
    parts: list[str] | None = None
    older: bool = False
    every: bool = False
    delay: int = 0
    batch: int = 1

    def jobs(self) -> list[Job]:
        """Return the jobs, cheapest peers first, each with and without label memory."""
        found = []
        for name in self.streams:
            source = STREAMS[name]
            for peer in [*peers(source.task, self.every), *(ours.OLDER if self.older else [])]:
                if self.parts is None or any(part.lower() in peer.name.lower() for part in self.parts):
                    seeds = (
                        ours.SEEDS if peer.ours and not source.long else ours.SEEDS[:1] if peer.ours else (1,)
                    )
                    for seed in seeds:
                        settings = (Setting(memory, self.delay, seed, self.batch) for memory in (False, True))
                        found += [Job(name, peer, setting) for setting in settings]
        return sorted(found, key=lambda job: (not job.peer.ours, job.peer.cost))


class Bench:
    """Measures jobs and stores results; the streams in use stay in memory."""

    def __init__(self, data: Path, file: DataFile, events: int | None, budget: float) -> None:
        self._data, self._file, self._events, self._budget = data, file, events, budget
        self._streams: dict[str, Stream] = {}
        self._versions: dict[str, str] = {}

    def stream(self, name: str) -> Stream:
        """Return a stream, cut at the requested number of events."""
        if name not in self._streams:
            self._streams[name] = load(name, self._data).first(self._events)
        return self._streams[name]

    def events(self, name: str) -> int:
        """Return the number of events of a stream, without loading it."""
        events = STREAMS[name].events
        return events if self._events is None else min(self._events, events)

    def known(self, job: Job, cached: bool = False) -> Result | None:
        """Return the result of a job if the file has it; ``cached`` takes that of another version, too."""
        key = self._key(job)
        return self._file.newest(key) if cached else self._file.get(key, self._budget)

    def result(self, job: Job) -> Result:
        """Measure a job and store its result; after a failure the next run tries again."""
        stream = self.stream(job.stream)
        found = {**self._key(job), "task": stream.task, "budget": self._budget}
        try:
            found |= measure(stream, job.peer, job.setting, self._budget)
        except Exception as error:  # of another library; it is printed, and the other jobs continue
            found |= {"done": 0, "failed": f"{type(error).__name__}: {error}"[:200]}
        self._file.put(found)
        return found

    def _key(self, job: Job) -> Result:
        library = job.peer.library
        return {
            "stream": job.stream, "peer": job.peer.name, "memory": job.setting.memory,
            "delay": job.setting.delay, "batch": job.setting.batch, "seed": job.setting.seed,
            "events": self.events(job.stream),
            "version": self._versions.setdefault(library, installed(library)),
        }  # fmt: skip


def measure(stream: Stream, peer: Peer, setting: Setting, budget: float) -> Result:
    """Return metrics, events per second (predict and learn), bytes, and the number of events in time."""
    shown = with_labels(stream, setting) if setting.memory and not peer.ours else stream
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
        "done": min(sums.events + setting.unscored, len(shown.targets)),
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
    known, arrived = np.full(len(stream.targets), -1), setting.arrived(len(stream.targets))
    pairs = zip(contestant.prepare(stream), stream.targets, strict=True)
    while chunk := list(islice(pairs, max(1, CHUNK // setting.batch) * setting.batch)):
        began = time.perf_counter()
        predictions = _answer(contestant, chunk, setting, waiting)
        seconds += time.perf_counter() - began
        targets = codes.of([y for _, y in chunk])
        scored = slice(max(0, setting.unscored - done), None)
        answers = codes.arranged(tabled(predictions))[scored]
        here = slice(done, done + len(chunk))
        done += len(chunk)
        if classes:
            known[here] = targets
            last = np.where(arrived[here] > 0, known[arrived[here] - 1], -1)
            sums.add(targets[scored], answers, last[scored])
        else:
            sums.add(targets[scored], answers)
        if seconds > budget:
            break
    for pair in waiting:
        contestant.learn(*pair)
    return sums, contestant, seconds


def _answer(
    contestant: Contestant, chunk: list[tuple[Any, Any]], setting: Setting, waiting: deque[tuple[Any, Any]]
) -> list[Any]:
    """Predict and learn events: each in turn, in batches, or with late labels, which wait for their time."""
    xs, ys = [x for x, _ in chunk], [y for _, y in chunk]
    if setting.batch > 1:
        parts = [slice(k, k + setting.batch) for k in range(0, len(chunk), setting.batch)]
        return [answer for part in parts for answer in contestant.answer_batch(xs[part], ys[part])]
    if not setting.delay:
        return list(contestant.answer(xs, ys))
    found = []
    for x, y in chunk:
        found.append(contestant.predict(x))
        waiting.append((x, y))
        if len(waiting) > setting.delay:
            contestant.learn(*waiting.popleft())
    return found
