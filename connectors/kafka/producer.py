"""Producers with transactions: their protocol, kafka-python's, and transactions with time limits.

The library's ``send`` costs more than to predict and to learn. Here it sends the first record of each batch,
and so chooses the partition, takes it into the transaction, and opens the batch; compiled code writes those
after it, as many as fit, behind it as the library would. They succeed or fail with the batch.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from itertools import accumulate, repeat
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

import kafka
import numpy as np
from kafka import KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka import errors as kafka_errors
from kafka.producer.future import FutureProduceResult, FutureRecordMetadata
from kafka.producer.transaction_manager import TransactionalRequestResult
from kafka.structs import ConsumerGroupMetadata
from numba import njit
from numpy.typing import NDArray

from connectors.contract.errors import SINK, BrokerUnavailable, Failure, Interruption
from connectors.contract.records import Headers as RecordHeaders
from connectors.kafka.client import PATIENCE, Options, explained, options
from connectors.kafka.coordination import follow
from connectors.kafka.records import KNOWN
from connectors.kafka.sections import Kafka
from streamk.compiling import ENTRY, INNER

log = logging.getLogger(__name__)
T = TypeVar("T")
LONGEST = 60.0  # seconds for the end of a transaction
_RETRY = 10  # milliseconds until a broker is tried again that still ends the transaction before
BATCH, LINGER = 1 << 17, 5  # bytes that travel together, and milliseconds that they wait for each other
LARGEST = 1_000_000_000  # bytes of a message, and no client lets more pass: the topic has the say
_WAKE = 100  # milliseconds
_CLOSING = 5.0  # seconds
_LOOK = 3.0  # seconds of a wait for the end of a transaction after which its topics are looked for
_LOST = 20.0  # seconds for the end of a transaction after a coordinator was lost: a new producer finds one
COMPRESSION = "zstd"  # of all that is written; both clients bring it
Content = bytes | None  # of a value or a key
Headers = list[tuple[str, str | bytes | None]]
Offsets: TypeAlias = Mapping[TopicPartition, OffsetAndMetadata]
Member: TypeAlias = ConsumerGroupMetadata | str  # of a group, or the name of a group
_FENCED = (kafka_errors.ProducerFencedError, kafka_errors.InvalidProducerEpochError)
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
    headers: RecordHeaders,
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
        Of the records.
    headers
        The same for all of them.
    futures
        Takes the futures of further parts, if the batch is divided.
    """
    if not values or not kafka.__version__.startswith(KNOWN):
        return 0
    place, accumulator = future._produce_future.topic_partition, producer._accumulator
    joined, sizes = _joined(values)
    key_bytes, key_sizes = _joined(keys)
    tail = encoded(headers)
    out = np.empty(len(joined) + len(key_bytes) + (_OVERHEAD + len(tail)) * len(values), np.uint8)
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
            start = first, now - builder._first_timestamp
            limited = out[: max(room, 0)]
            written, end = _pack((joined, sizes), (key_bytes, key_sizes), tail, start, limited)
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


def encoded(headers: RecordHeaders) -> NDArray[np.uint8]:
    r"""Return the end of a record, with its headers.

    >>> encoded([("a", b"12")]).tobytes()
    b'\x02\x02a\x0412'
    """
    texts = [text for name, value in headers for text in (name.encode(), value)]
    out = np.empty(_OVERHEAD + sum(len(text) + _OVERHEAD for text in texts), np.uint8)
    return out[: _encode(*_joined(texts), len(headers), out)]


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
def _encode(texts, sizes, count, out):
    """Write names and values of headers after their number; return the place after them."""
    pos, begin = _put(out, 0, count), 0
    for size in sizes:
        pos = _copy(texts, begin, size, out, pos)
        begin += size
    return pos


