"""Records of MessagePack: maps one after the other, whose ends compiled code finds."""

# mypy: disable-error-code="no-untyped-call, misc"
from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numba import njit

from connectors.contract.records import Raw
from connectors.events.batches import BYTES, ROWS, BatchBuilder, RecordBatch
from connectors.events.decoding import EventFormat, Location
from connectors.events.schema import LOOK
from connectors.events.values import Fields
from connectors.formats.open_file import DAMAGE, DamagedError, OpenFile, StoppedError, cut_short
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
def ends_of(data, at, ends):
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


class MessagePackRecords:
    """The records of an open file of MessagePack; a line is the number of a record, a position is a byte.

    Parameters
    ----------
    file
        What to read.
    format
        Which field is what.
    growing
        Whether more may still be written, and is waited for.

    Attributes
    ----------
    format, decoder
        How records are read.
    position, line
        Of the next record, and how many are before it.
    """

    begins = 0  # the position of the first record
    columns = None

    def __init__(self, file: OpenFile, format: EventFormat, growing: bool = False) -> None:
        self._file, self._growing, self._none = file, growing, False
        self._data, self._at, self._ended, self._error = file.head, 0, False, ""
        self.position, self.line, self.notes = 0, 0, list[str]()
        self.use(format)

    def use(self, format: EventFormat) -> None:
        """Decode by this format from here on."""
        self.format, self.decoder = format, format.decoder("msgpack")

    def first(self) -> list[Fields]:
        """Return the first records, as many as types are inferred from, without types; none is consumed."""
        ends, records = self._next(LOOK), []
        for begin, end in zip([self._at, *ends], ends, strict=False):
            try:
                records.append(self.decoder.raw(self._data[begin:end]))
            except ValueError:
                continue
        return records

    def _next(self, most: int) -> list[int]:
        """Return where the next records end in the data."""
        ends = np.empty(most, np.int64)
        while True:
            count, self._none = ends_of(np.frombuffer(self._data, np.uint8), self._at, ends)
            unread = len(self._data) - self._at
            full = count == most or self._none or unread >= (BYTES if count else _LONGEST)
            if full or self._ended or not self._fill(max(_PART, unread)):
                return [int(end) for end in ends[:count]]

    def records(self, most: int) -> list[Raw]:
        """Return the next records as bytes, at most so many; none at the end.

        Raises
        ------
        DamagedError
            If the next bytes are no record, and no record is left before them.
        """
        ends = self._next(most)
        begins, base = [self._at, *ends], self.position - self._at
        if ends:
            raws = [Raw(base + a, self._data[a:b]) for a, b in zip(begins, ends, strict=False)]
            self.position, self._at, self.line = base + ends[-1], ends[-1], self.line + len(ends)
            return raws
        if (why := self._why_cut()) and (self._none or not self._growing):
            raise DamagedError(why)
        return []

    def _why_cut(self) -> str:
        """Return why the remaining bytes are no record, empty if there are none."""
        if self._error:
            return f"the data is cut short or damaged ({self._error})"
        if self._at == len(self._data):
            return ""
        return "it is no MessagePack" if self._none else "the last record is not whole"

    def batches(self) -> Iterator[RecordBatch]:
        """Yield batches."""
        while ends := self._next(ROWS):
            yield self._batch(ends)
        if why := self._why_cut():
            if self._error:
                yield RecordBatch.cut_off(self._file.name, cut_short(f"record {self.line}", self._error))
            else:
                place = f"{self._file.name}, after record {self.line}"
                yield RecordBatch.cut_off(place, f"from here on nothing can be read: {why}")

    def _batch(self, ends: list[int]) -> RecordBatch:
        builder, starts = BatchBuilder.of(self.format, self._place), [self._at, *ends]
        values = [self._data[start:end] for start, end in pairwise(starts)]
        builder.decode(self.decoder, range(self.line + 1, self.line + 1 + len(ends)), values)
        self.line += len(ends)
        batch = builder.batch()
        batch.size = ends[-1] - self._at
        batch.ends = [self.position + end - self._at for end in ends]
        self.position, self._at = batch.ends[-1], ends[-1]
        return batch

    def _place(self, line: int) -> Location:
        return Location(self._file.name, line, "record")

    def _fill(self, size: int) -> bool:
        """Read more bytes; return whether there is a point in looking again."""
        try:
            part = b"" if self._error else self._file.plain.read1(size)
        except DAMAGE as error:
            self._error, part = str(error), b""
        except StoppedError:
            part = b""
        self._data, self._at = self._data[self._at :] + part, 0
        self._ended = not part and not self._growing
        return bool(part) or self._ended

    @property
    def share(self) -> float:
        """Which part of what was read has been yielded, from 0 to 1."""
        return self.position / max(self.position + len(self._data) - self._at, 1)

    def seek(self, position: int, line: int = 0) -> None:
        """Read from this position on, before which there are so many records."""
        self._file.seek(position)
        self._data, self._at, self._ended, self._error = b"", 0, False, ""
        self.position, self.line = position, line

    def finish(self) -> None:
        """Expect no more records."""
        self._growing = False
