"""The sums that metrics of classes are made of: they add up over chunks, windows and slices, exactly.

AUC takes bounded memory: how often each score was predicted, on a fixed grid that is finer near 0 and 1. The
area under the ROC curve is the chance that an event of a class has a higher score than one of another, ties
counted half::

    AUC = Σ_c positives[c] · (Σ_{b<c} negatives[b] + negatives[c]/2) / (Σ positives · Σ negatives)

over the cells ``c`` of the grid, which is exact for scores rounded to their cells. Cells are even in the
fourth root of the distance from the nearer end: 0.0005 wide at ½, 0.0003 at 0.3, 2.6 % of the distance at
10⁻⁶, so that the scores of an overconfident classifier fall into different cells, too. Square roots are
rounded the same by every machine; logarithms are not.

Pairs in one cell count half, whichever was higher, so the error is at most
``½ Σ_c positives[c] · negatives[c]`` pairs (:func:`area` returns it). They are right as often as wrong unless
the density changes within a cell: measured errors on continuous scores are below 2·10⁻⁴, and mostly 10⁻⁵.
"""

# mypy: disable-error-code="no-untyped-call, misc"
from __future__ import annotations

from typing import Self

import numpy as np
from numba import njit

from streamk.arrays import Array, Arrays, Integers, Json, SavedState
from streamk.compiling import ENTRY, both
from streamk.evaluation.exact import ExactSum, Sums, check_one_length
from streamk.evaluation.metric import CLASSES, LEAST_PROBABILITY

BINS = 15  # of the top probability, for calibration
FINE = 2**30  # steps of a probability summed for calibration: 8 · 10⁹ events fit
_EDGES = np.linspace(0.0, 1.0, BINS + 1)[1:-1]
CELLS = 8192
_HALF = CELLS // 2
_SCALE = _HALF / 0.5**0.25
MOST_RANKED = 20  # classes; with more, histograms of scores take too much memory and AUC is NaN


def decisions(probabilities: Array) -> Integers:
    """Return the first of the most probable classes of each row, -1 where there is no prediction.

    Examples
    --------
    >>> import numpy as np
    >>> decisions(np.array([[0.2, 0.4, 0.4], [0.0, 0.0, 0.0], [np.nan, 1.0, 0.0]]))
    array([ 1, -1, -1])
    """
    predicted: Integers = np.empty(len(probabilities), np.int64)
    decide_rows(np.ascontiguousarray(probabilities, np.float64), predicted)
    return predicted


@njit(**ENTRY, nogil=True)
def decide_rows(probabilities, predicted):
    """Fill in the first of the most probable classes of each row, -1 where there is no prediction.

    Return how many rows have one, and how many classes these give a probability that is not 0: one more than
    the last of them.
    """
    made, used = 0, 0
    for row in range(probabilities.shape[0]):
        top, best, last = 0.0, -1, 0
        for k in range(probabilities.shape[1]):
            p = probabilities[row, k]
            if not p < np.inf:
                best = -1
                break
            if p > top:
                top, best = p, k
            if p != 0.0:
                last = k + 1
        predicted[row] = best
        if best >= 0:
            made += 1
            used = max(used, last)
    return made, used


def log_losses(targets: Integers, probabilities: Array, predicted: Integers) -> Array:
    """Return the log loss of each event, 0 where there is no prediction.

    Examples
    --------
    >>> import numpy as np
    >>> log_losses(np.array([0, 1, 0]), np.array([[1.0], [1.0], [0.0]]), np.array([0, 0, -1])).round(1)
    array([ 0. , 34.5,  0. ])
    """
    likelihoods = np.where(predicted < 0, 1.0, LEAST_PROBABILITY)
    rows = np.flatnonzero((predicted >= 0) & (targets < probabilities.shape[1]))
    likelihoods[rows] = np.maximum(probabilities[rows, targets[rows]], LEAST_PROBABILITY)
    return 0.0 - np.log(likelihoods)


