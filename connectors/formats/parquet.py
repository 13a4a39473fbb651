"""Records of Parquet, in batches by row group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from connectors.events.batches import ROWS, BatchBuilder, RecordBatch
from connectors.events.decoding import EventFormat, Location
from connectors.events.names import numbered
from connectors.events.schema import LOOK, NUMBER, flat
from connectors.events.values import Fields, label
from connectors.formats.open_file import OpenFile


class ParquetRecords:
    """The records of an open Parquet file; a line is the number of a row, and a position the rows before it.

    Parameters
    ----------
    file
        What to read.
    format
        Which column is what.

    Attributes
    ----------
    format, decoder
        How rows are read.
    position, line
        How many rows are before the next one.
    starts
        The first row of every row group, and the number of rows.

    Raises
    ------
    ValueError
        If pyarrow is not installed, the file is none, or has no such column.
    """

    def __init__(self, file: OpenFile, format: EventFormat) -> None:
        try:
            from pyarrow import ArrowException, parquet
        except ImportError:
            raise ValueError("Parquet needs pyarrow: pip install 'streamk[parquet]'") from None
        try:
            self._parquet = parquet.ParquetFile(file.plain)
        except (ArrowException, OSError) as error:
            raise ValueError(f"it is no Parquet file: {error}") from None
        self._every, self.notes = numbered(self._parquet.schema_arrow.names)
        names = self._every
        # a dot is a path into a column of structs
        there = {*names, *(name for name in format.required if name.partition(".")[0] in names)}
        if missing := [name for name in format.required if name not in there]:
            raise ValueError(f"there is no column {missing[0]!r}; there are {', '.join(names)}")
        self._file, self._broken = file, ArrowException
        metadata = self._parquet.metadata
        counts = [metadata.row_group(k).num_rows for k in range(metadata.num_row_groups)]
        self.starts: list[int] = np.cumsum([0, *counts]).tolist()
        self.position = self.line = 0
        self.use(format)

    def use(self, format: EventFormat) -> None:
        """Decode by this format from here on."""
        self.format, self.decoder = format, format.decoder("parquet")
        self._names = [name for name in self._every if self._reads(name)]
        typed = {kind for name, kind in format.types.items() if self.decoder.takes(name)}
        self._plain = typed <= {NUMBER} and self.decoder.simple and not self.decoder.verbatim
        self._none = self.decoder.absent_numbers

    def _reads(self, name: str) -> bool:
        """Return whether a column, or a part of one of structs, is wanted."""
        wanted = self.format.features
        if wanted is None or isinstance(wanted, Mapping):
            return self.decoder.takes(name)
        return self.decoder.takes(name) or any(
            each.startswith(f"{name}.") for each in (*wanted, *self.format.roles)
        )

    def first(self) -> list[Fields]:
        """Return the first rows, as many as types are inferred from, without types; none is consumed."""
        for part in self._parts(LOOK):
            return [_present(flat(row)) for row in part.to_pylist()]
        return []

    def _parts(
        self, size: int, groups: Sequence[int] | None = None, names: Sequence[str] | None = None
    ) -> Iterator[Any]:
        """Yield record batches of Arrow; columns of one name are read all, and are numbered."""
        if self._every == self._parquet.schema_arrow.names:
            yield from self._parquet.iter_batches(size, groups, columns=names)
            return
        from pyarrow import RecordBatch

        for part in self._parquet.iter_batches(size, groups):
            whole = RecordBatch.from_arrays(part.columns, names=self._every)
            yield whole if names is None else whole.select(names)

    def batches(self) -> Iterator[RecordBatch]:
        """Yield batches."""
        for group, (start, end) in enumerate(zip(self.starts, self.starts[1:], strict=False)):
            if end <= self.position:
                continue
            try:
                for part in self._parts(ROWS, [group], self._names):
                    skipped = min(max(self.position - start, 0), part.num_rows)
                    start += part.num_rows
                    if skipped < part.num_rows:
                        yield self._batch(part.slice(skipped))
            except (self._broken, OSError) as error:
                self.position = self.line = end
                yield RecordBatch.cut_off(f"{self._file.name}, row group {group}", f"cannot be read: {error}")

    def _batch(self, part: Any) -> RecordBatch:
        first, self.position = self.position + 1, self.position + part.num_rows
        self.line = self.position
        batch = self._of_numbers(part, first) if self._plain else None
        if batch is None:
            batch = self._one_by_one(range(first, self.position + 1), part.to_pylist())
        batch.size, batch.ends = part.nbytes, range(first, self.position + 1)
        return batch

    def _of_numbers(self, part: Any, first: int) -> RecordBatch | None:
        """Return a batch whose inputs are all numbers, None if there are others."""
        import pyarrow as pa

        target = self.format.target
        there = target in self._names
        features = part.drop_columns([target]) if there else part
        if not all(pa.types.is_integer(t) or pa.types.is_floating(t) for t in features.schema.types):
            return None
        if not features.num_columns or any(column.null_count for column in features.columns):
            return None
        columns = [column.to_numpy(zero_copy_only=False) for column in features.columns]
        matrix = np.column_stack([column.astype(np.float64) for column in columns])
        values = part.column(target).to_pylist() if there else [None] * part.num_rows
        if np.isnan(matrix).any() or (self.format.labelled and any(y is None or y != y for y in values)):
            return None
        if self._none and np.isin(matrix, self._none).any():
            return None
        try:
            labels = [self.decoder.read_target(value) for value in values]
        except ValueError:
            return None
        if self.format.labelled and None in labels:
            return None
        lines: Sequence[int] = range(first, first + part.num_rows)
        batch = RecordBatch(lines, labels, features.to_pylist, None, features.schema.names, matrix)
        if all(type(y) in (int, float) for y in labels):
            batch.numbers = np.array(labels, dtype=np.float64)
        return batch

    def _one_by_one(self, lines: Sequence[int], rows: list[Fields]) -> RecordBatch:
        builder = BatchBuilder.of(self.format, lambda line: Location(self._file.name, line, "row"))
        for ordinal, (line, row) in enumerate(zip(lines, rows, strict=True)):
            try:
                builder.add(ordinal, line, self.decoder.event(_present(flat(row))))
            except (ValueError, TypeError) as error:
                builder.add(ordinal, line, str(error))
        return builder.batch()

    @property
    def share(self) -> float:
        """Which part of the rows has been yielded, from 0 to 1."""
        return self.position / max(self.starts[-1], 1)

    def seek(self, position: int, line: int = 0) -> None:
        """Read from the row on before which there are so many."""
        self.position = self.line = position


def _present(row: Fields) -> Fields:
    """Return a row in which NaN is missing, and a DECIMAL is the number that it is."""
    return {
        name: None if value != value else label(value) if type(value) is Decimal else value
        for name, value in row.items()
    }
