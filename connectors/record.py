"""Copy a range of a topic to a log on disk, one JSON object a line, in the order of time."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import zstandard

from connectors.events import parser
from connectors.settings import Events
from connectors.stream import USAGE, Failure
from connectors.topic_range import TopicRange


@dataclass
class Recorded:
    """What became of the records: written, or left out, and why the first of those was."""

    written: int = 0
    left_out: int = 0
    reason: str = ""


@contextmanager
def _writing(path: Path) -> Iterator[Any]:
    """Open a file that is not there yet, packed as its name says."""
    try:
        with path.open("xb") as raw:
            if path.suffix == ".gz":
                with gzip.GzipFile(fileobj=raw, mode="wb", mtime=0) as packed:
                    yield packed
            elif path.suffix == ".zst":
                with zstandard.ZstdCompressor().stream_writer(raw) as packed:
                    yield packed
            else:
                yield raw
    except FileExistsError:
        raise Failure(USAGE, f"{path} is there already; name another file") from None
    except OSError as error:
        raise Failure(USAGE, f"{path} cannot be written: {error.strerror}") from None


def record(records: TopicRange, events: Events, path: Path, seen: Any = lambda: None) -> Recorded:
    """Write a range of a topic as JSON lines that ``streamk replay`` and a daemon read.

    Parameters
    ----------
    records
        What to write.
    events
        How the records are decoded; all fields are kept.
    path
        The new file; ``.gz`` and ``.zst`` at its end pack it.
    seen
        Called for every record.

    Raises
    ------
    Failure
        If the file is there already or cannot be written.
    """
    parse, done = parser(events.format, events.columns, texts=(events.target,)), Recorded()
    with _writing(path) as file:
        for partition, raw in records:
            seen()
            try:
                fields = parse(raw.value or b"")
                if not isinstance(fields, dict):
                    raise ValueError("it is not an object of fields")
                line = msgspec.json.encode(fields)
            except (ValueError, TypeError, RecursionError) as error:
                done.left_out += 1
                done.reason = done.reason or f"{partition}, offset {raw.offset}: {error}"
                continue
            file.write(line + b"\n")
            done.written += 1
    return done
