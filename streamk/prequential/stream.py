"""Answers of subjects to the events of a stream, chunk by chunk; their scores are left to others.

Where labels come late, events are predicted and learned one by one.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from streamk.encoding.fields import Event
from streamk.encoding.rows import RowError
from streamk.prequential.contest import CHUNK
from streamk.prequential.subjects import Subject
from streamk.scores import check_delay

Pair = tuple[Event, Any]


class Answers(NamedTuple):
    """Predictions of consecutive events, made before each was learned, and the seconds they took."""

    targets: Sequence[Any]
    predictions: Sequence[Any]
    seconds: float


def test_then_train(
    subjects: Sequence[Subject], events: Iterable[Pair], chunk: int = CHUNK, delay: int = 0
) -> Iterator[list[Answers]]:
    """Yield the answers of every subject to each chunk of a stream.

    Parameters
    ----------
    subjects
        Evaluated side by side on the same events.
    events
        Pairs of event and target.
    chunk
        Events handed over at once; changes no prediction.
    delay
        How many events late labels arrive: event ``t`` is predicted by subjects that have learned events 0 to
        ``t - delay - 1``. Labels on their way when the stream ends arrive then: every event is learned, and
        the last answers may be to no event.

    Raises
    ------
    RowError
        If the first subject refuses an event, after the answers to those before it. Its row counts from the
        first event without an answer, and is negative if a label was refused that came late.
    ValueError
        If the delay is not a number of events.
    """
    check_delay(delay)
    return _late(subjects, iter(events), chunk, delay) if delay else _at_once(subjects, iter(events), chunk)


test_then_train.__test__ = False  # type: ignore[attr-defined]  # its name is the field's, not pytest's


def _at_once(subjects: Sequence[Subject], stream: Iterator[Pair], chunk: int) -> Iterator[list[Answers]]:
    while pairs := list(islice(stream, chunk)):
        try:
            yield _ask(subjects, pairs)
        except RowError as error:
            # The first subject refused the chunk whole; what came before the bad event is good.
            if error.row:
                yield _ask(subjects, pairs[: error.row])
            raise RowError(0, error.reason) from None


def _ask(subjects: Sequence[Subject], pairs: Sequence[Pair]) -> list[Answers]:
    xs, ys = [x for x, _ in pairs], [y for _, y in pairs]
    answers = []
    for subject in subjects:
        began = time.perf_counter()
        predictions = subject.answer(xs, ys)
        answers.append(Answers(ys, predictions, time.perf_counter() - began))
    return answers


def _late(
    subjects: Sequence[Subject], stream: Iterator[Pair], chunk: int, delay: int
) -> Iterator[list[Answers]]:
    waiting: deque[Pair] = deque()  # predicted, not learned
    turn = _Turn(subjects)
    refused: tuple[int, str] | None = None
    try:
        for x, y in stream:
            turn.predict(x, y)
            waiting.append((x, y))
            if len(waiting) > delay:
                turn.learn(-len(waiting), *waiting.popleft())
            if len(turn.targets) == chunk:
                yield turn.answers()
    except RowError as error:
        refused = error.row, error.reason
    if refused is None or refused[0] == 0:
        try:
            while waiting:
                turn.learn(-len(waiting), *waiting.popleft())
        except RowError as error:
            refused = error.row, error.reason
    yield turn.answers()
    if refused is not None:
        raise RowError(*refused)


class _Turn:
    """Subjects asked and taught in turn, event by event, and the answers that were not yet handed out."""

    def __init__(self, subjects: Sequence[Subject]) -> None:
        self._subjects = subjects
        self._clear()

    def _clear(self) -> None:
        self.targets: list[Any] = []
        self._given: list[list[Any]] = [[] for _ in self._subjects]
        self._seconds = [0.0] * len(self._subjects)

    def predict(self, x: Event, y: Any) -> None:
        predictions = self._each(0, lambda subject: subject.predict(x))
        for given, prediction in zip(self._given, predictions, strict=True):
            given.append(prediction)
        self.targets.append(y)

    def learn(self, row: int, x: Event, y: Any) -> None:
        self._each(row, lambda subject: subject.learn(x, y))

    def _each(self, row: int, act: Callable[[Subject], Any]) -> list[Any]:
        found = []
        for i, subject in enumerate(self._subjects):
            began = time.perf_counter()
            try:
                found.append(act(subject))
            except ValueError as error:
                if i:
                    raise
                raise RowError(row, str(error)) from None
            self._seconds[i] += time.perf_counter() - began
        return found

    def answers(self) -> list[Answers]:
        """Hand out what was gathered."""
        found = [Answers(self.targets, *pair) for pair in zip(self._given, self._seconds, strict=True)]
        self._clear()
        return found
