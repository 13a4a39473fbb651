"""Producers with transactions: what a sink asks of one, and kafka-python's."""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, Protocol

import numpy as np
from kafka import KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka import errors as kafka_errors

from connectors.kafka.batch_building import append, parts
from connectors.kafka.client import PATIENCE

LONGEST = 60.0  # seconds for the end of a transaction
BATCH, LINGER = 1 << 17, 5  # bytes that travel together, and milliseconds that they wait for each other
LARGEST = 1_000_000_000  # bytes of a message, and no client lets more pass: the topic has the say
_WAKE = 100  # milliseconds
COMPRESSION = "zstd"  # of all that is written; both clients bring it
Headers = list[tuple[str, str | bytes | None]]


class Producer(Protocol):
    """A producer whose messages are seen when its transaction is committed, or never.

    It raises kafka-python's errors, whichever library it is made of.
    """

    def open(self) -> None:
        """Undo what a process of the same name has left open, and keep it from going on."""
        ...

    def begin(self) -> None:
        """Begin a transaction."""
        ...

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        headers: Headers,
        partition: int | None = None,
    ) -> None:
        """Take a message into the transaction; errors may show as late as :meth:`commit`.

        Without a partition, the key says which.
        """
        ...

    def send_many(self, topic: str, values: Sequence[bytes], keys: Sequence[bytes | None]) -> None:
        """Take messages without headers, in the order that they are to have in each partition."""
        ...

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], member: Any) -> None:
        """End the transaction, the positions of a member (or of a group, by its name) in it, if any."""
        ...

    def too_large(self) -> bool:
        """Return whether the transaction has a message that is larger than its topic takes."""
        ...

    def abort(self) -> None:
        """Undo the transaction."""
        ...

    def close(self) -> None:
        """Let go at once."""
        ...


class StandardProducer:
    """kafka-python's.

    Parameters
    ----------
    options
        What :func:`connectors.kafka.client.options` gave.
    name
        The identity in transactions.
    """

    def __init__(self, options: Mapping[str, Any], name: str) -> None:
        self._sent: list[Any] = []
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
        """Undo what a process of the same name has left open, and keep it from going on."""
        self._producer.init_transactions()

    def begin(self) -> None:
        """Begin a transaction."""
        with self._cause():
            self._producer.begin_transaction()

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        headers: Headers,
        partition: int | None = None,
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
            stop = bisect_right(ends, ends[done] + BATCH)  # what is beyond finds no room
            done += 1
            done += append(self._producer, future, values[done:stop], keys[done:stop], self._sent)

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], member: Any) -> None:
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
        """Raise what ended the transaction: once its thread knows, the client names that in words alone."""
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
        """Undo the transaction."""
        self._producer.abort_transaction()

    def close(self) -> None:
        """Let go, what is under way given two seconds."""
        with contextlib.suppress(kafka_errors.KafkaError):
            self._producer.close(timeout=2.0)
