"""The metrics of a contender: curve, batch means for confidence intervals, slices, alarms and time.

Replay and the daemon report where the mean loss has risen, as drift alarms (ADWIN of river).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streamk.arrays import AnyArray, Array, Integers
from streamk.evaluation.bootstrap import BatchMeans
from streamk.evaluation.classes import ClassSums, decisions, log_losses
from streamk.evaluation.exact import Sums
from streamk.evaluation.jackknife import BatchSums
from streamk.evaluation.metric import METRICS, TASKS
from streamk.evaluation.numbers import NumberSums
from streamk.evaluation.slices import Slices
from streamk.evaluation.windows import Curve
from streamk.evaluation.worst_events import WorstEvents

_TOGETHER = 10  # losses whose mean ADWIN takes
_LATENCIES = 4096  # at most, of a contender


class Alarms:
    """Events after which a rise of the mean loss was detected.

    Losses of numbers become ``|e| / (|e| + s)``, ``s`` being the mean of the first ten that are not all 0:
    ADWIN takes values between 0 and 1.

    Attributes
    ----------
    events
        The number of events before each alarm.

    Examples
    --------
    >>> alarms = Alarms(bounded=True)
    >>> alarms.add(np.repeat([0.0, 1.0], 1000))
    >>> alarms.events
    [1280]
    """

    def __init__(self, bounded: bool) -> None:
        from river import drift  # takes a second, which other commands need not wait

        self.events: list[int] = []
        self._bounded, self._scale = bounded, 0.0
        self._seen = 0
        self._rest: Array = np.zeros(0)
        self._detector = drift.ADWIN()

    def add(self, losses: Array) -> None:
        """Add the losses of consecutive events; those that are no number count as the greatest."""
        losses = np.concatenate([self._rest, losses])
        whole = len(losses) // _TOGETHER * _TOGETHER
        self._rest = losses[whole:]
        means = self._means(losses[:whole].reshape(-1, _TOGETHER))
        detector = self._detector
        for mean in means.tolist():
            self._seen += _TOGETHER
            before = detector.estimation
            detector.update(mean)
            if detector.drift_detected and detector.estimation > before:
                self.events.append(self._seen)

    def _means(self, losses: Array) -> Array:
        """Return the means of rows of losses, each between 0 and 1."""
        if not self._bounded:
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                for row in losses if not self._scale else ():
                    finite = row[np.isfinite(row)]
                    if finite.any():
                        self._scale = float(finite.mean())
                        break
                shares = losses / (losses + self._scale)
            losses = np.where(losses == 0.0, 0.0, np.where(np.isfinite(losses), shares, 1.0))
        means: Array = losses.mean(axis=1)
        return means


class Latencies:
    """Seconds that single events took: to predict, to learn, and both together.

    Attributes
    ----------
    predict, learn
        Of the same events, in order; if there are many, one in a power of two is stored.
    """

    def __init__(self) -> None:
        self.predict: list[float] = []
        self.learn: list[float] = []
        self._every, self._seen = 1, 0

    def add(self, predict: float, learn: float) -> None:
        """Add one event."""
        self._seen += 1
        if self._seen % self._every:
            return
        self.predict.append(predict)
        self.learn.append(learn)
        if len(self.predict) == _LATENCIES:
            self.predict, self.learn, self._every = self.predict[1::2], self.learn[1::2], 2 * self._every

    def microseconds(self) -> dict[str, list[float]]:
        """Return them in microseconds, sorted."""
        both = [a + b for a, b in zip(self.predict, self.learn, strict=True)]
        named = {"predict": self.predict, "learn": self.learn, "predict_learn": both}
        return {name: sorted(1e6 * seconds for seconds in values) for name, values in named.items()}


class ContenderMetrics:
    """The numbers of one contender, of the events whose targets have come.

    Parameters
    ----------
    task
        ``"classification"`` or ``"regression"``.
    interval
        Events of a window.
    by
        Whether there are slices.
    level
        Of intervals, for numbers.
    headline
        The metric that contenders are ranked by.
    before
        Events before the first.
    """

    def __init__(
        self, task: str, interval: int, by: bool, level: float, headline: str, before: int = 0
    ) -> None:
        self.classes = task == TASKS[0]
        sums: Sums = ClassSums() if self.classes else NumberSums(level)
        self.curve: Curve[Any] = Curve(sums, interval, headline, before)
        self._means = {
            name: BatchMeans() for name in (("accuracy", "log_loss", "cost") if self.classes else ("mae",))
        }
        self._sums: BatchSums | None = None
        if headline not in self._means:
            self._sums = BatchSums(ClassSums(ranked=headline == "auc") if self.classes else sums)
        self.slices = Slices(sums.fresh()) if by else None
        self.alarms = Alarms(bounded=self.classes)
        self.seconds = 0.0
        self.error = ""
        self.dropped = False  # by Contest.drop, not by an error
        self.latencies = Latencies()
        self.worst = WorstEvents()

    @property
    def failed(self) -> bool:
        """Whether the contender raised an error."""
        return bool(self.error) and not self.dropped

    @property
    def events(self) -> int:
        """Events scored."""
        return self.curve.events

    def losses(self, metric: str) -> BatchMeans:
        """Return the units of the headline metric as a loss, of log loss, of cost, or of the default one."""
        if metric in self._means:
            return self._means[metric]
        assert self._sums is not None
        return self._sums.losses(METRICS[metric])

    def loss(self, metric: str, since: int = 0) -> float:
        """Return a metric of :meth:`losses` after so many: a power of two, and half of all at least."""
        if metric in self._means:
            return self._means[metric].mean(since)
        assert self._sums is not None
        return self._sums.loss(METRICS[metric], since)

    def add(
        self,
        targets: AnyArray,
        predictions: Array,
        last: Integers | None,
        slices: list[object] | None,
        ends: tuple[Array, Array] | None,
        costs: Array | None = None,
    ) -> Array:
        """Score events: codes and probabilities with the last label before each, or numbers.

        Return the log loss of each, or the absolute error.
        """
        if self.classes:
            predicted = decisions(predictions)
            losses = (predicted != targets).astype(np.float64)
            sizes = log_losses(targets, predictions, predicted)
            self._means["log_loss"].add(sizes)
            arrays: tuple[AnyArray | None, ...] = (targets, predictions, last, costs)
            self._means["cost"].add(np.zeros(0) if costs is None else costs)
        else:
            with np.errstate(over="ignore", invalid="ignore"):
                sizes = losses = np.abs(targets - predictions)
            arrays = (targets, predictions, *(ends or (None, None)))
        self.curve.add(*arrays)
        self._means["accuracy" if self.classes else "mae"].add(losses)
        if self._sums is not None:
            self._sums.add(*arrays)
        self.alarms.add(losses)
        if self.slices is not None and slices is not None:
            self.slices.add(slices, *arrays)
        return sizes
