"""Producers with transactions: their protocol, kafka-python's, and transactions with time limits."""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from itertools import accumulate
from typing import Protocol, TypeAlias, TypeVar

import numpy as np
from kafka import KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka import errors as kafka_errors
from kafka.producer.future import FutureRecordMetadata
from kafka.producer.transaction_manager import TransactionalRequestResult
from kafka.structs import ConsumerGroupMetadata

from connectors.contract.errors import BrokerUnavailable, Failure, Interruption
from connectors.kafka.batch_building import append, parts
from connectors.kafka.client import PATIENCE, Options
from connectors.kafka.coordination import follow

log = logging.getLogger(__name__)
T = TypeVar("T")
LONGEST = 60.0  # seconds for the end of a transaction
BATCH, LINGER = 1 << 17, 5  # bytes that travel together, and milliseconds that they wait for each other
LARGEST = 1_000_000_000  # bytes of a message, and no client lets more pass: the topic has the say
_WAKE = 100  # milliseconds
_CLOSING = 5.0  # seconds
_LOOK = 3.0  # seconds of a wait for the end of a transaction after which its topics are looked for
_LOST = (
    20.0  # seconds for the end of a transaction after a coordinator was lost: a new producer finds another
)
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
