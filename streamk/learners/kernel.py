"""Learners with nothing to tune: many experts on one map of random features, weighed by a stacked combiner.

The right gain, scale, loss, memory and order of a learner differ between streams by factors of a hundred, and
features cost more than experts. So one map feeds them all:

* projections (Kaczmarz) with gains of 1, 0.3 and 0.1 on all features, and one on each half, the coarse and
  the fine; on the features with the memory of labels; on everything; and on the inputs alone;
* one whose gain falls as events come (squared loss);
* recursive least squares on inputs, memory of labels and 256 features, which forgets nothing, and on inputs
  and memory alone, which forgets with a factor of 0.998;
* the label that came last, and how often each class came.

On some stream each of them is the best; what they say is weighed by :mod:`streamk.combining.stacking`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamk.combining.stacking import Stacking
from streamk.encoding.codec import EVENTS
from streamk.encoding.labels import plain
from streamk.experts.expert import Expert
from streamk.experts.least_squares import LeastSquares
from streamk.experts.projection import Projection
from streamk.experts.simple import LastLabel, Prior
from streamk.features.plain import LINEAR, PLAIN
from streamk.features.sections import COARSE, FINE, UNIT, Sections
from streamk.learners.base import KernelLearner
from streamk.learners.classifier import Classifier
from streamk.learners.regressor import Regressor
from streamk.losses import CODES
from streamk.parameters import check_mixture
from streamk.schedules import DOUBLING, Growth

_RIDGE = 1e-3
_FIRST = 1000  # events before relevance is used


@dataclass(eq=False, repr=False)
class _Kernel(KernelLearner):
    features: int = 1536
    label_memory: bool = True
    relevance: bool = True
    delay: int = 0
    seed: int | None = None
    kernel = ("laplacian", "gaussian")
    bandwidth = None
    scales = (*COARSE, *FINE)
    directions, average, scale_inputs = "keyed", False, True

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            setattr(self, name, plain(getattr(self, name)))
        check_mixture(self._get_params(), UNIT * len(self.kernel))
        experts = self._make_experts(Sections(self.features, False))
        self._begin(
            experts,
            Growth(DOUBLING if self.relevance else "fixed", _FIRST, self.features, self.features),
            combiner=Stacking(len(experts), self._classifies),
            delay=self.delay if self.label_memory else None,
        )

    def _make_sections(self) -> Sections:
        return Sections(self.features, self.relevance)

    def _open_due(self) -> None:
        """Begin the block anew whose turn it is, under the relevance that was found."""
        growth = self._growth
        if self._map is None or not growth.due(self._codec.counts[EVENTS]):
            return
        begun = growth.openings > 0
        growth.open(self.events)
        if begun and self._map.sections is not None:
            losses = [self._combiner.losses[k] for k in self._solving]
            columns = self._map.sections.renew(growth.openings, int(np.argmin(losses)))
            self._map.renew()
            for expert in self._experts:
                expert.forget(columns)
        self._arguments = None

    def _make_experts(self, sections: Sections) -> Sequence[Expert]:
        kind = "class" if self._classifies else "number"
        squared = CODES[kind, "squared"]
        loss = CODES["class", "margin"] if self._classifies else squared
        whole, amplitude = sections.columns_of_part(0), sections.amplitude
        middle = PLAIN + (whole.stop - PLAIN) // 2
        coarse, fine, both = slice(PLAIN, middle), slice(middle, whole.stop), slice(PLAIN, whole.stop)

        def project(columns: slice, gain: float) -> Expert:
            return Projection(loss, False, 0.0, 0, columns, gain)

        def solve(columns: slice, forgetting: float) -> Expert:
            return LeastSquares(squared, _RIDGE * amplitude**2, forgetting, columns, amplitude)

        experts: list[Expert] = [
            *(project(both, gain) for gain in (1.0, 0.3, 0.1)),
            project(coarse, 0.3),
            project(fine, 0.3),
            project(whole, 0.1),
            project(slice(0, LINEAR), 0.1),
            Projection(squared, False, 0.3, None, both),
        ]
        if self.label_memory:
            experts.append(project(slice(LINEAR, whole.stop), 0.3))
        experts += [solve(slice(0, PLAIN), 1.0), solve(slice(0, PLAIN), 0.998)]
        self._solving = len(experts), len(experts) + 1
        experts += [solve(sections.columns_of_part(part), 1.0) for part in (1, 2)]
        if self.label_memory:
            experts.append(LastLabel(loss, self._classifies, LINEAR, amplitude))
        return [*experts, Prior(loss)] if self._classifies else experts


@dataclass(eq=False, repr=False)
class KernelClassifier(_Kernel, Classifier):
    """Kernel classifier with nothing to tune: a mixture of a dozen learners on one feature map.

    Parameters
    ----------
    features
        Number of random features, a multiple of 768: a budget of time and memory.
    label_memory
        Whether labels that have arrived are inputs of the events after them: the last one, and how often each
        came of late (:mod:`streamk.encoding.recall`). Neighbours often resemble each other; where they do
        not, it does no harm.
    relevance
        Whether features follow what the inputs are found to be worth (:mod:`streamk.features.relevance`).
    delay
        How many events late labels arrive. An event is then learned with the labels that were known when it
        was to be predicted.
    seed
        The only source of randomness. None draws a new one at the first event.

    Attributes
    ----------
    labels : list
        Classes known so far.
    events : int
        Events learned so far.

    Notes
    -----
    Probabilities are calibrated: they are what the weights of the experts are learned for.
    A learner is not for use by several threads at once.

    References
    ----------
    [^1]: Andrecut, M., 2016. Randomized kernel methods for least-squares support vector machines.
    [^2]: Herbster, M. and Warmuth, M., 1998. Tracking the best expert. Machine Learning 32.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> import streamk
    >>> learner = streamk.KernelClassifier(seed=7)
    >>> evaluate.progressive_val_score(datasets.Bananas(), learner, metrics.Accuracy())
    Accuracy: 89.05%
    """

    @classmethod
    def _unit_test_params(cls) -> Any:
        yield {"features": 768, "seed": 7}
        yield {"features": 768, "label_memory": False, "relevance": False, "seed": 7}


@dataclass(eq=False, repr=False)
class KernelRegressor(_Kernel, Regressor):
    """Kernel regressor with nothing to tune: a mixture of a dozen learners on one feature map.

    The target is standardised by the events before, clipped to ±6 deviations, and predictions are given
    back in its own units; a target without precedent is not learned.

    Parameters
    ----------
    features, relevance, delay, seed
        As for :class:`KernelClassifier`.
    label_memory
        Whether targets that have arrived are inputs of the events after them: the last, the one before, and
        two running means (:mod:`streamk.encoding.recall`).

    Attributes
    ----------
    events : int
        Events learned so far.

    References
    ----------
    [^1]: Andrecut, M., 2016. Randomized kernel methods for least-squares support vector machines.
    [^2]: Herbster, M. and Warmuth, M., 1998. Tracking the best expert. Machine Learning 32.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> import streamk
    >>> learner = streamk.KernelRegressor(seed=7)
    >>> evaluate.progressive_val_score(datasets.TrumpApproval(), learner, metrics.MAE())
    MAE: 0.193952
    """

    @classmethod
    def _unit_test_params(cls) -> Any:
        yield {"features": 768, "seed": 7}
        yield {"features": 768, "label_memory": False, "relevance": False, "seed": 7}
