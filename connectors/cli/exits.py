"""How a subcommand works and ends: progress and a sentence on standard error, and an exit code.

Nothing of streamk is imported here, so that the help of a command needs no compiler.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import typer
from rich.console import Console
from rich.progress import Progress

from connectors.contract.errors import AWAY, USAGE, Failure, Interruption
from connectors.events.names import near_file


@contextlib.contextmanager
def exits() -> Iterator[None]:
    """End with the code of a failure, and its sentence."""
    try:
        yield
    except Failure as failure:
        for line in str(failure).splitlines():
            Console(stderr=True).print(f"streamk: {line}", style="red", markup=False, soft_wrap=True)
        raise typer.Exit(failure.code) from None


@contextlib.contextmanager
def working(task: str) -> Iterator[None]:
    """Show on a terminal that a command works; print nothing meanwhile."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        bar.add_task(task, total=None)
        yield


@contextlib.contextmanager
def connected() -> Iterator[None]:
    """Silence the client, and end where the brokers do not answer."""
    from connectors.daemon.logs import log_to_stderr

    log_to_stderr()
    try:
        yield
    except Interruption as error:
        raise Failure(AWAY, str(error)) from None


@contextlib.contextmanager
def usage() -> Iterator[None]:
    """Take what is refused, cannot be read or does not fit for a wrong use of the command."""
    try:
        yield
    except BrokenPipeError:
        raise  # the reader has gone, as `| head` does
    except (ValueError, OSError, MemoryError) as error:
        if isinstance(error, OSError) and error.filename:
            near = near_file(error.filename) if isinstance(error, FileNotFoundError) else ""
            raise Failure(USAGE, f"{error.filename}: {error.strerror}{near}") from None
        raise Failure(USAGE, str(error) or "there is not enough memory") from None
