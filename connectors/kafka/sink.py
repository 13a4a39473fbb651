"""Predictions, dead letters and snapshots into topics, in transactions that also hold the source's positions.

A reader with ``read_committed`` sees every output once: after a crash the transaction that was open is
aborted, and what a committed one held is not written again, because its positions say so.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka import errors as kafka_errors

from connectors.contract.errors import DENIED, SINK, USAGE, Failure, Interruption
from connectors.contract.records import DEAD_LETTERS, Committed, Output, Raw, Sink, Source
from connectors.kafka.client import (
    READING,
    Options,
    explained,
    member_name,
    options,
    partitions_of,
    records_between,
    require_topics,
)
from connectors.kafka.dead_letters import letter, topic_limits
from connectors.kafka.group import Group
from connectors.kafka.producer import (
    LONGEST,
    Headers,
    Member,
    Message,
    Offsets,
    Producer,
    StandardProducer,
    Transactions,
)
from connectors.kafka.sections import Kafka
from connectors.kafka.source import TopicSource

_SOON = 3000  # milliseconds
_LAST = 16  # offsets of a partition, in which its last prediction is looked for
_SETTING = "predictions.topic"


def place_of_log(topics: Iterable[str]) -> TopicPartition:
    """Return where the position of a log on disk is committed, whose outputs go to these topics."""
    return TopicPartition(next(iter(topics)), 0)


class TopicSink(Sink):
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
        in a separate group.
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
        self._group = member_name(member)
        self._place = place_of_log(self._topics.values())
        self._options = options(kafka)
        self._check()
        with explained("predictions"):
            self._limits = topic_limits(self._options, self._topics.values())
            self._transactions = Transactions(lambda: self._make_producer(kafka), self._require_topics)

    @property
    def _producer(self) -> Producer:
        return self._transactions.producer

    def _make_producer(self, kafka: Kafka) -> Producer:
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
            require_topics(consumer, self._named)

    @property
    def _named(self) -> dict[str, str]:
        """The topics by the settings that name them."""
        return {f"{kind}.topic": topic for kind, topic in self._topics.items()}

    def _require_topics(self) -> None:
        """Raise Failure if a topic is not there any more; say nothing if no broker answers soon."""
        soon = {"bootstrap_timeout_ms": _SOON, "request_timeout_ms": _SOON}
        with (
            contextlib.suppress(kafka_errors.KafkaError),
            contextlib.closing(KafkaConsumer(**{**self._options, **soon})) as consumer,
        ):
            require_topics(consumer, self._named)

    def begin(self, partition: str, emitted: int, recreated: bool = False) -> None:
        """Write nothing below this offset."""
        if not isinstance(self._source, TopicSource) and partition == self._source.name:
            emitted = max(emitted, self._emitted_of_log())
        self._emitted[partition] = emitted

    def _emitted_of_log(self) -> int:
        with self._looking() as consumer:
            return consumer.committed(self._place, timeout_ms=int(LONGEST * 1000)) or 0

    def write(self, outputs: Sequence[Output]) -> int:
        """Take outputs into the transaction; return how many dead letters are stubs."""
        with self._diagnosed("predictions"):
            return self._send(outputs)

    def write_messages(self, kind: str, messages: Sequence[Message]) -> None:
        """Take messages of a kind into the transaction, whatever has been written of outputs."""
        with self._diagnosed(kind):
            self._transactions.begin()
            for key, value, headers, partition in messages:
                self._producer.send(self._topics[kind], value, key, headers, partition)

    def _send(self, outputs: Sequence[Output]) -> int:
        truncated = 0
        wanted = [
            output
            for output in outputs
            if output.kind in self._topics and output.raw.offset >= self._emitted.get(output.partition, 0)
        ]
        if wanted:
            self._transactions.begin()
        for kind, topic in self._topics.items():
            chosen = [output for output in wanted if output.kind == kind]
            if kind == DEAD_LETTERS:
                for output in chosen:
                    key, value, headers = dead_letter = letter(output, self._limits[topic])
                    self._producer.send(topic, value, key, headers)
                    truncated += dead_letter.truncated
            elif chosen:
                self._send_predictions(topic, chosen)
        return truncated

    def _send_predictions(self, topic: str, outputs: Sequence[Output]) -> None:
        bodies, keys = [output.body for output in outputs], [output.raw.key for output in outputs]
        origin = outputs[0].headers
        copied = [self._copied(output.raw) for output in outputs] if self._headers else []
        if not any(copied):
            self._producer.send_many(topic, bodies, keys, origin)
            return
        for body, key, headers in zip(bodies, keys, copied, strict=True):
            self._producer.send(topic, body, key, [*headers, *origin])

    def _copied(self, raw: Raw) -> Headers:
        """Return the headers that a prediction takes from its record; one without a value becomes empty."""
        wanted = self._headers
        return [(name, text or b"") for name, text in raw.headers if wanted is True or name in wanted]

    def commit(self, positions: Mapping[str, Committed]) -> bool:
        """End the transaction, if one is open, with the positions in it."""
        if not self._transactions.open:
            return False
        offsets: Offsets
        member: Member
        if isinstance(self._source, TopicSource):
            offsets, member = self._source.offsets(positions), self._source.membership()
        else:
            furthest = positions[self._source.name].position
            offsets, member = {self._place: OffsetAndMetadata(furthest, "", -1)}, self._group
        with self._diagnosed("predictions"):
            clear = self._transactions.commit(offsets, member)
        if not clear:
            self._require_committed(positions)
        return True

    def _require_committed(self, positions: Mapping[str, Committed]) -> None:
        """Raise Interruption unless the positions are committed, so that the next start reads them."""
        if isinstance(self._source, TopicSource):
            committed = {name: at.position for name, at in self._source.committed(list(positions)).items()}
            same = all(committed.get(name) == at.position for name, at in positions.items())
        else:
            same = self._emitted_of_log() == positions[self._source.name].position
        if not same:
            raise Interruption("predictions: their transaction was lost together with its coordinator")

    @contextlib.contextmanager
    def _diagnosed(self, what: str) -> Iterator[None]:
        """Explain errors; raise a Failure if a retry is of no use: a large message, or a second process."""
        with explained(what):
            try:
                yield
            except kafka_errors.KafkaError:
                if self._producer.too_large():
                    raise Failure(
                        SINK,
                        f"{', '.join(self._topics)}: a message is larger than its topic takes; raise the "
                        "topic's max.message.bytes",
                    ) from None
                self._require_topics()
                if isinstance(self._source, TopicSource):
                    self._source.require_identity()
                raise

    def close(self) -> None:
        """Abort the transaction that is open, if the broker answers."""
        self._transactions.close()


def require_alone(topic: str, group: str, client_options: Options) -> None:
    """Raise Failure if the last prediction in a partition is that of another group.

    A client that may write to the topic and not read it passes.
    """
    try:
        with explained(_SETTING), contextlib.closing(KafkaConsumer(**client_options, **READING)) as consumer:
            for place in partitions_of(consumer, [topic], None):
                consumer.assign([place])
                first, end = consumer.beginning_offsets([place])[place], consumer.end_offsets([place])[place]
                start = max(first, end - _LAST)
                for record, _ in records_between(consumer, place, start, end, _SETTING):
                    headers = {} if record is None else dict(record.headers)
                    other = headers.get("streamk-group", group.encode()).decode()
                    if other != group:
                        raise Failure(
                            USAGE,
                            f"{_SETTING}: {topic} holds predictions of the group {other!r}, and this is the "
                            f"group {group!r}; name another topic, or set predictions.shared = true",
                        )
    except Failure as failure:
        if failure.code != DENIED:
            raise


def emit_from(kafka: Kafka, topics: Sequence[str], model: str, position: int) -> None:
    """Set from where on the outputs of a log are written into topics."""
    with explained("predictions"):
        moved = {place_of_log(topics): OffsetAndMetadata(position, "", -1)}
        for why in Group(options(kafka), member_name(model)).move(moved).values():
            raise Failure(USAGE, f"predictions: their position was not set ({why})")
