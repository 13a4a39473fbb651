"""Shards of logs: whole files, blocks of one, or the records of one that fall to a hash.

Their events are those of ``streamk replay``: the same reader, the same types, the same reading of targets.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from connectors.decoding import EventFormat, Record
from connectors.files.batches import Batch
from connectors.files.log import Records, records_of
from connectors.files.opening import Opened
from connectors.replay.reading import InferredLabels, interpret
from streamk.distributed import Chunk
from streamk.features.counter import GOLDEN64, mix64_int


def hash_of(number: int) -> int:
    """Return 64 bits of a number that look random and are the same for ever: those of SplitMix64.

    >>> hex(hash_of(0)), [hash_of(number) % 4 for number in range(8)]
    ('0xe220a8397b1dcdaf', [3, 0, 3, 0, 3, 2, 1, 0])
    """
    return mix64_int((number + 1) * GOLDEN64)


@dataclass
class _Reading:
    """Where a shard stands, and what it has read since: a position and the rows of a chunk."""

    byte: int
    line: int
    record: int
    skipped: int
    example: str

    def __post_init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.targets: list[Any] = []
        self.lines: list[int] = []

    def skip(self, example: str, count: int = 1) -> None:
        self.skipped += count
        self.example = self.example or example

    def position(self) -> list[Any]:
        return [self.byte, self.line, self.record, self.skipped, self.example]


@dataclass(frozen=True)
class LogShard:
    """Records of a log: all of them, those of a block, or those that fall to a hash.

    A position is ``[byte, line, record, skipped, reason]``: where the next record begins (of Parquet, which
    row it is), how many lines and records of the file are before it, how many records were skipped, and why
    the first of them. Of a block, records count from its beginning.

    Parameters
    ----------
    path
        CSV, JSON lines, MessagePack or Parquet; plain, gzip or zstd.
    format, task
        Which field is what, with the types of all fields, and ``"classification"`` or ``"regression"``.
    block
        First byte, byte after the last one, and lines before the first; None means the whole file. Both are
        at the beginning of a record (:mod:`connectors.train.blocks`). Of Parquet, rows.
    part
        Which shard of how many by the hash of a record's number; None means every record.
    strict
        Whether a record that cannot be decoded, whose target is no number where one is needed, or that the
        learner refuses, raises a ValueError; it is skipped and counted otherwise.
    whole
        Whether the task was inferred from targets that are whole numbers, so that a fraction raises a
        ValueError (:class:`connectors.replay.reading.InferredLabels`).
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

    def place(self, line: int) -> str:
        """Return how messages name a line."""
        return f"{self.path}, line {line}"

    def read(self, position: Any, count: int) -> Chunk:
        """Return at most ``count`` events from a position on.

        Raises
        ------
        ValueError
            If the compressed data is cut short; with ``strict``, if a record cannot be decoded.
        OSError
            If the file cannot be read.
        """
        with closing(Opened(self.path)) as file:
            file.look(encoding=self.format.encoding)
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
                if batch.broken.cut:
                    raise ValueError(batch.broken.examples[0])
                if self.strict and batch.broken.count:
                    raise ValueError(batch.broken.examples[0])
                self._take(batch, reading, stop, count)
                if len(reading.rows) < count:
                    reading.byte, reading.line = records.position, records.line
                ended = stop is not None and reading.byte >= stop
            if self.whole:
                InferredLabels(self.target).check(reading.targets, self.place, reading.lines)
            position = reading.position()
            return Chunk(
                reading.rows, reading.targets, position, ended, None, reading.lines, strict=self.strict
            )

    def _begun(self, records: Records, position: Any) -> _Reading:
        """Go to a position."""
        if position is not None:
            byte, line, record, skipped, example = position
            records.seek(byte, line)
            return _Reading(int(byte), int(line), int(record), int(skipped), str(example))
        if self.block is not None:
            records.seek(self.block[0], self.block[2])
        return _Reading(records.position, records.line, 0, 0, "")

    def _take(self, batch: Batch, reading: _Reading, stop: int | None, count: int) -> None:
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

    def done(self, position: Any) -> float:
        """Return which part of the bytes is before a position, from 0 to 1; a guess if it is compressed."""
        start, stop = (0, Path(self.path).stat().st_size) if self.block is None else self.block[:2]
        done: float = (position[0] - start) / max(stop - start, 1)
        return min(max(done, 0.0), 1.0)


def skipped_of(positions: Sequence[Any]) -> tuple[int, str]:
    """Return how many records the shards of files skipped, by their positions, and why the first of them."""
    own = [position for position in positions if isinstance(position, list) and len(position) == 5]
    return sum(position[3] for position in own), next((position[4] for position in own if position[4]), "")
