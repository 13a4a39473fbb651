"""``streamk checkpoints``: ``list``, ``show``, ``save`` and ``rollback``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from connectors.cli.arguments import AsJson
from connectors.cli.exits import connected, exits, usage
from connectors.contract.errors import CHECKPOINT, USAGE, Failure
from connectors.formats.addresses import Place, is_address, place_of
from connectors.settings.file import load
from connectors.settings.tables import Settings
from connectors.state.aside import waiting_on_disk
from connectors.state.checkpoint import Checkpoint
from connectors.state.disk import CheckpointStore
from streamk.arrays import Json

checkpoints = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    add_completion=False,
    help="Look at checkpoints, and go back to one.",
)
SAVEPOINT = ".savepoint"
Directory = Annotated[
    str, typer.Argument(help="checkpoints.directory of the settings, a path or an address.")
]
Stored = Annotated[
    str, typer.Argument(help="checkpoints.directory of the settings; or the settings, with [snapshots].")
]


def _describe(path: Place) -> Json:
    try:
        checkpoint = Checkpoint.read(path)
        learner = checkpoint.learner()
    except ValueError as error:
        return {"file": path.name, "bytes": path.stat().st_size, "damaged": str(error)}
    return {
        "number": checkpoint.number,
        "file": path.name,
        "written": checkpoint.written,
        "bytes": path.stat().st_size,
        "source": checkpoint.source,
        "learner": type(learner).__name__,
        "events": learner.events,
        "features": learner.feature_count,
        "training": checkpoint.training or {},
        "adopted": checkpoint.adopted,
        "partitions": {name: vars(progress) for name, progress in sorted(checkpoint.partitions.items())},
    }


def _paths(directory: Place) -> list[Place]:
    paths = CheckpointStore(directory).paths()
    if not paths:
        raise Failure(USAGE, f"there are no checkpoints in {directory}")
    return paths


@checkpoints.command("list", epilog="For example: streamk checkpoints list checkpoints")
def list_command(directory: Directory, as_json: AsJson = False) -> None:
    """List the checkpoints of a directory, oldest first, and the savepoints."""
    with exits(), usage():
        store = place_of(directory)
        rows = [_describe(path) for path in _paths(store)]
        if as_json:
            typer.echo(json.dumps(rows))
            return
        table = Table()
        for column in ("number", "written", "events", "bytes", "positions"):
            table.add_column(column, justify="left" if column in ("written", "positions") else "right")
        for row in rows:
            if "damaged" in row:
                table.add_row(row["file"], "damaged", "", f"{row['bytes']:,}", "")
                continue
            positions = ", ".join(f"{name} {p['position']:,}" for name, p in row["partitions"].items())
            table.add_row(
                str(row["number"]), row["written"], f"{row['events']:,}", f"{row['bytes']:,}", positions
            )
        Console().print(table)
        for path in _savepoints(store):
            typer.echo(f"savepoint {path.stem}: {path.stat().st_size:,} bytes")


@checkpoints.command("show", epilog="For example: streamk checkpoints show checkpoints 12")
def show_command(
    directory: Directory,
    number: Annotated[
        int | None, typer.Argument(help="Number of the checkpoint; the newest by default.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what a checkpoint holds; the file itself is a model that streamk.load opens."""
    with exits(), usage():
        row = _describe(_numbered(place_of(directory), number))
        if as_json:
            typer.echo(json.dumps(row))
            return
        console = Console()
        for key, value in row.items():
            if key not in ("partitions", "training", "adopted"):
                console.print(
                    f"{key}: {value:,}" if isinstance(value, int) else f"{key}: {value}", soft_wrap=True
                )
        for key, value in row.get("training", {}).items():
            if value not in (None, []):
                console.print(f"{key}: {value!r}", soft_wrap=True, markup=False)
        for entry in row.get("adopted", ()):
            changes = ", ".join(f"{key} from {before!r} to {now!r}" for key, before, now in entry["changes"])
            console.print(f"adopted {entry['when']}: {changes}", soft_wrap=True, markup=False)
        kinds = "learned", "predicted", "refused", "skipped"
        table = Table("partition", "position", *kinds)
        for name, p in row.get("partitions", {}).items():
            table.add_row(name, *(f"{p[key]:,}" for key in ("position", *kinds)))
        console.print(table)


def _numbered(directory: Place, number: int | None) -> Place:
    paths = _paths(directory)
    if number is None:
        return paths[-1]
    for path in paths:
        if int(path.name.split(".")[0]) == number:
            return path
    there = ", ".join(str(int(path.name.split(".")[0])) for path in paths)
    raise Failure(USAGE, f"there is no checkpoint {number} in {directory}; there are {there}")


