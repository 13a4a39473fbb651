"""Prequential evaluation of contenders: each predicts, is scored on and learns the same events in order.

At the end of a stream, a frozen copy of a model can be evaluated, too, and compared with the one that learns.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from streamk.arrays import AnyArray, Array, Integers, Json
from streamk.encoding.fields import Event
from streamk.encoding.rows import RowError
from streamk.evaluation.adapters import (
    Codes,
    EventChunk,
    LearnerAdapter,
    ModelAdapter,
    Place,
    Table,
    adapter_of,
    prediction_of,
    tabled,
)
from streamk.evaluation.contender_metrics import ContenderMetrics
from streamk.evaluation.costs import Costs
from streamk.evaluation.metric import TASKS, decide, headline_of
from streamk.evaluation.worst_events import WorstEvent

CHUNK = 1000
_UNTIMED, _TIMED = 8, 40  # the first of these events fill the caches that a pass has emptied
_EVERY = 32  # in one chunk of so many, events are predicted and learned one by one, and timed


class FrozenTail:
    """A frozen copy of a contender, and the metrics of both from then on.

    Both have the windows of the curves, of which the first may be cut.

    Parameters
    ----------
    name
        Of the contender.
    learner
        Of streamk; its frozen copy predicts from now on.
    contest
        The contest, of which the copy has the codes of labels, the task, the windows and the metric.

    Attributes
    ----------
    since
        The number of events before.
    frozen, live
        The metrics of the copy, and of the contender that continues learning, on the same events.
    error
        Why the copy was not scored further, empty if it was.
    """

    def __init__(self, name: str, learner: Any, contest: Contest) -> None:
        self.name, self._codes, self.since = name, contest.codes, contest.events
        self._costs = contest.costs
        self._model = LearnerAdapter(learner.frozen(), contest.task)
        how = contest.task, contest.interval, False, 0.9, contest.headline, contest.events
        self.frozen, self.live = ContenderMetrics(*how), ContenderMetrics(*how)
        self.error = ""
        self.answers: object = None  # of the events that were scored last

    def add(
        self,
        xs: EventChunk,
        targets: AnyArray,
        live: Array,
        last: Integers | None,
        known: Integers | None,
    ) -> None:
        """Score events; ``live`` are the contender's predictions."""
        self.answers = None
        if self.error:
            return
        try:
            answers = self._model.predict_many(xs)
        except ValueError as error:
            self.error = str(error)
            return
        self.answers = answers
        for metrics, arranged in ((self.frozen, self._codes.arranged(answers, known)), (self.live, live)):
            metrics.add(
                targets, arranged, last, None, None, costs_of(self._costs, targets, arranged, self._codes)
            )


class Scored(NamedTuple):
    """Events that were scored together, and the predictions of contenders for them.

    Attributes
    ----------
    keys
        Of events whose targets came late, else None.
    targets
        In the order in which they came.
    answers
        By contender; those of a frozen copy are of the last events.
    intervals
        By contender that gives any: the lower and the upper ends, NaN where there is none.
    slices
        Values of the field of slices, None without one.
    last
        The last label that had arrived when each event was predicted, None before the first one. Only for
        events whose targets came late, since otherwise it is the previous target.
    first
        The number of the first event, from 1.
    places
        Their files and lines, None without a log.
    """

    keys: Sequence[Hashable] | None
    targets: Sequence[object]
    answers: Json
    intervals: Json
    slices: Sequence[object] | None
    last: Sequence[object] | None
    first: int
    places: Sequence[Place | None] | None = None


def costs_of(costs: Costs | None, targets: AnyArray, arranged: Array, codes: Codes) -> Array | None:
    """Return what each decision cost, None if errors have no costs."""
    return None if costs is None else costs.of(targets, arranged, codes.labels)


Listener = Callable[[Scored], None]
_Keys = Sequence[Hashable] | None


class PendingPrediction(NamedTuple):
    """An event whose target has not come: the predictions of all contenders, and the last label's code."""

    x: Event
    answers: list[object]
    ends: list[object]
    last: int
    slice: object
    seconds: dict[str, float]  # that contenders took
    key: Hashable
    number: int
    at: float | None = None
    place: Place | None = None


class RefusedError(ValueError):
    """An event that learners reject: its row in the chunk, the reason, its key and its place."""

    def __init__(self, row: int, reason: str, key: Hashable = None, place: Place | None = None) -> None:
        super().__init__(f"row {row}: {reason}")
        self.row, self.reason, self.key, self.place = row, reason, key, place


