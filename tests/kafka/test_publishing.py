"""Models of partitions become one: published to a topic and a file, and fetched whole."""

import contextlib
import itertools
import json
import signal
import subprocess
import threading
import time
from contextlib import closing

import pytest
from kafka.errors import InvalidProducerEpochError, ProducerFencedError

import streamk
from connectors.contract.errors import POSITION, Failure
from connectors.kafka.client import options
from connectors.kafka.compacted import CompactedTopic, cut
from connectors.kafka.producer import StandardProducer, TransactionalWriter
from connectors.publish.fetching import fetch
from connectors.publish.run import publish, target_of
from connectors.settings.file import load
from streamk.learners.loading import loads, loads_with_extra
from tests.processes import Command

from .partition_models import command, kafka, partition, reading, run_to, settings, topics, tree
from .stand import LIMIT, events


def test_publish_and_fetch(stand):
    topics(stand, 2, 3)
    sent, to, out = events(900), stand.topic("published"), stand.directory / "model.streamk"
    path = settings(stand)
    found = load(path)
    target = target_of(found, to, None, out, False)
    with pytest.raises(Failure, match="has no snapshot of"):
        publish(found, target)
    stand.send(sent[:400], lambda i: i % 2)
    first = run_to(stand, 400, 2, path)
    done = command("publish", path, "--to", to, "-o", out)
    assert done.returncode == 0, done.stderr
    assert f"published to {to} and {out}" in done.stdout
    model = tree([first[p].parts["model"] for p in range(2)])
    assert streamk.load(out).to_bytes() == loads(model).frozen().to_bytes()
    extra = loads_with_extra(out.read_bytes())[1]
    assert (extra["source"], extra["events"]) == (stand.topic("in"), 400)
    assert [extra["partitions"][partition(stand, p)][0] for p in range(2)] == [200, 200]
    assert publish(found, target).written == []
    stand.send(sent[400:], lambda i: i % 2)
    second = run_to(stand, 900, 2, path)
    done = command("publish", path, "--to", to, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["written"] == [to]
    got = command("fetch", to, "--servers", stand.servers, "-o", stand.directory / "got.streamk", "--json")
    assert got.returncode == 0, got.stderr
    assert json.loads(got.stdout)["events"] == 900
    model = tree([second[p].parts["model"] for p in range(2)])
    assert streamk.load(stand.directory / "got.streamk").to_bytes() == loads(model).frozen().to_bytes()
    done = command("publish", path, "-o", out, "--learns")
    assert done.returncode == 0, done.stderr
    assert streamk.load(out).to_bytes() == model
    assert command("publish", path, "-o", out).returncode == 0
    assert command("reset", path, "--to", "100").returncode == 0
    with pytest.raises(
        Failure, match=r"has a model that has learned more: .*-0 is known up to 100"
    ) as raised:
        publish(found, target)
    assert raised.value.code == POSITION
    assert fetch(to, kafka(stand)).about["events"] == 900
    assert publish(found, target._replace(force=True)).written == [to, str(out)]


def test_who_reads_while_models_are_published_gets_whole_ones(stand):
    """Large ones, of several chunks; a reader never sees a mixture."""
    topics(stand, 1, names=())
    to, seen, ended = stand.topic("published"), [], threading.Event()
    deadline = time.monotonic() + LIMIT

    def bodies():  # until the reader has read some while others were written
        for number in itertools.takewhile(
            lambda number: number < 15 or (len(seen) < 4 and time.monotonic() < deadline), itertools.count()
        ):
            learner = streamk.KaczmarzRegressor(features=300_000 + 250_000 * (number % 3), seed=1)
            learner.learn_one({"a": 1.0}, float(number))
            yield number, learner.to_bytes()

    def read():
        while not ended.is_set():
            with contextlib.suppress(Failure):
                found = fetch(to, kafka(stand), "m")
                seen.append(found.about["number"])
                assert loads(found.model).events == 1

    reader = threading.Thread(target=read)
    with closing(TransactionalWriter(kafka(stand), f"{stand.name}-writer", "--to")) as transactions:
        reader.start()
        chunks = 0
        for number, body in bodies():
            messages = cut("m", body, {"number": number}, 0, chunks)
            chunks = sum(message.value is not None for message in messages)
            transactions.write({to: messages})
        ended.set()
        reader.join()
    assert fetch(to, kafka(stand)).about["number"] == number
    assert len(seen) >= 4
    assert seen == sorted(seen)


def test_the_later_publisher_wins(stand):
    topics(stand, 1, names=())
    name, to = f"{stand.name}-p", stand.topic("published")
    with closing(TransactionalWriter(kafka(stand), name, "--to")) as first:
        first.write({to: cut("m", b"1", {}, 0)})
        with closing(TransactionalWriter(kafka(stand), name, "--to")) as second:
            second.write({to: cut("m", b"2", {}, 0)})
            with pytest.raises(Failure, match="another process has started"):
                first.write({to: cut("m", b"1 again", {}, 0)})
    with closing(CompactedTopic(to, "--to", options(kafka(stand)))) as compacted:
        assert compacted.newest(["m"]).values["m"].body == b"2"


def test_a_fenced_producer_reports_it_at_any_time(stand):
    """Its thread learns of it first; what is called then must not look like a broker that is away."""
    topics(stand, 1, names=())
    to, found = stand.topic("published"), options(kafka(stand))
    first, second = (StandardProducer(found, f"{stand.name}-p") for _ in range(2))
    with contextlib.closing(first), contextlib.closing(second):
        first.open()
        first.begin()
        second.open()
        first.send(to, b"1", None, [])
        deadline = time.monotonic() + LIMIT
        while not first._producer._transaction_manager.has_error():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        for call in (
            lambda: first.send(to, b"2", None, []),
            lambda: first.send_many(to, [b"2"], [None]),
            lambda: first.commit({}, ""),
            first.begin,
        ):
            with pytest.raises((ProducerFencedError, InvalidProducerEpochError)):
                call()


def test_publishing_again_and_again(stand):
    topics(stand, 2)
    path, to = settings(stand), stand.topic("published")
    daemon = stand.start(path)
    stand.send(events(200, 0), lambda i: i % 2)
    with reading(stand) as newest:
        daemon.until(lambda: len(newest(2)) == 2)
    command = "publish", path, "--to", to, "--every", "1", "--json"
    with Command(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as publisher:
        try:
            for number in range(3):
                if number:
                    stand.send(events(200, number), lambda i: i % 2)
                deadline = time.monotonic() + LIMIT
                while time.monotonic() < deadline:
                    with contextlib.suppress(Failure):
                        if fetch(to, kafka(stand)).about["events"] == 200 * (number + 1):
                            break
                    time.sleep(0.2)
            publisher.send_signal(signal.SIGINT)
            assert publisher.wait(30) == 0, publisher.stderr.read()
            out = publisher.stdout.read()
        finally:
            publisher.kill()
    found = [json.loads(line)["model"]["events"] for line in out.splitlines()]
    assert found[-1] == 600
    assert found == sorted(set(found))
    assert daemon.stop() == 0
