"""Labels from a log of their own: joined on a key, coming when they say."""

import json
import pickle
import random

import pytest
from river import metrics

import streamk
from connectors.files.log import Log
from connectors.replay.labels import ByLabels, Joined
from connectors.replay.run import replay


@pytest.fixture
def logs(tmp_path):
    """Events each a second apart; labels of most, each at a moment of its own, some before their events."""
    rng, events, labels = random.Random(2), [], []
    for i in range(1200):
        x = {"a": rng.gauss(0, 1), "b": rng.gauss(0, 1)}
        events.append({**x, "id": f"e{i}", "at": float(i)})
        if i % 50:
            labels.append(
                {"id": f"e{i}", "at": i + rng.choice([-2.0, 0.5, 7.0, 120.0]), "y": x["a"] * x["b"] > 0}
            )
    labels.sort(key=lambda label: label["at"])
    labels.append({"id": "nobody", "at": 2000.0, "y": True})
    for name, rows in (("events", events), ("labels", labels)):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return tmp_path, events, labels


def loop(events, labels):
    """The same written once more: an answer counts when its label comes."""
    learner, metric = streamk.KaczmarzClassifier(features=64, seed=7), metrics.Accuracy()
    asked, early, left = {}, {}, list(labels)

    def tell(key, y):
        x, said = asked.pop(key)
        metric.update(y, said)
        learner.learn_one(x, y)

    def bring(until):
        while left and left[0]["at"] <= until:
            label = left.pop(0)
            if label["id"] in asked:
                tell(label["id"], label["y"])
            else:
                early[label["id"]] = label["y"]

    for event in events:
        bring(event["at"])
        x = {name: event[name] for name in ("a", "b")}
        asked[event["id"]] = x, learner.predict_one(x)
        if event["id"] in early:
            tell(event["id"], early.pop(event["id"]))
    bring(float("inf"))
    return learner, metric, asked


def test_labels_come_when_they_say(logs):
    path, events, labels = logs
    late = ByLabels(str(path / "labels.jsonl"), "y", "id", "at")
    log = Log(path / "events.jsonl", "y", labelled=False)
    run = replay(log, "kaczmarz:features=64,seed=7", baseline=False, delay=late)
    learner, metric, never = loop(events, labels)
    assert run.learner.to_bytes() == learner.to_bytes()
    found = run.results().metrics(run.names[0])
    assert found["accuracy"] == pytest.approx(metric.get(), abs=1 / 1000)
    assert run.events == 1200 - len(never)
    assert run.contest.asked == never.keys()


def test_labels_that_are_only_joined(logs):
    path, _, labels = logs
    log = Joined(Log(path / "events.jsonl", "y", labelled=False), str(path / "labels.jsonl"), "id")
    run = replay(log, "kaczmarz", baseline=False, delay=3)
    assert run.events == len(labels) - 1
    assert log.left_out() == "24 events have no label"
    assert "id" not in run.learner.number_names


@pytest.mark.parametrize("strict", [True, False])
def test_labels_that_are_refused_cost_no_other_event(logs, strict):
    path, events, labels = logs
    labels[100]["y"], labels[300]["y"] = "a text", 7
    (path / "labels.jsonl").write_text("\n".join(map(json.dumps, labels)))
    late = ByLabels(str(path / "labels.jsonl"), "y", "id", "at")
    run = replay(
        Log(path / "events.jsonl", "y", labelled=False), "kaczmarz:features=64,seed=7", baseline=False,
        delay=late, strict=strict,
    )  # fmt: skip
    if strict:
        assert "the label is 'a text'" in run.error
        assert run.learner.events == 100
        return
    learner, *_ = loop(events, [label for label in labels if label["y"] in (True, False)])
    assert run.learner.to_bytes() == learner.to_bytes()
    assert (run.refused, run.events, run.contest.waiting) == (2, 1200 - 24 - 2, 24)
    assert not late._early.keys() - {"nobody"}


def test_a_pickle_goes_on(logs):
    path, _, labels = logs
    late = ByLabels(str(path / "labels.jsonl"), "y", "id", "at", "classification")
    seen = []
    for k in range(len(labels)):
        if k % 200 == 0:
            late = pickle.loads(pickle.dumps(late))
        seen.append(late._upcoming()[1])
        late._next = None
    assert seen == [label["id"] for label in labels]


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ({"id": 1, "y": True}, "line 2: field 'at': None is no time"),
        ({"at": 5, "y": True}, "line 2: the key 'id' is missing"),
        ({"id": 1, "at": 5}, "line 2: the target 'y' is missing"),
    ],
)
def test_label_logs_that_lack_something(logs, row, sentence):
    path, *_ = logs
    labels = path / "bad.jsonl"
    labels.write_text("\n".join(map(json.dumps, [{"id": "e1", "at": 1, "y": True}, row])))
    with pytest.raises(ValueError, match=sentence):
        replay(
            Log(path / "events.jsonl", "y", labelled=False), baseline=False,
            delay=ByLabels(str(labels), "y", "id", "at"),
        )  # fmt: skip
