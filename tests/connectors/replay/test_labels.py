"""Labels from a log of their own: joined on a key, coming when they say."""

import gzip
import hashlib
import json
import pickle
import random

import pytest
from river import metrics

import streamk
from connectors.events.decoding import EventFormat
from connectors.replay import report
from connectors.replay.labels import ByLabels, Joined, KeyedLog, key_text
from connectors.replay.progress import ReplayCheckpoint
from connectors.replay.run import replay_log
from streamk.evaluation.label_delay import fail
from tests.connectors.replay.test_checkpoint import Stop
from tests.processes import run


def joined(key, labelled=True):
    return EventFormat("y", verbatim=(key, "at"), labelled=labelled)


def events_of(path, key="id"):
    return KeyedLog(str(path), joined(key, labelled=False))


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
    late = ByLabels(str(path / "labels.jsonl"), joined("id"), "at")
    log = events_of(path / "events.jsonl")
    run = replay_log(log, "kaczmarz:features=64,seed=7", baseline=False, delay=late)
    learner, metric, never = loop(events, labels)
    assert run.learner.to_bytes() == learner.to_bytes()
    found = run.results().metrics(run.names[0])
    assert found["accuracy"] == pytest.approx(metric.get(), abs=1 / 1000)
    assert run.events == 1200 - len(never)
    assert run.contest.asked == never.keys()


def test_labels_that_are_only_joined(logs):
    path, _, labels = logs
    log = Joined(events_of(path / "events.jsonl"), str(path / "labels.jsonl"), joined("id"))
    run = replay_log(log, "kaczmarz", baseline=False, delay=3)
    assert run.events == len(labels) - 1
    assert log.left_out() == "24 events have no label"
    assert "id" not in run.learner.number_names


@pytest.mark.parametrize("strict", [True, False])
def test_labels_that_are_refused_cost_no_other_event(logs, strict):
    path, events, labels = logs
    labels[100]["y"], labels[300]["y"] = "a text", 7
    (path / "labels.jsonl").write_text("\n".join(map(json.dumps, labels)))
    late = ByLabels(str(path / "labels.jsonl"), joined("id"), "at")
    run = replay_log(
        events_of(path / "events.jsonl"), "kaczmarz:features=64,seed=7", baseline=False,
        delay=late, strict=strict,
    )  # fmt: skip
    if strict:
        assert "the label is 'a text'" in run.error
        assert run.learner.events == 100
        return
    learner, *_ = loop(events, [label for label in labels if label["y"] in (True, False)])
    assert run.learner.to_bytes() == learner.to_bytes()
    assert (run.refused, run.events, run.contest.waiting) == (2, 1200 - 24 - 2, 24)
    assert not late._joining.early.keys() - {"nobody"}


def test_labels_that_never_come_are_counted(logs):
    """24 events have none; one label is of nobody, and one of an event that had its own."""
    path, _, labels = logs
    rows = [*map(json.dumps, [*labels, {**labels[3], "at": 3000.0}])]
    (path / "labels.jsonl").write_text("\n".join(rows))
    for limit in (None, None, 50):
        log = events_of(path / "events.jsonl", "id")
        run = replay_log(
            log, "kaczmarz", baseline=False, limit=limit,
            delay=ByLabels(str(path / "labels.jsonl"), joined("id"), "at"),
            checkpoint=None if limit else ReplayCheckpoint(path / "kept", {}),
        )  # fmt: skip
        if limit:
            assert report.left_out(run, log) == (
                "1 record was rejected and skipped; 1 event whose label never came "
                f"({path / 'labels.jsonl'}, line {len(rows)}: the key 'e2' has a label already)"
            )
            continue
        assert (run.events, run.refused, log.unlabelled) == (1176, 1, 24)
        assert report.left_out(run, log) == (
            "1 record was rejected and skipped; 24 events whose label never came; "
            "1 label that no event waited for "
            f"({path / 'labels.jsonl'}, line {len(labels)}: no event of its key waited for it)"
        )


def test_an_unpickled_label_log_continues_at_the_same_record(logs):
    path, _, labels = logs
    late = ByLabels(str(path / "labels.jsonl"), joined("id"), "at", "classification")
    seen = []
    for k in range(len(labels)):
        if k % 200 == 0:
            late = pickle.loads(pickle.dumps(late))
        seen.append(late._upcoming(fail).key)
        late._next = None
    assert seen == [label["id"] for label in labels]


BAD = [
    ({"id": "bad", "y": True}, "line 701: field 'at': None is no time"),
    ({"at": 5, "y": True}, "line 701: the key 'id' is missing"),
    ({"id": 1e300, "at": 5, "y": True}, "line 701: the key 'id' is 1e+300, which is no exact number"),
    ({"id": True, "at": 5, "y": True}, "line 701: the key 'id' is True; a key is a text or"),
    ({"id": "bad", "at": 5}, "line 701: the target 'y' is missing"),
    ("broken", "line 701: cannot be decoded"),
]


