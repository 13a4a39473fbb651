"""Shards of logs: whole files, blocks of one, the records of one that fall to a hash, row groups of Parquet.

Their events are those of ``streamk replay``: the same reader, the same decoder, the same reading of targets.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from connectors.events import Record, label
from connectors.files.log import Log
from connectors.files.reader import DamagedError, Reader
from connectors.replay.reading import interpret
from streamk.distributed import Chunk
from streamk.features.counter import GOLDEN64, mix64_int


def hash_of(number: int) -> int:
    """Return 64 bits of a number that look random and are the same for ever: those of SplitMix64.

    >>> hex(hash_of(0)), [hash_of(number) % 4 for number in range(8)]
    ('0xe220a8397b1dcdaf', [3, 0, 3, 0, 3, 2, 1, 0])
    """
    return mix64_int((number + 1) * GOLDEN64)


@dataclass(frozen=True)
class LogShard:
    """Records of a log: all of them, those of a block, or those that fall to a hash.

    A position is ``[byte, line, record]``: where the next record begins, and how many lines and records of
    the file are before it. Of a block, records count from its beginning.

    Parameters
    ----------
    path
        CSV or JSON lines; plain, gzip or zstd.
    target, task
        The field to predict, and ``"classification"`` or ``"regression"``.
    block
        First byte, byte after the last one, and lines before the first; None means the whole file. Both are
        at the beginning of a record (:mod:`connectors.train.blocks`).
    part
        Which shard of how many by the hash of a record's number; None means every record.
    """

    path: str
    target: str
    task: str
    block: tuple[int, int, int] | None = None
    part: tuple[int, int] | None = None

    @property
    def name(self) -> str:
        """The path, and what of the file it is."""
        if self.block is not None:
            return f"{self.path}[{self.block[0]}:{self.block[1]}]"
        if self.part is not None:
            return f"{self.path}[hash {self.part[0]} of {self.part[1]}]"
        return self.path

    def read(self, position: Any, count: int) -> Chunk:
        """Return at most ``count`` events from a position on.

        Raises
        ------
        ValueError
            If a record cannot be decoded or has no target; the line is named.
        OSError
            If the file cannot be read.
        """
        log = Log(self.path, self.target)
        rows: list[dict[str, Any]] = []
        targets: list[Any] = []
        lines: list[int] = []
        with Path(self.path).open("rb") as raw:
            at, line = 0, 0
            try:
                reader = Reader(raw, self.path, None)
                decode = log.decoder_of(reader)
                stop = None if self.block is None else self.block[1]
                at = self._go(reader, position)
                ended = stop is not None and reader.position >= stop
                records = reader.records()
                while not ended and len(rows) < count:
                    record = next(records, None)
                    if record is None or (stop is not None and record.offset >= stop):
                        ended = True
                        break
                    line, mine = reader.line, self._takes(at)
                    at += 1
                    if mine and (found := log.record(line, record, decode)) is not None:
                        fields, target = interpret(found, log, self.task)
                        rows.append(fields)
                        targets.append(target)
                        lines.append(line)
                    ended = stop is not None and reader.position >= stop
            except DamagedError as error:
                raise ValueError(f"after line {line}: {error}") from None
            return Chunk(rows, targets, [reader.position, reader.line, at], ended, None, lines)

    def _go(self, reader: Reader, position: Any) -> int:
        """Go to a position, and return how many records are before it."""
        if position is not None:
            byte, reader.line, at = position
            reader.seek(byte)
            return int(at)
        if self.block is not None:
            reader.seek(self.block[0])
            reader.line = self.block[2]
        return 0

    def _takes(self, number: int) -> bool:
        return self.part is None or hash_of(number) % self.part[1] == self.part[0]

    def done(self, position: Any) -> float:
        """Return which part of the bytes is before a position, from 0 to 1; a guess if it is packed."""
        start, stop = (0, Path(self.path).stat().st_size) if self.block is None else self.block[:2]
        done: float = (position[0] - start) / max(stop - start, 1)
        return min(max(done, 0.0), 1.0)


@dataclass(frozen=True)
class ParquetShard:
    """Row groups of a Parquet file; a position is ``[row group, row of it]``.

    Parameters
    ----------
    path
        The file.
    target, task
        As of :class:`LogShard`.
    groups
        The first row group, and the one after the last.
    """

    path: str
    target: str
    task: str
    groups: tuple[int, int]

    @property
    def name(self) -> str:
        """The path, and which row groups of the file it is."""
        return f"{self.path}[row groups {self.groups[0]}:{self.groups[1]}]"

    def read(self, position: Any, count: int) -> Chunk:
        """Return at most ``count`` events of one row group from a position on.

        Raises
        ------
        ValueError
            If there is no such column, or a row has no target; row and row group are named.
        """
        group, row = position or (self.groups[0], 0)
        while group < self.groups[1]:
            table = _row_group(self.path, Path(self.path).stat().st_mtime_ns, group)
            if row < table.num_rows:
                break
            group, row = group + 1, 0
        else:
            return Chunk([], [], [group, 0], True, None)
        found = table.slice(row, count).to_pylist()
        records = list(self._records(found, group, row))
        row += len(found)
        if row == table.num_rows:
            group, row = group + 1, 0
        ended = group >= self.groups[1]
        return Chunk([x for x, _ in records], [y for _, y in records], [group, row], ended)

    def _records(self, found: list[dict[str, Any]], group: int, row: int) -> Iterator[tuple[Any, Any]]:
        log = _Places(self.path, self.target, group)
        for line, fields in enumerate(found, row):
            target = label(fields.pop(self.target, None))
            if target is None:
                raise ValueError(f"{log.place(line)}: the target {self.target!r} is missing")
            yield interpret(Record(line, fields, target), log, self.task)

    def done(self, position: Any) -> float:
        """Return which part of the row groups is before a position, from 0 to 1."""
        first, after = self.groups
        done: float = (position[0] - first) / max(after - first, 1)
        return done


@dataclass(frozen=True)
class _Places:
    """How messages name the rows of a row group."""

    path: str
    target: str
    group: int

    def place(self, line: int) -> str:
        return f"{self.path}, row {line} of row group {self.group}"


@lru_cache(2)  # a row group is read for several rounds
def _row_group(path: str, _changed: int, group: int) -> Any:
    return parquet_file(path).read_row_group(group)


def parquet_file(path: str) -> Any:
    """Return a Parquet file that is open.

    Raises
    ------
    ValueError
        If pyarrow is not installed, or the file is none.
    """
    try:
        from pyarrow import ArrowInvalid, parquet
    except ImportError:
        raise ValueError(f"{path}: Parquet needs pyarrow: pip install 'streamk[parquet]'") from None
    try:
        return parquet.ParquetFile(path)
    except ArrowInvalid as error:
        raise ValueError(f"{path} is no Parquet file: {error}") from None
