"""Curves of many windows as few points, as many as a screen can show, with the range of the windows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from streamk.arrays import Array

MOST = 320  # points of a line; more are closer together than a screen shows

_PROPORTION = 50  # of a curve to the lowest one: beyond, it is not what the picture is drawn for


class Thinned(NamedTuple):
    """A line of few points; ``low`` and ``high`` are the extremes of the windows behind each point."""

    x: Array
    y: Array
    low: Array
    high: Array
    windows: int


def thin(x: Array, y: Array, most: int = MOST) -> Thinned:
    """Return the means of groups of successive windows, with the lowest and the highest of each group.

    A curve that is short enough is returned unchanged. A group is a gap only if all of its windows are
    unknown.
    """
    y = np.where(np.isfinite(y), y, np.nan)
    if len(x) <= most:
        return Thinned(x, y, y, y, 1)
    windows = -(-len(x) // most)
    groups = [slice(k, k + windows) for k in range(0, len(x), windows)]
    means, lows, highs = (np.full(len(groups), np.nan) for _ in range(3))
    for k, group in enumerate(groups):
        known = y[group][~np.isnan(y[group])]
        if len(known):
            means[k], lows[k], highs[k] = known.mean(), known.min(), known.max()
    return Thinned(np.array([x[group].mean() for group in groups]), means, lows, highs, windows)


def last_of(x: Array, y: Array, most: int = MOST) -> tuple[Array, Array]:
    """Return every so many-th point and the last: enough for a curve that is smooth."""
    y = np.where(np.isfinite(y), y, np.nan)
    step = max(1, -(-len(x) // most))
    kept = np.unique(np.append(np.arange(0, len(x), step), len(x) - 1)) if len(x) else np.arange(0)
    return x[kept], y[kept]


def diverged(curves: Sequence[Array]) -> set[int]:
    """Return which curves are out of all proportion to the others: typical values over 50 times the least."""
    sizes = [np.abs(curve[np.isfinite(curve)]) for curve in curves]
    typical = [float(np.median(size)) if len(size) else math.inf for size in sizes]
    least = min(typical, default=0.0)
    return {k for k, value in enumerate(typical) if value > _PROPORTION * least > 0.0}


def reach(values: Array) -> tuple[float, float]:
    """Return the range to draw, so that a few wild windows do not flatten all the others."""
    known = values[np.isfinite(values)]
    if not len(known):
        return 0.0, 1.0
    low, high = float(known.min()), float(known.max())
    inner_low, inner_high = (float(q) for q in np.quantile(known, [0.02, 0.98]))
    inner = inner_high - inner_low
    if inner > 0 and high - low > 5 * inner:
        low, high = max(low, inner_low - inner), min(high, inner_high + inner)
    if high == low:
        room = abs(high) * 0.05 or 0.5
        return low - room, high + room
    return low, high
