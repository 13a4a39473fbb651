"""Which shards the files of a log make: whole files, blocks, hashes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from connectors.events import Record
from connectors.files.log import Log
from connectors.files.reader import DamagedError, Reader
from connectors.replay.reading import LOOK, tell_task
from connectors.train.shards import LogShard, ParquetShard, parquet_file

BY = ("blocks", "hash", "file")
_PART = 1 << 22  # bytes looked at once
_PARQUET = b"PAR1"


def task_of(path: str, target: str) -> str:
    """Return the task that the first records of a file suggest.

    Raises
    ------
    ValueError
        If it holds no events, or they have no such target.
    """
    if _is_parquet(path):
        file = parquet_file(path)
        if target not in file.schema_arrow.names:
            there = ", ".join(file.schema_arrow.names)
            raise ValueError(f"{path}: there is no column {target!r}; there are {there}")
        batches = file.iter_batches(LOOK, columns=[target])
        head = [Record(k, {}, y) for k, y in enumerate(next(batches).column(0).to_pylist())]
    else:
        head = list(islice(Log(path, target), LOOK))
    if not head:
        raise ValueError(f"{path} holds no events")
    return tell_task(head)


def shards_of(paths: Sequence[str], target: str, task: str, by: str, count: int) -> list[Any]:
    """Return the shards of some files.

    Parameters
    ----------
    paths
        CSV or JSON lines, plain or packed, or Parquet.
    target, task
        As of :class:`connectors.train.shards.LogShard`.
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
    if by == "hash":
        if len(paths) > 1 or _is_parquet(paths[0]):
            raise ValueError("--by hash is for one log of CSV or JSON lines; use --by blocks")
        return [LogShard(paths[0], target, task, None, (k, count)) for k in range(count)]
    sizes = [Path(path).stat().st_size for path in paths]
    shards: list[Any] = []
    for path, size in zip(paths, sizes, strict=True):
        share = 1 if by == "file" else max(1, round(count * size / max(sum(sizes), 1)))
        if _is_parquet(path):
            shards += [ParquetShard(path, target, task, groups) for groups in _groups(path, share)]
        elif share == 1:
            shards.append(LogShard(path, target, task))
        else:
            shards += [LogShard(path, target, task, block) for block in blocks(path, share)]
    return shards


def _groups(path: str, count: int) -> list[tuple[int, int]]:
    """Return row groups in so many stretches of about as many."""
    groups = parquet_file(path).num_row_groups
    ends = [groups * k // count for k in range(count + 1)]
    return [(a, b) for a, b in pairwise(ends) if a < b]


def _is_parquet(path: str) -> bool:
    with Path(path).open("rb") as file:
        return file.read(4) == _PARQUET


def blocks(path: str, count: int) -> list[tuple[int, int, int] | None]:
    """Return first byte, byte after the last, and lines before, of at most ``count`` blocks of records.

    A line that ends is the end of a record, unless it is CSV and there are quotes: then a field may hold line
    ends, and the records are read one by one to find where they begin. A packed file is one block, None.
    """
    with Path(path).open("rb") as raw:
        try:
            reader = Reader(raw, path, None)
        except DamagedError as error:
            raise ValueError(f"{path}, after line 0: {error}") from None
        if not reader.plain:
            return [None]
        size = Path(path).stat().st_size
        begins = reader.begins
        wanted = [begins + (size - begins) * k // count for k in range(1, count)]
        line = reader.line
        if reader.form == "csv" and _has_quotes(raw, begins):
            reader.seek(begins)
            found = _record_ends(reader, wanted)
        else:
            found = _line_ends(raw, begins, line, wanted)
    starts = [(begins, line), *(end for end in found if begins < end[0] < size)]
    stops = [byte for byte, _ in starts[1:]] + [size]
    return [(byte, stop, line) for (byte, line), stop in zip(starts, stops, strict=True)]


def _has_quotes(raw: Any, begins: int) -> bool:
    raw.seek(begins)
    while part := raw.read(_PART):
        if b'"' in part:
            return True
    return False


def _line_ends(raw: Any, begins: int, line: int, wanted: Sequence[int]) -> list[tuple[int, int]]:
    """Return where the first line begins at or after each byte that is wanted, and the lines before it."""
    raw.seek(begins)
    at, found = begins, []
    for byte in wanted:
        if byte <= at:
            continue
        left = byte - 1 - at  # a line may begin at this very byte
        while left and (part := raw.read(min(left, _PART))):
            left, at, line = left - len(part), at + len(part), line + part.count(b"\n")
        rest = raw.readline()
        at, line = at + len(rest), line + 1
        found.append((at, line))
    return found


def _record_ends(reader: Reader, wanted: Sequence[int]) -> list[tuple[int, int]]:
    """Return the same of records."""
    found, left = [], list(wanted)
    for _ in reader.records():
        if left and reader.position >= left[0]:
            found.append((reader.position, reader.line))
            left = [byte for byte in left if byte > reader.position]
    return found