@njit(**ENTRY, nogil=True)
def count(targets, probabilities, predicted, counts, bins, likelihoods, squares):
    """Count events with a prediction; fill in the probabilities of their targets, and squared errors.

    Parameters
    ----------
    targets, probabilities, predicted
        ``(n,)``, ``(n, K)`` and ``(n,)``.
    counts, bins
        ``(C, 1 + C)`` with ``C`` not below ``K`` and any target, and ``(3, bins)``; added to.
    likelihoods, squares
        ``(m,)`` and ``(m, C)`` of the rows with a prediction, the first within bounds; filled in.
    """
    at, classes = 0, counts.shape[0]
    for row in range(len(targets)):
        target, answer = targets[row], predicted[row]
        counts[target, answer + 1] += 1
        if answer < 0:
            continue
        width = min(probabilities.shape[1], classes)
        for k in range(classes):
            p = probabilities[row, k] if k < width else 0.0
            error = p - 1.0 if k == target else p
            squares[at, k] = error * error
        p = probabilities[row, target] if target < width else 0.0
        likelihoods[at] = min(max(p, LEAST_PROBABILITY), 1.0 - LEAST_PROBABILITY)
        top = min(probabilities[row, answer], 1.0)
        place = np.searchsorted(_EDGES, top)
        bins[0, place] += 1
        bins[1, place] += answer == target
        bins[2, place] += np.int64(np.rint(top * FINE))
        at += 1


@both()
def score_cell(score):
    """Return the cell of a score from 0 to 1; a higher score is never in a lower cell.

    Examples
    --------
    >>> [score_cell(score) for score in (0.0, 1e-9, 1e-6, 0.3, 0.5, 0.7, 1.0)]
    [0, 27, 154, 3604, 4095, 4587, 8191]
    """
    near = min(max(min(score, 1.0 - score), 0.0), 0.5)
    cell = np.int64(min(np.sqrt(np.sqrt(near)) * _SCALE, _HALF - 1.0))
    return CELLS - 1 - cell if score > 0.5 else cell


@njit(**ENTRY, nogil=True)
def count_cells(targets, probabilities, predicted, ranks):
    """Count which cells are hit, ``(C, 2, cells)``: for each class by others' events and by its events."""
    for row in range(len(targets)):
        if predicted[row] < 0:
            continue
        for k in range(ranks.shape[0]):
            p = probabilities[row, k] if k < probabilities.shape[1] else 0.0
            ranks[k, 1 if k == targets[row] else 0, score_cell(p)] += 1


def area(positives: Integers, negatives: Integers) -> tuple[float, float]:
    """Return the AUC of how often cells were hit by the class and by others, and its largest error.

    Both are NaN if either was never seen.

    Examples
    --------
    >>> import numpy as np
    >>> area(np.array([0, 1, 1]), np.array([2, 0, 1]))
    (0.75, 0.08333333333333333)
    """
    *totals, doubled, ties = _pairs(positives, negatives)
    every = totals[0] * totals[1]  # of Python's integers
    if not every:
        return np.nan, np.nan
    return doubled / (2 * every), ties / (2 * every)


@njit(**ENTRY, nogil=True)
def _pairs(positives, negatives):
    """Return both totals, twice the pairs whose first is higher, ties counted half, and the ties."""
    total, below, doubled, ties = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    for cell in range(len(positives)):
        doubled += positives[cell] * (2 * below + negatives[cell])
        ties += positives[cell] * negatives[cell]
        total += positives[cell]
        below += negatives[cell]
    return total, below, doubled, ties


