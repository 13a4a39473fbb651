"""Compacted topics of values that are larger than a message, cut into chunks.

Chunk 2 of the value ``clicks-3`` has the key ``clicks-3/2``, so compaction keeps the newest of each chunk and
may remove those of older values one by one. Every chunk has in its headers the number of chunks and the
checksum of the whole: chunks of one checksum belong together, and a value counts when all of them are there.
All chunks of a value lie in one partition of the topic, in order.

A partition is read backwards, a range of offsets at a time, until every value that is wanted is whole; so it
does not matter how much compaction has left before them. Only what transactions have committed is read, up to
where the first transaction that is still open began (the last stable offset).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import time
from collections.abc import Collection, Mapping
from typing import NamedTuple

import zstandard
from kafka import KafkaConsumer, TopicPartition
from kafka import errors as kafka_errors

from connectors.contract.errors import USAGE, Failure, Interruption
from connectors.contract.records import Raw
from connectors.kafka.client import (
    PATIENCE,
    READING,
    Options,
    explained,
    records_between,
    require_topics,
    topic_configs,
)
from connectors.kafka.producer import LONGEST, Headers, Message

CHUNK = 900_000  # bytes; a message of a million is what a topic takes by default
_LEVEL = 3
_FIRST, _LONGEST = 16, 128  # offsets that are read first, and at most; twice as many each time
HELD_UP = 1.5 * LONGEST  # seconds for which an open transaction may hide what is behind it
_AGAIN = 0.2  # seconds between two reads
_FETCH = 1 << 25  # bytes a request
_ROOM = 50_000  # bytes of a message next to the chunk
_MS = int(PATIENCE * 1000)
About = Mapping[str, object]
_COUNT, _SUM, _ABOUT = "streamk-chunks", "streamk-sha256", "streamk-about"


class Value(NamedTuple):
    """A whole value that was read.

    Attributes
    ----------
    about
        JSON values that every chunk carries in its headers.
    chunks
        How many there were.
    """

    body: bytes
    about: About
    chunks: int


def cut(name: str, body: bytes, about: About, partition: int, before: int = 0) -> list[Message]:
    """Return the messages that make a value the newest of its name.

    Parameters
    ----------
    name, body, about
        The value; it is compressed.
    partition
        Of the topic.
    before
        How many chunks the value before it has: those that are too many become tombstones.

    Examples
    --------
    >>> [(m.key, m.value is None) for m in cut("clicks-3", b"small", {}, 0, before=2)]
    [(b'clicks-3/0', False), (b'clicks-3/1', True)]
    """
    compressed = zstandard.ZstdCompressor(level=_LEVEL).compress(body)
    parts = [compressed[at : at + CHUNK] for at in range(0, len(compressed), CHUNK)]
    headers: Headers = [
        (_COUNT, b"%d" % len(parts)),
        (_SUM, _digest(compressed).encode()),
        (_ABOUT, json.dumps(about, sort_keys=True, separators=(",", ":")).encode()),
    ]
    chunks = [Message(_key(name, k), part, headers, partition) for k, part in enumerate(parts)]
    return chunks + [Message(_key(name, k), None, [], partition) for k in range(len(parts), before)]


def _key(name: str, chunk: int) -> bytes:
    return f"{name}/{chunk}".encode()


def _digest(compressed: bytes) -> str:
    return hashlib.sha256(compressed).hexdigest()


class ChunkCollector:
    """The newest whole value of each name, from the messages of a partition, the last one first.

    Parameters
    ----------
    names
        Those that are wanted; all of them if None.

    Attributes
    ----------
    values : dict of str to Value
        What is whole.
    """

    def __init__(self, names: Collection[str] | None = None) -> None:
        self._names = names
        self.values: dict[str, Value] = {}
        self._open: dict[str, tuple[str, dict[int, bytes]]] = {}

    @property
    def done(self) -> bool:
        """Whether nothing before what was taken matters."""
        return self._names is not None and self.values.keys() >= set(self._names)

    def take(self, record: Raw) -> None:
        """Take the record before all those taken so far."""
        name, _, chunk = (record.key or b"").decode("utf-8", "replace").rpartition("/")
        if name in self.values or (self._names is not None and name not in self._names):
            return
        headers = dict(record.headers)
        if record.value is None or not chunk.isdigit() or not {_COUNT, _SUM, _ABOUT} <= headers.keys():
            return
        total = headers[_SUM].decode()
        known, parts = self._open.setdefault(name, (total, {}))
        if known != total:  # a chunk of the newer one is not there, or not visible
            parts = {}
            self._open[name] = total, parts
        parts[int(chunk)] = record.value
        count = int(headers[_COUNT])
        if len(parts) == count:
            self._close(name, total, b"".join(part for _, part in sorted(parts.items())), headers)

    def _close(self, name: str, total: str, compressed: bytes, headers: dict[str, bytes]) -> None:
        del self._open[name]
        if _digest(compressed) == total:
            body = zstandard.ZstdDecompressor().decompress(compressed)
            self.values[name] = Value(body, json.loads(headers[_ABOUT]), int(headers[_COUNT]))


log = logging.getLogger(__name__)


class Newest(NamedTuple):
    """The newest whole values of a partition, and up to which offset they are."""

    values: dict[str, Value]
    stable: int


class CompactedTopic:
    """A reader of large values.

    Parameters
    ----------
    topic
        Its name.
    key
        The setting or the option that names it, for messages.
    client_options
        What :func:`connectors.kafka.client.options` returned.

    Raises
    ------
    Failure
        If the topic is not there, or is not compacted.
    """

    def __init__(self, topic: str, key: str, client_options: Options) -> None:
        self.topic, self._key, self._options = topic, key, dict(client_options)
        require_compacted(self._options, {key: topic})
        with explained(key):
            self._consumer = KafkaConsumer(
                **client_options,
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
        collector = ChunkCollector(names)
        with explained(self._key):
            first = self._consumer.beginning_offsets([place], _MS)[place]
            stable = end = self._consumer.end_offsets([place], _MS)[place]
            self._consumer.assign([place])
        count = _FIRST
        while end > first and not collector.done:
            start = max(first, end - count)
            for record, _ in reversed([*records_between(self._consumer, place, start, end, self._key)]):
                if record is not None:
                    collector.take(record)
            end, count = start, min(2 * count, _LONGEST)
        return Newest(collector.values, stable)

    def settled(self, names: Collection[str], partition: int) -> dict[str, Value]:
        """Return the newest whole values, once all that is there now can be seen.

        Raises
        ------
        Interruption
            If a transaction stays open for longer than it can without its process.
        """
        end, deadline = self.end(partition), time.monotonic() + HELD_UP
        while True:
            newest = self.newest(names, partition)
            if newest.stable >= end:
                return newest.values
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
        """Close the connections."""
        self._consumer.close(timeout_ms=1000)


def require_compacted(client_options: Options, topics: Mapping[str, str]) -> None:
    """Raise Failure if a topic is not compacted, or takes no chunks; ``topics`` has settings and names.

    A client that may not describe topics passes: a large message is refused when it is written.
    """
    try:
        configs = topic_configs(client_options, topics.values(), ("cleanup.policy", "max.message.bytes"))
    except kafka_errors.KafkaError:
        return
    for key, topic in topics.items():
        if topic not in configs:
            continue
        policy, largest = configs[topic].values()
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
