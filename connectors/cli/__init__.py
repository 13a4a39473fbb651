"""The ``streamk`` command, a file for each subcommand.

A subcommand's module is imported when it is invoked or its help requested, so that ``--help``, ``--version``
and a wrong name answer before any of streamk is imported.
"""

from __future__ import annotations

import importlib
import logging
import platform
import sys
from importlib import metadata
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup


class Subcommand(NamedTuple):
    """The module of a subcommand, the first sentence of its docstring, and an example of its use.

    A group has no example: its commands have examples, next to their functions.
    """

    module: str
    help: str
    example: str = ""


COMMANDS = {
    "run": Subcommand(
        "run",
        "Learn from a topic or a log, each event once, until a signal stops it.",
        "streamk run streamk.toml",
    ),
    "check": Subcommand(
        "check",
        "Read the settings, then try the connections, the files and the checkpoints, changing nothing.",
        "streamk check streamk.toml",
    ),
    "record": Subcommand(
        "record",
        "Copy the topic of the settings to a log on disk, in the order of time; no group is joined.",
        "streamk record streamk.toml monday.jsonl.gz --from 2026-11-21 --to 2026-11-22",
    ),
    "init": Subcommand(
        "init",
        "Write an example of the settings, with a comment for each.",
        "streamk init streamk.toml --from sales.csv --target price",
    ),
    "reset": Subcommand(
        "stopped",
        "Set where a daemon continues, with the daemon stopped and no other member in its group.",
        "streamk reset streamk.toml --to earliest --dry-run",
    ),
    "adopt": Subcommand(
        "stopped",
        "Accept changed settings of events, with all daemons of the group stopped.",
        "streamk adopt streamk.toml --dry-run",
    ),
    "promote": Subcommand(
        "stopped",
        "Put a challenger in the place of the model, with the daemon stopped.",
        "streamk promote streamk.toml large",
    ),
    "checkpoints": Subcommand("checkpoints", "Look at checkpoints, and go back to one."),
    "labels": Subcommand("stopped", "Edit the labels that a stopped daemon has learned."),
    "dead-letters": Subcommand("dead_letters", "Look at dead letters, and send them back to the source."),
    "replay": Subcommand(
        "replay",
        "Replay a log: predict every event, then learn it, and score the predictions.",
        "streamk replay 'logs/*.csv' --target label --learner kernel --learner kaczmarz --report page",
    ),
    "compare": Subcommand(
        "compare",
        "Compare two reports of streamk replay: the metrics of every contender, and how they differ.",
        "streamk compare monday-page tuesday-page",
    ),
    "tune": Subcommand(
        "tune",
        "Compare settings over one pass of a log, and print the best as a table for the daemon.",
        "streamk tune log.csv --target label --learner kaczmarz --grid 'features=512|2048'",
    ),
    "demo": Subcommand(
        "demo",
        "Replay three streams next to baselines, save and reload the models, and write pages.",
        "streamk demo --output demo-output",
    ),
    "train": Subcommand(
        "train",
        "Learn logs in separate shards, and merge them after every round of events.",
        "streamk train 'logs/*.csv' --target label --workers 8 --save model.streamk",
    ),
    "predict": Subcommand(
        "predict",
        "Predict every record of a log with a saved model, and score those that have a target.",
        "streamk predict model.streamk new.csv --output predictions.csv",
    ),
    "explain": Subcommand(
        "explain",
        "Say why a model predicts what it does: for one record of a log, or over all of them.",
        "streamk explain model.streamk new.csv --line 12",
    ),
    "profile": Subcommand(
        "profile",
        "Print the type of each column, what a learner will see of it, and what to look at.",
        "streamk profile sales.csv --target price --save streamk.toml",
    ),
    "merge": Subcommand(
        "merge",
        "Merge models that learned parts of a stream into one that has learned the events of all.",
        "streamk merge monday.streamk tuesday.streamk -o both.streamk",
    ),
    "show": Subcommand(
        "show",
        "Describe a model file: learner, parameters, events, labels, inputs and their relevance.",
        "streamk show model.streamk",
    ),
    "serve": Subcommand(
        "serve",
        "Answer predictions over HTTP by a model file, a published model, or a learner taught by requests.",
        "streamk serve model.streamk --port 8000",
    ),
    "publish": Subcommand(
        "publish",
        "Publish the newest model of a daemon, or of all partitions together.",
        "streamk publish streamk.toml --to models -o model.streamk",
    ),
    "fetch": Subcommand(
        "fetch",
        "Get the newest published model that is whole.",
        "streamk fetch models -o model.streamk --servers localhost:9092",
    ),
}


def load(name: str) -> Any:
    """Import a subcommand, and return it as typer runs it."""
    place = COMMANDS[name]
    defined = vars(importlib.import_module(f"connectors.cli.{place.module}"))
    group = defined[name.replace("-", "_")] if not place.example else None
    if group is None:
        group = typer.Typer(rich_markup_mode=None, add_completion=False, pretty_exceptions_enable=False)
        group.command(name, epilog=f"For example: {place.example}")(defined[f"{name}_command"])
    command = typer.main.get_command(group)
    command.name = name
    return command


class _Subcommands(TyperGroup):
    """The subcommands by name and help, each imported once it is invoked."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {name: TyperCommand(name, help=place.help) for name, place in COMMANDS.items()}

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, command, remaining = super().resolve_command(ctx, args)
        return name, load(name) if name in COMMANDS else command, remaining


app = typer.Typer(
    rich_markup_mode=None, cls=_Subcommands, no_args_is_help=True, pretty_exceptions_enable=False
)
_SHOWN = "numba", "numpy", "river", "kafka-python"  # packages whose versions matter in a report of a fault


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"streamk {metadata.version('streamk')}")
        typer.echo(f"python {platform.python_version()}, {platform.machine()}")
        for name in _SHOWN:
            typer.echo(f"{name} {metadata.version(name)}")
        raise typer.Exit


@app.callback(epilog="For example: streamk replay log.csv --target label")
def command(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Kernel machines that learn from streams."""


class _Sentences(logging.Handler):
    """Writes records to standard error as it is then, since a progress bar replaces it."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record."""
        print(f"streamk: {record.getMessage()}", file=sys.stderr, flush=True)


def show_waits() -> None:
    """Say on a terminal what a command waits for, such as a compilation; a daemon logs it instead."""
    if sys.stderr is not None and sys.stderr.isatty():
        logger = logging.getLogger("streamk")
        logger.handlers[:] = [_Sentences()]
        logger.setLevel(logging.INFO)


def main() -> None:
    """Run the command."""
    show_waits()
    app()
