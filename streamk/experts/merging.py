"""What several experts of least squares know together: information adds up.

An expert knows ``A = penalty I + Σ λ… φ φᵀ`` and ``A α``, ``α`` being its coefficients. Experts that learned
apart know ``penalty I + Σ (A_e − penalty I)``, and ``Σ A_e α_e``. Those that went on from one, the last of
them, which counts ``1 − n`` times then, count once what it knew. With forgetting, means are taken instead.

One that has begun anew knows less in some directions than ``penalty I``. It is taken to have been told less,
and that its coefficients are what they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from streamk.arrays import Array, Integers
from streamk.experts.expert import EVENTS, Columns, Counts, Shares
from streamk.threads import one_blas_thread


def told_by(
    experts: Sequence[Any],
    shares: Shares,
    columns: Columns,
    counts: Counts,
    joined: Integers,
    outputs: int,
) -> tuple[Array, Array]:
    """Return ``A`` ``(d, d)`` of experts on the columns ``joined``, and ``A α`` ``(outputs, d)``."""
    where = {int(column): k for k, column in enumerate(joined)}
    penalty = experts[0].penalty * np.eye(len(joined))
    adds = experts[0].forgetting == 1.0  # the evidence of events; what fades is averaged
    known = penalty.copy() if adds else np.zeros_like(penalty)
    moved = np.zeros((outputs, len(joined)))
    for k, (expert, share, (rows, unit)) in enumerate(zip(experts, shares, columns, strict=True)):
        at = np.array([where[int(column)] for column in expert.joined], dtype=np.int64)
        told, weights = penalty.copy(), np.zeros((len(rows), len(joined)))
        told[np.ix_(at, at)] = expert.information()
        weights[:, at] = unit.scale * expert.weights[: len(rows), : len(at)]
        if unit.offset:  # targets around another mean: the constant takes the difference
            weights[:, joined == 0] += unit.offset / expert.constant
        times = evidence(experts, k, share, counts)
        apart = counts is None or counts[-1] == 0.0 or not expert.goes_on_from(experts[-1])
        if adds and apart and expert.restarts:
            told -= _least(told, expert.penalty) * penalty
            moved[rows] += times * (weights @ told) + share * expert.penalty * weights
            known += times * told
        else:
            moved[rows] += times * (weights @ told)
            known += times * (told - penalty if adds else told)
    return known, moved


def evidence(experts: Sequence[Any], k: int, share: float, counts: Counts) -> float:
    """Return how often what expert ``k`` knows counts.

    By its ``share``, that is as many of all events, if nothing is said of it; by the share alone if it fades.
    """
    expert = experts[k]
    if expert.forgetting < 1.0:
        return share
    if counts is not None:
        return counts[k]
    events = sum(other.clock[EVENTS] for other in experts)
    return float(share * events / max(expert.clock[EVENTS], 1.0))


def _least(told: Array, penalty: float) -> float:
    """Return the part of the penalty that is within what an expert knows."""
    with one_blas_thread():
        return float(np.clip(np.linalg.eigvalsh(told)[0] / penalty, 0.0, 1.0)) if len(told) else 1.0
