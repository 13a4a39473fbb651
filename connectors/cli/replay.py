"""``streamk replay``."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from connectors.cli.arguments import End, Start, assignments, check_place, refuse_bounds, required
from connectors.cli.exits import connected, exits, usage
from connectors.events import Decoder
from connectors.files.log import Log
from connectors.learners import DEFAULT, LEARNERS
from connectors.replay import report
from connectors.replay.run import replay
from connectors.settings import Learner
from connectors.settings_file import load
from streamk.scores import TASKS


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
        str | None, typer.Option(help=f"{' or '.join(LEARNERS)}; {DEFAULT} by default.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A parameter of the learner; repeat for more."),
    ] = None,
    start: Start = None,
    end: End = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Stop after so many events.")] = None,
    delay: Annotated[
        int, typer.Option(min=0, metavar="EVENTS", help="How many events late labels arrive.")
    ] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")] = False,
    save: Annotated[Path | None, typer.Option(help="Save the model here at the end.")] = None,
    baseline: Annotated[bool, typer.Option(help="Run river's linear model beside.")] = True,
) -> None:
    """Replay a log: predict every event, then learn it, and say how well that went."""
    console = Console(stderr=as_json)
    with exits(), usage():
        check_place("--save", save)
        with _log(file, target, start, end) as (log, given):
            showing: AbstractContextManager[Any]
            if console.is_terminal:
                showing = report.live(console, log, limit)
            elif as_json:
                showing = contextlib.nullcontext(lambda run: None)
            else:
                showing = report.lines(console)
            with showing as watch:
                learner = learner or given.name
                parameters = {**given.parameters, **assignments(settings or [], learner)}
                task = task or (given.task if file.endswith(".toml") else None)
                run = replay(log, learner, task, parameters, limit, baseline, delay=delay, watch=watch)
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
    if run.interrupted:
        raise typer.Exit(130)


@contextlib.contextmanager
def _log(file: str, target: str | None, start: str | None, end: str | None) -> Iterator[tuple[Any, Learner]]:
    """Open a log, or what the settings in a TOML file read; give the learner of the settings too."""
    if not file.endswith(".toml"):
        refuse_bounds(start, end)
        yield Log(file, required(target)), Learner()
        return
    settings = load(Path(file))
    if target is not None:
        raise ValueError(f"--target: {file} says it, as events.target")
    if settings.source.kind == "file":
        if start is not None or end is not None:
            raise ValueError("--from and --to are for topics, and the source is a log on disk")
        events, task = settings.events, settings.learner.task

        def decoder_of(form: str, columns: list[str] | None, delimiter: str) -> Decoder:
            return events.decoder(task, columns, delimiter)

        yield Log(settings.source.path, events.target, decoder_of, events.format), settings.learner
        return
    from connectors.kafka.topic_range import TopicLog, TopicRange

    decoder = settings.events.decoder(settings.learner.task)
    with connected(), TopicRange(settings.source.topic, settings.kafka, start, end) as records:
        yield TopicLog(records, decoder, settings.events.target), settings.learner
