"""Brokers of a cluster of three that are killed while a daemon learns and writes.

Predictions are there exactly once, the model is that of a daemon which nobody disturbs, learning resumes soon
after there are coordinators again, and health and lag say meanwhile what is true.
"""

import json
import random
import time
from collections import Counter

import pytest

from connectors.kafka.client import member_name

from .broker import free_port, lacking
from .cluster import Cluster
from .stand import Stand, newest
from .watching import Events, Watch, silences, untrue

pytestmark = [
    pytest.mark.skipif(bool(lacking()), reason=lacking()),
    pytest.mark.xdist_group("cluster"),
]
SESSION = 6.0  # seconds
RESUMED = 20.0  # seconds after which learning has resumed once there are coordinators
THAWED = 90.0  # the same, where a broker hangs, and requests to it end only by their time
SLACK = 4.0  # seconds: the daemon asks for its lag twice a session


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.kill()


class Disturbed:
    """A daemon on a cluster, events that keep coming, and what happened to both."""

    def __init__(self, cluster, stand, producer):
        self.cluster, self.stand, self.resumed, self.kills = cluster, stand, [], 0
        stand.replicas = 3
        stand.topics()
        cluster.until(cluster.in_sync)
        port = free_port()
        path = stand.settings(
            kafka__producer=producer, kafka__session_seconds=SESSION, checkpoints__seconds=2.0,
            telemetry={"port": port},
        )  # fmt: skip
        self.daemon, self.events, self.watch = stand.start(path), Events(stand), Watch(port)
        self.events.start()
        self.watch.start()
        self.daemon.until(lambda: self.watch.learned() > 1000)
        self._begun = len(self.watch.samples)
        identity = (stand.directory / "daemon-checkpoints" / "identity").read_text()
        self.names = {"group": stand.name, "transaction": member_name(identity.strip())}

    def coordinator(self, kind):
        return self.cluster.coordinator(kind, self.names[kind])

    def kill(self, *numbers):
        self.cluster.kill(*numbers)
        self.kills += len(numbers)

    def resume(self):
        """Wait until there are coordinators and events to learn, and until they are learned."""
        since, before = time.monotonic(), self.watch.learned()
        self.cluster.until(lambda: all(self.coordinator(kind) for kind in self.names))
        self.cluster.until(lambda: self.events.taken[-1][0] > since + 0.5)
        able = time.monotonic()
        self.daemon.until(lambda: self.watch.learned() != before)
        self.resumed.append(time.monotonic() - able)

    def finish(self):
        """Stop all, and compare predictions and model with those of an undisturbed daemon."""
        self.cluster.start()
        self.events.stop()
        count = self.stand.end()
        assert count > 1000
        self.daemon.until(lambda: (c := self.stand.checkpoint()) and c.learner().events == count)
        self.watch.stop()
        assert self.daemon.stop() == 0
        found = Counter(json.loads(record.value)["offset"] for record in self.stand.read())
        assert found == Counter(range(count))
        path = self.stand.settings(
            "undisturbed", source__group=f"{self.stand.name}-2", predictions=None, dead_letters=None
        )
        other, directory = self.stand.start(path), self.stand.directory / "undisturbed-checkpoints"
        other.until(lambda: (c := newest(directory)) and c.learner().events == count)
        assert other.stop() == 0
        assert self.stand.checkpoint().learner().to_bytes() == newest(directory).learner().to_bytes()

    def untrue(self):
        """Return the samples with a readiness or a lag that is not true, but for the session and a slack."""
        return untrue(self.watch.samples[self._begun :], self.events.taken, SESSION, SLACK)

    def report(self):
        samples = self.watch.samples[self._begun :]
        quiet = [round(samples[b].at - samples[a].at, 1) for a, b in silences(samples, 2.0)]
        waits = [round(seconds, 1) for seconds in self.resumed]
        untrue = self.untrue()
        return (
            f"{self.kills} kills, resumed after {waits}, silences {quiet}, untrue {len(untrue)} {untrue[:3]}"
        )


def test_a_coordinator_is_killed(cluster, tmp_path):
    """The transaction resumes on another node, and every prediction is written once.

    How long that may take, and what health says meanwhile, is tested by the long tests.
    """
    with Stand(cluster.servers, tmp_path) as stand:
        run = Disturbed(cluster, stand, "kafka-python")
        run.kill(run.coordinator("transaction") or 1)
        run.resume()
        run.finish()


def single(run, rng, number):
    """Kill one node, in turn that of a coordinator and any one, and restart it later."""
    kinds = [run.coordinator("transaction"), run.coordinator("group"), rng.choice([1, 2, 3])]
    run.kill(kinds[number % 3] or 1)
    run.resume()
    run.cluster.start()


def in_turn(run, rng, number):
    """Kill one after the other, each restarted before the next one, however far it has come."""
    for node in rng.sample([1, 2, 3], 3):
        run.kill(node)
        time.sleep(rng.uniform(0.1, 3.0))
        run.cluster.start()
        time.sleep(rng.uniform(0.1, 2.0))
    run.resume()


def all_at_once(run, rng, number):
    """Kill all of them, and restart them together."""
    run.kill(1, 2, 3)
    time.sleep(rng.uniform(0.1, 8.0))
    run.cluster.start()
    run.resume()


def hangs(run, rng, number):
    """Freeze the node of a coordinator, which keeps its connections, and let it go on later."""
    kinds = [run.coordinator("transaction"), run.coordinator("group")]
    run.cluster.nodes[kinds[number % 2] or 1].freeze()
    run.resume()
    time.sleep(rng.uniform(0.0, 5.0))
    run.cluster.start()


ROUNDS = {single: 10, in_turn: 3, all_at_once: 4, hangs: 4}  # 31 kills for each producer


@pytest.mark.long
@pytest.mark.parametrize("producer", ["kafka-python", "confluent-kafka"])
@pytest.mark.parametrize("kill", ROUNDS, ids=lambda kill: kill.__name__)
def test_brokers_are_killed(cluster, tmp_path, producer, kill):
    cluster.start()
    rng = random.Random(f"{producer} {kill.__name__}")
    with Stand(cluster.servers, tmp_path) as stand:
        run = Disturbed(cluster, stand, producer)
        for number in range(ROUNDS[kill]):
            cluster.until(cluster.in_sync)
            time.sleep(rng.uniform(0.5, 2.0))
            kill(run, rng, number)
        run.finish()
        print(f"{producer}, {kill.__name__}: {run.report()}")
        assert max(run.resumed) < (THAWED if kill is hangs else RESUMED), run.report()
        assert kill is hangs or run.untrue() == [], run.report()
