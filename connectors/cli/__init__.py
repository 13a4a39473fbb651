"""The ``streamk`` command, a file for each subcommand."""

from __future__ import annotations

from typing import Annotated

import typer

import streamk
from connectors.cli.adopt import adopt_command
from connectors.cli.check import check_command
from connectors.cli.checkpoints import checkpoints
from connectors.cli.dead_letters import commands as dead_letters
from connectors.cli.demo import demo_command
from connectors.cli.fetch import fetch_command
from connectors.cli.init import init_command
from connectors.cli.labels import commands as labels
from connectors.cli.merge import merge_command
from connectors.cli.predict import predict_command
from connectors.cli.profile import profile_command
from connectors.cli.publish import publish_command
from connectors.cli.record import record_command
from connectors.cli.replay import replay_command
from connectors.cli.reset import reset_command
from connectors.cli.run import run_command
from connectors.cli.train import train_command
from connectors.cli.tune import tune_command

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)
app.command("run")(run_command)
app.command("check")(check_command)
app.command("record")(record_command)
app.command("init")(init_command)
app.command("reset")(reset_command)
app.command("adopt")(adopt_command)
app.add_typer(checkpoints, name="checkpoints")
app.add_typer(labels, name="labels")
app.add_typer(dead_letters, name="dead-letters")
app.command("replay")(replay_command)
app.command("tune")(tune_command)
app.command("demo")(demo_command)
app.command("train")(train_command)
app.command("predict")(predict_command)
app.command("profile")(profile_command)
app.command("merge")(merge_command)
app.command("publish")(publish_command)
app.command("fetch")(fetch_command)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"streamk {streamk.__version__}")
        raise typer.Exit


@app.callback()
def command(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Kernel machines that learn from streams."""


def main() -> None:
    """Run the command."""
    app()
