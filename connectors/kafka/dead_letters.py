"""Dead letters as messages: the record that was refused, and in headers the reason and the place.

A letter that its topic would not take is written as a stub, which has the first bytes of the value, and the
key and the headers if they fit.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from connectors.dead_letters import DeadLetter
from connectors.kafka.producer import Headers
from connectors.kafka.topic_limits import TopicLimit, record_size
from connectors.stream import Output

PREFIX = "streamk-"
RETRIED = f"{PREFIX}retried"  # place of the first failure of a record that was sent again
_REASON, _PARTITION, _OFFSET = f"{PREFIX}reason", f"{PREFIX}partition", f"{PREFIX}offset"
_TRUNCATED = f"{PREFIX}truncated"  # bytes of the value of which there is a stub
_TOMBSTONE = f"{PREFIX}tombstone"  # on records without a value: in a letter it is empty, as others are
_STUB = 1024  # bytes of a value


class Letter(NamedTuple):
    """Key, value and headers of a message."""

    key: bytes | None
    value: bytes | None
    headers: Headers

    @property
    def truncated(self) -> bool:
        """Whether it is a stub."""
        return bool(self.headers) and self.headers[-1][0] == _TRUNCATED  # the last of our own


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


def read(record: Any) -> DeadLetter | None:
    """Return what a message says, None if it is no dead letter.

    Examples
    --------
    >>> from connectors.stream import Raw
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


def original(record: Any, found: DeadLetter) -> Letter:
    """Return the record that was refused, marked with the place of its first failure."""
    marks = dict(record.headers)
    headers: Headers = [(name, text) for name, text in record.headers if not name.startswith(PREFIX)]
    headers.append((RETRIED, marks.get(RETRIED) or f"{found.partition}:{found.offset}".encode()))
    return Letter(record.key, None if _TOMBSTONE in marks else record.value, headers)
