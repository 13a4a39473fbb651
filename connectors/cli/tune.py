"""``streamk tune``."""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from connectors.cli.exits import exits, usage
from connectors.files.replayed import ReplayLog
from connectors.learners import DEFAULT, LEARNERS, read_parameter
from connectors.replay import report
from connectors.replay.run import replay
from connectors.replay.specs import settings_of
from connectors.replay.tuning import Halving, grid_of, table_of
from streamk.prequential.results import finite
from streamk.scores import TASKS


def tune_command(
    file: Annotated[str, typer.Argument(help="A log, as of replay.")],
    target: Annotated[str, typer.Option(help="The field to predict.")],
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
    strict: Annotated[bool, typer.Option(help="Stop at the first record that cannot be taken.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare settings over one pass of a log, and print the best as a table for the daemon."""
    console = Console(stderr=as_json)
    with exits(), usage():
        names = grid_of(learner, grid or [])
        log = ReplayLog(file, target, strict=strict)
        showing: Any = nullcontext(lambda run: None)
        if console.is_terminal:
            showing = report.live(console, log, limit)
        with showing as watch:
            halving = Halving(watch)
            run = replay(log, names, task, None, limit, False, delay, strict=strict, watch=halving)
        results = run.results()
        ranked = results.ranking()
        failed = {name: results.error(name) for name in run.names if name not in (*ranked, *halving.dropped)}
        if not ranked:
            raise ValueError("every setting was left out: " + "; ".join(map(" ".join, failed.items())))
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
                        "verdict": results.verdict(), "left": found, "dropped": halving.dropped,
                        "failed": failed,
                    }
                )
            )  # fmt: skip
        else:
            table = Table(title=f"{run.events:,} events", title_justify="left")
            for column in ("settings", results.headline, "over events", "what became of it"):
                table.add_column(column, overflow="fold")
            for name in [*ranked, *halving.dropped]:
                value, events = results.metrics(name)[results.headline], run.contest.standings[name].events
                fate = halving.dropped.get(name, "best" if name == best else "")
                table.add_row(name, f"{value:.4f}", f"{events:,}", fate)
            console.print(table)
            for name, error in failed.items():
                console.print(f"{name} was left out {error}", soft_wrap=True, highlight=False, markup=False)
            console.print(results.verdict(), soft_wrap=True, highlight=False, markup=False)
            if sentence := report.left_out(run, log):
                console.print(sentence, soft_wrap=True, highlight=False, markup=False)
            typer.echo("\n" + table_of(learner, parameters))
        if run.error:
            raise ValueError(run.error)
    if run.interrupted:
        raise typer.Exit(130)
