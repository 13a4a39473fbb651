"""Data frames and arrays with names as batches of encoded rows; a column is one field of all rows."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from operator import itemgetter
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.stable.v2.typing import IntoDataFrame, IntoSeries
from river.utils import dataframe

from streamk.arrays import AnyArray, Array, Places
from streamk.encoding.batches import Batch, EventBatch, Mask
from streamk.encoding.calendar_inputs import (
    ELAPSED,
    Moments,
    calendar_columns,
    check_apart,
    is_timed,
    moments_in,
    moments_of,
)
from streamk.encoding.fields import Event, check_number, kind_of, name_of, unaccepted
from streamk.encoding.inputs import Inputs
from streamk.encoding.names import NamesFullError
from streamk.encoding.rows import ABSENT, MOST_SLOTS, UNSCALED, EncodedRows, RowError, missing, slices

_PIECE = 4096  # rows checked at once


class Column:
    """One field of a frame: numbers, or codes of categories.

    Parameters
    ----------
    name
        Its name.
    numbers
        ``(n,)``: of any type; those of categories are places in ``values``.
    present
        Where it is not missing, None if everywhere; of numbers alone.
    values
        The strings of categories, in the order in which they occur; None stands for a missing one.
    bare
        Whether it is an input also if numbers are not scaled.
    """

    def __init__(
        self,
        name: str,
        numbers: AnyArray,
        present: Mask | None = None,
        values: list[str | None] | None = None,
        bare: bool = True,
    ):
        self.name, self.numbers, self.present, self.values, self.bare = name, numbers, present, values, bare

    @classmethod
    def of_texts(cls, name: str, texts: Sequence[str | None]) -> Column:
        """Return a column of categories."""
        codes: dict[str | None, int] = {}
        numbers = [codes.setdefault(text, len(codes)) for text in texts]
        return cls(name, np.array(numbers, dtype=np.int64), values=list(codes))

    def select(self, rows: slice | Places) -> Column:
        """Return the column of these rows."""
        present = None if self.present is None else self.present[rows]
        return Column(self.name, self.numbers[rows], present, self.values, self.bare)

    def first(self, active: Mask) -> int:
        """Return the first active row where the field is present, −1 if there is none."""
        here = active if self.present is None else active & self.present
        return int(here.argmax()) if here.any() else -1


def of_moments(fields: dict[str, Moments], names: set[str]) -> list[Column]:
    """Return the columns of fields of dates and times; ``names`` are those of all columns."""
    columns = []
    for field, moments in fields.items():
        inputs = calendar_columns(field, moments)
        check_apart(field, [name for name, _ in inputs], names)
        for name, numbers in inputs:
            columns.append(Column(name, numbers, moments.present, bare=not name.endswith(ELAPSED)))
    return columns


def batch(X: Any, names: Sequence[str] | None = None) -> Batch:
    """Return the batch of a frame, an array with ``names``, or a sequence of dicts; a batch is itself.

    Raises
    ------
    ValueError
        If ``X`` is none of these, or ``names`` does not fit it.
    """
    if isinstance(X, np.ndarray):
        return _from_array(X, names)
    if names is not None:
        raise ValueError("names= goes with a NumPy array; a frame's columns and a dict's keys are names")
    if isinstance(X, (FrameBatch, EventBatch)):
        return X
    if isinstance(X, (list, tuple)):
        return EventBatch(X)
    if nw.dependencies.is_pandas_dataframe(X):
        if X.columns.nlevels > 1:
            raise ValueError("X has columns of several levels; give them one name each")
        if not X.columns.is_unique:
            check_distinct([name_of(label) for label in X.columns])
    try:
        frame = nw.from_native(X, eager_only=True)
    except TypeError:
        raise ValueError(
            f"X must be an eager data frame (pandas, polars, pyarrow), a NumPy array with names=, "
            f"or a list of dicts, not {type(X).__name__}"
        ) from None
    return _from_frame(frame)


class FrameBatch:
    """Rows of columns: a data frame, or an array with names."""

    complete = False

    def __init__(self, columns: list[Column], rows: int, like: Any = None) -> None:
        numbers = [c for c in columns if c.values is None]
        texts = [c for c in columns if c.values is not None]
        self._numbers = sorted(numbers, key=lambda c: c.name)
        self._texts = sorted(texts, key=lambda c: c.name)
        self._length, self._like = rows, like
        self._known = np.zeros(rows, dtype=np.int64)
        check_distinct([column.name for column in columns])

    def __len__(self) -> int:
        return self._length

    @property
    def width(self) -> int:
        """Return how many columns there are."""
        return len(self._numbers) + len(self._texts)

    def select(self, rows: slice | Places) -> Batch:
        """Return the rows at these places, in this order, as a batch that is yet to be prepared."""
        columns = [column.select(rows) for column in (*self._numbers, *self._texts)]
        return FrameBatch(columns, len(self._known[rows]), self._like)

    def number_names(self, row: int) -> list[str]:
        """Return the names of the numbers that a row has."""
        return [column.name for column in self._numbers if column.present is None or column.present[row]]

    def prepare(self, inputs: Inputs, active: Mask | None) -> None:
        """Check every number; register the names of the active rows, in order of appearance."""
        if not inputs.scaled:
            self._numbers = [column for column in self._numbers if column.bare]
        for column in self._numbers if not self._is_within(inputs.largest) else ():
            size = np.abs(column.numbers.astype(np.float64))
            bad = ~(size <= inputs.largest)
            if column.present is not None:
                bad &= column.present
            if bad.any():
                known = ~np.isnan(size)
                column.present = known if column.present is None else column.present & known
                bad &= known
            if bad.any():
                row = int(bad.argmax())
                try:
                    check_number(column.name, column.numbers[row], inputs.largest)
                except ValueError as error:
                    raise RowError(row, str(error)) from None
        self._known = np.full(len(self), len(inputs.numbers))
        self.complete = active is not None
        if active is None:
            return
        met: dict[int, list[str]] = {}
        for column in self._numbers if inputs.registers else ():
            if column.name not in inputs.numbers and (row := column.first(active)) >= 0:
                met.setdefault(row, []).append(column.name)
        for row in sorted(met):
            try:
                inputs.register(met[row])
            except NamesFullError as full:
                full.row, self.complete = row, False
                raise
            self._known[row:] = len(inputs.numbers)

    def _is_within(self, largest: float) -> bool:
        """Return whether all numbers are at most ``largest`` in size, and none is missing."""
        return all(
            bool((np.abs(_block(self._numbers, part)) <= largest).all()) for part in slices(len(self), _PIECE)
        )

    def rows(self, inputs: Inputs, start: int, stop: int) -> EncodedRows:
        """Return the encoded rows ``start … stop − 1``."""
        known = self._known[start:stop]
        least = known.min(initial=MOST_SLOTS + 1) if inputs.positional else MOST_SLOTS + 1
        places = [inputs.numbers.get(column.name, MOST_SLOTS) for column in self._numbers]
        # the key is that of every row, or 0 if the name was registered after the first row
        encoded = [
            (inputs.number_key(column.name, place) if place < least else ABSENT, place, column)
            for place, column in zip(places, self._numbers, strict=True)
        ]
        # in the order in which an event's inputs are added up, where it is the same for all rows
        encoded.sort(key=itemgetter(1 if inputs.positional else 0))
        numbers = [column for _, _, column in encoded]
        width, count = len(numbers) + len(self._texts), stop - start
        values = np.ones((count, width))
        late = inputs.positional and bool((known < len(inputs.numbers)).any())
        shared = not (self._texts or late or any(c.present is not None for c in numbers))
        slots = np.full((1 if shared else count, width), UNSCALED, dtype=np.int32)
        keys = np.zeros(slots.shape, dtype=np.uint64)
        known = known[: len(slots)]
        new = known.copy()
        if numbers:
            values[:, : len(numbers)] = _block(numbers, slice(start, stop)).T
            slots[:, : len(numbers)] = [inputs.slot(column.name) for column in numbers]
            keys[:, : len(numbers)] = np.array([key for key, _, _ in encoded], dtype=np.uint64)
        for j, (_, place, column) in enumerate(encoded):
            mask = None if column.present is None else column.present[start:stop]
            met = place < known
            if place >= least:  # after the known names, among the row's new ones
                there: slice | Mask = slice(None) if mask is None else mask
                after = np.where(met, place, new)[there].tolist()
                keys[there, j] = [inputs.number_key(column.name, k) for k in after]
                new[there] += ~met[there]
            if mask is not None:
                gone, slot = ~mask, inputs.slot(column.name)
                values[gone, j], slots[gone, j], keys[gone, j] = 0.0, UNSCALED, ABSENT
                if slot != UNSCALED:  # explicitly missing, where the name was known
                    gone &= met
                    slots[gone, j], keys[gone, j] = missing(slot), inputs.number_key(column.name, place)
        for j, column in enumerate(self._texts, len(numbers)):
            name, values_of = column.name, column.values or []
            codes, places_of = np.unique(column.numbers[start:stop], return_inverse=True)
            texts = [values_of[code] for code in codes.tolist()]
            of_text = [ABSENT if text is None else inputs.category_key(name, text) for text in texts]
            keys[:, j] = np.array(of_text, dtype=np.uint64)[places_of]
            slots[:, j] = np.where(keys[:, j] == ABSENT, UNSCALED, inputs.category_slot(name))
        return EncodedRows(slots, keys, values)

    def series(self, values: Sequence[object]) -> object:
        """Return a series of the frame's library, or an array."""
        if self._like is None:
            return np.asarray(values, dtype=object if None in values else None)
        return dataframe.to_native_series(values, name=None, like=self._like)

    def table(self, labels: Sequence[object], values: AnyArray) -> object:
        """Return a frame of the frame's library, or the array itself."""
        if self._like is None:
            return values
        columns = {label: values[:, k] for k, label in enumerate(labels)}
        return dataframe.to_native_frame(columns, like=self._like)


