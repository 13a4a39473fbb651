"""Values that are larger than a message: cut into chunks for a compacted topic, and put together again.

Chunk 2 of the value ``clicks-3`` has the key ``clicks-3/2``, so compaction keeps the newest of each chunk and
may remove those of older values one by one. Every chunk says in its headers how many there are and what the
checksum of the whole is: chunks of one checksum belong together, and a value counts when all of them are
there. All chunks of a value lie in one partition of the topic, in order.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from typing import Any, NamedTuple

import zstandard

CHUNK = 900_000  # bytes; a message of a million is what a topic takes by default
_LEVEL = 3
_COUNT, _SUM, _ABOUT = "streamk-chunks", "streamk-sha256", "streamk-about"


class Message(NamedTuple):
    """A message to write; without a partition, the key says which."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, str | bytes | None]]
    partition: int | None


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
    about: Any
    chunks: int


def cut(name: str, body: bytes, about: Any, partition: int, before: int = 0) -> list[Message]:
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
    packed = zstandard.ZstdCompressor(level=_LEVEL).compress(body)
    parts = [packed[at : at + CHUNK] for at in range(0, len(packed), CHUNK)]
    headers: list[tuple[str, str | bytes | None]] = [
        (_COUNT, b"%d" % len(parts)),
        (_SUM, _digest(packed).encode()),
        (_ABOUT, json.dumps(about, sort_keys=True, separators=(",", ":")).encode()),
    ]
    chunks = [Message(_key(name, k), part, headers, partition) for k, part in enumerate(parts)]
    return chunks + [Message(_key(name, k), None, [], partition) for k in range(len(parts), before)]


def _key(name: str, chunk: int) -> bytes:
    return f"{name}/{chunk}".encode()


def _digest(packed: bytes) -> str:
    return hashlib.sha256(packed).hexdigest()


class Gathering:
    """The newest whole value of each name, from the messages of a partition, the last one first.

    Parameters
    ----------
    names
        Those that are wanted; all of them if None.

    Attributes
    ----------
    found : dict of str to Value
        What is whole.
    torn : set of str
        Names of which something newer than what counts is not whole.
    """

    def __init__(self, names: Collection[str] | None = None) -> None:
        self._names = names
        self.found: dict[str, Value] = {}
        self.torn: set[str] = set()
        self._open: dict[str, tuple[str, dict[int, bytes]]] = {}

    @property
    def done(self) -> bool:
        """Whether nothing before what was taken matters."""
        return self._names is not None and self.found.keys() >= set(self._names)

    def take(self, record: Any) -> None:
        """Take the record before all those taken so far."""
        name, _, chunk = (record.key or b"").decode("utf-8", "replace").rpartition("/")
        if name in self.found or (self._names is not None and name not in self._names):
            return
        headers = dict(record.headers)
        if record.value is None or not chunk.isdigit() or not {_COUNT, _SUM, _ABOUT} <= headers.keys():
            return
        total = headers[_SUM].decode()
        known, parts = self._open.setdefault(name, (total, {}))
        if known != total:  # a chunk of the newer one is not there, or not visible
            self.torn.add(name)
            parts = {}
            self._open[name] = total, parts
        parts[int(chunk)] = record.value
        count = int(headers[_COUNT])
        if len(parts) == count:
            self._close(name, total, b"".join(part for _, part in sorted(parts.items())), headers)

    def _close(self, name: str, total: str, packed: bytes, headers: dict[str, bytes]) -> None:
        del self._open[name]
        if _digest(packed) != total:
            self.torn.add(name)
            return
        body = zstandard.ZstdDecompressor().decompress(packed)
        self.found[name] = Value(body, json.loads(headers[_ABOUT]), int(headers[_COUNT]))

    def end(self) -> None:
        """Say that there is nothing before what was taken."""
        self.torn |= self._open.keys()
