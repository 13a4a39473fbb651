"""The daemon: session after session, until the log ends, a signal comes, or something fails for good.

Progress is a committed position. Sessions that make none are counted, and brokers that do not answer are
waited for, both up to a limit. On SIGHUP the settings are read again: some take effect while the daemon runs,
a change of any other one waits for a restart.
"""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, partial
from math import inf
from typing import Protocol

from connectors.contract.errors import AWAY, STUCK, USAGE, BrokerUnavailable, Failure, Interruption
from connectors.contract.records import Endpoints, Sink, Source
from connectors.contract.sections import Limits, Section
from connectors.daemon.label_source import Clock, LabelledSource
from connectors.daemon.logs import log_to_stderr
from connectors.daemon.session import Session
from connectors.daemon.signals import Requests, daemon_signals
from connectors.daemon.telemetry import Telemetry
from connectors.formats.addresses import RemotePath
from connectors.operators.late_labels import late_labels
from connectors.operators.learning import PartitionedLearning, SingleLearning
from connectors.operators.scoring import ModelInUse, Scorer
from connectors.publish.following import Follower
from connectors.settings.connector import by_connector, connector_of
from connectors.settings.tables import LogSection, Settings, read_as_stored
from connectors.state.aside import AsideStore
from connectors.state.disk import CheckpointStore, DiskBackend, require_no_checkpoints
from connectors.state.training import first_model, policy_of, training_of
from streamk.learners.loading import MODEL

log = logging.getLogger(__name__)
LIVE: Mapping[str, Collection[str]] = {  # keys that take effect while the daemon runs, by table
    "limits": Limits.model_fields,
    "checkpoints": ("events", "seconds", "keep", "hours", "days"),
    "telemetry": ("window", "stall_seconds"),
    "log": LogSection.model_fields,
}
_IDLE = 60.0  # seconds after which a session without events counts as a working one
_FIRST_ANSWER = 10.0  # seconds without an answer at the start: an address is wrong
_REPEAT = 60.0  # seconds after which the log repeats what has not changed
_LONGEST_PAUSE = 5.0  # seconds between two attempts to restart
Keys = list[tuple[str, str]]


class Committing(Protocol):
    """A session, as far as restarts depend on it.

    Attributes
    ----------
    committed
        Positions committed by this session.
    processed
        Records processed.
    """

    committed: dict[str, int]
    processed: int


