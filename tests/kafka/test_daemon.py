"""The daemon on a real topic: what it learns and writes, how it stops, what it does with what is bad."""

import json
import random
import shutil
import signal
import urllib.error
import urllib.request

import msgspec
import pytest
from kafka import KafkaProducer, TopicPartition

import streamk
from tests.processes import run

from .broker import free_port
from .stand import events


def learned(stand, count, name="daemon"):
    return lambda: (c := stand.checkpoint(name)) and c.learner().events >= count


def test_learns_predicts_and_stops(stand):
    stand.topics()
    sent = events(3000)
    stand.send(sent, keys=[f"k{x['id']}".encode() for x in sent])
    daemon = stand.start(stand.settings())
    daemon.until(learned(stand, 3000))
    assert daemon.stop() == 0
    records = stand.read()
    found = [json.loads(r.value) for r in records]
    assert [f["offset"] for f in found] == list(range(3000))
    assert [r.key.decode() for r in records] == [f["key"] for f in found] == [f"k{x['id']}" for x in sent]
    assert [f["target"] for f in found] == [x["y"] for x in sent]
    learner = streamk.KaczmarzClassifier(features=64, seed=0)
    for x, f in zip(sent[:500], found, strict=False):
        fields = {k: v for k, v in x.items() if k not in ("id", "y")}
        assert f["prediction"] == (learner.predict_one(fields) if learner.events else None)
        learner.learn_one(fields, x["y"])


def test_a_run_continues_where_the_last_one_stopped(stand):
    stand.topics()
    sent = events(2000)
    path = stand.settings()
    for part in (sent[:700], sent[700:]):
        stand.send(part)
        daemon = stand.start(path)
        daemon.until(learned(stand, 700 if part is not sent[700:] and len(part) == 700 else 2000))
        assert daemon.stop(signal.SIGINT) == 0
    assert [json.loads(r.value)["offset"] for r in stand.read()] == list(range(2000))
    learner = streamk.KaczmarzClassifier(features=64, seed=0)
    learner.learn_many(
        [{k: v for k, v in x.items() if k not in ("id", "y")} for x in sent], [x["y"] for x in sent]
    )
    assert stand.checkpoint().learner().to_bytes() == learner.to_bytes()


def test_an_event_without_a_target_is_predicted_only(stand):
    stand.topics()
    sent = events(300)
    for x in sent[::3]:
        del x["y"]
    stand.send(sent)
    daemon = stand.start(stand.settings())
    daemon.until(learned(stand, 200))
    assert daemon.stop() == 0
    found = [json.loads(r.value) for r in stand.read()]
    assert [("target" in f) for f in found] == [("y" in x) for x in sent]
    progress = stand.checkpoint().partitions[f"{stand.topic('in')}-0"]
    assert (progress.learned, progress.predicted, progress.position) == (200, 100, 300)


def fuzz(rng, huge):
    """Return something that is no event: what a topic might hold when somebody is careless, or worse."""
    kind = rng.randrange(12)
    if kind == 0:
        return rng.randbytes(rng.randrange(200))
    if kind == 1:
        return b"[" * rng.randrange(1, 100_000)
    if kind == 2:
        return b'{"y": true, "f00": ' + b'{"a":' * rng.randrange(1, 5000) + b"1" + b"}" * rng.randrange(5000)
    if kind == 3:
        return b'{"y": true, "f00": %s}' % (b"9" * rng.randrange(400, 9000))
    if kind == 4:
        return json.dumps({"y": True, "f00": rng.choice([1e300, -1e200, [1e300], {"b": -1e200}])}).encode()
    if kind == 5:
        return json.dumps({"y": rng.choice([1, 2.5, "up", [], {}]), "f00": 1.0}).encode()
    if kind == 6:
        return rng.choice([b"", b"null", b"true", b"3", b'"text"', b"[1, 2]", b"NaN"])
    if kind == 7:
        return b'{"y": true, "f00": Infinity}'
    if kind == 8:
        whole = json.dumps(events(1, rng.randrange(1 << 30))[0]).encode()
        return whole[: rng.randrange(1, len(whole))]
    if kind == 9:
        return b'{"y": true, "f00": 1, "f\xff\xfe": 2}'
    if kind == 10:
        return msgspec.msgpack.encode({"y": True, "f00": 1.0})
    if huge and rng.random() < 0.02:
        return rng.choice([b"x", b"{", b'"']) * (10 << 20)
    return b'{"y": true, "f00": "%s' % (b"a" * rng.randrange(5000))


