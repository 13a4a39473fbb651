"""``streamk init``."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated

import typer

from connectors.cli.exits import exits, usage
from connectors.contract.errors import USAGE, Failure


def init_command(
    path: Annotated[Path, typer.Argument(help="The file to write.")] = Path("streamk.toml"),
    log: Annotated[
        str | None,
        typer.Option("--from", metavar="LOG", help="Take target, task and column types from a log."),
    ] = None,
    target: Annotated[str | None, typer.Option(help="The field to predict.")] = None,
) -> None:
    """Write an example of the settings, with a comment for each."""
    with exits(), usage():
        from connectors.settings.file import example

        text = example() if log is None else _of_log(log, target, example())
        try:
            with path.open("x") as file:
                file.write(text)
        except FileExistsError:
            raise Failure(USAGE, f"{path} is there already; name another file") from None
        typer.echo(f"wrote {path}; now: streamk check {path}")


def _of_log(name: str, target: str | None, text: str) -> str:
    """Return the example with what a log says of its events."""
    from connectors.cli.reading import FormatOptions
    from connectors.events.targets import decide_task
    from connectors.files.log import ReplayLog
    from connectors.settings.file import schema_table, with_schema

    if target is None:
        raise ValueError("--target: name the field to predict")
    log = ReplayLog(name, FormatOptions().format(target))
    decision = decide_task(log.look(), target)
    typer.echo(decision.sentence, err=True)
    text = text.replace('target = "label"', f"target = {json.dumps(target)}", 1)
    text = text.replace(
        "streamk-events-label", f"streamk-events-{re.sub(r'[^A-Za-z0-9._-]', '-', target)}", 1
    )
    text = text.replace('# task = "classification"', f'task = "{decision.task}"', 1)
    # the events of a topic are JSON unless its columns are named, so the types alone are of use there
    return with_schema(text, schema_table(log.format, log.dialect))
