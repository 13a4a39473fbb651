"""Models as a replay asks and teaches them: streamk's by their compiled pass, others event by event.

They take consecutive events as dicts, or as columns of numbers where all fields are such. For the sums of
classes, labels have codes 0, 1, … in the order of their first target.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from datetime import date
from itertools import repeat
from typing import Any, NamedTuple, Self

import numpy as np

from streamk.arrays import AnyArray, Array, Integers
from streamk.encoding.calendar_inputs import with_calendar
from streamk.encoding.fields import Event
from streamk.evaluation.metric import TASKS

_Events = Sequence[Event] | Callable[[], Sequence[Event]]
Place = tuple[str, int]  # a file, and a line of it


class EventChunk:
    """Events, as dicts and perhaps as an array.

    Parameters
    ----------
    events
        Dicts, or a function that makes them if they are needed.
    names, matrix
        The same as columns of numbers, ``(n, d)``, if there are nothing but numbers.
    places
        Their files and lines; None without a log.

    Examples
    --------
    >>> chunk = EventChunk([{"a": 1.0}, {"a": 2.0}])
    >>> chunk[1:].events, len(chunk)
    ([{'a': 2.0}], 2)
    """

    def __init__(
        self,
        events: _Events,
        names: Sequence[str] | None = None,
        matrix: Array | None = None,
        rows: slice = slice(None),
        places: Sequence[Place | None] | None = None,
    ) -> None:
        self._events, self._rows = events, rows
        self.names, self._matrix = names, matrix
        self.matrix = None if matrix is None else matrix[rows]
        self.places = places

    @classmethod
    def of(cls, events: Any) -> Self:
        """Return events as a chunk; a chunk unchanged."""
        return events if isinstance(events, cls) else cls(events)

    @property
    def events(self) -> Sequence[Event]:
        """The dicts."""
        if callable(self._events):
            self._events = self._events()
        return self._events[self._rows]

    def __len__(self) -> int:
        return len(self.events) if self.matrix is None else len(self.matrix)

    def __getitem__(self, rows: slice) -> EventChunk:
        places = None if self.places is None else self.places[rows]
        if self._matrix is None:
            return EventChunk(self.events[rows], places=places)
        start, stop, _ = self._rows.indices(len(self._matrix))
        first, last, _ = rows.indices(stop - start)
        events: _Events = (lambda: self._made()) if callable(self._events) else self._events
        part = slice(start + first, start + max(first, last))
        return EventChunk(events, self.names, self._matrix, part, places)

    def _made(self) -> Sequence[Event]:
        """Return all events, made once for all slices."""
        if callable(self._events):
            self._events = self._events()
        return self._events

    def event(self, row: int) -> Event:
        """Return one event, without making the others."""
        if self.matrix is None or self.names is None:
            return self._made()[(self._rows.start or 0) + row]
        return dict(zip(self.names, self.matrix[row].tolist(), strict=True))

    def place(self, row: int) -> Place | None:
        """Return the file and the line of an event, None without a log."""
        return None if self.places is None else self.places[row]

    def column(self, name: str) -> list[object]:
        """Return the values of a field, None where it is absent."""
        if self.matrix is not None and self.names is not None:
            if name not in self.names:
                return [None] * len(self)
            values: list[object] = self.matrix[:, list(self.names).index(name)].tolist()
            return values
        return [x.get(name) for x in self.events]


class Table(NamedTuple):
    """Probabilities of events: a column a label, ``rows`` being ``(n, K)``."""

    labels: Sequence[object]
    rows: Array


def present(x: Event) -> dict[object, object]:
    """Return an event without missing fields, booleans as numbers, and times as calendar inputs.

    >>> present({"a": None, "b": True, "c": "red"})
    {'b': 1, 'c': 'red'}
    """
    fields: dict[Any, object] = {}
    for name, value in x.items():
        if value is not None:
            fields[name] = int(value) if isinstance(value, bool) else value
    if any(isinstance(value, date) for value in fields.values()):
        return dict(with_calendar(fields, scaled=True))
    return fields


class ModelAdapter(ABC):
    """The interface to models that predict events and then learn them.

    If ``judges``, an event that it rejects with a ValueError is rejected for all contenders. If ``batched``,
    events are passed to :meth:`answer_many`. ``at`` is the time of the event that is learned, in seconds
    since 1970, None if it is not known.
    """

    judges = batched = False
    at: float | None = None

    @abstractmethod
    def predict(self, x: Event) -> object:
        """Return a dict of probabilities, or a number."""

    @abstractmethod
    def learn(self, x: Event, y: Any) -> None:
        """Learn one event."""

    def ask(self, number: int, x: Event) -> object:
        """Return what :meth:`predict` does for an event whose target comes later."""
        return self.predict(x)

    def tell(self, number: int, x: Event, y: object) -> None:
        """Learn the event of this number, whose target has come; None if it is rejected."""
        if y is not None:
            self.learn(x, y)

    def answer(self, xs: list[Event], ys: list[object]) -> Sequence[object]:
        """Predict each event, then learn it; return the predictions."""
        answers = []
        for x, y in zip(xs, ys, strict=True):
            answers.append(self.predict(x))
            self.learn(x, y)
        return answers

    def answer_many(self, xs: EventChunk, ys: Sequence[object]) -> Table | Array:
        """Predict and learn like :meth:`answer`; return a table of probabilities, or an array of numbers."""
        return tabled(self.answer(list(xs.events), list(ys)))

    def predict_many(self, xs: EventChunk) -> Table | Array:
        """Predict events and learn nothing; return what :meth:`answer_many` does."""
        return tabled([self.predict(x) for x in xs.events])

    def learn_many(self, xs: EventChunk, ys: Sequence[object]) -> None:
        """Learn events whose targets have come together."""
        for x, y in zip(xs.events, ys, strict=True):
            self.learn(x, y)


def tabled(predictions: Sequence[Any]) -> Table | Array:
    """Return predictions as a table if they are dicts of probabilities, as an array if they are numbers.

    Examples
    --------
    >>> tabled([{}, {"a": 0.5, "b": 0.5}, {"b": 1.0}])
    Table(labels=['a', 'b'], rows=array([[0. , 0. ], [0.5, 0.5], [0. , 1. ]]))
    >>> tabled([1, 2.5])
    array([1. , 2.5])
    """
    if not any(isinstance(prediction, dict) for prediction in predictions):
        return np.array(predictions, dtype=np.float64)
    labels = list(dict.fromkeys(label for prediction in predictions for label in prediction))
    rows = [[prediction.get(label, 0.0) for label in labels] for prediction in predictions]
    return Table(labels, np.array(rows, dtype=np.float64).reshape(len(predictions), len(labels)))


class LearnerAdapter(ModelAdapter):
    """A streamk learner under evaluation."""

    judges = batched = True

    def __init__(self, learner: Any, task: str) -> None:
        classes = task == "classification"
        self.learner, self._classes = learner, classes
        self._predict = learner.predict_proba_one if classes else learner.predict_one
        self._ask = learner.ask_proba_one if classes else learner.ask_one
        self._learn = learner.learn_one

    def predict(self, x: Event) -> object:
        """Return what the learner makes of one event."""
        return self._predict(x)

    def learn(self, x: Event, y: object) -> None:
        """Learn one event."""
        self._learn(x, y)

    def ask(self, number: int, x: Event) -> object:
        """Return what the learner makes of an event, which waits for its target."""
        return self._ask(number, x)

    def tell(self, number: int, x: Event, y: object) -> None:
        """Learn an event, also one that waits no longer since too many came after it."""
        try:
            self.learner.tell_one(number, y)
        except KeyError:
            super().tell(number, x, y)

    def check(self, x: Event, y: object) -> None:
        """Raise the ValueError that learning the event would raise; learn nothing."""
        self._learn(x, y, 0.0)

    def answer_many(self, xs: EventChunk, ys: Sequence[object]) -> Table | Array:
        """Predict and learn through the learner's compiled pass, without a dict an event."""
        answers: Array
        if xs.matrix is not None:
            answers = self.learner.predict_learn_array(xs.matrix, ys, names=xs.names)
        else:
            answers = self.learner.predict_learn_array(list(xs.events), ys)
        return Table(self.learner.labels, answers) if self._classes else answers

    def predict_many(self, xs: EventChunk) -> Table | Array:
        """Predict events in one compiled pass."""
        events, names = (list(xs.events), None) if xs.matrix is None else (xs.matrix, xs.names)
        if not self._classes:
            return np.asarray(self.learner.predict_many(events, names=names), dtype=np.float64)
        predicted = self.learner.predict_proba_many(events, names=names)
        return tabled(predicted) if xs.matrix is None else Table(self.learner.labels, predicted)

    def learn_many(self, xs: EventChunk, ys: Sequence[object]) -> None:
        """Learn events in one compiled pass; a RowError names the first that it rejects."""
        self.learner.learn_many(list(xs.events), ys)


