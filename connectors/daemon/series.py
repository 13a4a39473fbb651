"""All series of ``/metrics``, in one table: names as they are exposed, types, help texts, labels.

:class:`Metrics` builds them in a registry. docs/daemon.md shows the same table, and a test compares the two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
)

from connectors.daemon.operator import CAUSES, Tally
from connectors.errors import INTERRUPTIONS

_SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)  # upper bounds of the histograms' buckets


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
    Series("streamk_dead_letters_total", "counter", "Dead letters by cause", {"cause": CAUSES}),
    Series("streamk_truncated_dead_letters_total", "counter", "Dead letters written as stubs"),
    Series("streamk_lag", "gauge", "Records (bytes of a log) not read yet", {"partition": ()}),
    Series(
        "streamk_lag_uncommitted", "gauge",
        "Offsets that open transactions hide: end of the partition minus its last stable offset",
        {"partition": ()},
    ),
    Series("streamk_delay_seconds", "gauge", "Time from the timestamp of the last record to its outputs"),
    Series("streamk_batch_seconds", "histogram", "Processing time of a micro-batch"),
    Series("streamk_loss", "gauge", "Running mean of the log loss, or of the absolute error"),
    Series("streamk_error", "gauge", "Running share of wrong labels, or mean absolute error"),
    Series("streamk_drifts_total", "counter", "Rises of the error that ADWIN detected"),
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


class Metrics:
    """The series in a registry of their own, with those of the process and of Python.

    Series whose labels are known in advance start at 0.
    """

    def __init__(self) -> None:
        self.registry = r = CollectorRegistry()
        self._counters: dict[str, Counter] = {}
        self._gauges: dict[str, Gauge] = {}
        self._histograms: dict[str, Histogram] = {}
        self._shown: dict[str, set[str]] = {}  # values of labels that are not known in advance
        made: Counter | Gauge | Histogram
        for name, kind, text, labels in SERIES:
            if kind == "counter":
                made = self._counters[name] = Counter(name, text, [*labels], registry=r)
            elif kind == "gauge":
                made = self._gauges[name] = Gauge(name, text, [*labels], registry=r)
            else:
                made = self._histograms[name] = Histogram(name, text, [*labels], registry=r, buckets=_SECONDS)
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

    def replace(self, name: str, label: str, values: Mapping[str, float]) -> None:
        """Set a gauge for these values of its label, and remove all others."""
        for value in self._shown.get(name, set()) - values.keys():
            self._gauges[name].remove(value)
        self._shown[name] = set(values)
        for value, number in values.items():
            self.set(name, number, **{label: value})

    def follow(self, name: str, value: Callable[[], float]) -> None:
        """Set a gauge at each scrape."""
        self._gauges[name].set_function(value)

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Add an observation to a histogram."""
        histogram = self._histograms[name]
        (histogram.labels(**labels) if labels else histogram).observe(value)
