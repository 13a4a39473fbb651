"""A new epoch of the producer after an end of a transaction that is not clear, and waits that end."""

import threading

import pytest
from kafka import errors as kafka_errors

from connectors.contract.errors import BrokerUnavailable, Failure, Interruption
from connectors.kafka import producer as module
from connectors.kafka.coordination import Coordination, patient
from connectors.kafka.producer import Transactions

from .stand import events
from .test_confluent import PRODUCERS, go_on, opened, written

GROUP = "group"


class Played:
    """A producer whose commits wait, fail, or lose the coordinator, as the test has it."""

    def __init__(self, made, commit=lambda: None):
        self.calls, self.lost, self._commit = [], False, commit
        made.append(self)

    def commit(self, offsets, member):
        self.calls.append("commit")
        self._commit()

    def unclear(self):
        return self.lost

    def __getattr__(self, name):
        return lambda *arguments: self.calls.append(name)


def test_a_clear_end_keeps_the_epoch():
    made = []
    transactions = Transactions(lambda: Played(made))
    for _ in range(2):
        transactions.begin()
        assert transactions.commit({}, GROUP)
    transactions.close()
    assert [each.calls for each in made] == [["open", "begin", "commit", "begin", "commit", "close"]]


def test_a_lost_coordinator_ends_the_epoch():
    made = []
    transactions = Transactions(lambda: Played(made))
    transactions.begin()
    made[0].lost = True
    assert not transactions.commit({}, GROUP)
    transactions.begin()
    assert transactions.commit({}, GROUP)
    transactions.close()
    assert [each.calls for each in made] == [
        ["open", "begin", "commit", "close"],
        ["open", "begin", "commit", "close"],
    ]


def waiting():
    """Return a producer's transactions, the producers, and what lets their commits end."""
    made, release = [], threading.Event()

    def commit():
        assert release.wait(60)

    return made, release, commit


def test_a_wait_ends_when_a_topic_is_gone(monkeypatch):
    monkeypatch.setattr(module, "_LOOK", 0.0)
    made, release, commit = waiting()

    def look():
        raise Failure(2, "there is no topic")

    transactions = Transactions(lambda: Played(made, commit), look)
    transactions.begin()
    with pytest.raises(Failure, match="no topic"):
        transactions.commit({}, GROUP)
    transactions.close()  # which does not wait for the call either
    assert made[0].calls == ["open", "begin", "commit", "discard"]
    release.set()


def test_a_wait_ends_some_time_after_the_coordinator_was_lost(monkeypatch):
    monkeypatch.setattr(module, "_LOST", 0.0)
    made, release, commit = waiting()
    transactions = Transactions(lambda: Played(made, commit))
    transactions.begin()
    made[0].lost = True
    with pytest.raises(BrokerUnavailable, match="since its coordinator was lost"):
        transactions.commit({}, GROUP)
    transactions.close()
    assert made[0].calls == ["open", "begin", "commit", "discard"]
    release.set()


def test_only_the_loss_of_a_known_coordinator_counts():
    """The first look-up of each kind finds none."""
    found, coordinators, looked = Coordination(), {}, []
    look_up = found.observed(lambda kind, key: looked.append((kind, key)), coordinators.get)
    look_up("transaction", "name")
    assert not found.lost
    coordinators["transaction"] = 3
    look_up("group", "name")
    assert not found.lost
    look_up("transaction", "name")
    assert found.lost
    assert len(looked) == 3


def lose(sink, producer):
    """Let a producer note that it has lost its coordinator."""
    if producer == "kafka-python":
        sink._producer._coordination.lost = True
    else:
        sink._producer.log(20, "%s", "Disconnected (after 7ms in state UP)")


@pytest.mark.parametrize("producer", PRODUCERS)
def test_a_session_continues_in_a_new_epoch(stand, producer):
    stand.topics()
    path = stand.settings(kafka__producer=producer)
    with opened(path) as (session, source, sink):
        for count in (100, 200, 300):
            stand.send(events(100))
            before = sink._producer
            if count == 200:
                lose(sink, producer)
            go_on(session, count)
            assert (sink._producer is before) == (count != 200)
        stand.send(events(100))
        lose(sink, producer)
        source.committed = lambda partitions: {}  # what was committed is lost with the coordinator
        with pytest.raises(Interruption, match="lost together with its coordinator"):
            go_on(session, 400)
    assert written(stand) == list(range(400))


def test_failed_attempts_to_connect_do_not_end_an_epoch(stand):
    stand.topics()
    with opened(stand.settings(kafka__producer="confluent-kafka")) as (_, _, sink):
        sink._producer.log(40, "%s", "Connect to a:1 failed: refused (after 0ms in state CONNECT)")
        assert not sink._producer.unclear()


def test_a_lost_coordinator_leaves_no_wait(stand):
    """A request to a node that does not get ready is put back, and its producer can be closed."""
    stand.topics()
    with opened(stand.settings()) as (_, _, sink):
        client = sink._producer._producer._sender._client

        def raising(node, timeout_ms=0):
            raise kafka_errors.KafkaConnectionError("not ready")

        assert client.await_ready.__name__ == "ready"
        true, client.await_ready = client.await_ready, patient(raising)
        sink._transactions.begin()
        sink._producer.send(stand.topic("out"), b"1", None, [])
        end = sink._transactions._worker.start(lambda: sink._producer.commit({}, GROUP))
        while not sink._producer.unclear():
            assert not end.done()
        client.await_ready = true
        end.result(60)
    assert len(stand.read()) == 1
