"""One pair of stream and peer: test, then train, until the end or until its time is up."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import moa_peers
import ours
import river_peers
import scikit_peers
import wabbit_peers
from cache import Cache, Result
from contest import Contestant, Peer, Setting
from label_columns import with_labels
from logs import STREAMS, Stream, load

from streamk.prequential import test_then_train
from streamk.scores import Score

CHUNK = 200  # events between two looks at the clock
WARM = 60  # events that are measured by nobody, for what has to be compiled
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
    """Return the version of a library, of ours a hash of the sources; nothing if it cannot take part."""
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
    """Return what is to be measured, cheapest peers first, each with and without the memory of labels."""
    found = []
    for name in streams:
        for peer in [*peers(STREAMS[name][0]), *(ours.OLDER if older else [])]:
            if chosen is None or any(part.lower() in peer.name.lower() for part in chosen):
                for seed in ours.SEEDS if peer.ours else (1,):
                    found += [Job(name, peer, Setting(memory, delay, seed)) for memory in (False, True)]
    return sorted(found, key=lambda job: (not job.peer.ours, job.peer.cost))


class Bench:
    """Measures jobs, and keeps results; the streams in use stay in memory."""

    def __init__(self, data: Path, cache: Cache, events: int | None, budget: float) -> None:
        self._data, self._cache, self._events, self._budget = data, cache, events, budget
        self._streams: dict[str, Stream] = {}
        self._versions: dict[str, str] = {}

    def stream(self, name: str) -> Stream:
        """Return a stream, cut at the number of events asked for."""
        if name not in self._streams:
            self._streams[name] = load(name, self._data).first(self._events)
        return self._streams[name]

    def events(self, name: str) -> int:
        """Return how many events a stream has."""
        return len(self.stream(name).targets)

    def known(self, job: Job) -> Result | None:
        """Return the result of a job if it is in the cache."""
        return self._cache.get(self._key(job), self._budget)

    def result(self, job: Job) -> Result:
        """Measure a job, and keep its result; a failure is not kept, so the next run tries again."""
        stream = self.stream(job.stream)
        found = {**self._key(job), "task": stream.task, "budget": self._budget}
        try:
            found |= measure(stream, job.peer, job.setting, self._budget)
        except Exception as error:  # of somebody else's library; it is shown, and the others go on
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
    """Return metrics, events a second (predict and learn), bytes, and how many events were done in time."""
    shown = with_labels(stream, setting.delay) if setting.memory and not peer.ours else stream
    if peer.library == "streamk":
        warm = replace(shown, frame=shown.frame[:WARM], targets=shown.targets[:WARM])
        _follow(warm, peer, setting, budget)
    score, contestant = _follow(shown, peer, setting, budget)
    values: Result = score.values()
    if not contestant.probabilities:
        values.pop("log_loss", None)
    return {
        **values,
        "done": min(score.events + setting.delay, len(shown.targets)),
        "events_per_second": round(score.events_per_second),
        "bytes": contestant.size(),
    }


def _follow(stream: Stream, peer: Peer, setting: Setting, budget: float) -> tuple[Score, Contestant]:
    """Return the score at the end, or when the time is up."""
    contestant = peer.make(stream, setting)
    score = Score(stream.task, setting.delay)
    pairs = zip(contestant.prepare(stream), stream.targets, strict=True)
    passed = 0  # events that were asked for before any label had come: nobody can know of them
    for (answers,) in test_then_train([contestant], pairs, CHUNK, setting.delay):
        score.seconds += answers.seconds
        for target, prediction in zip(answers.targets, answers.predictions, strict=True):
            if passed < setting.delay:
                passed += 1
                score.pass_over(target)
            else:
                score.update(target, prediction)
        if score.seconds > budget:
            break
    return score, contestant
