"""Experts without features: the last label, and the frequencies of classes.

They are the baselines of all other experts; on some streams they are hard to improve on.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator

import numpy as np

from streamk.arrays import Array
from streamk.dispatch import implements
from streamk.encoding.label_history import SHARED
from streamk.encoding.targets import MOST_WEIGHT
from streamk.experts.expert import FINAL, ITERATE, Expert, evaluate, step
from streamk.state import SUM, Field

_PRIOR = 1.0  # events added to the count of each class
_HEAVIEST = 1e9


Echoing = namedtuple("Echoing", "first classes inverse")


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
    record_type = Echoing
    is_linear = False

    def __init__(self, loss: int, classes: bool, first: int, amplitude: float) -> None:
        super().__init__(loss, columns=slice(first, first))
        self.classes, self.inverse = classes, np.float32(1.0 / amplitude)


Counting = namedtuple("Counting", "counts")


class Prior(Expert):
    """The frequencies of classes: ``log((n_k + 1)/(n + 1))``, whatever the number of classes."""

    rule = "prior"
    record_type = Counting
    is_linear = False

    def __init__(self, loss: int) -> None:
        super().__init__(loss, columns=slice(0, 0))
        self.counts: Array = np.zeros(1)

    def fields(self) -> Iterator[Field]:
        """Yield the counts, which add up in a merge."""
        yield Field("counts", "counts of classes", 0.0, MOST_WEIGHT, merge=SUM, by_output=True)


@implements(evaluate, Echoing)
def _echo(expert, e, phi, i, outputs):
    for k in range(outputs.shape[2]):
        said = phi[i, expert.first + k % SHARED] * expert.inverse
        if expert.classes:
            said = np.float32(2.0) * said - np.float32(1.0)
        outputs[e, ITERATE, k] = outputs[e, FINAL, k] = said


@implements(evaluate, Counting)
def _frequency(expert, e, phi, i, outputs):
    total = _PRIOR
    for k in range(outputs.shape[2]):
        total += expert.counts[k]
    for k in range(outputs.shape[2]):
        said = np.float32(np.log((expert.counts[k] + _PRIOR) / total))
        outputs[e, ITERATE, k] = outputs[e, FINAL, k] = said


@implements(step, Echoing)
def _keep(expert, e, observation):
    pass


@implements(step, Counting)
def _count(expert, e, observation):
    expert.counts[int(observation.aim)] += min(observation.weight, _HEAVIEST)
