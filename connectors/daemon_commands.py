"""The commands of the daemon: ``run``, ``check``, ``init`` and ``checkpoints``."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from connectors import settings as settings_file
from connectors.check import check
from connectors.checkpoint import Checkpoint, Store
from connectors.daemon import run
from connectors.files import Log
from connectors.settings import Learner
from connectors.stream import (
    AWAY,
    CHECKPOINT,
    EXIT_CODES,
    REFUSED_EVENTS,
    USAGE,
    Failure,
    Interruption,
)
from connectors.telemetry import log_to_stderr

log = logging.getLogger(__name__)
FROM = "Offset or time (ISO 8601, UTC) of the first record of a topic."
TO = "Offset or time of the first record that is left out; the end of now by default."
Config = Annotated[Path, typer.Argument(help="The settings, a TOML file; streamk init writes an example.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
checkpoints = typer.Typer(no_args_is_help=True, help="Look at checkpoints, and go back to one.")


@contextlib.contextmanager
def _exits() -> Iterator[None]:
    """End with the code of a failure, and its sentence."""
    try:
        yield
    except Failure as failure:
        for line in str(failure).splitlines():
            Console(stderr=True).print(f"streamk: {line}", style="red", markup=False, soft_wrap=True)
        raise typer.Exit(failure.code) from None


def run_command(config: Config) -> None:
    """Learn from a topic or a log, each event once, until told to stop.

    SIGTERM and Ctrl-C end it after a checkpoint; started again, it goes on from there.
    """
    with _exits():
        settings = settings_file.load(config)
        log_to_stderr(settings.telemetry.log)
        try:
            run(settings)
        except Failure as failure:
            if settings.telemetry.log == "text":
                raise
            log.error(str(failure), extra={"fields": {"exit_code": failure.code}})
            raise typer.Exit(failure.code) from None


run_command.__doc__ = f"{run_command.__doc__}\n    Exit codes:\n\n" + "".join(
    f"    {code}: {meaning}.\n\n" for code, meaning in EXIT_CODES.items()
)


def check_command(config: Config) -> None:
    """Read the settings, then try the connections, the files and the checkpoints, changing nothing."""
    with _exits():
        settings = settings_file.load(config)
        console = Console()
        console.print("settings: good")
        for line in check(settings):
            console.print(line, highlight=False, soft_wrap=True)


@contextlib.contextmanager
def what_to_replay(
    file: str, target: str | None, start: str | None, end: str | None
) -> Iterator[tuple[Any, Learner]]:
    """Open a log, or what the settings in a TOML file read; give the learner of the settings too."""
    if not file.endswith(".toml"):
        if target is None:
            raise ValueError("--target: name the field to predict")
        if start is not None or end is not None:
            raise ValueError("--from and --to are for the topic of a .toml")
        yield Log(file, target), Learner()
        return
    settings = settings_file.load(Path(file))
    if target is not None:
        raise ValueError(f"--target: {file} says it, as events.target")
    if settings.source.kind == "file":
        if start is not None or end is not None:
            raise ValueError("--from and --to are for topics, and the source is a log on disk")
        yield Log(settings.source.path, settings.events.target), settings.learner
        return
    from connectors.topic_range import TopicLog, TopicRange

    decoder = settings.events.decoder(settings.learner.task)
    with _connected(), TopicRange(settings.source.topic, settings.kafka, start, end) as records:
        yield TopicLog(records, decoder, settings.events.target), settings.learner


@contextlib.contextmanager
def _connected() -> Iterator[None]:
    """Silence the client, and end where the brokers do not answer."""
    log_to_stderr("text")
    try:
        yield
    except Interruption as error:
        raise Failure(AWAY, str(error)) from None


def record_command(
    config: Config,
    out: Annotated[Path, typer.Argument(help="The new log, JSON lines; .gz or .zst at its end packs it.")],
    start: Annotated[str | None, typer.Option("--from", help=FROM)] = None,
    end: Annotated[str | None, typer.Option("--to", help=TO)] = None,
    partitions: Annotated[
        list[int] | None, typer.Option("--partition", help="Only this one; repeat for more.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Copy the topic of the settings to a log on disk, in the order of time; no group is joined."""
    with _exits(), _connected():
        from connectors.record import record
        from connectors.topic_range import TopicRange

        settings = settings_file.load(config)
        if settings.source.kind != "topic":
            raise Failure(USAGE, "source.kind: only a topic can be recorded")
        console = Console(stderr=True)
        with (
            TopicRange(settings.source.topic, settings.kafka, start, end, partitions) as records,
            Progress(console=console, transient=True, disable=as_json) as bar,
        ):
            job = bar.add_task(settings.source.topic, total=records.size)
            done = record(records, settings.events, out, lambda: bar.advance(job))
        if as_json:
            typer.echo(json.dumps(vars(done)))
        else:
            console.print(f"wrote {done.written:,} events to {out}", soft_wrap=True, highlight=False)
        if done.left_out:
            raise Failure(
                REFUSED_EVENTS,
                f"{done.left_out:,} records cannot be decoded and are left out; {done.reason}",
            )


