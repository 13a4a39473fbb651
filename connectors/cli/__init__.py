"""The ``streamk`` command, a file for each subcommand, which is imported when it is invoked."""

from __future__ import annotations

import importlib
import importlib.metadata
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from connectors.nearest import meant


class Entry(NamedTuple):
    """Where a command is, and its first line of help, which ``streamk --help`` prints without an import."""

    module: str
    name: str
    help: str


COMMANDS = {
    "run": Entry("run", "run_command", "Learn from a topic or a log and predict, until SIGTERM or Ctrl-C."),
    "check": Entry("check", "check_command", "Check that settings are right and what they name can be used."),
    "record": Entry("record", "record_command", "Copy a topic to a log on disk, in the order of time."),
    "init": Entry("init", "init_command", "Write an example of the settings, with a comment for each."),
    "reset": Entry("reset", "reset_command", "Set the position from which a stopped daemon reads."),
    "adopt": Entry("adopt", "adopt_command", "Continue a model with changed settings."),
    "checkpoints": Entry("checkpoints", "checkpoints", "List, show, verify and roll back checkpoints."),
    "labels": Entry("labels", "commands", "Change what models store of labels."),
    "dead-letters": Entry("dead_letters", "commands", "Show dead letters, or send them back."),
    "replay": Entry(
        "replay", "replay_command", "Predict every event of a log, then learn it, and score that."
    ),
    "tune": Entry("tune", "tune_command", "Compare settings over one pass of a log."),
    "demo": Entry("demo", "demo_command", "Replay three streams next to baselines, and write pages."),
    "profile": Entry("profile", "profile_command", "Print column types of a log and what a learner sees."),
    "train": Entry("train", "train_command", "Learn logs in shards, and merge them after every round."),
    "predict": Entry("predict", "predict_command", "Predict every record of a log with a saved model."),
    "show": Entry("show", "show_command", "Describe a model file: learner, events, inputs, relevance, size."),
    "merge": Entry("merge", "merge_command", "Merge models that learned parts of a stream."),
    "publish": Entry("publish", "publish_command", "Merge the models of all partitions into one."),
    "fetch": Entry("fetch", "fetch_command", "Get the newest published model."),
}


class LazyGroup(TyperGroup):
    """Commands by their names; only the one that is invoked is imported."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command with its first line of help alone; :meth:`resolve_command` imports it."""
        entry = COMMANDS.get(cmd_name)
        return None if entry is None else TyperCommand(cmd_name, help=entry.help)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the arguments name, imported."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            ctx.fail(f"there is no command {args[0]!r}{meant(args[0], COMMANDS)}")
        name, _, rest = super().resolve_command(ctx, args)
        return name, load(str(name)), rest


def load(name: str) -> Any:
    """Return a command by its name, with everything that it imports."""
    entry = COMMANDS[name]
    found: Any = getattr(importlib.import_module(f"connectors.cli.{entry.module}"), entry.name)
    if isinstance(found, typer.Typer):
        found.info.help = found.info.help or entry.help
        return typer.main.get_command(found)
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command(name)(found)
    return typer.main.get_command(app)


app = typer.Typer(cls=LazyGroup, add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"streamk {importlib.metadata.version('streamk')}")
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
