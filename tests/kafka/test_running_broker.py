"""The broker of pages and benchmarks."""

import pytest

from tests.kafka import broker
from tests.kafka.broker import running_broker


def test_a_named_broker_is_used(monkeypatch):
    monkeypatch.setenv("STREAMK_TEST_KAFKA", "somewhere:9092")
    with running_broker() as servers:
        assert servers == "somewhere:9092"


def test_what_is_missing_is_named(monkeypatch):
    monkeypatch.delenv("STREAMK_TEST_KAFKA", raising=False)
    monkeypatch.setattr(broker, "lacking", lambda: "there is no java")
    with pytest.raises(RuntimeError, match="since there is no java; install Java 17"), running_broker():
        pass


@pytest.mark.skipif(bool(broker.lacking()), reason=broker.lacking())
def test_a_broker_is_removed_with_its_files(monkeypatch):
    monkeypatch.delenv("STREAMK_TEST_KAFKA", raising=False)
    made = []
    monkeypatch.setattr(broker, "Broker", lambda directory: made.append(BROKER(directory)) or made[0])
    with running_broker() as servers:
        assert (made[0].running, made[0].servers) == (True, servers)
    assert not made[0].running
    assert not made[0].directory.exists()


BROKER = broker.Broker
