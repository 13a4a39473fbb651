"""What a test of the daemon stands on: topics of its own, messages, and real processes."""

from __future__ import annotations

import contextlib
import json
import os
import random
import secrets
import signal
import subprocess
import time
from pathlib import Path

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic

from connectors.kafka.producer import LONGEST
from connectors.state.checkpoint import Checkpoint
from connectors.state.disk import CheckpointStore
from tests.processes import Command

from .broker import lacking

# seconds: a daemon that compiles on a loaded machine is not evicted; one that was killed and returns is not
# waited for
SESSION = 20.0
# for tests of what the others get; a broker that is not ours may allow no less than six seconds
SHORT = 6.0 if os.environ.get("STREAMK_TEST_KAFKA") or lacking() else 4.0
LIMIT = 600.0  # seconds: how long the slowest machine may take for what a test waits for


def events(count, seed=1, fields=5):
    """Return events that are worth learning."""
    rng = random.Random(seed)
    found = []
    for i in range(count):
        x = {f"f{j:02d}": round(rng.gauss(0, 1), 6) for j in range(fields)}
        found.append({"id": i, **x, "y": x["f00"] * x["f01"] > 0})
    return found


class Stand:
    def __init__(self, servers, directory, **security):
        self.servers, self.directory, self.security = servers, directory, security
        self.daemons = []
        self.replicas = 1
        self._producer = None

    def __enter__(self):
        self.name = f"t{secrets.token_hex(4)}"
        return self

    def __exit__(self, *details):
        for daemon in self.daemons:
            daemon.end()
        if self._producer is not None:
            self._producer.close(timeout=5)

    def admin(self):
        return contextlib.closing(KafkaAdminClient(bootstrap_servers=self.servers))

    def topics(self, partitions=1, configs=None, names=("in", "out", "dead")):
        """Make topics of this test's own, events and labels with so many partitions."""
        new = [
            NewTopic(
                self.topic(name),
                partitions if name in ("in", "labels") else 1,
                self.replicas,
                topic_configs=configs or {},
            )
            for name in names
        ]
        with self.admin() as admin:
            admin.create_topics(new)

    def topic(self, name):
        return f"{self.name}-{name}"

    def send(self, values, partition=0, topic="in", keys=None, producer=None, **options):
        one = producer or producer_of(self.servers, **options)
        for i, value in enumerate(values):
            body = value if isinstance(value, bytes) else json.dumps(value).encode()
            place = partition(i) if callable(partition) else partition
            one.send(self.topic(topic), body, key=keys[i] if keys else None, partition=place)
        one.flush()
        if producer is None:
            one.close(timeout=5)

    def send_often(self, values, partition=0):
        """Send by one producer for the whole test; it does not see new partitions or another broker."""
        if self._producer is None:
            self._producer = producer_of(self.servers)
        self.send(values, partition, producer=self._producer)

    def read(self, topic="out", partition=0):
        """Return what a reader of committed messages sees in a partition.

        The transaction of a daemon that was killed holds it up until it times out.
        """
        place = TopicPartition(self.topic(topic), partition)
        end = self.end(topic, partition)
        consumer = KafkaConsumer(
            bootstrap_servers=self.servers, isolation_level="read_committed", auto_offset_reset="earliest",
            enable_auto_commit=False, fetch_max_bytes=1 << 28, max_partition_fetch_bytes=1 << 26,
        )  # fmt: skip
        with contextlib.closing(consumer):
            consumer.assign([place])
            consumer.seek_to_beginning(place)
            found = []
            quiet = time.monotonic()
            while consumer.position(place) < end and time.monotonic() - quiet < 2 * LONGEST:
                for records in consumer.poll(500).values():
                    found += records
                    quiet = time.monotonic()
        return found

    def end(self, topic="in", partition=0):
        """Return the offset after the last record of a partition, markers of transactions included."""
        place = TopicPartition(self.topic(topic), partition)
        with contextlib.closing(KafkaConsumer(bootstrap_servers=self.servers)) as consumer:
            return consumer.end_offsets([place])[place]

    def settings(self, name="daemon", **changes):
        """Write the settings of a daemon, and return their path; ``section__key`` changes a key."""
        values = {
            "kafka": {"servers": self.servers.split(","), "session_seconds": SESSION},
            "source": {"kind": "topic", "topic": self.topic("in"), "group": self.name},
            "events": {"target": "y", "ignore": ["id"]},
            "learner": {"name": "kaczmarz", "parameters": {"features": 64}},
            "predictions": {"kind": "topic", "topic": self.topic("out")},
            "dead_letters": {"kind": "topic", "topic": self.topic("dead")},
            "checkpoints": {
                "directory": str(self.directory / f"{name}-checkpoints"),
                "events": 1500,
                "seconds": 0.5,
            },
        }
        for key, value in changes.items():
            section, _, field = key.partition("__")
            if field:
                values.setdefault(section, {})[field] = value
            elif value is None:
                values.pop(section, None)
            else:
                values[section] = value
        path = self.directory / f"{name}.toml"
        path.write_text(toml(values))
        return path

    def start(self, path, environment=None):
        daemon = Daemon(path, environment)
        self.daemons.append(daemon)
        return daemon

    def checkpoint(self, name="daemon"):
        return newest(self.directory / f"{name}-checkpoints")


