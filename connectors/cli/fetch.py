"""``streamk fetch``: the newest published model, into a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from connectors.cli.arguments import AsJson, check_place
from connectors.cli.exits import connected, exits, usage, working


def fetch_command(
    topic: Annotated[str, typer.Argument(help="Where streamk publish writes.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The model file to write.")],
    servers: Annotated[
        str | None, typer.Option("--servers", help="Brokers to ask first, host:port, with commas.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--settings", help="A TOML file, whose table [kafka] counts.")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="Of the model, where the topic has several.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Get the newest published model that is whole. STREAMK_KAFKA__… variables count here too."""
    with exits(), connected():
        from connectors.publish.fetching import fetch
        from connectors.settings.file import load_kafka
        from streamk import model_file

        with usage():
            check_place("-o", output)
        kafka = load_kafka(config, servers)
        with working(f"fetching from {topic}"):
            published = fetch(topic, kafka, name)
        size = model_file.write(
            output, *model_file.unpack(published.model, f"the published model {published.name}")
        )
        if as_json:
            typer.echo(json.dumps({"name": published.name, "bytes": size, **published.about}))
            return
        places = ", ".join(f"{key} {place.position:,}" for key, place in published.version.items())
        Console().print(
            f"wrote {published.name} to {output}: {published.about['events']:,} events, up to {places}",
            highlight=False, soft_wrap=True,
        )  # fmt: skip