def _block(columns: Sequence[Column], rows: slice) -> Array:
    """Return rows of columns of numbers, ``(columns, rows)``."""
    return np.array([column.numbers[rows] for column in columns], dtype=np.float64)


def check_distinct(names: Sequence[str]) -> None:
    """Raise a ValueError that names the first name that comes twice, if any."""
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"two columns have the same name {twice!r}")


def _from_array(X: AnyArray, names: Sequence[str] | None) -> Batch:
    if X.ndim != 2:
        raise ValueError(f"X is an array of {X.ndim} dimensions; it must have 2, rows and columns")
    if names is None:
        raise ValueError("X is an array: give names=[…], one per column")
    if len(names) != X.shape[1]:
        raise ValueError(f"X has {X.shape[1]} columns and names has {len(names)}; they must be the same")
    texts = [name_of(name) for name in names]
    check_distinct(texts)
    if X.dtype.kind == "b":
        columns = [Column.of_texts(n, list(map(str, X[:, j].tolist()))) for j, n in enumerate(texts)]
        return FrameBatch(columns, len(X))
    if X.dtype.kind == "M":
        timed = is_timed(np.datetime_data(X.dtype)[0])
        fields = {name: moments_of(name, X[:, j], X[:, j], timed) for j, name in enumerate(texts)}
        return FrameBatch(of_moments(fields, set(texts)), len(X))
    if X.dtype.kind in "iuf":
        return FrameBatch([Column(n, X[:, j]) for j, n in enumerate(texts)], len(X))
    return _MixedBatch([dict(zip(texts, row, strict=True)) for row in X.tolist()])


