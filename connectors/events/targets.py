"""Targets: the task is inferred from the first ones, and each is read for it.

A prequential evaluation of a log that is sorted by its target says little: a learner of streams follows what
comes now, so of a log that has one class after the other it predicts the last one, while the baseline that
repeats the last label is nearly always right. Such logs are noted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, time, timedelta
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import numpy as np

from connectors.events.decoding import Places, Record, rejected, target_number
from connectors.events.names import suggestion
from connectors.events.values import label
from streamk.arrays import Json
from streamk.evaluation import replaying

LOOK = replaying.LOOK  # records from which the task is inferred
_SHOWN = 3  # example values
_KINDS = (
    (str, "strings"), (bool, "booleans"), (date, "dates or times"), (time, "times of a day"),
    (timedelta, "durations"), (bytes, "bytes"), (object, "values of no known type"),
)  # fmt: skip
_MOST_CLASSES = 100  # of whole numbers that were inferred to be labels
_ENOUGH, _LENGTH = 50, 10  # events, and events of a run, from which on they are noted
_MOST = 4096  # runs that are counted, and first labels that may follow in turn
_STEPS, _RESETS = 10, 20  # rises of a sorted number at least, and falls between its parts at most
_PERIODS = range(2, 101)  # of labels that follow in turn
_ADVICE = "shuffle the log unless this is the order of time (docs/limits.md)"


class Decision(NamedTuple):
    """A task, and a sentence with the reason for it and the option for the other one.

    ``whole`` is whether labels are whole numbers, so that a later fraction shows that the task is wrong.
    """

    task: str
    sentence: str
    whole: bool = False


def decide_task(targets: Sequence[Any], name: str) -> Decision:
    """Return the task that the first targets of a log suggest.

    >>> print(decide_task(["up", "down"], "label").sentence)
    classification, since `label` has strings: up, down; --task regression changes that
    >>> print(decide_task(["1", "2.5"], "price").sentence)
    regression, since `price` has numbers with fractions: 1, 2.5; --task classification changes that
    """
    task = replaying.tell_task(targets)
    examples = ", ".join(str(value)[:20] for value in list(dict.fromkeys(targets))[:_SHOWN])
    try:
        numbers = {float("x" if isinstance(target, bool) else target) for target in targets}
    except (TypeError, ValueError):
        why, whole = (
            next(what for kind, what in _KINDS if any(isinstance(each, kind) for each in targets)),
            False,
        )
    else:
        whole = all(number.is_integer() for number in numbers)
        more = f"of {len(set(targets))} values" if task == "classification" else "of more than 20 values"
        why = f"whole numbers {more}" if whole else "numbers with fractions"
        whole = whole and task == "classification"
    other = "regression" if task == "classification" else "classification"
    return Decision(task, f"{task}, since `{name}` has {why}: {examples}; --task {other} changes that", whole)


class TaskError(ValueError):
    """A target shows that the inferred task is the wrong one."""


class InferredLabels:
    """Checks the labels of a task that was inferred from whole numbers.

    Parameters
    ----------
    name
        Of the target.

    Examples
    --------
    >>> InferredLabels("price").check(["1", "2.5"], "log.csv, line {}".format, [2, 3])
    Traceback (most recent call last):
    ...
    connectors.events.targets.TaskError: log.csv, line 3: `price` is 2.5, but classification was inferred \
