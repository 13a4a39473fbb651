"""Which shards the files of a log make: whole files, blocks, hashes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from connectors.decoding import EventFormat
from connectors.files.lines import Lines
from connectors.files.log import records_of
from connectors.files.opening import Opened
from connectors.files.row_groups import RowGroups
from connectors.train.shards import LogShard

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
    """Return the shards of some files.

    Parameters
    ----------
    paths
        CSV, JSON lines, MessagePack or Parquet, plain or compressed.
    format, task, strict, whole
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
    if by == "hash" and len(paths) > 1:
        raise ValueError("--by hash is for one log; use --by blocks")
    sizes = [Path(path).stat().st_size for path in paths]
    shards: list[LogShard] = []
    before = "."
    for path, size in zip(paths, sizes, strict=True):
        share = max(1, round(count * size / max(sum(sizes), 1))) if by == "blocks" else 1
        with closing(Opened(path)) as file:
            file.look(encoding=format.encoding)
            if not file.form:
                continue
            own = replace(format, encoding=file.encoding)
            records = records_of(file, own, before)
            if isinstance(records, Lines) and records.form == "csv":
                before = records.dialect.decimal
                own = replace(own, **records.dialect._asdict())
            if by == "hash":
                return [LogShard(path, own, task, None, (k, count), strict, whole) for k in range(count)]
            parts = (
                [None]
                if share == 1 and not isinstance(records, RowGroups)
                else _blocks(path, file, records, share)
            )
        shards += [LogShard(path, own, task, block, None, strict, whole) for block in parts]
    return shards


def blocks(path: str, count: int, format: EventFormat) -> list[Block | None]:
    """Return first byte, byte after the last, and lines before, of at most ``count`` blocks of records.

    A line that ends is the end of a record, unless it is CSV and there are quotes: then a field may hold line
    ends, and the records are read one by one to find where they begin. Parquet is cut between row groups. A
    compressed file, or one of MessagePack, is one block, None.
    """
    with closing(Opened(path)) as file:
        file.look(encoding=format.encoding)
        return _blocks(path, file, records_of(file, format), count)


def _blocks(path: str, file: Opened, records: Any, count: int) -> list[Block | None]:
    if isinstance(records, RowGroups):
        groups = len(records.starts) - 1
        ends = [records.starts[groups * k // count] for k in range(count + 1)]
        return [(a, b, a) for a, b in pairwise(ends) if a < b]
    if not isinstance(records, Lines) or file.compressed:
        return [None]
    size, begins, line = Path(path).stat().st_size, records.begins, records.line
    wanted = [begins + (size - begins) * k // count for k in range(1, count)]
    with Path(path).open("rb") as raw:
        if records.form == "csv" and _has_quotes(raw, begins):
            found = _record_ends(records, wanted)
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


def _record_ends(records: Lines, wanted: Sequence[int]) -> list[tuple[int, int]]:
    """Return the same of records."""
    found, left = [], list(wanted)
    while left and (frame := records.frame(assemble=False)) is not None:
        base = records.position - int(frame.cells.ends[frame.rows - 1])
        for end, line in zip(frame.cells.ends[: frame.rows].tolist(), frame.lines.tolist(), strict=True):
            if left and base + end >= left[0]:
                found.append((base + end, line))
                left = [byte for byte in left if byte > base + end]
    return found