class RestartLimit:
    """Counts sessions without progress, and the time for which no broker answers.

    Parameters
    ----------
    away
        Seconds for which brokers may not answer, once they have answered.
    restarts
        Sessions in a row that may end without progress.
    """

    def __init__(self, away: float, restarts: int) -> None:
        self._away, self.restarts = away, restarts
        self._answered = False
        self._away_since: float | None = None
        self._without_progress = 0
        self._furthest: dict[str, int] = {}
        self._session: Committing | None = None

    def follow(self, session: Committing) -> None:
        """Measure progress by what this session commits."""
        self._session, self._answered = session, True

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Raise Failure in place of an interruption that is one too many."""
        started, self._session = time.monotonic(), None
        try:
            yield
        except Interruption as error:
            idle = False
            if self._session is not None:
                self.advance(self._session.committed)
                idle = not self._session.processed
            self.count(error, idle, time.monotonic() - started)
            raise

    def advance(self, committed: Mapping[str, int]) -> None:
        """Restart the count if a position is ahead of all that were committed before."""
        ahead = {name: at for name, at in committed.items() if at > self._furthest.get(name, -1)}
        if ahead:
            self._furthest |= ahead
            self._without_progress, self._away_since = 0, None

    def count(self, error: Interruption, idle: bool, duration: float) -> None:
        """Count an interruption of a session of so many seconds, ``idle`` if no event came.

        Raises
        ------
        Failure
            If it is one too many.
        """
        now, worked = time.monotonic(), idle and duration > _IDLE
        if isinstance(error, BrokerUnavailable):
            if self._away_since is None or worked:
                self._away_since = now
            away, limit = now - self._away_since, self._away
            if not self._answered:
                limit = min(_FIRST_ANSWER, limit)
            if away > limit:
                why = "kafka.away_seconds" if self._answered else "none has answered since the start"
                raise Failure(AWAY, f"{error}; it has been so for {away:.0f} seconds ({why})") from None
            return
        self._without_progress = 1 if worked else self._without_progress + 1
        if self._without_progress > self.restarts:
            raise Failure(
                STUCK,
                f"{error}; {self._without_progress} sessions have ended without progress (limits.restarts)",
            ) from None


class LiveSettings:
    """The settings in effect.

    Parameters
    ----------
    settings
        Those that the daemon was started with.
    read
        Reads the settings, as at the start; it raises Failure where they are wrong.

    Attributes
    ----------
    current : Settings
        Those in effect.
    """

    def __init__(self, settings: Settings, read: Callable[[], Settings]) -> None:
        self.current, self._read = settings, read

    def reload(self, apply: Callable[[Settings], None]) -> None:
        """Read the settings again, apply what may change while the daemon runs, and log every changed key.

        ``apply`` takes the new settings in effect. Wrong settings change nothing.
        """
        try:
            fresh = self._read()
        except Failure as failure:
            log.error("SIGHUP: %s; the settings stay as they were", "; ".join(str(failure).splitlines()))
            return
        changed = changed_keys(self.current, fresh)
        live = [(table, key) for table, key in changed if key in LIVE.get(table, ())]
        if live:
            self.current = _updated(self.current, fresh, live)
            apply(self.current)
            log.info("SIGHUP: changed %s", _names(live))
        refused = [key for key in changed if key not in live]
        if refused:
            log.warning("SIGHUP: restart the daemon to change %s; the old values stay", _names(refused))
        if not changed:
            log.info("SIGHUP: no setting has changed")


def changed_keys(before: Settings, now: Settings) -> Keys:
    """Return the tables and keys whose values differ; the key is empty if a table was added or removed."""
    changed: Keys = []
    tables = dict(now)
    for table, old in before:
        new = tables[table]
        if not isinstance(old, Section) or not isinstance(new, Section):
            changed += [(table, "")] * (old != new)
            continue
        values, others = dict(old), dict(new)
        keys = dict.fromkeys([*values, *others])
        changed += [(table, key) for key in keys if values.get(key) != others.get(key)]
    return changed


def _updated(settings: Settings, newer: Settings, keys: Keys) -> Settings:
    """Return settings with the values of these keys from newer ones."""
    tables: dict[str, Section] = dict(settings)
    new = dict(newer)
    for table, key in keys:
        tables[table] = tables[table].model_copy(update={key: dict(new[table])[key]})
    return settings.model_copy(update={table: tables[table] for table, _ in keys})


def _names(keys: Keys) -> str:
    return ", ".join(f"{table}.{key}" if key else f"[{table}]" for table, key in keys)


def run(live: LiveSettings) -> None:
    """Run until the source ends or SIGTERM, SIGINT or SIGQUIT comes.

    Raises
    ------
    Failure
        If it cannot continue.
    """
    settings = live.current
    classes = settings.learner.task == "classification"
    telemetry = Telemetry(
        settings.telemetry.window, settings.telemetry.stall_seconds, classes, settings.kafka.session_seconds
    )
    telemetry.report.title = settings.source.name
    due = settings.checkpoints
    store = CheckpointStore(due.directory, due.keep, due.hours, due.days)
    daemon = _Daemon(live, store, telemetry)
    with daemon_signals(daemon.requests), store.locked(), _served(telemetry, settings):
        daemon.run()
    why = "stopped by a signal" if daemon.requests.stop.is_set() else "reached the end of the log"
    log.info("%s; %s", telemetry.totals(), why)


class _Daemon:
    """Runs sessions, and restarts them after interruptions."""

    def __init__(self, live: LiveSettings, store: CheckpointStore, telemetry: Telemetry) -> None:
        self._live, self._store, self._telemetry, self.requests = live, store, telemetry, Requests()
        # of all sessions, since each of them would lock the file; at an address, as many wait as in memory
        self._aside = None if isinstance(store.directory, RemotePath) else AsideStore(store)
        self._limit = RestartLimit(live.current.kafka.away_seconds, live.current.limits.restarts)
        follows = live.current.learner.follow is not None
        self._follower = Follower(live.current, telemetry) if follows else None

    def run(self) -> None:
        """Run sessions until one ends by itself or a signal stops the daemon."""
        with nullcontext() if self._follower is None else self._follower.running():
            self._run_sessions()

    def _run_sessions(self) -> None:
        requests, pause, logged, logged_at, again = self.requests, 0.1, "", 0.0, False
        while not requests.stop.is_set():
            if again:  # clients of a session that ended stay in reference cycles, with their sockets
                gc.unfreeze()
                gc.collect()
            again = True
            started = time.monotonic()
            try:
                self._run_session()
                return
            except Interruption as error:
                now = time.monotonic()
                pause = 0.1 if now - started > _LONGEST_PAUSE else min(2 * pause, _LONGEST_PAUSE)
                self._telemetry.restarted(str(error), error.cause)
                if str(error) != logged or now - logged_at > _REPEAT:
                    logged, logged_at = str(error), now
                    log.warning("%s; restarting the session from the checkpoint", logged)
                deadline = time.monotonic() + pause
                while not requests.stop.is_set() and time.monotonic() < deadline:
                    self._telemetry.beat()
                    self._reload()
                    requests.stop.wait(0.1)
        log.warning("stopped while interrupted: the next run continues from the last checkpoint")

    def _run_session(self) -> None:
        """Run one session to its end."""
        settings, requests, follower = self._live.current, self.requests, self._follower
        if follower is not None:
            self._await_model(follower)
            settings = read_as_stored(settings, follower.stored)
            if requests.stop.is_set():
                return
        with open_source_and_sinks(settings, self._store, self._limit.applied()) as (source, sinks):
            session = start_session(
                settings, self._store, source, sinks, self._telemetry, self._aside, follower
            )
            frozen = False
            self._limit.follow(session)
            try:
                while not requests.stop.is_set() and not session.step():
                    self._reload(session)
                    if requests.checkpoint:
                        session.save()
                        # no sooner: where this session could not write it, the next one does
                        requests.checkpoint = False
                        log.info("SIGUSR1: wrote a checkpoint")
                    if not frozen and session.processed:
                        gc.freeze()  # what is loaded by now, which collections would traverse over and over
                        frozen = True
                session.finish()
            finally:
                self._telemetry.ready = False  # to close may take a while
                session.close()

    def _await_model(self, follower: Follower) -> None:
        """Wait until a model is published, or a signal stops the daemon."""
        waiting = f"no model is published in {follower.follow} yet (learner.follow)"
        looked = logged = -inf
        while follower.current is None and not self.requests.stop.is_set():
            self._telemetry.beat()
            self._reload()
            if (now := time.monotonic()) - looked >= 1.0:
                looked = now
                with self._limit.applied():
                    follower.look()
                if follower.current is None and now - logged >= _REPEAT:
                    logged, self._telemetry.unready = now, waiting
                    log.warning("%s; waiting for it", waiting)
            self.requests.stop.wait(0.1)

    def _reload(self, session: Session | None = None) -> None:
        """Read the settings again if a signal requested it."""
        if not self.requests.reload:
            return
        self.requests.reload = False

        def apply(settings: Settings) -> None:
            log_to_stderr(settings.log, settings.kafka.secrets)
            due, self._limit.restarts = settings.checkpoints, settings.limits.restarts
            self._store.keep, self._store.hours, self._store.days = due.keep, due.hours, due.days
            self._telemetry.adjust(settings.telemetry.window, settings.telemetry.stall_seconds)
            if session is not None:
                session.adjust(settings.checkpoints, settings.limits)

        self._live.reload(apply)


def start_session(
    settings: Settings,
    store: CheckpointStore,
    source: Source,
    sinks: dict[str, Sink],
    telemetry: Telemetry,
    aside: AsideStore | None = None,
    follower: Follower | None = None,
) -> Session:
    """Return a session that learns, or predicts with the models that a follower reads."""
    decoder = source.decoder or settings.decoder()
    policy, training = policy_of(settings), training_of(settings)
    if follower is not None:
        scorer = Scorer(settings, decoder, telemetry, partial(_current, follower))
        backend = DiskBackend(scorer, store, source, sinks)
        scorer.decode_by(source.decoder or settings.decoder())
        return Session(
            backend, Endpoints(source, sinks), telemetry, settings.checkpoints, policy._replace(blank=True)
        )
    if settings.snapshots is None:
        late = None if settings.labels is None else late_labels(settings, source.label_decoder, aside)
        learning = SingleLearning(settings, decoder, telemetry, late=late)
        disk = DiskBackend(learning, store, source, sinks, training)
        if disk.untried and settings.learner.start is not None:
            learning.restore({MODEL: first_model(settings)})
        if not settings.learner.learns and not learning.learner.events:
            raise Failure(
                USAGE,
                f"learner.learn: {store.directory} holds no model that has learned, and nothing is learned; "
                "set learner.follow to predict with a published model",
            )
        # the checkpoint may hold what was inferred from a log
        learning.decode_by(source.decoder or settings.decoder(), source.label_decoder)
        return Session(disk, Endpoints(source, sinks), telemetry, settings.checkpoints, policy)
    from connectors.state.topic import open_topic_backend  # other daemons need no client of brokers

    require_no_checkpoints(store)
    models = PartitionedLearning(settings, decoder, telemetry)
    topic = open_topic_backend(models, settings, sinks.values(), training)
    return Session(topic, Endpoints(source, sinks), telemetry, settings.checkpoints, policy)


def _current(follower: Follower) -> ModelInUse:
    """Return the newest model; there is one."""
    assert follower.current is not None
    return follower.current


@contextmanager
def open_source_and_sinks(
    settings: Settings, store: CheckpointStore, limits: AbstractContextManager[None] | None = None
) -> Iterator[tuple[Source, dict[str, Sink]]]:
    """Open the source and the sinks of the settings.

    After an interruption the process keeps its place in the group, since it will return; after a failure
    it leaves the group. ``limits`` may turn an interruption into a failure.
    """
    source: Source | None = None
    sinks: dict[str, Sink] = {}
    leaving = False
    try:
        with limits or nullcontext():
            events = source = connector_of(settings.source.kind).open_source(settings, store.model)
            for connector, sections in by_connector(settings.outputs):
                for name, sink in connector.open_sinks(sections, settings, store.model, events):
                    sinks[name] = sink
            if settings.labels is not None:
                source = _with_labels(settings, events)
            yield source, sinks
        leaving = True
    except Failure as failure:
        leaving = failure.code != AWAY  # no broker answers
        raise
    finally:
        for sink in sinks.values():
            sink.close()
        if source is not None:
            source.close(leaving)


def _with_labels(settings: Settings, events: Source) -> Source:
    """Return the source of events together with their labels."""
    labels = connector_of(settings.source.kind).open_labels(settings)

    if settings.events.time is None:
        return LabelledSource(events, labels, (Clock(None), Clock(None)))
    of_events, of_labels = cache(settings.decoder), cache(settings.label_decoder)
    clocks = Clock(lambda: events.decoder or of_events()), Clock(lambda: labels.decoder or of_labels())
    return LabelledSource(events, labels, clocks)


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
