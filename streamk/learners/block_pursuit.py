"""Least squares on one block of features, block of events by block of events.

The open block of features accumulates ``G = Σ ΦᵀWΦ`` (Andrecut 2016, §3.3), and every block of events moves
its coefficients by ``(G + ridge I)⁻¹ ΦᵀW r``, ``r`` being what the expansion leaves of the events. But for
rounding this is what :mod:`streamk.learners.recursion` does event by event. ``G`` is a sum of float64,
symmetric and positive whatever the number of events.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from streamk.expansion import LARGEST_COEFFICIENT, Expansion
from streamk.features.products import add_gram, one_blas_thread
from streamk.learners.block_projection import multipliers, residuals_of, ridges
from streamk.learners.blocks import Gathered, average, look
from streamk.learners.events import LOSS, STEPS

Array = NDArray[np.float64]
_JITTER = 1e-12  # of the trace


class Accumulated(NamedTuple):
    """The open block: columns ``first … first + F_b − 1``.

    ``gram`` is ``G + ridge I``, of which the lower triangle counts; ``weights`` are the block's coefficients
    ``(K, F_b)``. ``projects`` says whether other blocks move too.
    """

    first: int
    projects: bool
    gram: Array
    weights: Array


def accumulating(first: int, projects: bool, ridge: float, weights: Array) -> Accumulated:
    """Return a block that has seen nothing."""
    return Accumulated(first, projects, ridge * np.eye(weights.shape[1]), weights)


def is_positive(gram: Array) -> bool:
    """Return whether the lower triangle is that of a Gram matrix that can be solved for."""
    try:
        cho_factor(_solvable(gram), lower=True)
    except (ValueError, np.linalg.LinAlgError):
        return False
    return bool((gram.diagonal() > 0.0).all())


def _solvable(gram: Array) -> Array:
    """Return the matrix with what the rounding of its largest numbers may have taken from the smallest."""
    return gram + _JITTER * float(np.trace(gram)) * np.eye(len(gram))


def pursue_block(e: Expansion, block: Gathered, active: Accumulated) -> None:
    """Fit the open block to a block of events; then, if it ``projects``, move the others by what is left."""
    rule = block.rules[0]
    open_columns = slice(active.first, active.first + len(active.gram))
    outputs, (phi,) = look(e, block, [slice(0, e.width)])
    aims = block.aims(0, outputs[0, -1])
    residual = residuals_of(int(rule[LOSS]), outputs[0, 0], aims, block.outputs)
    opened = phi[:, open_columns].astype(np.float64)
    weighted = opened * block.weights[:, None]
    add_gram(active.gram, weighted, opened)
    with one_blas_thread():
        step = cho_solve(cho_factor(_solvable(active.gram), lower=True), weighted.T @ residual)
        np.clip(active.weights + step.T, -LARGEST_COEFFICIENT, LARGEST_COEFFICIENT, out=active.weights)
        e.coefficients[0, 0, :, open_columns] = active.weights
        if active.projects and e.features > len(active.gram):
            phi[:, open_columns] = 0.0
            left = residual - opened @ step
            gram = (phi @ phi.T).astype(np.float64)
            change = multipliers(gram, left, ridges(rule, block, e.features)).astype(np.float32)
            e.coefficients[0, 0] += change.T @ phi
    average(e, block.state[STEPS])
