"""The ``streamk`` command."""

from __future__ import annotations

import contextlib
import inspect
import json
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

import streamk
from connectors import daemon_commands, report
from connectors.daemon_commands import FROM, TO, what_to_replay
from connectors.replay import LEARNERS, learner_classes, read_setting, replay
from connectors.stream import Failure
from streamk.prequential import TASKS

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)
app.command("run")(daemon_commands.run_command)
app.command("check")(daemon_commands.check_command)
app.command("record")(daemon_commands.record_command)
app.command("init")(daemon_commands.init_command)
app.add_typer(daemon_commands.checkpoints, name="checkpoints")


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


@app.command("replay")
def replay_command(
    file: Annotated[
        str,
        typer.Argument(
            help="CSV or JSON lines, plain, gzip or zstd; - is a pipe, a .toml what those settings read."
        ),
    ],
    target: Annotated[str | None, typer.Option(help="The field to predict.")] = None,
    task: Annotated[
        str | None, typer.Option(help=f"{' or '.join(TASKS)}; told from the first records by default.")
    ] = None,
    learner: Annotated[
        str | None, typer.Option(help=f"{' or '.join(LEARNERS)}; kaczmarz by default.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A parameter of the learner; repeat for more."),
    ] = None,
    start: Annotated[str | None, typer.Option("--from", help=FROM)] = None,
    end: Annotated[str | None, typer.Option("--to", help=TO)] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Stop after so many events.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")] = False,
    save: Annotated[Path | None, typer.Option(help="Save the model here at the end.")] = None,
    baseline: Annotated[bool, typer.Option(help="Run river's linear model beside.")] = True,
) -> None:
    """Replay a log: predict every event, then learn it, and say how well that went."""
    console = Console(stderr=as_json)
    try:
        if save is not None and not save.absolute().parent.is_dir():
            raise ValueError(f"--save {save}: there is no directory {save.absolute().parent}")
        if save is not None and save.exists() and not save.is_file():
            raise ValueError(f"--save {save}: this is not a file")
        with what_to_replay(file, target, start, end) as (log, given):
            showing: AbstractContextManager[Any]
            if console.is_terminal:
                showing = report.live(console, log, limit)
            elif as_json:
                showing = contextlib.nullcontext(lambda run: None)
            else:
                showing = report.lines(console)
            with showing as watch:
                learner = learner or given.name
                parameters = {**given.parameters, **read_settings(settings or [], learner)}
                task = task or (given.task if file.endswith(".toml") else None)
                run = replay(log, learner, task, parameters, limit, baseline, watch=watch)
            if left_out := log.left_out():
                console.print(left_out, soft_wrap=True)
        if as_json:
            typer.echo(json.dumps(run.result()))
        else:
            report.summary(run, console)
        if save is not None:
            console.print(f"saved to {save}: {run.learner.save(save):,} bytes", soft_wrap=True)
        if run.error:
            raise ValueError(run.error)
    except Failure as failure:
        _complain(failure)
        raise typer.Exit(failure.code) from None
    except BrokenPipeError:
        raise  # the reader has gone, as `| head` does
    except (ValueError, OSError, MemoryError) as error:
        _complain(error)
        raise typer.Exit(2) from None
    if run.interrupted:
        raise typer.Exit(130)


def _complain(error: Exception) -> None:
    if isinstance(error, OSError) and error.filename:
        sentence = f"{error.filename}: {error.strerror}"
    else:
        sentence = str(error) or "there is not enough memory"
    Console(stderr=True).print(f"streamk: {sentence}", style="red", markup=False, soft_wrap=True)


def read_settings(settings: list[str], learner: str) -> dict[str, Any]:
    """Return ``KEY=VALUE`` texts as parameters of a learner.

    A value is a number, ``true``, ``false``, ``none``, numbers with commas between them, or a string.

    >>> read_settings(["features=1024", "loss=margin", "scales=2,1,0.5"], "kaczmarz")
    {'features': 1024, 'loss': 'margin', 'scales': (2, 1, 0.5)}
    """
    classes = learner_classes(learner).values()
    known = list(dict.fromkeys(name for cls in classes for name in inspect.signature(cls).parameters))
    parameters: dict[str, Any] = {}
    for text in settings:
        key, equals, value = text.partition("=")
        if not equals or key not in known:
            raise ValueError(f"--set {text}: write KEY=VALUE with KEY one of {', '.join(known)}")
        parameters[key] = read_setting(value)
        if key == "scales" and not isinstance(parameters[key], tuple):
            parameters[key] = (parameters[key],)
    return parameters


def main() -> None:
    """Run the command."""
    app()


if __name__ == "__main__":
    main()
