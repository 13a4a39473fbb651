"""Doubly stochastic functional gradients: random events and random features, a block of each at every step.

The function is improved along the gradient of ``E ℓ(f(x), y) + ν/2 ‖f‖²`` in the space of the kernel,
estimated from a block of events and a fresh block of ``F_b`` random features (Dai et al. 2014, Algorithm 1):
at step ``t = 1, 2, …``, with the features ``φ`` of block ``t`` and ``γ_t = θ/t``,

    α_t = −γ_t mean_i ℓ'(f(x_i), y_i) φ(x_i)/F_b        α_j ← (1 − γ_t ν) α_j  for all earlier j

which is the paper's with its one feature a step if ``F_b = 1``. It converges like ``1/t`` if ``θν`` is
between 1 and 2 or a whole number (Theorem 4). Preconditioned, a block is fitted to the gradients of the batch
instead, as in the code that the paper's authors published,

    α_t = η_t (κ ΦᵀΦ/m + ν F_b I)⁻¹ Φᵀ G/m     G_i = −ℓ'(f(x_i), y_i),  η_t = 1/(1 + 10⁻⁴ t)

``κ`` being the curvature of the loss (:mod:`streamk.losses`), and nothing decays. Both are multiplied by the
weights of the events. ``ℓ'`` is clipped to ±12, so that it is bounded as the theorem assumes.

In addition to the fresh block, a step visits ``revisits`` others, in turn from the first to the last and
again; a step without a fresh block visits one more (block coordinate descent).

The decay multiplies all coefficients, instead of a separate scalar as the paper suggests. It costs ``F K``
multiplications, few compared with the ``m F`` cosines of the batch's features, and the stored coefficients
are those of the model.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from typing import Self

import numpy as np
from numba import njit
from scipy.linalg import cho_factor, cho_solve

from streamk.arrays import AnyArray, Floats
from streamk.compiling import ENTRY
from streamk.dispatch import implements
from streamk.experts.expert import (
    ITERATE,
    STEPS,
    Expert,
    Lesson,
    Merge,
    step,
)
from streamk.features.matrix import add_gram
from streamk.losses import curvature, descents
from streamk.threads import one_blas_thread
from streamk.vector.linear_algebra import LARGEST_COEFFICIENT

VISIT = 2  # of the clock: the old block whose turn is next
_JITTER = 1e-6  # of the trace: the rounding of float32
_SLOWING = 1e-4
_LARGEST = np.float32(LARGEST_COEFFICIENT)
_LARGE = 1e6  # of a feature whose square, times the heaviest weight, is far from what float32 holds
_MOST = np.float32(1e38)
_STEEPEST = 12.0  # twice what a standardised target is clipped to


Descending = namedtuple("Descending", "first coefficients")


class Gradient(Expert):
    """Doubly stochastic gradients.

    Parameters
    ----------
    loss, average, columns
        As for :class:`streamk.experts.expert.Expert`: any but margin.
    size
        ``F_b``.
    precondition
        Whether blocks are fitted.
    regularization
        ``ν``.
    theta
        ``θ``; ``1/ν`` by default.
    revisits
        Old blocks visited at every step.
    quantile
        Of the loss of that name.
    """

    rule = "gradient"
    record_type = Descending

    def __init__(
        self,
        loss: int,
        average: bool,
        size: int,
        precondition: bool,
        regularization: float,
        theta: float | None,
        revisits: int,
        quantile: float = 0.5,
        columns: slice | None = None,
    ) -> None:
        super().__init__(loss, average, columns)
        self.clock = np.zeros(3)
        self.size, self.precondition, self.revisits, self.quantile = size, precondition, revisits, quantile
        self.regularization = float(regularization)
        self.theta = 1.0 / self.regularization if theta is None else float(theta)
        self.fresh: slice | None = None

    def start_block(self, opening: int, block: slice, fresh: bool) -> None:
        """Visit the block at the next step, if it was never visited."""
        self.fresh = self.overlap(block) if fresh else None

    def merge_from(self, experts: Sequence[Self], merge: Merge) -> None:
        """Become the merge; whose turn it is, which is no sum, is as in the first."""
        super().merge_from(experts, merge)
        self.clock[VISIT] = experts[0].clock[VISIT]

    def required_columns(self) -> list[slice]:
        """Return the blocks of the next step, the fresh one first."""
        blocks = [] if self.fresh is None else [self.fresh]
        old = self._blocks - len(blocks)
        wished = self.revisits if blocks else self.revisits + 1
        for k in range(min(wished, old)):
            start = (self._turn(old) + k) % old * self.size
            blocks.append(slice(start, start + self.size))
        return [slice(self.first + block.start, self.first + block.stop) for block in blocks]

    @property
    def _blocks(self) -> int:
        return self.features // self.size

    def _turn(self, old: int) -> int:
        return int(self.clock[VISIT]) % old

    def step_many(self, lesson: Lesson) -> None:
        """Take a step along the gradient of a block of events."""
        blocks = [slice(w.start - self.first, w.stop - self.first) for w in self.required_columns()]
        visited = len(blocks) - (self.fresh is not None)
        old = self._blocks - (self.fresh is not None)
        if self.precondition:
            self._solve(lesson, blocks)
        else:
            self._descend(lesson, blocks)
        if old:
            turn = self._turn(old) + visited
            self.clock[VISIT] = turn - old if turn > old else turn
        self.fresh = None
        self.count_block(len(lesson.aims))

    def _gradients(self, lesson: Lesson, outputs: Floats) -> Floats:
        """Return ``w_i G_i/m``, ``(m, K)``; outputs not yet known have none."""
        out = np.zeros(outputs.shape)
        _descents(self.loss, outputs, lesson.aims, self.quantile, lesson.known, out)
        weights = lesson.weights[:, None] / len(lesson.aims)
        return (np.clip(out, -_STEEPEST, _STEEPEST) * weights).astype(np.float32)

    def _descend(self, lesson: Lesson, blocks: list[slice]) -> None:
        """Take a step of Algorithm 1."""
        number = self.clock[STEPS] + 1.0
        # before step θν/2 the paper's factor is below −1, and what it multiplies is wiped out at step θν
        decay = np.float32(max(1.0 - self.theta * self.regularization / number, -1.0))
        gradients = self._gradients(lesson, lesson.outputs[ITERATE])
        coefficients = self.coefficients[ITERATE]
        coefficients *= decay
        gain = np.float32(self.theta / number / (self.size * len(blocks)))
        with one_blas_thread():
            for at, phi in zip(blocks, lesson.kept, strict=True):
                moved = coefficients[:, at] + gain * (gradients.T @ _with_room(phi))
                coefficients[:, at] = np.clip(moved, -_LARGEST, _LARGEST)

    def _solve(self, lesson: Lesson, blocks: list[slice]) -> None:
        """Fit the blocks to the gradients, one after the other; a short batch fits half as many features."""
        ridge, outputs = self.regularization * self.size, lesson.outputs[ITERATE]
        bend, rate = curvature(self.loss), 1.0 / (1.0 + _SLOWING * (self.clock[STEPS] + 1.0))
        size = min(self.size, max(1, len(lesson.aims) // 2))
        weights = (bend / len(lesson.aims) * lesson.weights).astype(np.float32)[:, None]
        for at, whole in zip(blocks, lesson.kept, strict=True):
            phi = _with_room(whole[:, :size])
            system = np.zeros((size, size))
            add_gram(system, phi * weights, phi)
            np.fill_diagonal(system, system.diagonal() + max(ridge, _JITTER * np.trace(system)))
            with one_blas_thread():
                slope = phi.T @ self._gradients(lesson, outputs)
                solved = rate * cho_solve(cho_factor(system, lower=True), slope)
                change = np.clip(solved, -_LARGEST, _LARGEST).astype(np.float32)
                place = slice(at.start, at.start + size)
                moved = self.coefficients[ITERATE, :, place] + change.T
                self.coefficients[ITERATE, :, place] = np.clip(moved, -_LARGEST, _LARGEST)
                if len(blocks) > 1:
                    outputs = np.clip(outputs + phi @ change, -_MOST, _MOST).astype(np.float32)


def _with_room(phi: Floats) -> AnyArray:
    """Return features whose products with the heaviest weights stay finite: float64 where they must."""
    return phi.astype(np.float64) if abs(phi).max(initial=0.0) > _LARGE else phi


@njit(**ENTRY)
def _descents(loss, outputs, aims, quantile, known, out):
    for i in range(outputs.shape[0]):
        descents(loss, outputs[i, :known], aims[i], quantile, out[i, :known])


@implements(step, Descending)
def _step(expert, e, observation):
    pass
