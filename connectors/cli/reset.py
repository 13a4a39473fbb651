"""``streamk reset``: set the positions of a daemon, in its checkpoint and in its group."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from connectors.cli.arguments import Config
from connectors.cli.exits import connected, exits
from connectors.daemon.reset import CHECKPOINT, GROUP, reset
from connectors.sections import EARLIEST, LATEST
from connectors.settings_file import load


def reset_command(
    config: Config,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            help=f"{EARLIEST}, {LATEST}, {GROUP} (as committed), {CHECKPOINT} (as the model has read), "
            "an offset, or a time such as 2026-11-21T08:00.",
        ),
    ],
    partitions: Annotated[
        list[int] | None, typer.Option("--partition", help="Only this one; may be repeated.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be set, and set nothing.")
    ] = False,
) -> None:
    """Set where a daemon goes on, with the daemon stopped and nobody else in its group.

    The model stays as it is. Going back, it learns and predicts again what comes from there; going forward,
    it never sees what is left out.
    """
    with exits(), connected():
        rows = reset(load(config), to, partitions, dry_run)
        table = Table("partition", "model has read", "group has committed", "goes on from")
        for name, saved, committed, position in rows:
            table.add_row(name, *(_shown(value) for value in (saved, committed, position)))
        Console().print(table)
        if dry_run:
            typer.echo("nothing was set")


def _shown(value: Any) -> str:
    return "-" if value is None else f"{value:,}"
