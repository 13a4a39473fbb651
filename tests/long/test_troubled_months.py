"""Ten million events through daemons that are killed, paused, evicted, cut off and rotated (``make long``).

A daemon and its twin share a topic of four partitions. The twin is killed and stopped; the other lives
through it all, and must neither lose its count nor grow. A third follows a log that is rotated.
``STREAMK_TEST_EVENTS`` sets another number of events.
"""

import contextlib
import gc
import json
import os
import random
import signal
import threading
import time

import psutil
import pytest
from kafka import KafkaProducer
from kafka import errors as kafka_errors

from ..kafka.conftest import broker  # noqa: F401 (a fixture)
from ..kafka.stand import SHORT, Stand, events

pytestmark = pytest.mark.long
EVENTS, SESSIONS = int(os.environ.get("STREAMK_TEST_EVENTS", 10_000_000)), 24
PARTITIONS = 4
GROWTH, DESCRIPTORS = 30e6, 8  # bytes and files by which a process may grow


class Traffic(threading.Thread):
    """Sends what it is told to, whatever the broker does, and counts what has arrived."""

    def __init__(self, servers, topic):
        super().__init__(daemon=True)
        self._servers, self._topic, self._due = servers, topic, 0
        self._bodies = [json.dumps(x).encode() for x in events(1000)]
        self.sent, self._ended = 0, threading.Event()

    def send(self, count):
        self._due += count

    def run(self):
        """Send a thousand at a time; what is not acknowledged is sent again by the client alone."""
        producer = KafkaProducer(
            bootstrap_servers=self._servers, linger_ms=20, batch_size=1 << 17, delivery_timeout_ms=600_000,
            max_block_ms=600_000, retries=2**31 - 1,
        )  # fmt: skip
        while not self._ended.wait(0.001):
            if self.sent < self._due:
                for i, body in enumerate(self._bodies):
                    producer.send(self._topic, body, partition=(self.sent + i) % PARTITIONS)
                producer.flush()
                self.sent += len(self._bodies)
        producer.close(timeout=10)

    def stop(self):
        self._ended.set()
        self.join()


class Health:
    """What a process takes, from when it has begun to work."""

    def __init__(self, process):
        self._process, self.sizes, self.files = psutil.Process(process.pid), [], []

    def look(self):
        self.sizes.append(self._process.memory_info().rss)
        self.files.append(self._process.num_fds())

    def flat(self):
        """Check both; sockets of connections that were refused come and go, so what counts is what stays."""
        early = len(self.sizes) // 4
        assert max(self.sizes[early:]) - self.sizes[early] < GROWTH, self.sizes
        assert min(self.files[-early:]) - min(self.files[:early]) <= DESCRIPTORS // 2, self.files


def learned(stand, *names):
    """Return how many events the checkpoints of some daemons hold."""
    found = [checkpoint for name in names if (checkpoint := stand.checkpoint(name)) is not None]
    return sum(progress.learned for checkpoint in found for progress in checkpoint.partitions.values())


def trouble(kind, stand, broker, twin, path):  # noqa: F811
    """Do something to a daemon or to the broker; return the twin."""
    if kind == "kill":
        twin.kill()
    elif kind == "stop":
        assert twin.stop() == 0
    elif kind == "pause":  # longer than the group waits: it comes back evicted
        twin.process.send_signal(signal.SIGSTOP)
        time.sleep(2 * SHORT)
        twin.process.send_signal(signal.SIGCONT)
        return twin
    elif kind == "broker killed":
        broker.kill()
        time.sleep(1.0)
        broker.start()
    else:
        broker.stop()
        time.sleep(3.0)
        broker.start()
    if twin.process.poll() is None:
        return twin
    time.sleep(random.Random(stand.name).uniform(0.0, 2 * SHORT))
    return stand.start(path)


@pytest.fixture
def collected():
    """Collect what the client left when the test has let go of it, and while that is borne."""
    yield
    for _ in range(3):
        gc.collect()


# the client that sends leaves sockets to the garbage collector while the broker is away
@pytest.mark.filterwarnings("ignore:.*unclosed <socket", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_ten_million_events_and_twenty_four_sessions(collected, broker, tmp_path):  # noqa: F811
    rng = random.Random(24)
    kinds = ["kill", "stop", "pause", "broker killed", "broker stopped", "kill"] * (SESSIONS // 6)
    rng.shuffle(kinds)
    with Stand(broker.servers, tmp_path) as stand:
        stand.topics(partitions=PARTITIONS)
        bare = {"predictions": None, "source__blank": True, "checkpoints__events": 50_000}
        bare["kafka__session_seconds"] = SHORT
        paths = {name: stand.settings(name, **bare) for name in ("steady", "twin")}
        log = tmp_path / "log.jsonl"
        log.touch()
        followed = stand.settings(
            "follower", source={"kind": "file", "path": log, "follow": True}, predictions=None
        )
        steady, twin, follower = (stand.start(path) for path in (*paths.values(), followed))
        lines = [json.dumps(x) + "\n" for x in events(2000, 9)]
        log.write_text("".join(lines))
        written = len(lines)
        follower.until(lambda: learned(stand, "follower") == written, 120)  # else it misses what came before
        traffic = Traffic(broker.servers, stand.topic("in"))
        traffic.start()
        health = Health(steady.process), Health(follower.process)
        for number, kind in enumerate(kinds, 1):
            traffic.send(EVENTS // SESSIONS // 1000 * 1000)
            for part in range(3):
                with log.open("a") as file:
                    file.writelines(lines)
                written += len(lines)
                time.sleep(0.2)
                log.rename(tmp_path / f"log.jsonl.{number}{part}")
                log.touch()
            with contextlib.suppress(kafka_errors.KafkaError):
                twin = trouble(kind, stand, broker, twin, paths["twin"])
            deadline = time.monotonic() + 900
            while learned(stand, "steady", "twin") < traffic._due:
                assert time.monotonic() < deadline, f"stuck after {kind}: {steady.text()[-2000:]}"
                assert steady.process.poll() is None, steady.text()[-2000:]
                time.sleep(0.5)
            for one in health:
                one.look()
        traffic.stop()
        follower.until(lambda: learned(stand, "follower") >= written)
        assert [one.stop() for one in (steady, twin, follower)] == [0, 0, 0]
        assert traffic.sent == EVENTS // SESSIONS // 1000 * 1000 * SESSIONS
        assert learned(stand, "steady", "twin") == traffic.sent
        assert sum(stand.checkpoint(name).learner().events for name in ("steady", "twin")) == traffic.sent
        assert learned(stand, "follower") == written
        for one in health:
            one.flat()