_TRUTHS: dict[object, bool] = {  # labels that say themselves which of two classes they are; 1 is True, too
    False: False, True: True, "0": False, "1": True, "false": False, "true": True, "no": False, "yes": True,
}  # fmt: skip


class RiverAdapter(ModelAdapter):
    """A model with river's verbs under evaluation.

    A classifier that gives no probabilities gives its class all of it. No prediction is no class, or 0. A
    classifier of two classes takes booleans, so labels of any type become such: those that are words of
    truth by their meaning, else the first one False and the second one True.
    """

    def __init__(self, model: Any, task: str) -> None:
        self.model, self._classes = model, task == TASKS[0]
        self._proba = self._classes and hasattr(model, "predict_proba_one")
        self._binary = self._classes and not getattr(model, "_multiclass", True)
        self._truths: dict[object, bool] = {}  # of the labels so far
        self._labels: dict[bool, object] = {}

    def predict(self, x: Event) -> object:
        """Return a dict of probabilities, or a number."""
        if self._proba:
            try:
                probabilities = self.model.predict_proba_one(x)
            except NotImplementedError:
                self._proba = False
            else:
                return self._relabelled(probabilities) if self._binary else probabilities
        prediction = self.model.predict_one(x)
        if self._classes:
            prediction = {} if prediction is None else {prediction: 1.0}
            return self._relabelled(prediction) if self._binary else prediction
        return 0.0 if prediction is None else float(prediction)

    def _relabelled(self, probabilities: dict[Any, float]) -> dict[Any, float]:
        """Return probabilities by the labels of the stream; a class that has not come is a boolean still."""
        return {self._labels.get(truth, truth): p for truth, p in probabilities.items()}

    def learn(self, x: Event, y: object) -> None:
        """Learn one event.

        Raises
        ------
        ValueError
            If there is a third label, and the model is one of two classes.
        """
        self.model.learn_one(x, self._truth(y) if self._binary else y)

    def _truth(self, y: object) -> bool:
        known = self._truths.get(y)
        if known is None:
            if len(self._truths) == 2:
                raise ValueError(
                    f"{type(self.model).__name__} has two classes, and {y!r} is a third one; wrap it in "
                    "river.multiclass.OneVsRestClassifier"
                )
            known = _TRUTHS.get(y.lower() if isinstance(y, str) else y, bool(self._labels))
            if known in self._labels:
                known = not known
            self._truths[y], self._labels[known] = known, y
        return known


