"""Dead letters as people see them, whether they are in a topic or in a file."""

from __future__ import annotations

from typing import NamedTuple


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
