"""Faults at random for twenty-four rounds: exact counts, or an exit code with its remedy (``make long``).

Every round sends good and bad events and does one thing to the daemon, the broker or the settings. Faults
that end the daemon must end it with their code; once the remedy is applied, it continues. In the end the
model has learned every good event once, in order, and every prediction and dead letter was written once.
``STREAMK_TEST_ROUNDS`` and ``STREAMK_TEST_SEED`` set another number of rounds and another order.
"""

import json
import os
import random
import signal
import time

import pytest
from kafka import OffsetAndMetadata, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType

import streamk
from connectors.contract.errors import AWAY, CHECKPOINT, DENIED, POSITION, SINK

from ..kafka.partition_models import command
from ..kafka.stand import events
from ..kafka.test_permissions import Guarded, authorizing, documented  # noqa: F401 (a fixture)

pytestmark = pytest.mark.long
ROUNDS, SEED = int(os.environ.get("STREAMK_TEST_ROUNDS", 24)), int(os.environ.get("STREAMK_TEST_SEED", 1))
GOOD, LARGE = 200, 900_000  # events a round, and bytes of a large record


class Campaign:
    """A daemon, what was sent to it, and what it must have learned."""

    def __init__(self, stand, broker):
        self.stand, self.broker, self.rng = stand, broker, random.Random(SEED)
        self.learner = streamk.KaczmarzClassifier(features=64, seed=0)
        self.allowed = documented()[0]
        self.sent = self.good = self.bad = 0  # records of this topic, and of all topics by their fate
        self.daemon = None

    def settings(self, **changes):
        return self.stand.guarded(checkpoints__events=150, events__tombstones="skip", **changes)

    def send(self):
        """Send the events of a round, some of them bad, and let the reference learn the good ones."""
        records = []
        for x in events(GOOD, self.rng.randrange(10**6)):
            if self.rng.random() < 0.03:
                bad = self.rng.choice([b"{", b"[" + b"1," * (LARGE // 2), b'{"f00": {}, "y": true}', b"\xff"])
                records.append(bad)
                self.bad += 1
            records.append({key: value for key, value in x.items() if key != "id"})
            self.learner.learn_one({k: v for k, v in x.items() if k not in ("id", "y")}, x["y"])
            self.good += 1
        self.stand.send(records)
        self.sent += len(records)

    def start(self, **changes):
        self.daemon = self.stand.start(self.settings(**changes))

    def ends(self, code):
        """Let the daemon end with this code."""
        assert self.daemon.wait(120) == code, self.daemon.text()[-2000:]

    def settle(self):
        """Let the daemon read to the end of the topic."""
        deadline = time.monotonic() + 180
        while not self.has_read():
            assert time.monotonic() < deadline, self.daemon.text()[-2000:]
            if self.daemon.process.poll() is not None:  # it was started while no broker answered
                self.ends(AWAY)
                self.start()
            time.sleep(0.1)

    def has_read(self):
        checkpoint = self.stand.checkpoint()
        progress = checkpoint and checkpoint.partitions.get(f"{self.stand.topic('in')}-0")
        return bool(progress) and progress.position == self.sent

    # ---- faults

    def kill(self):
        self.send()
        time.sleep(self.rng.uniform(0.0, 2.0))
        self.daemon.kill()
        self.start()

    def freeze(self):
        """Stop the process for longer than its session in the group."""
        self.daemon.process.send_signal(signal.SIGSTOP)
        self.send()
        time.sleep(5.0)
        self.daemon.process.send_signal(signal.SIGCONT)

    def broker_killed(self):
        self.send()
        self.broker.kill()
        time.sleep(2.0)
        self.broker.start()

    def permission_denied(self):
        row = self.rng.choice(self.allowed)
        kinds, name, pattern, operations = row
        self.stand.set(self.allowed, [(kinds, name, pattern, operations.split(", ")[-1])])
        if kinds != "topic" or "source" not in name:
            self.send()
        self.daemon.kill()  # a session that reads may keep what it was allowed
        self.start()
        if self.daemon.wait(120) not in (DENIED, 2):  # topics that must not be described look missing
            raise AssertionError(self.daemon.text()[-2000:])
        self.stand.set(self.allowed)
        self.send()
        self.start()

    def group_deleted(self):
        self.settle()
        assert self.daemon.stop() == 0
        with self.stand.admin() as admin:
            admin.delete_groups([self.stand.name])
        self.send()
        self.start()
        self.ends(POSITION)
        done = command("reset", self.settings(), "--to", "checkpoint")
        assert done.returncode == 0, done.stderr
        self.start()

    def position_moved(self):
        self.settle()
        assert self.daemon.stop() == 0
        with self.stand.admin() as admin:
            place = TopicPartition(self.stand.topic("in"), 0)
            admin.alter_group_offsets(self.stand.name, {place: OffsetAndMetadata(self.sent // 2, "", -1)})
        self.send()
        self.start()
        self.ends(POSITION)
        assert command("reset", self.settings(), "--to", "checkpoint").returncode == 0
        self.start()

    def settings_changed(self):
        assert self.daemon.stop() == 0
        self.send()
        self.start(events__target="f01")
        self.ends(CHECKPOINT)
        self.start(limits__consecutive=500)  # which is no change of what events teach

    def second_model(self):
        other = self.stand.guarded("other", events__ignore=["f00"], source__blank=True)
        intruder = self.stand.start(other)
        self.send()
        assert intruder.wait(120) == CHECKPOINT
        if self.daemon.process.poll() is not None:  # both may have noticed
            self.ends(CHECKPOINT)
            self.start()

    def topic_made_anew(self):
        self.settle()
        with self.stand.admin() as admin:
            admin.delete_topics([self.stand.topic("in")])
        time.sleep(2.0)
        self.sent = 0
        self.stand.topics(names=("in",))
        self.send()
        if self.daemon.wait(120) == 2:  # it looked while there was no such topic
            self.start()
            self.daemon.wait(120)
        assert self.daemon.process.poll() == POSITION
        self.start(source__expired="earliest")
        self.settle()
        assert self.daemon.stop() == 0
        self.start()

    def compacted(self):
        """Predictions without keys do not go into a compacted topic."""
        self._policy("compact")
        self.send()
        self.ends(SINK)
        self._policy("delete")
        self.start()

    def _policy(self, value):
        topic = self.stand.topic("out")
        with self.stand.admin() as admin:
            admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"cleanup.policy": value})])

    def check(self):
        self.settle()
        assert self.daemon.stop() == 0
        assert self.stand.checkpoint().learner().to_bytes() == self.learner.to_bytes()
        predictions = [json.loads(record.value) for record in self.stand.read("out")]
        assert len(predictions) == self.good
        assert len(self.stand.read("dead")) == self.bad


FAULTS = [
    Campaign.kill, Campaign.freeze, Campaign.broker_killed, Campaign.permission_denied,
    Campaign.group_deleted, Campaign.position_moved, Campaign.settings_changed, Campaign.second_model,
    Campaign.topic_made_anew, Campaign.compacted,
]  # fmt: skip


def test_faults_end_in_exact_counts_or_in_an_exit_code(authorizing, tmp_path):  # noqa: F811
    with Guarded(authorizing, tmp_path) as stand:
        campaign = Campaign(stand, authorizing)
        stand.topics()
        stand.set(campaign.allowed)
        campaign.send()
        campaign.start()
        plan = [FAULTS[k % len(FAULTS)] for k in range(ROUNDS)]
        campaign.rng.shuffle(plan)
        for k, fault in enumerate(plan):
            print(f"round {k + 1} of {len(plan)}: {fault.__name__}", flush=True)
            fault(campaign)
            campaign.settle()
        campaign.check()
