"""The interface of experts: an update rule over columns of a feature map, with coefficients and a clock.

Compiled code gets an expert's *record*, a named tuple whose type selects the implementation of
:func:`evaluate` and :func:`step`; each rule's file adds one (:mod:`streamk.dispatch`). Outputs are inner
products of coefficients and columns, unless the file implements :func:`evaluate`. Python code uses an
:class:`Expert`, with methods for growth and blocks of features (``grow``, ``start_block``), blocks of events
(``required_columns``, ``step_many``) and merging (``merge_from``), and with declared arrays
(:mod:`streamk.state`). An expert changes only its own state, so it learns the same whatever the other experts
are.

Coefficients are ``(sets, outputs, columns)`` float32. The sets are the iterate alone, or the iterate and its
average (polynomial decay, Shamir and Zhang 2013). Columns beyond the features in use are 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, NamedTuple, Self

import numpy as np

from streamk.arrays import Array, Floats, Integers, padded
from streamk.compiling import both
from streamk.dispatch import default
from streamk.encoding.codec import Unit
from streamk.schedules import averaging_weight
from streamk.state import LARGEST_COUNT, SUM, Field, Live, Stateful
from streamk.vector.lanes import aligned
from streamk.vector.linear_algebra import LARGEST_COEFFICIENT, inner_products

EVENTS, STEPS = 0, 1  # of a clock
ITERATE, FINAL = 0, 1  # of outputs
FEW = 0.75  # of the columns: if no more are in use, a model file names them


def evaluate(expert: object, e: object, phi: object, i: object, outputs: object) -> None:
    """Fill ``outputs[e]`` ``(2, K)`` for row ``i`` of ``phi``: the iterate's, and those to predict with.

    In compiled code.
    """
    raise NotImplementedError("for compiled code")


class Observation(NamedTuple):
    """An event to learn, for compiled code.

    Row ``i`` of ``phi`` are its features, ``outputs`` those of all experts, from :func:`evaluate`; ``aim`` is
    the class or number to learn, ``known`` the number of outputs including that of this event. ``residual``
    is scratch, ``(K,)`` float64; ``again`` says whether the event was learned before.
    """

    phi: Floats
    i: int
    outputs: Floats
    aim: float
    known: int
    weight: float
    residual: Array
    again: bool


def step(expert: object, e: object, observation: object) -> None:
    """Learn an :class:`Observation`, of which ``outputs[e]`` are this expert's (in compiled code)."""
    raise NotImplementedError("for compiled code")


def keep(expert: object, e: object, kept: object, outputs: object) -> None:
    """Set ``outputs[e]`` to those ``kept``, if they follow single events and not the target (compiled)."""
    raise NotImplementedError("for compiled code")


@default(keep)
def _change(expert, e, kept, outputs):
    pass


@default(evaluate)
def _linear(expert, e, phi, i, outputs):
    coefficients = expert.coefficients
    sets, most, columns = coefficients.shape
    start = i * phi.shape[1] + expert.first
    inner_products(coefficients, sets * most, phi, start, columns, outputs, e * 2 * most)
    if sets == 1:
        for k in range(most):
            outputs[e, FINAL, k] = outputs[e, ITERATE, k]


@both()
def count_step(clock, coefficients):
    """Count one event that was learned, and move the average, if there is one, towards the iterate."""
    clock[EVENTS] += 1.0
    clock[STEPS] += 1.0
    if coefficients.shape[0] > 1:
        weight = np.float32(averaging_weight(clock[STEPS]))
        for k in range(coefficients.shape[1]):
            for f in range(coefficients.shape[2]):
                mean = coefficients[FINAL, k, f]
                coefficients[FINAL, k, f] = mean + weight * (coefficients[ITERATE, k, f] - mean)


Columns = Sequence[tuple[list[int], Unit]]  # of merged experts: the place of each output, and its unit
Counts = Sequence[float] | None


class Merge(NamedTuple):
    """How experts are merged: ``shares`` in means, which sum to 1, and the outputs of each.

    If all continue from one expert, that one is the last, with share 0, and sums are added ``counts`` times.
    """

    shares: Sequence[float]
    columns: Columns
    counts: Counts = None


class Lesson(NamedTuple):
    """A block of ``m`` events as an expert sees it.

    ``outputs`` are those of the expert, ``(sets, m, K)``; ``kept`` the features in the columns that it
    ``wanted``; ``known`` as for :func:`step`.
    """

    outputs: Floats
    kept: list[Floats]
    aims: Array
    weights: Array
    known: int


