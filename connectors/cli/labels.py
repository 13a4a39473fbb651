"""``streamk labels``: ``forget``."""

from __future__ import annotations

from typing import Annotated

import typer

from connectors.cli.arguments import Config
from connectors.cli.exits import connected, exits

commands = typer.Typer(
    no_args_is_help=True, add_completion=False, help="Edit the labels that a stopped daemon has learned."
)


@commands.callback()
def labels() -> None:
    """Edit the labels that a stopped daemon has learned."""


@commands.command("forget", epilog="For example: streamk labels forget streamk.toml 3.0")
def forget_command(
    config: Config,
    label: Annotated[str, typer.Argument(help="The label, as predictions write it.")],
) -> None:
    """Forget a label that came first by mistake, and with it the few events that had it.

    A classifier keeps one type of label, so a first label of a wrong type makes it refuse all others. The
    model starts again; positions stay, and `streamk dead-letters retry` sends the refused events again.
    """
    with exits(), connected():
        from connectors.daemon.labels import forget
        from connectors.settings_file import load

        events = forget(load(config), label)
        typer.echo(f"forgot {label!r}, which {events:,} learned events had")
