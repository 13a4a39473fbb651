"""The state of a running replay: its contest, the lines printed so far, and its checkpoint.

A checkpoint holds the identity of its replay: options, and fingerprints of files.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from connectors.contract.records import Log
from connectors.events.targets import TargetRuns
from connectors.events.values import labels_of
from connectors.formats.open_file import HEAD, is_pipe
from connectors.replay.input_drift import InputSample
from streamk.arrays import Json
from streamk.evaluation import Contest, Costs, Results
from streamk.evaluation.label_delay import LabelDelay
from streamk.evaluation.metric import METRICS
from streamk.evaluation.windows import fitting

_VERSION = 8
_SECONDS, _SHARE = 0.5, 0.05  # between two checkpoints, and the part of the time that they may take


class Scoring(NamedTuple):
    """How contenders are scored: see :class:`streamk.evaluation.Contest`."""

    interval: int | None = None  # fits the log
    by: str | None = None
    level: float | None = None
    predictions: Path | None = None  # the file for every prediction
    metric: str | Costs | None = None  # that ranks contenders, or costs of errors; the task's default

    def decided(self, task: str, targets: Sequence[object], announce: Callable[[str], None]) -> Scoring:
        """Return it with the positive label of the costs, as the first targets decide it, and announce it."""
        if not isinstance(self.metric, Costs):
            return self
        costs, labels = self.metric.decided(task, labels_of(targets)), f"the first {len(targets):,} labels"
        why = (
            f"the rarer one of {labels}; --positive changes that" if self.metric.positive is None else "named"
        )
        announce(
            f"positive is {costs.positive}, {why}; contenders decide for it above a probability of "
            f"{costs.threshold:.3g}"
        )
        return self._replace(metric=costs)


class Point(NamedTuple):
    """A line at a power of two: headline metrics, overall and since the last line, of every contender."""

    events: int
    overall: list[float]
    recent: list[float]
    label: object
    prediction: object


@dataclass
class Replay:
    """One replay, running or finished.

    Attributes
    ----------
    task
        ``"classification"`` or ``"regression"``.
    contest
        The contenders, and their metrics.
    late
        How late targets come, None for at once.
    doublings
        Lines at powers of two.
    runs
        Of equal targets.
    sample
        Of the inputs.
    read
        The number of finished records.
    refused, examples
        The number of records that were decoded and then rejected; the first few errors.
    written
        Bytes of predictions in their file.
    interrupted, error
        Whether Ctrl-C ended the replay, or the error that did.
    """

    task: str
    contest: Contest
    late: LabelDelay | None
    doublings: list[Point] = field(default_factory=list)
    runs: TargetRuns = field(default_factory=TargetRuns)
    sample: InputSample = field(default_factory=InputSample)
    read: int = 0
    refused: int = 0
    examples: list[str] = field(default_factory=list)
    written: int = 0
    interrupted: bool = False
    error: str = ""

    @classmethod
    def beginning(cls, task: str, models: Json, scoring: Scoring, late: LabelDelay | None) -> Replay:
        """Return a replay without events."""
        how = scoring.interval or fitting(None), scoring.by, scoring.level, scoring.metric
        return cls(task, Contest(models, task, *how), late)

    @property
    def events(self) -> int:
        """Events scored so far."""
        return self.contest.events

    @property
    def names(self) -> list[str]:
        """The contenders."""
        return list(self.contest.standings)

    @property
    def learner(self) -> Any:
        """The model of the first contender."""
        return self.contest.models[self.names[0]]

    def results(self) -> Results:
        """Return the results so far."""
        return Results(self.contest, choice="--metric {}")

    def mark(self, last: bool = False) -> None:
        """Add a line if events are a power of two, or as the last one."""
        events = self.events
        if not events or (self.doublings and self.doublings[-1].events == events):
            return
        if not last and events & (events - 1):
            return
        before = self.doublings[-1].events if self.doublings else 0
        overall, recent = ([self._headline(name, since) for name in self.names] for since in (0, before))
        self.doublings.append(Point(events, overall, recent, *self.contest.latest))

    def _headline(self, name: str, since: int) -> float:
        headline = self.contest.headline
        loss = self.contest.standings[name].loss(headline, since)
        return 1.0 - loss if METRICS[headline].better > 0 else loss


class ReplayCheckpoint:
    """A file from which a replay resumes, with the same results as without an interruption.

    It is written atomically, twice a second or as often as takes a twentieth of the time, and at the end. It
    holds pickled models; reading a pickle can run code, so read only checkpoints that you have written.

    Parameters
    ----------
    directory
        Its directory, created if it is missing.
    identity
        The identity of the replay; a checkpoint with another one is rejected.

    Raises
    ------
    ValueError
        If there is a checkpoint that is damaged, or of another replay.
    """

    def __init__(self, directory: Path, identity: Json) -> None:
        self._path, self._identity = directory / "replay.checkpoint", identity
        directory.mkdir(parents=True, exist_ok=True)
        self._written, self._pause = time.monotonic(), _SECONDS

    def read(self, fresh: Replay) -> Replay:
        """Return the replay that was written, or ``fresh`` if none was."""
        try:
            written = self._path.read_bytes()
        except FileNotFoundError:
            return fresh
        try:
            version, identity, run = pickle.loads(written)
        except (ImportError, AttributeError):  # it names a class that now has another name
            version = None
        except Exception as error:
            raise ValueError(f"{self._path} is damaged ({error}); remove it to start again") from None
        if version != _VERSION:
            raise ValueError(f"{self._path} is of another version; remove it to start again")
        for key, value in self._identity.items():
            if identity.get(key) != value:
                raise ValueError(
                    f"{self._path} is of another replay: its {key} is {identity.get(key)!r}, not {value!r}; "
                    "remove it to start again"
                )
        replay: Replay = run
        replay.interrupted, replay.error = False, ""
        return replay

    def due(self) -> bool:
        """Return whether it is time to write."""
        return time.monotonic() - self._written >= self._pause

    def write(self, run: Replay) -> None:
        """Write the checkpoint atomically, so that it survives a loss of power."""
        began = time.monotonic()
        beside = self._path.with_suffix(".new")
        with beside.open("wb") as file:
            pickle.dump((_VERSION, self._identity, run), file, pickle.HIGHEST_PROTOCOL)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._path)
        self._written = time.monotonic()
        self._pause = max(_SECONDS, (self._written - began) / _SHARE)


def identity_of(files: Sequence[str], log: Log, labels: str | None, **options: object) -> Json:
    """Return values that must be unchanged for a replay to resume from its checkpoint.

    Each file, including labels and settings, is identified by its size and a hash of its first 64 KiB.

    Parameters
    ----------
    files, log
        The arguments of the command, and the log that they name.
    labels
        The label log, if there is one.
    options
        All other options that the results depend on.

    Raises
    ------
    ValueError
        If a log is a pipe, which cannot be read again.
    """
    identity = {"log": list(files), "bytes": log.size, "target": log.target, "labels": labels, **options}
    for path in dict.fromkeys([*files, *log.paths, *([labels] if labels else [])]):
        refuse_pipe("--checkpoint", path)
        if Path(path).exists():  # else it is a topic, or a pattern
            identity[path] = _begins(path)
    return identity


def refuse_pipe(option: str, path: str) -> None:
    """Raise a ValueError if a log is a pipe."""
    if (path == "-" or Path(path).exists()) and is_pipe(path):
        raise ValueError(f"{option}: {path} is a pipe, which cannot be read again; write it to a file first")


def _begins(path: str) -> str:
    with Path(path).open("rb") as file:
        digest = hashlib.sha256(file.read(HEAD)).hexdigest()
    return f"a file of {Path(path).stat().st_size:,} bytes that begins with the SHA-256 {digest[:16]}"
