"""Experts without features: the last label, and the frequencies of classes.

They are the baselines of all other experts; on some streams they are hard to improve on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Self

import numpy as np
from numba.extending import overload

from streamk.arrays import Array, padded
from streamk.compiling import INNER
from streamk.encoding.label_history import SHARED
from streamk.encoding.targets import MOST_WEIGHT
from streamk.experts.expert import FINAL, ITERATE, Columns, Counts, Expert, Field, Shares, evaluate, step

_PRIOR = 1.0  # events added to the count of each class
_HEAVIEST = 1e9


class Echoing(NamedTuple):
    """The expert as compiled code sees it; see :class:`LastLabel`."""

    first: int
    classes: bool
    inverse: np.float32


class LastLabel(Expert):
    """The label that came last: +1 for a class and −1 for the others, or the standardised number.

    Parameters
    ----------
    loss
        A code of :mod:`streamk.losses`.
    classes
        Whether labels are classes.
    first, amplitude
        The first column of the memory of labels (:mod:`streamk.encoding.label_history`), and what a 1 is
        there.
    """

    rule = "last label"
    is_linear = False

    def __init__(self, loss: int, classes: bool, first: int, amplitude: float) -> None:
        super().__init__(loss, columns=slice(first, first))
        self.classes, self.amplitude = classes, amplitude

    @property
    def record(self) -> Echoing:
        """The expert as compiled code sees it."""
        return Echoing(self.first, self.classes, np.float32(1.0 / self.amplitude))


class Counting(NamedTuple):
    """The expert as compiled code sees it; see :class:`Prior`."""

    counts: Array


class Prior(Expert):
    """The frequencies of classes: ``log((n_k + 1)/(n + 1))``, whatever the number of classes."""

    rule = "prior"
    is_linear = False

    def __init__(self, loss: int) -> None:
        super().__init__(loss, columns=slice(0, 0))
        self.counts: Array = np.zeros(1)

    @property
    def record(self) -> Counting:
        """The expert as compiled code sees it."""
        return Counting(self.counts)

    def grow(self, outputs: int, features: int, width: int) -> None:
        """Resize the counts to the number of classes."""
        super().grow(outputs, features, width)
        self.counts = padded(self.counts, (outputs,))

    def merge_from(
        self, experts: Sequence[Self], shares: Shares, columns: Columns, counts: Counts = None
    ) -> None:
        """Become the merge: counts add up."""
        times = counts or [1.0] * len(experts)
        for expert, count, (rows, _) in zip(experts, times, columns, strict=True):
            self.counts[rows] += count * expert.counts[: len(rows)]

    def fields(self) -> Iterator[Field]:
        """Yield the counts."""
        yield Field("counts", "counts of classes are", 0.0, MOST_WEIGHT)


@overload(evaluate, jit_options=INNER)
def _evaluate(expert, phi, i, outputs, e):
    if expert.instance_class is Echoing:

        def echo(expert, phi, i, outputs, e):
            for k in range(outputs.shape[2]):
                said = phi[i, expert.first + k % SHARED] * expert.inverse
                if expert.classes:
                    said = np.float32(2.0) * said - np.float32(1.0)
                outputs[e, ITERATE, k] = outputs[e, FINAL, k] = said

        return echo
    if expert.instance_class is Counting:

        def frequency(expert, phi, i, outputs, e):
            total = _PRIOR
            for k in range(outputs.shape[2]):
                total += expert.counts[k]
            for k in range(outputs.shape[2]):
                said = np.float32(np.log((expert.counts[k] + _PRIOR) / total))
                outputs[e, ITERATE, k] = outputs[e, FINAL, k] = said

        return frequency
    return None


@overload(step, jit_options=INNER)
def _step(expert, phi, i, outputs, e, aim, known, weight, residual):
    if expert.instance_class is Echoing:
        return lambda expert, phi, i, outputs, e, aim, known, weight, residual: None
    if expert.instance_class is Counting:

        def count(expert, phi, i, outputs, e, aim, known, weight, residual):
            expert.counts[int(aim)] += min(weight, _HEAVIEST)

        return count
    return None
