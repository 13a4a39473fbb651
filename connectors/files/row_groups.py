"""Batches of Parquet, row group by row group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from connectors.events import label
from connectors.files.batches import ROWS, Batch
from connectors.files.opening import Opened


class RowGroups:
    """The records of an open Parquet file; a line is the number of a row.

    Parameters
    ----------
    file
        What to read.
    target, time, ignore
        Columns that are no features.

    Raises
    ------
    ValueError
        If pyarrow is not installed, the file is none, or has no such column.
    """

    def __init__(
        self, file: Opened, target: str, time: str | None = None, ignore: Sequence[str] = ()
    ) -> None:
        try:
            from pyarrow import ArrowException, parquet
        except ImportError:
            raise ValueError("Parquet needs pyarrow: pip install 'streamk[parquet]'") from None
        try:
            self._parquet = parquet.ParquetFile(file.plain)
        except (ArrowException, OSError) as error:
            raise ValueError(f"it is no Parquet file: {error}") from None
        names = self._parquet.schema_arrow.names
        for name in (target, time):
            if name is not None and name not in names:
                raise ValueError(f"there is no column {name!r}; there are {', '.join(names)}")
        self._file, self._target, self._time = file, target, time
        self._names = [name for name in names if name not in ignore]
        self._broken = ArrowException

    def batches(self) -> Iterator[Batch]:
        """Yield batches."""
        line = 0
        for group in range(self._parquet.num_row_groups):
            at = line
            try:
                for part in self._parquet.iter_batches(ROWS, [group], columns=self._names):
                    yield self._batch(part, line)
                    line += part.num_rows
            except (self._broken, OSError) as error:
                batch = Batch([], [], [])
                batch.broken.note(f"{self._file.name}, row group {group}", f"cannot be read: {error}")
                line = at + self._parquet.metadata.row_group(group).num_rows
                yield batch

    def _batch(self, part: Any, line: int) -> Batch:
        import pyarrow as pa

        labels = [label(target) for target in part.column(self._target).to_pylist()]
        times = part.column(self._time).to_pylist() if self._time else None
        features = part.drop_columns([name for name in (self._target, self._time) if name])
        numeric = all(pa.types.is_integer(t) or pa.types.is_floating(t) for t in features.schema.types)
        lines: Sequence[int] = range(line + 1, line + 1 + len(labels))
        matrix = None
        if numeric and features.num_columns and not any(c.null_count for c in features.columns):
            columns = [c.to_numpy(zero_copy_only=False) for c in features.columns]
            matrix = np.column_stack([c.astype(np.float64) for c in columns])
            matrix = None if np.isnan(matrix).any() else matrix
        if matrix is not None and not any(y is None or y != y for y in labels):
            names = features.schema.names
            batch = Batch(lines, labels, features.to_pylist, times, names, matrix)
            if all(type(y) in (int, float) for y in labels):
                batch.numbers = np.array(labels, dtype=np.float64)
        else:
            batch = self._one_by_one(lines, labels, times, features.to_pylist())
        batch.size = part.nbytes
        return batch

    def _one_by_one(
        self, lines: Sequence[int], labels: list[Any], times: list[Any] | None, rows: list[dict[str, Any]]
    ) -> Batch:
        """Return the batch of rows of which some have no target, or no value in places; NaN is none."""
        rows = [{k: None if v != v else v for k, v in row.items()} for row in rows]
        found = [k for k, target in enumerate(labels) if target is not None and target == target]
        batch = Batch(
            [lines[k] for k in found],
            [labels[k] for k in found],
            [rows[k] for k in found],
            None if times is None else [times[k] for k in found],
        )
        for k in sorted(set(range(len(labels))) - set(found)):
            batch.broken.miss(f"{self._file.name}, row {lines[k]}", self._target, rows[k])
        return batch
