"""Options by which every command reads a log in the same way."""

from __future__ import annotations

import csv
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, is_dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from connectors.contract.records import Log
from connectors.events.decoding import EventFormat, Misfits
from connectors.events.model_files import Stored, save
from connectors.events.names import numbered
from connectors.events.schema import TYPES, check_type
from connectors.events.values import MISSING, Fields
from connectors.replay.progress import Replay
from streamk.arrays import Json
from streamk.learners.learner import Learner

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
    delimiter: Annotated[
        str | None, typer.Option(help="Separator of values in CSV; detected by default.")
    ] = None
    decimal: Annotated[str | None, typer.Option(help="Decimal mark of CSV, . or ,; detected by default.")] = (
        None
    )
    encoding: Annotated[
        str | None, typer.Option(help="Encoding of text, as shift_jis; detected by default.")
    ] = None
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME,…", help="Names of the columns of CSV whose first line is no header."
        ),
    ] = None
    skip: Annotated[int, typer.Option(min=0, metavar="LINES", help="Lines above the header.")] = 0
    comment: Annotated[
        str | None, typer.Option(metavar="STRING", help="Start of lines that are skipped, as '#'.")
    ] = None

    def format(self, target: str | None) -> EventFormat:
        """Return which field of an event is what.

        Raises
        ------
        ValueError
            If an option is wrong; the sentence names it.
        """
        types = {}
        for text in self.types or ():
            name, equals, kind = text.rpartition("=")
            if not equals or not name:
                raise ValueError(f"--type {text}: write FIELD=TYPE, as --type zip=category")
            try:
                types[name] = check_type(name, kind)
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
            types=types,
            encoding=self.encoding,
            columns=None if self.columns is None else names_in(self.columns),
            skip=self.skip,
            comment=self.comment,
        )


def names_in(text: str) -> list[str]:
    """Return the names of columns in a line of CSV, numbered where several are one."""
    return numbered(next(csv.reader([text], skipinitialspace=True)))[0]


def with_format_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command in which options take the place of a parameter that is a dataclass of them."""
    signature = inspect.signature(command, eval_str=True)
    groups: dict[str, Callable[..., object]] = {
        parameter.name: parameter.annotation
        for parameter in signature.parameters.values()
        if isinstance(parameter.annotation, type) and is_dataclass(parameter.annotation)
    }
    options = {
        name: list(inspect.signature(group, eval_str=True).parameters.values())
        for name, group in groups.items()
    }
    parameters: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        parameters += options.get(parameter.name, [parameter])

    @functools.wraps(command)
    def expanded(**arguments: object) -> None:
        for name, group in groups.items():
            values: Json = {each.name: arguments.pop(each.name, each.default) for each in options[name]}
            arguments[name] = group(**values)
        command(**arguments)

    vars(expanded)["__signature__"] = signature.replace(parameters=parameters)
    expanded.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return expanded


def print_line(console: Console, sentence: str) -> None:
    """Print a sentence as it is, on one line."""
    console.print(sentence, soft_wrap=True, highlight=False, markup=False)


@dataclass(frozen=True)
class Account:
    r"""What became of the rows of a log, and of values that do not fit the types of their fields.

    Attributes
    ----------
    events, skipped, unlabelled
        Rows that were taken; those that were not, as they cannot be decoded or were rejected; and those
        without a target.
    example
        Why the first one was skipped.
    misfits, types
        Values that do not fit, by field, and the types.
    cut
        Whether the reading of a file ended early.

    Examples
    --------
    >>> account = Account(4998, 2, misfits={"b": Misfits(3500, "w0")}, types={"b": "number"})
    >>> print(*account.lines(), sep="\n")
    5,000 rows: 4,998 events, 2 skipped
    3,500 of 5,000 values of b do not fit "number" (the first: 'w0') and are missing
    """

    events: int
    skipped: int
    unlabelled: int = 0
    example: str = ""
    misfits: Mapping[str, Misfits] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False

    @property
    def rows(self) -> int:
        """All of them."""
        return self.events + self.skipped + self.unlabelled

    def lines(self) -> list[str]:
        """Return the sentences that account for every row and value."""
        skipped = self.skipped + self.unlabelled
        return [f"{self.rows:,} rows: {self.events:,} events, {skipped:,} skipped", *self._misfitting()]

    def _misfitting(self) -> list[str]:
        return [
            of_field.sentence(name, self.types.get(name, "its type"), self.rows)
            for name, of_field in self.misfits.items()
        ]

    def fields(self) -> Fields:
        """Return what ``--json`` prints."""
        misfits = {
            name: {"count": of_field.count, "type": self.types.get(name, ""), "example": of_field.example}
            for name, of_field in self.misfits.items()
        }
        return {"rows": self.rows, "skipped": self.skipped + self.unlabelled, "misfits": misfits}

    def check(self, console: Console, allowed: bool) -> None:
        """Warn and exit with 1 if more than 1 % of the rows, or of a field's values, were not taken.

        Parameters
        ----------
        console
            Where to.
        allowed
            Whether any share is accepted.
        """
        rows = self.events + self.skipped
        many = self.cut or self.skipped > _TOLERATED * rows
        missing = any(of_field.count > _TOLERATED * self.rows for of_field in self.misfits.values())
        if allowed or not (many or missing):
            return
        lines = []
        if many:
            share = f"{self.skipped:,} of {rows:,} rows ({self.skipped / max(rows, 1):.1%}) were skipped"
            what = f"{share}, and a file was not read to its end" if self.cut else share
            lines += [f"{what}.", f"The first: {self.example or 'no reason is known'}"]
        if missing:
            lines += [f"{each}." for each in self._misfitting()]
            lines.append(
                "--type FIELD=TYPE sets a type, and --missing STRING names what stands for no value."
            )
        text = "\n".join([*lines, "--allow-skipped accepts that."])
        console.print(Panel(Text(text), title="warning", title_align="left", border_style="yellow"))
        raise typer.Exit(1)


def print_lines(console: Console, sentences: Iterable[str]) -> None:
    """Print sentences as they are, each on one line, without empty ones."""
    for sentence in filter(None, sentences):
        print_line(console, sentence)


def account_of(run: Replay, log: Log) -> Account:
    """Return what became of the rows of a replayed log."""
    example = [*log.examples, *run.examples, ""][0]
    skipped = run.refused + log.unreadable
    events = run.events + run.contest.unscored
    return Account(events, skipped, log.unlabelled, example, log.misfits, log.format.types, log.cut)


def save_model(learner: Learner, path: Path, stored: Stored | None, console: Console) -> None:
    """Save a model and print its size; warn if its errors without new labels are larger."""
    print_line(console, f"saved to {path}: {save(learner, path, stored):,} bytes")
    print_lines(Console(stderr=True), [learner.summary().warning()])
