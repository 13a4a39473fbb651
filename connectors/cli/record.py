"""``streamk record``: copy a range of a topic to a log on disk, as JSON lines in the order of time."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, BinaryIO

import msgspec
import typer
import zstandard
from rich.console import Console
from rich.progress import Progress

from connectors.cli.arguments import AsJson, Config, End, Start
from connectors.cli.exits import connected, exits
from connectors.contract.errors import REFUSED_EVENTS, USAGE, Failure
from connectors.contract.records import Raw
from connectors.events.decoding import Decoder, EventFormat
from connectors.settings.connector import connector_of
from connectors.settings.file import load


def record_command(
    config: Config,
    out: Annotated[
        Path, typer.Argument(help="The new log, JSON lines; compressed if it ends in .gz or .zst.")
    ],
    start: Start = None,
    end: End = None,
    partitions: Annotated[
        list[int] | None, typer.Option("--partition", help="Only this one; repeat for more.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Copy the topic of the settings to a log on disk, in the order of time; no group is joined."""
    with exits(), connected():
        settings = load(config)
        events = settings.events
        format = EventFormat(events.target, columns=events.columns, labelled=False, record=events.record)
        decoder = format.decoder(events.format, parse=settings.parser)
        console = Console(stderr=True)
        with (
            closing(
                connector_of(settings.source.kind).open_range(settings, start, end, partitions)
            ) as records,
            Progress(console=console, transient=True, disable=as_json) as bar,
        ):
            job = bar.add_task(settings.source.name, total=records.size)
            done = record(records, decoder, out, lambda: bar.advance(job))
        if as_json:
            typer.echo(json.dumps(vars(done)))
        else:
            console.print(f"wrote {done.written:,} events to {out}", soft_wrap=True, highlight=False)
        if done.left_out:
            raise Failure(
                REFUSED_EVENTS, f"{done.left_out:,} records cannot be decoded and are skipped; {done.reason}"
            )


@dataclass
class Recorded:
    """What became of the records: written, or skipped, and why the first of those was."""

    written: int = 0
    left_out: int = 0
    reason: str = ""


@contextmanager
def _writing(path: Path) -> Iterator[gzip.GzipFile | BinaryIO]:
    """Open a file that is not there yet, compressed as its name says."""
    try:
        with path.open("xb") as raw:
            if path.suffix == ".gz":
                with gzip.GzipFile(fileobj=raw, mode="wb", mtime=0) as compressed:
                    yield compressed
            elif path.suffix == ".zst":
                with zstandard.ZstdCompressor().stream_writer(raw) as compressed:
                    yield compressed
            else:
                yield raw
    except FileExistsError:
        raise Failure(USAGE, f"{path} is there already; name another file") from None
    except OSError as error:
        raise Failure(USAGE, f"{path} cannot be written: {error.strerror}") from None


def record(
    records: Iterable[tuple[str, Raw]], decoder: Decoder, path: Path, seen: Callable[[], None] = lambda: None
) -> Recorded:
    """Write a range of a topic as JSON lines that ``streamk replay`` and a daemon read.

    Parameters
    ----------
    records
        What to write: partitions and their records.
    decoder
        Of the records; all fields are written, also those made of the record.
    path
        The new file; ``.gz`` and ``.zst`` at its end pack it.
    seen
        Called for every record.

    Raises
    ------
    Failure
        If the file is there already or cannot be written.
    """
    done = Recorded()
    with _writing(path) as file:
        for partition, raw in records:
            seen()
            try:
                fields = decoder.fields(raw.value or b"") | decoder.parts(raw)
                line = msgspec.json.encode(fields)
            except (ValueError, TypeError, RecursionError) as error:
                done.left_out += 1
                done.reason = done.reason or f"{partition}, offset {raw.offset}: {error}"
                continue
            file.write(line + b"\n")
            done.written += 1
    return done
