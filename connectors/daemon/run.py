"""The daemon: session after session, until the log ends, a signal comes, or something fails for good."""

from __future__ import annotations

import gc
import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from connectors.daemon.checkpoint import Store
from connectors.daemon.session import Session
from connectors.daemon.telemetry import Telemetry
from connectors.files.sink import FileSink
from connectors.files.source import FileSource
from connectors.settings import Settings
from connectors.stream import AWAY, Failure, Interruption, Sink, Source

log = logging.getLogger(__name__)
_REPEAT = 60.0  # seconds after which the log says again what has not changed
_LONGEST_PAUSE = 5.0  # seconds between two attempts to begin again


def run(settings: Settings) -> None:
    """Run until the source ends or SIGTERM or SIGINT comes.

    Raises
    ------
    Failure
        If it cannot go on.
    """
    telemetry = Telemetry(settings.learner.task, settings.telemetry.window, settings.telemetry.stall_seconds)
    stop = threading.Event()
    store = Store(settings.checkpoints.directory, settings.checkpoints.keep)
    with _signals(stop), store.locked(), _served(telemetry, settings):
        _sessions(settings, store, telemetry, stop)
    log.info("stopped")


def _sessions(settings: Settings, store: Store, telemetry: Telemetry, stop: threading.Event) -> None:
    away_since: float | None = None
    pause, said, said_at = 0.1, "", 0.0
    while not stop.is_set():
        begun = time.monotonic()
        try:
            _session(settings, store, telemetry, stop)
            return
        except Interruption as error:
            now = time.monotonic()
            if away_since is None or telemetry.ready:
                away_since = now
            pause = 0.1 if now - begun > _LONGEST_PAUSE else min(2 * pause, _LONGEST_PAUSE)
            telemetry.restarted()
            if now - away_since > settings.kafka.away_seconds:
                raise Failure(
                    AWAY, f"{error}; it has been so for {now - away_since:.0f} seconds (kafka.away_seconds)"
                ) from None
            if str(error) != said or now - said_at > _REPEAT:
                said, said_at = str(error), now
                log.warning("%s; restarting the session from the checkpoint", error)
            deadline = time.monotonic() + pause
            while not stop.is_set() and time.monotonic() < deadline:
                telemetry.beat()
                stop.wait(0.1)
    log.warning("stopped while interrupted: the next run goes on from the last checkpoint")


def _session(settings: Settings, store: Store, telemetry: Telemetry, stop: threading.Event) -> None:
    """Run one session to its end."""
    with open_ends(settings, store) as (source, sinks):
        session = Session(settings, store, source, sinks, telemetry)
        settled = False
        while not stop.is_set() and not session.step():
            if not settled and session.learner.events:
                settle()
                settled = True
        session.finish()


def settle() -> None:
    """Leave what is loaded by now out of garbage collections, which would go through it over and over."""
    gc.collect()
    gc.freeze()


@contextmanager
def open_ends(settings: Settings, store: Store) -> Iterator[tuple[Source, dict[str, Sink]]]:
    """Open the source and the sinks of the settings."""
    source: Any
    sinks: dict[str, Sink] = {}
    leaving = False  # a process that is interrupted keeps its place in the group
    if settings.source.kind == "file":
        source = FileSource(settings.source.path, settings.events.format, settings.source.follow)
    else:
        from connectors.kafka.source import TopicSource

        source = TopicSource(settings.source, settings.kafka, store.model)
    try:
        topics = {}
        for kind, place in (("predictions", settings.predictions), ("dead_letters", settings.dead_letters)):
            if place is not None and place.kind == "file":
                sinks[kind] = FileSink(place.path, dead=kind == "dead_letters")
            elif place is not None:
                topics[kind] = place.topic
        if topics:
            from connectors.kafka.sink import TopicSink

            sinks["topics"] = TopicSink(topics, settings.kafka, store.model, source)
        yield source, sinks
        leaving = True
    finally:
        for sink in sinks.values():
            sink.close()
        source.close(leaving)


@contextmanager
def _signals(stop: threading.Event) -> Iterator[None]:
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


@contextmanager
def _served(telemetry: Telemetry, settings: Settings) -> Iterator[None]:
    port = settings.telemetry.port
    if port is None:
        yield
        return
    server = telemetry.serve(settings.telemetry.host, port)
    log.info("telemetry on %s:%d", *server.server_address[:2])
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
