"""``streamk tune``."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from connectors.cli.exits import connected, exits, usage
from connectors.cli.reading import (
    AllowSkipped,
    FormatOptions,
    Strict,
    account_of,
    print_line,
    with_format_options,
)
from connectors.events.learners import LEARNERS, learner_classes, read_parameter
from connectors.events.names import DEFAULT, SEED, TASKS, seed_line
from connectors.replay import report
from connectors.replay.logs import Reading, opened
from connectors.replay.page.words import decimal
from connectors.replay.progress import Replay
from connectors.replay.run import replay_log
from connectors.replay.specs import settings_of
from connectors.replay.tuning import Dropped, Halving, grid_of, table_of
from streamk.evaluation.metric import METRICS
from streamk.evaluation.results import Results, finite


@with_format_options
def tune_command(
    files: Annotated[
        list[str],
        typer.Argument(help="Logs, as of replay: names in order, patterns in quotes, a topic, or a .toml."),
    ],
    target: Annotated[
        str | None, typer.Option(help="The field to predict; a .toml has it as events.target.")
    ] = None,
    learner: Annotated[
        str | None, typer.Option(help=f"{', '.join(LEARNERS)}; {DEFAULT}, or that of the .toml, by default.")
    ] = None,
    grid: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE|VALUE",
            help="Values of a parameter to compare; repeat for more. The learner's own grid by default.",
        ),
    ] = None,
    task: Annotated[
        str | None, typer.Option(help=f"{' or '.join(TASKS)}; inferred from the first events by default.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Stop after so many events.")] = None,
    delay: Annotated[int, typer.Option(min=0, metavar="EVENTS", help="How late labels arrive.")] = 0,
    reading: FormatOptions = FormatOptions(),  # noqa: B008
    strict: Strict = False,
    allow_skipped: AllowSkipped = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare settings over one pass of a log, and print the best as a table for the daemon.

    Settings that are clearly behind are dropped on the way. The ranking is among those that were scored on
    all events; each of the others is compared with the best on the events that both were scored on.
    """
    console = Console(stderr=as_json)
    errors = Console(stderr=True)
    with exits(), usage(), connected(), contextlib.ExitStack() as stack:
        format = reading.format(target)
        log, configured = stack.enter_context(opened(files, Reading(format, strict=strict)))
        learner = learner or configured.name
        learner_classes(learner, "--learner")
        names = grid_of(learner, grid or [], configured.parameters if learner == configured.name else {})
        of_settings = configured.task if files[0].endswith(".toml") else None
        showing: AbstractContextManager[report.Watch] = nullcontext(lambda run: None)
        if console.is_terminal:
            showing = report.live(console, log, limit)
        with showing as watch:
            halving = Halving(watch)
            run = replay_log(
                log, names, task or of_settings, None, limit, False, delay, strict=strict, watch=halving,
                announce=lambda text: print_line(errors, text),
            )  # fmt: skip
        results = run.results()
        ranked = results.ranking()
        failed = {name: results.error(name) for name in run.names if name not in (*ranked, *halving.dropped)}
        if not ranked:
            raise ValueError("every setting failed: " + "; ".join(map(" ".join, failed.items())))
        _, chosen = settings_of(ranked[0])
        parameters = {key: read_parameter(value) for key, value in chosen.items()}
        account = account_of(run, log)
        if as_json:
            best = {"learner": learner, "parameters": parameters, "seed": parameters.get("seed", SEED)}
            typer.echo(json.dumps({**best, **_fields(results, halving.dropped, failed), **account.fields()}))
        else:
            console.print(seed_line(parameters.get("seed", SEED), "--grid seed=N"), highlight=False)
            _print(run, halving.dropped, failed, console)
            for sentence in filter(None, [report.left_out(run, log), *account.lines()]):
                print_line(console, sentence)
            typer.echo("\n" + table_of(learner, parameters))
        if run.error:
            raise ValueError(run.error)
    if run.interrupted:
        raise typer.Exit(130)
    account.check(errors, allow_skipped)


def _fields(results: Results, dropped: Mapping[str, Dropped], failed: Mapping[str, str]) -> dict[str, object]:
    """Return what ``--json`` prints of the settings."""
    ranking = [
        {
            "settings": name,
            "events": results.events,
            "metrics": {key: finite(value) for key, value in results.metrics(name).items()},
        }
        for name in results.ranking()
    ]
    return {
        "events": results.events,
        "headline": results.headline,
        "verdict": results.verdict(),
        "ranking": ranking,
        "dropped": [
            {
                "settings": name,
                "events_in_common": each.events,
                results.headline: finite(each.value),
                "best": {"settings": each.best, results.headline: finite(each.best_value)},
                "reason": each.reason,
            }
            for name, each in dropped.items()
        ],
        "failed": dict(failed),
    }


def _print(run: Replay, dropped: Mapping[str, Dropped], failed: Mapping[str, str], console: Console) -> None:
    results = run.results()
    metric = METRICS[results.headline].title
    table = Table(title="Ranking: settings scored on all events", title_justify="left")
    table.add_column("settings", overflow="fold")
    table.add_column(f"{metric} over all {run.events:,} events", justify="right")
    for name in results.ranking():
        table.add_row(name, decimal(results.metrics_of(name, results.headline)))
    console.print(table)
    if dropped:
        table = Table(title="Dropped on the way: compared on the events in common", title_justify="left")
        table.add_column("settings", overflow="fold")
        table.add_column("events in common", justify="right")
        table.add_column(metric, justify="right")
        table.add_column(f"{metric} of the best", justify="right")
        table.add_column("reason")
        for name, each in dropped.items():
            table.add_row(
                name, f"{each.events:,}", decimal(each.value), decimal(each.best_value), each.reason
            )
        console.print(table)
        for events, best in dict.fromkeys((each.events, each.best) for each in dropped.values()):
            console.print(f"the best on the first {events:,} events: {best}", soft_wrap=True, highlight=False)
    for name, error in failed.items():
        print_line(console, f"{name} failed {error}")
    print_line(console, results.verdict())
