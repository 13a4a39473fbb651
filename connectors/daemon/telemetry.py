"""What the outside sees of a daemon: metrics and health."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
from numpy.typing import NDArray
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)

from connectors.daemon.operator import Tally
from connectors.daemon.outputs import Outcome
from connectors.stream import USAGE, Failure
from streamk.learners import Learner

LEAST = 1e-15  # probability of a label, below which the loss grows no more
_REQUEST, _AT_ONCE = 5.0, 16  # seconds for a request; requests that are answered at once
_GROUP = 32  # events whose mean error the drift detector takes as one observation


class Telemetry:
    """Metrics of one run, and whether it advances.

    Parameters
    ----------
    task
        ``"classification"``: the loss is the log loss and the error 0 or 1; ``"regression"``: both are the
        absolute error.
    window
        Events over which loss and error are running means.
    stall
        Seconds without an advance, while events wait, after which the run is not healthy.
    """

    def __init__(self, task: str, window: int = 1000, stall: float = 60.0) -> None:
        from river import drift  # takes a second, which other commands need not wait

        self._classes, self._stall = task == "classification", stall
        self._losses = np.full((2, window), np.nan)
        self._scored = 0
        self._means: list[float] = []
        self._group: list[float] = []
        self._detector: Any = drift.ADWIN()
        self._beaten = self._advanced = time.monotonic()
        self._waiting = 0
        self._waited_since = 0.0
        self._checkpointed = math.nan
        self._models: dict[str, tuple[int, int]] = {}  # features and events
        self._interruption: tuple[float, int, str, bool] | None = None  # since, sessions, reason, absence
        self.ready = False
        self.registry = r = CollectorRegistry()
        self._events = Counter("streamk_events", "Events by what became of them", ["result"], registry=r)
        self._lag = Gauge("streamk_lag", "Records (bytes of a log) not read yet", ["partition"], registry=r)
        self._seconds = Histogram(
            "streamk_batch_seconds", "Time from the poll of a batch to its outputs", registry=r,
            buckets=(0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0),
        )  # fmt: skip
        self._delay = Gauge(
            "streamk_delay_seconds", "From the time of the last record to its outputs", registry=r
        )
        self._loss = Gauge(
            "streamk_loss", "Running mean of the log loss, or of the absolute error", registry=r
        )
        self._error = Gauge("streamk_error", "Running share of wrong labels, or absolute error", registry=r)
        self._drifts = Counter("streamk_drifts", "Changes of the error that ADWIN detected", registry=r)
        self._features = Gauge("streamk_features", "Random features in use, of all models", registry=r)
        self._learned = Gauge("streamk_model_events", "Events that the models have learned", registry=r)
        self._bytes = Gauge("streamk_checkpoint_bytes", "Size of the last checkpoint", registry=r)
        self._restarts = Counter("streamk_restarts", "Sessions restarted from the checkpoint", registry=r)
        age = Gauge("streamk_checkpoint_age_seconds", "Time since the last checkpoint", registry=r)
        age.set_function(lambda: time.monotonic() - self._checkpointed)
        for result in Tally._fields:
            self._events.labels(result)

    def beat(self) -> None:
        """Say that the loop goes round."""
        self._beaten = time.monotonic()

    def worked(self, tally: Tally, seconds: float, timestamp: int | None) -> None:
        """Count records that took so long; the last has this time, in milliseconds since the epoch."""
        self.beat()
        self._advanced = self._beaten
        self._seconds.observe(seconds)
        if timestamp is not None:
            self._delay.set(time.time() - timestamp / 1000)
        for result, count in tally._asdict().items():
            self._events.labels(result).inc(count)

    def learned(self, outcomes: Sequence[Outcome], learner: Learner, place: str = "") -> None:
        """Follow the losses of predictions, and the model, one of several if it has a place."""
        losses = [
            self._score(outcome.event.target, outcome.prediction)
            for outcome in outcomes
            if outcome.event is not None and outcome.event.target is not None
        ]
        self.scored(np.array(losses).T, learner, place)

    def scored(self, losses: NDArray[np.float64], learner: Learner, place: str = "") -> None:
        """Follow losses and errors, two rows, and the model."""
        if losses.size:
            self._follow(losses)
        self._models[place] = learner.feature_count, learner.events
        self._add_up()

    def forget(self, place: str) -> None:
        """Count the model of a place no more."""
        self._models.pop(place, None)
        self._add_up()

    def _add_up(self) -> None:
        self._features.set(sum(features for features, _ in self._models.values()))
        self._learned.set(sum(events for _, events in self._models.values()))

    def _score(self, target: Any, prediction: Any) -> tuple[float, float]:
        if not self._classes:
            error = abs(float(target) - prediction)
            return error, error
        p = prediction.get(target, 0.0)
        if p > 0.5:
            return -math.log(p), 0.0
        wrong = p <= 0.0 or p < max(prediction.values())
        return -math.log(max(p, LEAST)), float(wrong)

    def _follow(self, losses: NDArray[np.float64]) -> None:
        window = self._losses.shape[1]
        places = np.arange(self._scored, self._scored + losses.shape[1])[-window:] % window
        self._losses[:, places] = losses[:, -window:]
        self._scored += losses.shape[1]
        self._means = np.nanmean(self._losses, axis=1).tolist()
        self._loss.set(self._means[0])
        self._error.set(self._means[1])
        self._group += losses[1].tolist()
        while len(self._group) >= _GROUP:
            self._detector.update(float(np.mean(self._group[:_GROUP])))
            del self._group[:_GROUP]
            if self._detector.drift_detected:
                self._drifts.inc()

    def figures(self) -> dict[str, float]:
        """Return events learned, the running loss and error, and how many records wait, for the log."""
        means = dict(zip(("loss", "error"), (round(mean, 4) for mean in self._means), strict=False))
        events = sum(events for _, events in self._models.values())
        return {"events": events, **means, "waiting": self._waiting}

    def waiting(self, lag: Mapping[str, int]) -> None:
        """Take the lag of every partition."""
        if not self._waiting:
            self._waited_since = time.monotonic()
        self._waiting = sum(lag.values())
        self._lag.clear()
        for partition, records in lag.items():
            self._lag.labels(partition).set(records)

    def checkpointed(self, size: int) -> None:
        """Note a checkpoint of so many bytes."""
        self._checkpointed = time.monotonic()
        self._bytes.set(size)

    def restarted(self, reason: str = "", away: bool = False) -> None:
        """Note that the session restarts from its checkpoint, and why; ``away`` if no broker answered."""
        self._restarts.inc()
        since, sessions, *_ = self._interruption or (time.monotonic(), 0)
        self._interruption = since, sessions + 1, reason, away
        self._models.clear()
        self.ready, self._waiting = False, 0  # what waits is not known until the source is open again

    def progressed(self) -> None:
        """Note that positions were committed: the session works."""
        self._interruption = None

    def caught_up(self) -> None:
        """Note that everything read is saved; if nothing waits either, there is no progress to make."""
        if not self._waiting:
            self._interruption = None

    def ailing(self) -> str:
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

    def serve(self, host: str, port: int) -> ThreadingHTTPServer:
        """Answer ``/metrics``, ``/healthz`` and ``/ready`` on a thread.

        Raises
        ------
        Failure
            If the port cannot be had.
        """
        telemetry = self

        class Answers(BaseHTTPRequestHandler):
            timeout = _REQUEST  # seconds: a client that says nothing must not hold a thread

            def do_GET(self) -> None:
                code, kind, body = telemetry._answer(self.path.partition("?")[0])
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
            why = getattr(error, "strerror", None) or error
            raise Failure(USAGE, f"telemetry.port: {host}:{port} cannot be used: {why}") from None
        threading.Thread(target=server.serve_forever, name="telemetry", daemon=True).start()
        return server

    def _answer(self, path: str) -> tuple[int, str, bytes]:
        text = "text/plain; charset=utf-8"
        if path == "/metrics":
            return 200, CONTENT_TYPE_LATEST, generate_latest(self.registry)
        if path in ("/healthz", "/ready"):
            trouble = self.ailing()
            if path == "/ready" and not self.ready:
                trouble = trouble or "the checkpoint is not loaded yet, or the source is not open"
            return (503 if trouble else 200), text, (trouble or "ok").encode() + b"\n"
        return 404, text, b"there are /metrics, /healthz and /ready\n"


class _Server(ThreadingHTTPServer):
    """Answers so many requests at once at most; one more is hung up on."""

    daemon_threads = True

    def __init__(self, *arguments: Any) -> None:
        self._free = threading.BoundedSemaphore(_AT_ONCE)
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that hang up or are silent."""
