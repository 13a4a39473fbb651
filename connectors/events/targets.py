"""Records as events: the task is inferred from the first ones, and targets are read for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, time, timedelta
from typing import Any, NamedTuple

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
