"""``streamk run``."""

from __future__ import annotations

import logging
from typing import Annotated

import typer

from connectors.cli.arguments import Config
from connectors.cli.exits import exits
from connectors.contract.errors import EXIT_CODES, Failure
from connectors.daemon.logs import load_and_log
from connectors.daemon.run import LiveSettings, run
from connectors.events.names import SEED, seed_line
from connectors.settings.file import load
from connectors.settings.tables import Settings

log = logging.getLogger(__name__)


def run_command(
    config: Config,
    blank: Annotated[
        bool,
        typer.Option(
            "--blank", help="Let a model without events continue where others of the group stopped."
        ),
    ] = False,
) -> None:
    """Learn from a topic or a log, each event once, until a signal stops it.

    SIGTERM and Ctrl-C end it after a checkpoint; started again, it continues from there. SIGHUP reads the
    settings again, and SIGUSR1 writes a checkpoint.
    """
    with exits():
        live = LiveSettings(_chosen(load_and_log(config), blank), lambda: _chosen(load(config), blank))
        parameters = live.current.learner.parameters
        log.info(seed_line(parameters.get("seed", SEED), "learner.parameters.seed"))
        try:
            run(live)
        except Failure as failure:
            if live.current.log.form == "text":
                raise
            log.error(str(failure), extra={"fields": {"exit_code": failure.code}})
            raise typer.Exit(failure.code) from None


def _chosen(settings: Settings, blank: bool) -> Settings:
    """Return settings with the option of the command line."""
    if not blank:
        return settings
    return settings.model_copy(update={"source": settings.source.with_blank()})


run_command.__doc__ = f"{run_command.__doc__}\n    Exit codes:\n\n" + "".join(
    f"    {code}: {meaning}.\n\n" for code, meaning in EXIT_CODES.items()
)
