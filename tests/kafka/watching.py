"""A daemon watched from outside while brokers are killed: its health, its lag, and when it learns again."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import re
import threading
import time
import urllib.error
import urllib.request
from bisect import bisect_right
from typing import NamedTuple

from .stand import events

LEARNED = re.compile(r'^streamk_events_total{result="learned"} (\S+)', re.M)
LAG = re.compile(r"^streamk_lag{.*} (\S+)", re.M)
STEP = 0.1  # seconds between two samples


def answer(port, path):
    """Return the code and the body of a daemon's answer, None while it does not listen."""
    with contextlib.suppress(ConnectionError, TimeoutError):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=5) as found:
                return found.status, found.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except urllib.error.URLError:
            return None


class Sample(NamedTuple):
    """What a daemon says: events learned, the sum of the lags (NaN where it is not known), and readiness."""

    at: float
    learned: float
    lag: float
    ready: bool
    healthy: bool
    why: str


class Watch(threading.Thread):
    """Samples a daemon until told to stop."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self._port, self._ended, self.samples = port, threading.Event(), []

    def run(self):
        while not self._ended.wait(STEP):
            at = time.monotonic()
            metrics, ready, healthy = (answer(self._port, p) for p in ("metrics", "ready", "healthz"))
            if metrics and ready and healthy:
                learned, lags = LEARNED.search(metrics[1]), LAG.findall(metrics[1])
                lag = sum(map(float, lags)) if lags else math.nan  # without partitions there is none
                found = Sample(
                    at, float(learned[1]), lag, ready[0] == 200, healthy[0] == 200, ready[1].strip()
                )
                self.samples.append(found)

    def stop(self):
        self._ended.set()
        self.join()

    def learned(self):
        """Return how many events were learned by now."""
        return self.samples[-1].learned if self.samples else 0.0


class Events(threading.Thread):
    """Sends events to one partition at a pace, through whatever happens to the brokers.

    Attributes
    ----------
    taken : list of (float, int)
        When the fate of all that was sent was known, and how many events the brokers had taken.
    """

    def __init__(self, stand, rate=500):
        import confluent_kafka

        super().__init__(daemon=True)
        self._topic, self._rate, self._ended = stand.topic("in"), rate, threading.Event()
        self.taken, self._count, self._delivered = [], 0, 0
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": stand.servers, "enable.idempotence": True, "linger.ms": 5,
                "reconnect.backoff.max.ms": 500, "retry.backoff.max.ms": 500, "message.timeout.ms": 600_000,
            },
            logger=logging.getLogger(__name__),
        )  # fmt: skip

    def run(self):
        made = events(5000)
        while not self._ended.wait(STEP):
            for _ in range(int(self._rate * STEP)):
                event = {**made[self._count % len(made)], "id": self._count}
                self._producer.produce(self._topic, json.dumps(event), partition=0, on_delivery=self._note)
                self._count += 1
            while self._producer.flush(1.0) and not self._ended.is_set():
                pass
            self.taken.append((time.monotonic(), self._delivered))

    def _note(self, error, message):
        """Count a message, unless the brokers lost it with its producer's identity."""
        self._delivered += error is None

    def stop(self):
        self._ended.set()
        self.join()
        assert self._producer.flush(120) == 0


def silences(samples, least):
    """Return the spans without a learned event that took longer, as first and last sample of each.

    A change of the counter to less is a new process.
    """
    found, since = [], 0
    for i in range(1, len(samples)):
        if samples[i].learned != samples[since].learned:
            if samples[i - 1].at - samples[since].at > least:
                found.append((since, i - 1))
            since = i
    return found


def untrue(samples, taken, seconds, slack):
    """Return the samples that contradict what the brokers had taken, with the reason.

    A lag is wrong if it is less than what the brokers had taken ``seconds`` ago and was not learned, and
    readiness if nothing was learned of that for so long; both if it lasts, since a new leader of a partition
    may give an end that is too low at first.

    Parameters
    ----------
    taken
        Of :class:`Events`.
    slack
        Seconds for which both may be wrong.
    """
    wrong, times, least = [], [at for at, _ in taken], seconds + slack
    learned_at = unready_at = right_at = samples[0].at  # when that was last so
    before = samples[0]
    for sample in samples:
        if sample.learned != before.learned:
            learned_at = sample.at
        if not sample.ready:
            unready_at = sample.at
        before = sample
        k = bisect_right(times, sample.at - least)
        waiting = (taken[k - 1][1] if k else 0) - sample.learned
        if not sample.lag < waiting:
            right_at = sample.at
        if waiting > 0 and min(sample.at - learned_at - seconds, sample.at - unready_at) > slack:
            wrong.append(("ready", round(sample.at - learned_at, 1), sample))
        if sample.at - right_at > slack:
            wrong.append(("lag", waiting, sample))
    return wrong
