"""SIGTERM and SIGINT, which ask a command to finish."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

log = logging.getLogger(__name__)


@contextmanager
def signals(stop: threading.Event) -> Iterator[None]:
    """Set ``stop`` on SIGTERM and SIGINT; a second one ends the process at once."""

    def ask(number: int, frame: Any) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        log.info("%s: finishing", signal.Signals(number).name)
        stop.set()

    before: dict[int, Callable[..., Any] | int | None] = {}
    for name in (signal.SIGTERM, signal.SIGINT):
        before[name] = signal.signal(name, ask)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
