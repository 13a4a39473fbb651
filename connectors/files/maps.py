"""Batches of MessagePack: maps one after the other, whose ends compiled code finds."""

# mypy: disable-error-code="no-untyped-call, misc"
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numba import njit

from connectors.events import Decoder
from connectors.files.batches import BYTES, ROWS, Batch
from connectors.files.opening import Opened
from connectors.files.reader import DAMAGE, cut_short
from streamk.compiling import ENTRY

_PART, _LONGEST = 1 << 18, 1 << 24  # bytes read at once, and of a record
# What follows a first byte of 0xc0 … 0xdf: bytes of length, bytes of content, values a unit of length
_AFTER = np.array(
    [(0, 0, 0), (-1, 0, 0), (0, 0, 0), (0, 0, 0), (1, 0, 0), (2, 0, 0), (4, 0, 0), (1, 1, 0), (2, 1, 0),
     (4, 1, 0), (0, 4, 0), (0, 8, 0), (0, 1, 0), (0, 2, 0), (0, 4, 0), (0, 8, 0), (0, 1, 0), (0, 2, 0),
     (0, 4, 0), (0, 8, 0), (0, 2, 0), (0, 3, 0), (0, 5, 0), (0, 9, 0), (0, 17, 0), (1, 0, 0), (2, 0, 0),
     (4, 0, 0), (2, 0, 1), (4, 0, 1), (2, 0, 2), (4, 0, 2)], dtype=np.int64,
)  # fmt: skip


@njit(**ENTRY, nogil=True)
def ends_of(data, at, ends):  # type: ignore[no-untyped-def]
    """Note where values end from a byte on; return how many, and whether the next one is none at all."""
    size = len(data)
    for row in range(len(ends)):
        wanted = np.int64(1)
        while wanted > 0:
            if at >= size:
                return row, False
            first = np.int64(data[at])
            at += 1
            wanted -= 1
            if 0x80 <= first <= 0x8F:
                wanted += 2 * (first & 15)
            elif 0x90 <= first <= 0x9F:
                wanted += first & 15
            elif 0xA0 <= first <= 0xBF:
                at += first & 31
            elif 0xC0 <= first <= 0xDF:
                width, content, units = _AFTER[first - 0xC0]
                if width < 0:
                    return row, True
                if at + width > size:
                    return row, False
                length = np.int64(0)
                for _ in range(width):
                    length = length << 8 | np.int64(data[at])
                    at += 1
                wanted += units * length
                at += content + (length if units == 0 else 0)
        if at > size:
            return row, False
        ends[row] = at
    return len(ends), False


class Maps:
    """The records of an open file of MessagePack; a line is the number of a record.

    Parameters
    ----------
    file
        What to read.
    decode
        The decoder of a record.
    target
        The field to predict.
    timed
        Whether events have times.
    """

    def __init__(self, file: Opened, decode: Decoder, target: str, timed: bool = False) -> None:
        self._target = target
        self._file, self._decode, self._timed = file, decode, timed
        self._line, self._error = 0, ""

    def batches(self) -> Iterator[Batch]:
        """Yield batches."""
        data = self._file.head
        at, ended, none = 0, False, False
        ends = np.empty(ROWS, np.int64)
        while True:
            count, none = ends_of(np.frombuffer(data, np.uint8), at, ends)
            rest = len(data) - at
            if count < ROWS and not ended and not none and rest < (BYTES if count else _LONGEST):
                part = self._read(max(_PART, rest))
                data, at, ended = data[at:] + part, 0, not part
                continue
            if not count:
                break
            yield self._batch(data, at, ends[:count].tolist())
            at = int(ends[count - 1])
        if self._error or at < len(data):
            batch = Batch([], [], [])
            why = "it is no MessagePack" if none else "the last record is not whole"
            why = f"from here on nothing can be read: {why}" if at < len(data) else ""
            place = f"record {self._line}"
            if self._error:
                batch.broken.note(self._file.name, cut_short(place, self._error))
            else:
                batch.broken.note(f"{self._file.name}, after {place}", why)
            yield batch

    def _batch(self, data: bytes, at: int, ends: list[int]) -> Batch:
        lines: list[int] = []
        events: list[dict[str, Any]] = []
        targets: list[Any] = []
        times: list[Any] = []
        batch = Batch(lines, targets, events, times if self._timed else None)
        batch.size = ends[-1] - at
        for begin, end in zip([at, *ends], ends, strict=False):
            self._line += 1
            place = f"{self._file.name}, record {self._line}"
            try:
                event = self._decode(data[begin:end])
            except ValueError as error:
                batch.broken.note(place, str(error))
                continue
            if event.target is None:
                batch.broken.miss(place, self._target, event.fields)
                continue
            lines.append(self._line)
            targets.append(event.target)
            events.append(event.fields)
            times.append(event.time)
        return batch

    def _read(self, size: int) -> bytes:
        try:
            part: Any = b"" if self._error else self._file.plain.read1(size)
        except DAMAGE as error:
            self._error, part = str(error), b""
        return bytes(part)
