"""Data frames and arrays with names as batches of encoded rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from river.utils import dataframe

from streamk.encoding.batches import Batch, EventBatch, Mask
from streamk.encoding.fields import check_number, kind_of, name_of, unaccepted
from streamk.encoding.inputs import Inputs
from streamk.encoding.names import MOST_NAMES
from streamk.encoding.rows import ABSENT, UNSCALED, RowError, Rows, missing


def batch(X: Any, names: Sequence[str] | None = None) -> Batch:
    """Return the batch of a frame, an array with ``names``, or a sequence of dicts.

    Raises
    ------
    ValueError
        If ``X`` is none of these, or ``names`` does not fit it.
    """
    if isinstance(X, np.ndarray):
        return _from_array(X, names)
    if names is not None:
        raise ValueError("names= goes with a NumPy array; a frame's columns and a dict's keys are names")
    if isinstance(X, (list, tuple)):
        return EventBatch(X)
    if nw.dependencies.is_pandas_dataframe(X):
        if X.columns.nlevels > 1:
            raise ValueError("X has columns of several levels; give them one name each")
        check_distinct([name_of(label) for label in X.columns])
    try:
        frame = nw.from_native(X, eager_only=True)
    except TypeError:
        raise ValueError(
            f"X must be an eager data frame (pandas, polars, pyarrow), a NumPy array with names=, "
            f"or a list of dicts, not {type(X).__name__}"
        ) from None
    return _from_frame(frame)


class _Column:
    """One field of a frame: numbers with a mask of those present, or category texts (None: missing)."""

    def __init__(self, name: str, numbers: Any = None, present: Mask | None = None, texts: Any = None):
        self.name, self.numbers, self.present, self.texts = name, numbers, present, texts

    def values(self) -> list[Any]:
        """Return what a dict would hold: None where it is missing."""
        if self.texts is not None:
            return list(self.texts)
        if self.present is None:
            return list(self.numbers.tolist())
        return [
            v if there else None
            for v, there in zip(self.numbers.tolist(), self.present.tolist(), strict=True)
        ]

    def first(self, active: Mask) -> int:
        """Return the first active row where the field is present, −1 if there is none."""
        here = active if self.present is None else active & self.present
        return int(here.argmax()) if here.any() else -1


class FrameBatch:
    """Rows of columns: a data frame, or an array with names."""

    def __init__(self, columns: list[_Column], rows: int, like: Any = None) -> None:
        numbers = [c for c in columns if c.texts is None]
        texts = [c for c in columns if c.texts is not None]
        self._numbers = sorted(numbers, key=lambda c: c.name)
        self._texts = sorted(texts, key=lambda c: c.name)
        self._length, self._like = rows, like
        self._known = np.zeros(rows, dtype=np.int64)
        check_distinct([column.name for column in columns])

    def __len__(self) -> int:
        return self._length

    def prepare(self, inputs: Inputs, active: Mask | None) -> None:
        """Check every number; register the names of the active rows, in order of appearance."""
        for column in self._numbers:
            bad = ~(np.abs(column.numbers.astype(np.float64)) <= inputs.largest)
            if column.present is not None:
                bad &= column.present
            if bad.any():
                row = int(bad.argmax())
                try:
                    check_number(column.name, column.numbers[row], inputs.largest)
                except ValueError as error:
                    raise RowError(row, str(error)) from None
        self._known = np.full(len(self), len(inputs.numbers))
        if active is None:
            return
        met: dict[int, list[str]] = {}
        for column in self._numbers if inputs.registers else ():
            if column.name not in inputs.numbers and (row := column.first(active)) >= 0:
                met.setdefault(row, []).append(column.name)
        for row in sorted(met):
            inputs.register(met[row])
            self._known[row:] = len(inputs.numbers)

    def rows(self, inputs: Inputs, start: int, stop: int) -> Rows:
        """Return the encoded rows ``start … stop − 1``."""
        # in the order in which an event's inputs are added up, where it is the same for all rows
        numbers = sorted(self._numbers, key=lambda c: inputs.number_key(c.name, 0) if not inputs.positional
                         else inputs.numbers.get(c.name, MOST_NAMES))  # fmt: skip
        width, count = len(numbers) + len(self._texts), stop - start
        values = np.ones((count, width))
        known = self._known[start:stop]
        late = inputs.positional and bool((known < len(inputs.numbers)).any())
        shared = not (self._texts or late or any(c.present is not None for c in numbers))
        slots = np.full((1 if shared else count, width), UNSCALED, dtype=np.int32)
        keys = np.zeros(slots.shape, dtype=np.uint64)
        known = known[: len(slots)]
        new = known.copy()
        for j, column in enumerate(numbers):
            mask = None if column.present is None else column.present[start:stop]
            present: Any = slice(None) if mask is None else mask
            values[:, j] = column.numbers[start:stop]
            slot = inputs.slot(column.name)
            slots[present, j] = slot
            position = inputs.numbers.get(column.name, MOST_NAMES)
            met = position < known
            if not inputs.positional or met.all():
                keys[present, j] = inputs.number_key(column.name, position)
            else:  # where a row did not know it yet: after the known, among the row's new ones
                places = np.where(met, position, new)[present].tolist()
                keys[present, j] = [inputs.number_key(column.name, place) for place in places]
                new[present] += ~met[present]
            if mask is not None:
                values[~mask, j] = 0.0
                if slot != UNSCALED:  # explicitly missing, where the name was known
                    gone = met & ~mask
                    slots[gone, j], keys[gone, j] = missing(slot), inputs.number_key(column.name, position)
        for j, column in enumerate(self._texts, len(numbers)):
            name = column.name
            keys[:, j] = [
                ABSENT if text is None else inputs.category_key(name, text)
                for text in column.texts[start:stop]
            ]
        return Rows(slots, keys, values)

    def series(self, values: list[Any]) -> Any:
        """Return a series of the frame's library, or an array."""
        if self._like is None:
            return np.asarray(values, dtype=object if None in values else None)
        return dataframe.to_native_series(values, name=None, like=self._like)

    def table(self, labels: Sequence[Any], values: NDArray[Any]) -> Any:
        """Return a frame of the frame's library, or the array itself."""
        if self._like is None:
            return values
        columns = {label: values[:, k] for k, label in enumerate(labels)}
        return dataframe.to_native_frame(columns, like=self._like)


