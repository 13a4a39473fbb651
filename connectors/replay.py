"""Replay a log: predict every event, score it, learn it, beside a linear baseline on the same events."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

import streamk
from connectors.baseline import LinearClassifier, LinearRegressor
from connectors.files import Log, Record
from streamk.learners import KernelLearner
from streamk.prequential import Answers, LearnerSubject, Score, Subject, test_then_train
from streamk.rows import RowError

LEARNERS = {
    "kaczmarz": {
        "classification": streamk.KaczmarzClassifier,
        "regression": streamk.KaczmarzRegressor,
    }
}
_LOOK = 1000  # records looked at to tell the task
_CLASSES = 20  # whole numbers with at most so many values are taken for classes


@dataclass
class Point:
    """Where the curves are: each subject's headline metric, overall and since the last point."""

    events: int
    overall: list[float]
    recent: list[float]
    label: Any
    prediction: Any


@dataclass
class Replay:
    """One replay, running or over.

    Attributes
    ----------
    names
        The learner's name, and the baseline's if there is one.
    scores
        The running metrics of each.
    doublings
        The curves at powers of two.
    curve
        The curves at every ``interval`` events.
    """

    task: str
    learner: KernelLearner
    names: list[str]
    scores: list[Score]
    interval: int
    doublings: list[Point] = field(default_factory=list)
    curve: list[Point] = field(default_factory=list)
    interrupted: bool = False

    @property
    def events(self) -> int:
        """Events scored so far."""
        return self.scores[0].events

    def mark(self, points: list[Point], label: Any, prediction: Any) -> None:
        """Add where the curves are now to ``points``."""
        before = points[-1] if points else Point(0, [0.0] * len(self.scores), [], None, None)
        overall = [score.headline for score in self.scores]
        passed = self.events - before.events
        recent = [
            (now * self.events - then * before.events) / passed
            for now, then in zip(overall, before.overall, strict=True)
        ]
        points.append(Point(self.events, overall, recent, label, prediction))

    def result(self) -> dict[str, Any]:
        """Return what ``--json`` prints."""
        found = [
            {
                **score.values(),
                "events": score.events,
                "events_per_second": round(score.events_per_second, 1),
            }
            for score in self.scores
        ]
        first: dict[str, Any] = {**found[0], "model_bytes": len(self.learner.to_bytes())}
        if len(found) > 1:
            first["baseline"] = {"model": self.names[1], **found[1]}
        return first


def interpret(record: Record, log: Log, task: str) -> tuple[dict[str, Any], Any]:
    """Return an event and its target, the target read as the task needs it.

    Raises
    ------
    ValueError
        If the target is missing, or is not a number where one is needed; the line is named.
    """
    target = record.target
    if target is None or target == "":
        raise ValueError(f"{log.place(record.line)}: the target {log.target!r} is missing")
    if task == "regression":
        try:
            return record.fields, float(target)
        except (TypeError, ValueError):
            raise ValueError(
                f"{log.place(record.line)}: the target {log.target!r} is {target!r}, not a number"
            ) from None
    if isinstance(target, float) and target.is_integer():
        target = int(target)
    return record.fields, target


def tell_task(records: list[Record]) -> str:
    """Return the task that the first records suggest.

    Regression if every target is a number, unless they are whole numbers with at most 20 values.
    """
    try:
        numbers = [float("x" if isinstance(r.target, bool) else r.target) for r in records]
    except (TypeError, ValueError):
        return "classification"
    whole = all(number.is_integer() for number in numbers)
    return "classification" if whole and len(set(numbers)) <= _CLASSES else "regression"


def replay(
    log: Log,
    learner: str = "kaczmarz",
    task: str | None = None,
    parameters: dict[str, Any] | None = None,
    limit: int | None = None,
    baseline: bool = True,
    interval: int = 1000,
    watch: Callable[[Replay], None] = lambda replay: None,
) -> Replay:
    """Replay a log through a new learner and return its scores and curves.

    Parameters
    ----------
    log
        What to read.
    learner
        A name in ``LEARNERS``.
    task
        ``"classification"`` or ``"regression"``; told from the first records by default.
    parameters
        Of the learner.
    limit
        Events after which to stop.
    baseline
        Whether to run river's linear model beside the learner.
    interval
        Events between two points of the curve.
    watch
        Called after every chunk of events.

    Raises
    ------
    ValueError
        If the log, a record or a parameter cannot be taken.
    """
    if learner not in LEARNERS:
        raise ValueError(f"learner {learner!r} is unknown; use {' or '.join(LEARNERS)}")
    records = iter(log) if limit is None else islice(iter(log), limit)
    head = list(islice(records, _LOOK))
    if not head:
        raise ValueError(f"{log.name} holds no events")
    task = task or tell_task(head)
    machine = LEARNERS[learner][task](**(parameters or {}))
    subjects: list[Subject] = [LearnerSubject(machine, task)]
    names = [type(machine).__name__]
    if baseline:
        linear: Any = LinearRegressor() if task == "regression" else LinearClassifier()
        if task == "classification":
            linear.expect(len({str(r.target) for r in head}))
        subjects.append(linear)
        names.append(f"river {linear.name}")
    run = Replay(task, machine, names, [Score(task) for _ in subjects], interval)
    lines: list[int] = []

    def events() -> Iterator[tuple[Any, Any]]:
        for record in chain(head, records):
            lines.append(record.line)
            yield interpret(record, log, task)

    _warm(machine.clone(), task, [interpret(record, log, task) for record in head[:2]])
    stream = _named(test_then_train(subjects, events()), lines, log)
    with _interruptible() as stopped:
        _follow(run, stream, lines, stopped, watch)
    return run


def _follow(
    run: Replay,
    stream: Iterator[list[Answers]],
    lines: list[int],
    stopped: Callable[[], bool],
    watch: Callable[[Replay], None],
) -> None:
    for answers in stream:
        lines.clear()
        for score, answer in zip(run.scores, answers, strict=True):
            score.seconds += answer.seconds
        for i, target in enumerate(answers[0].targets):
            for score, answer in zip(run.scores, answers, strict=True):
                score.update(target, answer.predictions[i])
            prediction = answers[0].predictions[i]
            if run.events & (run.events - 1) == 0:
                run.mark(run.doublings, target, prediction)
            if run.events % run.interval == 0:
                run.mark(run.curve, target, prediction)
        watch(run)
        if stopped():
            run.interrupted = True
            return


def _warm(machine: Any, task: str, pairs: list[tuple[Any, Any]]) -> None:
    """Compile, or load what was compiled, on a throw-away learner, so that no speed counts it."""
    with contextlib.suppress(ValueError):  # a value that is refused is refused again, with its line
        LearnerSubject(machine, task).answer([x for x, _ in pairs], [y for _, y in pairs])
        machine.flush()


def _named(stream: Iterator[Any], lines: list[int], log: Log) -> Iterator[Any]:
    """Say in which line of the log a value was refused."""
    try:
        yield from stream
    except RowError as error:
        raise ValueError(f"{log.place(lines[error.row])}: {error.reason}") from None


@contextmanager
def _interruptible() -> Iterator[Callable[[], bool]]:
    """Let Ctrl-C end the replay between two chunks, so that its results and its model are whole."""
    asked: list[int] = []

    def ask(number: int, frame: Any) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)

    try:
        before = signal.signal(signal.SIGINT, ask)
    except ValueError:  # not the main thread: Ctrl-C is somebody else's
        yield lambda: False
        return
    try:
        yield lambda: bool(asked)
    finally:
        signal.signal(signal.SIGINT, before)