@njit(**ENTRY)
def _pack(joined_values, joined_keys, tail, start, out):
    """Write records as long as they fit; return how many, and the bytes written.

    Values and keys are bytes and sizes, ``tail`` the headers; ``start`` has the first offset and the time.
    """
    (values, sizes), (keys, key_sizes), (first, delta) = joined_values, joined_keys, start
    pos = begin = key_begin = 0
    for i in range(len(sizes)):
        length, key_length = sizes[i], key_sizes[i]
        body = 1 + _size(delta) + _size(first + i) + _size(key_length) + _size(length)
        body += len(tail) + length + max(key_length, 0)
        if pos + _size(body) + body > len(out):
            return i, pos
        pos = _put(out, pos, body)
        out[pos] = 0
        pos = _put(out, _put(out, pos + 1, delta), first + i)
        pos = _copy(keys, key_begin, key_length, out, pos)
        pos = _copy(values, begin, length, out, pos)
        for k in range(len(tail)):
            out[pos + k] = tail[k]
        pos += len(tail)
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


class Message(NamedTuple):
    """A message to write; without a partition, the key says which."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    partition: int | None


class Producer(Protocol):
    """A producer whose messages are seen when its transaction is committed, or never.

    It raises kafka-python's errors, whichever library it is made of.
    """

    def open(self) -> None:
        """Abort what a process of the same name has left open, and fence that process."""

    def begin(self) -> None:
        """Begin a transaction."""

    def send(
        self, topic: str, value: Content, key: Content, headers: Headers, partition: int | None = None
    ) -> None:
        """Take a message into the transaction; errors may show as late as :meth:`commit`.

        Without a partition, the key says which.
        """

    def send_many(
        self, topic: str, values: Sequence[bytes], keys: Sequence[bytes | None], headers: RecordHeaders = ()
    ) -> None:
        """Take messages with the same headers, in the order that they are to have in each partition."""

    def commit(self, offsets: Offsets, member: Member) -> None:
        """End the transaction, the positions of a member (or of a group, by its name) in it, if any."""

    def too_large(self) -> bool:
        """Return whether the transaction has a message that is larger than its topic takes."""

    def abort(self) -> None:
        """Abort the transaction."""

    def unclear(self) -> bool:
        """Return whether a request may have been repeated, so that this epoch must have no more transactions.

        A request that arrives late would end the next transaction of the epoch in its midst.
        """

    def close(self) -> None:
        """Close the connections at once."""

    def discard(self) -> None:
        """Let all calls and threads end that wait for a broker."""


class StandardProducer:
    """kafka-python's.

    Parameters
    ----------
    options
        What :func:`connectors.kafka.client.options` returned.
    name
        The identity in transactions.
    """

    def __init__(self, options: Options, name: str) -> None:
        self._sent: list[FutureRecordMetadata] = []
        self._producer = KafkaProducer(
            **{"retry_backoff_ms": _RETRY, **options},
            transactional_id=name,
            transaction_timeout_ms=int(LONGEST * 1000),
            max_block_ms=int(PATIENCE * 1000),
            delivery_timeout_ms=int(LONGEST * 1000),
            request_timeout_ms=int(PATIENCE * 1000),
            max_request_size=LARGEST,
            compression_type=COMPRESSION,
            linger_ms=LINGER,
            batch_size=BATCH,
        )
        self._coordination = follow(self._producer)

    def open(self) -> None:
        """Abort what a process of the same name has left open, and fence that process."""
        self._producer.init_transactions()
        self._coordination.lost = False

    def begin(self) -> None:
        """Begin a transaction."""
        with self._cause():
            self._producer.begin_transaction()

    def send(
        self, topic: str, value: Content, key: Content, headers: Headers, partition: int | None = None
    ) -> None:
        """Take a message into the transaction."""
        with self._cause():
            self._sent.append(self._producer.send(topic, value, key, headers, partition))

    def send_many(
        self, topic: str, values: Sequence[bytes], keys: Sequence[bytes | None], headers: RecordHeaders = ()
    ) -> None:
        """Take messages into the transaction, most of them by compiled code."""
        partitions = sorted(self._producer.partitions_for(topic))
        known = [key for key in keys if key is not None]
        if len(partitions) == 1 or not known:
            self._send_to(topic, None, values, keys, headers)
            return
        if len(known) < len(
            keys
        ):  # a message without a key goes to any partition, and must not overtake others
            for value, key in zip(values, keys, strict=True):
                self.send(topic, value, key, [*headers])
            return
        chosen = parts(known, partitions)
        for partition in np.unique(chosen).tolist():
            rows = np.flatnonzero(chosen == partition).tolist()
            of_rows = [values[row] for row in rows], [keys[row] for row in rows]
            self._send_to(topic, partition, *of_rows, headers)

    def _send_to(
        self,
        topic: str,
        partition: int | None,
        values: Sequence[bytes],
        keys: Sequence[bytes | None],
        headers: RecordHeaders,
    ) -> None:
        done, ends = 0, list(accumulate(map(len, values)))
        while done < len(values):
            with self._cause():
                future = self._producer.send(topic, values[done], keys[done], [*headers], partition)
            self._sent.append(future)
            stop = bisect_right(ends, ends[done] + BATCH)  # what is beyond does not fit
            done += 1
            done += append(self._producer, future, values[done:stop], keys[done:stop], headers, self._sent)

    def commit(self, offsets: Offsets, member: Member) -> None:
        """End the transaction, the positions in it."""
        manager = self._producer._transaction_manager
        with self._cause():
            if offsets:
                self._wait(manager.send_offsets_to_transaction(offsets, member))
            self._wait(manager.begin_commit())
        self._sent.clear()

    def _wait(self, result: TransactionalRequestResult) -> None:
        """Wait for an answer to a transactional request.

        The library's waits never end where a message is refused after they began, since the thread that
        would end them sleeps until it is woken, and where that thread has ended.
        """
        sender = self._producer._sender
        sender.wakeup()
        while not result.wait(timeout_ms=_WAKE):
            if not sender.is_alive():
                raise kafka_errors.KafkaConnectionError("the producer was closed")
            sender.wakeup()

    @contextlib.contextmanager
    def _cause(self) -> Iterator[None]:
        """Raise what ended the transaction: its thread has the error, and the client only a sentence."""
        try:
            yield
        except kafka_errors.KafkaError as error:
            cause = self._producer._transaction_manager.last_error
            if type(error) is kafka_errors.KafkaError and isinstance(cause, kafka_errors.KafkaError):
                raise cause from None
            raise

    def too_large(self) -> bool:
        """Return whether a message was larger than its topic takes."""
        return any(
            future.is_done and isinstance(future.exception, kafka_errors.MessageSizeTooLargeError)
            for future in self._sent
        )

    def abort(self) -> None:
        """Abort the transaction."""
        self._wait(self._producer._transaction_manager.begin_abort())

    def unclear(self) -> bool:
        """Return whether a coordinator was lost."""
        return self._coordination.lost

    def close(self) -> None:
        """Close the connections, two seconds after the last request."""
        with contextlib.suppress(kafka_errors.KafkaError):
            self._producer.close(timeout=2.0)
        self.discard()

    def discard(self) -> None:
        """Let the thread of the library end, whatever it waits for, and its handler at the process's end."""
        self._producer._sender.force_close()
        self._producer._unregister_cleanup()


