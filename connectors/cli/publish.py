"""``streamk publish``: the models of all partitions as one, in a topic and in a file."""

from __future__ import annotations

import json
import logging
import threading
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from connectors.cli.arguments import AsJson, Config, check_place
from connectors.cli.exits import connected, exits, usage, working
from connectors.contract.errors import AWAY, Failure, Interruption
from connectors.daemon.signals import signals
from connectors.publish.following import version_of
from connectors.publish.run import Destination, NoModelYetError, Publication, publish, target_of
from connectors.settings.file import load
from connectors.settings.tables import Settings

log = logging.getLogger(__name__)


def publish_command(
    config: Config,
    to: Annotated[str | None, typer.Option("--to", help="A compacted topic.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A model file.")] = None,
    name: Annotated[
        str | None,
        typer.Option("--name", help="Name of the model in the topic; that of the source by default."),
    ] = None,
    every: Annotated[
        float | None, typer.Option("--every", min=1.0, help="Publish again and again, after so many seconds.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a published model that has learned more.")
    ] = False,
    learns: Annotated[
        bool, typer.Option("--learns", help="Publish a model that can learn on, several times as large.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Publish the newest model of a daemon, or of all partitions together.

    It is the model to deploy where no labels come: it predicts, and does not learn.
    Its version is the offsets up to which it has learned each partition. Nothing is written where this
    version is published already. Daemons may run meanwhile.
    """
    with exits(), connected():
        settings = load(config)
        with usage():
            check_place("-o", output)
        target = target_of(settings, to, name, output, force, learns)
        if every is None:
            with working(f"merging the models of {target.name}"):
                outcome = publish(settings, target)
            show(outcome, target, as_json)
            return
        stop = threading.Event()
        with signals(stop):
            _repeat(settings, target, every, as_json, stop)


def _repeat(
    settings: Settings, target: Destination, every: float, as_json: bool, stop: threading.Event
) -> None:
    """Publish again and again until a signal comes; wait for a first model, and for absent brokers."""
    seen, waits = time.monotonic(), False
    while not stop.is_set():
        started = time.monotonic()
        try:
            outcome = publish(settings, target)
            seen = time.monotonic()
            if outcome.written:
                show(outcome, target, as_json)
        except NoModelYetError as error:
            if not waits:
                waits = True
                log.warning("%s; waiting for it", error)
        except Interruption as error:
            if time.monotonic() - seen > settings.kafka.away_seconds:
                raise Failure(AWAY, f"{error} (kafka.away_seconds)") from None
            log.warning("%s; trying again", error)
        stop.wait(max(0.0, started + every - time.monotonic()))


def show(outcome: Publication, target: Destination, as_json: bool) -> None:
    """Print what was published."""
    model = outcome.model
    if as_json:
        rows = [row._asdict() for row in model.rows]
        version = version_of(model.model, model.about["events"])
        whole = {"name": target.name, "version": version, "bytes": len(model.model), **model.about}
        typer.echo(json.dumps({"snapshots": rows, "model": whole, "written": outcome.written}))
        return
    table = Table()
    for column in ("partition", "learned up to", "events", "bytes"):
        table.add_column(column, justify="left" if column == "partition" else "right")
    for row in model.rows:
        table.add_row(row.partition, *("-" if value is None else f"{value:,}" for value in row[1:]))
    table.add_section()
    table.add_row(target.name, "", f"{model.about['events']:,}", f"{len(model.model):,}")
    console = Console()
    console.print(table)
    if outcome.missing:
        names = ", ".join(row.partition for row in outcome.missing)
        console.print(f"no snapshot yet: {names}", highlight=False, soft_wrap=True)
    version = version_of(model.model, model.about["events"])
    done = f"published to {' and '.join(outcome.written)}" if outcome.written else "published already,"
    console.print(f"{done} as version {version}", highlight=False, soft_wrap=True)
