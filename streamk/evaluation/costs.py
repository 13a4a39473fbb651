"""Costs of errors: the decision that they imply, and the mean cost of an event.

A false negative costs ``fn`` and a false positive ``fp``. For an event that is positive with probability
``p``, the decision *positive* costs ``(1 − p)·fp`` on average, and *negative* ``p·fn``. So *positive* is
cheaper if ::

    p > fp/(fp + fn)

Contenders decide by this threshold, whatever their most probable class, and are ranked by the mean cost
(Elkan 2001). Where a contender has no prediction, the event costs as much as its error.

References
----------
[^1]: Elkan, C., 2001. The foundations of cost-sensitive learning. IJCAI.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from streamk.arrays import Array, Integers
from streamk.encoding.labels import plain
from streamk.evaluation.classes import decisions
from streamk.evaluation.metric import TASKS


class Costs(NamedTuple):
    """What errors cost, in any unit.

    Attributes
    ----------
    fn
        Of a false negative: a positive event that was not detected.
    fp
        Of a false positive, a false alarm.
    positive
        The positive label; None for the rarer one of the first events.

    Examples
    --------
    >>> from streamk.evaluation import Costs
    >>> costs = Costs(fn=50, fp=1)
    >>> round(costs.threshold, 4), costs.decided("classification", ["ok", "ok", "fraud"]).positive
    (0.0196, 'fraud')
    """

    fn: float
    fp: float
    positive: object = None

    @property
    def threshold(self) -> float:
        """The probability above which the decision is *positive*."""
        return self.fp / (self.fp + self.fn)

    def decided(self, task: str, labels: Sequence[object]) -> Costs:
        """Return the costs with their positive label, as the first labels of a stream decide it.

        Raises
        ------
        ValueError
            If a cost is no finite number of at least 0, or both are 0; if the task is not classification, or
            labels are not of two classes; if none is rarer, or ``positive`` is none of them.
        """
        for name, cost in (("fn", self.fn), ("fp", self.fp)):
            if not (isinstance(cost, (int, float)) and 0.0 <= cost < math.inf):
                raise ValueError(f"the cost {name} is {cost!r}; it must be a finite number, at least 0")
        if not self.fn + self.fp:
            raise ValueError("the costs fn and fp are both 0; one of them must be above 0")
        if task != TASKS[0]:
            raise ValueError(f"costs of false negatives and positives are for two classes, not for {task}")
        counts = Counter(plain(label) for label in labels)
        if all(isinstance(label, bool) for label in counts):
            counts.update({False: 0, True: 0})
        self.check(counts)
        if self.positive is not None:
            return self._replace(positive=_among(self.positive, counts))
        (rare, least), *others = sorted(counts.items(), key=lambda pair: pair[1])
        if not others or others[0][1] == least:
            which = " and ".join(str(label) for label in counts)
            why = f"are as often {which}" if others else f"are all {which}"
            raise ValueError(f"the first {len(labels):,} labels {why}; name the positive one (--positive)")
        return self._replace(positive=rare)

    def check(self, labels: Collection[object]) -> None:
        """Raise a ValueError if there are more than two classes."""
        if len(labels) > 2:
            shown = ", ".join(str(label) for label in list(labels)[:5])
            raise ValueError(
                f"costs of false negatives and positives are for two classes; labels are {shown}"
            )

    def of(self, targets: Integers, probabilities: Array, codes: Mapping[object, int]) -> Array:
        """Return the cost of each event.

        Parameters
        ----------
        targets, probabilities
            Codes of the true classes, ``(n,)``, and a probability for each code, ``(n, K)``.
        codes
            Codes by label.

        Examples
        --------
        >>> import numpy as np
        >>> costs, targets = Costs(fn=4.0, fp=1.0, positive="b"), np.array([0, 0, 1, 1])
        >>> costs.of(targets, np.array([[0.9, 0.1], [0.7, 0.3], [0.7, 0.3], [0.9, 0.1]]), {"a": 0, "b": 1})
        array([0., 1., 0., 4.])
        """
        code = codes.get(self.positive, -1)
        positive = targets == code
        wrong = decisions(probabilities) < 0
        if code >= 0:
            wrong |= (probabilities[:, code] > self.threshold) != positive
        costs: Array = np.where(wrong, np.where(positive, self.fn, self.fp), 0.0).astype(np.float64)
        return costs


def _among(positive: object, counts: Mapping[object, int]) -> object:
    """Return the label of which ``positive`` is the name; of one that may come, in the type of others."""
    for label in counts:
        if positive == label or str(positive) in (str(label), str(label).lower() * isinstance(label, bool)):
            return label
    if len(counts) > 1:
        raise ValueError(f"the positive label {positive!r} is none of {', '.join(map(str, counts))}")
    if all(isinstance(label, int) for label in counts) and str(positive).lstrip("-").isdecimal():
        return int(str(positive))
    return positive
