"""Record batches of Kafka's format 2, parsed by compiled code.

A batch is a header and, perhaps compressed, its records one after another: length, attributes, time and
offset as differences to those of the header, key, value, headers; every number is a varint. The scan only
notes where things are, and checks that they are inside of their record. It raises no errors: what it does not
understand is left to the library's reader, which raises its errors.
"""

from __future__ import annotations

from functools import partial
from itertools import accumulate, pairwise, repeat
from typing import NamedTuple

import numpy as np
from kafka.record.default_records import DefaultRecordBatch
from numba import njit
from numpy.typing import NDArray

from connectors.contract.records import Raw
from streamk.compiling import ENTRY, INNER

_OFFSET, _TIME, _VALUE, _VALUE_END, _KEY, _KEY_END, _HEADERS, _HEADER_COUNT, _SIZES = range(9)
_LEAST = 7  # bytes of a record
_LARGEST = 1 << 62  # of offsets and times: sums of two stay integers of 64 bits
_LOG_APPEND_TIME = 1
_ABSENT = -1  # where something without a value begins
_raw = partial(tuple.__new__, Raw)  # makes a record of a tuple, faster than the class does


class Unpacked(NamedTuple):
    """The records of a batch, and their sizes as the library counts them, each added to those before it."""

    records: list[Raw]
    sizes: NDArray[np.int64]


def unpack(batch: DefaultRecordBatch) -> Unpacked | None:
    """Return the records of a batch; None if the library must read it.

    Parameters
    ----------
    batch
        A ``DefaultRecordBatch`` of which nothing has been read.

    Raises
    ------
    Exception
        As the library, if it cannot be decompressed.
    """
    offset, time, count = batch.base_offset, batch.first_timestamp, batch.records_count
    batch._maybe_uncompress()
    body = bytes(memoryview(batch._buffer)[batch._pos :])
    if not 0 <= count <= len(body) // _LEAST:  # before memory for so many is allocated
        return None
    if not (-_LARGEST < offset < _LARGEST and -_LARGEST < time < _LARGEST):
        return None
    parts = np.empty((9, count), np.int64)
    view = np.frombuffer(body, np.uint8)
    whole, keys, values, headers = _scan(view, offset, time, parts)
    if not whole:
        return None
    offsets, times, begins, ends = parts[:4].tolist()
    key_begins, key_ends = parts[_KEY : _KEY_END + 1].tolist() if keys else ([], [])
    columns = (
        offsets,
        _slices(body, begins, ends, values),
        _slices(body, key_begins, key_ends, keys) if keys else repeat(None),
        repeat(batch.max_timestamp) if batch.timestamp_type == _LOG_APPEND_TIME else times,
        _headers(body, view, parts[_HEADERS], parts[_HEADER_COUNT], headers) if headers else repeat(()),
    )
    return Unpacked(list(map(_raw, zip(*columns))), parts[_SIZES])  # noqa: B905 (those repeated have no end)


def _slices(body: bytes, begins: list[int], ends: list[int], present: int) -> list[bytes | None]:
    """Return the bytes between places, None for what is absent; ``present`` counts the others."""
    if present == len(begins):
        return [body[a:b] for a, b in zip(begins, ends, strict=True)]
    return [None if a == _ABSENT else body[a:b] for a, b in zip(begins, ends, strict=True)]


def _headers(
    body: bytes, view: NDArray[np.uint8], begins: NDArray[np.int64], counts: NDArray[np.int64], count: int
) -> list[list[tuple[str, bytes | None]]]:
    """Return the headers of each record.

    Unlike the library, which then reads nothing more of the partition, this takes names that are not UTF-8,
    with U+FFFD in place of what cannot be decoded.
    """
    places = np.empty((4, count), np.int64)
    present = _scan_headers(view, begins, counts, places)
    names, name_ends, values, value_ends = places.tolist()
    headers = list(
        zip(
            [str(body[a:b], "utf-8", "replace") for a, b in zip(names, name_ends, strict=True)],
            _slices(body, values, value_ends, present),
            strict=True,
        )
    )
    return [headers[a:b] for a, b in pairwise(accumulate(counts.tolist(), initial=0))]


@njit(**INNER)
def _varint(body, pos, end):
    """Return a number and the place after it, which is beyond ``end`` if there is none or a too long one."""
    zigzag, shift = np.int64(0), 0
    while pos < end and shift < 63:
        byte = np.int64(body[pos])
        zigzag |= (byte & 127) << shift
        pos += 1
        if byte < 128:
            return (zigzag >> 1) ^ -(zigzag & 1), pos
        shift += 7
    return np.int64(0), end + 1


@njit(**INNER)
def _stretch(body, pos, end):
    """Return begin and end of bytes with their length before them, and the place after them."""
    length, pos = _varint(body, pos, end)
    if length < 0:
        return np.int64(_ABSENT), np.int64(_ABSENT), pos
    return pos, pos + length, pos + length


@njit(**ENTRY)
def _scan(body, offset, time, parts):
    """Note where the parts of records are; return whether all is well, and the keys, values and headers."""
    failed = False, 0, 0, 0
    keys = values = headers = 0
    sizes = np.int64(0)
    pos, end = 0, len(body)
    for i in range(parts.shape[1]):
        size, pos = _varint(body, pos, end)
        if pos > end or size < 0 or size > end - pos:
            return failed
        stop = pos + size
        # where one of these fails, so do those after it
        _, pos = _varint(body, pos, stop)
        time_delta, pos = _varint(body, pos, stop)
        offset_delta, pos = _varint(body, pos, stop)
        key, key_end, pos = _stretch(body, pos, stop)
        value, value_end, pos = _stretch(body, pos, stop)
        count, pos = _varint(body, pos, stop)
        if pos > stop or count < 0:
            return failed
        begin = pos
        for _ in range(count):
            name, _, pos = _stretch(body, pos, stop)
            _, _, pos = _stretch(body, pos, stop)
            if pos > stop or name == _ABSENT:
                return failed
        if pos != stop:
            return failed
        parts[_OFFSET, i], parts[_TIME, i] = offset + offset_delta, time + time_delta
        parts[_KEY, i], parts[_KEY_END, i] = key, key_end
        parts[_VALUE, i], parts[_VALUE_END, i] = value, value_end
        sizes += size
        parts[_HEADERS, i], parts[_HEADER_COUNT, i], parts[_SIZES, i] = begin, count, sizes
        keys += key != _ABSENT
        values += value != _ABSENT
        headers += count
    return pos == end, keys, values, headers


@njit(**ENTRY)
def _scan_headers(body, begins, counts, places):
    """Note where names and values of headers are, which are known to be inside; return how many values."""
    present, k, end = 0, 0, len(body)
    for i in range(len(begins)):
        pos = begins[i]
        for _ in range(counts[i]):
            places[0, k], places[1, k], pos = _stretch(body, pos, end)
            places[2, k], places[3, k], pos = _stretch(body, pos, end)
            present += places[2, k] != _ABSENT
            k += 1
    return present
