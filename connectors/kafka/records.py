"""Fetched records, unpacked by compiled code where the library would go through them byte by byte.

A record batch of Kafka's format 2 is a header and, perhaps compressed, its records one after another: length,
attributes, time and offset as differences to those of the header, key, value, headers; every number is a
varint. The scan only notes where things are, and checks that they are inside of their record. It raises no
errors: what it does not understand is left to the library's reader, which raises its errors.

The library keeps a fetched part of a log in a ``PartitionRecords``, which hands out records, so many at a
time. The one here does the same with the same batches, checksums, codecs and transactions, and leaves a
fetch to the library's reader as soon as it meets a batch that is not plain format 2.

It differs on purpose in three ways:

- records are :class:`~connectors.contract.records.Raw`, and header names need not be UTF-8;
- the position is past markers of transactions, aborted records and gaps that end a fetch as soon as the last
  record before them was taken; the library's is so one poll later;
- what cannot be read raises one kind of error, with its place, at each request, until the consumer
  is sent elsewhere. The library raises errors of several kinds, once, and its next poll never returns.
"""

from __future__ import annotations

from functools import partial
from itertools import accumulate, dropwhile, islice, pairwise, repeat
from typing import NamedTuple

import kafka
import numpy as np
from kafka import TopicPartition
from kafka.consumer.fetcher import Fetcher
from kafka.errors import CorruptRecordError, KafkaError
from kafka.protocol.consumer import IsolationLevel
from kafka.record.default_records import DefaultRecordBatch
from kafka.record.memory_records import MemoryRecords
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
KNOWN = "3.0."  # versions of kafka-python whose inside is known


class Unpacked(NamedTuple):
    """The records of a batch, and their sizes as the library counts them, each added to those before it."""

    records: list[Raw]
    sizes: NDArray[np.int64]


