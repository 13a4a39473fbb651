"""Results of a replay: tables, curves, and comparisons with their confidence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from streamk.arrays import Array, Json
from streamk.evaluation.adapters import Frozen, LearnerAdapter, ModelAdapter
from streamk.evaluation.bootstrap import BatchMeans, Interval, interval
from streamk.evaluation.comparison import DIVERGED, LEVEL, Comparison, compare
from streamk.evaluation.contender_metrics import ContenderMetrics
from streamk.evaluation.contest import Contest
from streamk.evaluation.metric import METRICS, TASKS, decide
from streamk.evaluation.refitted import Refitted
from streamk.evaluation.thresholds import rarer, thresholds_of
from streamk.html_tables import html_table

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_SHARES = ("accuracy", "balanced_accuracy", "macro_f1", "auc")  # between 0 and 1


class Windows(NamedTuple):
    """The windows of a contender: metrics of each, and the headline metric of all events at its end."""

    columns: tuple[str, ...]
    rows: Array
    interval: int
    cumulative: Array


class Results:
    """The results of a contest, so far.

    Parameters
    ----------
    contest
        Of the contenders.
    metrics
        Names of those to show; all by default.
    choice
        How users choose the metric that ranks, with ``{}`` for its name.

    Examples
    --------
    >>> import streamk
    >>> from streamk.evaluation import replay
    >>> events = [({"x": i % 7}, i % 7 > 3) for i in range(2000)]
    >>> results = replay(events, {"kernel": streamk.KernelClassifier(seed=1)})
    >>> results.events, results.metrics("kernel")["accuracy"] > 0.95
    (2000, True)
    """

    def __init__(
        self, contest: Contest, metrics: Sequence[str] | None = None, choice: str = 'metric="{}"'
    ) -> None:
        self._contest, self._choice = contest, choice
        self.task, self.interval = contest.task, contest.interval
        self.events, self.headline = contest.events, contest.headline
        known = self._standing(self.names[0]).curve.columns
        if metrics is not None and (odd := [name for name in metrics if name not in known]):
            raise ValueError(f"metric {odd[0]!r} is unknown; use {', '.join(known)}")
        self._shown = list(known if metrics is None else metrics)

    @property
    def names(self) -> list[str]:
        """The contenders, in the order of the call."""
        return list(self._contest.standings)

    @property
    def models(self) -> Json:
        """The models as they are now."""
        return self._contest.models

    @property
    def labels(self) -> list[object]:
        """The classes, in the order of the confusion matrix."""
        return list(self._contest.codes.labels)

    def _standing(self, name: str) -> ContenderMetrics:
        return self._contest.standings[name]

    def error(self, name: str) -> str:
        """Return why a contender was excluded, empty if it was not."""
        return self._standing(name).error

    def seconds(self, name: str) -> float:
        """Return the seconds that a contender took to predict and learn."""
        return self._standing(name).seconds

    def rate(self, name: str) -> float:
        """Return how many events a second a contender predicted and learned."""
        standing = self._standing(name)
        return standing.events / standing.seconds if standing.seconds else 0.0

    def metrics(self, name: str) -> dict[str, float]:
        """Return the metrics of a contender over all its events; NaN if it failed."""
        standing = self._standing(name)
        values = standing.curve.whole().values()
        if standing.failed:
            values = dict.fromkeys(values, math.nan)
        return {key: values[key] for key in self._shown if key in values}

    def failed(self, name: str) -> bool:
        """Return whether a contender failed; its error is :meth:`error`."""
        return self._standing(name).failed

    def costs(self) -> Json | None:
        """Return the costs of errors, the positive label and the threshold that they imply; None without."""
        costs = self._contest.costs
        if costs is None:
            return None
        return {**costs._asdict(), "positive": plain_label(costs.positive), "threshold": costs.threshold}

    def slices(self, name: str) -> dict[str, tuple[int, float]]:
        """Return the events and the headline metric of a contender for each value of the field of slices."""
        slices = self._standing(name).slices
        if slices is None or self.failed(name):
            return {}
        return {
            str(value): (sums.events, float(sums.values()[self.headline]))
            for value, sums in slices.table().items()
        }

    def worst(self, name: str) -> list[Json]:
        """Return the ten events that a contender predicted worst, after the first tenth of the events.

        Each has its number ``event``, ``file`` and ``line`` in a log, ``at`` (seconds since 1970) if its time
        is known, ``target``, ``prediction``, ``loss`` and ``fields``. The loss is the log loss of an event,
        and ``probability`` that of its target; of numbers it is the absolute error, or the squared one where
        RMSE or R² ranks. A contender that failed has none.
        """
        if self.failed(name):
            return []
        square = 2.0 if self.headline in ("rmse", "r2") else 1.0
        listed = []
        for number, loss, (target, prediction, fields, place, at) in self._standing(name).worst.listed(
            self.events
        ):
            event: Json = {"event": number, "target": plain_label(target)}
            if place is not None:
                event |= {"file": place[0].rpartition("/")[2], "line": place[1]}
            if at is not None:
                event["at"] = at
            event |= {"prediction": plain_value(decide(prediction)), "loss": finite(loss**square)}
            if isinstance(prediction, dict):
                event["probability"] = prediction.get(target, 0.0)
            listed.append(event | {"fields": {str(k): plain_value(v) for k, v in fields.items()}})
        return listed

    def thresholds(self, name: str) -> Json | None:
        """Return precision and recall of a contender over thresholds (:mod:`streamk.evaluation.thresholds`).

        None unless there are two classes. ``positive`` is the positive label of the costs of errors, and
        without them the rarer label.
        """
        sums, labels = self._standing(name).curve.whole(), self.labels
        if not self._classes or sums.classes != 2 or len(labels) != 2 or self.failed(name):
            return None
        costs = self._contest.costs
        if costs is not None and costs.positive not in labels:
            return None
        code = rarer(sums.of_targets) if costs is None else labels.index(costs.positive)
        thresholds = thresholds_of(sums, code, costs)
        return None if thresholds is None else {"positive": plain_label(labels[code]), **thresholds}

    def frozen(self) -> Json | None:
        """Return the metrics of a frozen copy of the first contender, without new labels; None if none.

        ``since`` and ``events`` are the events before, and those scored; ``metrics`` are the copy's, and
        ``with_labels`` those of the contender itself on the same events.
        """
        tail = self._contest.tail
        if tail is None or not tail.frozen.events:
            return None
        both = {"metrics": tail.frozen, "with_labels": tail.live}
        metrics = {key: each.curve.whole().values() for key, each in both.items()}
        shown = {
            key: {name: finite(values[name]) for name in self._shown if name in values}
            for key, values in metrics.items()
        }
        return {"contender": tail.name, "since": tail.since, "events": tail.frozen.events, **shown}

    def frozen_windows(self) -> Windows | None:
        """Return the windows of the frozen copy, NaN before it was frozen; None if there are none."""
        tail = self._contest.tail
        if tail is None or not len(tail.frozen.curve.rows):
            return None
        curve, before = tail.frozen.curve, tail.since // self.interval
        rows = np.concatenate([np.full((before, len(curve.columns)), np.nan), curve.rows])
        cumulative = np.concatenate([np.full(before, np.nan), curve.cumulative])
        return Windows(curve.columns, rows, curve.interval, cumulative)

    def windows(self, name: str) -> Windows:
        """Return the windows of a contender."""
        standing = self._standing(name)
        curve = standing.curve
        return Windows(curve.columns, curve.rows, curve.interval, np.array(curve.cumulative))

    def sureness(self, name: str) -> Interval | None:
        """Return the headline metric with a 95 % interval, None if there are too few events."""
        most = 1.0 if self.headline in _SHARES else math.inf
        loss = interval(self._standing(name).losses(self.headline), LEVEL, (0.0, most))
        if loss is None or METRICS[self.headline].better < 0:
            return loss
        return Interval(1.0 - loss.mean, 1.0 - loss.high, 1.0 - loss.low, loss.level)

    @property
    def _classes(self) -> bool:
        return self.task == TASKS[0]

    def ranking(self, metric: str | None = None) -> list[str]:
        """Return the contenders that were not excluded, best first, by a metric as of :meth:`compare`."""
        active = [name for name in self.names if not self.error(name)]
        losses = {name: self._standing(name).loss(metric or self.headline) for name in active}
        return sorted(active, key=lambda name: (math.isnan(losses[name]), losses[name]))

    def second_opinion(self, names: Sequence[str]) -> Comparison | None:
        """Return the comparison by log loss that contradicts a choice by accuracy; None if none does.

        With rare classes, predicting the most frequent one is hard to beat by accuracy, which ignores
        probabilities. There is none if the metric was chosen.

        Parameters
        ----------
        names
            The choice, and the contenders that it may lose to.
        """
        if self._contest.metric or not self._classes:
            return None
        best = next(name for name in self.ranking("log_loss") if name in names)
        comparison = self.compare(best, names[0], "log_loss")
        return comparison if best != names[0] and comparison.leader == best else None

    def compare(self, first: str, second: str, metric: str | None = None) -> Comparison:
        """Return which of two contenders is better, with what confidence, and since when.

        Parameters
        ----------
        first, second
            Their names.
        metric
            The headline metric by default; others are log loss, and accuracy or MAE.

        Raises
        ------
        ValueError
            If one of them was excluded, so that they were not scored on the same events.
        """
        metric = metric or self.headline
        ours, theirs = (self._standing(name).losses(metric) for name in (first, second))
        if ours.events != theirs.events:
            raise ValueError(f"{first} and {second} were not scored on the same events")
        header, arrays = ours.state()
        with np.errstate(invalid="ignore"):
            advantages = BatchMeans.restored((header, {"sums": theirs.state()[1]["sums"] - arrays["sums"]}))
        comparison = compare(advantages, first, second, metric)
        return comparison._replace(diverged=self._diverged(first, second))

    def _diverged(self, first: str, second: str) -> str:
        """Return which of two contenders has errors out of all proportion to the other's, if one has."""
        if self._classes:
            return ""
        losses = {name: self._standing(name).loss(self.headline) for name in (first, second)}
        better, worse = sorted(losses, key=lambda name: (not math.isfinite(losses[name]), losses[name]))
        if not math.isfinite(losses[better]):
            return ""
        out = not math.isfinite(losses[worse]) or losses[worse] > DIVERGED * losses[better] > 0.0
        return worse if out else ""

    def comparisons(self) -> list[Comparison]:
        """Return the comparisons of all pairs of contenders in the ranking, those of the best first."""
        return [self.compare(a, b) for a, b in combinations(self.ranking(), 2)]

    def verdict(self) -> str:
        """Return the outcome in a sentence."""
        ranked = self.ranking()
        if not ranked:
            return "every contender failed or was dropped"
        best = ranked[0]
        if len(ranked) > 1:
            compared, other = self.compare(best, ranked[1]), self.second_opinion(ranked)
            if other is None and compared.leader is None:
                other = self.second_opinion([ranked[1], best])
            if other is not None and compared.leader is None:
                return self._by_probabilities(other)
            return compared.words() + ("" if other is None else f"; {other.words()}")
        value = self.metrics_of(best, self.headline)
        name = METRICS[self.headline].title
        return f"{best} has {name} {value:.4g} over {self.events:,} events"

    def _by_probabilities(self, comparison: Comparison) -> str:
        """Return the outcome where accuracy has no winner, and log loss has."""
        first, second, figures = comparison.first, comparison.second, []
        for metric in (METRICS["log_loss"], METRICS["auc"]):
            ours, theirs = (self.metrics_of(name, metric.name) for name in (first, second))
            if metric.better * (ours - theirs) > 0.0:
                figures.append(f"{metric.title} ({ours:.3g}, {second} {theirs:.3g})")
        return (
            f"No clear winner on accuracy; {first} has the better {' and '.join(figures)}: "
            f"{comparison.words()}; {self._choice.format('log_loss')} ranks by it"
        )

    def metrics_of(self, name: str, metric: str) -> float:
        """Return one metric of a contender, NaN if it is unknown or the contender failed."""
        standing = self._standing(name)
        return math.nan if standing.failed else float(standing.curve.whole().values().get(metric, math.nan))

    def to_dict(self) -> Json:
        """Return all results except times as values that JSON takes; they depend on the events alone."""
        return {
            "task": self.task,
            "events": self.events,
            "interval": self.interval,
            "headline": self.headline,
            "verdict": self.verdict(),
            "labels": [plain_label(label) for label in self.labels],
            "contenders": [self._of(name) for name in self.names],
            "comparisons": [_compared(comparison) for comparison in self.comparisons()],
            "by": self._contest.by or "",
            "level": self._contest.level if self._contest.bounded else None,
            "costs": self.costs(),
            "frozen": self.frozen(),
        }

    def _of(self, name: str) -> Json:
        standing = self._standing(name)
        whole, sure = standing.curve.whole(), None if standing.failed else self.sureness(name)
        record: Json = {
            "name": name,
            "failed": standing.failed,
            "error": standing.error,
            "events": standing.events,
            "metrics": {key: finite(value) for key, value in self.metrics(name).items()},
            "interval": None if sure is None else {k: finite(v) for k, v in sure._asdict().items()},
            "alarms": list(standing.alarms.events),
            "worst": self.worst(name),
        }
        if self._classes and not standing.failed:
            each = whole.each_class()
            shown = {key: each[key].tolist() for key in ("targets", "said", "precision", "recall", "f1")}
            labels = [plain_label(label) for label in self.labels[: whole.classes]]
            record["classes"] = {"labels": labels, **shown, "confusion": whole.confusion.tolist()}
            record["thresholds"] = self.thresholds(name)
            record["calibration"] = {key: array.tolist() for key, array in whole.calibration().items()}
        if standing.slices is not None and not standing.failed:
            record["slices"] = [
                {
                    "value": value,
                    "events": sums.events,
                    "metrics": {k: finite(v) for k, v in sums.values().items() if k in self._shown},
                }
                for value, sums in standing.slices.table().items()
            ]
        return record

    def measured(self) -> Json:
        """Return the measurements that differ between runs: times, and the size of models."""
        measurements = {}
        for name in self.names:
            standing, model = self._standing(name), self.models[name]
            measurements[name] = {
                "seconds": standing.seconds,
                "events_per_second": self.rate(name),
                "bytes": bytes_of(model),
                "latency_us": standing.latencies.microseconds(),
            }
        return measurements

    def to_frame(self) -> pd.DataFrame:
        """Return a pandas DataFrame with a row a contender."""
        import pandas as pd

        rows = [{**self.metrics(name), "events/s": self.rate(name)} for name in self.names]
        return pd.DataFrame(rows, index=pd.Index(self.names, name="contender"))

    def curves(self) -> pd.DataFrame:
        """Return a pandas DataFrame with a row for every window of a contender."""
        import pandas as pd

        tables = []
        for name in self.names:
            columns, rows, interval_, cumulative = self.windows(name)
            table = pd.DataFrame(rows, columns=list(columns))
            table.insert(0, "contender", name)
            table.insert(1, "events", interval_ * np.arange(1, len(rows) + 1))
            table[f"cumulative_{self.headline}"] = cumulative
            tables.append(table)
        return pd.concat(tables, ignore_index=True)

    def plot(self, metric: str | None = None) -> Figure:
        """Return a matplotlib Figure of a metric, windows over events (``pip install 'streamk[plots]'``)."""
        from streamk.figures import panels

        metric = metric or self.headline
        figure, [panel] = panels(1, 10, 3)
        for name in self.names:
            columns, rows, interval_, cumulative = self.windows(name)
            at = interval_ * np.arange(1, len(rows) + 1)
            (line,) = panel.plot(at, rows[:, columns.index(metric)], label=name)
            if metric == self.headline:
                panel.plot(at, cumulative, color=line.get_color(), ls="--", alpha=0.4)
        panel.set_xlabel("events")
        panel.set_ylabel(metric)
        panel.legend(frameon=False)
        return figure

    def __repr__(self) -> str:
        """Return the ranking by the headline metric, and why others were excluded."""
        title, ranked = METRICS[self.headline].title, self.ranking()
        lines = [f"{self.events:,} events, {self.task}"]
        for place, name in enumerate(ranked, 1):
            lines.append(f"{place}. {name}: {title} {self.metrics_of(name, self.headline):.4f}")
        lines += [f"-. {name}: {self.error(name)}" for name in self.names if name not in ranked]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return a table for a notebook."""
        metrics = {name: self.metrics(name) for name in self.names}
        rows = [
            [key, *(f"{metrics[name].get(key, math.nan):.4f}" for name in self.names)]
            for key in self._shown
            if any(key in values for values in metrics.values())
        ]
        return html_table(f"{self.events:,} events: {self.verdict()}", ["", *self.names], rows)


def _compared(comparison: Comparison) -> Json:
    advantage = comparison.advantage
    return {
        "first": comparison.first,
        "second": comparison.second,
        "measure": comparison.measure,
        "advantage": None if advantage is None else {k: finite(v) for k, v in advantage._asdict().items()},
        "p": finite(comparison.p),
        "leader": comparison.leader,
        "diverged": comparison.diverged,
        "sure_since": comparison.sure_since,
        "ahead_since": comparison.ahead_since,
        "words": comparison.words(),
    }


def finite(value: float) -> float | None:
    """Return a finite number as a float, None for others, which JSON does not have."""
    return float(value) if math.isfinite(value) else None


def plain_value(value: object) -> str | float | None:
    """Return a value as one of JSON, None for a missing one, NaN and infinity."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return plain_label(str(value).removesuffix(" 00:00:00") if isinstance(value, date) else value)


def plain_label(label: object) -> str | float:
    """Return a label as a value of JSON: unchanged if it is one, else as a string."""
    return label if isinstance(label, (str, int, float, bool)) else str(label)


def bytes_of(model: object) -> int | None:
    """Return the size of a model: that of its file, or in memory as river measures it; None if unknown."""
    while isinstance(model, Frozen):
        model = model.subject
    if isinstance(model, Refitted):
        return model.size
    if isinstance(model, LearnerAdapter):
        model = model.learner
    elif isinstance(model, ModelAdapter):
        model = getattr(model, "model", None)
    if hasattr(model, "to_bytes"):
        return len(model.to_bytes())
    return getattr(model, "_raw_memory_usage", None)