def test_ten_thousand_fuzzed_messages(stand):
    """All of them are dead letters, byte for byte, and the model is that of a run without them."""
    stand.topics(configs={"max.message.bytes": str(1 << 25)})
    rng = random.Random(3)
    good = [json.dumps(x).encode() for x in events(5000)]
    bad = [fuzz(rng, huge=True) for _ in range(10_000)]
    mixed = good[:1] + [None] * (len(good) - 1 + len(bad))
    places = sorted(rng.sample(range(1, len(mixed)), len(good) - 1))
    for place, value in zip(places, good[1:], strict=True):
        mixed[place] = value
    rest = iter(bad)
    mixed = [next(rest) if value is None else value for value in mixed]
    assert max(map(len, bad)) == 10 << 20
    stand.send(mixed)
    daemon = stand.start(stand.settings(limits={"consecutive": 1000, "ratio": 0.9}))
    daemon.until(lambda: (c := stand.checkpoint()) and c.partitions and
                 next(iter(c.partitions.values())).position == len(mixed), 120)  # fmt: skip
    assert daemon.stop() == 0
    progress = stand.checkpoint().partitions[f"{stand.topic('in')}-0"]
    assert (progress.learned, progress.refused) == (5000, 10_000)
    letters = stand.read("dead")
    assert [r.value for r in letters] == bad
    offsets = [int(dict(r.headers)["streamk-offset"]) for r in letters]
    assert offsets == [i for i, value in enumerate(mixed) if i and i not in set(places)]
    assert all(dict(r.headers)["streamk-reason"] for r in letters)
    assert len(stand.read()) == 5000
    learner = streamk.KaczmarzClassifier(features=64, seed=0)
    for x in events(5000):
        learner.learn_one({k: v for k, v in x.items() if k not in ("id", "y")}, x["y"])
    assert stand.checkpoint().learner().to_bytes() == learner.to_bytes()


def test_records_without_values(stand):
    """Tombstones, keys alone and headers without values are dead letters like others."""
    stand.topics()
    producer = KafkaProducer(bootstrap_servers=stand.servers)
    producer.send(stand.topic("in"), None, b"key", [("trace", b"1"), ("empty", b"")])
    producer.send(stand.topic("in"), b"", None)
    producer.flush()
    producer.close(timeout=5)
    stand.send(events(10))
    daemon = stand.start(stand.settings())
    daemon.until(learned(stand, 10))
    assert daemon.stop() == 0
    letters = stand.read("dead")
    assert [(r.key, r.value) for r in letters] == [(b"key", b""), (None, b"")]
    assert dict(letters[0].headers)["trace"] == b"1"


def test_a_copy_of_a_directory_is_found_out(stand):
    """Two processes of one identity would push each other out for ever."""
    stand.topics()
    first = stand.start(stand.settings("a"))
    first.until(lambda: "from position 0" in first.text())
    shutil.copytree(stand.directory / "a-checkpoints", stand.directory / "b-checkpoints")
    second = stand.start(stand.settings("b"))
    second.until(lambda: "from position 0" in second.text())
    stand.send(events(1000))
    assert first.wait() == 4
    assert "another process has this one's identity" in first.text()
    second.until(learned(stand, 1000, "b"))
    assert second.stop() == 0
    assert stand.checkpoint("a").learner().events == 0
    assert [json.loads(r.value)["offset"] for r in stand.read()] == list(range(1000))


def test_too_many_bad_events_in_a_row_stop_it(stand):
    stand.topics()
    stand.send([*events(50), *[b"bad"] * 30])
    daemon = stand.start(stand.settings(limits={"consecutive": 20}))
    assert daemon.wait() == 3
    assert "20 events in a row were refused (limits.consecutive)" in daemon.text()
    assert stand.checkpoint().learner().events == 50
    assert len(stand.read("dead")) == 30