from whole numbers; give --task regression, or --task classification if every number is a class
    """

    def __init__(self, name: str) -> None:
        self._name, self._seen = name, set[object]()

    def first_wrong(self, labels: Sequence[object]) -> int | None:
        """Return the row of the first label that is a fraction, or one class too many; None if none is."""
        new = set(labels) - self._seen
        if len(self._seen) + len(new) <= _MOST_CLASSES and not any(map(_is_fraction, new)):
            self._seen |= new
            return None
        for row, target in enumerate(labels):
            self._seen.add(target)
            if _is_fraction(target) or len(self._seen) > _MOST_CLASSES:
                return row
        return None

    def sentence(self, wrong: object) -> str:
        """Return why the first wrong label shows that targets are numbers."""
        problem = f"is {wrong}" if _is_fraction(wrong) else f"has more than {_MOST_CLASSES} values"
        return (
            f"`{self._name}` {problem}, but classification was inferred from whole numbers; give --task "
            "regression, or --task classification if every number is a class"
        )

    def check(self, labels: Sequence[object], place: Callable[[int], object], lines: Sequence[int]) -> None:
        """Raise a TaskError that names the line of the first wrong label."""
        if (row := self.first_wrong(labels)) is not None:
            raise TaskError(rejected(place(lines[row]), self.sentence(labels[row])))


def _is_fraction(target: Any) -> bool:
    try:
        return not float(target).is_integer()
    except (TypeError, ValueError):
        return False


def check_by(by: str | None, records: Sequence[Record]) -> None:
    """Raise a ValueError if none of the first records has the field whose values make slices."""
    if by is not None and not any(by in record.fields for record in records):
        there = list(dict.fromkeys(str(name) for record in records for name in record.fields))
        raise ValueError(f"--by {by}: there is no such field{suggestion(by, there)}")


def interpret(record: Record, log: Places, task: str) -> tuple[Json, object]:
    """Return an event and its target, the target read as the task needs it.

    Raises
    ------
    ValueError
        If the target is not a number where one is needed; the line is named.
    """
    if task != "regression":
        return record.fields, label(record.target)
    try:
        number = target_number(record.target, log.target)
    except ValueError as error:
        raise ValueError(rejected(log.place(record.line), error)) from None
    if number is None:
        raise ValueError(rejected(log.place(record.line), f"the target {log.target!r} is missing"))
    return record.fields, float(number)


@dataclass
class TargetRuns:
    """Counts runs of equal labels, or rises and falls of numbers, from event to event.

    Examples
    --------
    >>> runs = TargetRuns()
    >>> runs.add(["a"] * 40)
    >>> runs.add(["a"] * 10 + ["b"] * 50)
    >>> print(runs.sentence("y"))
    the targets come in runs: `y` changes 1 time in 100 events; shuffle the log unless this is the order of \
time (docs/limits.md)
    """

    events: int = 0
    runs: int = 0
    rises: int = 0
    falls: int = 0
    _labels: set[object] = field(default_factory=set)
    _last: object = None
    _first: list[object] = field(default_factory=list)

    def add(self, targets: Sequence[object]) -> None:
        """Count the next targets."""
        self.events += len(targets)
        self._first += targets[: _MOST - len(self._first)]
        if self.runs > _MOST and not self.is_sorted:
            return
        labels = [label for label, _ in groupby(targets)]
        if self.runs and labels and labels[0] == self._last:
            del labels[0]
        for before, after in pairwise([self._last, *labels] if self.runs else labels):
            if isinstance(before, float) and isinstance(after, float):
                self.rises += before < after
                self.falls += before > after
        self.runs += len(labels)
        if labels:
            self._labels.update(labels[:_MOST])
            self._last = labels[-1]

    @property
    def is_sorted(self) -> bool:
        """Whether numbers only rise or only fall, but for one step in a hundred and few in all."""
        steps, resets = self.rises + self.falls, min(self.rises, self.falls)
        return steps >= _STEPS and resets * 100 <= steps and resets <= _RESETS

    def in_turn(self) -> tuple[int, float]:
        """Return after how many events labels repeat, and in which share of them; 0 if they do not.

        They repeat if the label so many events before is wrong at most a tenth as often as the last one.

        >>> TargetRuns(_first=list("abcabcabc") * 9).in_turn()
        (3, 1.0)
        """
        labels = np.unique(np.array(list(map(str, self._first))), return_inverse=True)[1]
        wrong = [np.mean(labels[k:] != labels[:-k]) for k in (1, *_PERIODS) if 4 * k <= len(labels)]
        best = int(np.argmin(wrong)) if wrong else 0
        return (best + 1, 1.0 - float(wrong[best])) if best and 10 * wrong[best] <= wrong[0] else (0, 0.0)

    def sentence(self, name: str) -> str:
        """Return a warning about the order of the targets, empty if there is none."""
        if self.events < _ENOUGH:
            return ""
        if self.is_sorted:
            return f"the log is sorted by its target `{name}`; {_ADVICE}"
        if self.rises + self.falls:
            return ""
        times = self.runs - 1
        if 0 < times < 2 * len(self._labels) and self.runs * _LENGTH <= self.events:
            changes = f"`{name}` changes {times:,} time{'s' * (times > 1)} in {self.events:,} events"
            return f"the targets come in runs: {changes}; {_ADVICE}"
        period, share = self.in_turn()
        if not period:
            return ""
        repeats = f"in {100 * share:.3g} % of events, `{name}` is that of {period} events before"
        return f"the targets follow in turn: {repeats}; {_ADVICE}"


def sentence_about(targets: Sequence[object], name: str, more: bool) -> str:
    """Return a warning about the first targets of a log; ``more`` is whether others follow them.

    >>> print(sentence_about(["a"] * 1000, "y", more=True)[:42])
    the first 1,000 events all have the target
    """
    runs = TargetRuns()
    runs.add(targets)
    if more and runs.runs == 1:
        shown = f"{str(targets[0])[:20]} of `{name}`"
        return (
            f"the first {len(targets):,} events all have the target {shown}; if the log is sorted, {_ADVICE}"
        )
    return runs.sentence(name)
