"""Sums of floats without rounding, which do not depend on order, chunks or partial sums.

A float64 is a whole number of units of ``2⁻¹¹²⁶``, so a sum of them is one, too. It is stored as a Python
integer (at most about 300 bytes); Kulisch's long accumulator does the same in hardware. [^1] A chunk is added
in two histograms over the exponents, of the upper and the lower half of the mantissas, which hold whole
numbers.

So a run that was killed and resumed, or was cut into other chunks, ends with the same bytes; windows add up
to the whole; and a variance can be computed from ``Σ y²`` and ``Σ y``, since nothing cancels. Metrics are
formulas over such running sums of predictions (:class:`Sums`).

References
----------
[^1]: Kulisch, U. and Snyder, V., 2011. The exact dot product as basic tool for long interval arithmetic.
    Computing 91.
"""

# mypy: disable-error-code="no-untyped-call, misc"
from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sized
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from numba import njit

from streamk.arrays import Array, SavedState
from streamk.compiling import ENTRY
from streamk.evaluation.metric import Metric

_UNIT = 1126  # a sum counts units of 2**-_UNIT
_EXPONENTS, _BIAS = 2048, 1075  # of float64; a mantissa of 53 bits is times 2**(exponent - bias)
_HALF = 26  # bits of a mantissa's lower half
_MOST = 2**35  # values added at once, so that no bin reaches 2**63


@njit(**ENTRY, nogil=True)
def _add_halves(bits, halves):
    """Add mantissas of float64, passed as bits, by exponent: their upper 27 bits, and their lower 26.

    Values that are not finite are not added. Return the least and the greatest exponent of all values, these
    included.
    """
    least, most = _EXPONENTS - 1, 0
    for k in range(len(bits)):
        word = bits[k]
        exponent = (word >> 52) & 2047
        whole = word & ((1 << 52) - 1)
        if exponent:
            whole |= 1 << 52
        else:
            exponent = 1
        least, most = min(least, exponent), max(most, exponent)
        if exponent == _EXPONENTS - 1:
            continue
        high, low = whole >> _HALF, whole & ((1 << _HALF) - 1)
        halves[exponent, 0] += -high if word < 0 else high
        halves[exponent, 1] += -low if word < 0 else low
    return least, most


class ExactSum:
    """A sum of float64 that is never rounded.

    Infinities and NaN are added separately; once there is one, their sum is the value.

    Parameters
    ----------
    units
        The sum so far, in units of ``2⁻¹¹²⁶``.
    special
        The sum of the values that are not finite, else 0.

    Examples
    --------
    >>> import numpy as np
    >>> total = ExactSum()
    >>> total.add(np.array([1e100, 1.0]))
    >>> total.add(np.array([-1e100]))
    >>> float(total)
    1.0
    """

    __slots__ = ("special", "units")

    def __init__(self, units: int = 0, special: float = 0.0) -> None:
        self.units = units
        self.special = special

    def add(self, values: Array) -> None:
        """Add all values of an array of one axis."""
        for start in range(0, len(values), _MOST):
            self._add(values[start : start + _MOST])

    def _add(self, values: Array) -> None:
        halves = np.zeros((_EXPONENTS, 2), np.int64)
        least, most = _add_halves(np.ascontiguousarray(values).view(np.int64), halves)
        if most == _EXPONENTS - 1:
            with np.errstate(invalid="ignore"):  # ∞ − ∞ is NaN, as it should be
                self.special += float(values[~np.isfinite(values)].sum())
        total = 0
        for place, (upper, lower) in enumerate(halves[least : most + 1].tolist()):
            if upper or lower:
                total += ((upper << _HALF) + lower) << place
        self.units += total << (least + _UNIT - _BIAS)

    def __add__(self, other: ExactSum) -> ExactSum:
        return ExactSum(self.units + other.units, self.special + other.special)

    def __float__(self) -> float:
        return self.over(1)

    def over(self, count: int) -> float:
        """Return the sum divided by a count, rounded once; 0 if the count is 0."""
        if self.special != 0.0:  # true of NaN, too
            return self.special
        try:
            return self.units / (max(count, 1) << _UNIT)
        except OverflowError:
            return np.inf if self.units > 0 else -np.inf

    def fraction(self) -> Fraction:
        """Return the sum of what is finite as it is."""
        return Fraction(self.units, 1 << _UNIT)

    def text(self) -> str:
        """Return the sum as :meth:`read` takes it."""
        return f"{self.units:x} {self.special!r}"

    @classmethod
    def read(cls, text: str) -> ExactSum:
        """Return the sum that :meth:`text` wrote."""
        units, special = text.split()
        return cls(int(units, 16), float(special))


