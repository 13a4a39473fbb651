"""The daemon on a real topic: what it learns, what it writes, how it stops."""

import json

from .stand import events


def test_learns_predicts_and_stops(stand):
    stand.topics()
    sent = events(3000)
    stand.send(sent)
    daemon = stand.start(stand.settings())
    daemon.until(lambda: (c := stand.checkpoint()) and c.learner.events == 3000)
    assert daemon.stop() == 0
    found = [json.loads(r.value) for r in stand.read()]
    assert [f["offset"] for f in found] == list(range(3000))
    assert sum(f["prediction"] == f["target"] for f in found[1000:]) > 1100