class Contest:
    """Contenders and their metrics.

    Events come in chunks whose targets are known (:meth:`take`), or one by one, a target at any time after
    its event (:meth:`ask`, :meth:`tell`); one contest uses one way or the other. A contender that raises is
    excluded from then on, ``standings[name].error`` holds the reason, and the others continue.

    Parameters
    ----------
    contenders
        Models by name: streamk's, river's, or any :class:`~streamk.evaluation.ModelAdapter`.
    task
        ``"classification"`` or ``"regression"``.
    interval
        Events of a window of the curves.
    by
        A field whose values make slices; it stays a field of the events.
    level
        The level of prediction intervals to score, such as 0.9, for contenders that have them; None scores
        none. Contenders with intervals predict event by event.
    metric
        The metric that contenders are ranked by, accuracy or MAE by default; or costs of errors with their
        positive label, to rank them by the mean cost.
    """

    def __init__(
        self,
        contenders: Mapping[str, object],
        task: str,
        interval: int = 1000,
        by: str | None = None,
        level: float | None = None,
        metric: str | Costs | None = None,
    ) -> None:
        if task not in TASKS:
            raise ValueError(f"task {task!r} is unknown; use {' or '.join(TASKS)}")
        if not contenders:
            raise ValueError("there is nothing to replay; give at least one contender")
        self.task, self.interval, self.by, self.level = task, interval, by, level
        self.costs = metric if isinstance(metric, Costs) else None
        self.metric = "cost" if isinstance(metric, Costs) else metric
        self.headline = headline_of(task, self.metric, level, self.costs)
        self.models = dict(contenders)
        self._subjects = {name: adapter_of(model, task) for name, model in contenders.items()}
        self.standings = {
            name: ContenderMetrics(task, interval, by is not None, level or 0.9, self.headline)
            for name in contenders
        }
        self.codes = Codes(task == TASKS[0])
        self.events = 0  # scored
        self.unscored = 0  # learned only
        self._chunks = 0
        self.tail: FrozenTail | None = None
        self.listener: Listener | None = None
        self._waiting: dict[Hashable, PendingPrediction] = {}
        self._count = 0  # of events that waited
        self.place: Place | None = None  # in the log, of the event that is asked next
        self._told: list[tuple[PendingPrediction, object, int]] = []  # to be scored together
        # the last target, and the prediction of the first contender
        self.latest: tuple[object, object] = (None, None)

    @property
    def active(self) -> list[str]:
        """Contenders that have not been excluded, first those that may reject events for all."""
        names = [name for name, standing in self.standings.items() if not standing.error]
        by_name = self._subjects
        return sorted(names, key=lambda n: (-isinstance(by_name[n], LearnerAdapter), -by_name[n].judges))

    @property
    def bounded(self) -> list[str]:
        """Contenders whose intervals are scored."""
        if self.level is None:
            return []
        return [name for name, subject in self._subjects.items() if _gives_intervals(subject)]

    @property
    def waiting(self) -> int:
        """Events whose targets have not come."""
        return len(self._waiting)

    def drop(self, name: str, why: str) -> None:
        """Exclude a contender that has not failed from now on."""
        self.standings[name].error, self.standings[name].dropped = why, True

    def freeze(self) -> None:
        """Score a frozen copy of the first contender from now on, if it is a learner that learns.

        Events that wait for their targets are predicted by the copy, too, when these come.
        """
        self.score()
        name, subject = next(iter(self._subjects.items()))
        if self.tail is None and isinstance(subject, LearnerAdapter) and not self.standings[name].error:
            self.tail = FrozenTail(name, subject.learner, self)

    @property
    def asked(self) -> Set[Hashable]:
        """Return the keys of the events whose targets have not come."""
        return self._waiting.keys()

    def __getstate__(self) -> Json:
        return {**self.__dict__, "listener": None}

    # ---- targets are known

    def take(self, xs: Sequence[Event] | EventChunk, ys: Sequence[object]) -> None:
        """Predict, score and learn consecutive events.

        Raises
        ------
        RefusedError
            If a learner of streamk rejects an event. The events before it have been scored and learned; it
            and those after it have not.
        ValueError
            If errors have costs, and there is a third class.
        """
        chunk, start = EventChunk.of(xs), 0
        while start < len(ys):
            start += self._take(chunk[start : start + CHUNK], ys[start : start + CHUNK], start)
        self._check_classes()

    def _check_classes(self) -> None:
        if self.costs is not None:
            self.costs.check(self.codes.labels)

    def _take(self, xs: EventChunk, ys: Sequence[object], before: int) -> int:
        predictions: Json = {}
        refused: RefusedError | None = None
        self._chunks += 1
        timed = _TIMED if self._chunks % _EVERY == 1 else 0  # the same events of every contender
        for name in self.active:
            standing, subject = self.standings[name], self._subjects[name]
            began = time.perf_counter()
            try:
                predicted, ends, stopped = self._answers(subject, standing, xs, ys, timed)
            except Exception as error:
                standing.error = self._failure(error)
                continue
            if stopped is not None:
                if predictions:  # another has taken it
                    standing.error = f"at event {self.events + stopped.row + 1:,}: {stopped.reason}"
                    continue
                refused = RefusedError(before + stopped.row, stopped.reason)
                xs, ys = xs[: stopped.row], ys[: stopped.row]
                if not len(ys):
                    raise refused
            standing.seconds += time.perf_counter() - began
            predictions[name] = predicted, ends
        self._scored(xs, ys, predictions)
        if refused is not None:
            raise refused
        return len(ys)

    def _failure(self, error: Exception) -> str:
        """Return why a contender is excluded, in one line."""
        first = str(error).partition("\n")[0]
        return f"after event {self.events:,}: {type(error).__name__}: {first}"

    def _scored(self, xs: EventChunk, ys: Sequence[object], predictions: Json, keys: _Keys = None) -> None:
        """Score events; with keys, their targets have come together."""
        targets, last, known = self.codes.of_next(ys)
        before: Sequence[object] | None = None
        if keys is not None and last is not None:
            last[:] = last[0]
            before = [[*self.codes.labels, None][last[0]]] * len(ys)
        slices = None if self.by is None else xs.column(self.by)
        for name, (predicted, ends) in predictions.items():
            arranged = self.codes.arranged(predicted, known)
            costs = costs_of(self.costs, targets, arranged, self.codes)
            standing = self.standings[name]
            losses = standing.add(targets, arranged, last, slices, ends, costs)

            def scored(row: int, predicted: Table | Array = predicted) -> WorstEvent:
                return WorstEvent(ys[row], prediction_of(predicted, row), xs.event(row), xs.place(row))

            standing.worst.add(losses, self.events + 1, scored)
            if self.tail is not None and name == self.tail.name:
                self.tail.add(xs, targets, arranged, last, known)
        if self.listener is not None:
            answers = {name: predicted for name, (predicted, _) in predictions.items()}
            if self.tail is not None and self.tail.answers is not None:
                answers[f"{self.tail.name} (frozen)"] = self.tail.answers
            intervals = {name: ends for name, (_, ends) in predictions.items() if ends is not None}
            self.listener(Scored(keys, ys, answers, intervals, slices, before, self.events + 1, xs.places))
        self.events += len(ys)
        first = predictions.get(next(iter(self.standings)))
        self.latest = ys[-1], None if first is None else decide(prediction_of(first[0], -1))

    def _answers(
        self,
        subject: ModelAdapter,
        standing: ContenderMetrics,
        xs: EventChunk,
        ys: Sequence[object],
        timed: int,
    ) -> tuple[object, object, RowError | None]:
        """Predict and learn events; return predictions, intervals, and the error of a rejected event.

        A learner of streamk that rejects an event has learned and predicted those before it, and no others.
        """
        intervals = self.level is not None and _gives_intervals(subject)
        if subject.batched and not intervals:
            one_by_one = min(timed, len(ys) - 1) if timed else 0
            try:
                first = _one_by_one(subject, standing, xs[:one_by_one], ys[:one_by_one])
            except _RefusedRow as error:  # the events before it stay learned
                return _joined(error.answers, None), None, error.reason
            try:
                return _joined(first, subject.answer_many(xs[one_by_one:], ys[one_by_one:])), None, None
            except RowError as error:  # it has learned nothing of the pass
                row = error.row
                following = subject.answer_many(xs[one_by_one:][:row], ys[one_by_one:][:row]) if row else None
                stopped = RowError(one_by_one + row, error.reason)
                return _joined(first, following) if first or row else None, None, stopped
        answers: list[object] = []
        ends: list[object] = []
        rejected: RowError | None = None
        for row, (x, y) in enumerate(zip(xs.events, ys, strict=True)):
            began = time.perf_counter()
            try:
                answer = subject.predict(x)
                predicted = time.perf_counter()
                pair = self._ends(subject, x) if intervals else None
                learning = time.perf_counter()
                subject.learn(x, y)
            except ValueError as error:
                if not subject.judges:
                    raise
                rejected = RowError(len(answers), str(error))
                break
            answers.append(answer)
            ends.append(pair)
            if _UNTIMED <= row < timed:
                standing.latencies.add(predicted - began, time.perf_counter() - learning)
        bounds = tuple(np.array(ends, dtype=np.float64).reshape(-1, 2).T) if intervals else None
        return tabled(answers), bounds, rejected

    def _ends(self, subject: Any, x: Event) -> tuple[float, float]:
        """Return the interval of one event, NaN where there is none."""
        interval = subject.learner.predict_interval_one(x, self.level)
        return interval.lower, interval.upper

    def _ends_of_many(self, subject: Any, xs: Sequence[Event]) -> tuple[Array, ...]:
        """Return the intervals of events that are predicted together, around these predictions."""
        ends = subject.learner.predict_interval_many(list(xs), self.level)
        return tuple(np.array([[each["lower"], each["upper"]] for each in ends]).T)

    # ---- targets come together

    def take_together(
        self, keys: Sequence[Hashable], chunk: EventChunk, ys: Sequence[object], scored: bool = True
    ) -> None:
        """Predict all of these events, then learn all of them; unless ``scored``, only learn them.

        Raises
        ------
        RefusedError
            If a learner of streamk rejects an event, which has the key; none has been learned or scored.
        """
        predictions, learned = Json(), False
        for name in self.active:
            standing, subject = self.standings[name], self._subjects[name]
            began = time.perf_counter()
            try:
                if scored:
                    ends: Any = None
                    if self.level is not None and _gives_intervals(subject):
                        ends = self._ends_of_many(subject, chunk.events)
                    predictions[name] = subject.predict_many(chunk), ends
                subject.learn_many(chunk, ys)
            except Exception as error:
                if isinstance(error, RowError) and subject.judges and not learned:
                    row = error.row
                    raise RefusedError(row, error.reason, keys[row], chunk.place(row)) from None
                standing.error = self._failure(error)
                continue
            learned = True
            standing.seconds += time.perf_counter() - began
        if scored:
            self._scored(chunk, ys, predictions, keys)
        else:
            self.codes.of_next(ys)
            self.unscored += len(ys)
        self._check_classes()

    # ---- targets come later

    def ask(self, key: Hashable, x: Event, at: float | None = None) -> None:
        """Let contenders predict an event; :meth:`tell` later adds its target by the key.

        Its time is ``at``, in seconds since 1970, if it has one.

        Raises
        ------
        RefusedError
            If a learner of streamk rejects it.
        ValueError
            If an event of this key is waiting.
        """
        if key in self._waiting:
            raise ValueError(f"an event of key {key!r} is waiting already")
        answers: list[object] = []
        ends: list[object] = []
        predictions: dict[str, tuple[object, tuple[float, float] | None]] = {}
        times: dict[str, float] = {}
        for name in self.active:
            standing, subject = self.standings[name], self._subjects[name]
            began = time.perf_counter()
            try:
                interval = (
                    self._ends(subject, x) if self.level is not None and _gives_intervals(subject) else None
                )
                predictions[name] = subject.ask(self._count, x), interval
            except Exception as error:
                if isinstance(error, ValueError) and subject.judges and not predictions:
                    raise RefusedError(0, str(error), key) from None
                standing.error = self._failure(error)
                continue
            seconds = time.perf_counter() - began
            standing.seconds += seconds
            times[name] = seconds
        for name in self.standings:
            answer, interval = predictions.get(name, (None, None))
            answers.append(answer)
            ends.append(interval)
        cut = None if self.by is None else x.get(self.by)
        self._waiting[key] = PendingPrediction(
            x, answers, ends, self.codes.last, cut, times, key, self._count, at, self.place
        )
        self._count += 1

    def tell(self, key: Hashable, y: object) -> None:
        """Score and learn the event of a key, whose target has come.

        Raises
        ------
        RefusedError
            If a learner of streamk rejects the target.
        KeyError
            If no event of this key is waiting.
        """
        pending = self._waiting.pop(key)
        learned = False
        for name in self.active:
            standing, subject = self.standings[name], self._subjects[name]
            began = time.perf_counter()
            try:
                subject.at = pending.at
                subject.tell(pending.number, pending.x, y)
            except Exception as error:
                if isinstance(error, ValueError) and subject.judges and not learned:
                    self._give_up(pending)
                    raise RefusedError(0, str(error), key, pending.place) from None
                standing.error = self._failure(error)
                continue
            learned = True
            seconds = time.perf_counter() - began
            standing.seconds += seconds
            standing.latencies.add(pending.seconds[name], seconds)
        self.codes.came(y)
        self._told.append((pending, y, len(self.codes.labels)))
        self.events += 1
        if len(self._told) == CHUNK:
            self.score()

    def give_up(self) -> None:
        """Let the learners' models hold no events that wait for their targets."""
        for pending in self._waiting.values():
            self._give_up(pending)

    def _give_up(self, pending: PendingPrediction) -> None:
        for name in self.active:
            self._subjects[name].tell(pending.number, pending.x, None)

    def score(self) -> None:
        """Score the events whose targets have come and that are not yet scored.

        Predictions that a contender made before it failed are scored, too.
        """
        labelled, self._told = self._told, []
        before = self.events - len(labelled)
        for _, group in groupby(labelled, lambda told: [answer is None for answer in told[0].answers]):
            before += self._score(list(group), before)
        self._check_classes()

    def _score(self, labelled: Sequence[tuple[PendingPrediction, object, int]], before: int) -> int:
        """Score events that the same contenders have predicted, and return how many there are."""
        events, ys = [event for event, _, _ in labelled], [y for _, y, _ in labelled]
        known = np.array([count for _, _, count in labelled], dtype=np.int64)
        self.latest = ys[-1], decide(events[-1].answers[0])
        targets = self.codes.of(ys)
        last = np.array([event.last for event in events], dtype=np.int64)
        slices = None if self.by is None else [event.slice for event in events]
        answers: Json = {}
        intervals: Json = {}
        for k, (name, standing) in enumerate(self.standings.items()):
            predicted = [event.answers[k] for event in events]
            if predicted[0] is None or standing.dropped:
                continue
            ends = None
            if any(event.ends[k] is not None for event in events):
                pairs = [event.ends[k] or (np.nan, np.nan) for event in events]
                ends = intervals[name] = tuple(np.array(pairs, dtype=np.float64).reshape(-1, 2).T)
            answers[name] = tabled(predicted)
            arranged = self.codes.arranged(answers[name], known)
            costs = costs_of(self.costs, targets, arranged, self.codes)
            losses = standing.add(targets, arranged, last, slices, ends, costs)

            def scored(row: int, k: int = k) -> WorstEvent:
                event = events[row]
                return WorstEvent(ys[row], event.answers[k], event.x, event.place, event.at)

            standing.worst.add(losses, before + 1, scored)
            if self.tail is not None and name == self.tail.name:
                xs = EventChunk([event.x for event in events])
                self.tail.add(xs, targets, arranged, last, known)
                if self.tail.answers is not None:
                    answers[f"{name} (frozen)"] = self.tail.answers
        if self.listener is not None:
            labels = [*self.codes.labels, None]  # the code before the first label is -1
            last_labels = [labels[code] for code in last]
            keys = [event.key for event in events]
            places = [event.place for event in events]
            self.listener(Scored(keys, ys, answers, intervals, slices, last_labels, before + 1, places))
        return len(events)