def squares(values: Array) -> Array:
    """Return numbers whose exact sum is that of the squares: the rounded squares, then what rounding took.

    Dekker's product (1971) with the mantissa cut in halves; ``Σ y²`` is then good for a variance even where
    the mean is 10¹⁵ standard deviations from 0.

    Examples
    --------
    >>> import numpy as np
    >>> total = ExactSum()
    >>> total.add(squares(np.array([2.0**30 + 2.0**-22])))
    >>> total.fraction() == (2**30 + Fraction(1, 2**22)) ** 2
    True
    """
    rounded = values * values
    upper = (values.view(np.int64) & -(2 << _HALF)).view(np.float64)  # 26 bits, whose square has 52
    lower = values - upper
    with np.errstate(invalid="ignore"):
        taken = (upper * upper - rounded) + 2.0 * (upper * lower) + lower * lower
    return np.concatenate([rounded, np.where(np.isfinite(rounded), taken, 0.0)])


def nest(**parts: SavedState) -> SavedState:
    """Return several states as one, each array's name led by its part's.

    Examples
    --------
    >>> nest(total=({"events": 3}, {}))
    ({'total': {'events': 3}}, {})
    """
    header = {name: part[0] for name, part in parts.items()}
    arrays = {f"{name}.{key}": array for name, part in parts.items() for key, array in part[1].items()}
    return header, arrays


def part_of(state: SavedState, name: str) -> SavedState:
    """Return one of the states that :func:`nest` made one of."""
    header, arrays = state
    lead = f"{name}."
    return header[name], {k.removeprefix(lead): array for k, array in arrays.items() if k.startswith(lead)}


def check_one_length(arrays: Iterable[Sized]) -> int:
    """Return the length of arrays that all have it.

    Raises
    ------
    ValueError
        If they differ.
    """
    lengths = {len(array) for array in arrays}
    if len(lengths) != 1:
        raise ValueError(f"arrays of {', '.join(map(str, sorted(lengths)))} events; they must be as long")
    return lengths.pop()


class Sums(ABC):
    """Sums over events, which add up over chunks, windows and slices, exactly.

    Attributes
    ----------
    events
        How many were added.
    """

    METRICS: ClassVar[tuple[Metric, ...]]
    events: int

    @abstractmethod
    def fresh(self) -> Self:
        """Return empty sums of the same settings."""

    @abstractmethod
    def clear(self) -> None:
        """Remove all events; classes stay."""

    @abstractmethod
    def add(self, *arrays: Any) -> None:
        """Add events."""

    @abstractmethod
    def merge(self, other: Self) -> None:
        """Add the events of other sums, which do not change."""

    @abstractmethod
    def state(self) -> SavedState:
        """Return everything, as :meth:`restored` takes it."""

    @classmethod
    @abstractmethod
    def restored(cls, state: SavedState) -> Self:
        """Return the sums of a state."""

    @classmethod
    def columns(cls) -> tuple[str, ...]:
        """Return the names of the metrics."""
        return tuple(metric.name for metric in cls.METRICS)

    def values(self) -> dict[str, float]:
        """Return the metrics so far, those whose formula has a value."""
        pairs = ((metric.name, metric.formula(self)) for metric in self.METRICS)
        return {name: value for name, value in pairs if value is not None}

    def copy(self) -> Self:
        """Return a copy that shares nothing."""
        return self.restored(self.state())

    def __add__(self, other: Self) -> Self:
        """Return the sums of the events of both."""
        whole = self.copy()
        whole.merge(other)
        return whole
