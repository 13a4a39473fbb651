"""Dead letters sent back to the source, each once.

The position in the topic of dead letters is committed, in a separate group, in the transaction of what was
sent. The next run fences a run that was killed, aborts its transaction, and resumes at that position.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator

from connectors.contract.records import OTHER, SENT, TOO_LARGE, TRUNCATED, Committed, DeadLetter, Raw, Retried
from connectors.kafka.client import options, partition_number
from connectors.kafka.compacted import Message
from connectors.kafka.dead_letters import TopicLimit, original, read, topic_limits
from connectors.kafka.group import GroupPositions
from connectors.kafka.sections import Kafka, TopicSourceSection
from connectors.kafka.sink import TransactionalWriter
from connectors.kafka.topic_range import TopicRange

_KEY = "dead_letters.topic"
_MOST, _BYTES = 500, 1 << 23  # records and bytes of a transaction


def dead_letters(topic: str, kafka: Kafka) -> Iterator[DeadLetter]:
    """Yield the dead letters of a topic, in the order of time."""
    with contextlib.closing(TopicRange(topic, kafka, setting=_KEY)) as records:
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
    limit = topic_limits(options(kafka), [source.topic])[source.topic]
    counts: Counter[str] = Counter()
    with contextlib.ExitStack() as stack:
        records = stack.enter_context(contextlib.closing(TopicRange(topic, kafka, setting=_KEY)))
        sources = stack.enter_context(contextlib.closing(TopicRange(source.topic, kafka))).bounds
        # before the position is read: from now on, no other process moves it
        writer = None
        if not dry_run:
            writer = TransactionalWriter(kafka, f"streamk-{group}", _KEY)
            stack.callback(writer.close)
        reader = TopicSourceSection(kind="topic", topic=topic, group=group)
        places = stack.enter_context(contextlib.closing(GroupPositions(reader, kafka, None)))
        committed = {name: places.committed(name) for name in places.partitions()}
        known = {name: at for name, at in committed.items() if at is not None}
        records.skip({partition_number(name): at.position for name, at in known.items()})
        positions = dict(known)  # committed again, since brokers forget what is old
        messages: list[Message] = []
        size = 0

        def commit() -> None:
            if writer is not None and positions:
                writer.write(source.topic, messages, places.offsets(positions), group)
            messages.clear()

        for name, raw in records:
            message, what = _message(raw, source.topic, set(sources), limit)
            counts[what] += 1
            if message is not None:
                messages.append(message)
                size += len(raw.value or b"")
            positions[name] = Committed(raw.offset + 1, "")
            if len(messages) >= _MOST or size >= _BYTES:
                commit()
                size = 0
        commit()
    return Retried(counts, group, bool(known))


def _message(raw: Raw, topic: str, partitions: set[int], limit: TopicLimit) -> tuple[Message | None, str]:
    """Return what to send for a dead letter, and what becomes of it."""
    dead_letter = read(raw)
    name, _, number = ("", "", "") if dead_letter is None else dead_letter.partition.rpartition("-")
    if dead_letter is None or name != topic or not number.isdecimal():
        return None, OTHER
    if dead_letter.truncated:
        return None, TRUNCATED
    key, value, headers = original(raw, dead_letter)
    if not limit.takes(key, value, headers):
        return None, TOO_LARGE
    return Message(key, value, headers, int(number) if int(number) in partitions else None), SENT