class _BoundedCalls:
    """A thread for calls that may never return, with a limit of time.

    kafka-python's transactions wait without a limit. The thread is a daemon: a call that hangs does not keep
    the process.
    """

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        threading.Thread(target=self._work, name="transactions", daemon=True).start()

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()

    def start(self, call: Callable[[], T]) -> Future[T]:
        """Make a call after those before it."""
        answer: Future[T] = Future()

        def answered() -> None:
            try:
                answer.set_result(call())
            except BaseException as error:
                answer.set_exception(error)

        self._calls.put(answered)
        return answer

    def do(self, call: Callable[[], T], seconds: float, meanwhile: Callable[[], object] | None = None) -> T:
        """Return what the call returns.

        Parameters
        ----------
        seconds
            For which to wait.
        meanwhile
            Called now and then during the wait, which ends with the error that it raises.

        Raises
        ------
        BrokerUnavailable
            If it takes longer.
        """
        answer, deadline = self.start(call), time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0 or answer.done():
            try:
                return answer.result(left if meanwhile is None else min(_WAKE / 1000, left))
            except TimeoutError:
                if answer.done():
                    raise
            if meanwhile is not None:
                meanwhile()
        raise BrokerUnavailable(f"the broker has not answered for {seconds:.0f} seconds")

    def stop(self) -> None:
        """Let the thread end when it can."""
        self._calls.put(None)


