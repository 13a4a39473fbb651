"""Telemetry: metrics and health of a daemon, over HTTP.

All series of ``/metrics`` stand in one table: names as they are exposed, types, help strings, labels.
docs/daemon.md shows the same table, and a test compares the two.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from socket import socket
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.metrics_core import HistogramMetricFamily
from prometheus_client.registry import Collector

from connectors.contract.errors import INTERRUPTIONS, NO_BROKER, OTHER, USAGE, Failure
from connectors.contract.records import CAUSES, Processed, Raw, Tally
from connectors.daemon.report import RunReport, verdict
from connectors.events.joining import FATES
from connectors.operators.challengers import Losses
from connectors.operators.outputs import Outcome, losses_of_each
from connectors.operators.stream_watch import ALARMS, PREDICTIONS, QUANTILES, ColumnWindow
from streamk import __version__
from streamk.arrays import Json
from streamk.evaluation.contender_metrics import Alarms
from streamk.evaluation.sequential import SequentialComparison
from streamk.learners.learner import Learner

log = logging.getLogger(__name__)
Request = socket | tuple[bytes, socket]
_SUMMARY, _LABELS = 2.0, 32  # seconds that a page waits for a summary; labels with separate series
_REQUEST, _AT_ONCE = 5.0, 16  # seconds for a request; requests that are answered at once
_LATE = 0.75  # share of the time for an answer after which there is none: what asks notices later
_NONE: Mapping[str, int] = MappingProxyType({})
_SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)  # upper bounds of the histograms' buckets
_DELAYS = (0.01, 0.03, *_SECONDS[4:], 30.0, 100.0, 300.0, 1e3, 3e3, 1e4, 3e4, 1e5, 3e5)  # to half a week


BOUNDS = ("low", "mean", "high")


class Series(NamedTuple):
    """One series.

    Attributes
    ----------
    name
        As exposed: a counter ends with ``_total``; a histogram adds ``_bucket``, ``_sum`` and ``_count``.
    kind, help
        Its type and its help text.
    labels
        The values of each label, or nothing where they are not known in advance.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: Mapping[str, tuple[str, ...]] = MappingProxyType({})


