"""A poisoned time of a topic is excluded: the models are those of daemons that never saw it."""

import contextlib
import json
import time
from datetime import UTC, datetime

import pytest

from connectors.contract.errors import USAGE

from .partition_models import alone, command, reading, topics
from .partition_models import settings as with_snapshots
from .stand import SHORT, events, producer_of

HOUR = 3_600_000  # milliseconds
BAD = range(300, 520)


def send(stand, sent, start, partitions):
    """Send events, one a second, to the partitions in turn."""
    with contextlib.closing(producer_of(stand.servers)) as producer:
        for k, x in enumerate(sent):
            place = {"partition": k % partitions, "timestamp_ms": start + 1000 * k}
            producer.send(stand.topic("in"), json.dumps(x).encode(), **place)
        producer.flush()


def moment(milliseconds):
    return datetime.fromtimestamp(milliseconds / 1000, UTC).replace(tzinfo=None).isoformat()


def run_until(stand, path, count):
    """Run a daemon until so many predictions are there."""
    daemon = stand.start(path)
    daemon.until(lambda: len(stand.read("out")) == count)
    assert daemon.stop() == 0, daemon.text()[-3000:]


@pytest.mark.parametrize("partitions", [1, 2])
def test_events_of_some_minutes_are_excluded_as_if_they_never_came(stand, partitions):
    """With two partitions, each has a model of its own."""
    start = int(time.time() * 1000) - 2 * HOUR
    sent = [{**x, "y": not x["y"]} if k in BAD else x for k, x in enumerate(events(900))]
    topics(stand, partitions)
    send(stand, sent, start, partitions)
    path = with_snapshots(stand) if partitions > 1 else stand.settings(kafka__session_seconds=SHORT)
    run_until(stand, path, 900)
    if partitions > 1:
        done = command("reset", path, "--exclude", "100..200")
        assert done.returncode == USAGE
        assert "offsets are those of one partition; name it with --partition" in done.stderr
    span = f"{moment(start + 1000 * BAD.start)}..{moment(start + 1000 * BAD.stop)}"
    done = command("reset", path, "--exclude", span)
    assert done.returncode == 0, done.stderr
    assert f"{BAD.start // partitions} to {BAD.stop // partitions - 1}" in done.stdout
    more = events(40, 7)
    send(stand, more, start + HOUR, partitions)
    run_until(stand, path, 940)
    bodies = [json.loads(record.value) for record in stand.read("out")]
    assert len({(body["partition"], body["offset"]) for body in bodies}) == 940
    clean = [
        [x for k, x in enumerate(sent) if k not in BAD and k % partitions == p] for p in range(partitions)
    ]
    wanted = {p: alone([*clean[p], *more[p::partitions]]) for p in range(partitions)}
    if partitions > 1:
        with reading(stand) as newest:
            found = {p: snapshot.parts["model"] for p, snapshot in newest(partitions).items()}
    else:
        found = {0: stand.checkpoint().parts["model"]}
    assert found == wanted
