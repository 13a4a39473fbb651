"""State: the arrays of codec, map, experts and combiner, each declared once.

A part of a learner is a :class:`Stateful`. It yields a :class:`Field` for each of its arrays, which
determine what a model file holds, checks of what a file holds, bounds, resizing for more outputs,
merging by mean or by sum, and the copies for labels that come late.

Bounds hold when an array is written: numbers out of bounds are clipped in the file, and NaN is 0 there. So
every file that is written can be read. A file that is read is never corrected: what is out of bounds there is
an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import EllipsisType
from typing import ClassVar, NamedTuple, Self

import numpy as np

from streamk.arrays import AnyArray, Array, Arrays, Places, padded, typed, unpacked, used_columns

FINITE, LARGEST_COUNT = float(np.finfo(np.float64).max), 2.0**53
MEAN, SUM = "mean", "sum"  # of merged parts: by their shares; by the counts of their events
Bound = float | Array | Sequence[float]
Index = EllipsisType | slice | Places
Live = Sequence[tuple["Field", AnyArray]]


class Field(NamedTuple):
    """An array of state.

    Attributes
    ----------
    name
        Of the array in a model file. The attribute has the same name, without what is before a dot.
    what
        Names the numbers in errors: "its … are impossible".
    least, most
        Bounds of the numbers, which then are finite; arrays of bounds have the shape of what is stored. None
        if all bits are possible.
    attribute
        Of the array, if it has another name.
    part
        Index of what is stored; elsewhere the array is as in a new learner.
    whole
        Whether numbers are whole.
    counted
        Of an array that begins with the number of its entries in use: this number if there are none. Only
        the entries in use are stored.
    used
        Name, in a model file, of the places on the last axis that hold anything but 0; only those are stored.
        Empty if all are.
    few
        The largest part of places in use with which these are named.
    default
        What the array holds where a model file has none, since it is as in a new learner; None if a file
        always has it.
    possible
        A condition that numbers within bounds must meet.
    merge
        How merged parts combine: :data:`MEAN`, :data:`SUM`, or not at all.
    by_output
        Whether the first axis is that of the outputs of an expert.
    live
        Whether predictions depend on it, so that it is copied for labels that come late.
    by_row
        Whether places in use are rows, so that a model file holds the array transposed.
    """

    name: str
    what: str
    least: Bound | None = None
    most: Bound | None = None
    attribute: str = ""
    part: Index | tuple[Index, ...] = ...
    whole: bool = False
    counted: int | None = None
    used: str = ""
    few: float = 1.0
    default: Bound | None = None
    possible: Callable[[AnyArray], bool] | None = None
    merge: str = ""
    by_output: bool = False
    live: bool = False
    by_row: bool = False

    def copied(self, name: str, used: str) -> Field:
        """Return the field of copies, along a new first axis: the places in use of any of them are stored."""
        what = f"earlier {self.what}"
        return self._replace(name=name, what=what, used=used, few=1.0, default=None)

    def of(self, state: Stateful) -> AnyArray:
        """Return the array."""
        array: AnyArray = getattr(state, self.attribute or self.name.rpartition(".")[2])
        return array

    def stored(self, array: AnyArray, reference: AnyArray | None = None) -> Arrays:
        """Return what a model file holds of an array; only what differs from the ``reference``."""
        if self.counted is not None:
            array = array[1 : 1 + int(array[0]) - self.counted]
        part = self._oriented(array)
        array = self._within_bounds(part)
        if self._is_default(part) or self._is_default(array):
            return {}
        if self.used:
            bits = np.ascontiguousarray(array).view(f"u{array.itemsize}")
            if reference is not None:
                bits = bits ^ self._within_bounds(self._oriented(reference)).view(bits.dtype)
            used = used_columns(bits)
            if len(used) <= self.few * array.shape[-1]:
                return {self.name: array[..., used], self.used: used}
        return {self.name: array}

    def _is_default(self, array: AnyArray) -> bool:
        if self.default is None:
            return False
        return not (array.size if self.counted is not None else (array != self.default).any())

    def _oriented(self, array: AnyArray) -> AnyArray:
        """Return the part that is stored, as a model file holds it."""
        return np.ascontiguousarray(array[self.part].T) if self.by_row else array[self.part]

    def load(self, arrays: Arrays, into: AnyArray, reference: AnyArray | None = None) -> None:
        """Fill an array from a model file; raise a ValueError if what the file holds is impossible.

        Where it holds nothing, the array is as the ``reference``, if there is one.
        """
        if self.default is not None and self.name not in arrays:
            into[self.part] = self.default
            if self.counted is not None:
                into[0] = self.counted
            return
        if self.counted is not None:
            count = len(arrays[self.name])
            into[0], into = self.counted + count, into[1 : 1 + count]
        like, kind = self._oriented(into), into.dtype.type
        if self.used in arrays:
            elsewhere = None if reference is None else self._oriented(reference)
            values = unpacked(arrays, self.name, self.used, like, self.what, elsewhere)
        else:
            values = typed(arrays, self.name, kind, like.shape)
        if not (self._fits(values) and (self.possible is None or self.possible(values))):
            raise ValueError(f"its {self.what} are impossible")
        into[self.part] = values.T if self.by_row else values

    def _bounds(self, array: AnyArray) -> tuple[AnyArray, AnyArray]:
        """Return the bounds, rounded to finite numbers of the array's type if these are floats."""
        least, most = np.asarray(self.least), np.asarray(self.most)
        if array.dtype.kind != "f":
            return least, most
        largest = float(np.finfo(array.dtype).max)
        least, most = (np.clip(bound, -largest, largest).astype(array.dtype) for bound in (least, most))
        return least, most

    def _fits(self, array: AnyArray) -> bool:
        """Return whether all numbers are possible; NaN is not."""
        if self.least is None or not array.size:
            return True
        least, most = self._bounds(array)
        if least.ndim or most.ndim:
            within = bool(((array >= least) & (array <= most)).all())
        else:
            within = bool(array.min() >= least and array.max() <= most)  # without arrays of that size
        return within and not (self.whole and (array % 1).any())

    def _within_bounds(self, array: AnyArray) -> AnyArray:
        if self._fits(array):
            return array
        clipped = np.clip(np.where(np.isnan(array), 0.0, array.astype(np.float64)), *self._bounds(array))
        return (clipped.round() if self.whole else clipped).astype(array.dtype)


