"""Where either producer sends what has a key, in which order, and what a topic takes only in parts."""

import json

import pytest
from kafka.admin import NewTopic
from kafka.partitioner.default import murmur2

from .stand import events
from .test_confluent import PRODUCERS, written
from .test_daemon import learned


@pytest.fixture(params=PRODUCERS)
def producer(request):
    return request.param


def test_a_key_is_sent_where_every_client_sends_it(stand, producer):
    stand.topics(names=("in", "dead"))
    with stand.admin() as admin:
        admin.create_topics([NewTopic(stand.topic("out"), 3, 1)])
    keys = [f"key {i % 211}".encode() for i in range(900)]
    keys[450] = None
    stand.send(events(900), keys=keys)
    daemon = stand.start(stand.settings(kafka__producer=producer))
    daemon.until(learned(stand, 900))
    assert daemon.stop() == 0
    found = {}
    for partition in range(3):
        offsets = [json.loads(r.value)["offset"] for r in stand.read(partition=partition)]
        assert [i for i in offsets if i != 450] == sorted(i for i in offsets if i != 450)
        found |= dict.fromkeys(offsets, partition)
    assert sorted(found) == list(range(900))
    for i, key in enumerate(keys):
        assert key is None or found[i] == (murmur2(key) & 0x7FFFFFFF) % 3


def test_events_with_and_without_keys_keep_their_order(stand, producer):
    stand.topics()
    stand.send(events(300), keys=[None if i % 3 else b"k" for i in range(300)])
    daemon = stand.start(stand.settings(kafka__producer=producer))
    daemon.until(learned(stand, 300))
    assert daemon.stop() == 0
    assert written(stand) == list(range(300))


def test_predictions_that_the_topic_takes_in_parts(stand, producer):
    """What travels together is larger than the topic takes at once."""
    stand.topics(names=("in", "dead"))
    stand.topics(names=("out",), configs={"max.message.bytes": "3000"})
    stand.send(events(1500))
    daemon = stand.start(stand.settings(kafka__producer=producer))
    daemon.until(learned(stand, 1500))
    assert daemon.stop() == 0
    assert written(stand) == list(range(1500))