@pytest.mark.parametrize(("row", "sentence"), BAD)
@pytest.mark.parametrize("strict", [True, False])
def test_bad_records_of_a_label_log_cost_no_others(logs, row, sentence, strict):
    path, events, labels = logs
    learner, *_ = loop(events, labels)
    rows = [*map(json.dumps, labels)]
    rows.insert(700, row if row == "broken" else json.dumps(row))
    (path / "labels.jsonl").write_text("\n".join(rows))
    late = ByLabels(str(path / "labels.jsonl"), joined("id"), "at")
    run = replay_log(
        events_of(path / "events.jsonl"), "kaczmarz:features=64,seed=7", baseline=False,
        delay=late, strict=strict,
    )  # fmt: skip
    if strict:
        assert f"labels.jsonl, {sentence}" in run.error
        assert 600 < run.events < 800
        return
    assert f"labels.jsonl, {sentence}" in run.examples[0]
    assert run.refused == 1
    assert run.learner.to_bytes() == learner.to_bytes()


@pytest.mark.parametrize(("row", "sentence"), BAD[1:])
def test_bad_records_of_labels_that_are_only_joined(logs, row, sentence):
    path, _, labels = logs
    rows = [*map(json.dumps, labels)]
    rows.insert(700, row if row == "broken" else json.dumps(row))
    (path / "labels.jsonl").write_text("\n".join(rows))
    events = events_of(path / "events.jsonl")
    log = Joined(events, str(path / "labels.jsonl"), joined("id"))
    run = replay_log(log, "kaczmarz", baseline=False)
    assert run.events == len(labels) - 1
    assert log.left_out() == "1 record of the label log skipped; 24 events have no label"
    assert f"labels.jsonl, {sentence}" in log.examples[0]
    assert (log.unreadable, log.unlabelled) == (1, 24)
    with pytest.raises(ValueError, match="line 701"):
        Joined(events, str(path / "labels.jsonl"), joined("id"), strict=True)


@pytest.mark.parametrize("strict", [True, False])
def test_a_bad_label_after_the_last_event(logs, strict):
    """It is met when nothing is left but labels."""
    path, events, labels = logs
    learner, *_ = loop(events, labels)
    late = [k for k, label in enumerate(labels) if label["at"] > 1199]
    rows = [*map(json.dumps, labels)]
    rows.insert(late[3], json.dumps({"id": "bad", "at": 1300.0}))
    (path / "labels.jsonl").write_text("\n".join(rows))
    run = replay_log(
        events_of(path / "events.jsonl"), "kaczmarz:features=64,seed=7", baseline=False,
        delay=ByLabels(str(path / "labels.jsonl"), joined("id"), "at"), strict=strict,
    )  # fmt: skip
    if strict:
        assert f"line {late[3] + 1}: the target 'y' is missing" in run.error
        assert run.events == late[3]
        return
    assert run.learner.to_bytes() == learner.to_bytes()
    assert run.refused == 1


def test_bad_labels_are_counted_once_however_often_it_is_interrupted(logs):
    path, events, labels = logs
    learner, *_ = loop(events, labels)
    rows = [*map(json.dumps, labels)]
    for at in (1150, 700, 300):
        rows.insert(at, "broken")
    (path / "labels.jsonl").write_text("\n".join(rows))

    for stop in (0, 400, 800, 10**9):
        run = replay_log(
            events_of(path / "events.jsonl"), "kaczmarz:features=64,seed=7", baseline=False,
            delay=ByLabels(str(path / "labels.jsonl"), joined("id"), "at"),
            checkpoint=ReplayCheckpoint(path / "kept", {}), watch=Stop(stop),
        )  # fmt: skip
    assert run.refused == len(run.examples) == 3
    assert run.learner.to_bytes() == learner.to_bytes()


def test_a_label_log_without_labels(logs):
    path, *_ = logs
    events, none = events_of(path / "events.jsonl"), path / "none.jsonl"
    none.write_text('{"id": "e1"}\n')
    for made in (
        lambda: Joined(events, str(none), joined("id")),
        ByLabels(str(none), joined("id"), "at").look,
    ):
        with pytest.raises(ValueError, match=r"none\.jsonl, line 1: "):
            made()


KEYS = ["1234567890123456001", "1234567890123456002", "0012", "12", "1e5", "100000", "nan", "NA", " 7", "7.0"]


def csv_logs(path, keys, labels):
    """Write events without a column of the target, and labels; both are CSV."""
    events = "".join(f"{i}.5,{key},{i}\n" for i, key in enumerate(keys))
    (path / "events.csv").write_text("a,id,at\n" + events)
    (path / "labels.csv").write_text("id,y,at\n" + "".join(f"{key},{y},100\n" for key, y in labels))
    return events_of(path / "events.csv", "id"), str(path / "labels.csv")


