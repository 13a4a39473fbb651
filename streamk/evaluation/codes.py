"""Codes 0, 1, … of labels, in the order of their first target, for the sums of classes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat

import numpy as np

from streamk.arrays import AnyArray, Array, Integers
from streamk.evaluation.adapters import Table
from streamk.evaluation.metric import decide


class Codes:
    """Codes of labels; numbers are not changed.

    Attributes
    ----------
    labels
        Codes by label.
    last
        The code of the last label that has come, -1 if none has.
    """

    def __init__(self, classes: bool) -> None:
        self._classes = classes
        self.labels: dict[object, int] = {}
        self.last = -1

    def _code(self, label: object) -> int:
        return self.labels.setdefault(label, len(self.labels))

    def of(self, targets: Sequence[object]) -> AnyArray:
        """Return targets as codes, or as an array of numbers."""
        if not self._classes:
            return np.array(targets, dtype=np.float64)
        codes = np.fromiter(map(self.labels.get, targets, repeat(-1)), np.int64, len(targets))
        if codes.min(initial=0) < 0:  # a label is new
            codes[:] = [self._code(label) for label in targets]
        return codes

    def came(self, target: object) -> None:
        """Set the last label to one that has come."""
        if self._classes:
            self.last = self._code(target)

    def of_next(self, targets: Sequence[object]) -> tuple[AnyArray, Integers | None, Integers | None]:
        """Return consecutive targets, the last label before each, and how many labels are known with each."""
        count = len(self.labels)
        codes = self.of(targets)
        if not self._classes:
            return codes, None, None
        before = np.concatenate([[self.last], codes[:-1]])
        self.last = int(codes[-1])
        return codes, before, np.maximum(np.maximum.accumulate(codes + 1), count)

    def arranged(self, predictions: Table | Array, known: Integers | None = None) -> Array:
        """Return probabilities with a column for each code.

        Only targets have codes, so the predictions of one model do not change the metrics of another. A label
        that has been no target so far has no column; where it is the most probable one, the row counts as no
        prediction, which is wrong. ``known`` is the number of labels that have been targets at each row, so
        results do not depend on chunks.
        """
        if not isinstance(predictions, Table):  # numbers, or no predicted class at all
            return np.zeros((len(predictions), len(self.labels))) if self._classes else predictions
        kept = [k for k, label in enumerate(predictions.labels) if label in self.labels]
        out = np.zeros((len(predictions.rows), len(self.labels)))
        out[:, [self.labels[predictions.labels[k]] for k in kept]] = predictions.rows[:, kept]
        others = [np.delete(predictions.rows, kept, axis=1)] if len(kept) < len(predictions.labels) else []
        if known is not None and len(known) and known[0] < len(self.labels):
            later = np.arange(len(self.labels)) >= known[:, None]
            others.append(np.where(later, out, 0.0))
            out[later] = 0.0
        if others:
            best = out.max(axis=1, initial=0.0)
            out[~(np.concatenate(others, axis=1) <= best[:, None]).all(axis=1)] = 0.0
        return out


def last_prediction(predictions: Table | Array) -> object:
    """Return the last decision, or number."""
    if not isinstance(predictions, Table):
        return float(predictions[-1])
    return decide(dict(zip(predictions.labels, predictions.rows[-1].tolist(), strict=True)))
