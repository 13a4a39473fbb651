"""The metrics of a prequential evaluation: river's, updated event by event, and temporal kappa."""

from __future__ import annotations

from collections import deque
from typing import Any

from river import metrics

TASKS = ("classification", "regression")
LONGEST_DELAY = 2**24  # and no longer
_CERTAIN_ENOUGH = 1e-15  # log loss of a class given probability 0, as river and scikit-learn bound it


class Score:
    """Running metrics of one subject: accuracy, kappas and log loss, or MAE, RMSE and R².

    The first event of a classification stream is predicted by nobody (no class is known); it counts as wrong
    in accuracy, and is left out of the log loss.

    Temporal kappa is ``(p - q) / (1 - q)``: ``p`` is the accuracy, and ``q`` that of saying the last label
    that has arrived ([^1]), which is wrong too while there is none, so ``q`` is always below 1. It is 1 for
    a subject that is always right, 0 for one that is as good as the last label, negative for a worse one.

    Parameters
    ----------
    task
        ``"classification"`` or ``"regression"``.
    delay
        How many events late labels arrive.

    References
    ----------
    [^1]: Žliobaitė, I., Bifet, A., Read, J., Pfahringer, B. and Holmes, G., 2015. Evaluation methods and
        decision theory for classification of streaming data with temporal dependence. Machine Learning 98.

    Examples
    --------
    >>> score = Score("classification")
    >>> score.update("a", {})
    >>> score.update("a", {"a": 0.75, "b": 0.25})
    >>> score.values()
    {'accuracy': 0.5, 'kappa': 0.0, 'kappa_temporal': 0.0, 'log_loss': 0.287682}
    """

    def __init__(self, task: str, delay: int = 0) -> None:
        if task not in TASKS:
            raise ValueError(f"task {task!r} is unknown; use {' or '.join(TASKS)}")
        self.task = task
        self.events = 0
        self.right = 0
        self.seconds = 0.0
        self._unchanged = 0  # events whose label is the last one that had arrived
        self._arriving: deque[Any] = deque(maxlen=1 + check_delay(delay))
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
        if len(self._arriving) == self._arriving.maxlen:
            self._unchanged += self._arriving[0] == target
        self._arriving.append(target)
        self._confusion.update(target, label)
        if label is not None:
            known = prediction if target in prediction else {**prediction, target: 0.0}
            self._log_loss.update(target, {k: max(p, _CERTAIN_ENOUGH) for k, p in known.items()})

    def pass_over(self, target: Any) -> None:
        """Leave out an event that was asked for before any label had come; its own comes as others do."""
        self._arriving.append(target)

    def values(self) -> dict[str, float]:
        """Return the metrics so far."""
        if self.task == "regression":
            found = zip(("mae", "rmse", "r2"), (m.get() for m in self._errors), strict=True)
            return {name: float(f"{value:.6g}") for name, value in found}
        gained = (self.right - self._unchanged) / max(self.events - self._unchanged, 1)
        return {
            "accuracy": round(self.right / max(self.events, 1), 6),
            "kappa": round(float(self._kappa.get()), 6),
            "kappa_temporal": round(gained, 6),
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


def check_delay(delay: int) -> int:
    """Return ``delay``, refusing what is not a number of events."""
    if type(delay) is not int or not 0 <= delay < LONGEST_DELAY:
        raise ValueError(f"delay is {delay!r}; it must be a whole number from 0 to {LONGEST_DELAY - 1}")
    return delay
