"""Shards of logs: how files are cut, and how a shard reads its records.

A file is cut into blocks at the ends of records, or its records are distributed by a hash of their numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

from connectors.events.batches import RecordBatch, before_misfit
from connectors.events.decoding import EventFormat, Location, Misfits, Record
from connectors.events.targets import InferredLabels, interpret
from connectors.events.values import Fields
from connectors.formats.addresses import local
from connectors.formats.lines import Lines
from connectors.formats.open_file import OpenFile, size_of
from connectors.formats.parquet import ParquetRecords
from connectors.formats.records import Records, records_of
from streamk.distributed import Chunk
from streamk.features.counter import GOLDEN64, mix64_int


def hash_of(number: int) -> int:
    """Return 64 bits of a number that look random and are always the same: those of SplitMix64.

    >>> hex(hash_of(0)), [hash_of(number) % 4 for number in range(8)]
    ('0xe220a8397b1dcdaf', [3, 0, 3, 0, 3, 2, 1, 0])
    """
    return mix64_int((number + 1) * GOLDEN64)


Position = list[Any]  # byte, line, record, how many were skipped, why the first, misfits by field


@dataclass
class _Reading:
    """Where a shard stands, and what it has read since: a position and the rows of a chunk."""

    byte: int
    line: int
    record: int
    skipped: int
    example: str
    misfits: dict[str, Misfits] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rows: list[Fields] = []
        self.targets: list[object] = []
        self.lines: list[int] = []

    def skip(self, example: str, count: int = 1) -> None:
        self.skipped += count
        self.example = self.example or example

    def misfit(self, misfits: Mapping[str, Misfits], taken: int) -> None:
        """Count misfits of the events taken of a batch; where not all were, by what is missing."""
        for name, counted in misfits.items():
            missing = sum(event.get(name) is None for event in self.rows[taken:])
            if count := min(counted.count, missing):
                self.misfits.setdefault(name, Misfits()).add(Misfits(count, counted.example))

    def position(self) -> Position:
        misfits = {name: [counted.count, counted.example] for name, counted in self.misfits.items()}
        return [self.byte, self.line, self.record, self.skipped, self.example, misfits]


@dataclass(frozen=True)
class LogShard:
    """Records of a log: all of them, those of a block, or those that fall to a hash.

    A position is ``[byte, line, record, skipped, reason, misfits]``: where the next record begins (of
    Parquet, which row it is), how many lines and records of the file are before it, how many records were
    skipped, and why the first of them; and of each field, how many values do not fit its type, and the
    first. Of a block, records count from its start.

    Parameters
    ----------
    path
        CSV, JSON lines, MessagePack or Parquet; plain or compressed.
    format, task
        Which field is what, with the types of all fields, and ``"classification"`` or ``"regression"``.
    block
        First byte, byte after the last one, and lines before the first; None means the whole file. Both are
        at the start of a record (:mod:`connectors.shards`). Of Parquet, rows.
    part
        Which shard of how many by the hash of a record's number; None means every record.
    strict
        Whether a record that cannot be decoded, whose target is no number where one is needed, or that the
        learner refuses, raises a ValueError; it is skipped and counted otherwise.
    whole
        Whether the task was inferred from targets that are whole numbers, so that a fraction raises a
        ValueError (:class:`connectors.events.targets.InferredLabels`).
    """

    path: str
    format: EventFormat
    task: str
    block: tuple[int, int, int] | None = None
    part: tuple[int, int] | None = None
    strict: bool = False
    whole: bool = False

    @property
    def name(self) -> str:
        """The path, and what of the file it is."""
        if self.block is not None:
            return f"{self.path}[{self.block[0]}:{self.block[1]}]"
        if self.part is not None:
            return f"{self.path}[hash {self.part[0]} of {self.part[1]}]"
        return self.path

    @property
    def target(self) -> str:
        """The field to predict."""
        return self.format.target or ""

    def place(self, line: int) -> Location:
        """Return what names a line in messages."""
        return Location(self.path, line)

    def read(self, position: Position | None, count: int) -> Chunk:
        """Return at most ``count`` events from a position on.

        Raises
        ------
        ValueError
            If the data is cut short; with ``strict``, if a record cannot be decoded.
        OSError
            If the file cannot be read.
        """
        with closing(OpenFile(self.path)) as file:
            file.look(format=self.format)
            records = records_of(file, self.format)
            reading = self._begun(records, position)
            stop = None if self.block is None else self.block[1]
            ended = stop is not None and reading.byte >= stop
            batches = records.batches()
            while not ended and len(reading.rows) < count:
                batch = next(batches, None)
                if batch is None:
                    ended = True
                    break
                batch.misfits = records.decoder.take_misfits()
                if batch.broken.cut:
                    raise ValueError(batch.broken.examples[0])
                if self.strict and batch.broken.count:
                    raise ValueError(batch.broken.examples[0])
                if self.strict and batch.misfits:
                    batch.name = self.path
                    raise ValueError(before_misfit(batch, self.format.types)[1])
                taken = len(reading.rows)
                self._take(batch, reading, stop, count)
                reading.misfit(batch.misfits, taken)
                if len(reading.rows) < count:
                    reading.byte, reading.line = records.position, records.line
                ended = stop is not None and reading.byte >= stop
            if self.whole:
                InferredLabels(self.target).check(reading.targets, self.place, reading.lines)
            position = reading.position()
            return Chunk(
                reading.rows, reading.targets, position, ended, None, reading.lines, strict=self.strict
            )

    def _begun(self, records: Records, position: Position | None) -> _Reading:
        """Go to a position."""
        if position is not None:
            byte, line, record, skipped, example, *more = position  # earlier versions counted no misfits
            records.seek(byte, line)
            misfits = {name: Misfits(*pair) for name, pair in (more[0] if more else {}).items()}
            return _Reading(int(byte), int(line), int(record), int(skipped), str(example), misfits)
        if self.block is not None:
            records.seek(self.block[0], self.block[2])
        return _Reading(records.position, records.line, 0, 0, "")

    def _take(self, batch: RecordBatch, reading: _Reading, stop: int | None, count: int) -> None:
        """Take the events of a batch that are this shard's, until there are enough."""
        first, ends, ordinals = reading.record, batch.ends, batch.ordinals
        span = len(ends) if stop is None else sum(int(end) <= stop for end in ends)
        reasons = [*batch.broken.examples, *batch.broken.bare]
        numbers = batch.numbers if self.task == "regression" else None
        kept, before = set(ordinals), 0
        for row, ordinal in enumerate(ordinals):
            if ordinal >= span:
                break
            self._count_skipped(reading, before, ordinal, kept, first, reasons)
            before = ordinal + 1
            if self._takes(first + ordinal):
                line = batch.lines[row]
                target = batch.targets[row] if numbers is None else float(numbers[row])
                try:
                    event, label = interpret(Record(line, batch.events[row], target), self, self.task)
                except ValueError as error:
                    if self.strict:
                        raise
                    reading.skip(str(error))
                    continue
                reading.rows.append(event)
                reading.targets.append(label)
                reading.lines.append(line)
                if len(reading.rows) == count:
                    reading.byte, reading.line, reading.record = int(ends[ordinal]), line, first + before
                    return
        self._count_skipped(reading, before, span, kept, first, reasons)
        reading.record = first + span

    def _count_skipped(
        self, reading: _Reading, begin: int, end: int, kept: set[int], first: int, reasons: Sequence[str]
    ) -> None:
        for ordinal in range(begin, end):
            if ordinal not in kept and self._takes(first + ordinal):
                reading.skip(reasons[0])

    def _takes(self, number: int) -> bool:
        return self.part is None or hash_of(number) % self.part[1] == self.part[0]

    def done(self, position: Position) -> float:
        """Return which part of the bytes is before a position, from 0 to 1; a guess if it is compressed."""
        start, stop = (0, size_of(self.path)) if self.block is None else self.block[:2]
        done: float = (position[0] - start) / max(stop - start, 1)
        return min(max(done, 0.0), 1.0)