def test_without_dead_letters_the_first_bad_event_stops_it(stand):
    stand.topics()
    stand.send([*events(50), b"bad", *events(50)])
    path = stand.settings(dead_letters=None)
    for _ in range(2):  # it is still there at the next start
        daemon = stand.start(path)
        assert daemon.wait() == 3
        assert f"{stand.topic('in')}-0, offset 50: cannot be decoded" in daemon.text()
    assert stand.checkpoint().learner().events == 50
    assert len(stand.read()) == 50
    daemon = stand.start(stand.settings())
    daemon.until(learned(stand, 100))
    assert daemon.stop() == 0
    assert len(stand.read()) == 100


def test_a_missing_topic_is_named(stand):
    stand.topics(names=("in", "out"))
    daemon = stand.start(stand.settings())
    assert daemon.wait() == 2
    assert f"dead_letters.topic: there is no topic '{stand.topic('dead')}'" in daemon.text()
    daemon = stand.start(stand.settings(source__topic="nowhere", predictions=None, dead_letters=None))
    assert daemon.wait() == 2
    assert "source.topic: there is no topic 'nowhere'" in daemon.text()


@pytest.mark.parametrize("policy", ["fail", "earliest", "latest"])
def test_events_deleted_before_they_were_read(stand, policy):
    stand.topics()
    stand.send(events(100))
    path = stand.settings(source__expired=policy)
    daemon = stand.start(path)
    daemon.until(learned(stand, 100))
    assert daemon.stop() == 0
    stand.send(events(200, 2))
    with stand.admin() as admin:
        admin.delete_records({TopicPartition(stand.topic("in"), 0): 150})
    daemon = stand.start(path)
    if policy == "fail":
        assert daemon.wait() == 7
        assert "holds 150 to 299, and the next event to read is 100" in daemon.text()
        return
    expected = 250 if policy == "earliest" else 110
    if policy == "latest":
        daemon.until(lambda: "continuing from 300" in daemon.text())
        stand.send(events(10, 3))
    daemon.until(learned(stand, expected))
    assert daemon.stop() == 0
    assert stand.checkpoint().learner().events == expected


def test_settings_that_do_not_fit_the_checkpoint(stand):
    stand.topics()
    stand.send(events(100))
    daemon = stand.start(stand.settings())
    daemon.until(learned(stand, 100))
    assert daemon.stop() == 0
    daemon = stand.start(stand.settings(learner={"name": "kaczmarz", "parameters": {"features": 128}}))
    assert daemon.wait() == 4
    assert "holds a learner with features=64, and the settings ask for 128" in daemon.text()
    assert stand.checkpoint().learner().events == 100


def test_a_damaged_checkpoint_is_set_aside(stand):
    stand.topics()
    path = stand.settings(checkpoints__keep=4)
    for n in (500, 1000):
        stand.send(events(1000)[n - 500 : n])
        daemon = stand.start(path)
        daemon.until(learned(stand, n))
        assert daemon.stop() == 0
    newest = max((stand.directory / "daemon-checkpoints").glob("*.checkpoint"))
    whole = newest.read_bytes()
    newest.write_bytes(whole[:-7])
    stand.send(events(1500)[1000:])
    daemon = stand.start(path)
    daemon.until(learned(stand, 1500))
    assert daemon.stop() == 0
    assert "set aside, the one before it is used" in daemon.text()
    learner = streamk.KaczmarzClassifier(features=64, seed=0)
    for x in events(1500):
        learner.learn_one({k: v for k, v in x.items() if k not in ("id", "y")}, x["y"])
    assert stand.checkpoint().learner().to_bytes() == learner.to_bytes()
    assert [json.loads(r.value)["offset"] for r in stand.read()] == list(range(1500))


