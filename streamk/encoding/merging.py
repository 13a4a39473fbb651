"""The statistics of several learners as those of one: of parts of a stream, or of what came since a base."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from streamk.arrays import Array
from streamk.encoding.scaling import (
    AGE,
    COUNT,
    FOLLOWING,
    GIVEN,
    HELD,
    LEAST,
    MEAN,
    PREVIOUS,
    RECENT,
    SQUARES,
    STEP,
    add,
    kept_numbers,
)


def pooled(parts: Sequence[Array], horizon: float, base: Array | None = None) -> Array:
    """Return the statistics of the values behind several others (Chan, Golub and LeVeque 1979).

    Of the held values, the farthest is held again and the others are counted. If all continue from ``base``,
    its values are counted once; statistics that follow a stream fade, so they are pooled as if they had no
    values in common. Fixed statistics do not change.
    """
    if fixed := [part for part in parts if part[HELD] == GIVEN]:
        return fixed[0].copy()
    if base is not None and base[COUNT] > 0.0 and horizon == np.inf:
        return _pooled_since(parts, base)
    seen = [part for part in parts if part[COUNT] > 0.0]
    if len(seen) < 2:
        return seen[0].copy() if seen else np.zeros(kept_numbers(horizon))
    whole, table = np.zeros(kept_numbers(horizon)), np.array(seen)
    counts, means = table[:, COUNT], table[:, MEAN]
    whole[COUNT], whole[MEAN] = counts.sum(), counts @ means / counts.sum()
    whole[SQUARES] = table[:, SQUARES].sum() + counts @ (means - whole[MEAN]) ** 2
    held = table[~np.isnan(table[:, HELD]), HELD]
    order = np.argsort(np.abs(held - whole[MEAN]), kind="stable")
    whole[HELD] = held[order[-1]] if len(held) else np.nan
    for value in held[order[:-1]]:
        add(value, whole[None], 0, np.inf, 1.0)
    whole[COUNT] = min(whole[COUNT], horizon)
    if whole[COUNT] < counts.sum():
        whole[SQUARES] *= whole[COUNT] / (counts.sum() + max(len(held) - 1, 0))
    if len(whole) == FOLLOWING:
        whole[PREVIOUS], whole[AGE] = table[-1, PREVIOUS], table[:, AGE].max()
        whole[STEP] = counts @ table[:, STEP] / counts.sum()
        for column in (LEAST, RECENT):
            known = table[table[:, column] > 0.0, column]
            whole[column] = known.min() if len(known) else 0.0
    return whole


def _pooled_since(parts: Sequence[Array], base: Array) -> Array:
    """Return statistics pooled by sums about the mean of ``base``, with each value of ``base`` counted once.

    Parts that hold another value than ``base`` have counted its held value.
    """
    table, centre, held = np.array([part for part in parts if part[COUNT] > 0.0]), base[MEAN], base[HELD]
    other = ~np.isnan(table[:, HELD]) & (table[:, HELD] != held)
    surplus = (
        0.0 if np.isnan(held) else max(other.sum() - 1.0, 0.0)
    )  # counts of the held value after the first
    means, distance = table[:, MEAN] - centre, 0.0 if np.isnan(held) else held - centre
    count = base[COUNT] + (table[:, COUNT] - base[COUNT]).sum() - surplus
    total = (table[:, COUNT] * means).sum() - surplus * distance
    added = table[:, SQUARES] + table[:, COUNT] * means**2 - base[SQUARES]
    squares = base[SQUARES] + added.sum() - surplus * distance**2 - total**2 / count
    whole = base.copy()
    whole[COUNT], whole[MEAN], whole[SQUARES] = count, centre + total / count, max(squares, 0.0)
    values = table[other, HELD]
    order = np.argsort(np.abs(values - whole[MEAN]), kind="stable")
    if len(values):
        whole[HELD] = values[order[-1]]
    for value in values[order[:-1]]:
        add(value, whole[None], 0, np.inf, 1.0)
    return whole
