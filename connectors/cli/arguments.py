"""The arguments that several subcommands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Config = Annotated[Path, typer.Argument(help="The settings, a TOML file; streamk init writes an example.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
FROM = "Offset or time (ISO 8601, UTC) of the first record of a topic."
TO = "Offset or time of the first record that is left out; the end of now by default."
Start = Annotated[str | None, typer.Option("--from", help=FROM)]
End = Annotated[str | None, typer.Option("--to", help=TO)]
