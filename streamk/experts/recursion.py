"""Recursive least squares on one open block of features; the others are fixed, or learn by projection.

After events ``i = 1 … n`` of weights ``w_i``, the coefficients ``α`` of the open block minimise, exactly,

    Σ_i w_i (r_i − φ_iᵀα)² + ridge · F ‖α − α₀‖²

where ``r_i`` is the residual that the other blocks leave of event ``i``, and ``α₀`` the initial ones
(matching pursuit by whole blocks; Andrecut 2016, §3.3). With ``P = (Σ w φφᵀ + ridge F I)⁻¹`` an event moves
``α`` by ``Pφ r/(1/w + φᵀPφ)`` (:mod:`streamk.vector.factor`); a block of events moves it by ``P ΦᵀW r``,
from the sum itself. All of it is float64, the coefficients too: after millions of events a step is smaller
than half the last bit of a float32. If the others are ``projected``, they learn the residual that the open
block left (:mod:`streamk.experts.projection`).

Experts that opened the same block merge exactly: their information adds up.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator, Sequence
from typing import Self

import numpy as np
from numba import njit
from scipy.linalg import cho_factor, cho_solve

from streamk.arrays import Array, Arrays, Floats
from streamk.compiling import INNER
from streamk.dispatch import implements
from streamk.experts.expert import (
    EVENTS,
    ITERATE,
    Expert,
    Lesson,
    Merge,
    count_step,
    step,
)
from streamk.experts.projection import multipliers, project_around, project_block, residuals_of, ridges
from streamk.features.matrix import add_gram, tiles_of
from streamk.losses import residuals
from streamk.schedules import regularization_at
from streamk.state import Field, Stateful
from streamk.threads import one_blas_thread
from streamk.vector import factor
from streamk.vector.lanes import LANES
from streamk.vector.linear_algebra import LARGEST_COEFFICIENT

_MOST = 1e100  # of the numbers in a factor or a sum


Recursing = namedtuple(
    "Recursing",
    "first features coefficients clock loss rho memory projected begin diagonal factor weights sums",
)


class Recursion(Expert):
    """Recursive least squares.

    Parameters
    ----------
    loss, average, columns
        As for :class:`streamk.experts.expert.Expert`: squared, huber or epsilon-insensitive.
    ridge
        The penalty, in units of one event.
    together
        Whether blocks of events are learned, and ``P⁻¹`` is stored instead of ``P``.
    projected
        Whether the other blocks are projected, with ``rho`` and ``memory`` as for
        :class:`streamk.experts.projection.Projection`.
    """

    rule = "recursion"
    record_type = Recursing

    def __init__(
        self,
        loss: int,
        average: bool,
        ridge: float,
        together: bool,
        projected: bool = False,
        rho: float = 0.0,
        memory: int | None = None,
        columns: slice | None = None,
    ) -> None:
        super().__init__(loss, average, columns)
        self.ridge, self.together = float(ridge), together
        self.projected, self.rho = projected, float(rho)
        self.memory = np.inf if memory is None else float(memory)
        self.close()

    def close(self) -> None:
        """Drop the information of the open block; it must be opened again before an event is learned."""
        self.opening, self.begin = 0, 0
        self.start, self.weights = np.zeros((2, self.coefficients.shape[1], 0))
        self.sums, self.diagonal, self.factor = np.zeros((3, 0))
        self.gram: Array = np.zeros((0, 0))

    @property
    def is_open(self) -> bool:
        """Whether it has an open block."""
        return len(self.sums) > 0

    def start_block(self, opening: int, block: slice, fresh: bool) -> None:
        """Open a block of columns, without events: ``P = I/(ridge F)``."""
        block = self.overlap(block)
        size, penalty = block.stop - block.start, self.ridge * self.features
        self.opening, self.begin = opening, block.start
        self.start = self.coefficients[ITERATE, :, block].astype(np.float64)
        self.weights, self.sums = self.start.copy(), np.zeros(size)
        if self.together:
            self.gram = penalty * np.eye(size)
        else:
            self.diagonal, self.factor = np.full(size, 1.0 / penalty), factor.empty_factor(size)

    @property
    def _block(self) -> slice:
        return slice(self.begin, self.begin + len(self.sums))

    def required_columns(self) -> list[slice]:
        """Return the open block, and all columns in tiles if the others move too."""
        start, columns = self.first + self.begin, self.coefficients.shape[2]
        others = self.projected and columns > len(self.sums)
        tiles = tiles_of(self.first, self.first + columns) if others else []
        return [slice(start, start + len(self.sums)), *tiles]

    def step_many(self, lesson: Lesson) -> None:
        """Fit the open block to a block of events; then project the others onto what is left."""
        residual = residuals_of(self.loss, lesson)
        opened = lesson.kept[0].astype(np.float64)
        weighted = opened * lesson.weights[:, None]
        add_gram(self.gram, weighted, opened)
        self.sums += weighted.sum(axis=0)
        with one_blas_thread():
            move = cho_solve(cho_factor(factor.solvable(self.gram), lower=True), weighted.T @ residual)
            np.clip(self.weights + move.T, -LARGEST_COEFFICIENT, LARGEST_COEFFICIENT, out=self.weights)
            self.coefficients[ITERATE, :, self._block] = self.weights
        if len(lesson.kept) > 1:
            left = residual - opened @ move
            rho = ridges(self, self.rho, self.memory, lesson.weights)
            project_block(
                self, self.required_columns()[1:], list(self._others(lesson)), left, rho, multipliers
            )
        self.count_block(len(lesson.aims))

    def _others(self, lesson: Lesson) -> Iterator[Floats]:
        """Yield the features of all columns, those of the open block being 0."""
        for columns, kept in zip(self.required_columns()[1:], lesson.kept[1:], strict=True):
            tile = self.overlap(columns)
            low, high = (
                min(max(end, tile.start), tile.stop) for end in (self._block.start, self._block.stop)
            )
            phi = kept
            if low < high:
                phi = kept.copy()
                phi[:, low - tile.start : high - tile.start] = 0.0
            yield phi

    @property
    def information(self) -> Array:
        """The open block's ``P⁻¹``, ``(F_b, F_b)``."""
        if not self.together:
            return factor.information(self.diagonal, self.factor)
        lower = np.tril(self.gram)
        return np.asarray(lower + np.tril(lower, -1).T)

    def merge_from(self, experts: Sequence[Self], merge: Merge) -> None:
        """Become the merge: by information in the block that was opened last, elsewhere the weighted mean.

        Experts that have not opened that block have no information about it. If shares are proportional to
        events, information adds up unscaled.
        """
        super().merge_from(experts, merge)
        shares, columns, counts = merge
        latest = max(expert.opening for expert in experts)
        informed = [k for k, expert in enumerate(experts) if expert.is_open and expert.opening == latest]
        if not informed:
            return
        block = experts[informed[0]]._block
        self.start_block(latest, slice(self.first + block.start, self.first + block.stop), False)
        penalty, events = self.ridge * self.features, sum(expert.clock[EVENTS] for expert in experts)
        gram, moments = penalty * np.eye(len(self.sums)), np.zeros(self.weights.shape)
        self.start[:] = 0.0
        part = sum(shares[k] for k in informed)
        for k in informed:
            expert, (rows, unit) = experts[k], columns[k]
            evidence = counts[k] if counts else shares[k] * events / max(expert.clock[EVENTS], 1.0)
            information = expert.information
            moved = (expert.weights @ information - penalty * expert.start)[: len(rows)]
            moments[rows] += evidence * (unit.scale * moved + unit.offset * expert.sums)
            gram += evidence * (information - penalty * np.eye(len(information)))
            self.start[rows] += shares[k] / part * unit.scale * expert.start[: len(rows)]
            self.sums += evidence * expert.sums
        np.clip(self.start, -_MOST, _MOST, out=self.start)
        with one_blas_thread():
            right = moments + penalty * self.start
            solved = cho_solve(cho_factor(factor.positive(gram), lower=True), right.T).T
            self.weights = np.ascontiguousarray(np.clip(solved, -LARGEST_COEFFICIENT, LARGEST_COEFFICIENT))
            if self.together:
                self.gram = np.tril(gram)
            else:
                self.diagonal, self.factor = factor.of_information(factor.positive(gram))
        before = self.coefficients[:, :, self._block]
        moved = before + (self.weights - before[ITERATE]).astype(np.float32)
        self.coefficients[:, :, self._block] = np.clip(moved, -LARGEST_COEFFICIENT, LARGEST_COEFFICIENT)
        self.coefficients[ITERATE, :, self._block] = self.weights

    def fields(self) -> Iterator[Field | Stateful]:
        """Yield coefficients and clock, and the state of the open block, if there is one."""
        yield from super().fields()
        what = "numbers of an open block"
        if self.is_open:
            yield Field("start", what, -_MOST, _MOST, by_output=True)
            yield Field("weights", what, -LARGEST_COEFFICIENT, LARGEST_COEFFICIENT, by_output=True)
            yield Field("sums", what, -_MOST, _MOST)
            if self.together:
                yield Field("gram", what, -_MOST, _MOST, possible=factor.is_positive)
            else:
                yield Field("diagonal", what, 0.0, _MOST)
                yield Field("factor", what, -_MOST, _MOST)

    def load_state_dict(self, arrays: Arrays) -> None:
        """Load the arrays of a model file; without those of the open block, the block is closed."""
        if "sums" not in arrays:
            self.close()
        super().load_state_dict(arrays)