def _gives_intervals(subject: ModelAdapter) -> bool:
    return isinstance(subject, LearnerAdapter) and hasattr(subject.learner, "predict_interval_one")


class _RefusedRow(Exception):  # noqa: N818
    """An event that a learner rejects when it predicts or learns it alone, and the predictions before it."""

    def __init__(self, answers: list[object], reason: RowError) -> None:
        super().__init__(str(reason))
        self.answers, self.reason = answers, reason


def _one_by_one(
    subject: ModelAdapter, standing: ContenderMetrics, xs: EventChunk, ys: Sequence[object]
) -> list[object]:
    """Predict and learn events one after the other, and record the time of most of them.

    The model is that of a pass over the same events.
    """
    answers: list[object] = []
    for row, (x, y) in enumerate(zip(xs.events if len(ys) else (), ys, strict=True)):
        began = time.perf_counter()
        try:
            answer = subject.predict(x)
            learning = time.perf_counter()
            subject.learn(x, y)
        except ValueError as error:
            if not subject.judges:
                raise
            raise _RefusedRow(answers, RowError(row, str(error))) from None
        done = time.perf_counter()
        answers.append(answer)
        if row >= _UNTIMED:
            standing.latencies.add(learning - began, done - learning)
    return answers


def _joined(first: list[Any], following: Table | Array | None) -> Table | Array | None:
    """Return the predictions of single events followed by those of a pass."""
    if not first:
        return following
    before = tabled(first)
    if following is None:
        return before
    if not isinstance(following, Table):
        return np.concatenate([before, following])
    places = {label: k for k, label in enumerate(following.labels)}
    rows = np.zeros((len(first), len(places)))
    for row, answer in enumerate(first):
        for label, p in answer.items():
            rows[row, places[label]] = p
    return Table(following.labels, np.concatenate([rows, following.rows]))
