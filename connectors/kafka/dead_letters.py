"""Dead letters as messages, and how they are sent back to the source, each once.

A message is the record that was refused, and has in headers the reason and the place. A letter that its topic
would not take is written as a stub, which has the first bytes of the value, and the key and the headers if
they fit. The size limit of a topic is the largest batch that brokers append.

The position in the topic of dead letters is committed, in a separate group, in the transaction of what was
sent. The next run fences a run that was killed, aborts its transaction, and resumes at that position.
"""

from __future__ import annotations

import contextlib
import logging
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from kafka import TopicPartition
from kafka import errors as kafka_errors
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecordsBuilder

from connectors.contract.records import (
    OTHER,
    SENT,
    TOO_LARGE,
    TRUNCATED,
    Committed,
    DeadLetter,
    Output,
    Raw,
    Retried,
)
from connectors.kafka.client import Options, options, partition_number, topic_configs
from connectors.kafka.group import GroupPositions
from connectors.kafka.producer import COMPRESSION, LARGEST, Headers, Message, TransactionalWriter
from connectors.kafka.sections import Kafka, TopicSourceSection
from connectors.kafka.topic_range import TopicRange

log = logging.getLogger(__name__)
_SIZE, _CODEC = "max.message.bytes", "compression.type"  # configs of a topic
_FORMAT = 2  # of record batches
PREFIX = "streamk-"
RETRIED = f"{PREFIX}retried"  # place of the first failure of a record that was sent again
_REASON, _PARTITION, _OFFSET = f"{PREFIX}reason", f"{PREFIX}partition", f"{PREFIX}offset"
_TRUNCATED = f"{PREFIX}truncated"  # bytes of the value of which there is a stub
_TOMBSTONE = f"{PREFIX}tombstone"  # on records without a value: in a letter it is empty, as others are
_STUB = 1024  # bytes of a value
_KEY = "dead_letters.topic"
_MOST, _BYTES = 500, 1 << 23  # records and bytes of a transaction


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


def dead_letters(topic: str, kafka: Kafka) -> Iterator[DeadLetter]:
    """Yield the dead letters of a topic, in the order of time."""
    with contextlib.closing(TopicRange([topic], kafka, setting=_KEY)) as records:
        for _, raw in records:
            dead_letter = read(raw)
            if dead_letter is not None:
                yield dead_letter


def retry(source: TopicSourceSection, topic: str, kafka: Kafka, dry_run: bool = False) -> Retried:
    """Send those dead letters back that are whole and were not sent back yet.

    Parameters
    ----------
    source, kafka
        Settings.
    topic
        Of the dead letters.
    dry_run
        Count them, and send nothing.

    Raises
    ------
    Failure
        If a topic is not there, or another process retries, too.
    Interruption
        If no broker answers.
    """
    group = f"{source.group}-dead-letters"
    counts: Counter[str] = Counter()
    with contextlib.ExitStack() as stack:
        records = stack.enter_context(contextlib.closing(TopicRange([topic], kafka, setting=_KEY)))
        sources = stack.enter_context(contextlib.closing(TopicRange(source.topic, kafka)))
        limits = topic_limits(options(kafka), sources.identities)
        # before the position is read: from now on, no other process moves it
        writer = None
        if not dry_run:
            writer = TransactionalWriter(kafka, f"streamk-{group}", _KEY)
            stack.callback(writer.close)
        reader = TopicSourceSection(kind="topic", topic=[topic], group=group)
        places = stack.enter_context(contextlib.closing(GroupPositions(reader, kafka, None)))
        committed = {name: places.committed(name) for name in places.partitions()}
        known = {name: at for name, at in committed.items() if at is not None}
        records.skip({partition_number(name): at.position for name, at in known.items()})
        positions = dict(known)  # committed again, since brokers forget what is old
        messages: dict[str, list[Message]] = defaultdict(list)
        size = 0

        def commit() -> None:
            if writer is not None and positions:
                writer.write(messages, places.offsets(positions), group)
            messages.clear()

        for name, raw in records:
            to, message, what = _message(raw, limits, sources.bounds)
            counts[what] += 1
            if message is not None:
                messages[to].append(message)
                size += len(raw.value or b"")
            positions[name] = Committed(raw.offset + 1, "")
            if sum(map(len, messages.values())) >= _MOST or size >= _BYTES:
                commit()
                size = 0
        commit()
    return Retried(counts, group, bool(known))


def _message(
    raw: Raw, limits: Mapping[str, TopicLimit], there: Collection[TopicPartition]
) -> tuple[str, Message | None, str]:
    """Return the topic of a dead letter, what to send there, and what becomes of it."""
    dead_letter = read(raw)
    topic, _, number = ("", "", "") if dead_letter is None else dead_letter.partition.rpartition("-")
    if dead_letter is None or topic not in limits or not number.isdecimal():
        return topic, None, OTHER
    if dead_letter.truncated:
        return topic, None, TRUNCATED
    key, value, headers = original(raw, dead_letter)
    if not limits[topic].takes(key, value, headers):
        return topic, None, TOO_LARGE
    partition = int(number) if TopicPartition(topic, int(number)) in there else None
    return topic, Message(key, value, headers, partition), SENT
