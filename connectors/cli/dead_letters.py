"""``streamk dead-letters``: ``show`` and ``retry``."""

from __future__ import annotations

import json
from collections import Counter, deque
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from connectors.cli.arguments import AsJson, Config
from connectors.cli.exits import connected, exits
from connectors.contract.errors import USAGE, Failure
from connectors.contract.records import OTHER, SENT, TOO_LARGE, TRUNCATED, DeadLetter
from connectors.contract.sections import SinkSection
from connectors.settings.connector import connector_of
from connectors.settings.file import load
from connectors.settings.tables import Settings

_FIRST = 60  # characters of a value
_REASONS = 20  # in the table; --json has all of them

dead_letters = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    add_completion=False,
    help="Look at dead letters, and send them back to the source.",
)


def _section(settings: Settings) -> SinkSection:
    if settings.dead_letters is None:
        raise Failure(USAGE, "dead_letters: the settings have no [dead_letters]; name a topic or a file")
    return settings.dead_letters


@dead_letters.command("show", epilog="For example: streamk dead-letters show streamk.toml --limit 5")
def show_command(
    config: Config,
    limit: Annotated[
        int, typer.Option("--limit", min=0, help="List the newest so many; all of them are counted.")
    ] = 20,
    as_json: AsJson = False,
) -> None:
    """Count dead letters by reason, and list the newest; --json prints one object a line."""
    with exits(), connected():
        reasons: Counter[str] = Counter()
        truncated = 0
        newest: deque[DeadLetter] = deque(maxlen=limit)
        settings = load(config)
        section = _section(settings)
        for letter in connector_of(section.kind).dead_letters(section, settings):
            reasons[letter.reason] += 1
            truncated += letter.truncated
            newest.append(letter)
        if as_json:
            total = reasons.total()
            counted = dict(reasons.most_common())
            typer.echo(json.dumps({"dead_letters": total, "truncated": truncated, "reasons": counted}))
            for letter in newest:
                row = letter._asdict() | {"key": _key(letter), "value": _first(letter)}
                typer.echo(json.dumps(row))
            return
        _print(reasons, truncated, newest)


def _print(reasons: Counter[str], truncated: int, newest: deque[DeadLetter]) -> None:
    console = Console()
    summary = Table()
    summary.add_column("dead letters", justify="right")
    summary.add_column("reason", overflow="fold")
    shown = reasons.most_common(_REASONS)
    for reason, count in shown:
        summary.add_row(f"{count:,}", _plain(reason))
    if others := reasons.total() - sum(count for _, count in shown):
        summary.add_row(f"{others:,}", f"{len(reasons) - len(shown):,} other reasons")
    summary.add_section()
    summary.add_row(f"{reasons.total():,}", f"in all, {truncated:,} of them truncated")
    console.print(summary)
    table = Table()
    for column in ("partition", "offset", "reason", "key", "bytes", "value"):
        table.add_column(
            column, justify="right" if column in ("offset", "bytes") else "left", overflow="fold"
        )
    for letter in newest:
        size = f"{letter.size:,}{' (truncated)' if letter.truncated else ''}"
        cells = letter.reason, _key(letter) or "", size, _first(letter)
        table.add_row(_plain(letter.partition), f"{letter.offset:,}", *map(_plain, cells))
    if newest:
        console.print(table)


def _key(letter: DeadLetter) -> str | None:
    return None if letter.key is None else letter.key.decode(errors="replace")


def _first(letter: DeadLetter) -> str:
    return letter.value[: 4 * _FIRST].decode(errors="replace")[:_FIRST]


def _plain(text: str) -> Text:
    """Return a text as it is, without what a terminal or rich would act on."""
    return Text("".join(c if c.isprintable() else "\ufffd" for c in text))


@dead_letters.command("retry", epilog="For example: streamk dead-letters retry streamk.toml --dry-run")
def retry_command(
    config: Config,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count them, and send nothing.")] = False,
) -> None:
    """Send dead letters back to the source topic, each once, also if this is interrupted and run again.

    Sent are those that are whole, with their key, value and headers, and with the place of their first
    failure in the header streamk-retried. The daemon may run meanwhile.
    """
    with exits(), connected():
        settings = load(config)
        section, topic = _section(settings), settings.source.place
        done = connector_of(settings.source.kind).retry(section, settings, dry_run)
        if not done.resumed:
            typer.echo(
                f"the group {done.group} has no position in {section.place}: from the oldest dead letter on"
            )
        sent, counts = done.counts[SENT], done.counts
        typer.echo(f"{'would send' if dry_run else 'sent'} {sent:,} dead letters to {topic}")
        for what, why in (
            (TRUNCATED, "truncated"),
            (TOO_LARGE, f"too large for {topic}"),
            (OTHER, f"not of {topic}"),
        ):
            if counts[what] or what == TRUNCATED:
                typer.echo(f"skipped {counts[what]:,} dead letters: {why}")
