"""Partitions of a topic as shards: the same events as in the topic, whatever is between and behind them."""

import contextlib
import json
import re
from pathlib import Path

import pytest
from kafka import KafkaProducer, TopicPartition
from typer.testing import CliRunner

import streamk
from connectors.cli import app
from connectors.kafka.topic_range import topic_shards
from connectors.settings.file import load
from streamk.distributed import Rows, learn

from ..distributed.streams import reference
from .stand import events

LEARNER = streamk.KaczmarzClassifier(features=64, seed=0)


def parts(values, count):
    """What each partition teaches, if events go round."""
    xs = [{k: v for k, v in x.items() if k not in ("id", "y")} for x in values]
    ys = [x["y"] for x in values]
    return [Rows(str(k), xs[k::count], ys[k::count]) for k in range(count)]


def train(path, *more):
    given = "train", str(path), "--set", "seed=0", "--round", "100", "--workers", "2"
    return CliRunner().invoke(app, [*given, *map(str, more)])


def test_partitions_are_shards(stand, tmp_path):
    stand.topics(3)
    sent = events(1500)
    stand.send(sent, lambda i: i % 3)
    path, model = stand.settings(), tmp_path / "m"
    done = train(path, "--save", model)
    assert done.exit_code == 0, done.stderr
    assert "1,500 events" in done.stdout
    learned = streamk.load(model).to_bytes()
    assert learned == reference(parts(sent, 3), LEARNER, 100)
    # what comes later does not belong to a run that has begun
    shards = topic_shards(load(path), None, None)
    stand.send(events(90, seed=9), lambda i: i % 3)
    assert learn(shards, LEARNER, round=100, engine="here").learner.to_bytes() == learned
    assert [shard.name.split("[")[1].split("]")[0] for shard in shards] == ["0:500"] * 3
    assert [shard.done(250) for shard in shards] == [0.5] * 3
    bounded = train(path, "--to", 500, "--save", tmp_path / "b")
    assert bounded.exit_code == 0, bounded.stderr
    assert (tmp_path / "b").read_bytes() == model.read_bytes()


def test_another_learner_has_parameters_of_its_own(stand, tmp_path):
    """Those of the settings are for the learner that they name."""
    stand.topics()
    sent, model = events(300), tmp_path / "m"
    stand.send(sent)
    path = stand.settings(learner={"name": "kaczmarz", "parameters": {"memory": 10}})
    done = train(path, "--learner", "matching-pursuit", "--set", "features=64", "--save", model)
    assert done.exit_code == 0, done.stderr
    learner = streamk.MatchingPursuitClassifier(features=64, seed=0)
    assert streamk.load(model).to_bytes() == reference(parts(sent, 1), learner, 100)


def test_transactions_and_what_was_undone(stand, tmp_path):
    stand.topics(2)
    sent = events(600)
    producer = KafkaProducer(bootstrap_servers=stand.servers, transactional_id=stand.name, linger_ms=5)
    producer.init_transactions()
    with contextlib.closing(producer):
        for start in range(0, 600, 60):
            for kept in (False, True):
                producer.begin_transaction()
                for i, event in enumerate(sent[start : start + 60]):
                    body = json.dumps(event if kept else {**event, "y": "undone"}).encode()
                    producer.send(stand.topic("in"), body, partition=i % 2)
                producer.flush()
                (producer.commit_transaction if kept else producer.abort_transaction)()
    for size in (37, 1000):
        shards = topic_shards(load(stand.settings()), None, None)
        for k, shard in enumerate(shards):
            found, position, ended = [], None, False
            while not ended:
                chunk = shard.read(position, size)
                assert len(chunk.rows) <= size
                found += zip(chunk.rows, chunk.targets, strict=True)
                position, ended = chunk.next, chunk.ended
            wanted = parts(sent, 2)[k]
            assert found == list(zip(wanted.rows, wanted.targets, strict=True))
            assert position == shard.ends


def test_records_that_teach_nothing(stand):
    stand.topics()
    good = events(40)
    bad, blind = b"no event", {k: v for k, v in good[0].items() if k != "y"}
    stand.send([*good[:20], bad, blind, *good[20:]])
    (shard,) = topic_shards(load(stand.settings()), None, None)
    chunk = shard.read(None, 1000)
    assert chunk.lines == [*range(20), *range(22, 42)]
    (shard,) = topic_shards(load(stand.settings(dead_letters=None)), None, None)
    with pytest.raises(ValueError, match=r"in-0, offset 20: .*With \[dead_letters\] in the settings"):
        shard.read(None, 1000)
    stand.send([{**good[0], "weight": 2.5}])
    (shard,) = topic_shards(load(stand.settings(events__weight="weight")), "42", None)
    assert list(shard.read(None, 10).weights) == [2.5]


def test_a_topic_that_is_not_what_it_was(stand, tmp_path):
    stand.topics()
    stand.send(events(300))
    path, run = stand.settings(), tmp_path / "run"
    assert train(path, "--checkpoint", run).exit_code == 0
    (shard,) = topic_shards(load(path), None, None)
    stand.send(events(10))
    grown = train(path, "--checkpoint", run)
    assert grown.exit_code == 2
    assert "[0:300]" in grown.stderr
    assert "[0:310]" in grown.stderr
    with stand.admin() as admin:
        admin.delete_records({TopicPartition(stand.topic("in"), 0): 150})
    with pytest.raises(ValueError, match="offsets 0 to 149 have been deleted before they were learned"):
        shard.read(None, 10)
    assert shard.read(150, 10).lines == list(range(150, 160))
    with stand.admin() as admin:
        admin.delete_topics([stand.topic("in")])
    stand.topics(names=("in",))
    stand.send(events(300))
    with pytest.raises(ValueError, match="the topic was deleted and recreated"):
        shard.read(None, 10)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--target", "y"], "--target: .* says it, as events.target"),
        (["other.csv"], "give one .toml alone, or logs"),
        (["--task", "regression"], "--task: .* says it, as learner.task"),
        (["--from", "soon"], "--from soon: give an offset or a time"),
    ],
)
def test_what_is_refused(stand, more, message):
    stand.topics()
    done = train(stand.settings(), *more)
    assert done.exit_code == 2
    assert re.search(message, done.stderr), done.stderr


def test_logs_need_a_target_and_have_no_offsets(tmp_path):
    log = Path(tmp_path / "log.csv")
    log.write_text("x,y\n1,2\n")
    for more, message in (
        ([], "name the field to predict"),
        (["--to", "7"], "--from and --to are for the topic"),
    ):
        done = CliRunner().invoke(app, ["train", str(log), *more])
        assert done.exit_code == 2
        assert message in done.stderr