@checkpoints.command("save", epilog="For example: streamk checkpoints save checkpoints before-upgrade")
def save_command(
    stored: Stored, name: Annotated[str, typer.Argument(help="The name of the savepoint.")]
) -> None:
    """Keep the newest checkpoint under a name, also while the daemon runs.

    It is never removed. `streamk checkpoints rollback` goes back to it. With [snapshots], name the settings:
    the file, in their checkpoints.directory, then holds the newest snapshot of every partition.
    """
    with exits(), usage(), connected():
        directory, settings = _place(stored)
        if not name.replace("-", "").replace("_", "").isalnum() or name.isdigit():
            raise Failure(USAGE, f"{name!r}: a name has letters, digits, - and _, and is no number")
        path = directory / f"{name}{SAVEPOINT}"
        if path.exists():
            raise Failure(USAGE, f"{path} is there already; remove it, or take another name")
        if settings is not None and settings.snapshots is not None:
            from connectors.state.savepoints import save_snapshots

            size = save_snapshots(settings, settings.snapshots.topic, path)
            typer.echo(f"kept the snapshots of {settings.source.name} as {path} ({size:,} bytes)")
            return
        if count := waiting_on_disk(directory):
            raise Failure(
                USAGE,
                f"{count:,} events wait for labels on disk, which a savepoint would be without; copy "
                f"{directory} while the daemon is stopped",
            )
        _paths(directory)
        checkpoint = CheckpointStore(directory).newest(aside=False)
        assert checkpoint is not None  # or it has raised
        size = checkpoint.write(path)
        typer.echo(f"kept checkpoint {checkpoint.number} as {path} ({size:,} bytes)")


@checkpoints.command("rollback", epilog="For example: streamk checkpoints rollback checkpoints 12")
def rollback_command(
    stored: Stored,
    place: Annotated[str, typer.Argument(help="The checkpoint to go back to, or the name of a savepoint.")],
    skip: Annotated[
        bool,
        typer.Option("--skip", help="Skip the events learned since, instead of learning them again."),
    ] = False,
) -> None:
    """Go back to a checkpoint, with the daemon stopped.

    The next run learns the events since again, silently; with --skip it never does. Nothing is removed: the
    old model becomes the newest checkpoint. With [snapshots], name the settings and a savepoint, and stop all
    daemons of the group: old snapshots become the newest ones, and the positions are theirs.
    """
    with exits(), usage(), connected():
        directory, settings = _place(stored)
        if settings is not None and settings.snapshots is not None:
            from connectors.state.savepoints import roll_back

            for name in roll_back(settings, settings.snapshots.topic, _savepoint(directory, place), skip):
                typer.echo(f"{name} stays as it is: {place} does not hold it")
            typer.echo(f"the newest snapshots now hold the models of {place}")
            return
        store = CheckpointStore(directory)
        _paths(directory)
        with store.locked():
            try:
                checkpoint = _at(directory, place)
                if skip:
                    newest = Checkpoint.read(_numbered(directory, None))
                    newest.parts = checkpoint.parts
                    checkpoint = newest
            except ValueError as error:
                raise Failure(CHECKPOINT, str(error)) from None
            store.write(checkpoint)
        typer.echo(f"checkpoint {checkpoint.number} now holds the model of checkpoint {place}")


def _at(directory: Place, place: str) -> Checkpoint:
    """Return the checkpoint of a number, or the savepoint of a name."""
    if place.isdigit():
        return Checkpoint.read(_numbered(directory, int(place)))
    path = _savepoint(directory, place)
    return Checkpoint.unpack(path.read_bytes(), str(path))


def _savepoints(directory: Place) -> list[Place]:
    return sorted(directory.glob(f"*{SAVEPOINT}"), key=lambda path: path.name)


def _savepoint(directory: Place, name: str) -> Place:
    path = directory / f"{name}{SAVEPOINT}"
    if not path.exists():
        there = ", ".join(each.stem for each in _savepoints(directory)) or "none"
        raise Failure(USAGE, f"there is no savepoint {name!r} in {directory}; there are {there}")
    return path


def _place(stored: str) -> tuple[Place, Settings | None]:
    """Return a directory of checkpoints, and the settings if these were named."""
    if is_address(stored) or not Path(stored).is_file():
        return place_of(stored), None
    settings = load(Path(stored))
    return settings.checkpoints.directory, settings
