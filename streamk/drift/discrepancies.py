"""Discrepancies: the share of values of every input that differ between two sets of events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import chain
from typing import Any

import numpy as np

from streamk.arrays import Array
from streamk.encoding.fields import Event, kind_of_value, name_of

_NUMBER, _ABSENT = object(), object()


def discrepancies(before: Sequence[Event], after: Sequence[Event]) -> dict[str, float]:
    """Return for each input the share of events whose value has moved, from 0 to 1, largest first.

    Of numbers it is the statistic of Kolmogorov and Smirnov, ``sup_t |F(t) − G(t)|``, with ``F(t)`` and
    ``G(t)`` the shares of events that have a number up to ``t``; of strings, booleans, missing and absent
    values the distance of total variation, ``½ Σ_v |p(v) − q(v)|``; where an input has both, the larger of
    the two.

    Examples
    --------
    >>> discrepancies([{"a": 1, "b": "x"}, {"a": 2, "b": "x"}], [{"a": 2, "b": "x"}, {"a": 3, "b": None}])
    {'a': 0.5, 'b': 0.5}
    """
    fields = dict.fromkeys(chain.from_iterable(chain(before, after)))
    moved = {name_of(field): _moved(field, before, after) for field in fields}
    return dict(sorted(moved.items(), key=lambda item: (-item[1], item[0])))


def _moved(field: Hashable, before: Sequence[Event], after: Sequence[Event]) -> float:
    (numbers, atoms), (other_numbers, other_atoms) = _split(field, before), _split(field, after)
    total = sum(abs(atoms[v] / len(before) - other_atoms[v] / len(after)) for v in {*atoms, *other_atoms})
    places = np.concatenate([numbers, other_numbers])
    shares = np.searchsorted(numbers, places, side="right") / len(before)
    others = np.searchsorted(other_numbers, places, side="right") / len(after)
    return max(0.5 * total, float(np.abs(shares - others).max(initial=0.0)))


def _split(field: Any, events: Sequence[Event]) -> tuple[Array, Counter[object]]:
    """Return the sorted numbers of a field, and the counts of its other values."""
    numbers: list[float] = []
    atoms: list[object] = []
    for x in events:
        value = x.get(field, _ABSENT)
        kind = None if value is _ABSENT else kind_of_value(value)
        if kind == "number":
            numbers.append(float(value))
            atoms.append(_NUMBER)
        else:
            atoms.append(None if kind == "missing" else value)
    return np.sort(np.array(numbers, dtype=np.float64)), Counter(atoms)
