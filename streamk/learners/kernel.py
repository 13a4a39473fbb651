"""Learners with nothing to tune: many experts on one map of random features, weighed by a stacked combiner.

The right gain, scale, loss, memory and order of a learner differ between streams by factors of a hundred, and
features cost more than experts. So one map feeds them all:

* projections (Kaczmarz) with gains from 0.1 to 1 on coarse features, on fine ones and on both; on features
  with the memory of labels; and on inputs alone. Numbers are followed on everything, too; classes are asked
  for by their margin, on features under learned relevance too, and once by the squared loss;
* one whose gain falls as events come (squared loss);
* recursive least squares on inputs and memory of labels, once forgetting nothing and once with a factor of
  0.998; and on each of two blocks of features under learned relevance, with inputs and memory beside them;
* the label that came last, and how often each class came.

On some stream each of them is the best; what they say is weighed by :mod:`streamk.combining.stacking`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from streamk.combining.stacking import Stacking
from streamk.encoding.codec import EVENTS
from streamk.experts.expert import Expert
from streamk.experts.least_squares import LeastSquares
from streamk.experts.projection import Projection
from streamk.experts.simple import LastLabel, Prior
from streamk.features.plain import LINEAR, PLAIN
from streamk.features.sections import COARSE, UNIT, Sections
from streamk.learners.base import KernelLearner
from streamk.learners.classifier import Classifier
from streamk.learners.regressor import Regressor
from streamk.losses import CODES
from streamk.parameters import check_mixture
from streamk.schedules import DOUBLING, Growth

_RIDGE = 1e-3
_RELEVANT = "first block under relevance", "second block under relevance"
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
    scales = COARSE  # of the first section
    directions, average, scale_inputs = "keyed", False, True

    def __post_init__(self) -> None:
        self._make_plain()
        check_mixture(self._get_params(), UNIT * len(self.kernel))
        named = self._make_experts(Sections(self.features, False))
        self._names, experts = list(named), list(named.values())
        self._begin(
            experts,
            Growth(DOUBLING if self.relevance else "fixed", _FIRST, self.features, self.features),
            combiner=Stacking(len(experts), self._classifies),
            delay=self.delay if self.label_memory else None,
        )

    def summary(self) -> dict[str, Any]:
        """Return what the learner knows of itself, as values that JSON takes.

        ``events``; ``features``; ``bytes`` of the model file; ``experts``, each with its name, the weight of
        its outputs, and its mean squared ``error`` over the last thousand events (of standardised
        targets, or of outputs that should be 1 for the class and 0 for others); and ``relevance``, for every
        input that has one, in the two blocks of features (:mod:`streamk.features.relevance`).
        """
        stacking = self._combiner
        shares = stacking.shares[: len(stacking.weights)]
        weights = shares @ stacking.weights
        if not self._classifies:
            weights = weights + stacking.shares[len(shares) :]
        experts = [
            {"expert": name, "weight": round(float(weight), 4), "error": float(f"{error:.4g}")}
            for name, weight, error in zip(self._names, weights, stacking.losses, strict=True)
        ]
        return {
            "events": self.events,
            "features": self.feature_count,
            "bytes": len(self.to_bytes()),
            "experts": experts,
            "relevance": {} if self._map is None else self._relevance(),
        }

    def _relevance(self) -> dict[str, list[float]]:
        """Return the relevance of inputs by name; of a category whose name is not at hand, by its key."""
        inputs = self._codec.inputs
        names = {inputs.entry(name)[1]: name for name in inputs.numbers}
        names |= {key: "=".join(pair) for pair, key in inputs.known_categories()}
        assert self._map is not None
        assert self._map.sections is not None
        found = self._map.sections.relevance()
        return {
            names.get(key, f"#{key:016x}"): [round(r, 4) for r in values] for key, values in found.items()
        }

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
            losses = [
                self._combiner.losses[self._names.index(f"least squares, {name}")] for name in _RELEVANT
            ]
            columns = self._map.sections.renew(growth.openings, int(np.argmin(losses)))
            self._map.renew()
            for expert in self._experts:
                expert.forget(columns)
        self._arguments = None

    @classmethod
    def _unit_test_params(cls) -> Any:
        yield {"features": 768, "seed": 7}
        yield {"features": 768, "label_memory": False, "relevance": False, "seed": 7}

    def _make_experts(self, sections: Sections) -> dict[str, Expert]:
        """Return the experts by name, those of one rule side by side."""
        kind = "class" if self._classifies else "number"
        squared = CODES[kind, "squared"]
        loss = CODES["class", "margin"] if self._classifies else squared
        whole, amplitude = sections.columns_of_part(0), sections.amplitude
        middle = PLAIN + (whole.stop - PLAIN) // 2
        columns = {
            "coarse": slice(PLAIN, middle),
            "fine": slice(middle, whole.stop),
            "coarse and fine": slice(PLAIN, whole.stop),
            "labels, coarse and fine": slice(LINEAR, whole.stop),
            "everything": whole,
            "inputs": slice(0, LINEAR),
            "inputs and labels": slice(0, PLAIN),
        }
        relevant = {name: sections.columns_of_part(1 + part) for part, name in enumerate(_RELEVANT)}
        columns |= {name: slice(at.start + PLAIN, at.stop) for name, at in relevant.items()}
        gains: dict[str, tuple[float, ...]] = {"fine": (0.3,), "inputs": (0.1,)}
        if self._classifies:
            gains |= {"coarse": (1.0, 0.1), **dict.fromkeys(_RELEVANT, (1.0, 0.1))}
        else:
            gains |= {"coarse": (1.0, 0.3, 0.1), "coarse and fine": (0.3, 0.1), "everything": (0.1,)}
        if self.label_memory:
            gains["labels, coarse and fine"] = (0.3,)
        experts: dict[str, Expert] = {}
        for name, several in gains.items():
            for gain in several:
                experts[f"projection, {name}, gain {gain}"] = Projection(
                    loss, False, 0.0, 0, columns[name], gain
                )
        if self._classifies:
            experts["projection, squared, coarse, gain 0.3"] = Projection(
                squared, False, 0.0, 0, columns["coarse"], 0.3
            )
        experts["projection, squared, coarse and fine, falling gain"] = Projection(
            squared, False, 0.3, None, columns["coarse and fine"]
        )
        for name, forgetting, at in (
            ("inputs and labels", 1.0, columns["inputs and labels"]),
            ("inputs and labels, forgetting", 0.998, columns["inputs and labels"]),
            *((name, 1.0, at) for name, at in relevant.items()),
        ):
            penalty = _RIDGE * amplitude**2
            experts[f"least squares, {name}"] = LeastSquares(squared, penalty, forgetting, at, amplitude)
        if self.label_memory:
            experts["last label"] = LastLabel(loss, self._classifies, LINEAR, amplitude)
        if self._classifies:
            experts["prior"] = Prior(loss)
        return experts


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
    Accuracy: 89.19%
    """


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
    MAE: 0.192566
    """
