"""``streamk init``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from connectors.cli.exits import exits
from connectors.stream import USAGE, Failure


def init_command(
    path: Annotated[Path, typer.Argument(help="The file to write.")] = Path("streamk.toml"),
) -> None:
    """Write an example of the settings, with a comment for each."""
    with exits():
        from connectors.settings_file import example

        try:
            with path.open("x") as file:
                file.write(example())
        except FileExistsError:
            raise Failure(USAGE, f"{path} is there already; name another file") from None
        except OSError as error:
            raise Failure(USAGE, f"{path}: {error.strerror}") from None
        typer.echo(f"wrote {path}; now: streamk check {path}")
