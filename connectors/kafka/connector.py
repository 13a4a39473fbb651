"""The connector of topics."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence

from kafka import KafkaConsumer

from connectors.contract.errors import AWAY, USAGE, Failure, Interruption
from connectors.contract.records import (
    PREDICTIONS,
    Committed,
    DeadLetter,
    LabelReader,
    Log,
    Positions,
    RecordRange,
    Retried,
    Sink,
    Source,
)
from connectors.contract.sections import SinkSection
from connectors.kafka.client import explained, options, partitions_of, require_topics
from connectors.kafka.confluent_producer import load_library
from connectors.kafka.dead_letters import dead_letters, retry
from connectors.kafka.group import Group, GroupPositions, committed_positions
from connectors.kafka.labels import TopicLabels
from connectors.kafka.permissions import READ, Permission, permissions, require_permissions
from connectors.kafka.sections import LabelTopic, PredictionTopic, TopicSinkSection, TopicSourceSection
from connectors.kafka.sink import TopicSink, emit_from, require_alone
from connectors.kafka.source import TopicSource
from connectors.kafka.topic_range import TopicLog, TopicRange, topic_shards
from connectors.settings.connector import Connector, MeasuredShard
from connectors.settings.tables import AnyPlace, Settings


def _source(settings: Settings) -> TopicSourceSection:
    return TopicSourceSection.of(settings.source)


class KafkaConnector(Connector):
    """Topics as sources and sinks; see :class:`connectors.settings.connector.Connector`."""

    def open_source(self, settings: Settings, model: str) -> Source:
        """Join the group of the source."""
        return TopicSource(_source(settings), settings.kafka, model)

    def open_labels(self, settings: Settings) -> LabelReader:
        """Open the topic of labels."""
        return TopicLabels(LabelTopic.of(settings.labels).topic, settings.kafka)

    def open_sinks(
        self, sections: Mapping[str, SinkSection], settings: Settings, model: str, source: Source
    ) -> Iterator[tuple[str, Sink]]:
        """Yield one sink, which writes all topics in one transaction."""
        predictions = sections.get(PREDICTIONS)
        headers = predictions.record_headers if isinstance(predictions, PredictionTopic) else []
        topics = {key: section.place for key, section in sections.items()}
        sink = TopicSink(topics, settings.kafka, model, source, headers)
        try:
            _require_alone(predictions, settings)
        except BaseException:
            sink.close()
            raise
        yield "topics", sink

    @contextlib.contextmanager
    def open_log(self, settings: Settings, start: str | None, end: str | None, strict: bool) -> Iterator[Log]:
        """Open a range of the topics as a log."""
        with contextlib.closing(TopicRange(_source(settings).topic, settings.kafka, start, end)) as records:
            yield TopicLog(records, settings.decoder(), settings.events.target)

    def open_range(
        self, settings: Settings, start: str | None, end: str | None, partitions: Sequence[int] | None
    ) -> RecordRange:
        """Open a range of the topics."""
        return TopicRange(_source(settings).topic, settings.kafka, start, end, partitions)

    def open_positions(self, settings: Settings, partitions: Sequence[int] | None) -> Positions:
        """Open the positions of the group, which must have no members."""
        labels = "" if settings.labels is None else settings.labels.place
        return GroupPositions(_source(settings), settings.kafka, partitions, labels)

    def committed(self, settings: Settings) -> Mapping[str, Committed | None]:
        """Return what the group has committed; raises Failure if other programs are in it."""
        client_options, positions = committed_positions(_source(settings), settings.kafka)
        Group(client_options, _source(settings).group).require_daemons()
        return positions

    def restart_outputs(
        self, sections: Iterable[SinkSection], settings: Settings, model: str, position: int
    ) -> None:
        """Set up to where the predictions of a log are in their topics."""
        emit_from(settings.kafka, [section.place for section in sections], model, position)

    def check(self, sections: Mapping[str, AnyPlace], settings: Settings, model: str | None) -> Iterator[str]:
        """Yield what the brokers answer about permissions and topics."""
        if settings.kafka.producer == "confluent-kafka":
            load_library()
            yield "kafka.producer: confluent-kafka is installed"
        topics = {
            f"{key}.topic": section.topic if isinstance(section, TopicSourceSection) else section.place
            for key, section in sections.items()
        }
        try:
            if settings.registry is not None and settings.parser is not None:
                settings.registry.client.get("subjects")
                yield f"registry.url: {settings.registry.url} answers"
            client_options = options(settings.kafka)
            require_permissions(client_options, permissions(settings, model))
            yield "permissions: the broker denies nothing that a run needs"
            with explained("kafka"), contextlib.closing(KafkaConsumer(**client_options)) as consumer:
                servers = settings.kafka.servers
                yield f"kafka.servers: {', '.join(servers)} answer{'s' if len(servers) == 1 else ''}"
                there = require_topics(consumer, topics)
                matched = [t for t in there.get("source.topic", ()) if t not in topics["source.topic"]]
                require_permissions(
                    client_options, [Permission("source.topic", "topic", topic, (READ,)) for topic in matched]
                )
                _require_alone(sections.get(PREDICTIONS), settings)
                for key, topic in ((key, topic) for key, names in there.items() for topic in names):
                    places = partitions_of(consumer, [topic], None)
                    records = sum(consumer.end_offsets(places).values())
                    count = f"{len(places)} partition{'' if len(places) == 1 else 's'}"
                    yield f"{key}: {topic} has {count}; ends add up to {records:,}"
        except Interruption as error:
            raise Failure(AWAY, str(error)) from None

    def shards(self, settings: Settings, start: str | None, end: str | None) -> Sequence[MeasuredShard]:
        """Return the partitions of the topics."""
        return topic_shards(settings, start, end)

    def dead_letters(self, section: SinkSection, settings: Settings) -> Iterator[DeadLetter]:
        """Yield the dead letters of a topic."""
        return dead_letters(section.place, settings.kafka)

    def retry(self, section: SinkSection, settings: Settings, dry_run: bool) -> Retried:
        """Send dead letters back to their topics, each once."""
        if not isinstance(section, TopicSinkSection):
            raise Failure(
                USAGE,
                "dead_letters.kind: only dead letters in a topic can be sent back, since their position is "
                "committed with them; name a topic",
            )
        return retry(_source(settings), section.topic, settings.kafka, dry_run)


def _require_alone(predictions: AnyPlace | None, settings: Settings) -> None:
    """Raise Failure if another model writes predictions to the topic, unless the settings allow it."""
    if isinstance(predictions, PredictionTopic) and not predictions.shared:
        require_alone(predictions.topic, settings.reader, options(settings.kafka))


CONNECTOR = KafkaConnector()
