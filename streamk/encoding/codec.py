"""The codec of a learner: names, scales, labels or targets; events to rows, outputs to answers.

Its verbs are *encode* (events to rows: :class:`streamk.encoding.inputs.Inputs`), *observe* (the scales of
inputs and target learn from an event) and *decode* (an output to a number in the target's units, a column to
a label). The target of a regression is standardised by the same statistics as inputs are
(:mod:`streamk.encoding.scaling`) and clipped to ±6; for mixtures to ±12, or to the distance of the farthest
target so far, at most 100. No expert learns an *outlier*, the first target that is ten deviations off.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from streamk.arrays import Array, Arrays, Integers, Json, typed
from streamk.compiling import INNER, ZERO, both
from streamk.encoding.inputs import Inputs
from streamk.encoding.keys import AUTO, DIRECTIONS
from streamk.encoding.label_history import MEAN as MEAN_LABELS
from streamk.encoding.label_history import empty_memory
from streamk.encoding.labels import Label, Labels, plain
from streamk.encoding.names import most_used, no_uses, pooled_uses
from streamk.encoding.rows import LARGEST
from streamk.encoding.scaling import (
    COUNT,
    FARTHEST,
    GIVEN,
    HELD,
    MEAN,
    TARGET_CLIP,
    WIDE_CLIP,
    horizon_of,
    is_stray,
    kept_numbers,
    observe,
    pooled,
    spread,
    standardise,
)
from streamk.encoding.seen import SeenValues
from streamk.encoding.transforms import Transform, mean_of
from streamk.state import FINITE, LARGEST_COUNT, Field, Stateful

EVENTS, KNOWN, LEAST = 0, 1, 2
_SUM = 1  # of weights
_NO_WEIGHTS = np.zeros(0)
_TARGET = ZERO  # its row of statistics


class Coding(NamedTuple):
    """A codec as compiled code sees it; for ``exponents`` see :func:`streamk.features.map.exponents_of`.

    ``counts`` are the events learned, the outputs known, and the outputs known once anything is; ``target``
    are the statistics of numbers, of 0 rows if they are not standardised, and None for classes; ``memory``
    is that of labels (:mod:`streamk.encoding.label_history`), empty if they are no inputs, and ``arrived``
    their count;
    ``seen`` is the record of values of categories (:mod:`streamk.encoding.seen`), if there is one;
    ``weights`` are the number and the sum of all weights, empty if weights are absolute;
    ``cautious`` is whether inputs are scaled as if they had been counted (:mod:`streamk.encoding.scaling`).
    """

    statistics: Array
    target: Array | None
    counts: Array
    exponents: Array
    horizon: float
    largest: float
    classes: bool
    memory: Array
    arrived: Array
    seen: tuple[NDArray[np.uint64], Integers] | None = None
    clip: float = TARGET_CLIP
    weights: Array = _NO_WEIGHTS
    cautious: bool = False


@njit(**INNER)
def aim_of(coding, target):
    """Return what an event asks of the experts: a class, or a number as they see it."""
    return _standard(coding.target, target, reach_of(coding))


@njit(**INNER)
def reach_of(coding):
    """Return how many deviations from its mean a number may be, as experts see it."""
    return farthest(coding.target, coding.clip)


@both()
def farthest(statistics, clip):
    """Return ``clip``, or for mixtures the distance of the farthest target so far, if that is more."""
    if statistics is None or not len(statistics) or clip < WIDE_CLIP:
        return clip
    if statistics[_TARGET, HELD] == GIVEN:
        return clip
    distance = abs(standardise(statistics[_TARGET, HELD], statistics, _TARGET, FARTHEST))
    return distance if distance > clip else clip


@njit(**INNER)
def unclipped(coding, target):
    """Return a number in the units of the experts, however far off it is."""
    return _standard(coding.target, target, np.inf)


@njit(**INNER)
def _standard(statistics, target, clip):
    if statistics is None or not len(statistics):
        return target
    return standardise(target, statistics, _TARGET, clip)


@njit(**INNER)
def is_learned(coding, target):
    """Return whether experts learn from a target: any except an outlier."""
    return _is_usual(coding.target, target)


@njit(**INNER)
def _is_usual(statistics, target):
    if statistics is None or not len(statistics):
        return True
    return not is_stray(target, statistics, _TARGET)


@both()
def outputs_after(coding, target):
    """Return how many outputs are known once an event of this target is learned."""
    known = max(int(coding.counts[KNOWN]), int(coding.counts[LEAST]))
    return max(known, int(target) + 1) if coding.classes else known


@njit(**INNER)
def relative_weight(coding, weight, count):
    """Return a weight, in units of the mean of all if the codec has it; this one may ``count`` in it."""
    weights = coding.weights
    if weights.shape[0] == 0:
        return weight
    if count:
        weights[EVENTS] += 1.0
        weights[_SUM] += weight
    return weight * weights[EVENTS] / weights[_SUM] if weights[_SUM] > 0.0 else 1.0


@njit(**INNER)
def observe_target(coding, target, weight):
    """Count an event that was learned; its weight counts in the scale of the target."""
    coding.counts[KNOWN] = outputs_after(coding, target)
    coding.counts[EVENTS] += 1.0
    _observe(coding.target, target, coding.horizon, weight)


@njit(**INNER)
def _observe(statistics, target, horizon, weight):
    if statistics is not None and len(statistics):
        observe(target, statistics, _TARGET, horizon, weight)


@njit(**INNER)
def decode(coding, output):
    """Return a number as experts see it in the units of the target."""
    return _in_units(coding.target, output)


@njit(**INNER)
def _in_units(statistics, output):
    if statistics is None or not len(statistics):
        return np.float64(output)
    return statistics[_TARGET, MEAN] + spread(statistics, _TARGET) * output


class Unit(NamedTuple):
    """A learner's standardised targets in those of another: ``scale · z + offset``."""

    scale: float
    offset: float