def test_messagepack_and_csv(stand):
    stand.topics(names=("in", "csv"))
    sent = events(300)
    stand.send([msgspec.msgpack.encode(x) for x in sent])
    names = list(sent[0])
    lines = [
        ",".join(str(x[name]).lower() if name == "y" else str(x[name]) for name in names).encode()
        for x in sent
    ]
    stand.send(lines, topic="csv")
    bare = {"predictions": None, "dead_letters": None}
    daemon = stand.start(
        stand.settings("a", events__format="msgpack", source__group=f"{stand.name}-a", **bare)
    )
    daemon.until(learned(stand, 300, "a"))
    other = stand.start(
        stand.settings(
            "b", events__format="csv", events__columns=names, source__topic=stand.topic("csv"), **bare
        )
    )
    other.until(learned(stand, 300, "b"))
    assert daemon.stop() == other.stop() == 0
    assert stand.checkpoint("a").learner().labels == [False, True]
    assert set(stand.checkpoint("b").learner().labels) == {"false", "true"}


def test_from_a_log_into_topics(stand):
    """The position in the log is part of the transaction too."""
    stand.topics()
    log = stand.directory / "log.jsonl"
    sent = events(20_000)
    log.write_text("".join(json.dumps(x) + "\n" for x in sent))
    path = stand.settings(source={"kind": "file", "path": log, "follow": True}, checkpoints__events=4000)
    for least in (3000, 9000, 20_000):
        daemon = stand.start(path)
        daemon.until(learned(stand, least))
        if least < 20_000:
            daemon.kill()
    daemon.until(daemon.begun)  # the one before may have learned everything
    assert daemon.stop() == 0
    found = [json.loads(r.value) for r in stand.read()]
    assert [f["target"] for f in found] == [x["y"] for x in sent]
    assert len({f["offset"] for f in found}) == 20_000


def test_from_a_topic_into_files(stand):
    stand.topics()
    stand.send([*events(5000), b"bad", *events(5000, 2)])
    out, dead = stand.directory / "out", stand.directory / "dead"
    files = {"predictions": {"kind": "file", "path": out}, "dead_letters": {"kind": "file", "path": dead}}
    path = stand.settings(**files, checkpoints__events=2000)
    for least in (2000, 6000, 10_000):
        daemon = stand.start(path)
        daemon.until(learned(stand, least))
        if least < 10_000:
            daemon.kill()
    daemon.until(daemon.begun)  # the one before may have learned everything
    assert daemon.stop() == 0
    offsets = [json.loads(line)["offset"] for line in out.read_text().splitlines()]
    assert offsets == [i for i in range(10_001) if i != 5000]
    assert [json.loads(line)["offset"] for line in dead.read_text().splitlines()] == [5000]


def get(port, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_telemetry(stand):
    stand.topics()
    stand.send([*events(2000), b"bad"])
    port = free_port()
    daemon = stand.start(stand.settings(telemetry={"port": port}, log={"form": "json"}))
    daemon.until(lambda: len(stand.read("dead")) == 1)
    daemon.until(learned(stand, 2000))
    assert get(port, "/healthz") == (200, "ok\n")
    assert get(port, "/ready") == (200, "ok\n")
    metrics = dict(line.rsplit(" ", 1) for line in get(port, "/metrics")[1].splitlines() if line[0] != "#")
    assert float(metrics['streamk_events_total{result="learned"}']) == 2000
    assert float(metrics['streamk_events_total{result="refused"}']) == 1
    assert 0.0 < float(metrics["streamk_error"]) < 0.5
    assert float(metrics["streamk_delay_seconds_count"]) == 2001  # each record once, also the dead letter
    assert float(metrics['streamk_delay_seconds_bucket{le="1000.0"}']) == 2001
    assert float(metrics["streamk_features"]) == 64
    assert float(metrics["streamk_checkpoint_age_seconds"]) < 60
    daemon.until(lambda: f'streamk_lag{{partition="{stand.topic("in")}-0"}} 0.0' in get(port, "/metrics")[1])
    assert daemon.stop() == 0
    lines = [json.loads(line) for line in daemon.text().splitlines()]
    assert {"time", "level", "message"} <= lines[0].keys()


def test_check(stand):
    stand.topics()
    path = stand.settings()
    done = run("check", path)
    assert done.returncode == 0, done.stderr
    assert f"source.topic: {stand.topic('in')} has 1 partition;" in done.stdout
    path = stand.settings(predictions__topic="nowhere")
    done = run("check", path)
    assert done.returncode == 2
    assert "predictions.topic: there is no topic 'nowhere'" in done.stderr
