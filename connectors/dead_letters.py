"""Dead letters as people see them, whether they are in a topic or in a file."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

SENT, TRUNCATED, TOO_LARGE, OTHER = "sent", "truncated", "too large", "other"


class DeadLetter(NamedTuple):
    """A record that was refused.

    Attributes
    ----------
    partition, offset
        Its place in the source.
    reason
        Why it was refused.
    key, value
        Its bytes; the value is cut if ``truncated``.
    size
        Bytes of the whole value.
    truncated
        Whether it was too large for its topic, so that only a stub is there.
    """

    partition: str
    offset: int
    reason: str
    key: bytes | None
    value: bytes
    size: int
    truncated: bool


class Retried(NamedTuple):
    """What became of dead letters.

    Attributes
    ----------
    counts
        Dead letters by what became of them: ``sent``, ``truncated``, ``too large`` (for the source), or
        ``other`` (of another source, or written by others).
    group
        In which the position is committed.
    resumed
        Whether the group had a position. Otherwise everything was read from the oldest dead letter on.
    """

    counts: Counter[str]
    group: str
    resumed: bool