SERIES = (
    Series(
        "streamk_events_total", "counter", "Events by result, each counted once", {"result": Tally._fields}
    ),
    Series(
        "streamk_replayed_events_total", "counter",
        "Events learned again after an interruption, not in streamk_events_total",
    ),
    Series(
        "streamk_labels_total", "counter",
        "Labels in separate records by fate; expired are events whose label has not come",
        {"fate": FATES},
    ),
    Series("streamk_waiting_events", "gauge", "Events that wait for their labels"),
    Series("streamk_early_labels", "gauge", "Labels that wait for their events"),
    Series("streamk_dead_letters_total", "counter", "Dead letters by cause", {"cause": CAUSES}),
    Series(
        "streamk_misfits_total", "counter", "Values that do not fit the type of their field", {"field": ()}
    ),
    Series(
        "streamk_missing_share", "gauge", "Share of the last 1,000 events without the field", {"field": ()}
    ),
    Series(
        "streamk_field_quantile", "gauge", "Quantiles of the numbers of a field in the last 1,000 events",
        {"field": (), "quantile": ()},
    ),
    Series(
        "streamk_moved_share", "gauge",
        "Share of the last 1,000 events whose value is not as in the window before the last", {"field": ()},
    ),
    Series(
        "streamk_unseen_share", "gauge", "Share of the last 1,000 events with a new category", {"field": ()}
    ),
    Series(
        "streamk_predicted_share", "gauge", "Share of the last 1,000 predictions by label, of 32 labels",
        {"label": ()},
    ),
    Series("streamk_alarms_total", "counter", "Alarms by kind, each of them in the log", {"kind": ALARMS}),
    Series("streamk_truncated_dead_letters_total", "counter", "Dead letters written as stubs"),
    Series(
        "streamk_lag", "gauge", "Records (bytes of a log) not read yet, NaN if unknown", {"partition": ()}
    ),
    Series(
        "streamk_lag_uncommitted", "gauge",
        "Offsets that open transactions hide: end of the partition minus its last stable offset",
        {"partition": ()},
    ),
    Series(
        "streamk_delay_seconds", "histogram",
        "Time from the timestamp of a record until its prediction is committed; without predictions, until "
        "it is processed",
    ),
    Series("streamk_batch_seconds", "histogram", "Processing time of a micro-batch"),
    Series("streamk_loss", "gauge", "Running mean of the log loss, or of the absolute error"),
    Series("streamk_error", "gauge", "Running share of wrong labels, or mean absolute error"),
    Series("streamk_drifts_total", "counter", "Rises of the error that ADWIN detected"),
    Series("streamk_challenger_loss", "gauge", "streamk_loss of a challenger", {"challenger": ()}),
    Series("streamk_challenger_error", "gauge", "streamk_error of a challenger", {"challenger": ()}),
    Series(
        "streamk_challenger_advantage", "gauge",
        "Error of the model minus that of the challenger, with the ends of a 95 % confidence sequence",
        {"challenger": (), "bound": BOUNDS},
    ),
    Series("streamk_model_version", "gauge", "1, labelled by the published model in use", {"version": ()}),
    Series(
        "streamk_models_total", "counter", "Published models by result; refused: damaged, or of another task",
        {"result": ("used", "refused")},
    ),
    Series("streamk_features", "gauge", "Random features in use, of all models"),
    Series("streamk_model_events", "gauge", "Events that the models have learned"),
    Series(
        "streamk_commit_seconds", "histogram",
        "Time of a commit: of outputs and positions, or with a checkpoint (or snapshots) as well",
        {"kind": ("outputs", "checkpoint")},
    ),
    Series("streamk_checkpoint_bytes", "gauge", "Size of the last checkpoint"),
    Series(
        "streamk_checkpoint_age_seconds", "gauge",
        "Time since the first event that no checkpoint holds yet was read; 0 if checkpoints hold all",
    ),
    Series("streamk_partitions", "gauge", "Partitions assigned to this process"),
    Series("streamk_rebalances_total", "counter", "Times that the group assigned or revoked partitions"),
    Series(
        "streamk_rebalanced_partitions_total", "counter",
        "Partitions by change; lost are those of a session that was interrupted",
        {"change": ("assigned", "revoked", "lost")},
    ),
    Series("streamk_restarts_total", "counter", "Sessions restarted from the checkpoint"),
    Series(
        "streamk_last_interruption_timestamp_seconds", "gauge",
        "Unix time of the last interruption of a session, by cause; 0 if there was none",
        {"cause": INTERRUPTIONS},
    ),
    Series("streamk_build_info", "gauge", "1, labelled by the version of streamk", {"version": ()}),
)  # fmt: skip


class Delays(Collector):
    """The histogram of many delays at once."""

    def __init__(self, series: Series) -> None:
        self._series = series
        self._state = np.zeros(len(_DELAYS) + 1, np.int64), 0.0  # counts and sum; a scrape has a thread

    def add(self, seconds: NDArray[np.float64]) -> None:
        """Add delays."""
        counts, total = self._state
        places = np.searchsorted(_DELAYS, seconds)
        self._state = counts + np.bincount(places, minlength=counts.size), total + float(seconds.sum())

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """Return the histogram as of now."""
        counts, total = self._state
        pairs = zip((*map(str, _DELAYS), "+Inf"), np.cumsum(counts).tolist(), strict=True)
        yield HistogramMetricFamily(self._series.name, self._series.help, buckets=[*pairs], sum_value=total)


