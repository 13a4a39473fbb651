"""How one event moves the coefficients: the learners' rules, in one place for the compiled loop.

With no block open, the event is projected onto (Kaczmarz). With a block open
(:class:`streamk.learners.recursion.Active`) that block pursues the residual first; if it ``projects``, the
other blocks are then projected onto what is left. Numba compiles the way that the type asks for.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import overload

from streamk.learners.projection import project
from streamk.learners.recursion import pursue


def move(
    active: Any, coefficients: Any, first: Any, phi: Any, i: Any, length: Any, residual: Any, rho: Any,
    weight: Any,
) -> None:  # fmt: skip
    """Move the coefficients by the event of row ``i`` (in compiled code).

    Parameters
    ----------
    active
        The open block, or None.
    coefficients, first, phi, i, length, residual, rho
        See :func:`streamk.learners.projection.project`.
    weight
        The event's weight.
    """
    raise NotImplementedError("for compiled code")


@overload(move, jit_options={"error_model": "numpy"})
def _move(active, coefficients, first, phi, i, length, residual, rho, weight) -> Any:  # type: ignore[no-untyped-def]
    return _project if isinstance(active, types.NoneType) else _pursue


def _project(active, coefficients, first, phi, i, length, residual, rho, weight):  # type: ignore[no-untyped-def]
    project(coefficients, first, phi, i, length, residual, rho)


def _pursue(active, coefficients, first, phi, i, length, residual, rho, weight):  # type: ignore[no-untyped-def]
    left = pursue(active, coefficients, first, phi, i, residual, weight)
    if active.projects:
        _project_others(active, coefficients, first, phi, i, length, residual, rho, left)


@njit(cache=True, error_model="numpy")
def _project_others(active, coefficients, first, phi, i, length, residual, rho, left):  # type: ignore[no-untyped-def]
    """Project the other blocks onto the ``left`` share of the residual; row ``i`` of ``phi`` is used up."""
    for j in range(active.first, active.first + active.diagonal.shape[0]):
        phi[i, j] = np.float32(0.0)
    for k in range(residual.shape[0]):
        residual[k] *= left
    project(coefficients, first, phi, i, length, residual, rho)