class Frozen(ModelAdapter):
    """A model that predicts and no longer learns.

    A learner of streamk still rejects events that it could not learn.
    """

    def __init__(self, subject: ModelAdapter) -> None:
        self.subject, self.judges = subject, subject.judges
        self._fits = False  # whether a target was of the kind that it was trained on

    def predict(self, x: Event) -> object:
        """Return the model's prediction of one event."""
        return self.subject.predict(x)

    def learn(self, x: Event, y: object) -> None:
        """Learn nothing.

        Raises
        ------
        TypeError
            If the first target is not of the kind that the model was trained on.
        ValueError
            If the model rejects the target.
        """
        if not isinstance(self.subject, LearnerAdapter):
            return
        try:
            self.subject.check(x, y)
        except ValueError as error:
            if self._fits:
                raise
            raise TypeError(
                f"{error}; train it on such targets, or replay it on targets of its kind"
            ) from None
        self._fits = True

    def predict_many(self, xs: EventChunk) -> Table | Array:
        """Return the model's predictions of events."""
        return self.subject.predict_many(xs)


def adapter_of(model: object, task: str) -> ModelAdapter:
    """Return the adapter of a model: itself if it is one, else for a learner of streamk or river's methods.

    Raises
    ------
    ValueError
        If it does not have the methods, or is for another task.
    """
    if isinstance(model, ModelAdapter):
        return model
    if not hasattr(model, "learn_one") or not (
        hasattr(model, "predict_one") or hasattr(model, "predict_proba_one")
    ):
        raise ValueError(f"{type(model).__name__} has no learn_one and predict_one")
    if hasattr(model, "predict_learn_array"):
        if hasattr(model, "labels") != (task == TASKS[0]):
            raise ValueError(f"{type(model).__name__} is not for {task}")
        return LearnerAdapter(model, task)
    return RiverAdapter(model, task)


