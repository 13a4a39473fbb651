"""Prequential evaluation: every event is first predicted, then scored, then learned.

The learner works through its own compiled pass (:meth:`predict_learn_many` and its relatives), whose
predictions are those of a loop over events; scores are river's metrics, updated event by event.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple, Protocol

from river import metrics

from streamk.encoding.fields import Event
from streamk.encoding.rows import RowError

TASKS = ("classification", "regression")
CHUNK = 1000
_CERTAIN_ENOUGH = 1e-15  # log loss of a class given probability 0, as river and scikit-learn bound it


class Answers(NamedTuple):
    """Predictions of consecutive events, made before each was learned, and the seconds they took."""

    targets: Sequence[Any]
    predictions: Sequence[Any]
    seconds: float


class Subject(Protocol):
    """What can be tested and then trained on a list of events."""

    def answer(self, xs: list[Event], ys: list[Any]) -> Sequence[Any]:
        """Predict each event, then learn it; a prediction is a dict of probabilities or a number."""
        ...


class LearnerSubject:
    """A streamk learner under evaluation."""

    def __init__(self, learner: Any, task: str) -> None:
        self._pass = (
            learner.predict_proba_learn_many if task == "classification" else learner.predict_learn_many
        )

    def answer(self, xs: list[Event], ys: list[Any]) -> Sequence[Any]:
        """Predict and learn through the learner's compiled pass."""
        result: Sequence[Any] = self._pass(xs, ys)
        return result


def test_then_train(
    subjects: Sequence[Subject], events: Iterable[tuple[Event, Any]], chunk: int = CHUNK
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

    Raises
    ------
    RowError
        If the first subject refuses an event, after the answers to those before it.
    """
    stream = iter(events)
    while pairs := list(islice(stream, chunk)):
        try:
            yield _ask(subjects, pairs)
        except RowError as error:
            # The first subject refused the chunk whole; what came before the bad event is good.
            if error.row:
                yield _ask(subjects, pairs[: error.row])
            raise RowError(0, error.reason) from None


def _ask(subjects: Sequence[Subject], pairs: Sequence[tuple[Event, Any]]) -> list[Answers]:
    xs, ys = [x for x, _ in pairs], [y for _, y in pairs]
    answers = []
    for subject in subjects:
        began = time.perf_counter()
        predictions = subject.answer(xs, ys)
        answers.append(Answers(ys, predictions, time.perf_counter() - began))
    return answers


test_then_train.__test__ = False  # type: ignore[attr-defined]  # its name is the field's, not pytest's


class Score:
    """Running metrics of one subject: accuracy, kappa and log loss, or MAE, RMSE and R².

    The first event of a classification stream is predicted by nobody (no class is known); it counts as wrong
    in accuracy, and is left out of the log loss.

    Examples
    --------
    >>> score = Score("classification")
    >>> score.update("a", {})
    >>> score.update("a", {"a": 0.75, "b": 0.25})
    >>> score.values()
    {'accuracy': 0.5, 'kappa': 0.0, 'log_loss': 0.287682}
    """

    def __init__(self, task: str) -> None:
        if task not in TASKS:
            raise ValueError(f"task {task!r} is unknown; use {' or '.join(TASKS)}")
        self.task = task
        self.events = 0
        self.right = 0
        self.seconds = 0.0
        if task == "classification":
            self._confusion = metrics.ConfusionMatrix()
            self._kappa: Any = metrics.CohenKappa(cm=self._confusion)
            self._log_loss: Any = metrics.CrossEntropy()
        else:
            self._errors: tuple[Any, ...] = (metrics.MAE(), metrics.RMSE(), metrics.R2())

    def update(self, target: Any, prediction: Any) -> None:
        """Count one event: ``prediction`` is a dict of probabilities, or a number."""
        self.events += 1
        if self.task == "regression":
            for metric in self._errors:
                metric.update(target, prediction)
            return
        label = decide(prediction)
        self.right += label == target
        self._confusion.update(target, label)
        if label is not None:
            known = prediction if target in prediction else {**prediction, target: 0.0}
            self._log_loss.update(target, {k: max(p, _CERTAIN_ENOUGH) for k, p in known.items()})

    def values(self) -> dict[str, float]:
        """Return the metrics so far."""
        if self.task == "regression":
            found = zip(("mae", "rmse", "r2"), (m.get() for m in self._errors), strict=True)
            return {name: float(f"{value:.6g}") for name, value in found}
        return {
            "accuracy": round(self.right / max(self.events, 1), 6),
            "kappa": round(float(self._kappa.get()), 6),
            "log_loss": round(float(self._log_loss.get()), 6),
        }

    @property
    def headline(self) -> float:
        """The metric to watch: accuracy, or MAE."""
        if self.task == "classification":
            return self.right / max(self.events, 1)
        return float(self._errors[0].get())

    @property
    def events_per_second(self) -> float:
        """Events predicted and learned a second, reading and scoring apart."""
        return self.events / self.seconds if self.seconds else 0.0


def decide(prediction: Any) -> Any:
    """Return the most probable label of a dict of probabilities, None if it gives none a chance."""
    if not isinstance(prediction, dict):
        return prediction
    label = max(prediction, key=prediction.__getitem__, default=None)
    return None if label is None or prediction[label] <= 0.0 else label
