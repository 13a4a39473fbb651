"""A topic of outputs is deleted while a daemon writes to it: it is unready soon, and ends with a sentence."""

import pytest

from .broker import free_port, lacking
from .stand import SHORT, events
from .watching import Watch

PRODUCERS = ["kafka-python", pytest.param("confluent-kafka", marks=pytest.mark.long)]


@pytest.mark.skipif(bool(lacking()), reason=lacking())
@pytest.mark.parametrize("producer", PRODUCERS)
@pytest.mark.parametrize("name", ["out", pytest.param("dead", marks=pytest.mark.long)])
def test_a_topic_of_outputs_is_deleted(stand, producer, name):
    stand.topics()
    stand.send(events(200))
    port = free_port()
    daemon = stand.start(
        stand.settings(kafka__producer=producer, kafka__session_seconds=SHORT, telemetry={"port": port})
    )
    watch = Watch(port)
    watch.start()
    daemon.until(lambda: watch.learned() == 200 and watch.samples[-1].ready)
    with stand.admin() as admin:
        admin.delete_topics([stand.topic(name)])
    stand.send([*events(100), b"bad"])
    assert daemon.wait() == 2
    watch.stop()
    *_, unready, last = [line for line in daemon.text().splitlines() if line.strip()]
    kind = {"out": "predictions", "dead": "dead_letters"}[name]
    assert f"{kind}.topic: there is no topic '{stand.topic(name)}'" in last, daemon.text()
    assert "Traceback" not in daemon.text()
    assert not watch.samples[-1].ready, unready
