"""Precision and recall of two classes over the threshold of a probability.

An event is called positive if its probability is above the threshold. Both follow from the histograms of
scores that AUC is computed from (:mod:`streamk.evaluation.classes`), so thresholds are rounded to their
cells: 0.0005 at ½, and less near 0 and 1. Events without a prediction are not called positive.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamk.arrays import Array, Integers, Json
from streamk.evaluation.classes import CELLS, ClassSums, score_cell
from streamk.evaluation.costs import Costs

LISTED = 0.1, 0.25, 0.5, 0.75, 0.9
_POINTS = 61  # of a curve, even in the logarithm of the odds
_FARTHEST = 6.9  # 0.001 and 0.999
_BEST_F1, _LEAST_COST, _IMPLIED = "best F1", "least cost", "implied by costs"


class Called(NamedTuple):
    """How many events are called positive at a threshold: positive ones, and all; of so many."""

    hits: int
    called: int
    positives: int
    events: int

    def values(self) -> dict[str, float | None]:
        """Return precision, recall and the share called, None without a called or a positive event."""
        return {
            "precision": self.hits / self.called if self.called else None,
            "recall": self.hits / self.positives if self.positives else None,
            "called": self.called / max(self.events, 1),
        }


def thresholds_of(sums: ClassSums, positive: int, costs: Costs | None = None) -> Json | None:
    """Return precision, recall and the share of events called positive, over thresholds; None without scores.

    Parameters
    ----------
    sums
        Of two classes.
    positive
        The code of the positive class.
    costs
        Of errors, by which the threshold of the least cost on these events is listed, too.

    Returns
    -------
    dict
        ``curve``, lists ``threshold``, ``precision``, ``recall`` and ``called``; ``table``, a dict for each
        of a few thresholds, with a ``name`` where it is not one of :data:`LISTED`.

    Examples
    --------
    >>> sums = ClassSums()
    >>> scores, targets = np.array([0.05, 0.3, 0.6, 0.8]), np.array([0, 1, 0, 1])
    >>> sums.add(targets, np.stack([1.0 - scores, scores], axis=1), targets)
    >>> table = thresholds_of(sums, 1)["table"]
    >>> [(round(row["threshold"], 2), row["precision"], row["recall"]) for row in table if "name" not in row]
    [(0.1, 0.6666666666666666, 1.0), (0.25, 0.6666666666666666, 1.0), (0.5, 0.5, 0.5), (0.75, 1.0, 0.5),
     (0.9, None, 0.0)]
    """
    histograms = sums.scores(positive)
    if histograms is None or sums.classes != 2:
        return None
    above, hits = (np.append(np.cumsum(each[::-1])[::-1], 0) for each in histograms)
    positives = sums.of_targets[positive]

    def at(first: int) -> Called:
        return Called(int(hits[first]), int(hits[first] + above[first]), positives, sums.events)

    table: list[Json] = [{"threshold": t, **at(int(score_cell(t)) + 1).values()} for t in LISTED]
    lowest = np.append(_lowest(), 1.0)
    best = int(np.argmax(2.0 * hits / np.maximum(hits + above + positives, 1)))
    table.append({"name": _BEST_F1, "threshold": float(lowest[best]), **at(best).values()})
    if costs is not None:
        least = int(np.argmin(costs.fn * (positives - hits) + costs.fp * above))
        table.append({"name": _LEAST_COST, "threshold": float(lowest[least]), **at(least).values()})
        implied = costs.threshold
        table.append({"name": _IMPLIED, "threshold": implied, **at(int(score_cell(implied)) + 1).values()})
    odds = np.linspace(-_FARTHEST, _FARTHEST, _POINTS)
    grid = [float(f"{t:.4g}") for t in (1.0 / (1.0 + np.exp(-odds))).tolist()]
    points = [at(int(score_cell(t)) + 1).values() for t in grid]
    curve = {name: [point[name] for point in points] for name in ("precision", "recall", "called")}
    return {"curve": {"threshold": grid, **curve}, "table": sorted(table, key=lambda row: row["threshold"])}


def rarer(counts: Integers | list[int]) -> int:
    """Return the code of the class that fewer events have, the second one if both have as many."""
    return 1 if counts[1] <= counts[0] else 0


def _lowest() -> Array:
    """Return the lower end of the scores of every cell.

    >>> [int(score_cell(low + 1e-12)) for low in _lowest()[[100, 4000, 5000, 8000]]]
    [100, 4000, 5000, 8000]
    """
    half = CELLS // 2
    ends = 0.5 * (np.arange(half + 1) / half) ** 4.0
    return np.concatenate([ends[:-1], 1.0 - ends[:0:-1]])
