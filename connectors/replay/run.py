"""Replay a log: predict every event, score it, learn it, beside a linear baseline on the same events."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Any

from connectors.events import Places, Record, label, read_value
from connectors.files.log import Log
from connectors.learners import DEFAULT, build, parameter_names
from connectors.replay.contenders import LinearClassifier, LinearRegressor
from connectors.replay.metrics import Replay
from streamk.encoding.rows import RowError
from streamk.prequential import CHUNK, Answers, LearnerSubject, Subject, test_then_train
from streamk.scores import Score, check_delay

LOOK = 1000  # records looked at to tell the task
_CLASSES = 20  # whole numbers with at most so many values are taken for classes


def interpret(record: Record, log: Places, task: str) -> tuple[dict[str, Any], Any]:
    """Return an event and its target, the target read as the task needs it.

    Raises
    ------
    ValueError
        If the target is not a number where one is needed; the line is named.
    """
    target = record.target
    if task == "regression":
        number = read_value(target) if isinstance(target, str) else target
        if isinstance(number, bool) or not isinstance(number, (int, float)):
            raise ValueError(
                f"{log.place(record.line)}: the target {log.target!r} is {target!r}, not a number"
            )
        return record.fields, float(number)
    return record.fields, label(target)


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
    learner: str = DEFAULT,
    task: str | None = None,
    parameters: dict[str, Any] | None = None,
    limit: int | None = None,
    baseline: bool = True,
    interval: int = 1000,
    delay: int = 0,
    watch: Callable[[Replay], None] = lambda replay: None,
) -> Replay:
    """Replay a log through a new learner and return its scores and curves.

    Parameters
    ----------
    log
        What to read.
    learner, parameters
        As :func:`connectors.learners.build` takes them.
    task
        ``"classification"`` or ``"regression"``; told from the first records by default.
    limit
        Events after which to stop.
    baseline
        Whether to run river's linear model beside the learner.
    interval
        Events between two points of the curve.
    delay
        How many events late labels arrive (:func:`streamk.prequential.test_then_train`). A learner that has
        a parameter of this name gets the same, unless ``parameters`` say another.
    watch
        Called after every chunk of events.

    A record that cannot be taken ends the replay, as Ctrl-C does; the figures are then of those before it,
    or before its label came, and ``error`` names its line.

    Raises
    ------
    ValueError
        If not even the first record can be taken, or a name or a parameter.
    """
    check_delay(delay)
    parameters = dict(parameters or {})
    if delay and "delay" in parameter_names(learner):
        parameters = {"delay": delay, **parameters}
    if task is not None:
        build(learner, task, parameters)  # what is wrong is said before anything is read
    with _Interruptible(islice(iter(log), limit)) as records:
        head = list(islice(records, LOOK))
        if not head:
            raise ValueError(records.error or f"{log.name} holds no events")
        task = task or tell_task(head)
        machine = build(learner, task, parameters)
        subjects: list[Subject] = [LearnerSubject(machine, task)]
        names = [type(machine).__name__]
        if baseline:
            linear: Any = LinearRegressor() if task == "regression" else LinearClassifier()
            if task == "classification":
                linear.expect(len({str(r.target) for r in head}))
            subjects.append(linear)
            names.append(f"river {linear.name}")
        run = Replay(task, machine, names, [Score(task, delay) for _ in subjects], interval, delay)
        lines = [0] * (CHUNK + delay + 1)  # of the last events read

        def events() -> Iterator[tuple[Any, Any]]:
            for number, record in enumerate(chain(head, records)):
                lines[number % len(lines)] = record.line
                try:
                    yield interpret(record, log, task)
                except ValueError as error:
                    records.error = str(error)
                    return

        _warm(machine.clone(), task, head, log)
        try:
            _follow(run, test_then_train(subjects, events(), delay=delay), watch)
        except RowError as error:
            records.error = f"{log.place(lines[(run.events + error.row) % len(lines)])}: {error.reason}"
        if records.error and not run.events:
            raise ValueError(records.error)
        run.error = records.error
        run.interrupted = records.interrupted
        return run


def _follow(run: Replay, stream: Iterator[list[Answers]], watch: Callable[[Replay], None]) -> None:
    for answers in stream:
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


def _warm(machine: Any, task: str, head: list[Record], log: Log) -> None:
    """Compile, or load what was compiled, on a throw-away learner, so that no speed counts it."""
    with contextlib.suppress(ValueError):  # a value that is refused is refused again, with its line
        xs, ys = map(list, zip(*(interpret(record, log, task) for record in head[:2]), strict=True))
        subject = LearnerSubject(machine, task)
        subject.answer(xs, ys)
        subject.learn(xs[0], ys[0])
        subject.predict(xs[0])
        machine.flush()


class _Interruptible:
    """Records that end where Ctrl-C is pressed or the log cannot be read further, losing none before.

    Ctrl-C ends a wait for the next record at once, and is otherwise noted for when the chunk at hand is
    learned; pressed again, it ends the process.
    """

    def __init__(self, records: Iterator[Record]) -> None:
        self._records, self._reading = records, False
        self.interrupted, self.error = False, ""

    def __iter__(self) -> Iterator[Record]:
        return self

    def __next__(self) -> Record:
        if self.interrupted or self.error:
            raise StopIteration
        try:
            self._reading = True
            return next(self._records)
        except KeyboardInterrupt:
            raise StopIteration from None
        except ValueError as error:
            self.error = str(error)
            raise StopIteration from None
        finally:
            self._reading = False

    def _ask(self, number: int, frame: Any) -> None:
        if self.interrupted or self._reading:
            self.interrupted = True
            raise KeyboardInterrupt
        self.interrupted = True

    def __enter__(self) -> _Interruptible:
        self._before: Any = None
        with contextlib.suppress(ValueError):  # not the main thread: Ctrl-C is somebody else's
            self._before = signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(self, *details: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