def skipped_of(positions: Sequence[object]) -> tuple[int, str]:
    """Return how many records the shards of files skipped, by their positions, and why the first of them."""
    of_files = [position for position in positions if isinstance(position, list)]
    return sum(position[3] for position in of_files), next(
        (position[4] for position in of_files if position[4]), ""
    )


def misfits_of(positions: Sequence[object]) -> dict[str, Misfits]:
    """Return the values that do not fit the types of their fields, by the positions of shards of files."""
    whole: dict[str, Misfits] = {}
    for position in positions:
        if isinstance(position, list) and len(position) > 5:
            for name, pair in position[5].items():
                whole.setdefault(name, Misfits()).add(Misfits(*pair))
    return whole


BY = ("blocks", "hash", "file")
_PART = 1 << 22  # bytes looked at once
Block = tuple[int, int, int]


def shards_of(
    paths: Sequence[str],
    format: EventFormat,
    task: str,
    by: str,
    count: int,
    strict: bool = False,
    whole: bool = False,
) -> list[LogShard]:
    """Return the shards of files.

    Parameters
    ----------
    paths
        CSV, JSON lines, MessagePack or Parquet, plain or compressed.
    format, task, strict, whole
        As of :class:`connectors.shards.LogShard`.
    by
        ``"file"``, each a shard; ``"blocks"``, plain files and Parquet in blocks of about the same size,
        others whole; ``"hash"``, one file by the hash of each record's number.
    count
        How many shards, about: a file makes one at least, and no block is empty.

    Raises
    ------
    ValueError
        If ``by`` is none of these, or does not fit the files.
    """
    if by not in BY:
        raise ValueError(f"--by {by}: use {' or '.join(BY)}")
    if by == "hash" and len(paths) > 1:
        raise ValueError("--by hash is for one log; use --by blocks")
    sizes = list(map(size_of, paths))
    shards: list[LogShard] = []
    before: str | None = None
    for path, size in zip(paths, sizes, strict=True):
        share = max(1, round(count * size / max(sum(sizes), 1))) if by == "blocks" else 1
        with closing(OpenFile(path)) as file:
            file.look(format=format)
            if not file.form:
                continue
            file_format = replace(format, encoding=file.encoding)
            records = records_of(file, file_format, before)
            if isinstance(records, Lines) and records.form == "csv":
                before = records.dialect.decimal
                file_format = replace(file_format, **records.dialect._asdict())
            if by == "hash":
                return [
                    LogShard(path, file_format, task, None, (k, count), strict, whole) for k in range(count)
                ]
            parts = (
                [None]
                if share == 1 and not isinstance(records, ParquetRecords)
                else _blocks(path, file, records, share)
            )
        shards += [LogShard(path, file_format, task, block, None, strict, whole) for block in parts]
    return shards