class CheckedProducer(KafkaProducer):
    """A producer whose ``flush`` raises where the brokers refused a record."""

    def __init__(self, **options):
        super().__init__(**options)
        self._answers = []

    def send(self, *arguments, **details):
        self._answers.append(super().send(*arguments, **details))
        return self._answers[-1]

    def flush(self, timeout=None):
        super().flush(timeout)
        for answer in self._answers:
            answer.get(0)
        self._answers.clear()


def producer_of(servers, **options):
    return CheckedProducer(
        bootstrap_servers=servers, linger_ms=5, batch_size=1 << 17, max_request_size=1 << 26, **options
    )


def newest(directory):
    """Return the newest whole checkpoint, whatever a daemon does there meanwhile."""
    for path in reversed(CheckpointStore(directory).paths()):
        with contextlib.suppress(FileNotFoundError, ValueError):  # pruned meanwhile, or damaged by a test
            return Checkpoint.read(path)
    return None


def toml(values):
    lines = []
    for section, table in values.items():
        lines.append(f"[{section}]")
        lines += [f"{key} = {toml_value(value)}" for key, value in table.items() if value is not None]
    return "\n".join(lines) + "\n"


def toml_value(value):
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml_value(v)}" for key, v in value.items()) + "}"
    return json.dumps(str(value) if isinstance(value, Path) else value)


class Daemon:
    """A daemon in a process of its own."""

    def __init__(self, path, environment=None):
        self.log = path.with_suffix(".log")
        self.log.touch()
        self._since = self.log.stat().st_size
        with self.log.open("ab") as log:
            environment = {**os.environ, **(environment or {})}
            self.process = Command("run", path, stdout=log, stderr=log, env=environment)

    def text(self):
        return self.log.read_text()

    def begun(self):
        """Return whether this process, of those with the same log, has begun to read."""
        return b": reading from " in self.log.read_bytes()[self._since :]

    def _listens(self):
        try:
            status = Path(f"/proc/{self.process.pid}/status").read_text()
        except FileNotFoundError:  # not on Linux
            return True
        caught = int(next(line for line in status.splitlines() if line.startswith("SigCgt")).split()[1], 16)
        return caught >> (signal.SIGTERM - 1) & 1

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self, number=signal.SIGTERM, seconds=LIMIT):
        """Ask the daemon to end, once it listens: what it learned may be its predecessor's work alone."""
        self.until(self._listens)
        self.process.send_signal(number)
        return self.wait(seconds)

    def wait(self, seconds=LIMIT):
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the daemon goes on: {self.text()[-3000:]}") from None

    def end(self):
        if self.process.poll() is None:
            self.kill()

    def until(self, done, seconds=LIMIT):
        """Wait until ``done()``, which must come while the daemon runs."""
        deadline = time.monotonic() + seconds
        while not done():
            assert self.process.poll() is None, f"the daemon ended: {self.text()[-3000:]}"
            assert time.monotonic() < deadline, f"not in {seconds} s: {self.text()[-3000:]}"
            time.sleep(0.05)
