"""Dead letters as JSON lines, written and read; keys and values are in base64."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from connectors.dead_letters import DeadLetter
from connectors.errors import USAGE, Failure
from connectors.stream import Output


class _Line(msgspec.Struct):
    partition: str
    offset: int
    reason: str
    time: int | None
    key: bytes | None  # msgspec reads and writes bytes as base64
    value: bytes


def line_of(output: Output) -> bytes:
    """Return a dead letter as a line, without its end."""
    raw = output.raw
    reason = output.body.decode()
    return msgspec.json.encode(
        _Line(output.partition, raw.offset, reason, raw.timestamp, raw.key, raw.value or b"")
    )


def letters(path: Path) -> Iterator[DeadLetter]:
    """Yield the dead letters of a file, which a daemon may be writing.

    Raises
    ------
    Failure
        If the file cannot be read, or a line of it is no dead letter.
    """
    at = 0
    try:
        with path.open("rb") as file:
            for text in file:
                if not text.endswith(b"\n"):
                    return  # it is being written
                yield _letter(path, at, text)
                at += len(text)
    except OSError as error:
        raise Failure(USAGE, f"dead_letters.path: {path} cannot be read: {error.strerror}") from None


def _letter(path: Path, at: int, text: bytes) -> DeadLetter:
    try:
        line = msgspec.json.decode(text, type=_Line)
    except (ValueError, RecursionError):
        raise Failure(
            USAGE, f"dead_letters.path: {path}, byte {at}: this line is no dead letter; remove it"
        ) from None
    return DeadLetter(line.partition, line.offset, line.reason, line.key, line.value, len(line.value), False)
