"""Avro by a registry, parts of records as inputs, and repeated events, through kills of the daemon."""

import gzip
import json
import random
import time

from tests.kafka.schema_registry import Registry, avro
from tests.processes import run

from .stand import SHORT, producer_of

SCHEMA = {
    "type": "record",
    "name": "Visit",
    "fields": [{"name": "pages", "type": "int"}, {"name": "bought", "type": ["null", "boolean"]}],
}
RECORD = {"shop": "key", "at": "time", "region": "headers.region"}
START = int(time.time()) * 1000  # brokers refuse what is to come, and delete what is old


def visits(count, seed=1):
    """Return records: number, key, region and value; whether one buys depends on the region alone."""
    rng = random.Random(seed)
    for k in range(count):
        region = rng.choice(["eu", "us"])
        yield k, b"%d" % k, region, avro(1, SCHEMA, {"pages": rng.randrange(9), "bought": region == "eu"})


def send(stand, records):
    producer = producer_of(stand.servers)
    for k, key, region, value in records:
        headers = [("region", region.encode())]
        producer.send(stand.topic("in"), value, key=key, headers=headers, partition=0, timestamp_ms=START + k)
    producer.flush()
    producer.close(timeout=5)


def settings(stand, name, url, **changes):
    return stand.settings(
        name, kafka__session_seconds=SHORT, checkpoints__events=200, checkpoints__seconds=0.2,
        events={"target": "bought", "format": "avro", "record": RECORD, "ignore": ["shop"], **changes},
        registry__url=url, source__group=f"{stand.name}-{name}", predictions=None,
    )  # fmt: skip


def read(stand, name):
    kept = stand.checkpoint(name)
    return 0 if kept is None else sum(each.position for each in kept.partitions.values())


def test_avro_with_parts_of_records_and_repeats(stand):
    stand.topics(1)
    registry = Registry()
    registry.add(1, SCHEMA)
    records = list(visits(1500))
    with registry.served() as url:
        path = settings(stand, "killed", url, repeats=1000)
        assert f"registry.url: {url} answers" in run("check", path, check=True).stdout
        send(stand, records[:700])
        daemon = stand.start(path)
        daemon.until(lambda: read(stand, "killed") > 300)
        registry.status = 503  # schemas that were read are known
        daemon.kill()
        send(stand, records[400:])  # 300 of them again
        daemon = stand.start(path)
        daemon.until(lambda: "answers 503" in daemon.text())
        registry.status = None
        daemon.until(lambda: read(stand, "killed") == stand.end())
        assert daemon.stop() == 0, daemon.text()[-3000:]
        once = settings(stand, "once", url)
        other = stand.start(once)
        other.until(lambda: read(stand, "once") == stand.end())
        assert other.stop() == 0, other.text()[-3000:]
        recorded = stand.directory / "log.jsonl.gz"
        run("record", path, recorded, check=True)
    (progress,) = stand.checkpoint("killed").partitions.values()
    assert (progress.learned, progress.skipped, progress.refused) == (1500, 300, 0)
    assert stand.checkpoint("once").partitions[f"{stand.topic('in')}-0"].learned == 1800
    lines = [json.loads(line) for line in gzip.decompress(recorded.read_bytes()).splitlines()]
    assert lines[5] == {**lines[5], "shop": "5", "at": START + 5, "region": records[5][2]}
