"""Replays of events through several models from Python, like the command ``streamk replay``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from itertools import chain, islice
from typing import Any

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoDataFrame

from streamk.encoding.fields import Event
from streamk.encoding.targets import targets as targets_of
from streamk.evaluation.adapters import EventChunk, LearnerAdapter
from streamk.evaluation.contest import CHUNK, Contest, RefusedError
from streamk.evaluation.costs import Costs
from streamk.evaluation.label_delay import LabelDelay, delay_of
from streamk.evaluation.results import Results
from streamk.evaluation.windows import fitting
from streamk.learners.learner import Learner
from streamk.progress import progress_bar

LOOK = 1000  # events from which the task is inferred
_EVENTS = "give (X, y), a data frame and its targets, or pairs of an event (a dict) and its target"
_CLASSES = 20  # whole numbers with at most so many different values are classes


def replay(
    events: Iterable[tuple[Event, object]] | tuple[IntoDataFrame, object],
    contenders: Mapping[str, object],
    metrics: Sequence[str] | None = None,
    delay: object = 0,
    *,
    task: str | None = None,
    interval: int | None = None,
    by: str | None = None,
    level: float | None = None,
    metric: str | Costs | None = None,
    progress: bool | None = None,
) -> Results:
    """Let models predict every event, score them, and let them learn it.

    All models process the same events in the same order, and the time of each is measured separately. A model
    that raises is excluded from then on (:meth:`Results.error`), and the others continue.

    Parameters
    ----------
    events
        Pairs of event and target; or a data frame of events and their targets, ``(X, y)``.
    contenders
        Models by name: learners of streamk, whose compiled pass is used, or any with river's verbs. They
        learn.
    metrics
        Names of those to show; all by default.
    delay
        How many events late targets come, or a :class:`DelayByTime`.
    task
        ``"classification"`` or ``"regression"``; inferred from the first targets by default
        (:func:`tell_task`).
    interval
        Events of a window of the curves; by default 1,000, and fewer if events have a length of
        25,000 or less.
    by
        A field whose values make slices.
    level
        Score intervals of that level, for learners that have ``predict_interval_one``.
    metric
        The metric that ranks models, as ``"auc"``; accuracy or MAE by default. Or the costs of errors of two
        classes, as ``Costs(fn=50, fp=1)``: the mean cost of an event then ranks models, which decide by the
        threshold of the costs (:mod:`streamk.evaluation.costs`).
    progress
        Whether to show a bar; by default in notebooks.

    Raises
    ------
    ValueError
        If there is no event, a parameter is wrong, or a learner of streamk rejects an event, which is named.

    Examples
    --------
    >>> from river import datasets, linear_model, preprocessing
    >>> import streamk
    >>> from streamk.evaluation import replay
    >>> line = preprocessing.StandardScaler() | linear_model.LogisticRegression()
    >>> kernel = streamk.KernelClassifier(seed=1)
    >>> results = replay(datasets.Bananas(), {"kernel": kernel, "line": line}, metrics=["accuracy"])
    >>> results.ranking()
    ['kernel', 'line']
    >>> print(results.verdict()[:49])
    kernel is better than line by 35.6 points of accu
    """
    late = delay_of(delay)
    stream = _pairs_of(events)
    head = list(islice(stream, LOOK))
    if not head:
        raise ValueError("there are no events")
    if interval is None:
        sized = events[1] if isinstance(events, tuple) and len(events) == 2 else events
        interval = fitting(len(sized) if isinstance(sized, Sized) else None)
    ys = [y for _, y in head]
    task = task or tell_task(ys)
    if isinstance(metric, Costs):
        metric = metric.decided(task, ys)
    contest = Contest(contenders, task, interval, by, level, metric)
    Results(contest, metrics)  # raises on wrong metrics before anything is learned
    warm(contenders, contest.task, head[:2])
    whole, row = chain(head, stream), 0
    with progress_bar(progress) as bar:
        job = bar.add_task("replay", total=None)
        while pairs := list(islice(whole, CHUNK)):
            if late is None:
                try:
                    contest.take([x for x, _ in pairs], [y for _, y in pairs])
                except RefusedError as error:
                    raise RefusedError(row + error.row, error.reason) from None
            else:
                _take_late(contest, late, pairs, row)
            row += len(pairs)
            bar.advance(job, len(pairs))
        if late is not None:
            _take_late(contest, late, None, row)
    contest.score()
    return Results(contest, metrics)


def _pairs_of(
    events: Iterable[tuple[Event, object]] | tuple[IntoDataFrame, object],
) -> Iterator[tuple[Event, object]]:
    """Return pairs of event and target, the rows of a frame as dicts.

    Raises
    ------
    ValueError
        If there is something else, also at a later pair.
    """
    if isinstance(events, tuple) and len(events) == 2 and nw.dependencies.is_into_dataframe(events[0]):
        frame = nw.from_native(events[0], eager_only=True)
        return zip(frame.iter_rows(named=True), targets_of(events[1], len(frame)), strict=True)
    if not isinstance(events, Iterable) or nw.dependencies.is_into_dataframe(events):
        raise ValueError(f"{_EVENTS}, not {type(events).__name__}")
    return map(_pair, events)


def _pair(pair: object) -> tuple[Event, object]:
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        many = f" of {len(pair)}" if isinstance(pair, (tuple, list)) else ""
        raise ValueError(f"{_EVENTS}, not {type(pair).__name__}{many}")
    return pair[0], pair[1]


def _take_late(
    contest: Contest, late: LabelDelay, pairs: Sequence[tuple[Event, object]] | None, row: int
) -> None:
    """Add events, the first of number ``row``, or the end if None; errors name the row of their event."""
    try:
        if pairs is None:
            late.end(contest)
            return
        for x, y in pairs:
            late.event(contest, x, y)
            row += 1
    except RefusedError as error:
        raise ValueError(f"row {error.key}: {error.reason}") from None
    except ValueError as error:
        raise ValueError(f"row {row}: {error}") from None


def warm(models: Mapping[str, object], task: str, pairs: Sequence[tuple[Event, object]]) -> None:
    """Compile functions, or load compiled ones, with temporary learners, so that no timing includes it."""
    xs, ys = [x for x, _ in pairs], [y for _, y in pairs]
    for model in models.values():
        if not isinstance(model, Learner):
            continue
        with contextlib.suppress(ValueError):  # an invalid value raises again later, with its row
            subject = LearnerAdapter(model.clone(), task)
            subject.answer_many(EventChunk(xs), ys)
            subject.learn(xs[0], ys[0])
            subject.predict(xs[0])
            subject.learner.flush()


def tell_task(targets: Sequence[Any]) -> str:
    """Return the task that targets suggest.

    Regression if every target is a number, unless they are whole numbers with at most 20 values.

    >>> tell_task(["1", "2.5"]), tell_task([0, 1, 1]), tell_task([True, False]), tell_task(["a", 1])
    ('regression', 'classification', 'classification', 'classification')
    """
    try:
        numbers = [float("x" if isinstance(y, bool) else y) for y in targets]
    except (TypeError, ValueError):
        return "classification"
    whole = all(number.is_integer() for number in numbers)
    # several integers above 2**53 are one double
    return "classification" if whole and len(set(targets)) <= _CLASSES else "regression"
