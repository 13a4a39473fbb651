"""Transactions of a command: messages, and perhaps the positions of a group that nobody is in."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kafka import OffsetAndMetadata, TopicPartition
from kafka import errors as kafka_errors

from connectors.errors import SINK, Failure, Interruption
from connectors.kafka.chunks import Message
from connectors.kafka.client import Worker, explained, options
from connectors.kafka.producer import LONGEST, StandardProducer
from connectors.kafka.sections import Kafka

_CLOSING = 5.0  # seconds


class Transactions:
    """A producer by itself; from now on, no other one of this name can commit anything.

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
            self._producer = StandardProducer(options(kafka), name)
            self._worker = Worker()
            try:
                self._worker.do(self._producer.open, LONGEST)
            except BaseException:
                self.close()
                raise

    def write(
        self,
        topic: str,
        messages: Sequence[Message],
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
        group: str = "",
    ) -> None:
        """Write messages and positions, all or none.

        Raises
        ------
        Failure
            If another process of this name has begun.
        """
        with self._explained():
            self._producer.begin()
            try:
                for key, value, headers, partition in messages:
                    self._producer.send(topic, value, key, headers, partition)
                self._worker.do(lambda: self._producer.commit(offsets or {}, group), LONGEST)
            except BaseException:
                with contextlib.suppress(kafka_errors.KafkaError, Interruption):
                    self._worker.do(self._producer.abort, _CLOSING)
                raise

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        with explained(self._what):
            try:
                yield
            except (kafka_errors.ProducerFencedError, kafka_errors.InvalidProducerEpochError):
                raise Failure(SINK, f"{self._what}: another process has begun to write it") from None
            except kafka_errors.KafkaError:
                if self._producer.too_large():
                    raise Failure(
                        SINK,
                        f"{self._what}: a message is larger than its topic takes (its max.message.bytes)",
                    ) from None
                raise

    def close(self) -> None:
        """Let go of the broker."""
        with contextlib.suppress(kafka_errors.KafkaError, Interruption):
            self._worker.do(self._producer.close, _CLOSING)
        self._worker.end()

    def __enter__(self) -> Transactions:
        return self

    def __exit__(self, *details: Any) -> None:
        self.close()
