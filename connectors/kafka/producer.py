"""Producers with transactions: their protocol, kafka-python's, and transactions with time limits."""

from __future__ import annotations

import contextlib
import queue
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from itertools import accumulate
from typing import Protocol, TypeAlias, TypeVar

import numpy as np
from kafka import KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka import errors as kafka_errors
from kafka.producer.future import FutureRecordMetadata
from kafka.structs import ConsumerGroupMetadata

from connectors.errors import BrokerUnavailable, Interruption
from connectors.kafka.batch_building import append, parts
from connectors.kafka.client import PATIENCE, Options

T = TypeVar("T")
LONGEST = 60.0  # seconds for the end of a transaction
BATCH, LINGER = 1 << 17, 5  # bytes that travel together, and milliseconds that they wait for each other
LARGEST = 1_000_000_000  # bytes of a message, and no client lets more pass: the topic has the say
_WAKE = 100  # milliseconds
_CLOSING = 5.0  # seconds
COMPRESSION = "zstd"  # of all that is written; both clients bring it
Content = bytes | None  # of a value or a key
Headers = list[tuple[str, str | bytes | None]]
Offsets: TypeAlias = Mapping[TopicPartition, OffsetAndMetadata]
Member: TypeAlias = ConsumerGroupMetadata | str  # of a group, or the name of a group


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

    def send_many(self, topic: str, values: Sequence[bytes], keys: Sequence[bytes | None]) -> None:
        """Take messages without headers, in the order that they are to have in each partition."""

    def commit(self, offsets: Offsets, member: Member) -> None:
        """End the transaction, the positions of a member (or of a group, by its name) in it, if any."""

    def too_large(self) -> bool:
        """Return whether the transaction has a message that is larger than its topic takes."""

    def abort(self) -> None:
        """Abort the transaction."""

    def close(self) -> None:
        """Close the connections at once."""


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
            **options,
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

    def open(self) -> None:
        """Abort what a process of the same name has left open, and fence that process."""
        self._producer.init_transactions()

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

    def send_many(self, topic: str, values: Sequence[bytes], keys: Sequence[bytes | None]) -> None:
        """Take messages into the transaction, most of them by compiled code."""
        partitions = sorted(self._producer.partitions_for(topic))
        known = [key for key in keys if key is not None]
        if len(partitions) == 1 or not known:
            self._send_to(topic, None, values, keys)
            return
        if len(known) < len(
            keys
        ):  # a message without a key goes to any partition, and must not overtake others
            for value, key in zip(values, keys, strict=True):
                self.send(topic, value, key, [])
            return
        chosen = parts(known, partitions)
        for partition in np.unique(chosen).tolist():
            rows = np.flatnonzero(chosen == partition).tolist()
            self._send_to(topic, partition, [values[row] for row in rows], [keys[row] for row in rows])

    def _send_to(
        self, topic: str, partition: int | None, values: Sequence[bytes], keys: Sequence[bytes | None]
    ) -> None:
        done, ends = 0, list(accumulate(map(len, values)))
        while done < len(values):
            with self._cause():
                future = self._producer.send(topic, values[done], keys[done], partition=partition)
            self._sent.append(future)
            stop = bisect_right(ends, ends[done] + BATCH)  # what is beyond does not fit
            done += 1
            done += append(self._producer, future, values[done:stop], keys[done:stop], self._sent)

    def commit(self, offsets: Offsets, member: Member) -> None:
        """End the transaction, the positions in it."""
        with self._cause():
            if offsets:
                self._producer.send_offsets_to_transaction(offsets, member)
            self._commit()
        self._sent.clear()

    def _commit(self) -> None:
        """Commit the transaction.

        The library's own ``commit_transaction`` never returns where a message is refused after its begin: the
        thread that would end the wait sleeps until it is woken.
        """
        result = self._producer._transaction_manager.begin_commit()
        done = False
        while not done:
            self._producer._sender.wakeup()
            done = result.wait(timeout_ms=_WAKE)

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
        self._producer.abort_transaction()

    def close(self) -> None:
        """Close the connections, two seconds after the last request."""
        with contextlib.suppress(kafka_errors.KafkaError):
            self._producer.close(timeout=2.0)


class _Worker:
    """A thread for calls that may never return: they are given up after a while.

    kafka-python's transactions wait without a limit. The thread is a daemon: a call that hangs does not keep
    the process.
    """

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        threading.Thread(target=self._work, name="transactions", daemon=True).start()

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()

    def do(self, call: Callable[[], T], seconds: float) -> T:
        """Return what the call returns.

        Raises
        ------
        BrokerUnavailable
            If it takes longer.
        """
        answer: Future[T] = Future()

        def answered() -> None:
            try:
                answer.set_result(call())
            except BaseException as error:
                answer.set_exception(error)

        self._calls.put(answered)
        try:
            return answer.result(seconds)
        except TimeoutError:
            if answer.done():
                raise
            raise BrokerUnavailable(f"the broker has not answered for {seconds:.0f} seconds") from None

    def stop(self) -> None:
        """Let the thread end when it can."""
        self._calls.put(None)


class Transactions:
    """The transactions of a producer, one after the other, each call with a time limit.

    From now on, no other producer of this name can commit anything.

    Parameters
    ----------
    producer
        New, so that no transaction is open.
    """

    def __init__(self, producer: Producer) -> None:
        self.producer, self._worker, self.open = producer, _Worker(), False
        try:
            self._worker.do(producer.open, LONGEST)
        except BaseException:
            self.close()
            raise

    def begin(self) -> None:
        """Begin a transaction, unless one is open."""
        if not self.open:
            self.producer.begin()
            self.open = True

    def commit(self, offsets: Offsets, member: Member) -> None:
        """End the transaction, the positions in it."""
        self._worker.do(lambda: self.producer.commit(offsets, member), LONGEST)
        self.open = False

    def abort(self) -> None:
        """Abort the transaction that is open, if the broker answers."""
        if self.open:
            with contextlib.suppress(kafka_errors.KafkaError, Interruption):
                self._worker.do(self.producer.abort, _CLOSING)
        self.open = False

    def close(self) -> None:
        """Abort what is open, and close the connections."""
        self.abort()
        with contextlib.suppress(kafka_errors.KafkaError, Interruption):
            self._worker.do(self.producer.close, _CLOSING)
        self._worker.stop()
