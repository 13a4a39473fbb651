"""One pair of stream and peer: test, then train, until the end or the time limit.

Events are predicted, scored and learned as by ``streamk replay`` (:class:`streamk.evaluation.Contest`).
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from pathlib import Path

import boosted_peers
import moa_peers
import ours
import river_peers
import scikit_peers
import wabbit_peers
from contest import PROMPT, Contestant, Peer, Setting
from data_file import DataFile, Result
from label_columns import with_labels
from logs import STREAMS, Stream, load
from order import Orders

from connectors.replay.logs import CHUNKS
from streamk.evaluation import Contest, Results
from streamk.evaluation.contender_metrics import ContenderMetrics
from streamk.evaluation.metric import TASKS, headline_of

TOGETHER = 200  # events between two readings of the clock
LEVEL = 0.9  # of intervals
WARM = 60  # events before the measurement, for compilation
METRICS = {
    "classification": ["accuracy", "kappa", "kappa_temporal", "log_loss", "calibration_error"],
    "regression": ["mae", "rmse", "r2", "coverage"],
}
OF_PROBABILITIES = "log_loss", "calibration_error"
LIBRARIES = {
    "vowpalwabbit": "pip install -e '.[bench]'",
    "scikit-learn": "pip install scikit-learn",
    "capymoa": "pip install capymoa, and Java 17",
    "lightgbm": "pip install lightgbm",
}


def peers(task: str, every: bool = False, protocol: str = PROMPT) -> list[Peer]:
    """Return the peers of a task, ours first: of the libraries that are installed, or all.

    Models that are fitted again take part where labels come in chunks.
    """
    modules = (ours, river_peers, wabbit_peers, scikit_peers, moa_peers, boosted_peers)
    modules = modules if protocol == CHUNKS else modules[:-1]
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
    protocol: str = PROMPT

    def jobs(self) -> list[Job]:
        """Return the jobs, cheapest peers first, each with and without label memory.

        In chunks there is no memory: labels that come are of events long before.
        """
        found, memories = [], (False,) if self.protocol == CHUNKS else (False, True)
        for name in self.streams:
            source = STREAMS[name]
            others = ours.OLDER if self.older else []
            for peer in [*peers(source.task, self.every, self.protocol), *others]:
                if self.parts is None or any(part.lower() in peer.name.lower() for part in self.parts):
                    several = peer.ours and not source.long and self.protocol != CHUNKS
                    seeds = ours.SEEDS if several else ours.SEEDS[:1] if peer.ours else (1,)
                    settings = [Setting(memory, seed, self.protocol) for seed in seeds for memory in memories]
                    found += [Job(name, peer, setting) for setting in settings]
        return sorted(found, key=lambda job: (not job.peer.ours, job.peer.cost))


class Bench:
    """Measures jobs and stores results; the streams in use stay in memory."""

    def __init__(self, data: Path, file: DataFile, orders: Orders, events: int | None, budget: float) -> None:
        self._data, self._file, self._events, self._budget = data, file, events, budget
        self._orders = orders
        self._streams: dict[str, Stream] = {}
        self._versions: dict[str, str] = {}

    def stream(self, name: str) -> Stream:
        """Return a stream, cut at the requested number of events."""
        if name not in self._streams:
            whole = load(name, self._data)
            self._orders.add(whole)
            self._streams[name] = whole.first(self._events)
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
            "protocol": job.setting.protocol, "seed": job.setting.seed, "events": self.events(job.stream),
            "version": self._versions.setdefault(library, installed(library)),
        }  # fmt: skip


def measure(stream: Stream, peer: Peer, setting: Setting, budget: float) -> Result:
    """Return metrics, events per second (predict and learn), bytes, and the number of events in time."""
    shown = with_labels(stream, setting) if setting.memory and not peer.ours else stream
    if peer.library == "streamk":
        warm = replace(shown, frame=shown.frame[:WARM], targets=shown.targets[:WARM])
        _follow(warm, peer, setting, budget)
    contest, contestant, done = _follow(shown, peer, setting, budget)
    values, seconds = Results(contest).metrics(peer.name), contest.standings[peer.name].seconds
    names = METRICS[stream.task]
    if not contestant.probabilities:
        names = [name for name in names if name not in OF_PROBABILITIES]
    return {
        **{name: round(values[name], 6) for name in names if name in values},
        "done": done,
        "events_per_second": round(done / seconds) if seconds else 0,
        "bytes": contestant.size(),
    }


def _follow(stream: Stream, peer: Peer, setting: Setting, budget: float) -> tuple[Contest, Contestant, int]:
    """Return the contest, the contestant and the events at the end, or at the time limit.

    Events predicted before the first label are not scored.
    """
    contestant, late = peer.make(stream, setting), setting.late(len(stream.targets))
    level = LEVEL if setting.protocol == CHUNKS and stream.task == TASKS[1] else None
    contest, done = Contest({peer.name: contestant}, stream.task, level=level), 0
    pairs = zip(contestant.prepare(stream), stream.targets, strict=True)
    while part := list(islice(pairs, TOGETHER)):
        if late is None:
            contest.take(*zip(*part, strict=True))
        for x, y in part if late is not None else ():
            late.event(contest, x, y)
            if contest.events == setting.delay > 0:
                contest.score()
                contest.standings[peer.name] = unscored(contest.standings[peer.name], stream.task)
        done += len(part)
        if contest.standings[peer.name].seconds > budget:
            break
    if late is not None:
        late.end(contest)
    contest.score()
    if error := contest.standings[peer.name].error:
        raise ValueError(error)
    return contest, contestant, done


def unscored(standing: ContenderMetrics, task: str) -> ContenderMetrics:
    """Return metrics of no events, with the time of those so far."""
    found = ContenderMetrics(task, 1000, by=False, level=LEVEL, headline=headline_of(task, None))
    found.seconds = standing.seconds
    return found
