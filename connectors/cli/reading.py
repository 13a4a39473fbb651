"""Options by which every command reads a log in the same way."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
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
Strict = Annotated[bool, typer.Option(help="Stop at the first record that is refused.")]
AllowSkipped = Annotated[
    bool, typer.Option("--allow-skipped", help="Exit with 0 also if more than 1 % of the rows are skipped.")
]
Names = list[str] | None


@dataclass(frozen=True)
class FormatOptions:
    """Which fields of a log are inputs, and how its values are read."""

    ignore: Annotated[
        Names, typer.Option(metavar="FIELD", help="A field that is no input; repeat for more.")
    ] = None
    only: Annotated[
        Names,
        typer.Option(metavar="FIELD", help="The only input; repeat for more. All fields by default."),
    ] = None
    types: Annotated[
        Names,
        typer.Option(
            "--type",
            metavar="FIELD=TYPE",
            help=f"{', '.join(TYPES)}; inferred from the first records by default (streamk profile).",
        ),
    ] = None
    missing: Annotated[
        Names,
        typer.Option(
            metavar="STRING",
            help="A string of CSV that is no value, instead of the usual ones; repeat for more.",
        ),
    ] = None
    delimiter: Annotated[str | None, typer.Option(help="Between the values of CSV; detected by default.")] = (
        None
    )
    decimal: Annotated[
        str | None, typer.Option(help="Before fractions in CSV, . or ,; detected by default.")
    ] = None

    def format(self, target: str | None) -> EventFormat:
        """Return which field of an event is what.

        Raises
        ------
        ValueError
            If an option is wrong; the sentence names it.
        """
        found = {}
        for text in self.types or ():
            name, equals, kind = text.rpartition("=")
            if not equals or not name:
                raise ValueError(f"--type {text}: write FIELD=TYPE, as --type zip=category")
            try:
                found[name] = check_type(name, kind)
            except ValueError as error:
                raise ValueError(f"--type {text}: {error}") from None
        if target is not None and target in (self.ignore or ()):
            raise ValueError(f"--ignore {target}: this is the target")
        return EventFormat(
            target,
            features=list(self.only) if self.only else None,
            ignore=tuple(self.ignore or ()),
            delimiter="\t" if self.delimiter in ("tab", "\\t") else self.delimiter,
            decimal=self.decimal,
            missing=MISSING if self.missing is None else tuple(self.missing),
            types=found,
        )


def with_format_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command whose parameter ``reading`` is replaced by the options of :class:`FormatOptions`."""
    own = list(inspect.signature(FormatOptions, eval_str=True).parameters.values())
    signature = inspect.signature(command, eval_str=True)
    parameters: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        parameters += own if parameter.name == "reading" else [parameter]

    @functools.wraps(command)
    def expanded(**arguments: object) -> None:
        options = {option.name: arguments.pop(option.name, option.default) for option in own}
        command(reading=FormatOptions(**options), **arguments)  # type: ignore[arg-type]

    expanded.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    expanded.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return expanded


def print_line(console: Console, sentence: str) -> None:
    """Print a sentence as it is, on one line."""
    console.print(sentence, soft_wrap=True, highlight=False, markup=False)


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
        Whether any share is accepted.
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
