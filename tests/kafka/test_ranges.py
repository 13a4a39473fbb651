"""Recording and replaying a part of a topic."""

import json
import time
from datetime import UTC, datetime

import msgspec
import pytest

from tests.processes import run

from .stand import events


@pytest.fixture
def topic(stand):
    """Give a topic of three partitions, of which the second half came a while later; and the time between."""
    stand.topics(partitions=3)
    sent = events(6000)
    for i, x in enumerate(sent):
        x["id"] = i
    stand.send(sent[:3000], lambda i: i % 3)
    time.sleep(0.3)
    middle = datetime.now(UTC).isoformat()
    time.sleep(0.3)
    stand.send(sent[3000:], lambda i: i % 3)
    return stand, sent, middle


def ids(path):
    return [json.loads(line)["id"] for line in path.read_text().splitlines()]


def test_record_and_replay(topic, tmp_path):
    stand, sent, _ = topic
    config, log = stand.settings(), tmp_path / "log.jsonl"
    done = run("record", config, log)
    assert done.returncode == 0, done.stderr
    assert sorted(ids(log)) == list(range(6000))
    assert set(ids(log)[:3000]) == set(range(3000))
    assert json.loads(log.read_text().splitlines()[0]).keys() == sent[0].keys()
    packed = tmp_path / "log.jsonl.gz"
    assert json.loads(run("record", config, packed, "--json").stdout) == {
        "written": 6000, "left_out": 0, "reason": "",
    }  # fmt: skip
    results = [
        json.loads(run("replay", source, *options, "--json", "--no-baseline", "--set", "seed=1").stdout)
        for source, options in ((log, ["--target", "y"]), (packed, ["--target", "y"]))
    ]
    accuracies = [each["contenders"]["kernel"]["accuracy"] for each in results]
    assert accuracies[0] == accuracies[1]
    result = json.loads(run("replay", config, "--json", "--no-baseline").stdout)
    assert result["events"] == 6000
    assert result["contenders"]["kaczmarz"]["accuracy"] > 0.5


def test_ranges(topic, tmp_path):
    stand, _, middle = topic
    config = stand.settings()
    for name, options, expected in (
        ("until", ["--to", middle], range(3000)),
        ("since", ["--from", middle], range(3000, 6000)),
        ("offsets", ["--from", 500, "--to", 510], range(1500, 1530)),
        ("one", ["--partition", 1, "--to", 4], range(1, 13, 3)),
        ("none", ["--from", "2100-01-01"], range(0)),
    ):
        done = run("record", config, tmp_path / name, *options)
        assert done.returncode == 0, done.stderr
        assert sorted(ids(tmp_path / name)) == list(expected), name
    result = json.loads(run("replay", config, "--from", middle, "--json", "--no-baseline").stdout)
    assert result["events"] == 3000


def test_a_topic_by_its_address(topic, tmp_path):
    stand, _, middle = topic
    settings = run("replay", stand.settings(), "--from", middle, "--json", "--no-baseline")
    address = f"kafka://{stand.servers},{stand.servers}/{stand.topic('in')}"
    chosen = ["--target", "y", "--learner", "kaczmarz:features=64", "--json", "--no-baseline"]
    done = run("replay", address, *chosen, "--from", middle)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["events"] == json.loads(settings.stdout)["events"] == 3000
    done = run("replay", address, *chosen, "--from", 500, "--to", 510)
    assert json.loads(done.stdout)["events"] == 30
    stand.send([msgspec.msgpack.encode({"a": i, "y": i % 2}) for i in range(50)], topic="out")
    address = f"kafka://{stand.servers}/{stand.topic('out')}"
    assert json.loads(run("replay", address, *chosen, "--format", "msgpack").stdout)["events"] == 50
    assert "holds no events" in run("replay", address, *chosen).stderr


def test_a_broker_that_does_not_answer():
    done = run("replay", "kafka://localhost:1/t", "--target", "y")
    assert done.returncode == 5
    assert "in plain text and without a login: security is for the [kafka] of a .toml" in done.stderr


def test_skipped_records_are_reported(stand, tmp_path):
    stand.topics()
    sent = events(100)
    del sent[7]["y"]
    stand.send([*sent, b"bad", b"[1]"])
    config = stand.settings()
    done = run("record", config, tmp_path / "log")
    assert done.returncode == 3
    assert "2 records cannot be decoded and are skipped" in done.stderr
    assert f"{stand.topic('in')}-0, offset 100" in done.stderr
    assert len(ids(tmp_path / "log")) == 100
    done = run("replay", config, "--no-baseline")
    assert "skipped 3 rows: 2 that cannot be decoded and 1 without `y`" in done.stdout
    assert "99 events" in done.stdout


def test_records_without_inputs_and_misfits_of_a_topic_are_counted(stand):
    stand.topics()
    sent = [{"a": i % 7, "y": i % 2} for i in range(60)]
    sent[20]["a"], sent[30] = "seven", {"id": 30, "y": 1}
    stand.send(sent)
    config = stand.settings(schema={"types": {"a": "number"}})
    done = run("replay", config, "--no-baseline", "--json")
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)
    assert (found["rows"], found["events"], found["skipped"]) == (60, 59, 1)
    assert found["misfits"]["a"]["count"] == 1
    done = run("replay", config, "--no-baseline")
    assert f"{stand.topic('in')}-0, offset 30: it has a target and no input" in done.stdout
    assert "1 of 60 values of a do not fit" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["record", "{c}", "{t}/a", "--from", "yesterday"], 2, "--from yesterday: give an offset or a time"),
        (["record", "{c}", "{t}/a", "--partition", "9"], 2, "has no partition 9"),
        (["record", "{c}", "{c}"], 2, "is there already"),
        (["record", "{c}", "{t}/no/such"], 2, "No such file or directory"),
        (["replay", "{c}", "--target", "y"], 2, "as events.target"),
        (["replay", "{t}/x.csv", "--target", "y", "--from", "3"], 2, "--from: it is for a topic"),
        (["record", "{t}/nothing.toml", "{t}/a"], 2, "nothing.toml: No such file or directory"),
    ],
)
def test_wrong_things(stand, tmp_path, arguments, code, message):
    stand.topics(names=("in",))
    config = stand.settings(predictions=None, dead_letters=None)
    done = run(*(a.replace("{c}", str(config)).replace("{t}", str(tmp_path)) for a in arguments))
    assert done.returncode == code
    assert message in done.stderr
    assert "Traceback" not in done.stderr
