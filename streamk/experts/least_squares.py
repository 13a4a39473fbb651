"""Recursive least squares with forgetting, over the columns that have ever been other than 0.

After events ``i = 1 … n`` the coefficients minimise ``Σ_i λ^(n−i) w_i (y_i − φ_iᵀα)² + penalty ‖α‖²``. With
``λ < 1`` old events fade, and the variance of a coefficient whose column no longer occurs would grow until a
single event could change it arbitrarily. So the variances ``D`` of ``P = U D Uᵀ``
(:mod:`streamk.vector.factor`) never exceed those before the first event.

Without forgetting, new events hardly change coefficients after many events. An expert with ``watch`` restarts
when its error has risen (:mod:`streamk.experts.change`): coefficients stay, and the information about them is
reduced to that of one block of events. With none, the next events could change the coefficients arbitrarily.

With the logistic loss an event is one equation of Newton's method (iteratively reweighted least squares): a
residual ``([k = y] − p_k)/κ`` of weight ``κ w``, ``κ`` being the curvature along expected steps
(:func:`streamk.losses.curvature_along`), so that all classes share one matrix.

A column becomes a variable when it first is not 0, so inputs that never occur cost nothing. The columns of
variables are mostly adjacent. Sixteen adjacent ones are read and written as one vector, others one by one,
with the same operations.

Merging adds information. An expert has ``A = penalty I + Σ λ… φ φᵀ`` and ``A α``, ``α`` being its
coefficients. The merge of experts trained separately has ``penalty I + Σ (A_e − penalty I)`` and
``Σ A_e α_e``, exactly those of one expert of all events. If all continue from one expert, that one is the
last and is added ``1 − n`` times, so its information counts once. With forgetting, ``A`` and ``A α`` are
averaged instead.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator, Sequence
from typing import ClassVar, Self

import numpy as np
from numba import njit
from scipy.linalg import cho_factor, cho_solve

from streamk.arrays import AnyArray, Array, Floats, Integers, padded
from streamk.compiling import INNER
from streamk.dispatch import implements
from streamk.encoding.codec import Unit
from streamk.experts import change
from streamk.experts.expert import (
    EVENTS,
    ITERATE,
    Expert,
    Merge,
    count_step,
    step,
)
from streamk.losses import curvature_along, residuals
from streamk.state import FINITE, Field, Stateful
from streamk.threads import one_blas_thread
from streamk.vector import factor
from streamk.vector.lanes import LANES, zeros_aligned
from streamk.vector.linear_algebra import LARGEST_COEFFICIENT
from streamk.vector.variables import any_new, gather, move


@njit(**INNER)
def fit_event(expert, phi, i, residual, weight, part):
    """Fit least squares to row ``i`` of ``phi``, and keep a ``part`` of the information."""
    columns, variables = expert.coefficients.shape[2], expert.variables
    start = i * phi.shape[1] + expert.first
    if columns % LANES or any_new(phi, start, expert.is_variable, columns):
        _join(expert, phi, i)
    size = variables[0]
    padded, whole = (size + LANES - 1) // LANES * LANES, size // LANES * LANES
    x, gain = expert.event[:padded], expert.gain[:padded]
    for j in range(padded):
        gain[j] = 0.0
    gather(x, phi, start, variables, whole)
    for j in range(whole, padded):
        x[j] = phi[i, expert.first + variables[1 + j]] if j < size else np.float32(0.0)
    noise = factor.noise_of(weight)
    left = factor.update(expert.diagonal[:size], expert.factor, x, noise, gain)
    for k in range(residual.shape[0]):
        length = residual[k] / left
        move(expert.weights, k, gain, length, expert.coefficients, variables, whole)
        for j in range(whole, size):
            moved = expert.weights[k, j] + np.float64(gain[j]) * length
            moved = min(max(moved, -LARGEST_COEFFICIENT), LARGEST_COEFFICIENT)
            expert.weights[k, j] = moved
            expert.coefficients[ITERATE, k, variables[1 + j]] = np.float32(moved)
    if part < 1.0:
        for j in range(size):
            expert.diagonal[j] = min(expert.diagonal[j] / part, expert.variance)


@njit(**INNER)
def _join(expert, phi, i):
    """Make a variable of every column that is other than 0."""
    variables, is_variable = expert.variables, expert.is_variable
    for c in range(expert.coefficients.shape[2]):
        if phi[i, expert.first + c] != 0.0 and not is_variable[c]:
            variables[0] += 1
            variables[variables[0]], is_variable[c] = c, True
            for k in range(expert.weights.shape[0]):
                expert.weights[k, variables[0] - 1] = np.float64(expert.coefficients[ITERATE, k, c])


_MOST = 1e100  # of the numbers in a factor


Fitting = namedtuple(
    "Fitting",
    "first coefficients clock loss forgetting variance variables is_variable diagonal factor weights event "
    "gain watched watch",
)


class LeastSquares(Expert):
    """Recursive least squares with forgetting.

    Parameters
    ----------
    loss, columns
        As for :class:`streamk.experts.expert.Expert`: squared or logistic.
    penalty
        Of a squared coefficient, in units of one event.
    forgetting
        ``λ``, 1 to forget nothing.
    constant
        The constant value of the first column.
    watch
        Whether it restarts when its error has risen.
    """

    rule = "least squares"
    record_type = Fitting
    is_relative: ClassVar[bool] = False  # whether outputs are the same in every unit of the target

    def __init__(
        self,
        loss: int,
        penalty: float,
        forgetting: float,
        columns: slice,
        constant: float,
        watch: bool = False,
    ) -> None:
        super().__init__(loss, columns=columns)
        self.penalty, self.forgetting, self.constant = float(penalty), float(forgetting), constant
        self.variance = 1.0 / self.penalty
        self.weights: Array = np.zeros((1, 0))
        self._open(0)
        self.watched, self.watch = watch, change.empty_watch()

    def grow(self, outputs: int, features: int, width: int) -> None:
        """Resize to a map; new coefficients are 0, others unchanged."""
        super().grow(outputs, features, width)
        _, most, columns = self.coefficients.shape
        if len(self.is_variable) < columns:
            self._open(columns)
        self.weights = padded(self.weights, (most, self.weights.shape[1]))

    def _open(self, columns: int) -> None:
        """Allocate the state for so many columns, none of which is a variable."""
        self.variables = np.zeros(1 + columns, dtype=np.int64)  # how many, then the columns of each
        self.is_variable = np.zeros(columns, dtype=np.bool_)  # of columns: whether they are variables
        self.diagonal = np.full(columns, self.variance)
        self.factor: Floats = factor.empty_factor(columns, np.float32)
        whole = -(-columns // LANES) * LANES
        self.event, self.gain = (zeros_aligned(whole, np.float32) for _ in range(2))  # of the last event
        self.weights = np.zeros((len(self.weights), columns))

    def close(self) -> None:
        """Drop the information; coefficients stay, and columns become variables again as they occur."""
        self._open(len(self.is_variable))
        self.watch = change.empty_watch()

    @property
    def joined(self) -> Integers:
        """The columns that have joined, in the order of the variables."""
        return self.variables[1 : 1 + int(self.variables[0])]

    @property
    def restarts(self) -> int:
        """The number of restarts."""
        return int(self.watch[0, change.RISES])

    @property
    def since_sharp_rise(self) -> float:
        """Events since the last restart, if its error had doubled, else infinite."""
        return float(self.watch[0, change.KNOWN]) if self.watch[0, change.SHARPLY] else np.inf

    def information(self) -> Array:
        """Return ``P⁻¹`` of the variables that have joined."""
        count = len(self.joined)
        return factor.information(self.diagonal[:count], self.factor[: factor.factor_size(count)])

    def rearrange(self, places: Integers) -> None:
        """Move column ``j`` of the map to ``places[j]``; columns of place −1 are dropped."""
        old, destinations = self.joined.copy(), places[self.first : self.first + self.coefficients.shape[2]]
        moved = np.where(destinations[old] < 0, -1, destinations[old] - self.first)
        kept, information = np.flatnonzero(moved >= 0), self.information()
        if len(kept) < len(old):
            information = np.linalg.inv(np.linalg.inv(information)[np.ix_(kept, kept)])
        super().rearrange(places)
        weights = self.weights[:, kept].copy()
        self._open(self.coefficients.shape[2])
        self._set(moved[kept], information, weights)

    def _set(self, columns: Integers, information: Array, weights: Array) -> None:
        """Make these columns the variables, with this information and these coefficients."""
        count = len(columns)
        self.variables[0], self.variables[1 : 1 + count] = count, columns
        self.is_variable[columns] = True
        if count:
            with one_blas_thread():
                factors = factor.of_information(factor.positive(information))
            self.diagonal[:count], self.factor[: factor.factor_size(count)] = factors
        self.weights[:, :count] = weights
        self.coefficients[ITERATE] = 0.0
        self.coefficients[ITERATE][:, columns] = weights

    def become(self, columns: Integers, information: Array, weights: Array, events: float) -> None:
        """Make these columns the only variables, with information and coefficients of so many events."""
        self._open(self.coefficients.shape[2])
        self._set(columns, information, np.clip(weights, -LARGEST_COEFFICIENT, LARGEST_COEFFICIENT))
        self.watch[0, change.KNOWN] = events

    def goes_on_from(self, before: Self) -> bool:
        """Return whether it has not restarted since it was ``before``."""
        return self.restarts == before.restarts

    def merge_from(self, experts: Sequence[Self], merge: Merge) -> None:
        """Become the merge by information: each expert adds its information beyond the penalty.

        An expert that has restarted has less information than the penalty in some directions. For it, a
        smaller penalty is subtracted, and its coefficients count as the prior mean with its share.
        """
        if self.is_relative:
            merge = merge._replace(columns=[([0], Unit(1.0, 0.0))] * len(experts))
        super().merge_from(experts, merge)
        if not any(len(expert.joined) for expert in experts):
            return
        joined = np.array(sorted({int(c) for expert in experts for c in expert.joined}), dtype=np.int64)
        information, moved = _pooled(experts, merge, joined, len(self.weights))
        solved = moved
        if len(joined):
            with one_blas_thread():
                solved = cho_solve(cho_factor(factor.positive(information), lower=True), moved.T).T
        for k, expert in enumerate(experts):
            change.merge_from(self.watch, expert.watch, _evidence(experts, k, merge))
        self._set(joined, information, np.clip(solved, -LARGEST_COEFFICIENT, LARGEST_COEFFICIENT))

    def fields(self) -> Iterator[Field | Stateful]:
        """Yield coefficients, clock, the watch, and the information about columns that have joined."""
        yield from super().fields()
        yield change.WATCH
        columns = len(self.is_variable)
        yield Field("variables", "variables", 0, columns - 1, counted=0, default=0, possible=_are_distinct)
        if count := len(self.joined):
            size, what = factor.factor_size(count), "least squares"
            yield Field("diagonal", what, 0.0, _MOST, part=slice(count))
            yield Field("factor", what, -FINITE, FINITE, part=slice(size))
            yield Field("weights", what, -_MOST, _MOST, part=(slice(None), slice(count)))

    def complete(self) -> None:
        """Note which columns are variables."""
        self.is_variable[self.joined] = True


def _are_distinct(variables: AnyArray) -> bool:
    return len(set(variables.tolist())) == len(variables)


def _pooled(
    experts: Sequence[LeastSquares], merge: Merge, joined: Integers, outputs: int
) -> tuple[Array, Array]:
    """Return the pooled ``A`` ``(d, d)`` on the columns ``joined``, and ``A α`` ``(outputs, d)``."""
    where = {int(column): k for k, column in enumerate(joined)}
    penalty = experts[0].penalty * np.eye(len(joined))
    adds = experts[0].forgetting == 1.0  # information that fades is averaged
    pooled = penalty.copy() if adds else np.zeros_like(penalty)
    moved = np.zeros((outputs, len(joined)))
    counts = merge.counts
    for k, (expert, share, (rows, unit)) in enumerate(zip(experts, merge.shares, merge.columns, strict=True)):
        columns = np.array([where[int(column)] for column in expert.joined], dtype=np.int64)
        information, weights = penalty.copy(), np.zeros((len(rows), len(joined)))
        information[np.ix_(columns, columns)] = expert.information()
        weights[:, columns] = unit.scale * expert.weights[: len(rows), : len(columns)]
        if unit.offset:  # targets around another mean: the constant takes the difference
            weights[:, joined == 0] += unit.offset / expert.constant
        times = _evidence(experts, k, merge)
        separate = counts is None or counts[-1] == 0.0 or not expert.goes_on_from(experts[-1])
        if adds and separate and expert.restarts:
            information -= _least(information, expert.penalty) * penalty
            moved[rows] += times * (weights @ information) + share * expert.penalty * weights
            pooled += times * information
        else:
            moved[rows] += times * (weights @ information)
            pooled += times * (information - penalty if adds else information)
    return pooled, moved


def _evidence(experts: Sequence[LeastSquares], k: int, merge: Merge) -> float:
    """Return the factor of the information of expert ``k``.

    With ``counts`` it is one of these. Otherwise it scales the information to a part ``share`` of all events;
    with forgetting it is the share itself.
    """
    expert, share, counts = experts[k], merge.shares[k], merge.counts
    if expert.forgetting < 1.0:
        return share
    if counts is not None:
        return counts[k]
    events = sum(other.clock[EVENTS] for other in experts)
    return float(share * events / max(expert.clock[EVENTS], 1.0))


def _least(information: Array, penalty: float) -> float:
    """Return the largest part of the penalty, at most 1, that the information contains."""
    if not len(information):
        return 1.0
    with one_blas_thread():
        return float(np.clip(np.linalg.eigvalsh(information)[0] / penalty, 0.0, 1.0))


@implements(step, Fitting)
def _step(expert, e, observation):
    phi, i, outputs, aim, known, weight, residual, _ = observation
    residuals(expert.loss, outputs[e, ITERATE, :known], aim, residual[:known])
    part = expert.forgetting
    if expert.watched:
        part *= change.part_to_keep(expert.watch, change.error_of(expert.loss, residual[:known], aim))
    curvature = curvature_along(expert.loss, residual[:known], aim)
    for k in range(known):
        residual[k] /= curvature
    fit_event(expert, phi, i, residual[:known], weight * curvature, part)
    count_step(expert.clock, expert.coefficients)