@implements(step, Recursing)
def _step(expert, e, observation):
    phi, i, outputs, aim, known, weight, residual, _ = observation
    length = residuals(expert.loss, outputs[e, ITERATE, :known], aim, residual[:known])
    left = _pursue(expert, phi, i, residual[:known], weight)
    if expert.projected:
        for k in range(known):
            residual[k] *= left
        rho = regularization_at(expert.rho, expert.memory, expert.clock[EVENTS]) / weight * expert.features
        block = expert.begin, expert.begin + expert.sums.shape[0]
        project_around(expert, block, phi, i, length, residual[:known], rho)
    count_step(expert.clock, expert.coefficients)


@njit(**INNER)
def _pursue(expert, phi, i, residual, weight):
    """Fit the open block to the event of row ``i``; return the share of the residual that is left."""
    size, begin = expert.sums.shape[0], expert.begin
    padded = (size + LANES - 1) // LANES * LANES
    x, gain = np.zeros(padded), np.zeros(padded)
    noise = factor.noise_of(weight)
    for j in range(size):
        x[j] = phi[i, expert.first + begin + j]
        expert.sums[j] += x[j] / noise
    left = factor.update(expert.diagonal, expert.factor, x, noise, gain)
    for k in range(residual.shape[0]):
        if residual[k] != 0.0:
            length = residual[k] / left
            for j in range(size):
                moved = expert.weights[k, j] + gain[j] * length
                moved = min(max(moved, -LARGEST_COEFFICIENT), LARGEST_COEFFICIENT)
                expert.weights[k, j] = moved
                expert.coefficients[ITERATE, k, begin + j] = np.float32(moved)
    return noise / left
