"""Reading compacted topics of large values (:mod:`connectors.kafka.chunks`), and what is asked of them.

A partition is read backwards, a stretch at a time, until every value that is wanted is whole; so it does not
matter how much compaction has left lying before them. Read is what transactions have committed,
which ends where the first transaction that is still open began (the last stable offset).
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from kafka import KafkaConsumer, TopicPartition
from kafka import errors as kafka_errors
from kafka.admin import ConfigResource, ConfigResourceType

from connectors.errors import USAGE, Failure, Interruption
from connectors.kafka.chunks import CHUNK, Gathering, Value
from connectors.kafka.client import PATIENCE, READING, administrator, explained, require_topics
from connectors.kafka.producer import LONGEST

log = logging.getLogger(__name__)
_STRETCH, _LONGEST = 16, 128  # offsets that are read first, and at most; twice as many each time
HELD_UP = 1.5 * LONGEST  # seconds for which an open transaction may hide what is behind it
_AGAIN = 0.2  # seconds between two looks
_FETCH = 1 << 25  # bytes a request
_ROOM = 50_000  # bytes of a message beside the chunk
_MS = int(PATIENCE * 1000)


class Newest(NamedTuple):
    """The newest whole values of a partition, and up to which offset they are.

    Attributes
    ----------
    torn
        Names of which something newer is there and not whole.
    """

    values: dict[str, Value]
    stable: int
    torn: set[str]


class CompactedTopic:
    """A reader of large values.

    Parameters
    ----------
    topic
        Its name.
    key
        The setting or the option that names it, for messages.
    found
        What :func:`connectors.kafka.client.options` gave.

    Raises
    ------
    Failure
        If the topic is not there, or is not compacted.
    """

    def __init__(self, topic: str, key: str, found: Mapping[str, Any]) -> None:
        self.topic, self._key, self._options = topic, key, dict(found)
        require_compacted(self._options, {key: topic})
        with explained(key):
            self._consumer = KafkaConsumer(
                **found,
                **READING,
                auto_offset_reset="none",
                max_partition_fetch_bytes=_FETCH,
                fetch_max_bytes=_FETCH,
                max_poll_records=1000,
            )
        try:
            with explained(key):
                require_topics(self._consumer, {key: topic})
                self.partitions = len(self._consumer.partitions_for_topic(topic))
        except BaseException:
            self.close()
            raise

    def newest(self, names: Collection[str] | None = None, partition: int = 0) -> Newest:
        """Return the newest whole values of these names (None: of all) that can be seen in a partition."""
        place = TopicPartition(self.topic, partition)
        gathering = Gathering(names)
        with explained(self._key):
            first = self._consumer.beginning_offsets([place], _MS)[place]
            stable = end = self._consumer.end_offsets([place], _MS)[place]
            self._consumer.assign([place])
            stretch = _STRETCH
            while end > first and not gathering.done:
                begin = max(first, end - stretch)
                for record in reversed(self._read(place, begin, end)):
                    gathering.take(record)
                end, stretch = begin, min(2 * stretch, _LONGEST)
        if not gathering.done:
            gathering.end()
        return Newest(gathering.found, stable, gathering.torn)

    def _read(self, place: TopicPartition, begin: int, end: int) -> list[Any]:
        """Return the records between two offsets, the second left out."""
        self._consumer.seek(place, begin)
        records: list[Any] = []
        at, deadline = begin, time.monotonic() + 2 * PATIENCE
        while at < end:
            records += (r for r in self._consumer.poll(500).get(place, ()) if r.offset < end)
            now = self._consumer.position(place, _MS)
            if now > at:
                at, deadline = now, time.monotonic() + 2 * PATIENCE
            elif time.monotonic() > deadline:
                raise Interruption(f"{self.topic} brings no records any more")
        return records

    def settled(self, names: Collection[str], partition: int) -> dict[str, Value]:
        """Return the newest whole values, once all that is there now can be seen.

        Raises
        ------
        Interruption
            If a transaction stays open for longer than it can without its process.
        """
        end, deadline = self.end(partition), time.monotonic() + HELD_UP
        while True:
            found = self.newest(names, partition)
            if found.stable >= end:
                return found.values
            if time.monotonic() > deadline:
                raise Interruption(f"{self.topic}: a transaction has been open for {HELD_UP:.0f} seconds")
            time.sleep(_AGAIN)

    def empty(self) -> bool:
        """Return whether nothing has ever been written, or nothing is left."""
        places = [TopicPartition(self.topic, p) for p in range(self.partitions)]
        with explained(self._key):
            first = self._consumer.beginning_offsets(places, _MS)
            end = self._consumer.end_offsets(places, _MS)
        return bool(first == end)

    def stable(self, partition: int) -> int:
        """Return the offset where the first open transaction of a partition began, or its end."""
        place = TopicPartition(self.topic, partition)
        with explained(self._key):
            return int(self._consumer.end_offsets([place], _MS)[place])

    def end(self, partition: int) -> int:
        """Return the offset after the last message of a partition, in whatever transaction it is."""
        place = TopicPartition(self.topic, partition)
        options = {**self._options, **READING, "isolation_level": "read_uncommitted"}
        with explained(self._key), contextlib.closing(KafkaConsumer(**options)) as consumer:
            return int(consumer.end_offsets([place], _MS)[place])

    def close(self) -> None:
        """Let go of the broker."""
        self._consumer.close(timeout_ms=1000)

    def __enter__(self) -> CompactedTopic:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()


def require_compacted(found: Mapping[str, Any], topics: Mapping[str, str]) -> None:
    """Raise Failure if a topic is not compacted, or takes no chunks; ``topics`` has settings and names.

    A client that may not ask is let through: what is too large is refused when it is written.
    """
    names = ["cleanup.policy", "max.message.bytes"]
    resources = [
        ConfigResource(ConfigResourceType.TOPIC, topic, dict.fromkeys(names)) for topic in topics.values()
    ]
    try:
        with contextlib.closing(administrator(dict(found))) as admin:
            configs = admin.describe_configs(resources, config_filter="all")["topic"]
            values = {topic: [configs[topic][name]["value"] for name in names] for topic in topics.values()}
    except (kafka_errors.KafkaError, KeyError):
        return
    for key, topic in topics.items():
        policy, largest = values[topic]
        change = f"set it: kafka-configs.sh --alter --topic {topic} --add-config"
        if set(policy.replace(" ", "").split(",")) != {"compact"}:
            raise Failure(
                USAGE,
                f"{key}: {topic} has cleanup.policy={policy}, and what it holds would be deleted after a "
                f"while; {change} cleanup.policy=compact",
            )
        if int(largest) < CHUNK + _ROOM:
            raise Failure(
                USAGE,
                f"{key}: {topic} takes messages of {int(largest):,} bytes at most, and models come in chunks "
                f"of {CHUNK:,}; {change} max.message.bytes=1048588",
            )
