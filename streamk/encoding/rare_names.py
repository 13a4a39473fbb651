"""Rare names: the choice of names of numbers to evict when a learner holds the maximum number.

A name's *use* is how often its number was learned; it halves at each eviction. Between evictions it costs
nothing, since the statistics of a number count its values: ``uses`` ``(names, 3)`` holds their counts at the
last eviction, in two columns, and the use up to then. Names without a row are newer. If scales follow the
stream, counts end at the horizon, and the age of the statistics replaces them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from streamk.arrays import Array, Places
from streamk.encoding.scaling import AGE, COUNT, FOLLOWING, GIVEN, HELD

SHARE = 8  # one in so many names leaves at a time
COLUMNS = 3
_COUNTED, _AGED, _USE = range(COLUMNS)
_FADING = 0.5


class NamesFullError(Exception):
    """The error of too many names of numbers, in row ``row`` of a batch or in an event."""

    row = 0


def no_uses() -> Array:
    """Return the uses of a learner without any eviction."""
    return np.zeros((0, COLUMNS))


def faded(statistics: Array, uses: Array) -> Array:
    """Return the present uses of all names, one row for each row of the statistics."""
    now = np.zeros((len(statistics), COLUMNS))
    now[: len(uses)] = uses
    counted, aged = statistics[:, COUNT].copy(), np.zeros(len(statistics))
    counted += (counted > 0.0) & ~np.isnan(statistics[:, HELD])  # the value held is not counted
    counted = np.maximum(counted, 1.0)  # it waits to be learned
    if statistics.shape[1] == FOLLOWING:
        aged = statistics[:, AGE]
    since = np.maximum(counted - now[:, _COUNTED], np.abs(aged - now[:, _AGED]))
    now[:, _USE] = _FADING * now[:, _USE] + since
    now[:, _COUNTED], now[:, _AGED] = counted, aged
    return now


def staying(statistics: Array, uses: Array, held: Sequence[int], leave: int) -> Places:
    """Return the slots that stay, in order, after ``leave`` evictions of the least used, oldest names.

    ``uses`` are those of :func:`faded`; ``held`` slots stay, and names with fixed scales are evicted last.
    """
    fixed = statistics[:, HELD] == GIVEN
    order = np.lexsort((uses[:, _USE], fixed))
    gone = order[~np.isin(order, held)][:leave]
    return np.setdiff1d(np.arange(len(statistics)), gone)


def most_used(parts: Sequence[Any], most: int | None) -> tuple[list[str], dict[str, float] | None]:
    """Return the union of the names of learners' inputs, at most the ``most`` used ones, and their uses.

    ``parts`` are :class:`streamk.encoding.names.Names`; with ``most`` None, no name is evicted. The order is
    that of first appearance. The uses are None if there was no eviction in any of them and none is needed.
    """
    names = list(dict.fromkeys(chain.from_iterable(part.numbers for part in parts)))
    if most is None or (len(names) <= most and not any(len(part.uses) for part in parts)):
        return names, None
    total = dict.fromkeys(names, 0.0)
    for part in parts:
        statistics = part.statistics[: part.slots]
        use = np.where(statistics[:, HELD] == GIVEN, np.inf, faded(statistics, part.uses)[:, _USE])
        for name, value in zip(part.numbers, use.tolist(), strict=True):
            total[name] += value
    leave = sorted(names, key=total.__getitem__)[: max(0, len(names) - most)]
    gone = set(leave)
    return [name for name in names if name not in gone], total


def pooled_uses(statistics: Array, names: Sequence[str], use: dict[str, float] | None) -> Array:
    """Return the uses of names with pooled statistics; ``use`` is the result of :func:`most_used`."""
    if use is None:
        return no_uses()
    uses, sums = faded(statistics, no_uses()), np.array([use[name] for name in names])
    uses[:, _USE] = np.where(np.isfinite(sums), sums, uses[:, _USE])
    return uses