class Stateful:
    """A part of a learner with declared arrays.

    Compiled code sees a *record* of it: a tuple of the attributes that its type names.
    """

    record_type: ClassVar[type[tuple[object, ...]]]

    @property
    def record(self) -> tuple[object, ...]:
        """The part as compiled code sees it, until an array is replaced."""
        kind = self.record_type
        return tuple.__new__(kind, [getattr(self, name) for name in vars(kind)["_fields"]])

    def fields(self) -> Iterator[Field | Stateful]:
        """Yield the fields of the present state, and parts with fields of their own.

        When a model file is read, later ones may depend on those before.
        """
        yield from ()

    def own_fields(self) -> Iterator[Field]:
        """Yield the fields without those of parts."""
        for field in self.fields():
            if isinstance(field, Field):
                yield field

    def complete(self) -> None:
        """Compute what follows from loaded arrays; raise a ValueError if these do not fit together."""

    def state_dict(self) -> Arrays:
        """Return the arrays to store in a model file."""
        arrays: Arrays = {}
        for field in self.fields():
            arrays |= field.stored(field.of(self)) if isinstance(field, Field) else field.state_dict()
        return arrays

    def load_state_dict(self, arrays: Arrays) -> None:
        """Load the arrays of a model file; raise a ValueError if they are impossible."""
        for field in self.fields():
            if isinstance(field, Field):
                field.load(arrays, field.of(self))
            else:
                field.load_state_dict(arrays)
        self.complete()

    @property
    def live(self) -> Live:
        """The arrays that predictions depend on, and their fields."""
        live: list[tuple[Field, AnyArray]] = []
        for field in self.fields():
            if not isinstance(field, Field):
                live += field.live
            elif field.live:
                live.append((field, field.of(self)))
        return live

    def average(self, others: Sequence[Self], shares: Sequence[float]) -> None:
        """Set the arrays that merge by mean to the weighted means of those of ``others``."""
        for field in self.own_fields():
            if field.merge == MEAN:
                whole = sum(share * field.of(other) for share, other in zip(shares, others, strict=True))
                field.of(self)[:] = whole

    def fit_outputs(self, outputs: int) -> None:
        """Resize the arrays that have a place for every output; new numbers are 0."""
        for field in self.own_fields():
            if field.by_output:
                array = field.of(self)
                grown = padded(array, (outputs, *array.shape[1:]))
                setattr(self, field.attribute or field.name, grown)
