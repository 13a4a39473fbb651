"""``streamk predict``: score the records of a log with a saved model, which learns nothing."""

from __future__ import annotations

import contextlib
import csv
import json
import sys
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Annotated, TextIO

import typer
from rich.console import Console
from rich.progress import Progress

from connectors.cli.arguments import check_place
from connectors.cli.exits import exits, usage
from connectors.cli.reading import (
    Account,
    AllowSkipped,
    FormatOptions,
    Strict,
    Target,
    print_line,
    with_format_options,
)
from connectors.events.model_files import LearnedFields, load, with_stored
from connectors.events.values import Fields
from connectors.files.log import ReplayLog
from connectors.replay.page import words
from connectors.replay.scoring_log import LogScorer


@with_format_options
def predict_command(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    files: Annotated[list[str], typer.Argument(help="A log, as of streamk replay; it needs no target.")],
    target: Target = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="File of predictions: .csv, else JSON lines; printed by default."
        ),
    ] = None,
    reading: FormatOptions = FormatOptions(),  # noqa: B008
    strict: Strict = False,
    allow_skipped: AllowSkipped = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the metrics as JSON; predictions then need --output.")
    ] = False,
) -> None:
    """Predict every record of a log with a saved model, and score those that have a target.

    Fields are read by the types with which the model was trained. The model is frozen: it predicts as
    where no new labels come.
    """
    console = Console(stderr=True)
    with exits(), usage():
        check_place("--output", output)
        if as_json and output is None:
            raise ValueError("--json: name a file for the predictions with --output")
        loaded = load(model)
        format = with_stored(reading.format(target), loaded.stored)
        log = ReplayLog(files, format.unlabelled(), strict=strict)
        log.learned = LearnedFields.of([loaded], format.target)
        scorer, noted = LogScorer(loaded.learner, log), 0
        predictions = scorer.rows()
        first = next(predictions, [])  # a log that cannot be predicted leaves the output as it is
        with _writing(output, scorer) as write, Progress(console=console, transient=True) as bar:
            job = bar.add_task(log.name, total=log.size or None)
            for rows in chain([first], predictions):
                for sentence in log.notes[noted:]:
                    print_line(console, sentence)
                noted = len(log.notes)
                write(rows)
                bar.update(job, completed=log.done)
        metrics = scorer.metrics()
        example = [*log.examples, *scorer.examples, ""][0]
        skipped, types = log.broken.count + scorer.refused, log.format.types
        account = Account(scorer.predicted, skipped, 0, example, log.misfits, types, log.broken.cut)
        if as_json:
            counts = {"predicted": scorer.predicted, "scored": scorer.scored, "metrics": metrics}
            typer.echo(json.dumps({**counts, **account.fields()}))
        else:
            console.print(f"predicted {scorer.predicted:,} records", highlight=False)
            if metrics:
                known = {name: value for name, value in metrics.items() if value is not None}
                shown = ", ".join(f"{name} {words.decimal(value)}" for name, value in known.items())
                console.print(
                    f"scored {scorer.scored:,} with a target: {shown}", soft_wrap=True, highlight=False
                )
            for sentence in filter(None, [log.left_out(), *scorer.refusals(), *account.lines()]):
                print_line(console, sentence)
        account.check(console, allow_skipped)


@contextlib.contextmanager
def _writing(path: Path | None, scorer: LogScorer) -> Iterator[Callable[[list[Fields]], None]]:
    """Yield what writes rows as they come."""
    if path is None:
        yield lambda rows: _json_lines(sys.stdout, rows)
        return
    with path.open("w", newline="", encoding="utf-8") as file:
        if path.suffix != ".csv":
            yield lambda rows: _json_lines(file, rows)
            return
        writer = csv.writer(file)
        writer.writerow(scorer.header)

        def write(rows: list[Fields]) -> None:
            for row in rows:
                writer.writerow([row.get(name) for name in scorer.header])

        yield write


def _json_lines(file: TextIO, rows: list[Fields]) -> None:
    file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
