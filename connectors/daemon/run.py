"""The daemon: session after session, until the log ends, a signal comes, or something fails for good."""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from connectors.connector import by_connector, connector_of
from connectors.daemon.keeping import OnDisk
from connectors.daemon.learning import Learning
from connectors.daemon.logs import log_to_stderr
from connectors.daemon.partition_bound import InTopic, require_none
from connectors.daemon.partitioned import Partitioned
from connectors.daemon.reloading import LiveSettings
from connectors.daemon.restarts import RestartLimit
from connectors.daemon.session import Session
from connectors.daemon.signals import Requests, daemon_signals
from connectors.daemon.store import Store
from connectors.daemon.telemetry import Telemetry
from connectors.daemon.training import digest_of, training_of
from connectors.decoding import Decoder
from connectors.errors import AWAY, USAGE, Failure, Interruption
from connectors.settings import Settings
from connectors.stream import Sink, Source

log = logging.getLogger(__name__)
_REPEAT = 60.0  # seconds after which the log says again what has not changed
_LONGEST_PAUSE = 5.0  # seconds between two attempts to begin again


def run(live: LiveSettings) -> None:
    """Run until the source ends or SIGTERM, SIGINT or SIGQUIT comes.

    Raises
    ------
    Failure
        If it cannot go on.
    """
    settings, requests = live.current, Requests()
    telemetry = Telemetry(settings.learner.task, settings.telemetry.window, settings.telemetry.stall_seconds)
    store = Store(settings.checkpoints.directory, settings.checkpoints.keep)
    with daemon_signals(requests), store.locked(), _served(telemetry, settings):
        _sessions(live, store, telemetry, requests)
    log.info("stopped")


def _sessions(live: LiveSettings, store: Store, telemetry: Telemetry, requests: Requests) -> None:
    limit = RestartLimit(live.current.kafka.away_seconds, live.current.limits.restarts)
    pause, said, said_at = 0.1, "", 0.0
    while not requests.stop.is_set():
        gc.unfreeze()  # of a session that ended, clients stay in circles, with their sockets
        gc.collect()
        begun = time.monotonic()
        try:
            _session(live, store, telemetry, requests, limit)
            return
        except Interruption as error:
            now = time.monotonic()
            pause = 0.1 if now - begun > _LONGEST_PAUSE else min(2 * pause, _LONGEST_PAUSE)
            telemetry.restarted(str(error), error.cause)
            if str(error) != said or now - said_at > _REPEAT:
                said, said_at = str(error), now
                log.warning("%s; restarting the session from the checkpoint", said)
            deadline = time.monotonic() + pause
            while not requests.stop.is_set() and time.monotonic() < deadline:
                telemetry.beat()
                _reload(live, store, telemetry, requests, limit)
                requests.stop.wait(0.1)
    log.warning("stopped while interrupted: the next run goes on from the last checkpoint")


def _session(
    live: LiveSettings, store: Store, telemetry: Telemetry, requests: Requests, limit: RestartLimit
) -> None:
    """Run one session to its end."""
    settings = live.current
    with open_ends(settings, store, limit.applied()) as (source, sinks):
        session = begin_session(settings, store, source, sinks, telemetry)
        settled = False
        limit.follow(session)
        try:
            while not requests.stop.is_set() and not session.step():
                _reload(live, store, telemetry, requests, limit, session)
                if requests.checkpoint:
                    session.save()
                    # no sooner: where this session could not write it, the next one does
                    requests.checkpoint = False
                    log.info("SIGUSR1: wrote a checkpoint")
                if not settled and session.processed:
                    settle()
                    settled = True
            session.finish()
        finally:
            session.close()


def _reload(
    live: LiveSettings,
    store: Store,
    telemetry: Telemetry,
    requests: Requests,
    limit: RestartLimit,
    session: Session | None = None,
) -> None:
    """Read the settings again if that was asked."""
    if not requests.reload:
        return
    requests.reload = False

    def apply(settings: Settings) -> None:
        log_to_stderr(settings.log, settings.kafka.secrets)
        store.keep, limit.restarts = settings.checkpoints.keep, settings.limits.restarts
        telemetry.adjust(settings.telemetry.window, settings.telemetry.stall_seconds)
        if session is not None:
            session.adjust(settings.checkpoints, settings.limits)

    live.reload(apply)


def begin_session(
    settings: Settings, store: Store, source: Source, sinks: dict[str, Sink], telemetry: Telemetry
) -> Session:
    """Return a session that learns."""
    decoder = _decoder(settings, source)
    policy, training = settings.source.start_policy, training_of(settings)
    if policy.group:
        policy = policy._replace(digest=digest_of(training))
    if settings.snapshots is None:
        learning = Learning(settings, decoder, telemetry)
        kept = OnDisk(learning, store, source, sinks, training)
        learning.decode_by(_decoder(settings, source))  # the checkpoint may know what was found in a log
        return Session(learning, kept, source, sinks, telemetry, settings.checkpoints, policy)
    require_none(store)
    operator = Partitioned(settings, decoder, telemetry)
    keeping = _in_topic(settings, operator, source, sinks)
    return Session(operator, keeping, source, sinks, telemetry, settings.checkpoints, policy)


def _decoder(settings: Settings, source: Source) -> Decoder:
    """Return the decoder of a source's records, which a log on disk may know more of than the settings."""
    try:
        return source.decoder(settings.events.format, settings.format)
    except ValueError as error:
        raise Failure(USAGE, f"events: {error}") from None


def _in_topic(settings: Settings, operator: Partitioned, source: Source, sinks: Mapping[str, Any]) -> InTopic:
    from connectors.kafka.snapshots import TopicSnapshots

    assert settings.snapshots is not None
    snapshots = TopicSnapshots(settings.snapshots.topic, settings.kafka, sinks["topics"])
    training = training_of(settings)
    group = settings.source.start_policy.group
    return InTopic(operator, snapshots, sinks["topics"], source.name, group, training=training)


def settle() -> None:
    """Leave what is loaded by now out of garbage collections, which would go through it over and over."""
    gc.collect()
    gc.freeze()


@contextmanager
def open_ends(
    settings: Settings, store: Store, limits: AbstractContextManager[None] | None = None
) -> Iterator[tuple[Source, dict[str, Sink]]]:
    """Open the source and the sinks of the settings.

    After an interruption the process keeps its place in the group, since it will come back; after a failure
    it leaves the group. ``limits`` may turn an interruption into a failure.
    """
    source: Source | None = None
    sinks: dict[str, Sink] = {}
    leaving = False
    try:
        with limits or nullcontext():
            source = connector_of(settings.source.kind).open_source(settings, store.model)
            for connector, sections in by_connector(settings.outputs):
                for name, sink in connector.open_sinks(sections, settings, store.model, source):
                    sinks[name] = sink
            yield source, sinks
        leaving = True
    except Failure as failure:
        leaving = failure.code != AWAY  # no broker is there to be told
        raise
    finally:
        for sink in sinks.values():
            sink.close()
        if source is not None:
            source.close(leaving)


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