class _MixedBatch(EventBatch):
    """Rows with a column of mixed types: read as dicts, answered as a frame or an array."""

    def __init__(self, events: Sequence[Event], like: nw.DataFrame[IntoDataFrame] | None = None) -> None:
        super().__init__(events)
        answers = FrameBatch([], len(events), like)
        self.series, self.table = answers.series, answers.table  # type: ignore[method-assign]


def _from_frame(frame: nw.DataFrame[IntoDataFrame]) -> Batch:
    fields: list[tuple[str, Column | list[object]]] = []
    mixed = False
    moments: dict[str, nw.Series[IntoSeries]] = {}
    simple = _simple_columns(frame)
    for label in frame.columns:
        if label in simple:
            fields.append((simple[label].name, simple[label]))
            continue
        name, column = name_of(label), frame.get_column(label)
        dtype = column.dtype
        null = column.is_null().to_numpy()
        present = ~null if null.any() else None
        if dtype.is_numeric():
            column = column.fill_null(0) if present is not None else column
            fields.append((name, Column(name, column.cast(nw.Float64).to_numpy(), present)))
        elif isinstance(dtype, (nw.Boolean, nw.String, nw.Categorical, nw.Enum, nw.Object)):
            values = column.to_list()
            if null.any():
                values = [None if gone else v for v, gone in zip(values, null, strict=True)]
            kinds = {kind_of(t) for t in set(map(type, values))}
            mixed = mixed or not kinds <= {"category", "missing"}
            fields.append((name, values))
        elif isinstance(dtype, (nw.Datetime, nw.Date)):
            moments[name] = column
            # a missing date may have had a time of day in events before
            mixed = mixed or (isinstance(dtype, nw.Date) and present is not None)
        elif column.is_null().all():
            fields.append((name, [None] * len(column)))
        else:
            raise ValueError(f"column {name!r} is of type {dtype}; {_accepted(column)}")
    if mixed:
        names = [*(name for name, _ in fields), *moments]
        check_distinct(names)
        lists = [*(_listed(field) for _, field in fields), *(c.to_list() for c in moments.values())]
        return _MixedBatch([dict(zip(names, row, strict=True)) for row in zip(*lists, strict=True)], frame)
    columns = [
        field
        if isinstance(field, Column)
        else Column.of_texts(name, [None if value is None else str(value) for value in field])
        for name, field in fields
    ]
    times = {name: moments_in(name, column) for name, column in moments.items()}
    columns += of_moments(times, {name_of(label) for label in frame.columns})
    return FrameBatch(columns, len(frame), frame)