class Transactions:
    """The transactions of producers, one after the other, each call with a time limit.

    From now on, no other producer of this name can commit anything. After an end that is not clear, a new
    producer makes the next ones, and so begins a new epoch.

    Parameters
    ----------
    make
        Makes a producer.
    look
        Raises Failure if a transaction cannot end, however long one waits; called during a long wait, in a
        thread.
    """

    def __init__(self, make: Callable[[], Producer], look: Callable[[], None] = lambda: None) -> None:
        self._make, self._look, self.producer = make, look, make()
        self._worker, self._looker, self.open, self._stuck = _BoundedCalls(), _BoundedCalls(), False, False
        try:
            self._worker.do(self.producer.open, LONGEST)
        except BaseException:
            self.close()
            raise

    def begin(self) -> None:
        """Begin a transaction, unless one is open."""
        if not self.open:
            self.producer.begin()
            self.open = True

    def commit(self, offsets: Offsets, member: Member) -> bool:
        """End the transaction, the positions in it; return whether all was clear.

        If not, no request can change any more what has become of it: the caller has to look at it.
        """
        try:
            self._worker.do(lambda: self.producer.commit(offsets, member), LONGEST, self._watching())
        except (BrokerUnavailable, Failure):
            self._stuck = True
            raise
        self.open = False
        if not self.producer.unclear():
            return True
        log.info("the coordinator was lost during a transaction: the next one has a new epoch")
        before, self.producer = self.producer, self._make()
        self._close(before)
        self._worker.do(self.producer.open, LONGEST)
        return False

    def _watching(self) -> Callable[[], None]:
        """Return what ends the wait for the end of a transaction, by an error, if it will not come."""
        looked, lost, looks = time.monotonic(), 0.0, list[Future[None]]()

        def watch() -> None:
            nonlocal looked, lost
            now = time.monotonic()
            if looks and looks[-1].done() and isinstance(error := looks.pop().exception(), Failure):
                raise error
            if not looks and now - looked > _LOOK:
                looked = now
                looks.append(self._looker.start(self._look))
            if self.producer.unclear():
                lost = lost or now
                if now - lost > _LOST:
                    raise BrokerUnavailable("a transaction has not ended since its coordinator was lost")

        return watch

    def abort(self) -> None:
        """Abort the transaction that is open, if the broker answers."""
        if self.open and not self._stuck:
            with contextlib.suppress(kafka_errors.KafkaError, Interruption):
                self._worker.do(self.producer.abort, _CLOSING)
        self.open = False

    def _close(self, producer: Producer) -> None:
        if self._stuck:  # in a call, behind which this one waits
            producer.discard()
            self._worker.start(producer.close)
            return
        try:
            self._worker.do(producer.close, _CLOSING)
        except (kafka_errors.KafkaError, Interruption):
            producer.discard()

    def close(self) -> None:
        """Abort what is open, and close the connections."""
        self.abort()
        self._close(self.producer)
        self._worker.stop()
        self._looker.stop()


class TransactionalWriter:
    """Transactions of a command: messages, and perhaps the positions of a group without members.

    Parameters
    ----------
    kafka
        Settings.
    name
        The identity in transactions.
    what
        What is written, for messages.
    """

    def __init__(self, kafka: Kafka, name: str, what: str) -> None:
        self._what = what
        with explained(what):
            client_options = options(kafka)
            self._transactions = Transactions(lambda: StandardProducer(client_options, name))

    def write(
        self, messages: Mapping[str, Sequence[Message]], offsets: Offsets | None = None, group: str = ""
    ) -> None:
        """Write messages, by topic, and positions, all or none.

        Raises
        ------
        Failure
            If another process of this name has started.
        """
        producer = self._transactions.producer
        with explained(self._what):
            try:
                self._transactions.begin()
                for topic, several in messages.items():
                    for key, value, headers, partition in several:
                        producer.send(topic, value, key, headers, partition)
                self._transactions.commit(offsets or {}, group)
            except BaseException as error:
                self._transactions.abort()
                if isinstance(error, _FENCED):
                    raise Failure(SINK, f"{self._what}: another process has started to write it") from None
                if isinstance(error, kafka_errors.KafkaError) and producer.too_large():
                    raise Failure(
                        SINK,
                        f"{self._what}: a message is larger than its topic takes (its max.message.bytes)",
                    ) from None
                raise

    def close(self) -> None:
        """Close the connections."""
        self._transactions.close()