class Noted:
    """A model that keeps what it learns."""

    def __init__(self):
        self.learned = []

    def predict_one(self, x):
        return 0.0

    def learn_one(self, x, y):
        self.learned.append((x["a"], y))


@pytest.mark.parametrize("late", [True, False])
def test_keys_of_csv_are_as_they_are_written(tmp_path, late, monkeypatch):
    """Each of these has its own number, whatever numbers they would be."""
    noted = Noted()
    monkeypatch.setattr("connectors.replay.run.contender", lambda *_, **__: noted)
    log, labels = csv_logs(tmp_path, KEYS, [(key, 10 * i + 0.25) for i, key in enumerate(KEYS)][::-1])
    if late:
        replay_log(log, "noted", "regression", baseline=False, delay=ByLabels(labels, joined("id"), "at"))
    else:
        replay_log(Joined(log, labels, joined("id")), "noted", "regression", baseline=False)
    assert sorted(noted.learned) == [(i + 0.5, 10 * i + 0.25) for i in range(len(KEYS))]


@pytest.mark.parametrize("late", [True, False])
def test_of_several_labels_of_a_key_the_first_counts(tmp_path, late, monkeypatch):
    noted = Noted()
    monkeypatch.setattr("connectors.replay.run.contender", lambda *_, **__: noted)
    log, labels = csv_logs(tmp_path, ["k", "l"], [("k", 1.5), ("l", 2.5), ("k", 3.5)])
    (tmp_path / "labels.csv").write_text((tmp_path / "labels.csv").read_text().replace(",100", ",-5"))
    if late:
        run = replay_log(
            log, "noted", "regression", baseline=False, delay=ByLabels(labels, joined("id"), "at")
        )
        said, count = run.examples, run.refused
    else:
        log = Joined(log, labels, joined("id"))
        replay_log(log, "noted", "regression", baseline=False)
        said, count = log.examples, log.unreadable
    assert noted.learned == [(0.5, 1.5), (1.5, 2.5)]
    assert said == [f"{labels}, line 4: the key 'k' has a label already"]
    assert count == 1


def test_keys_of_json_are_strings_or_whole_numbers():
    assert [key_text(key) for key in (12, 12.0, "12", "0012", -3, 2**70)] == [
        "12", "12", "12", "0012", "-3", str(2**70)
    ]  # fmt: skip
    for wrong in (None, "", True, [1], float(2**53), float("nan")):
        with pytest.raises(ValueError, match="is "):
            key_text(wrong)


def test_a_column_of_keys_that_is_not_there(tmp_path):
    _, labels = csv_logs(tmp_path, ["k"], [("k", 1)])
    with pytest.raises(ValueError, match=r"events\.csv: there is no column 'key'; use a, id or at"):
        list(events_of(tmp_path / "events.csv", "key"))
    with pytest.raises(ValueError, match=r"labels\.csv: there is no column 'key'; use id, y or at"):
        ByLabels(labels, joined("key"), "at").look()


@pytest.mark.parametrize("options", [[], ["--time", "at"]])
def test_the_command_takes_csv_for_both(tmp_path, options):
    """Events have no column of the target."""
    rng = random.Random(3)
    rows = [(1234567890123456000 + i, rng.gauss(0, 1), rng.gauss(0, 1)) for i in range(600)]
    (tmp_path / "events.csv").write_text(
        "id,at,a,b\n" + "".join(f"{key},{i},{a},{b}\n" for i, (key, a, b) in enumerate(rows))
    )
    (tmp_path / "labels.csv").write_text(
        "at,y,id\n" + "".join(f"{i + 2},{a * b > 0},{key}\n" for i, (key, a, b) in enumerate(rows) if i % 50)
    )
    command = [
        "replay", "events.csv", "--target", "y", "--labels", "labels.csv", "--key", "id", *options,
        "--json", "--learner", "kaczmarz",
    ]  # fmt: skip
    done = run(*command, cwd=tmp_path, check=True)
    found = json.loads(done.stdout)
    assert (found["events"], found["refused"]) == (588, 0)
    assert found["contenders"]["kaczmarz"]["accuracy"] > 0.7


def test_a_joined_log_has_the_files_of_its_events_and_says_when_they_are_cut(logs):
    path, _, _ = logs
    events, short = path / "events.jsonl", path / "short.jsonl.gz"
    short.write_bytes(gzip.compress(events.read_bytes())[:-100])
    for file, cut in ((events, False), (short, True)):
        log = Joined(events_of(file), str(path / "labels.jsonl"), joined("id"))
        assert not log.cut
        assert len(list(log)) > 100
        assert (log.cut, list(log.paths)) == (cut, [str(file)])
        (found,) = log.fingerprint()["files"]
        assert found["sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()
