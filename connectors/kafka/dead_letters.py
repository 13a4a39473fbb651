"""Dead letters as messages: the record that was refused, and in headers the reason and the place.

A letter that its topic would not take is written as a stub, which has the first bytes of the value, and the
key and the headers if they fit. The size limit of a topic is the largest batch that brokers append.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import NamedTuple

from kafka import errors as kafka_errors
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecordsBuilder

from connectors.contract.records import DeadLetter, Output, Raw
from connectors.kafka.client import Options, topic_configs
from connectors.kafka.producer import COMPRESSION, LARGEST, Headers

log = logging.getLogger(__name__)
_SIZE, _CODEC = "max.message.bytes", "compression.type"  # configs of a topic
_FORMAT = 2  # of record batches
PREFIX = "streamk-"
RETRIED = f"{PREFIX}retried"  # place of the first failure of a record that was sent again
_REASON, _PARTITION, _OFFSET = f"{PREFIX}reason", f"{PREFIX}partition", f"{PREFIX}offset"
_TRUNCATED = f"{PREFIX}truncated"  # bytes of the value of which there is a stub
_TOMBSTONE = f"{PREFIX}tombstone"  # on records without a value: in a letter it is empty, as others are
_STUB = 1024  # bytes of a value


class TopicLimit(NamedTuple):
    """The largest batch that a topic takes.

    Attributes
    ----------
    largest
        Bytes; the brokers' default by default.
    compressed
        Whether brokers keep the compression of the producer. Otherwise they compress a batch themselves, or
        decompress it, and the result must not be larger, either.
    """

    largest: int = 1_048_588
    compressed: bool = True

    def takes(self, key: bytes | None, value: bytes | None, headers: Headers) -> bool:
        """Return whether a record fits, compressed if it must be.

        The result is independent of the producer: one sixteenth is left for differences between versions of
        zstd.
        """
        size = record_size(key, value, headers)
        if size <= self.largest:
            return True
        if not self.compressed or size > LARGEST:
            return False
        builder = MemoryRecordsBuilder(_FORMAT, DefaultRecordBatchBuilder.CODEC_ZSTD, 0)
        builder.append(None, key, value, headers)
        builder.close()
        return bool(builder.size_in_bytes() <= self.largest * 15 // 16)


def record_size(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """Return an upper bound of the bytes of a batch with one record."""
    # confluent-kafka writes U+FFFD for a NUL in a name
    written = [(name.replace("\0", "\ufffd"), text) for name, text in headers]
    return int(DefaultRecordBatchBuilder.estimate_size_in_bytes(key, value, written))


def topic_limits(options: Options, topics: Iterable[str]) -> dict[str, TopicLimit]:
    """Return the limits of topics; the brokers' defaults where this client may not describe a topic.

    ``options`` is what :func:`connectors.kafka.client.options` returned.
    """
    names = list(topics)
    try:
        configs = topic_configs(options, names, (_SIZE, _CODEC))
    except (kafka_errors.AuthorizationError, kafka_errors.UnsupportedVersionError):
        configs = {}
    limits = {}
    for name in names:
        if config := configs.get(name):
            limits[name] = TopicLimit(int(config[_SIZE]), config[_CODEC] in ("producer", COMPRESSION))
        else:
            limits[name] = TopicLimit()
            log.warning(
                "%s: its configuration may not be described; its max.message.bytes is taken to be %d, the "
                "brokers' default",
                name,
                limits[name].largest,
            )
    return limits


class Letter(NamedTuple):
    """Key, value and headers of a message."""

    key: bytes | None
    value: bytes | None
    headers: Headers

    @property
    def truncated(self) -> bool:
        """Whether it is a stub."""
        return bool(self.headers) and self.headers[-1][0] == _TRUNCATED  # the last header that a daemon adds


def letter(output: Output, limit: TopicLimit) -> Letter:
    """Return the message of a dead letter, a stub if the topic does not take it whole."""
    raw = output.raw
    key, value = raw.key, raw.value or b""
    originals: Headers = [(name, text or b"") for name, text in raw.headers]
    marks: Headers = [
        (_REASON, output.body),
        (_PARTITION, output.partition.encode()),
        (_OFFSET, b"%d" % raw.offset),
    ]
    if raw.value is None:
        marks.insert(0, (_TOMBSTONE, b""))
    whole = Letter(key, value, originals + marks)
    if limit.takes(*whole):
        return whole
    marks.append((_TRUNCATED, b"%d" % len(value)))
    value = value[:_STUB]
    for stub in (Letter(key, value, originals + marks), Letter(key, value, marks)):
        if limit.takes(*stub):
            return stub
    room = max(limit.largest - record_size(None, value, marks) + len(value), 0)
    return Letter(None, value[:room], marks)


def read(record: Raw) -> DeadLetter | None:
    """Return what a message says, None if it is no dead letter.

    Examples
    --------
    >>> marks = [("streamk-reason", b"no"), ("streamk-partition", b"clicks-3"), ("streamk-offset", b"17")]
    >>> read(Raw(0, b"x", None, None, marks))
    DeadLetter(partition='clicks-3', offset=17, reason='no', key=None, value=b'x', size=1, truncated=False)
    """
    marks = {name: text or b"" for name, text in record.headers}
    try:
        partition, offset = marks[_PARTITION].decode(), int(marks[_OFFSET])
        reason = marks[_REASON].decode(errors="replace")
        value, truncated = record.value or b"", _TRUNCATED in marks
        size = int(marks[_TRUNCATED]) if truncated else len(value)
    except (KeyError, ValueError):
        return None
    return DeadLetter(partition, offset, reason, record.key, value, size, truncated)


def original(record: Raw, dead_letter: DeadLetter) -> Letter:
    """Return the record that was refused, marked with the place of its first failure."""
    marks = dict(record.headers)
    headers: Headers = [(name, text) for name, text in record.headers if not name.startswith(PREFIX)]
    headers.append((RETRIED, marks.get(RETRIED) or f"{dead_letter.partition}:{dead_letter.offset}".encode()))
    return Letter(record.key, None if _TOMBSTONE in marks else record.value, headers)