class Expert(Stateful):
    """The base class of experts: coefficients, a clock, an average.

    Parameters
    ----------
    loss
        A code of :mod:`streamk.losses`.
    average
        Whether predictions come from a running average of the coefficients.
    columns
        The columns of the map that it uses, whole blocks of 64; None for all, also those added later.
    """

    rule: ClassVar[str]
    is_linear: ClassVar[bool] = True  # whether it has coefficients and a clock to save
    follows_events: ClassVar[bool] = False  # whether outputs follow single events, and not the target

    def __init__(self, loss: int, average: bool = False, columns: slice | None = None) -> None:
        self.loss, self.features, self.columns = loss, 0, columns
        self.first = 0 if columns is None else columns.start
        self.clock: Array = np.zeros(2)
        self.coefficients: Floats = np.zeros((2 if average else 1, 1, 0), dtype=np.float32)

    def grow(self, outputs: int, features: int, width: int) -> None:
        """Resize to the features and columns of a map; new coefficients are 0, others unchanged."""
        columns = self.columns_of(width)
        self.features = max(0, min(features - self.first, columns))
        grown = padded(self.coefficients, (len(self.coefficients), outputs, columns))
        if grown is not self.coefficients:
            self.coefficients = aligned(grown)
        self.fit_outputs(outputs)

    def columns_of(self, width: int) -> int:
        """Return how many columns it uses of a map of ``width`` columns."""
        return max(0, (width if self.columns is None else min(self.columns.stop, width)) - self.first)

    def start_block(self, opening: int, block: slice, fresh: bool) -> None:
        """Open a block of the map: it is the ``opening``-th to be opened, and ``fresh`` if it is new."""

    def overlap(self, block: slice) -> slice:
        """Return the part of a block of the map that it uses, counted from its first column."""
        columns = self.coefficients.shape[2]
        start, stop = (min(max(end - self.first, 0), columns) for end in (block.start, block.stop))
        return slice(start, stop)

    @property
    def is_open(self) -> bool:
        """Whether it can learn an event; if not, its block must be opened again."""
        return True

    def close(self) -> None:
        """Drop the state of the open block except its coefficients."""

    def required_columns(self) -> list[slice]:
        """Return the columns of the map whose features are needed to learn the next block of events."""
        raise NotImplementedError

    def step_many(self, lesson: Lesson) -> None:
        """Learn a block of events."""
        raise NotImplementedError

    def count_block(self, events: int) -> None:
        """Count a block of events that was learned, and move the average."""
        self.clock[EVENTS] += events
        self.clock[STEPS] += 1.0
        if len(self.coefficients) > 1:
            weight = np.float32(averaging_weight(self.clock[STEPS]))
            self.coefficients[FINAL] += weight * (self.coefficients[ITERATE] - self.coefficients[FINAL])

    def merge_from(self, experts: Sequence[Self], merge: Merge) -> None:
        """Become the merge of experts with the same settings; this one is untrained and has their size.

        Models on one map are linear in their coefficients: the weighted mean of coefficients gives the
        weighted mean of outputs (the averaging of Andrecut 2016, eqs. 67 and 68).
        """
        shares, columns, counts = merge
        mean = np.zeros(self.coefficients.shape)
        for expert, share, (rows, unit) in zip(experts, shares, columns, strict=True):
            count, width = len(rows), expert.coefficients.shape[2]
            mean[:, rows, :width] += share * unit.scale * expert.coefficients[:, :count]
        self.coefficients[:] = np.clip(mean, -LARGEST_COEFFICIENT, LARGEST_COEFFICIENT)
        self.clock[:] = sum(expert.clock for expert in experts)
        if counts is not None:  # the clock of each of the others includes that of the last
            self.clock -= (len(experts) - 1) * experts[-1].clock
        times: Sequence[float] = counts or [1.0] * len(experts)
        for field in self.own_fields():
            if field.merge == SUM:
                for expert, factor, (rows, _) in zip(experts, times, columns, strict=True):
                    added = field.of(expert)
                    if field.by_output:
                        field.of(self)[rows] += factor * added[: len(rows)]
                    else:
                        field.of(self)[:] += factor * added

    def forget(self, columns: slice) -> None:
        """Restart if it uses no other columns of the map than these, whose features are replaced."""
        if self.within(columns):
            self.coefficients[:] = 0.0
            self.close()

    def goes_on_from(self, before: Self) -> bool:
        """Return whether it has continued without a restart since it was ``before``."""
        return True

    def within(self, columns: slice) -> bool:
        """Return whether it uses at least one of these columns of the map, and no others."""
        stop = self.first + self.coefficients.shape[2]
        return bool(columns.start <= self.first < stop <= columns.stop)

    def rearrange(self, places: Integers) -> None:
        """Move column ``j`` of the map to ``places[j]``; columns of place −1 are dropped."""
        destinations = places[self.first : self.first + self.coefficients.shape[2]]
        moved = aligned(np.zeros_like(self.coefficients))
        moved[:, :, destinations[destinations >= 0] - self.first] = self.coefficients[:, :, destinations >= 0]
        self.coefficients = moved

    def fields(self) -> Iterator[Field | Stateful]:
        """Yield coefficients, if it has any, and clock; rules with more state add to these."""
        if self.is_linear:
            used = "" if self.columns is None else "used"
            yield COEFFICIENTS._replace(used=used, few=FEW)
            yield Field("clock", "counters", 0.0, LARGEST_COUNT, whole=True)

    @property
    def live(self) -> Live:
        """The coefficients, which also rules without any have, of no columns."""
        return [(COEFFICIENTS, self.coefficients)]


COEFFICIENTS = Field("coefficients", "coefficients", -LARGEST_COEFFICIENT, LARGEST_COEFFICIENT)
