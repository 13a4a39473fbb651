"""``streamk reset``, ``adopt``, ``promote`` and ``labels``: edit what a stopped daemon has stored."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from connectors.cli.arguments import Config
from connectors.cli.exits import connected, exits, working
from connectors.contract.errors import USAGE, Failure
from connectors.contract.sections import BY_CHECKPOINT, BY_GROUP, EARLIEST, LATEST

labels = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    add_completion=False,
    help="Edit the labels that a stopped daemon has learned.",
)


@labels.callback()
def labels_command() -> None:
    """Edit the labels that a stopped daemon has learned."""


@labels.command("forget", epilog="For example: streamk labels forget streamk.toml 3.0")
def forget_command(
    config: Config,
    label: Annotated[str, typer.Argument(help="The label, as predictions write it.")],
) -> None:
    """Forget a label that came first by mistake, and with it the few events that had it.

    A classifier has one type of label, so a first label of a wrong type makes it refuse all others. The
    model starts again; positions stay, and `streamk dead-letters retry` sends the refused events again.
    """
    with exits(), connected():
        from connectors.settings.file import load
        from connectors.state.edits import forget_label

        settings = load(config)
        with working("editing checkpoints"):
            events = forget_label(settings, label)
        typer.echo(f"forgot {label!r}, which {events:,} learned events had")


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
        from connectors.settings.file import load
        from connectors.state.edits import adopt

        settings = load(config)
        with working("editing checkpoints"):
            changes = adopt(settings, dry_run)
        if changes:
            table = Table("setting", "trained with", "adopted")
            for key, before, now in changes:
                table.add_row(key, repr(before), repr(now))
            Console().print(table)
        typer.echo("nothing was written" if dry_run else f"adopted {len(changes)} changed settings")


def promote_command(
    config: Config,
    name: Annotated[str, typer.Argument(help="The challenger, as [[challengers]] names it.")],
) -> None:
    """Put a challenger in the place of the model, with the daemon stopped.

    First set learner.name and learner.parameters to those of the challenger, and take it out of
    [[challengers]]. The model continues from the same event. `streamk checkpoints rollback` goes back.
    """
    with exits(), connected():
        from connectors.settings.file import load
        from connectors.state.edits import promote

        settings = load(config)
        with working("editing checkpoints"):
            promote(settings, name)
        typer.echo(f"{name} is the model now; start the daemon")


def reset_command(
    config: Config,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            help=f"{EARLIEST}, {LATEST}, {BY_GROUP} (as committed), {BY_CHECKPOINT} (as the model has read), "
            "an offset, or a time such as 2026-11-21T08:00.",
        ),
    ] = None,
    excluded: Annotated[
        str | None,
        typer.Option(
            "--exclude", metavar="FROM..TO", help="Learn again without these events: offsets or times."
        ),
    ] = None,
    partitions: Annotated[
        list[int] | None, typer.Option("--partition", help="Only this one; may be repeated.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be set, and set nothing.")
    ] = False,
) -> None:
    """Set where a daemon continues, with the daemon stopped and no other member in its group.

    With --to, the model stays as it is. Going back, it learns and predicts again what comes from there; going
    forward, it never sees what is skipped. With --exclude, it goes back to a checkpoint from before the
    events, or to nothing, and learns again without them; predictions that were made stay.
    """
    with exits(), connected():
        from connectors.settings.file import load
        from connectors.state.edits import reset
        from connectors.state.exclusion import exclude

        if (to is None) == (excluded is None):
            raise Failure(USAGE, "say where to continue: --to, or --exclude FROM..TO")
        if excluded is not None:
            table = Table("partition", "excluded", "learns again from")
            for name, span, position in exclude(load(config), excluded, partitions, dry_run):
                shown = "-" if span is None else f"{span[0]:,} to {span[1] - 1:,}"
                table.add_row(name, shown, f"{position:,}")
            Console().print(table)
            if dry_run:
                typer.echo("nothing was changed")
            return
        rows = reset(load(config), to or "", partitions, dry_run)
        table = Table("partition", "model has read", "group has committed", "continues from")
        for name, *positions in rows:
            table.add_row(name, *("-" if position is None else f"{position:,}" for position in positions))
        Console().print(table)
        if dry_run:
            typer.echo("nothing was set")