class Metrics:
    """The series in a separate registry, with those of the process and of Python.

    Series whose labels are known in advance start at 0.
    """

    def __init__(self) -> None:
        self.registry = r = CollectorRegistry()
        self._counters: dict[str, Counter] = {}
        self._gauges: dict[str, Gauge] = {}
        self._histograms: dict[str, Histogram] = {}
        self._lock = threading.Lock()  # of what follows: a scrape has a separate thread
        self._shown: dict[str, set[tuple[str, ...]]] = {}  # values of labels that are not known in advance
        made: Counter | Gauge | Histogram
        for name, kind, text, labels in SERIES:
            if kind == "counter":
                made = self._counters[name] = Counter(name, text, [*labels], registry=r)
            elif kind == "gauge":
                made = self._gauges[name] = Gauge(name, text, [*labels], registry=r)
            elif name == "streamk_delay_seconds":
                self.delays = Delays(Series(name, kind, text))
                r.register(self.delays)
                continue
            else:
                made = self._histograms[name] = Histogram(name, text, [*labels], registry=r, buckets=_SECONDS)
            if len(labels) == 1:
                for label, values in labels.items():
                    for value in values:
                        made.labels(**{label: value})
        ProcessCollector(registry=r)
        PlatformCollector(registry=r)

    def count(self, name: str, amount: float = 1.0, **labels: str) -> None:
        """Add to a counter."""
        counter = self._counters[name]
        (counter.labels(**labels) if labels else counter).inc(amount)

    def set(self, name: str, value: float, **labels: str) -> None:
        """Set a gauge."""
        gauge = self._gauges[name]
        (gauge.labels(**labels) if labels else gauge).set(value)

    def replace(self, name: str, numbers: Mapping[tuple[str, ...], float]) -> None:
        """Set a gauge for these values of its labels, and remove all others."""
        with self._lock:
            for values in self._shown.get(name, set()) - numbers.keys():
                self._gauges[name].remove(*values)
            self._shown[name] = set(numbers)
            for values, number in numbers.items():
                self._gauges[name].labels(*values).set(number)

    def forget(self, name: str) -> None:
        """Set a gauge to NaN for the values that its labels have now."""
        with self._lock:
            for values in self._shown.get(name, set()):
                self._gauges[name].labels(*values).set(math.nan)

    def follow(self, name: str, value: Callable[[], float]) -> None:
        """Set a gauge at each scrape."""
        self._gauges[name].set_function(value)

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Add an observation to a histogram."""
        histogram = self._histograms[name]
        (histogram.labels(**labels) if labels else histogram).observe(value)


class RunningLosses:
    """Running means of losses and errors.

    Attributes
    ----------
    window
        Over so many events.
    total
        How many there were.
    """

    def __init__(self, window: int) -> None:
        self.window, self.total = window, 0
        self._last = np.empty((2, 0))

    def add(self, losses: Losses) -> None:
        """Add losses and errors of consecutive events, two rows."""
        self.total += losses.shape[1]
        self._last = np.concatenate([self._last, losses[:, -self.window :]], axis=1)[:, -self.window :]

    def resize(self, window: int) -> None:
        """Take another window; the newest losses stay."""
        self.window, self._last = window, self._last[:, -window:]

    @property
    def count(self) -> int:
        """How many events the means are over."""
        return self._last.shape[1]

    @property
    def means(self) -> list[float]:
        """The means of the loss and the error; empty if there are none."""
        return self._last.mean(axis=1).tolist() if self.count else []


class Telemetry:
    """Metrics of one run, and whether it advances.

    A run has many sessions. Each begins with events that the session before it may have learned, too:
    :meth:`begin` says which of them are replayed, and a replay adds nothing to counters, running means and
    the drift detector.

    Parameters
    ----------
    window
        Events over which loss and error are running means.
    stall
        Seconds without an advance, while events wait, after which the run is not healthy.
    classes
        Whether targets are labels, whose errors are 0 or 1.
    silence
        Seconds without an answer of the brokers within which the run is not ready any more, and the lag is
        not known.
    """

    def __init__(
        self, window: int = 1000, stall: float = 60.0, classes: bool = True, silence: float = 10.0
    ) -> None:
        self._stall, self.silence = stall, silence
        self._losses = RunningLosses(window)
        self._of_challengers: dict[str, RunningLosses] = {}
        self._comparisons: dict[str, dict[str, SequentialComparison]] = {}  # by challenger and place
        self._leads: dict[str, int] = {}  # of challengers, as the log has them
        self._alarms = Alarms(bounded=classes)
        self._beaten = self._advanced = time.monotonic()
        self._waiting = 0
        self._waited_since = 0.0
        self._awaited: tuple[float, str] | None = None  # since when the loop waits for an answer, and to what
        self._answered = self._beaten  # when the ends of the partitions were last known
        self._unanswered = False
        self._refused_since: float | None = None  # since when the group takes no positions
        self._unsaved_since: float | None = None  # when the first event was read that no checkpoint holds
        self._counted: dict[str, tuple[str, int]] = {}  # identity and position, by partition
        self._replaying = False
        self._totals: defaultdict[str, int] = defaultdict(int)  # events of this run by result
        self._undelivered: list[int] = []  # times of records whose outputs are not committed
        self._assigned: set[str] = set()
        self._models: dict[str, tuple[int, int]] = {}  # features and events
        self._late: dict[str, tuple[int, int]] = {}  # events that wait for labels, and labels for events
        self._interruption: tuple[float, int, str, bool] | None = None  # since, sessions, reason, absence
        self._version = ""  # of the published model in use
        self.ready, self.unready = False, "the checkpoint is not loaded yet, or the source is not open"
        self.warned: set[str] = set()  # fields whose change of kind is in the log
        self._metrics = metrics = Metrics()
        self.report = RunReport(classes)
        self._learners: dict[str, Learner] = {}
        self._summary: Json = {}  # of the model, which the loop makes
        self._summary_wanted, self._summary_made = threading.Event(), threading.Event()
        self.registry = metrics.registry
        metrics.set("streamk_build_info", 1.0, version=__version__)
        metrics.follow("streamk_checkpoint_age_seconds", self._checkpoint_age)

    def _checkpoint_age(self) -> float:
        since = self._unsaved_since
        return 0.0 if since is None else time.monotonic() - since

    def adjust(self, window: int, stall: float) -> None:
        """Take another window and another time without an advance; the newest losses stay in the means."""
        self._stall = stall
        for losses in (self._losses, *self._of_challengers.values()):
            losses.resize(window)
        self._average()

    def beat(self) -> None:
        """Say that the loop goes round; summarize the model if the page waits for it."""
        self._beaten = time.monotonic()
        if self._summary_wanted.is_set():
            self._summary_wanted.clear()
            largest = max(self._learners.values(), key=lambda learner: learner.events, default=None)
            self._summary = {} if largest is None else largest.summary()
            self._summary_made.set()

    @contextmanager
    def awaits(self, what: str) -> Iterator[None]:
        """Say that the loop waits for an answer of the brokers."""
        before = self._awaited
        self._awaited = before or (time.monotonic(), what)
        try:
            yield
        finally:
            self._awaited = before

    def unanswered(self) -> None:
        """Note that the brokers do not say where the partitions end."""
        self._unanswered = True

    def granted(self, committed: bool) -> None:
        """Note whether the group has taken the positions of a checkpoint."""
        self._refused_since = None if committed else self._refused_since or time.monotonic()

    def begin(self, partition: str, emitted: int, end: int, identity: str = "") -> None:
        """Note that a session begins to read a partition.

        Parameters
        ----------
        emitted
            Position up to which outputs are committed: another process has counted the events before it.
        end
            Of the partition: a position beyond it belongs to a log that the broker has lost.
        identity
            Of the topic: positions of another one mean nothing here.
        """
        known, furthest = self._counted.get(partition, (identity, 0))
        counted = max(emitted, min(furthest, end)) if known == identity else emitted
        self._counted[partition] = identity, counted
        if partition not in self._assigned:
            self._assigned.add(partition)
            self._changed("assigned", 1)

    def revoked(self, partitions: Collection[str]) -> None:
        """Note that the group gives partitions to others."""
        self._assigned -= set(partitions)
        self._changed("revoked", len(partitions))

    def _changed(self, change: str, count: int) -> None:
        self._metrics.count("streamk_rebalanced_partitions_total", count, change=change)
        self._metrics.set("streamk_partitions", len(self._assigned))

    def rebalanced(self) -> None:
        """Count a rebalance that assigned or revoked partitions."""
        self._metrics.count("streamk_rebalances_total")

    def counted(self, partition: str) -> int:
        """Return the position up to which the events of a partition are counted."""
        return self._counted[partition][1]

    def replays(self, replaying: bool) -> None:
        """Say whether the records to be processed next are counted already."""
        self._replaying = replaying

    def count(self, partition: str, after: int, processed: Processed, records: Sequence[Raw] = ()) -> None:
        """Count what an operator made of records up to a position, unless they are replayed."""
        metrics = self._metrics
        if self._replaying:
            metrics.count("streamk_replayed_events_total", processed.done)
            return
        self._counted[partition] = self._counted[partition][0], after
        self._undelivered += [raw.timestamp for raw in records if raw.timestamp is not None]
        for result, count in processed.tally._asdict().items():
            metrics.count("streamk_events_total", count, result=result)
            self._totals[result] += count
        for cause, count in processed.causes.items():
            metrics.count("streamk_dead_letters_total", count, cause=cause)
            self.report.refused[cause] = self.report.refused.get(cause, 0) + count
        for fate, count in processed.fates.items():
            metrics.count("streamk_labels_total", count, fate=fate)

    def worked(self, seconds: float) -> None:
        """Note work that took so long."""
        self.beat()
        self._advanced = self._beaten
        self._metrics.observe("streamk_batch_seconds", seconds)

    def delivered(self) -> None:
        """Note that the outputs of all records are committed; times that are still to come count as now."""
        if self._undelivered:
            times = np.array(self._undelivered, np.float64) / 1000
            self._metrics.delays.add(np.maximum(time.time() - times, 0.0))
            self._undelivered.clear()

    def learned(self, outcomes: Sequence[Outcome], learner: Learner, place: str = "") -> None:
        """Follow the losses of predictions, and the model, one of several if it has a place."""
        pairs = [
            (outcome.event.target, outcome.prediction)
            for outcome in outcomes
            if outcome.event is not None and outcome.prediction is not None
        ]
        self.scored(losses_of_each(*zip(*pairs, strict=True)) if pairs else np.empty((2, 0)), learner, place)

    def scored(self, losses: NDArray[np.float64], learner: Learner, place: str = "") -> None:
        """Follow losses and errors, two rows, and the model."""
        if losses.size and not self._replaying:
            self._follow(losses)
        self._models[place], self._learners[place] = (learner.feature_count, learner.events), learner
        self._add_up()

    def waits(self, events: int, labels: int, place: str = "") -> None:
        """Follow how many events of a model wait for labels, and labels for events."""
        self._late[place] = events, labels
        self._metrics.set("streamk_waiting_events", sum(events for events, _ in self._late.values()))
        self._metrics.set("streamk_early_labels", sum(labels for _, labels in self._late.values()))

    def forget(self, place: str) -> None:
        """Count the model of a place no more."""
        self._models.pop(place, None)
        self._learners.pop(place, None)
        for by_place in self._comparisons.values():
            by_place.pop(place, None)
        self._late.pop(place, None)
        self._add_up()

    def predicts_with(self, version: str) -> None:
        """Follow which version of a published model predicts."""
        if version != self._version:
            self._version = version
            self._metrics.replace("streamk_model_version", {(version,): 1.0})
            self._metrics.count("streamk_models_total", result="used")

    def alarm(self, kind: str, sentence: str) -> None:
        """Log and count a change in the stream, unless it is replayed."""
        if not self._replaying:
            log.warning("%s", sentence)
            self._metrics.count("streamk_alarms_total", kind=kind)
            self.report.alarm(kind, sentence)

    def misfit(self, field: str, count: int) -> None:
        """Count values that do not fit the type of a field."""
        if not self._replaying:
            self._metrics.count("streamk_misfits_total", count, field=field)
            self.report.misfits[field] = self.report.misfits.get(field, 0) + count

    def watched(self, columns: Mapping[str, ColumnWindow]) -> None:
        """Follow what all fields, predictions and labels were in a window."""
        self.report.columns = columns

    def _show_columns(self) -> None:
        """Set the gauges of the last window, when they are read: the loop has thousands of windows."""
        replace, columns = self._metrics.replace, self.report.columns
        replace("streamk_missing_share", {(name,): column.missing for name, column in columns.items()})
        replace(
            "streamk_field_quantile",
            {
                (name, str(q)): value
                for name, column in columns.items()
                for q, value in zip(QUANTILES, column.quantiles, strict=False)
            },
        )
        moved = {(name,): column.moved for name, column in columns.items()}
        unseen = {(name,): column.unseen for name, column in columns.items()}
        replace("streamk_moved_share", {key: share for key, share in moved.items() if share is not None})
        replace("streamk_unseen_share", {key: share for key, share in unseen.items() if share is not None})
        predictions = columns.get(PREDICTIONS)
        labels = islice(predictions.values.items(), _LABELS) if predictions is not None else ()
        replace("streamk_predicted_share", {(label,): share for label, share in labels})

    def refused_model(self) -> None:
        """Count a published model that cannot be used."""
        self._metrics.count("streamk_models_total", result="refused")

    def _add_up(self) -> None:
        models = self._models.values()
        self._metrics.set("streamk_features", sum(features for features, _ in models))
        self._metrics.set("streamk_model_events", sum(events for _, events in models))

    def _follow(self, losses: NDArray[np.float64]) -> None:
        self._losses.add(losses)
        self._average()
        self.report.windows.add(losses)
        before = len(self._alarms.events)
        self._alarms.add(losses[1])
        self._metrics.count("streamk_drifts_total", len(self._alarms.events) - before)
        if len(self._alarms.events) > before:
            error, count = self._losses.means[1], self._losses.count
            self.alarm("error", f"the error rises: {error:.4g} over the last {count:,} events")

    def _average(self) -> None:
        for name, mean in zip(("streamk_loss", "streamk_error"), self._losses.means, strict=False):
            self._metrics.set(name, mean)

    def challenged(
        self, name: str, losses: Losses, comparison: SequentialComparison, place: str = ""
    ) -> None:
        """Follow the losses of a challenger, and its comparison with the model of a place."""
        if self._replaying:
            return
        self._of_challengers.setdefault(name, RunningLosses(self._losses.window)).add(losses)
        self._comparisons.setdefault(name, {})[place] = comparison
        both = reduce(SequentialComparison.merged, self._comparisons[name].values())
        means = self._of_challengers[name].means
        self.report.challengers[name] = both, means
        for series, mean in zip(("streamk_challenger_loss", "streamk_challenger_error"), means, strict=False):
            self._metrics.set(series, mean, challenger=name)
        if (interval := both.interval()) is not None:
            for bound in BOUNDS:
                value: float = getattr(interval, bound)
                self._metrics.set("streamk_challenger_advantage", value, challenger=name, bound=bound)
        if both.leads != self._leads.get(name, 0):
            self._leads[name] = both.leads
            log.warning("%s", verdict(name, both))

    def figures(self) -> dict[str, float]:
        """Return events learned, the running loss and error, and how many records wait, for the log."""
        means = dict(zip(("loss", "error"), (round(mean, 4) for mean in self._losses.means), strict=False))
        events = sum(events for _, events in self._models.values())
        return {"events": events, **means, "waiting": self._waiting}

    def totals(self) -> str:
        """Return what became of the events of this run, in words."""
        words = {"predicted": "predicted only"}
        others = [
            f"{words.get(what, what)} {n:,}" for what, n in self._totals.items() if n and what != "learned"
        ]
        return ", ".join([f"learned {self._totals['learned']:,} events", *others])

    def waiting(self, lag: Mapping[str, int], uncommitted: Mapping[str, int] = _NONE) -> None:
        """Take the lag of every partition, and how many offsets after its end open transactions hide."""
        self._answered, self._unanswered = time.monotonic(), False
        if not self._waiting:
            self._waited_since = self._answered
        self._waiting = sum(lag.values())
        self._metrics.replace("streamk_lag", {(name,): count for name, count in lag.items()})
        self._metrics.replace("streamk_lag_uncommitted", {(name,): n for name, n in uncommitted.items()})

    def unsaved(self) -> None:
        """Note that something has been read that no checkpoint holds."""
        if self._unsaved_since is None:
            self._unsaved_since = time.monotonic()

    def committed(self, kind: str, seconds: float, truncated: int) -> None:
        """Note a commit of ``"outputs"`` or with a ``"checkpoint"``: its time, and its truncated letters."""
        self._metrics.observe("streamk_commit_seconds", seconds, kind=kind)
        self._metrics.count("streamk_truncated_dead_letters_total", truncated)

    def checkpointed(self, size: int) -> None:
        """Note a checkpoint of so many bytes, which holds all that was read."""
        self._unsaved_since = None
        self._metrics.set("streamk_checkpoint_bytes", size)

    def restarted(self, reason: str = "", cause: str = OTHER) -> None:
        """Note that the session restarts from its checkpoint, and why."""
        self._metrics.count("streamk_restarts_total")
        self._metrics.set("streamk_last_interruption_timestamp_seconds", time.time(), cause=cause)
        since, sessions, *_ = self._interruption or (time.monotonic(), 0)
        self._interruption = since, sessions + 1, reason, cause == NO_BROKER
        self._models.clear()
        lost = len(self._assigned)
        self._assigned.clear()
        self._changed("lost", lost)
        self._unanswered, self._refused_since = False, None
        self.ready, self._waiting = False, 0  # what waits is not known until the source is open again

    def progressed(self) -> None:
        """Note that positions were committed: the session works."""
        self._interruption = None

    def caught_up(self) -> None:
        """Note that everything read is saved; if nothing waits either, there is no progress to make."""
        if not self._waiting:
            self._interruption = None
            if self.ready:  # what a session before this one had not saved is read again, or another's
                self._unsaved_since = None

    def problem(self) -> str:
        """Return what is wrong with the loop, empty if nothing is."""
        now = time.monotonic()
        if self._interruption is not None:
            began, sessions, reason, away = self._interruption
            if now - began > self._stall or (sessions > 1 and not away):
                return f"{sessions} sessions in a row have ended without progress: {reason}"
        if now - self._beaten > self._stall:
            return f"the loop has stood still for {now - self._beaten:.0f} seconds"
        since = max(self._advanced, self._waited_since)
        if self._waiting and now - since > self._stall:
            return f"{self._waiting} wait, and none has been read for {now - since:.0f} seconds"
        return ""

    def unanswered_problem(self) -> str:
        """Return what the brokers do not answer, empty if they do."""
        now = time.monotonic()
        waited, refused = self._awaited, self._refused_since
        if waited is not None and now - waited[0] > _LATE * self.silence:
            return f"a {waited[1]} has taken {now - waited[0]:.0f} seconds so far"
        if self._unanswered and self._stale(now):
            return (
                f"the brokers have not answered a request for the lag for {now - self._answered:.0f} seconds"
            )
        if refused is not None and now - refused > _LATE * self.silence:
            return f"the group has not accepted a position for {now - refused:.0f} seconds"
        return ""

    def _stale(self, now: float) -> bool:
        return now - self._answered > _LATE * self.silence

    def _exposition(self) -> bytes:
        """Return the metrics; a lag that is not known by now is NaN."""
        self._show_columns()
        if self._stale(time.monotonic()):
            for name in ("streamk_lag", "streamk_lag_uncommitted"):
                self._metrics.forget(name)
        return generate_latest(self.registry)

    def serve(self, host: str, port: int) -> ThreadingHTTPServer:
        """Answer ``/metrics``, ``/report``, ``/healthz`` and ``/ready`` on a thread.

        Raises
        ------
        Failure
            If the port cannot be had.
        """
        telemetry = self

        class Answers(BaseHTTPRequestHandler):
            timeout = _REQUEST  # seconds: a client that says nothing must not hold a thread

            def do_GET(self) -> None:
                code, kind, body = telemetry.answer(self.path.partition("?")[0])
                self.send_response(code)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *parts: object) -> None:
                pass

        try:
            server = _Server((host, port), Answers)
        except (OSError, TypeError, UnicodeError, OverflowError) as error:
            why = (error.strerror if isinstance(error, OSError) else None) or error
            raise Failure(USAGE, f"telemetry.port: {host}:{port} cannot be used: {why}") from None
        threading.Thread(target=server.serve_forever, name="telemetry", daemon=True).start()
        return server

    def answer(self, path: str) -> tuple[int, str, bytes]:
        """Return the status, the type and the body of the answer to a request."""
        text = "text/plain; charset=utf-8"
        if path == "/metrics":
            return 200, CONTENT_TYPE_LATEST, self._exposition()
        if path in ("/healthz", "/ready"):
            problem = self.problem()
            if path == "/ready":
                problem = problem or self.unanswered_problem()
                if not self.ready:
                    problem = problem or self.unready
            return (503 if problem else 200), text, (problem or "ok").encode() + b"\n"
        if path == "/report":
            self._summary_made.clear()
            self._summary_wanted.set()
            self._summary_made.wait(_SUMMARY)
            return 200, "text/html; charset=utf-8", self.page(self._summary).encode()
        return 404, text, b"there are /metrics, /report, /healthz and /ready\n"

    def page(self, summary: Json) -> str:
        """Return the page of the model, with its summary, as HTML."""
        figures = self.figures()
        facts = [f"{figures['events']:,.0f} events learned", f"{self._waiting:,} records wait"]
        if self._version:
            facts.append(f"version {self._version}")
        return self.report.page(facts, summary)


class _Server(ThreadingHTTPServer):
    """Answers so many requests at once at most; one more is hung up on."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._free = threading.BoundedSemaphore(_AT_ONCE)
        super().__init__(address, handler)

    def process_request(self, request: Request, client_address: object) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Request, client_address: object) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Request, client_address: object) -> None:
        """Say nothing of clients that hang up or are silent."""