def init_command(
    path: Annotated[Path, typer.Argument(help="The file to write.")] = Path("streamk.toml"),
) -> None:
    """Write an example of the settings, with a comment for each."""
    with _exits():
        try:
            with path.open("x") as file:
                file.write(settings_file.example())
        except FileExistsError:
            raise Failure(USAGE, f"{path} is there already; name another file") from None
        except OSError as error:
            raise Failure(USAGE, f"{path}: {error.strerror}") from None
        typer.echo(f"wrote {path}; now: streamk check {path}")


Directory = Annotated[Path, typer.Argument(help="checkpoints.directory of the settings.")]


def _describe(path: Path) -> dict[str, Any]:
    try:
        checkpoint = Checkpoint.read(path)
    except ValueError as error:
        return {"file": path.name, "bytes": path.stat().st_size, "damaged": str(error)}
    return {
        "number": checkpoint.number,
        "file": path.name,
        "written": checkpoint.written,
        "bytes": path.stat().st_size,
        "source": checkpoint.source,
        "learner": type(checkpoint.learner).__name__,
        "events": checkpoint.learner.events,
        "features": checkpoint.learner.feature_count,
        "partitions": {name: vars(progress) for name, progress in sorted(checkpoint.partitions.items())},
    }


def _paths(directory: Path) -> list[Path]:
    paths = Store(directory).paths()
    if not paths:
        raise Failure(USAGE, f"there are no checkpoints in {directory}")
    return paths


@checkpoints.command("list")
def list_command(directory: Directory, as_json: AsJson = False) -> None:
    """List the checkpoints of a directory, oldest first."""
    with _exits():
        found = [_describe(path) for path in _paths(directory)]
        if as_json:
            typer.echo(json.dumps(found))
            return
        table = Table()
        for column in ("number", "written", "events", "bytes", "positions"):
            table.add_column(column, justify="left" if column in ("written", "positions") else "right")
        for row in found:
            if "damaged" in row:
                table.add_row(row["file"], "damaged", "", f"{row['bytes']:,}", "")
                continue
            positions = ", ".join(f"{name} {p['position']:,}" for name, p in row["partitions"].items())
            table.add_row(
                str(row["number"]), row["written"], f"{row['events']:,}", f"{row['bytes']:,}", positions
            )
        Console().print(table)


@checkpoints.command("show")
def show_command(
    directory: Directory,
    number: Annotated[int | None, typer.Argument(help="Which one; the newest by default.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what a checkpoint holds; the file itself is a model that streamk.load opens."""
    with _exits():
        row = _describe(_numbered(directory, number))
        if as_json:
            typer.echo(json.dumps(row))
            return
        console = Console()
        for key, value in row.items():
            if key != "partitions":
                console.print(
                    f"{key}: {value:,}" if isinstance(value, int) else f"{key}: {value}", soft_wrap=True
                )
        table = Table("partition", "position", "learned", "predicted only", "refused")
        for name, p in row.get("partitions", {}).items():
            table.add_row(name, *(f"{p[key]:,}" for key in ("position", "learned", "predicted", "refused")))
        console.print(table)


def _numbered(directory: Path, number: int | None) -> Path:
    paths = _paths(directory)
    if number is None:
        return paths[-1]
    for path in paths:
        if int(path.name.split(".")[0]) == number:
            return path
    there = ", ".join(str(int(path.name.split(".")[0])) for path in paths)
    raise Failure(USAGE, f"there is no checkpoint {number} in {directory}; there are {there}")


@checkpoints.command("rollback")
def rollback_command(
    directory: Directory,
    number: Annotated[int, typer.Argument(help="The checkpoint to go back to.")],
    skip: Annotated[
        bool,
        typer.Option("--skip", help="Leave out the events learned since, instead of learning them again."),
    ] = False,
) -> None:
    """Go back to a checkpoint, with the daemon stopped.

    The next run learns the events since again, silently; with --skip it never does. Nothing is removed: the
    old model becomes the newest checkpoint.
    """
    with _exits():
        store = Store(directory)
        _paths(directory)
        with store.locked():
            try:
                checkpoint = Checkpoint.read(_numbered(directory, number))
                if skip:
                    newest = Checkpoint.read(_numbered(directory, None))
                    newest.learner = checkpoint.learner
                    checkpoint = newest
            except ValueError as error:
                raise Failure(CHECKPOINT, str(error)) from None
            store.write(checkpoint)
        typer.echo(f"checkpoint {checkpoint.number} now holds the model of checkpoint {number}")
