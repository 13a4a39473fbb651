"""``streamk tune``."""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from connectors.cli.arguments import required
from connectors.cli.exits import exits, usage
from connectors.cli.reading import (
    AllowSkipped,
    Decimal,
    Delimiter,
    Ignore,
    Missing,
    Only,
    Strict,
    Target,
    Types,
    check_skipped,
    format_of,
)
from connectors.files.replayed import ReplayLog
from connectors.learners import DEFAULT, LEARNERS, read_parameter
from connectors.replay import report
from connectors.replay.page.words import metric_name
from connectors.replay.run import replay
from connectors.replay.specs import settings_of
from connectors.replay.tuning import Halving, grid_of, table_of
from streamk.prequential.results import finite
from streamk.scores import TASKS


def tune_command(
    files: Annotated[list[str], typer.Argument(help="A log, as of streamk replay.")],
    target: Target = None,
    learner: Annotated[str, typer.Option(help=", ".join(LEARNERS))] = DEFAULT,
    grid: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE|VALUE", help="Values to try; repeat for more. The learner's own by default."
        ),
    ] = None,
    task: Annotated[
        str | None, typer.Option(help=f"{' or '.join(TASKS)}; told from the first records by default.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Stop after so many events.")] = None,
    delay: Annotated[int, typer.Option(min=0, metavar="EVENTS", help="How late labels arrive.")] = 0,
    ignore: Ignore = None,
    only: Only = None,
    types: Types = None,
    missing: Missing = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    strict: Strict = False,
    allow_skipped: AllowSkipped = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare settings over one pass of a log, and print the best as a table for the daemon.

    Only settings that saw all events are ranked; those dropped on the way are compared with the best of then.

    Example: streamk tune sales.csv --target price --learner kaczmarz
    """
    console = Console(stderr=as_json)
    with exits(), usage():
        names = grid_of(learner, grid or [])
        format = format_of(required(target), ignore, only, types, missing, delimiter, decimal)
        log = ReplayLog(files, format, strict=strict)
        errors = Console(stderr=True)
        showing: Any = nullcontext(lambda run: None)
        if console.is_terminal:
            showing = report.live(console, log, limit)
        with showing as watch:
            halving = Halving(watch)
            run = replay(
                log, names, task, None, limit, False, delay, strict=strict, watch=halving,
                announce=lambda text: errors.print(text, soft_wrap=True, highlight=False, markup=False),
            )  # fmt: skip
        results = run.results()
        ranked = results.ranking()
        failed = {name: results.error(name) for name in run.names if name not in (*ranked, *halving.dropped)}
        if not ranked:
            raise ValueError("every setting failed: " + "; ".join(map(" ".join, failed.items())))
        best = ranked[0]
        _, chosen = settings_of(best)
        parameters = {key: read_parameter(value) for key, value in chosen.items()}
        if as_json:
            found = {
                name: {key: finite(value) for key, value in results.metrics(name).items()} for name in ranked
            }
            typer.echo(
                json.dumps(
                    {
                        "learner": learner, "parameters": parameters, "events": run.events,
                        "verdict": results.verdict(), "left": found,
                        "dropped": {name: each._asdict() for name, each in halving.dropped.items()},
                        "failed": failed,
                    }
                )
            )  # fmt: skip
        else:
            metric = metric_name(results.headline)
            table = Table(title=f"settings that saw all {run.events:,} events", title_justify="left")
            for column in ("settings", metric):
                table.add_column(column, overflow="fold")
            for name in ranked:
                table.add_row(name, f"{results.metrics(name)[results.headline]:,.4f}")
            console.print(table)
            if halving.dropped:
                console.print(_dropped(halving, metric))
            for name, error in failed.items():
                console.print(f"{name} failed {error}", soft_wrap=True, highlight=False, markup=False)
            console.print(results.verdict(), soft_wrap=True, highlight=False, markup=False)
            if sentence := report.left_out(run, log):
                console.print(sentence, soft_wrap=True, highlight=False, markup=False)
            typer.echo("\n" + table_of(learner, parameters))
        if run.error:
            raise ValueError(run.error)
    if run.interrupted:
        raise typer.Exit(130)
    skipped = run.refused + log.unreadable
    check_skipped(
        errors, skipped, run.events + skipped, [*log.examples, *run.examples, ""][0], allow_skipped, log.cut
    )


def _dropped(halving: Halving, metric: str) -> Table:
    """Return what was dropped, with its metric and that of the best on the same events."""
    table = Table(title="dropped on the way, compared on the events until then", title_justify="left")
    for column in ("settings", "events", metric, f"{metric} of the best", "why"):
        table.add_column(column, overflow="fold")
    for name, each in halving.dropped.items():
        table.add_row(name, f"{each.events:,}", f"{each.metric:,.4f}", f"{each.best_metric:,.4f}", each.why)
    return table