def no_targets(memory: int | None) -> Array:
    """Return the statistics of a target before the first event, ``(1, n)``."""
    return np.zeros((1, kept_numbers(horizon_of(memory))))


class Codec(Stateful):
    """Names, scales, labels or targets of one learner.

    Parameters
    ----------
    inputs
        The names, and the statistics of numbers.
    labels
        The classes; None for numbers.
    memory
        Of the learner: None never forgets (:func:`streamk.encoding.scaling.horizon_of`).
    standard
        Whether numeric targets are standardised.
    label_memory
        Whether labels are inputs of later events.
    mixture
        Whether values of categories that were never learned are skipped, weights are relative to their mean,
        and targets may be far off.
    """

    def __init__(
        self,
        inputs: Inputs,
        labels: Labels | None,
        memory: int | None = None,
        standard: bool = True,
        label_memory: bool = False,
        mixture: bool = False,
    ) -> None:
        self.seen, self.weights = SeenValues() if mixture else None, np.zeros(2 if mixture else 0)
        self.memory, self.arrived = empty_memory(label_memory)
        self.inputs, self.labels, self.standard = inputs, labels, standard
        self.horizon, self.clip = horizon_of(memory), WIDE_CLIP if mixture else TARGET_CLIP
        self.target = no_targets(memory)
        self.counts: Array = np.array([0.0, 0.0, 0.0 if labels is not None else 1.0])

    @property
    def events(self) -> int:
        """Events learned so far."""
        return int(self.counts[EVENTS])

    @property
    def reach(self) -> float:
        """How many deviations from its mean a target may be, as experts see it."""
        return float(farthest(self.target, self.clip))

    @property
    def outputs(self) -> int:
        """How many outputs a learner has, at least 1."""
        return 1 if self.labels is None else max(1, len(self.labels))

    def coding(self, exponents: Array) -> Coding:
        """Return the codec as compiled code sees it, until names are registered."""
        inputs = self.inputs
        target = None if self.labels is not None else self.target if self.standard else self.target[:0]
        cautious = self.labels is not None and self.seen is not None
        return Coding(
            inputs.statistics, target, self.counts, exponents, self.horizon, inputs.largest,
            self.labels is not None, self.memory, self.arrived,
            None if self.seen is None else (self.seen.bits, self.seen.state), self.clip, self.weights,
            cautious,
        )  # fmt: skip

    def register(self, labels: Sequence[Label]) -> None:
        """Give columns to the labels not seen before, in order."""
        assert self.labels is not None
        self.labels.register(labels)
        self.counts[LEAST] = self.labels.least

    def average_labels(self) -> None:
        """Set the label memory to its mean, for predictions without new labels."""
        if len(self.memory):
            self.memory[:] = self.memory[MEAN_LABELS]

    def unit_in(self, other: Codec) -> Unit:
        """Return this codec's standardised targets in those of another."""
        if self.labels is not None or not self.standard:
            return Unit(1.0, 0.0)
        ours, theirs = spread(self.target, 0), spread(other.target, 0)
        if theirs == 0.0:
            return Unit(0.0, 0.0)
        offset = (self.target[0, MEAN] - other.target[0, MEAN]) / theirs
        return Unit(min(ours / theirs, LARGEST), min(max(offset, -LARGEST), LARGEST))

    def freeze_scales(self) -> None:
        """Make the scales of inputs and target constant; numbers that come later follow the stream."""
        for statistics in (self.inputs.statistics[: self.inputs.slots], self.target):
            statistics[statistics[:, COUNT] > 0.0, HELD] = GIVEN

    def frozen_scales(self) -> dict[str | None, Array]:
        """Return the statistics that are constant, by name; of the targets, under None."""
        statistics = dict[str | None, Array]({None: self.target[0]})
        if self.inputs.scaled:
            statistics |= {name: self.inputs.statistics[slot] for name, slot in self.inputs.numbers.items()}
        return {name: row for name, row in statistics.items() if row[HELD] == GIVEN}

    def header(self) -> Json:
        """Return what the header of a model file holds."""
        inputs = self.inputs
        header: Json = {
            "directions": inputs.directions if inputs.settled else AUTO,
            "numbers": list(inputs.numbers),
        }
        if self.labels is not None:
            header["labels"] = [plain(v) for v in self.labels.values]
        if inputs.transforms:
            header["transforms"] = [[name, len(one.values)] for name, one in inputs.transforms.items()]
        return header

    def fields(self) -> Iterator[Field | Stateful]:
        """Yield statistics, uses of names, transforms, counters, label memory and recorded values."""
        yield Field("statistics", "statistics", possible=_are_statistics)
        yield Field("target", "statistics", possible=_are_statistics)
        least = self.counts[LEAST]
        bounds = (0.0, 0.0, least), (LARGEST_COUNT, self.outputs, least)
        yield Field("counts", "counters", *bounds, whole=True)
        if len(self.inputs.uses):
            yield Field("uses", "uses of names", 0.0, FINITE)
        if self.inputs.transforms:
            yield Field("transforms", "transforms")
        if len(self.memory):
            yield Field("memory", "labels in memory", -FARTHEST, FARTHEST)
            count = Field("queue", "labels in memory", 0.0, LARGEST_COUNT, attribute="arrived", whole=True)
            yield count
        if self.seen is not None:
            yield self.seen
            yield Field("weights", "sums of weights", 0.0, FINITE, default=0.0)

    @property
    def statistics(self) -> Array:
        """The statistics of numbers, a row for each."""
        return self.inputs.statistics[: self.inputs.slots]

    @property
    def uses(self) -> Array:
        """The uses of names (:mod:`streamk.encoding.names`)."""
        return self.inputs.uses

    @property
    def transforms(self) -> Array:
        """The knots of all transforms, side by side."""
        return np.concatenate([np.array(one) for one in self.inputs.transforms.values()], axis=1)

    def restore(self, header: Json, arrays: Arrays) -> None:
        """Load the header and the arrays of a model file; raise a ValueError if they are impossible."""
        inputs, names, kept = self.inputs, header["numbers"], self.target.shape[1]
        if not isinstance(names, list) or not set(map(type, names)) <= {str} or len(set(names)) != len(names):
            raise ValueError("its names of numbers are not distinct strings")
        if not inputs.settled and header["directions"] != AUTO:
            if header["directions"] not in DIRECTIONS:
                raise ValueError(f"its directions are {header['directions']!r}")
            inputs.settle(header["directions"])
        uses = no_uses()
        if "uses" in arrays:
            uses = np.zeros((min(len(arrays["uses"]), len(names)), uses.shape[1]))
        inputs.set_names(names, np.zeros((len(names) if inputs.scaled else 0, kept)), uses)
        inputs.set_transforms(_transforms_of(header, arrays, names))
        if self.labels is not None:
            self.register(self.labels.check_many(header["labels"], [True] * len(header["labels"])))
        self.load_state_dict(arrays)

    def absorb(self, others: Sequence[Codec], base: Codec | None = None) -> None:
        """Become the merge of codecs, which may all continue from ``base``; this one is untrained."""
        inputs = self.inputs
        if not inputs.settled:
            for other in others:
                if other.inputs.settled:
                    inputs.settle(other.inputs.directions)
        names, use = most_used([other.inputs for other in others], inputs.most)
        transforms = {name: one for name in names if (one := _transform(name, others)) is not None}
        statistics = np.zeros((len(names) if inputs.scaled else 0, self.target.shape[1]))
        for slot in range(len(statistics)):
            statistics[slot] = self._pooled(names[slot], others, base, names[slot] in transforms)
        inputs.set_names(names if inputs.registers else [], statistics, pooled_uses(statistics, names, use))
        inputs.set_transforms(transforms)
        targets = [other.target[0] for other in others]
        self.target[0] = pooled(targets, self.horizon, None if base is None else base.target[0])
        if self.labels is not None:
            known_labels = (other.labels.values for other in others if other.labels is not None)
            self.register(list(chain.from_iterable(known_labels)))
        before_them = 0.0 if base is None else base.counts[EVENTS]
        self.counts[EVENTS] = before_them + sum(other.counts[EVENTS] - before_them for other in others)
        known = [int(other.counts[KNOWN]) for other in others]
        self.counts[KNOWN] = max(known, default=0) if self.labels is None else self._known_of(others)
        if self.seen is not None:
            self.seen.merge_from([other.seen for other in others if other.seen is not None])
        start = np.zeros(len(self.weights)) if base is None else base.weights
        self.weights = sum((other.weights - start for other in others), start.copy())

    def _pooled(self, name: str, others: Sequence[Codec], base: Codec | None, transformed: bool) -> Array:
        """Return the pooled statistics of a number, over the codecs that have it and transform it or not."""
        parts = [o.inputs.statistics[place] for o in others
                if (place := o.inputs.numbers.get(name)) is not None
                and (name in o.inputs.transforms) == transformed]  # fmt: skip
        place = None if base is None else base.inputs.numbers.get(name)
        if base is not None and (name in base.inputs.transforms) != transformed:
            place = None
        before = None if base is None or place is None else base.inputs.statistics[place]
        return pooled(parts, self.horizon, before)

    def label_codes_in(self, other: Codec) -> list[int]:
        """Return the codes of this codec's labels in another codec, which has all of them."""
        if self.labels is None or other.labels is None:
            return [0]
        return [other.labels.codes[label] for label in self.labels.values]

    def _known_of(self, others: Sequence[Codec]) -> int:
        """Return 1 plus the highest code, in this codec, of a label that another codec has learned."""
        assert self.labels is not None
        learned = {
            label for o in others if o.labels is not None for label in o.labels.values[: int(o.counts[KNOWN])]
        }
        return max((self.labels.codes[label] + 1 for label in learned), default=0)