def _listed(field: Column | list[object]) -> list[object]:
    """Return what a dict would hold: None where a number is missing."""
    if not isinstance(field, Column):
        return field
    numbers = field.numbers.tolist()
    if field.values is not None:
        return list(map(field.values.__getitem__, numbers))
    there = itertools.repeat(True) if field.present is None else field.present.tolist()
    return [value if known else None for value, known in zip(numbers, there, strict=False)]


def _simple_columns(frame: nw.DataFrame[Any]) -> dict[Hashable, Column]:
    """Return columns of numbers by label; one by one they would take ten times as long.

    Of a pandas frame, those of NumPy's types, also where pandas or Arrow stores them, and columns of strings
    of which none is missing.
    """
    native, columns = frame.to_native(), {}
    if nw.dependencies.is_pandas_dataframe(native):
        kinds = [getattr(kind, "numpy_dtype", kind) for kind in native.dtypes.tolist()]
        places = [j for j, kind in enumerate(kinds) if isinstance(kind, np.dtype) and kind.kind in "iuf"]
        selected = native if len(places) == len(kinds) else native.take(places, axis=1)
        labels, numbers = selected.columns.tolist(), selected.to_numpy(np.float64, na_value=np.nan)
        for label in [
            label for label, kind in zip(native.columns.tolist(), kinds, strict=True) if kind.type is str
        ]:
            texts = native[label].array.tolist()
            if set(map(type, texts)) == {str}:
                columns[label] = Column.of_texts(name_of(label), texts)
    else:
        labels = [label for label, kind in frame.schema.items() if kind.is_numeric()]
        if not labels:
            return {}
        cast = frame.select(nw.col(*labels).cast(nw.Float64))
        numbers = cast.to_numpy().astype(np.float64, copy=False)
    gone = np.isnan(numbers)
    some_gone = gone.any(axis=0).tolist()
    for j, label in enumerate(labels):
        columns[label] = Column(name_of(label), numbers[:, j], ~gone[:, j] if some_gone[j] else None)
    return columns


def _accepted(column: nw.Series[IntoSeries]) -> str:
    return unaccepted(str(column.name), column.to_list()[0]).split("; ", 1)[1]
