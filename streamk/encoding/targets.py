"""Checks of targets and sample weights."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import Any, cast

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from streamk.arrays import Array
from streamk.encoding.fields import kind_of
from streamk.encoding.rows import LARGEST, RowError

_HEAVIEST = 1e12  # with larger sample weights, sums of products would lose all others, or overflow
MOST_WEIGHT = 2.0**53 * _HEAVIEST  # of all events


def targets(y: Any, rows: int, what: str = "y") -> list[object]:
    """Return a series, array or sequence as a list of ``rows`` values."""
    values = y
    if not isinstance(y, (list, tuple)):
        if isinstance(y, np.ndarray):
            values = y.tolist()
        else:
            try:
                values = nw.from_native(y, series_only=True).to_list()
            except TypeError:
                raise ValueError(
                    f"{what} must be a series, an array or a list, not {type(y).__name__}"
                ) from None
    if not isinstance(values, (list, tuple)):
        raise ValueError(f"{what} must have one value a row, and it is a single value")
    if len(values) != rows:
        raise ValueError(f"X has {rows} rows and {what} has {len(values)}; they must be the same")
    return list(values)


def check_target(y: Any) -> float:
    """Return a target as a float; raise a ValueError if it is not a finite number."""
    if type(y) in (float, int) or kind_of(type(y)) == "number":
        try:
            value = float(y)
        except (OverflowError, ValueError):
            value = math.inf
        if abs(value) <= LARGEST:
            return value
    raise ValueError(
        f"the target is {str(y)[:40]} ({type(y).__name__}); a regression target must be a "
        f"finite number, at most {LARGEST:g} in size"
    )


def check_targets(values: Sequence[object], weights: Sequence[float]) -> list[float]:
    """Return targets as floats; errors name the row of the first invalid one; without weight, None is 0."""
    if set(map(type, values)) <= {float, int}:
        with contextlib.suppress(OverflowError):
            numbers = np.array(values, dtype=np.float64)
            if (abs(numbers) <= LARGEST).all():
                return cast(list[float], numbers.tolist())
    checked = []
    for row, value in enumerate(values):
        try:
            checked.append(0.0 if value is None and not weights[row] else check_target(value))
        except ValueError as error:
            raise RowError(row, str(error)) from None
    return checked


def without_label(values: Sequence[object], weights: Array) -> NDArray[np.bool_]:
    """Return which rows have a weight but no label; their weights become 0."""
    unlabelled = np.array([value is None for value in values], dtype=bool) & (weights > 0.0)
    weights[unlabelled] = 0.0
    return unlabelled


def number(value: object) -> float:
    """Return a number as a float, NaN if it is none or has no float."""
    if not isinstance(value, (int, float, np.integer, np.floating)) or isinstance(value, np.timedelta64):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan


def check_weight(weight: object) -> float:
    """Return a sample weight as a float; raise a ValueError if it is not a finite number, at least 0."""
    value = number(weight)
    if not 0.0 <= value < math.inf:
        raise ValueError(f"the weight is {weight!r}; a sample weight must be a finite number, at least 0")
    return value


def weight_of(weight: object) -> float:
    """Return the weight with which a learner learns an event: more than 1e12 counts as 1e12.

    Raises
    ------
    ValueError
        If it is not a finite number, at least 0.

    Examples
    --------
    >>> weight_of(2), weight_of(1e300)
    (2.0, 1000000000000.0)
    """
    return min(check_weight(weight), _HEAVIEST)


def check_weights(w: object, rows: int, what: str = "w") -> Array:
    """Return sample weights of many rows (or models), ones if ``w`` is None."""
    if w is None:
        return np.ones(rows)
    return np.array([weight_of(value) for value in targets(w, rows, what)], dtype=np.float64)
