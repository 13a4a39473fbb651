"""The interface of experts: an update rule over columns of a feature map, with coefficients and a clock.

Compiled code gets an expert's *record*, a named tuple whose type selects the implementation of
:func:`evaluate` and :func:`step`; each rule's file adds its own with ``@overload``. Outputs are inner
products of coefficients and columns, unless the file adds its type to ``NOT_LINEAR``. Python code uses an
:class:`Expert`, with methods for growth and blocks of features (``grow``, ``start_block``), blocks of events
(``required_columns``, ``step_many``), merging (``merge_from``) and model files (``state_dict``,
``load_state_dict``). An expert changes only its own state, so it learns the same whatever the other experts
are.

Coefficients are ``(sets, outputs, columns)`` float32. The sets are the iterate alone, or the iterate and its
average (polynomial decay, Shamir and Zhang 2013). Columns beyond the features in use are 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numba.extending import overload

from streamk.arrays import Array, Arrays, Floats, Integers, padded, typed, unpacked, used_columns
from streamk.compiling import INNER, both
from streamk.encoding.codec import Unit
from streamk.experts.linear_algebra import LARGEST_COEFFICIENT, inner_products
from streamk.features.lanes import aligned
from streamk.schedules import averaging_weight

EVENTS, STEPS = 0, 1  # of a clock
ITERATE, FINAL = 0, 1  # of outputs
NOT_LINEAR: set[type] = set()  # records whose outputs are not inner products
_FEW = 0.75  # of the columns: if no more are in use, a model file names them


def evaluate(expert: object, phi: object, i: object, outputs: object, e: object) -> None:
    """Fill ``outputs[e]`` ``(2, K)`` for row ``i`` of ``phi``: the iterate's, and those to predict with.

    In compiled code.
    """
    raise NotImplementedError("for compiled code")


def step(
    expert: object,
    phi: object,
    i: object,
    outputs: object,
    e: object,
    aim: object,
    known: object,
    weight: object,
    residual: object,
) -> None:
    """Learn the event of row ``i`` of ``phi`` (in compiled code).

    Parameters
    ----------
    expert
        The record; changed.
    phi, i
        The event's features.
    outputs, e
        ``outputs[e]`` are this expert's own, from :func:`evaluate`.
    aim, known, weight
        Class or number to learn, number of outputs including that of this event, weight of the event.
    residual
        Scratch, ``(K,)`` float64.
    """
    raise NotImplementedError("for compiled code")


@overload(evaluate, jit_options=INNER)
def _evaluate(expert, phi, i, outputs, e):
    if "coefficients" not in expert.fields or expert.instance_class in NOT_LINEAR:
        return None

    def linear(expert, phi, i, outputs, e):
        coefficients = expert.coefficients
        sets, most, columns = coefficients.shape
        start = i * phi.shape[1] + expert.first
        inner_products(coefficients, sets * most, phi, start, columns, outputs, e * 2 * most)
        if sets == 1:
            for k in range(most):
                outputs[e, FINAL, k] = outputs[e, ITERATE, k]

    return linear


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


class Field(NamedTuple):
    """An array of an expert's state, in addition to coefficients and clock.

    Attributes
    ----------
    name
        Of the attribute, and of the array in a model file. Its shape and type are those of the attribute.
    what
        Names the state in errors.
    least, most
        Bounds of its numbers.
    """

    name: str
    what: str
    least: float
    most: float


class Lesson(NamedTuple):
    """A block of ``m`` events as an expert sees it.

    ``outputs`` are its own, ``(sets, m, K)``; ``kept`` the features in the columns that it ``wanted``;
    ``known`` as for :func:`step`.
    """

    outputs: Floats
    kept: list[Floats]
    aims: Array
    weights: Array
    known: int


class Expert:
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

    def __init__(self, loss: int, average: bool = False, columns: slice | None = None) -> None:
        self.loss, self.features, self.columns = loss, 0, columns
        self.first = 0 if columns is None else columns.start
        self.clock: Array = np.zeros(2)
        self.coefficients: Floats = np.zeros((2 if average else 1, 1, 0), dtype=np.float32)

    @property
    def record(self) -> tuple[object, ...]:
        """The expert as compiled code sees it, until it grows or opens a block."""
        raise NotImplementedError

    def grow(self, outputs: int, features: int, width: int) -> None:
        """Resize to the features and columns of a map; new coefficients are 0, others unchanged."""
        columns = self.columns_of(width)
        self.features = max(0, min(features - self.first, columns))
        grown = padded(self.coefficients, (len(self.coefficients), outputs, columns))
        if grown is not self.coefficients:
            self.coefficients = aligned(grown)

    def columns_of(self, width: int) -> int:
        """Return how many columns it uses of a map of ``width`` columns."""
        return max(0, (width if self.columns is None else min(self.columns.stop, width)) - self.first)

    def start_block(self, opening: int, block: slice, fresh: bool) -> None:
        """Open a block of the map: it is the ``opening``-th to be opened, and ``fresh`` if it is new."""

    def own(self, block: slice) -> slice:
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

    def merge_from(
        self, experts: Sequence[Self], shares: Shares, columns: Columns, counts: Counts = None
    ) -> None:
        """Become the merge of experts with the same settings; this one is untrained and has their size.

        Models on one map are linear in their coefficients: the weighted mean of coefficients gives the
        weighted mean of outputs (the averaging of Andrecut 2016, eqs. 67 and 68). If all continue from one
        expert, that one is the last, with share 0; sums are then added ``counts`` times.
        """
        mean = np.zeros(self.coefficients.shape)
        for expert, share, (rows, unit) in zip(experts, shares, columns, strict=True):
            count, width = len(rows), expert.coefficients.shape[2]
            mean[:, rows, :width] += share * unit.scale * expert.coefficients[:, :count]
        self.coefficients[:] = np.clip(mean, -LARGEST_COEFFICIENT, LARGEST_COEFFICIENT)
        self.clock[:] = sum(expert.clock for expert in experts)
        if counts is not None:  # the clock of each of the others includes that of the last
            self.clock -= (len(experts) - 1) * experts[-1].clock

    def forget(self, columns: slice) -> None:
        """Restart if it uses no other columns of the map than these, whose features are replaced."""
        if self.within(columns):
            self.coefficients[:] = 0.0

    def goes_on_from(self, before: Self) -> bool:
        """Return whether it has continued without a restart since it was ``before``."""
        return True

    def within(self, columns: slice) -> bool:
        """Return whether it uses some of these columns of the map, and no others."""
        stop = self.first + self.coefficients.shape[2]
        return bool(columns.start <= self.first < stop <= columns.stop)

    def rearrange(self, places: Integers) -> None:
        """Move column ``j`` of the map to ``places[j]``; columns of place −1 are dropped."""
        own = places[self.first : self.first + self.coefficients.shape[2]]
        moved = aligned(np.zeros_like(self.coefficients))
        moved[:, :, own[own >= 0] - self.first] = self.coefficients[:, :, own >= 0]
        self.coefficients = moved

    def state_dict(self) -> Arrays:
        """Return the arrays to store in a model file; if few columns are in use, only these."""
        return self._linear_state() | {field.name: getattr(self, field.name) for field in self.fields()}

    def fields(self) -> Iterator[Field]:
        """Yield the fields of a model file in the present state; later ones may depend on earlier ones."""
        yield from ()

    def _linear_state(self) -> Arrays:
        if not self.is_linear:
            return {}
        used = used_columns(self.coefficients.view(np.uint32))
        if self.columns is None or len(used) > _FEW * self.coefficients.shape[2]:
            return {"coefficients": self.coefficients, "clock": self.clock}
        return {"coefficients": self.coefficients[:, :, used], "used": used, "clock": self.clock}

    def load_state_dict(self, arrays: Arrays) -> None:
        """Load the arrays of a model file, after :meth:`grow`; raise a ValueError if they are impossible."""
        if self.is_linear:
            self._load_linear_state(arrays)
        for field in self.fields():
            own = getattr(self, field.name)
            value = typed(arrays, field.name, own.dtype.type, own.shape)
            numbers = value.astype(np.float64)
            if not ((numbers >= field.least) & (numbers <= field.most)).all():
                raise ValueError(f"its {field.what} impossible")
            setattr(self, field.name, aligned(value) if own.dtype == np.float32 else value.copy())

    def _load_linear_state(self, arrays: Arrays) -> None:
        now = self.coefficients
        if "used" in arrays:
            coefficients = unpacked(arrays, "coefficients", "used", now, "coefficients")
        else:
            coefficients = typed(arrays, "coefficients", np.float32, now.shape).copy()
        if not np.isfinite(coefficients).all():
            raise ValueError("its coefficients are not finite")
        self.coefficients = aligned(coefficients)
        self._load_clock(arrays)

    def _load_clock(self, arrays: Arrays) -> None:
        clock = typed(arrays, "clock", np.float64, self.clock.shape)
        if not (clock == np.clip(clock.round(), 0.0, 2.0**53)).all():
            raise ValueError("its counters are impossible")
        self.clock = clock.copy()


Shares = Sequence[float]
Counts = Sequence[float] | None
Columns = Sequence[tuple[list[int], Unit]]  # of merged experts: the place of each output, and its unit