def _are_statistics(statistics: Array) -> bool:
    """Return whether these may be statistics; the held value may be missing, or that of fixed scales."""
    held, known = statistics[:, HELD], np.delete(statistics, HELD, axis=1)
    far = (held != GIVEN) & (abs(held) > LARGEST)
    return bool(np.isfinite(known).all() and (statistics[:, COUNT] >= 0.0).all() and not far.any())


def _transform(name: str, codecs: Sequence[Codec]) -> Transform | None:
    """Return the transform of a number if codecs with at least half of its events have one, else None."""
    transforms, weights, total = [], [], 0.0
    for codec in codecs:
        if name in codec.inputs.numbers:
            total += codec.counts[EVENTS]
            if name in codec.inputs.transforms:
                transforms.append(codec.inputs.transforms[name])
                weights.append(float(codec.counts[EVENTS]))
    return mean_of(transforms, weights) if transforms and 2.0 * sum(weights) >= total else None


def _transforms_of(header: Json, arrays: Arrays, names: Sequence[str]) -> dict[str, Transform]:
    """Return the transforms of a model file; raise a ValueError if they are impossible."""
    if "transforms" not in arrays:
        return {}
    counts = dict(header["transforms"])
    if not {*map(type, counts.values())} <= {int} or not {*counts} <= {*names}:
        raise ValueError("its transforms are impossible")
    knots = typed(arrays, "transforms", np.float64, (2, sum(counts.values())))
    parts = np.split(knots, np.cumsum(list(counts.values()))[:-1], axis=1)
    transforms = {name: Transform(*part.copy()) for name, part in zip(counts, parts, strict=True)}
    if not all(one.is_possible() for one in transforms.values()):
        raise ValueError("its transforms are impossible")
    return transforms