def check_distinct(names: Sequence[str]) -> None:
    """Raise a ValueError that names the first name that comes twice, if any."""
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"two columns have the same name {twice!r}")


def _from_array(X: NDArray[Any], names: Sequence[str] | None) -> Batch:
    if X.ndim != 2:
        raise ValueError(f"X is an array of {X.ndim} dimensions; it must have 2, rows and columns")
    if names is None:
        raise ValueError("X is an array: give names=[…], one per column")
    if len(names) != X.shape[1]:
        raise ValueError(f"X has {X.shape[1]} columns and names has {len(names)}; they must be the same")
    texts = [name_of(name) for name in names]
    check_distinct(texts)
    if X.dtype.kind == "b":
        return FrameBatch(
            [_Column(n, texts=[str(v) for v in X[:, j].tolist()]) for j, n in enumerate(texts)], len(X)
        )
    if X.dtype.kind in "iuf":
        return FrameBatch([_Column(n, numbers=X[:, j]) for j, n in enumerate(texts)], len(X))
    return _MixedBatch([dict(zip(texts, row, strict=True)) for row in X.tolist()])


class _MixedBatch(EventBatch):
    """Rows with a column of mixed types: read as dicts, answered as a frame or an array."""

    def __init__(self, events: Any, like: nw.DataFrame[Any] | None = None) -> None:
        super().__init__(events)
        answers = FrameBatch([], len(events), like)
        self.series, self.table = answers.series, answers.table  # type: ignore[method-assign]


def _from_frame(frame: nw.DataFrame[Any]) -> Batch:
    columns, mixed = [], False
    for label in frame.columns:
        column, name = frame.get_column(label), name_of(label)
        dtype = column.dtype
        null = column.is_null().to_numpy()
        present = ~null if null.any() else None
        if dtype.is_numeric():
            if present is not None and isinstance(getattr(column.to_native(), "dtype", None), np.dtype):
                # pandas' own float columns have no missing, only NaN, which is refused like any NaN
                present = None
            else:
                column = column.fill_null(0) if present is not None else column
            numbers = column.cast(nw.Float64).to_numpy()
            columns.append(_Column(name, numbers=numbers, present=present))
        elif isinstance(dtype, (nw.Boolean, nw.String, nw.Categorical, nw.Enum, nw.Object)):
            values = column.to_list()
            if null.any():
                values = [None if gone else v for v, gone in zip(values, null, strict=True)]
            kinds = {kind_of(t) for t in set(map(type, values))}
            mixed = mixed or "number" in kinds or None in kinds
            columns.append(_Column(name, present=present, texts=values))
        elif column.is_null().all():
            columns.append(_Column(name, present=present, texts=[None] * len(column)))
        else:
            raise ValueError(f"column {name!r} is of type {dtype}; {_accepted(column)}")
    if mixed:
        fields = [column.values() for column in columns]
        names = [column.name for column in columns]
        check_distinct(names)
        return _MixedBatch([dict(zip(names, row, strict=True)) for row in zip(*fields, strict=True)], frame)
    for field in columns:
        field.texts = field.texts and [None if v is None else str(v) for v in field.texts]
    return FrameBatch(columns, len(frame), frame)


def _accepted(column: nw.Series[Any]) -> str:
    return unaccepted(str(column.name), column.to_list()[0]).split("; ", 1)[1]