def blocks(path: str, count: int, format: EventFormat) -> list[Block | None]:
    """Return first byte, byte after the last, and lines before, of at most ``count`` blocks of records.

    A line that ends is the end of a record, unless it is CSV and there are quotes: then a field may hold line
    ends, and the records are read one by one to find where they begin. Parquet is cut between row groups. A
    compressed file, or one of MessagePack, is one block, None.
    """
    with closing(OpenFile(path)) as file:
        file.look(format=format)
        return _blocks(path, file, records_of(file, format), count)


def _blocks(path: str, file: OpenFile, records: Records, count: int) -> list[Block | None]:
    if isinstance(records, ParquetRecords):
        groups = len(records.starts) - 1
        ends = [records.starts[groups * k // count] for k in range(count + 1)]
        return [(a, b, a) for a, b in pairwise(ends) if a < b]
    if not isinstance(records, Lines) or file.compressed:
        return [None]
    size, begins, line = file.size, records.begins, records.line
    wanted = [begins + (size - begins) * k // count for k in range(1, count)]
    with Path(local(path)).open("rb") as raw:
        if records.form == "csv" and _has_quotes(raw, begins):
            borders = _record_ends(records, wanted)
        else:
            borders = _line_ends(raw, begins, line, wanted)
    starts = [(begins, line), *(end for end in borders if begins < end[0] < size)]
    stops = [byte for byte, _ in starts[1:]] + [size]
    return [(byte, stop, line) for (byte, line), stop in zip(starts, stops, strict=True)]


def _has_quotes(raw: BinaryIO, begins: int) -> bool:
    raw.seek(begins)
    while part := raw.read(_PART):
        if b'"' in part:
            return True
    return False


def _line_ends(raw: BinaryIO, begins: int, line: int, wanted: Sequence[int]) -> list[tuple[int, int]]:
    """Return where the first line begins at or after each byte that is wanted, and the lines before it."""
    raw.seek(begins)
    at, ends = begins, []
    for byte in wanted:
        if byte <= at:
            continue
        left = byte - 1 - at  # a line may begin at this very byte
        while left and (part := raw.read(min(left, _PART))):
            left, at, line = left - len(part), at + len(part), line + part.count(b"\n")
        tail = raw.readline()
        at, line = at + len(tail), line + 1
        ends.append((at, line))
    return ends


def _record_ends(records: Lines, wanted: Sequence[int]) -> list[tuple[int, int]]:
    """Return the same of records."""
    ends, left = [], list(wanted)
    while left and (frame := records.frame(assemble=False)) is not None:
        base = records.position - int(frame.cells.ends[frame.rows - 1])
        for end, line in zip(frame.cells.ends[: frame.rows].tolist(), frame.lines.tolist(), strict=True):
            if left and base + end >= left[0]:
                ends.append((base + end, line))
                left = [byte for byte in left if byte > base + end]
    return ends
