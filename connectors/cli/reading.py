"""The options by which every command reads a log in the same way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from connectors.decoding import EventFormat
from connectors.schema import TYPES, check_type
from connectors.values import MISSING

_TOLERATED = 0.01  # share of rows

Target = Annotated[str | None, typer.Option(help="The field to predict.")]
Ignore = Annotated[
    list[str] | None, typer.Option(metavar="FIELD", help="A field that is no input; repeat for more.")
]
Only = Annotated[
    list[str] | None,
    typer.Option(metavar="FIELD", help="The only input; repeat for more. All fields by default."),
]
Types = Annotated[
    list[str] | None,
    typer.Option(
        "--type",
        metavar="FIELD=TYPE",
        help=f"{', '.join(TYPES)}; inferred from the first records by default (streamk profile).",
    ),
]
Missing = Annotated[
    list[str] | None,
    typer.Option(
        metavar="STRING", help="A string of CSV that is no value, instead of the usual ones; repeat for more."
    ),
]
Delimiter = Annotated[str | None, typer.Option(help="Between the values of CSV; detected by default.")]
Decimal = Annotated[str | None, typer.Option(help="Before fractions in CSV, . or ,; detected by default.")]
Strict = Annotated[bool, typer.Option(help="Stop at the first record that cannot be taken.")]
AllowSkipped = Annotated[
    bool, typer.Option("--allow-skipped", help="Exit with 0 also if more than 1 % of the rows are skipped.")
]


def format_of(
    target: str | None,
    ignore: Sequence[str] | None = None,
    only: Sequence[str] | None = None,
    types: Sequence[str] | None = None,
    missing: Sequence[str] | None = None,
    delimiter: str | None = None,
    decimal: str | None = None,
) -> EventFormat:
    """Return which field of an event is what, by the options of a command.

    Raises
    ------
    ValueError
        If an option is wrong; the sentence names it.
    """
    found = {}
    for text in types or ():
        name, equals, kind = text.rpartition("=")
        if not equals or not name:
            raise ValueError(f"--type {text}: write FIELD=TYPE, as --type zip=category")
        try:
            found[name] = check_type(name, kind)
        except ValueError as error:
            raise ValueError(f"--type {text}: {error}") from None
    if target is not None and target in (ignore or ()):
        raise ValueError(f"--ignore {target}: this is the target")
    delimiter = "\t" if delimiter in ("tab", "\\t") else delimiter
    return EventFormat(
        target,
        features=list(only) if only else None,
        ignore=tuple(ignore or ()),
        delimiter=delimiter,
        decimal=decimal,
        missing=tuple(missing) if missing is not None else MISSING,
        types=found,
    )


def check_skipped(
    console: Console, skipped: int, rows: int, example: str, allowed: bool, cut: bool = False
) -> None:
    """Print a warning and exit with 1 if more than 1 % of the rows were skipped, or a file was cut short.

    Parameters
    ----------
    skipped, rows
        How many rows were skipped, and how many there were.
    example
        Why the first of them was skipped.
    allowed
        Whether that is as it should be.
    cut
        Whether the reading of a file ended early.
    """
    if allowed or not (cut or skipped > _TOLERATED * rows):
        return
    share = f"{skipped:,} of {rows:,} rows ({skipped / max(rows, 1):.1%}) were skipped"
    what = f"{share}, and a file was not read to its end" if cut else share
    text = f"{what}.\nThe first: {example or 'no reason is known'}\n--allow-skipped accepts that."
    console.print(Panel(Text(text), title="warning", title_align="left", border_style="yellow"))
    raise typer.Exit(1)