class Codes:
    """Codes of labels; numbers are not changed.

    Attributes
    ----------
    labels
        Codes by label.
    last
        The code of the last label that has come, -1 if none has.
    """

    def __init__(self, classes: bool) -> None:
        self._classes = classes
        self.labels: dict[object, int] = {}
        self.last = -1

    def _code(self, label: object) -> int:
        return self.labels.setdefault(label, len(self.labels))

    def of(self, targets: Sequence[object]) -> AnyArray:
        """Return targets as codes, or as an array of numbers."""
        if not self._classes:
            return np.array(targets, dtype=np.float64)
        codes = np.fromiter(map(self.labels.get, targets, repeat(-1)), np.int64, len(targets))
        if codes.min(initial=0) < 0:  # a label is new
            codes[:] = [self._code(label) for label in targets]
        return codes

    def came(self, target: object) -> None:
        """Set the last label to one that has come."""
        if self._classes:
            self.last = self._code(target)

    def of_next(self, targets: Sequence[object]) -> tuple[AnyArray, Integers | None, Integers | None]:
        """Return consecutive targets, the last label before each, and how many labels are known with each."""
        count = len(self.labels)
        codes = self.of(targets)
        if not self._classes:
            return codes, None, None
        before = np.concatenate([[self.last], codes[:-1]])
        self.last = int(codes[-1])
        return codes, before, np.maximum(np.maximum.accumulate(codes + 1), count)

    def arranged(self, predictions: Table | Array, known: Integers | None = None) -> Array:
        """Return probabilities with a column for each code.

        Only targets have codes, so the predictions of one model do not change the metrics of another. A label
        that has been no target so far has no column; where it is the most probable one, the row counts as no
        prediction, which is wrong. ``known`` is the number of labels that have been targets at each row, so
        results do not depend on chunks.
        """
        if not isinstance(predictions, Table):  # numbers, or no predicted class at all
            return np.zeros((len(predictions), len(self.labels))) if self._classes else predictions
        kept = [k for k, label in enumerate(predictions.labels) if label in self.labels]
        out = np.zeros((len(predictions.rows), len(self.labels)))
        out[:, [self.labels[predictions.labels[k]] for k in kept]] = predictions.rows[:, kept]
        others = [np.delete(predictions.rows, kept, axis=1)] if len(kept) < len(predictions.labels) else []
        if known is not None and len(known) and known[0] < len(self.labels):
            later = np.arange(len(self.labels)) >= known[:, None]
            others.append(np.where(later, out, 0.0))
            out[later] = 0.0
        if others:
            best = out.max(axis=1, initial=0.0)
            out[~(np.concatenate(others, axis=1) <= best[:, None]).all(axis=1)] = 0.0
        return out


def prediction_of(predictions: Table | Array, row: int) -> object:
    """Return the probabilities by label of an event, or the number."""
    if not isinstance(predictions, Table):
        return float(predictions[row])
    return dict(zip(predictions.labels, predictions.rows[row].tolist(), strict=True))