class ClassSums(Sums):
    """Running sums of predicted classes, and the metrics that follow from them.

    Classes are codes 0, 1, …; a class counts from the first event that has it as target or gives it a
    probability above 0. The decision is the first of the most probable classes. A row without a probability
    above 0, or with one that is no finite number, is *no prediction*: it counts as wrong, and is not part of
    log loss, Brier score, calibration and AUC. AUC of several classes is the mean of each against all others.

    Parameters
    ----------
    classes
        How many there are at the start.
    ranked
        Whether to store the histograms that AUC is computed from: 128 KiB a class.

    Examples
    --------
    >>> import numpy as np
    >>> sums = ClassSums()
    >>> targets, last = np.array([0, 0, 1, 1]), np.array([-1, 0, 0, 1])
    >>> sums.add(targets, np.array([[0.0, 0.0], [0.8, 0.2], [0.6, 0.4], [0.3, 0.7]]), last)
    >>> {name: round(value, 4) for name, value in sums.values().items()}
    {'accuracy': 0.5, 'log_loss': 0.4987, 'balanced_accuracy': 0.5, 'kappa': 0.2, 'kappa_temporal': 0.0,
     'macro_f1': 0.5833, 'brier': 0.1633, 'calibration_error': 0.3667, 'auc': 1.0}
    """

    METRICS = CLASSES

    def __init__(self, classes: int = 0, ranked: bool = True) -> None:
        self.events = 0
        self.ranked = ranked
        self.unchanged = 0  # events whose label is the last one that had arrived
        self._counts: Integers = np.zeros(
            (0, 1), np.int64
        )  # by true class, and no prediction or predicted class
        self._log_loss, self._squares = ExactSum(), ExactSum()
        self._costs, self._costed = ExactSum(), 0  # and how many events have a cost
        self._bins: Integers = np.zeros((3, BINS), np.int64)  # events, right, Σ top probability
        self._ranks: Integers = np.zeros((0, 2, CELLS), np.int64)  # class, whether it was the target
        self._grow(classes)

    @property
    def classes(self) -> int:
        """How many classes there are."""
        return len(self._counts)

    @property
    def right(self) -> int:
        """How many events were right."""
        return int(np.trace(self.confusion))

    @property
    def answered(self) -> int:
        """How many events had a prediction."""
        return int(self._bins[0].sum())

    @property
    def confusion(self) -> Integers:
        """How often a true class (row) was predicted as a class (column); no prediction is in no column."""
        return self._counts[:, 1:]

    def fresh(self) -> Self:
        """Return empty sums of the same classes."""
        return type(self)(self.classes, self.ranked)

    def clear(self) -> None:
        """Remove all events; classes stay."""
        self.events = self.unchanged = 0
        self._log_loss, self._squares = ExactSum(), ExactSum()
        self._costs, self._costed = ExactSum(), 0
        for counts in (self._counts, self._bins, self._ranks):
            counts[...] = 0

    def add(
        self, targets: Integers, probabilities: Array, last: Integers, costs: Array | None = None
    ) -> None:
        """Add events.

        Parameters
        ----------
        targets
            Codes of the true classes, ``(n,)``.
        probabilities
            Of each class, ``(n, K)``; ``K`` may be 0 and may differ from call to call.
        last
            Code of the last label that had arrived at each event, -1 if none had.
        costs
            What each decision cost, ``(n,)``; None if errors have no costs.

        Raises
        ------
        ValueError
            If lengths differ or a code is negative.
        """
        targets, last = np.asarray(targets, np.int64), np.asarray(last, np.int64)
        probabilities = np.ascontiguousarray(probabilities, np.float64)
        if not check_one_length((targets, probabilities, last, *([] if costs is None else [costs]))):
            return
        if targets.min() < 0:
            raise ValueError(f"target {targets.min()} is no code of a class")
        predicted: Integers = np.empty(len(targets), np.int64)
        made, used = decide_rows(probabilities, predicted)  # later columns are classes without any event yet
        self._grow(max(1 + int(targets.max()), used))
        self.events += len(targets)
        self.unchanged += int(np.count_nonzero(targets == last))
        likelihoods, squares = np.empty(made), np.empty((made, self.classes))
        count(targets, probabilities, predicted, self._counts, self._bins, likelihoods, squares)
        self._log_loss.add(-np.log(likelihoods))
        self._squares.add(squares.reshape(-1))
        if costs is not None:
            self._costs.add(costs)
            self._costed += len(costs)
        if self._ranks.size:
            count_cells(targets, probabilities, predicted, self._ranks)

    def _grow(self, classes: int) -> None:
        before = self.classes
        if classes <= before:
            return
        counts = np.zeros((classes, 1 + classes), np.int64)
        counts[:before, : 1 + before] = self._counts
        self._counts = counts
        if self.ranked and classes <= MOST_RANKED:
            ranks = np.zeros((classes, 2, CELLS), np.int64)
            ranks[:before] = self._ranks
            ranks[before:, 0, 0] = self.answered  # their probability was 0 until now
            self._ranks = ranks
        else:
            self._ranks = np.zeros((0, 2, CELLS), np.int64)

    def merge(self, other: Self) -> None:
        """Add the events of other sums, which do not change.

        Raises
        ------
        ValueError
            If only one of both has the histograms of AUC.
        """
        if self.ranked != other.ranked:
            raise ValueError("sums with and without AUC do not add up")
        self._grow(other.classes)
        if other.classes < self.classes:
            other = other.copy()
            other._grow(self.classes)
        self.events += other.events
        self.unchanged += other.unchanged
        self._counts += other._counts
        self._bins += other._bins
        self._ranks += other._ranks
        self._log_loss += other._log_loss
        self._squares += other._squares
        self._costs += other._costs
        self._costed += other._costed

    @property
    def hits(self) -> list[int]:
        """Right predictions of each class."""
        return list(self.confusion.diagonal().tolist())

    @property
    def of_targets(self) -> list[int]:
        """Events of each class."""
        return list(self._counts.sum(axis=1).tolist())

    @property
    def of_predictions(self) -> list[int]:
        """Predictions of each class."""
        return list(self.confusion.sum(axis=0).tolist())

    @property
    def mean_log_loss(self) -> float:
        """The mean log loss of predictions, in nats."""
        return self._log_loss.over(self.answered)

    @property
    def mean_cost(self) -> float | None:
        """The mean cost of an event, None without costs."""
        return self._costs.over(self._costed) if self._costed else None

    @property
    def brier(self) -> float:
        """The mean squared error of probabilities, summed over classes and halved if there are two."""
        return self._squares.over(self.answered) / (2.0 if self.classes <= 2 else 1.0)

    def each_class(self) -> Json:
        """Return counts and rates by class.

        Returns
        -------
        dict
            Arrays over classes: the numbers of ``targets`` and, under ``said``, of predictions;
            ``precision``, ``recall`` and ``f1``, 0 where the denominator is 0.
        """
        right = np.diagonal(self.confusion)
        targets, predicted = self._counts.sum(axis=1), self.confusion.sum(axis=0)
        return {
            "targets": targets,
            "said": predicted,
            "precision": right / np.maximum(predicted, 1),
            "recall": right / np.maximum(targets, 1),
            "f1": 2 * right / np.maximum(targets + predicted, 1),
        }

    def calibration(self) -> Json:
        """Return arrays over bins of the top probability: ``events``, ``confidence`` and ``accuracy``.

        Bins are even from 0 to 1, each with its upper edge; confidence and accuracy of an empty one are 0.
        """
        events, right, top = self._bins
        count = np.maximum(events, 1)
        return {"events": events.copy(), "confidence": top / (FINE * count), "accuracy": right / count}

    @property
    def calibration_error(self) -> float:
        """``Σ_b n_b/n · |accuracy_b − confidence_b|`` over bins (Naeini, Cooper and Hauskrecht 2015)."""
        _, right, top = self._bins
        return float(np.abs(right - top / FINE).sum()) / max(self.answered, 1)

    def auc(self) -> tuple[float, float]:
        """Return the AUC, and how wrong the grid of scores can have made it at most."""
        chosen = self._ranks[1:] if self.classes == 2 else self._ranks
        areas = [area(positives, negatives) for negatives, positives in chosen]
        known = [pair for pair in areas if pair[0] == pair[0]]
        if not known:
            return np.nan, np.nan
        return sum(pair[0] for pair in known) / len(known), sum(pair[1] for pair in known) / len(known)

    def scores(self, code: int) -> Integers | None:
        """Return how often others' events and a class's had its score in each cell; None unless ranked."""
        return self._ranks[code] if self._ranks.size else None

    def state(self) -> SavedState:
        """Return everything, as :meth:`restored` takes it."""
        header: Json = {
            "events": self.events,
            "ranked": self.ranked,
            "unchanged": self.unchanged,
            "log_loss": self._log_loss.text(),
            "squares": self._squares.text(),
            "costs": self._costs.text(),
            "costed": self._costed,
        }
        ranks = self._ranks.reshape(-1)
        hit = np.flatnonzero(ranks)  # most cells never are
        arrays: Arrays = {
            "counts": self._counts.copy(),
            "bins": self._bins.copy(),
            "cells": hit,
            "hits": ranks[hit],
        }
        return header, arrays

    @classmethod
    def restored(cls, state: SavedState) -> Self:
        """Return the sums that a state is of."""
        header, arrays = state
        sums = cls(len(arrays["counts"]), header["ranked"])
        sums.events, sums.unchanged = header["events"], header["unchanged"]
        sums._log_loss, sums._squares = ExactSum.read(header["log_loss"]), ExactSum.read(header["squares"])
        sums._costs, sums._costed = ExactSum.read(header["costs"]), header["costed"]
        sums._counts, sums._bins = arrays["counts"].copy(), arrays["bins"].copy()
        sums._ranks.reshape(-1)[arrays["cells"]] = arrays["hits"]
        return sums
