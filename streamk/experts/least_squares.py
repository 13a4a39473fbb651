"""Recursive least squares over the columns that have ever been other than 0, with forgetting.

After events ``i = 1 … n`` the coefficients minimise ``Σ_i λ^(n−i) w_i (y_i − φ_iᵀα)² + penalty ‖α‖²``. With
``λ < 1`` the past fades, and what no event speaks of any more would be known less and less until a single
event changes it at will; so the variances ``D`` of ``P = U D Uᵀ`` (:mod:`streamk.experts.factor`) never grow
beyond what they were before the first event.

Without forgetting, events hardly move what has long been learned. An expert told to ``watch`` begins anew
when its error has risen (:mod:`streamk.experts.change`): coefficients stay, and all that is known of them
counts as much as one block of events. Were it to count nothing, the next events would move it at will.

With the logistic loss an event is an equation of what Newton's method asks for (iteratively reweighted least
squares): a residual ``([k = y] − p_k)/κ`` of weight ``κ w``, ``κ`` being the curvature along expected steps
(:func:`streamk.losses.curvature_along`), which makes one matrix do for all classes.

A column joins when it first holds a number, so room for inputs that never come costs nothing. Two experts
merge by information: exactly, if nothing was forgotten.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numba.extending import overload
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from streamk.compiling import INNER
from streamk.encoding.rows import typed
from streamk.experts import change, factor
from streamk.experts.expert import (
    ITERATE,
    LARGEST_COEFFICIENT,
    Array,
    Columns,
    Counts,
    Expert,
    Floats,
    Shares,
    count_step,
    step,
)
from streamk.experts.information import evidence, told_by
from streamk.experts.joined import fit_event
from streamk.losses import curvature_along, residuals
from streamk.threads import one_blas_thread

_MOST = 1e100  # of the numbers in a factor


class Fitting(NamedTuple):
    """The expert as compiled code sees it; see :class:`LeastSquares`."""

    first: int
    coefficients: Floats
    clock: Array
    loss: int
    forgetting: float
    variance: float
    variables: NDArray[np.int64]
    places: NDArray[np.int64]
    diagonal: Array
    factor: Array
    weights: Array
    watched: bool
    watch: Array


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
        What the first of the columns always holds.
    watch
        Whether it begins anew when its error has risen.
    """

    rule = "least squares"

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
        self.variables = np.zeros(1, dtype=np.int64)  # how many, then the columns of each
        self.places = np.zeros(0, dtype=np.int64)  # of columns: variable, counted from 1
        self.diagonal, self.factor = np.zeros((2, 0))
        self.weights: Array = np.zeros((1, 0))
        self.watched, self.watch = watch, change.empty_watch()

    @property
    def record(self) -> Fitting:
        """The expert as compiled code sees it."""
        return Fitting(
            self.first, self.coefficients, self.clock, self.loss, self.forgetting, 1.0 / self.penalty,
            self.variables, self.places, self.diagonal, self.factor, self.weights,
            self.watched, self.watch,
        )  # fmt: skip

    def grow(self, outputs: int, features: int, width: int) -> None:
        """Make room; what is new is 0 and what is old unchanged."""
        super().grow(outputs, features, width)
        _, most, columns = self.coefficients.shape
        if len(self.places) < columns:
            self._open(columns)
        if len(self.weights) < most:
            self.weights = np.pad(self.weights, ((0, most - len(self.weights)), (0, 0)))

    def _open(self, columns: int) -> None:
        """Make room for variables, none of which has joined."""
        self.variables, self.places = (np.zeros(columns + k, dtype=np.int64) for k in (1, 0))
        self.diagonal = np.full(columns, 1.0 / self.penalty)
        self.factor = factor.empty_factor(columns)
        self.weights = np.zeros((len(self.weights), columns))

    def close(self) -> None:
        """Forget how well coefficients are known; columns join anew from where they stand."""
        self._open(len(self.places))
        self.watch = change.empty_watch()

    @property
    def joined(self) -> NDArray[np.int64]:
        """The columns that have joined, in the order of the variables."""
        return self.variables[1 : 1 + int(self.variables[0])]

    @property
    def restarts(self) -> int:
        """How often it began anew."""
        return int(self.watch[0, change.RISES])

    def information(self) -> Array:
        """Return ``P⁻¹`` of the variables that have joined."""
        count = len(self.joined)
        return factor.information(self.diagonal[:count], self.factor[: factor.factor_size(count)])

    def forget(self, columns: slice) -> None:
        """Begin anew if it stands on these columns of the map alone."""
        super().forget(columns)
        if self.within(columns):
            self.close()

    def rearrange(self, places: NDArray[np.int64]) -> None:
        """Move column ``j`` of the map to ``places[j]``; what has no place, −1, is forgotten."""
        old, own = self.joined.copy(), places[self.first : self.first + self.coefficients.shape[2]]
        moved = np.where(own[old] < 0, -1, own[old] - self.first)
        kept, known = np.flatnonzero(moved >= 0), self.information()
        if len(kept) < len(old):
            known = np.linalg.inv(np.linalg.inv(known)[np.ix_(kept, kept)])
        super().rearrange(places)
        weights = self.weights[:, kept].copy()
        self._open(self.coefficients.shape[2])
        self._set(moved[kept], known, weights)

    def _set(self, columns: NDArray[np.int64], known: Array, weights: Array) -> None:
        """Have these columns joined, with this information and these coefficients."""
        count = len(columns)
        self.variables[0], self.variables[1 : 1 + count] = count, columns
        self.places[columns] = np.arange(1, count + 1)
        if count:
            with one_blas_thread():
                found = factor.of_information(factor.solvable(known))
            self.diagonal[:count], self.factor[: factor.factor_size(count)] = found
        self.weights[:, :count] = weights
        self.coefficients[ITERATE] = 0.0
        self.coefficients[ITERATE][:, columns] = weights

    def become(self, columns: NDArray[np.int64], known: Array, weights: Array, events: float) -> None:
        """Have these columns joined, and no others: information and coefficients of so many events."""
        self._open(self.coefficients.shape[2])
        self._set(columns, known, np.clip(weights, -LARGEST_COEFFICIENT, LARGEST_COEFFICIENT))
        self.watch[0, change.KNOWN] = events

    def goes_on_from(self, before: Self) -> bool:
        """Return whether it has not begun anew since."""
        return self.restarts == before.restarts

    def take(self, experts: Sequence[Self], shares: Shares, columns: Columns, counts: Counts = None) -> None:
        """Become the merge by information: each says what it knows beyond what all were told before.

        One that has begun anew knows less than that in some directions. It is taken to have been told less,
        and that its coefficients are what they are.
        """
        super().take(experts, shares, columns, counts)
        if not any(len(expert.joined) for expert in experts):
            return
        joined = np.array(sorted({int(c) for expert in experts for c in expert.joined}), dtype=np.int64)
        known, moved = told_by(experts, shares, columns, counts, joined, len(self.weights))
        with one_blas_thread():
            solved = (
                cho_solve(cho_factor(factor.solvable(known), lower=True), moved.T).T if len(joined) else moved
            )
        for k, (expert, share) in enumerate(zip(experts, shares, strict=True)):
            change.take(self.watch, expert.watch, evidence(experts, k, share, counts))
        self._set(joined, known, np.clip(solved, -LARGEST_COEFFICIENT, LARGEST_COEFFICIENT))

    def parts(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that a model file keeps."""
        count, kept = len(self.joined), super().parts() | change.parts(self.watch)
        if not count:
            return kept
        return kept | {
            "variables": self.joined,
            "diagonal": self.diagonal[:count],
            "factor": self.factor[: factor.factor_size(count)],
            "weights": self.weights[:, :count],
        }

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take over the arrays of a model file, if they are possible."""
        super().restore(arrays)
        self.watch = change.restored(arrays)
        if "variables" not in arrays:
            return
        columns = len(self.places)
        joined = typed(arrays, "variables", np.int64, arrays["variables"].shape)
        count = len(joined)
        if (
            joined.ndim != 1
            or len(set(joined.tolist())) < count
            or not ((joined >= 0) & (joined < columns)).all()
        ):
            raise ValueError("its variables are impossible")
        size = factor.factor_size(count)
        diagonal, packed, weights = (
            typed(arrays, name, np.float64, shape)
            for name, shape in (
                ("diagonal", (count,)), ("factor", (size,)), ("weights", (len(self.weights), count)),
            )
        )  # fmt: skip
        if (
            not all((abs(kept) <= _MOST).all() for kept in (diagonal, packed, weights))
            or (diagonal < 0).any()
        ):
            raise ValueError("its least squares are impossible")
        self._open(columns)
        self.variables[0], self.variables[1 : 1 + count] = count, joined
        self.places[joined] = np.arange(1, count + 1)
        self.diagonal[:count], self.factor[:size], self.weights[:, :count] = diagonal, packed, weights


@overload(step, jit_options=INNER)
def _step(expert, phi, i, outputs, e, aim, known, weight, residual) -> Any:
    if expert.instance_class is not Fitting:
        return None

    def fit(expert, phi, i, outputs, e, aim, known, weight, residual):
        residuals(expert.loss, outputs[e, ITERATE, :known], aim, residual[:known])
        part = expert.forgetting
        if expert.watched:
            part *= change.part_to_keep(expert.watch, change.error_of(expert.loss, residual[:known], aim))
        curvature = curvature_along(expert.loss, residual[:known], aim)
        for k in range(known):
            residual[k] /= curvature
        fit_event(expert, phi, i, residual[:known], weight * curvature, part)
        count_step(expert.clock, expert.coefficients)

    return fit
