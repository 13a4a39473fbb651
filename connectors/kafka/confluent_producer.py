"""confluent-kafka's producer, beside kafka-python's consumer.

Both take part in one transaction: the producer sends the consumer's positions, and proves with the consumer's
membership of its group that they are its own. A broker refuses the positions of a member, or of a generation,
that is no longer in the group.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any

from kafka import OffsetAndMetadata, TopicPartition
from kafka import errors as kafka_errors

from connectors.kafka.client import PATIENCE
from connectors.kafka.librdkafka import configuration, load, membership, translated
from connectors.kafka.producer import BATCH, COMPRESSION, LARGEST, LINGER, LONGEST, Headers
from connectors.kafka.sections import Kafka

_WAIT = 0.1  # seconds between two attempts to send where too much waits
_CLOSING = 2.0  # seconds


class ConfluentProducer:
    """confluent-kafka's.

    Parameters
    ----------
    kafka
        Settings.
    name
        The identity in transactions.
    largest
        Bytes of a batch that every topic takes.

    Raises
    ------
    Failure
        If the library is not installed, or another version of it.
    """

    def __init__(self, kafka: Kafka, name: str, largest: int) -> None:
        self._library = load()
        self._failed: list[int] = []  # codes of messages that were not delivered
        with self._translated():
            self._producer: Any = self._library.Producer(
                {
                    **configuration(kafka),
                    "transactional.id": name,
                    "transaction.timeout.ms": int(LONGEST * 1000),
                    "delivery.timeout.ms": int(LONGEST * 1000),
                    "socket.timeout.ms": int(PATIENCE * 1000),
                    "message.max.bytes": LARGEST,
                    "compression.type": COMPRESSION,
                    "queue.buffering.max.messages": 1_000_000,
                    "linger.ms": LINGER,
                    "batch.size": min(BATCH, largest),  # what a topic does not take at once is not split
                    "partitioner": "murmur2_random",  # a key's partition is that of every other client
                    "delivery.report.only.error": True,
                    "on_delivery": self._delivered,
                },
                logger=logging.getLogger("kafka.librdkafka"),
            )

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self._failed.append(error.code())

    def _translated(self) -> AbstractContextManager[None]:
        return translated(self._library)

    def _serve(self, seconds: float) -> None:
        """Let the library tell of failures; one that is fatal is also raised by whatever comes next."""
        with suppress(kafka_errors.KafkaError), self._translated():
            self._producer.poll(seconds)

    def open(self) -> None:
        """Undo what a process of the same name has left open, and keep it from going on."""
        with self._translated():
            self._producer.init_transactions(LONGEST)

    def begin(self) -> None:
        """Begin a transaction."""
        with self._translated():
            self._producer.begin_transaction()

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        headers: Headers,
        partition: int | None = None,
    ) -> None:
        """Take a message into the transaction, once there is room for it."""
        place = {} if partition is None else {"partition": partition}
        if headers:  # the library would cut a name at a NUL
            headers = [(name.replace("\0", "\ufffd"), value) for name, value in headers]
        try:
            self._producer.produce(topic, value, key, headers=headers, **place)
        except BufferError:
            self._send_slowly(topic, value, key, headers, place)
        except self._library.KafkaException:
            with self._translated():
                raise

    def send_many(self, topic: str, values: Sequence[bytes], keys: Sequence[bytes | None]) -> None:
        """Take messages without headers into the transaction."""
        for value, key in zip(values, keys, strict=True):
            self.send(topic, value, key, [])

    def _send_slowly(
        self, topic: str, value: bytes | None, key: bytes | None, headers: Headers, place: Mapping[str, int]
    ) -> None:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            self._serve(_WAIT)
            with suppress(BufferError), self._translated():
                self._producer.produce(topic, value, key, headers=headers, **place)
                return
        raise kafka_errors.KafkaTimeoutError(f"no message was taken for {PATIENCE:.0f} seconds")

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], member: Any) -> None:
        """End the transaction, the positions in it."""
        self._serve(0.0)
        places = [
            self._library.TopicPartition(place.topic, place.partition, at.offset, at.metadata)
            for place, at in offsets.items()
        ]
        with self._translated():
            if places:
                self._producer.send_offsets_to_transaction(places, membership(member), LONGEST)
            self._producer.commit_transaction(LONGEST)

    def too_large(self) -> bool:
        """Return whether a message was larger than its topic takes."""
        self._serve(0.0)
        return self._library.KafkaError.MSG_SIZE_TOO_LARGE in self._failed

    def abort(self) -> None:
        """Undo the transaction."""
        with self._translated():
            self._producer.abort_transaction(_CLOSING)

    def close(self) -> None:
        """Let go at once, of messages on their way too.

        The library's own ``close`` would try once more to undo what is open, and warn of it.
        """
        with self._translated():
            self._producer.purge()
            self._producer.flush(_CLOSING)
        del self._producer  # which ends its threads