def unpack(batch: DefaultRecordBatch, topic: str = "") -> Unpacked | None:
    """Return the records of a batch of a topic; None if the library must read it.

    Parameters
    ----------
    batch
        A ``DefaultRecordBatch`` of which nothing has been read.
    topic
        Its topic.

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
        repeat(topic),
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


class UnreadableBatchError(KafkaError):  # type: ignore[misc]
    """A batch that cannot be read: its partition, its offset, and why; the cause is the library's error.

    Parameters
    ----------
    partition
        A ``TopicPartition``.
    offset
        Where the batch begins, by its header.
    why
        The error of the library, or a sentence.
    """

    def __init__(self, partition: TopicPartition, offset: int, why: object) -> None:
        name, reason = f"{partition.topic}-{partition.partition}", str(why) or type(why).__name__
        super().__init__(f"{name}: the batch at offset {offset} cannot be read: {reason}")
        self.partition, self.offset = partition, offset

    def __str__(self) -> str:
        return str(self.args[0])


def unpack_quickly(consumer: kafka.KafkaConsumer) -> None:
    """Let a consumer's :meth:`poll` return records that compiled code unpacked.

    Nothing changes for a version of the library that is not known, or where it is to decode keys or values.
    """
    fetcher = consumer._fetcher
    decodes = fetcher.config["key_deserializer"] or fetcher.config["value_deserializer"]
    if kafka.__version__.startswith(KNOWN) and not decodes:
        fetcher.PartitionRecords = QuickRecords


class _Batches:
    """The batches of a fetch, of which the last one can be put back."""

    def __init__(self, records: MemoryRecords) -> None:
        self._records, self._back = records, None
        self.last: DefaultRecordBatch | None = None

    def next_batch(self) -> DefaultRecordBatch | None:
        """Return the next batch, None at the end."""
        batch, self._back = self._back, None
        if batch is None:
            batch = self._records.next_batch()
        if batch is not None:
            self.last = batch
        return batch

    def put_back(self, batch: DefaultRecordBatch) -> None:
        """Let a batch be the next one."""
        self._back = batch


class QuickRecords(Fetcher.PartitionRecords):  # type: ignore[misc]
    """The records of a partition that one fetch brought; parameters are the library's."""

    def __init__(
        self,
        fetch_offset: int,
        tp: TopicPartition,
        records: MemoryRecords,
        *deserializers: None,
        **options: object,
    ) -> None:
        super().__init__(fetch_offset, tp, records, *deserializers, **options)
        self._batches = _Batches(records)
        self._waiting: list[Raw] = []  # of the batch that was unpacked last
        self._sizes: NDArray[np.int64] = np.empty(0, np.int64)
        self._returned = 0  # of those
        self._epoch = -1
        self._begun = False  # whether the fetched offset has been reached
        self._handed_over = False  # whether the library reads what remains

    def take(self, n: int | None = None) -> list[Raw]:
        """Return the next records, as many as there are but ``n`` at most.

        Raises
        ------
        UnreadableBatchError
            If what comes next cannot be read.
        """
        self._maybe_raise_next_inline_exception()
        taken: list[Raw] = []
        try:
            while self and len(taken) != n and not self._handed_over:
                if self._returned < len(self._waiting):
                    taken += self._give(None if n is None else n - len(taken))
                else:
                    self._read_on()
            if self and len(taken) != n:
                taken.extend(islice(self.record_iterator, None if n is None else n - len(taken)))
        except Exception as error:
            self._keep(error)
            if not taken:
                self._maybe_raise_next_inline_exception()
        if self and taken and len(taken) == n:
            self._look_past()
        return taken

    def drain(self) -> None:
        """Forget what has not been taken."""
        super().drain()
        self._waiting, self._returned = [], 0

    def _maybe_raise_next_inline_exception(self) -> None:
        if self._next_inline_exception:
            raise self._next_inline_exception.with_traceback(None)

    def _keep(self, error: Exception) -> None:
        """Raise an error at the next request for records."""
        last = self._batches.last
        offset = self.next_fetch_offset if last is None else last.base_offset
        unreadable = UnreadableBatchError(self.topic_partition, offset, error)
        unreadable.__cause__ = error
        self._next_inline_exception = unreadable

    def _give(self, most: int | None) -> list[Raw]:
        """Return records of the batch that was unpacked last."""
        begin = self._returned
        end = len(self._waiting) if most is None else min(begin + most, len(self._waiting))
        self._count(end)
        self.leader_epoch = self._epoch
        return self._waiting[begin:end]

    def _count(self, end: int) -> None:
        """Note that the records before ``end`` have been gone through."""
        self.records_read += end - self._returned
        before = self._sizes[self._returned - 1] if self._returned else 0
        self.bytes_read += int(self._sizes[end - 1] - before)
        self.next_fetch_offset = self._waiting[end - 1].offset + 1
        self._returned = end

    def _look_past(self) -> None:
        """Let the position be that of the end, if no records are left."""
        if self._handed_over or self._returned < len(self._waiting):
            return
        place = self.next_fetch_offset, self.leader_epoch
        try:
            while self and not self._handed_over and self._returned == len(self._waiting):
                self._read_on()
        except Exception as error:
            self._keep(error)
        if self:
            self.next_fetch_offset, self.leader_epoch = place

    def _read_on(self) -> None:
        """Unpack the next batch, or go past it, or come to the end."""
        batch = self._batches.next_batch()
        if batch is None:
            if (last := self._batches.last) is not None:
                self.next_fetch_offset = last.next_offset  # past what compaction took from its end
            self.drain()
        elif batch.magic != 2:
            self._hand_over(batch)
        elif self.check_crcs and not batch.validate_crc():
            raise CorruptRecordError("its checksum is not that of its bytes")
        else:
            self.leader_epoch = self._epoch = batch.leader_epoch
            if self._brings_nothing(batch):
                self.next_fetch_offset = batch.next_offset
            else:
                self._unpack(batch)

    def _brings_nothing(self, batch: DefaultRecordBatch) -> bool:
        """Return whether a batch is a marker or was aborted, keeping account of who aborts what."""
        if self.isolation_level == IsolationLevel.READ_COMMITTED and batch.has_producer_id():
            self._consume_aborted_transactions_up_to(batch.last_offset)
            if self._contains_abort_marker(batch):
                self.aborted_producer_ids.discard(batch.producer_id)
            elif self._is_batch_aborted(batch):
                return True
        return bool(batch.is_control_batch)

    def _unpack(self, batch: DefaultRecordBatch) -> None:
        """Have the records of a batch ready."""
        untouched = batch._buffer
        unpacked = unpack(batch, self.topic_partition.topic)
        if unpacked is None:
            self._hand_over(DefaultRecordBatch(untouched))
            return
        self._waiting, self._sizes = unpacked
        self._returned = 0
        if not self._begun and self._waiting:
            # a batch comes whole, also if it was requested from its middle
            reached = (k for k, raw in enumerate(self._waiting) if raw.offset >= self.fetch_offset)
            first = next(reached, len(self._waiting))
            if first:
                self._count(first)
            self._begun = first < len(self._waiting)

    def _hand_over(self, batch: DefaultRecordBatch) -> None:
        """Let the library read this batch and those after it."""
        self._batches.put_back(batch)
        remaining = self._unpack_records(self.topic_partition, self._batches, None, None)
        self.record_iterator = remaining if self._begun else dropwhile(self._maybe_skip_record, remaining)
        self._handed_over = True
