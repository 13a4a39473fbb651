"""``streamk adopt``: continue training with changed settings."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from connectors.cli.arguments import Config
from connectors.cli.exits import connected, exits


def adopt_command(
    config: Config,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what has changed, and write nothing.")
    ] = False,
) -> None:
    """Accept changed settings of events, with all daemons of the group stopped.

    A daemon stops if its target, its inputs or its learner differ from those that its model was trained with.
    This command records the new settings with the model, which continues under them. A changed learner
    cannot continue.
    """
    with exits(), connected():
        from connectors.daemon.adopt import adopt
        from connectors.settings_file import load

        found = adopt(load(config), dry_run)
        if found:
            table = Table("setting", "trained with", "adopted")
            for key, before, now in found:
                table.add_row(key, repr(before), repr(now))
            Console().print(table)
        typer.echo("nothing was written" if dry_run else f"adopted {len(found)} changed settings")
