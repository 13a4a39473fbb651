"""The metrics: a name, a title, a direction, and a formula over sums.

A formula reads running sums of classes or of numbers: those of a replay
(:class:`~streamk.evaluation.classes.ClassSums`, :class:`~streamk.evaluation.numbers.NumberSums`) or the short
ones of training (:mod:`streamk.evaluation.tallies`). To add a metric, add it to :data:`CLASSES` or
:data:`NUMBERS`: replay, its page, comparison and training take names, titles and directions from here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

TASKS = ("classification", "regression")
LEAST_PROBABILITY = 1e-15  # log loss of a class of probability 0, as river and scikit-learn bound it


class Metric(NamedTuple):
    """A metric.

    Attributes
    ----------
    name
        The key in results.
    title
        The name in tables and on pages.
    better
        1 if more is better, -1 if less is, 0 if neither.
    formula
        Of sums; None where they hold nothing that it needs.
    is_mean
        Whether it is a mean over events.
    scale
        Of differences: 100 for points of a percentage.
    """

    name: str
    title: str
    better: int
    formula: Callable[[Any], float | None]
    is_mean: bool = False
    scale: float = 1.0

    @property
    def unit(self) -> str:
        """The unit of differences: ``points of accuracy``, ``of MAE``."""
        return f"points of {self.title}" if self.scale == 100.0 else f"of {self.title}"

    def loss(self, sums: Any) -> float:
        """Return the metric as a loss, of which less is better; NaN where it has no value."""
        value = self.formula(sums)
        return math.nan if value is None else 1.0 - value if self.better > 0 else value


def _mean(values: list[float]) -> float:
    return sum(values) / max(len(values), 1)


def _balanced_accuracy(sums: Any) -> float:
    return _mean([hit / count for hit, count in zip(sums.hits, sums.of_targets, strict=True) if count])


def _macro_f1(sums: Any) -> float:
    counts = zip(sums.hits, sums.of_targets, sums.of_predictions, strict=True)
    return _mean([2 * hit / (y + p) for hit, y, p in counts if y + p])


def _kappa(sums: Any) -> float:
    """Return ``(p − c)/(1 − c)``, ``c`` being the accuracy by chance."""
    by_chance = sum(y * p for y, p in zip(sums.of_targets, sums.of_predictions, strict=True))
    left = sums.events * sums.events - by_chance
    return (sums.right * sums.events - by_chance) / left if left else 0.0


def _kappa_temporal(sums: Any) -> float:
    """Return ``(p − q)/(1 − q)``, ``q`` being the accuracy of the last label (Žliobaitė et al. 2015)."""
    return float((sums.right - sums.unchanged) / max(sums.events - sums.unchanged, 1))


CLASSES = (
    Metric("accuracy", "accuracy", 1, lambda sums: sums.right / max(sums.events, 1), True, 100.0),
    Metric("log_loss", "log loss", -1, lambda sums: sums.mean_log_loss, True),
    Metric("balanced_accuracy", "balanced accuracy", 1, _balanced_accuracy),
    Metric("kappa", "kappa", 1, _kappa),
    Metric("kappa_temporal", "temporal kappa", 1, _kappa_temporal),
    Metric("macro_f1", "macro F1", 1, _macro_f1),
    Metric("brier", "Brier score", -1, lambda sums: sums.brier),
    Metric("calibration_error", "calibration error", -1, lambda sums: sums.calibration_error),
    Metric("auc", "AUC", 1, lambda sums: sums.auc()[0]),
    Metric("cost", "mean cost", -1, lambda sums: sums.mean_cost, True),
)
NUMBERS = (
    Metric("mae", "MAE", -1, lambda sums: sums.mean_absolute, True),
    Metric("rmse", "RMSE", -1, lambda sums: math.sqrt(sums.mean_squared)),
    Metric("r2", "R²", 1, lambda sums: sums.r2),
    # Of coverage and width neither end is better: an interval should hold its level, and be narrow for that.
    Metric("coverage", "coverage", 0, lambda sums: sums.coverage),
    Metric("width", "width of intervals", 0, lambda sums: sums.width),
    Metric("pinball", "pinball loss", -1, lambda sums: sums.pinball),
)
METRICS = {metric.name: metric for metric in (*CLASSES, *NUMBERS)}
HEADLINES = dict(zip(TASKS, ("accuracy", "mae"), strict=True))
SUMMARIES = dict(zip(TASKS, ("accuracy", "r2"), strict=True))  # comparable between streams


def headline_of(task: str, chosen: str | None, level: float | None = None, costs: object = None) -> str:
    """Return the metric that ranks contenders: the chosen one, or the default of the task.

    >>> headline_of("regression", None), headline_of("classification", "auc")
    ('mae', 'auc')

    Raises
    ------
    ValueError
        If there is no such metric, it is of the other task, of intervals and there is no level, or of costs
        and there are none.
    """
    known = [metric.name for metric in (CLASSES, NUMBERS)[TASKS.index(task)] if metric.better]
    if chosen is not None and chosen not in known:
        check_metric(chosen)
        raise ValueError(f"metric {chosen!r} does not fit {task}; use {', '.join(known)}")
    if chosen == "pinball" and level is None:
        raise ValueError("metric 'pinball' is of prediction intervals; set their level, as 0.9")
    if chosen == "cost" and costs is None:
        raise ValueError("metric 'cost' is of the costs of errors; set them, as --cost fn=50,fp=1")
    return chosen or HEADLINES[task]


def check_metric(chosen: str | None) -> None:
    """Raise a ValueError if no task has this metric."""
    known = [metric.name for metric in METRICS.values() if metric.better]
    if chosen is not None and chosen not in known:
        raise ValueError(f"metric {chosen!r} is unknown; use {', '.join(known)}")


def decide(prediction: object) -> object:
    """Return the most probable label of a dict of probabilities, None if all are 0; a number as it is.

    >>> decide({"a": 0.2, "b": 0.8}), decide({"a": 0.0}), decide(1.5)
    ('b', None, 1.5)
    """
    if not isinstance(prediction, dict):
        return prediction
    label = max(prediction, key=prediction.__getitem__, default=None)
    return None if label is None or prediction[label] <= 0.0 else label


def loss_and_error(target: Any, prediction: Any) -> tuple[float, float]:
    """Return the log loss of an event and whether its label is wrong; of a number, its absolute error twice.

    >>> loss_and_error("a", {"a": 1.0}), loss_and_error(1.0, 3.0)
    ((-0.0, 0.0), (2.0, 2.0))
    """
    if not isinstance(prediction, dict):
        error = abs(float(target) - prediction)
        return error, error
    p = prediction.get(target, 0.0)
    wrong = p <= 0.5 and (p <= 0.0 or p < max(prediction.values()))
    return -math.log(max(p, LEAST_PROBABILITY)), float(wrong)
