"""Predictions, dead letters and snapshots into topics, in transactions that also hold the source's positions.

Who reads with ``read_committed`` sees every output once: after a crash the transaction that was open is
undone, and what a committed one held is not written again, because its positions say so.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka import errors as kafka_errors

from connectors.errors import SINK, Failure, Interruption
from connectors.kafka.chunks import Message
from connectors.kafka.client import READING, Worker, explained, member_name, options, require_topics
from connectors.kafka.dead_letters import letter
from connectors.kafka.producer import LONGEST, Headers, Producer, StandardProducer
from connectors.kafka.sections import Kafka
from connectors.kafka.source import TopicSource
from connectors.kafka.topic_limits import topic_limits
from connectors.stream import DEAD_LETTERS, Committed, Output, Raw, Source

_CLOSING = 5.0  # seconds


class TopicSink:
    """Outputs in the transactions of the producer that the settings choose.

    Parameters
    ----------
    topics
        Names of topics by kind: ``predictions``, ``dead_letters``, ``snapshots``.
    kafka
        Settings.
    member
        The model's identity: the next process of that name undoes what this one leaves open.
    source
        Where the positions belong. Those of a log on disk are committed for partition 0 of the first topic,
        in a group of their own.
    headers
        Names of the headers to copy from an event's record to its prediction, or True for all.

    Raises
    ------
    Failure
        If a topic is not there, or the broker refuses this client.
    Interruption
        If no broker answers.
    """

    def __init__(
        self,
        topics: Mapping[str, str],
        kafka: Kafka,
        member: str,
        source: Source,
        headers: Sequence[str] | Literal[True] = (),
    ) -> None:
        self._topics, self._source, self._headers = dict(topics), source, headers
        self._emitted: dict[str, int] = {}
        self._open = False
        self._group = member_name(member)
        self._place = place_of_log(self._topics.values())
        self._options = options(kafka)
        self._check()
        with explained("predictions"):
            self._limits = topic_limits(self._options, self._topics.values())
            self._producer = self._made(kafka)
            self._worker = Worker()  # no sooner: whoever fails before this has no thread to end
            try:
                self._worker.do(self._producer.open, LONGEST)
            except BaseException:
                self.close()
                raise

    def _made(self, kafka: Kafka) -> Producer:
        if kafka.producer == "kafka-python":
            return StandardProducer(self._options, self._group)
        from connectors.kafka.confluent_producer import ConfluentProducer

        return ConfluentProducer(kafka, self._group, min(limit.largest for limit in self._limits.values()))

    @contextlib.contextmanager
    def _looking(self) -> Iterator[KafkaConsumer]:
        with explained("predictions"):
            consumer = KafkaConsumer(**self._options, group_id=self._group, **READING)
            with contextlib.closing(consumer):
                yield consumer

    def _check(self) -> None:
        with self._looking() as consumer:
            require_topics(consumer, {f"{kind}.topic": topic for kind, topic in self._topics.items()})

    def restore(self, mark: Any) -> None:
        """Do nothing: what was written is in the group's positions."""

    def begin(self, partition: str, emitted: int, anew: bool = False) -> None:
        """Write nothing below this offset."""
        if not isinstance(self._source, TopicSource):
            emitted = max(emitted, self._emitted_of_log())
        self._emitted[partition] = emitted

    def _emitted_of_log(self) -> int:
        with self._looking() as consumer:
            return consumer.committed(self._place, timeout_ms=int(LONGEST * 1000)) or 0

    def write(self, outputs: Sequence[Output]) -> int:
        """Take outputs into the transaction; return how many dead letters are stubs."""
        with explained("predictions"):
            try:
                return self._send(outputs)
            except kafka_errors.KafkaError:
                self._diagnose()
                raise

    def keep(self, kind: str, messages: Sequence[Message]) -> None:
        """Take messages of a kind into the transaction, whatever has been written of outputs."""
        with explained(kind):
            try:
                self._begin()
                for key, value, headers, partition in messages:
                    self._producer.send(self._topics[kind], value, key, headers, partition)
            except kafka_errors.KafkaError:
                self._diagnose()
                raise

    def _begin(self) -> None:
        if not self._open:
            self._producer.begin()
            self._open = True

    def _send(self, outputs: Sequence[Output]) -> int:
        truncated = 0
        wanted = [
            output
            for output in outputs
            if output.kind in self._topics and output.raw.offset >= self._emitted.get(output.partition, 0)
        ]
        if wanted:
            self._begin()
        for kind, topic in self._topics.items():
            chosen = [output for output in wanted if output.kind == kind]
            if kind == DEAD_LETTERS:
                for output in chosen:
                    key, value, headers = found = letter(output, self._limits[topic])
                    self._producer.send(topic, value, key, headers)
                    truncated += found.truncated
            elif chosen:
                self._send_predictions(topic, chosen)
        return truncated

    def _send_predictions(self, topic: str, outputs: Sequence[Output]) -> None:
        bodies, keys = [output.body for output in outputs], [output.raw.key for output in outputs]
        copied = [self._copied(output.raw) for output in outputs] if self._headers else []
        if not any(copied):
            self._producer.send_many(topic, bodies, keys)
            return
        for body, key, headers in zip(bodies, keys, copied, strict=True):
            self._producer.send(topic, body, key, headers)

    def _copied(self, raw: Raw) -> Headers:
        """Return the headers that a prediction takes from its record; one without a value becomes empty."""
        wanted = self._headers
        return [(name, text or b"") for name, text in raw.headers if wanted is True or name in wanted]

    def commit(self, positions: Mapping[str, Committed]) -> bool:
        """End the transaction, if one is open, with the positions in it."""
        if not self._open:
            return False
        if isinstance(self._source, TopicSource):
            offsets, member = self._source.offsets(positions), self._source.membership()
        else:
            furthest = max(position.position for position in positions.values())
            offsets, member = {self._place: OffsetAndMetadata(furthest, "", -1)}, self._group

        with explained("predictions"):
            try:
                self._worker.do(lambda: self._producer.commit(offsets, member), LONGEST)
            except kafka_errors.KafkaError:
                self._diagnose()
                raise
        self._open = False
        return True

    def _diagnose(self) -> None:
        """Raise a Failure if trying again is of no use: a message is too large, or a twin is at work."""
        if self._producer.too_large():
            raise Failure(
                SINK,
                f"{', '.join(self._topics)}: a message is larger than its topic takes; raise the topic's "
                "max.message.bytes",
            ) from None
        if isinstance(self._source, TopicSource):
            self._source.require_identity()

    def mark(self) -> None:
        """Return nothing: what was written is in the group's positions."""

    def close(self) -> None:
        """Undo the transaction that is open, if the broker answers."""
        if self._open:
            with contextlib.suppress(kafka_errors.KafkaError, Interruption):
                self._worker.do(self._producer.abort, _CLOSING)
        self._open = False
        with contextlib.suppress(kafka_errors.KafkaError, Interruption):
            self._worker.do(self._producer.close, _CLOSING)
        self._worker.end()


def place_of_log(topics: Iterable[str]) -> TopicPartition:
    """Return where the position of a log on disk is committed, whose outputs go to these topics."""
    return TopicPartition(next(iter(topics)), 0)
