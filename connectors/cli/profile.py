"""``streamk profile``: what the columns of a log are, and what a learner will see of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from connectors.cli.exits import exits, usage, working
from connectors.cli.reading import FormatOptions, Target, print_line, print_lines, with_format_options
from connectors.events.decoding import EventFormat
from connectors.events.names import listed
from connectors.events.schema import ColumnProfile, inputs_of
from connectors.events.targets import decide_task
from connectors.events.values import Fields
from connectors.files.log import ReplayLog
from connectors.settings.file import save_schema

_STAND_IN = "may stand for no value"  # a warning of its columns says so, too
_WIDE = 100  # columns of a terminal from which examples are shown


@with_format_options
def profile_command(
    files: Annotated[list[str], typer.Argument(help="A log, as of streamk replay.")],
    target: Target = None,
    reading: FormatOptions = FormatOptions(),  # noqa: B008
    save: Annotated[
        Path | None, typer.Option(metavar="SETTINGS", help="Write the types into [schema] of this file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print the type of each column, what a learner will see of it, and what to look at.

    Types are inferred from the first 1,000 records, as all commands infer them.
    """
    console = Console(stderr=as_json)
    with exits(), usage():
        format = reading.format(target)
        log = ReplayLog(files, format.unlabelled())
        with working(f"reading {log.name}"):
            targets = log.look()
        takes = log.format.decoder("json").takes
        rows = [_row(column, log.format, takes(column.name)) for column in log.columns]
        if as_json:
            typer.echo(json.dumps({"log": log.name, "columns": rows, "notes": log.notes}))
        else:
            console.print(_table(rows, console.width >= _WIDE))
            print_lines(console, [*_look_at(rows), *(note for note in log.notes if _STAND_IN not in note)])
            if target is not None and (known := [value for value in targets if value is not None]):
                sentence = decide_task(known, target).sentence
                print_line(console, sentence)
        if save is not None:
            save_schema(save, log.format, log.dialect)
            print_line(console, f"wrote [schema] to {save}")


def _look_at(rows: list[Fields]) -> list[str]:
    """Return a line for each warning, with the columns that have it."""
    names: dict[str, list[str]] = {}
    for row in rows:
        if row["warning"]:
            names.setdefault(row["warning"], []).append(row["column"])
    return ["look at:" * bool(names), *(f"  {listed(which)}: {warning}" for warning, which in names.items())]


def _row(column: ColumnProfile, format: EventFormat, taken: bool) -> Fields:
    kind, name = format.types.get(column.name, column.type), column.name
    sees = inputs_of(kind) if taken else "ignored"
    if name == format.target:
        sees = "target"
    return {
        "column": name, "type": kind or "mixed", "values": column.values, "missing": column.missing,
        "distinct": column.distinct, "examples": list(column.examples), "learner": sees,
        "warning": column.warning,
    }  # fmt: skip


def _table(rows: list[Fields], wide: bool) -> Table:
    table = Table(title="of the first 1,000 records", title_justify="left")
    for name in (
        "column",
        "type",
        "missing",
        "distinct",
        *(["examples"] if wide else []),
        "a learner sees",
    ):
        right = name in ("missing", "distinct")
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    for row in rows:
        every = row["values"] + row["missing"]
        share = f"{row['missing'] / every:.1%}" if row["missing"] and every else "–"
        examples = [", ".join(each[:20] for each in row["examples"])] if wide else []
        cells = [
            row["column"],
            row["type"],
            share,
            f"{row['distinct']:,}",
            *examples,
            row["learner"],
        ]
        table.add_row(*map(Text, cells))
    return table
