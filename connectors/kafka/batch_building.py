"""Records put into the open batch of kafka-python's producer by compiled code, many at a time.

The library's ``send`` costs more than to predict and to learn. Here it sends the first record of each batch,
and so chooses the partition, takes it into the transaction, and opens the batch; those after it, as many as
fit, are written behind it as the library would write them. They succeed or fail with the batch.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import repeat

import kafka
import numpy as np
from kafka.producer.future import FutureProduceResult, FutureRecordMetadata
from numba import njit
from numpy.typing import NDArray

from connectors.kafka.records import KNOWN
from streamk.compiling import ENTRY, INNER

_OVERHEAD = 32  # bytes of a record at most, next to its key and value
_ABSENT = -1  # length of a key that is none


class _Fate:
    """Stands for the futures of records that were put into a batch together.

    The library asks for them where it has to send a batch in smaller parts.
    """

    def __init__(self, futures: list[FutureRecordMetadata]) -> None:
        self._futures, self._last = futures, None

    def rebind(self, produced: FutureProduceResult, index: int) -> None:
        """Follow one more part."""
        if produced is not self._last:
            self._last = produced
            self._futures.append(FutureRecordMetadata(produced, index, None, None, -1, -1, -1))


def append(
    producer: kafka.KafkaProducer,
    future: FutureRecordMetadata,
    values: Sequence[bytes],
    keys: Sequence[bytes | None],
    futures: list[FutureRecordMetadata],
) -> int:
    """Write records into the batch that a sent record went into; return how many fit.

    Parameters
    ----------
    producer
        A ``KafkaProducer``.
    future
        What its ``send`` returned for the record before these.
    values, keys
        Of the records, which have no headers.
    futures
        Takes the futures of further parts, if the batch is divided.
    """
    if not values or not kafka.__version__.startswith(KNOWN):
        return 0
    place, accumulator = future._produce_future.topic_partition, producer._accumulator
    joined, sizes = _joined(values)
    key_bytes, key_sizes = _joined(keys)
    out = np.empty(len(joined) + len(key_bytes) + _OVERHEAD * len(values), np.uint8)
    accumulator._appends_in_progress.increment()
    try:
        with accumulator._tp_lock(place):
            waiting = accumulator._batches.get(place)
            if not waiting or waiting[-1].records._closed:
                return 0
            batch = waiting[-1]
            records, builder = batch.records, batch.records._builder
            now = max(int(time.time() * 1000), builder._first_timestamp)
            room = builder._batch_size - len(builder._buffer)
            first = records._next_offset
            delta = now - builder._first_timestamp
            written, end = _pack(joined, sizes, key_bytes, key_sizes, first, delta, out[: max(room, 0)])
            if written:
                builder._buffer.extend(out[:end].data)
                builder._max_timestamp = max(builder._max_timestamp, now)
                builder._num_records += written
                builder._last_offset = first + written - 1
                records._next_offset += written
                batch.last_append = time.monotonic()
                batch._record_futures.extend(repeat(_Fate(futures), written))
            return int(written)
    finally:
        accumulator._appends_in_progress.decrement()


def parts(keys: Sequence[bytes], partitions: Sequence[int]) -> NDArray[np.int64]:
    """Return the partition of each key, as every client of Kafka chooses it.

    >>> parts([b"a", b"b"], [0, 1, 2]).tolist()
    [1, 2]
    """
    joined, sizes = _joined(keys)
    hashes = np.empty(len(keys), np.uint32)
    _murmur2(joined, sizes, hashes)
    places: NDArray[np.int64] = np.array(partitions, np.int64)[(hashes & 0x7FFFFFFF) % len(partitions)]
    return places


def _joined(strings: Sequence[bytes | None]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    sizes = np.array([_ABSENT if text is None else len(text) for text in strings], np.int64)
    return np.frombuffer(b"".join(filter(None, strings)), np.uint8), sizes


@njit(**INNER)
def _put(out, pos, number):
    """Write a number as a varint; return the place after it."""
    zigzag = np.uint64((number << 1) ^ (number >> 63))
    while zigzag >= np.uint64(128):
        out[pos] = np.uint8((zigzag & np.uint64(127)) | np.uint64(128))
        zigzag >>= np.uint64(7)
        pos += 1
    out[pos] = np.uint8(zigzag)
    return pos + 1


@njit(**INNER)
def _size(number):
    zigzag, size = np.uint64((number << 1) ^ (number >> 63)), 1
    while zigzag >= np.uint64(128):
        zigzag >>= np.uint64(7)
        size += 1
    return size


@njit(**INNER)
def _copy(source, begin, length, out, pos):
    """Write bytes with their length before them; return the place after them."""
    pos = _put(out, pos, length)
    for k in range(length):
        out[pos + k] = source[begin + k]
    return pos + max(length, 0)


@njit(**ENTRY)
def _pack(values, sizes, keys, key_sizes, first, delta, out):
    """Write records as long as they fit; return how many, and the bytes written."""
    pos = begin = key_begin = 0
    for i in range(len(sizes)):
        length, key_length = sizes[i], key_sizes[i]
        body = 1 + _size(delta) + _size(first + i) + _size(key_length) + _size(length) + 1
        body += length + max(key_length, 0)
        if pos + _size(body) + body > len(out):
            return i, pos
        pos = _put(out, pos, body)
        out[pos] = 0
        pos = _put(out, _put(out, pos + 1, delta), first + i)
        pos = _copy(keys, key_begin, key_length, out, pos)
        pos = _copy(values, begin, length, out, pos)
        out[pos] = 0
        pos += 1
        begin += length
        key_begin += max(key_length, 0)
    return len(sizes), pos


@njit(**ENTRY)
def _murmur2(keys, sizes, hashes):
    """Write MurmurHash2, with the seed of Kafka's clients, of keys one behind the other."""
    mask, mix = np.uint64(0xFFFFFFFF), np.uint64(0x5BD1E995)
    begin = 0
    for i in range(len(sizes)):
        size = sizes[i]
        state = np.uint64(0x9747B28C) ^ np.uint64(size)
        whole = size // 4 * 4
        for k in range(begin, begin + whole, 4):
            word = np.uint64(0)
            for byte in range(4):
                word |= np.uint64(keys[k + byte]) << np.uint64(8 * byte)
            word = (word * mix) & mask
            word = ((word ^ (word >> np.uint64(24))) * mix) & mask
            state = ((state * mix) & mask) ^ word
        if size > whole:
            for byte in range(size - whole):
                state ^= np.uint64(keys[begin + whole + byte]) << np.uint64(8 * byte)
            state = (state * mix) & mask
        state = ((state ^ (state >> np.uint64(13))) * mix) & mask
        hashes[i] = np.uint32(state ^ (state >> np.uint64(15)))
        begin += size
