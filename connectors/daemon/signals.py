"""Signals: requests to a command to finish, and to the daemon also to reload and to checkpoint."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

log = logging.getLogger(__name__)
Handler = Callable[[int, FrameType | None], None]


class Requests:
    """Requests of signals to the daemon, until they are done.

    Attributes
    ----------
    stop
        To finish: SIGTERM, SIGINT, SIGQUIT.
    reload
        To read the settings again: SIGHUP.
    checkpoint
        To write a checkpoint: SIGUSR1.
    """

    def __init__(self) -> None:
        self.stop = threading.Event()
        # no events: a handler that waits for the lock of an event in use would never return
        self.reload = self.checkpoint = False


@contextmanager
def signals(stop: threading.Event) -> Iterator[None]:
    """Set ``stop`` on SIGTERM and SIGINT; a second one ends the process at once."""
    with _handled(dict.fromkeys((signal.SIGTERM, signal.SIGINT), _finish(stop))):
        yield


@contextmanager
def daemon_signals(requests: Requests) -> Iterator[None]:
    """Record the requests of signals; only a second one to finish ends the process at once."""
    handlers: dict[int, Handler] = {
        signal.SIGHUP: lambda number, frame: setattr(requests, "reload", True),
        signal.SIGUSR1: lambda number, frame: setattr(requests, "checkpoint", True),
        signal.SIGUSR2: _ignore,
    }
    finish = _finish(requests.stop)
    with _handled({**handlers, **dict.fromkeys((signal.SIGQUIT, signal.SIGTERM, signal.SIGINT), finish)}):
        yield


def _finish(stop: threading.Event) -> Handler:
    def ask(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        log.info("%s: finishing", signal.Signals(number).name)
        stop.set()

    return ask


def _ignore(number: int, frame: FrameType | None) -> None:
    log.warning(
        "%s is ignored; SIGUSR1 writes a checkpoint, and SIGHUP reads the settings again",
        signal.Signals(number).name,
    )


@contextmanager
def _handled(handlers: Mapping[int, Handler]) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
