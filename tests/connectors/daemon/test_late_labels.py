"""Labels in separate records: merged with events by time, learned as a replay does, with a fate each."""

import json
import random
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

import streamk
from connectors.contract.errors import REFUSED_EVENTS, Failure
from connectors.contract.records import MOST, Assigned, LabelReader, Polled, Raw, RawBatch, Source, Tally
from connectors.daemon.label_source import Clock, LabelledSource
from connectors.daemon.telemetry import Telemetry
from connectors.events import joining
from connectors.events.decoding import EventFormat
from connectors.files.source import FileLabels, FileSource
from connectors.operators import late_labels
from connectors.operators.learning import SingleLearning
from connectors.replay.labels import ByLabels, KeyedLog
from connectors.replay.run import replay_log
from connectors.settings.tables import Settings
from connectors.state.aside import AsideStore, Row
from connectors.state.disk import CheckpointStore
from connectors.state.edits import reset
from tests.kafka.stand import newest
from tests.processes import run


def logs(count=400, seed=2):
    """Return events a second apart, and labels: late, early, of none, twice the same, twice another."""
    rng, events, labels = random.Random(seed), [], []
    for i in range(count):
        x = {"a": rng.gauss(0, 1), "b": rng.gauss(0, 1)}
        events.append({**x, "id": f"e{i}", "at": float(i)})
        if i % 50:
            delay = rng.choice([-2.0, 0.0, 0.5, 7.0, 120.0])
            labels.append({"id": f"e{i}", "at": i + delay, "y": x["a"] * x["b"] > 0})
        if i % 40 == 1:
            labels.append({**labels[-1], "at": labels[-1]["at"] + rng.choice([0.0, 60.0])})
        if i % 100 == 3:
            labels.append({"id": f"e{i}", "at": i + 200.0, "y": x["a"] * x["b"] <= 0})
        if i % 100 == 4:
            labels.append({"id": f"nobody {i}", "at": float(i), "y": True})
    return events, sorted(labels, key=lambda label: label["at"])


def plain(learner):
    """Return the bytes of a model after which no event waits, as a replay leaves it."""
    for key in list(learner.waiting):
        learner.tell_one(key, None)
    return learner.to_bytes()


def looped(events, labels, learner):
    """The same written once more."""
    early, told, left = {}, set(), list(labels)

    def bring(until):
        while left and left[0]["at"] <= until:
            label = left.pop(0)
            if label["id"] in learner.waiting:
                learner.tell_one(label["id"], label["y"])
                told.add(label["id"])
            elif label["id"] not in told:
                early.setdefault(label["id"], label["y"])

    for event in events:
        bring(event["at"])
        learner.ask_one(event["id"], {name: event[name] for name in ("a", "b")})
        if event["id"] in early:
            learner.tell_one(event["id"], early.pop(event["id"]))
            told.add(event["id"])
    bring(float("inf"))
    return learner


def raws(rows):
    return [Raw(3 * i, json.dumps(row).encode(), timestamp=None) for i, row in enumerate(rows)]


def settings(wait=None, lenient=True, learner="kaczmarz", task="classification", **labels):
    values = {
        "source": {"kind": "file", "path": "events"},
        "labels": {"kind": "file", "path": "labels", "time": "at", "wait": wait, **labels},
        "events": {"target": "y", "key": "id", "time": "at"},
        "learner": {"name": learner, "task": task, "parameters": {"features": 32, "seed": 3}},
    }
    if lenient:
        values["dead_letters"] = {"kind": "file", "path": "dead"}
    return Settings.model_validate(values)


def operator_of(chosen, aside=None):
    return SingleLearning(
        chosen, chosen.decoder(), Telemetry(), late=late_labels.late_labels(chosen, aside=aside)
    )


def clocks(chosen):
    events, labels = chosen.decoder(), chosen.label_decoder()
    return Clock(lambda: events), Clock(lambda: labels)


class Log:
    """Records of which so many are there, and are polled a few at a time."""

    def __init__(self, name, records, rng):
        self.name, self.records, self.rng, self.there, self.at = name, records, rng, 0, None

    def take(self, most):
        if self.at is None:
            return {}
        count = min(self.rng.randrange(4), self.there - self.at, most)
        taken = self.records[self.at : self.at + count]
        self.at += count
        after = self.records[self.at].offset if self.at < len(self.records) else 3 * len(self.records)
        return {self.name: RawBatch(taken, after)} if count else {}

    def seek(self, position):
        self.at = (position + 2) // 3

    def all_polled(self, partitions):
        return [self.name] if self.name in partitions and self.at == self.there else []


class PlayedEvents(Source):
    name = "events"

    def __init__(self, log):
        self.log, self.assigned = log, False

    def poll(self, seconds, most=MOST):
        if not self.assigned:
            self.assigned = True
            return Polled(assigned=[Assigned("events", None, 0, 10**9)])
        return Polled(self.log.take(most))

    def begin(self, partition, position):
        self.log.seek(position)

    def drained(self, partitions):
        return self.log.all_polled(partitions)

    def partitions(self):
        return ["events"]


class PlayedLabels(LabelReader):
    def __init__(self, log):
        self.log = log

    def labels_of(self, partition):
        return Assigned("labels", None, 0, 10**9)

    def begin(self, partition, position):
        self.log.seek(position)

    def poll(self, seconds, partitions):
        return self.log.take(MOST)

    def drained(self, partitions):
        return self.log.all_polled(partitions)


EVENTS, LABELS = logs()
WHOLE = looped(EVENTS, LABELS, streamk.KaczmarzClassifier(features=32, seed=3))


class Process:
    """A daemon that is killed at any time, and continues from what it stored."""

    def __init__(self, events, labels, rng, directory):
        self.logs, self.rng, self.chosen = (events, labels), rng, settings()
        self.aside = AsideStore(CheckpointStore(directory, 2))
        self.stored, self.predicted = [], {}
        self.start()

    def start(self):
        """Continue from the last checkpoint, or from the one before, as if the last was damaged."""
        self.operator = operator_of(self.chosen, aside=self.aside)
        del self.stored[:-2]
        if len(self.stored) > 1 and self.rng.random() < 0.3:
            self.stored.pop()
        self.at = {"events": 0, "labels": 0}
        if self.stored:
            self.operator.restore(self.stored[-1][0])
            self.at = dict(self.stored[-1][1])
        else:
            self.aside.restore(0, 0)
        events, labels = self.logs
        self.source = LabelledSource(PlayedEvents(events), PlayedLabels(labels), clocks(self.chosen))

    def step(self):
        polled = self.source.poll(0.0, self.rng.randrange(1, 5))
        for each in polled.assigned:
            self.source.begin(each.partition, self.at[each.partition])
        for partition, batch in polled.batches.items():
            for output in self.operator.process(partition, batch.records).outputs:
                assert self.predicted.setdefault(output.raw.offset, output.body) == output.body
            assert batch.next > self.at[partition]
            self.at[partition] = batch.next
        if self.rng.random() < 0.05:
            self.stored.append((self.operator.snapshot(), dict(self.at)))
        if self.rng.random() < 0.02:
            self.start()

    def read_up(self):
        return self.at == {log.name: 3 * len(log.records) for log in self.logs}


@examples(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.booleans(), st.booleans())
def test_two_logs_have_one_order_however_they_are_read(seed, written, crowded):
    """Also while they are written, by time, and through crashes, which lose what no checkpoint holds.

    Where it is crowded, few events wait in memory, and most on disk.
    """
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        if crowded:
            patch.setattr("streamk.learners.waiting._MOST", 12)
            patch.setattr(late_labels, "_TOGETHER", 5)
        read_both(random.Random(seed), written, crowded, Path(directory))


def read_both(rng, written, crowded, directory):
    events, labels = Log("events", raws(EVENTS), rng), Log("labels", raws(LABELS), rng)
    order = [(row["at"], labels) for row in LABELS] + [(row["at"], events) for row in EVENTS]
    order.sort(key=lambda each: (each[0], each[1] is events), reverse=True)
    process, most = Process(events, labels, rng, directory), 0
    while order or not process.read_up():
        for _ in range(rng.randrange(40) if written else len(order)):
            if order:
                order.pop()[1].there += 1
        process.step()
        most = max(most, len(process.aside))
    assert (most > 15) == crowded
    learner = process.operator.learner
    while (row := process.aside.oldest()) is not None:
        learner.take_back(row.key, process.aside.take(row.key).event)
    assert plain(learner) == plain(streamk.loads(WHOLE.to_bytes()))


def passed_on(source, polls):
    """Return the partition and the record of all that so many polls bring."""
    records = []
    for _ in range(polls):
        polled = source.poll(0.0)
        for each in polled.assigned:
            source.begin(each.partition, 0)
        records += [(name, raw) for name, batch in polled.batches.items() for raw in batch.records]
    return records


def test_records_are_passed_on_in_the_order_of_their_times():
    rng = random.Random(1)
    events, labels = Log("events", raws(EVENTS), rng), Log("labels", raws(LABELS), rng)
    rng.randrange = lambda *_: 10**6
    events.there, labels.there = len(EVENTS), len(LABELS)
    source = LabelledSource(PlayedEvents(events), PlayedLabels(labels), clocks(settings()))
    times = [(json.loads(raw.value)["at"], name != "labels") for name, raw in passed_on(source, 3000)]
    assert times == sorted(times)
    assert len(times) == len(EVENTS) + len(LABELS)


def test_an_event_waits_only_until_the_labels_are_read_to_their_end():
    """A label that is there goes first, however slowly it is read; for others no event waits."""
    rng = random.Random(1)
    events, labels = Log("events", raws(EVENTS), rng), Log("labels", raws(LABELS), rng)
    source = LabelledSource(PlayedEvents(events), PlayedLabels(labels), clocks(settings()))
    for _ in range(3):
        for each in source.poll(0.0).assigned:
            source.begin(each.partition, 0)
    events.there = 5
    passed = [p for _ in range(20) for p in source.poll(0.0).batches]
    assert set(passed) == {"events"}
    labels.there, held = 1, labels.take
    labels.take = lambda most: {}  # there, and not polled yet
    events.there = 8
    assert not [p for _ in range(20) for p in source.poll(0.0).batches]
    labels.take = held
    assert next(p for _ in range(30) for p in source.poll(0.0).batches) == "labels"


# ---- fates


def processed(operator, partition, rows, start=0):
    return operator.process(partition, [Raw(start + i, b) for i, b in enumerate(map(bytes_of, rows))])


def bytes_of(row):
    return row if isinstance(row, bytes) else json.dumps(row).encode()


def test_every_label_has_a_fate():
    operator = operator_of(settings(wait=100.0))
    x = {"a": 1.0, "b": 2.0}
    processed(operator, "events", [{**x, "id": k, "at": float(k)} for k in range(6)])
    rows = [
        {"id": 0, "at": 6, "y": True}, {"id": 0, "at": 7, "y": True}, {"id": 0, "at": 8, "y": False},
        {"id": "1", "at": 6, "y": "text"}, b"bad", {"at": 6, "y": True}, {"id": 2, "at": 6},
        {"id": 9, "at": 9, "y": False}, {"id": 9, "at": 9, "y": True}, {"id": 3, "at": "later", "y": True},
    ]  # fmt: skip
    done = processed(operator, "labels", rows)
    assert done.fates == {"learned": 1, "duplicate": 1, "contradicting": 2, "refused": 5}
    assert done.causes == {"contradicting": 2, "learner": 1, "undecodable": 4}
    assert [output.partition for output in done.outputs] == ["labels"] * 7
    reasons = [output.body.decode() for output in done.outputs]
    assert reasons[0] == "the label of '0' is False, and it was another one before"
    assert "the label is 'text' (str), and labels before are of another type" in reasons[1]
    assert reasons[3:5] == ["its key is missing", "it has no label: the field 'y' is missing"]
    assert reasons[6] == "its time: 'later' is no time: neither ISO 8601 nor a number"
    assert done.tally == Tally(1, 0, 7, 0)
    assert (operator.learner.events, list(operator.learner.waiting)) == (1, ["1", "2", "3", "4", "5"])
    assert processed(operator, "events", [{**x, "id": 9, "at": 50.0}]).tally == Tally(1, 0, 0, 0)
    assert processed(operator, "labels", [{"id": 77, "at": 60.0, "y": True}]).fates == {}
    done = processed(operator, "events", [{**x, "id": 10, "at": 104.5}])
    assert done.fates == {"expired": 4}
    assert list(operator.learner.waiting) == ["5", "10"]
    assert processed(operator, "events", [{**x, "id": 11, "at": 200.0}]).fates == {"expired": 1, "unknown": 1}


def test_an_event_that_waits_as_long_as_it_may_still_waits():
    operator = operator_of(settings(wait=100.0))
    assert processed(operator, "events", [{"a": 1.0, "id": k, "at": k} for k in (0, 100)]).fates == {}
    assert processed(operator, "events", [{"a": 1.0, "id": 101, "at": 100.5}]).fates == {"expired": 1}


def test_a_key_that_is_used_again_is_of_another_event():
    operator = operator_of(settings(wait=10.0))
    label = {"id": 1, "y": True}
    processed(operator, "events", [{"a": 1.0, "id": 1, "at": 0}])
    processed(operator, "labels", [{**label, "at": 1}])
    processed(operator, "events", [{"a": 2.0, "id": 1, "at": 2}])
    assert processed(operator, "events", [{"a": 2.0, "id": 2, "at": 12.5}]).fates == {"expired": 1}
    assert processed(operator, "labels", [{**label, "at": 13}]).fates == {}
    assert processed(operator, "events", [{"a": 3.0, "id": 1, "at": 14}]).tally.learned == 1


def test_an_event_is_learned_with_its_weight():
    chosen = settings()
    events = chosen.events.model_copy(update={"weight": "w"})
    operator = operator_of(chosen.model_copy(update={"events": events}))
    alone = streamk.KaczmarzClassifier(features=32, seed=3)
    for k in range(6):
        x, y = {"a": float(k), "b": k % 2 + 0.5}, k % 3 == 0
        processed(operator, "events", [{**x, "id": k, "at": k, "w": 0.25 + k}])
        processed(operator, "labels", [{"id": k, "at": k, "y": y}])
        alone.learn_one(x, y, 0.25 + k)
    assert operator.learner.to_bytes() == alone.to_bytes()


def test_a_corrected_label_is_learned():
    operator = operator_of(settings())
    processed(operator, "events", [{"a": 1.0, "id": k, "at": k} for k in range(2)])
    processed(operator, "labels", [{"id": 0, "at": 3, "y": True}, {"id": 1, "at": 3, "y": 7}])
    assert list(operator.learner.waiting) == ["1"]
    assert processed(operator, "labels", [{"id": 1, "at": 4, "y": False}]).fates == {"learned": 1}
    assert operator.learner.events == 2


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        ({"a": 1.0, "at": 3}, "its key is missing"),
        ({"a": 1.0, "id": True, "at": 3}, "its key is True"),
        ({"a": 1.0, "id": "k", "at": "soon"}, "its time: 'soon' is no time"),
        ({"a": 1.0, "id": "k"}, "its time: None is no time"),
        ({"a": 1.0, "id": 0, "at": 3}, "an event of key '0' waits for its label already"),
        ({"a": 1e300, "id": "k", "at": 3}, "field 'a' is 1e+300"),
    ],
)
def test_an_event_that_cannot_wait_changes_nothing(event, reason):
    operator = operator_of(settings())
    processed(operator, "events", [{"a": 1.0, "id": 0, "at": 0}])
    before = operator.snapshot()
    done = processed(operator, "events", [event])
    assert reason in done.outputs[0].body.decode()
    assert operator.snapshot() == {**before, "refused in a row": b"1 0"}
    assert done.tally.refused == 1


def test_without_dead_letters_a_refused_label_ends_the_run():
    operator = operator_of(settings(lenient=False))
    processed(operator, "events", [{"a": 1.0, "id": k, "at": k} for k in range(3)])
    done = processed(
        operator, "labels", [{"id": 0, "at": 3, "y": True}, b"bad", {"id": 1, "at": 3, "y": True}]
    )
    assert isinstance(done.failure, Failure)
    assert done.failure.code == REFUSED_EVENTS
    assert str(done.failure).startswith("labels, offset 1: cannot be decoded")
    assert (done.done, operator.learner.events) == (1, 1)


def test_events_with_their_target_are_learned_at_once():
    operator = operator_of(settings())
    rows = [{"a": float(k), "id": k, "at": k, **({"y": k % 4 == 0} if k % 2 == 0 else {})} for k in range(8)]
    assert processed(operator, "events", rows).tally == Tally(4, 4, 0, 0)
    assert list(operator.learner.waiting) == ["1", "3", "5", "7"]


def test_limits_count_labels_and_names():
    chosen = settings()
    chosen = chosen.model_copy(update={"limits": chosen.limits.model_copy(update={"labels": 2, "names": 3})})
    operator = operator_of(chosen)
    rows = [{f"n{k}": 1.0, "a": 1.0, "id": k, "at": k} for k in range(5)]
    assert processed(operator, "events", rows).tally == Tally(0, 5, 0, 0)  # no name is learned yet
    labels = [{"id": k, "at": 9, "y": f"label {k}"} for k in range(4)]
    done = processed(operator, "labels", labels)
    assert done.causes == {"limits": 2}
    assert "one more than 2 (limits.labels)" in done.outputs[0].body.decode()
    assert operator.learner.labels == ["label 0", "label 1"]
    processed(operator, "labels", [{"id": 7, "at": 10, "y": "label 7"}])
    assert processed(operator, "events", [{"a": 1.0, "id": 7, "at": 11}]).fates == {"refused": 1}
    assert operator.learner.labels == ["label 0", "label 1"]


def test_memory_is_bounded(monkeypatch):
    """Of events that wait the newest stay, and of labels held and remembered, too; the others have a fate."""
    monkeypatch.setattr("streamk.learners.waiting._MOST", 50)
    monkeypatch.setattr(joining, "MOST", 30)
    operator = operator_of(settings())
    done = processed(operator, "events", [{"a": 1.0, "id": k, "at": k} for k in range(200)])
    assert done.fates == {"expired": 150}
    assert len(operator.learner.waiting) == 50
    held = processed(operator, "labels", [{"id": f"n{k}", "at": 200 + k, "y": True} for k in range(100)])
    assert held.fates == {}
    done = processed(operator, "events", [{"a": 1.0, "id": 999, "at": 400}])
    assert done.fates == {"unknown": 70, "expired": 1}


def crowded_operator(monkeypatch, directory, **changes):
    monkeypatch.setattr("streamk.learners.waiting._MOST", 50)
    monkeypatch.setattr(late_labels, "_TOGETHER", 20)
    store = CheckpointStore(directory, 2)
    return operator_of(settings(**changes), aside=AsideStore(store))


def test_what_memory_cannot_hold_waits_on_disk(monkeypatch, tmp_path):
    operator = crowded_operator(monkeypatch, tmp_path)
    rows = [{"a": 1.0, "id": k, "at": k} for k in range(1000)]
    assert processed(operator, "events", rows).fates == {}
    assert len(operator.learner.waiting) <= 50
    again = processed(operator, "events", [{"a": 1.0, "id": 5, "at": 1000}])
    assert "an event of key '5' waits for its label already" in again.outputs[0].body.decode()
    wrong = {"id": 7, "at": 2000, "y": "text"}
    labels = [{"id": k, "at": 2000, "y": k % 2 == 0} for k in range(1000) if k != 7]
    done = processed(operator, "labels", [labels[0], wrong, *labels[1:], {**wrong, "y": True}])
    assert done.fates == {"learned": 1000, "refused": 1}
    assert (operator.learner.events, list(operator.learner.waiting)) == (1000, [])
    assert processed(operator, "labels", labels[:3]).fates == {"duplicate": 3}


def test_what_waits_on_disk_expires_in_order(monkeypatch, tmp_path):
    operator = crowded_operator(monkeypatch, tmp_path, wait=200.0)
    rows = [{"a": 1.0, "id": k, "at": k} for k in range(500)]
    assert processed(operator, "events", rows).fates == {"expired": 299}
    assert processed(operator, "labels", [{"id": 298, "at": 500, "y": True}]).fates == {}
    assert processed(operator, "labels", [{"id": 299, "at": 500, "y": True}]).fates == {"learned": 1}
    monkeypatch.setattr(late_labels, "_MOST_ASIDE", 100)
    done = processed(operator, "events", [{"a": 1.0, "id": 900, "at": 500}])
    assert done.fates["expired"] > 50


def test_a_checkpoint_without_its_file_of_waiting_events_is_refused(monkeypatch, tmp_path):
    """So is one whose file is another's; the file of no checkpoint is emptied."""
    operator = crowded_operator(monkeypatch, tmp_path)
    rows = [{"a": 1.0, "id": k, "at": k} for k in range(200)]
    processed(operator, "events", rows)
    parts = operator.snapshot()
    other = crowded_operator(monkeypatch, tmp_path / "other")
    with pytest.raises(ValueError, match=r"needs 160 events that wait in .*waiting\.sqlite, and 0 are there"):
        other.restore(parts)
    with pytest.raises(ValueError, match="where a model cannot move"):
        operator_of(settings()).restore(parts)
    operator._late._aside._file.close()
    fresh = crowded_operator(monkeypatch, tmp_path)
    processed(fresh, "events", rows)
    assert processed(fresh, "events", rows[:1]).tally.refused == 1
    assert len(fresh._late._aside) == 160


def test_each_checkpoint_that_is_there_has_its_rows(tmp_path):
    store = AsideStore(CheckpointStore(tmp_path, 2))

    def keys():
        rows = []
        while (row := store.oldest()) is not None:
            rows.append(store.take(row.key).key)
        return rows

    store.put([Row(key, 1.0, b"", b"") for key in "abc"])
    first = store.save()
    assert store.take("b").key == "b"
    store.put([Row("d", 2.0, b"", b"")])
    second = store.save()
    assert (first, second) == ((1, 3), (2, 3))
    assert (keys(), len(store)) == (["a", "c", "d"], 0)
    store.restore(*second)
    assert keys() == ["a", "c", "d"]
    store.restore(*first)
    assert keys() == ["a", "b", "c"]
    store.restore(*first)
    store.take("a")
    for key in "xyz":
        store.put([Row(key, 3.0, b"", b"")])
        store.save()
    with pytest.raises(ValueError, match="needs 3 events that wait"):  # no checkpoint needs its rows
        store.restore(*first)


def test_a_damaged_file_of_waiting_events_names_itself(monkeypatch, tmp_path):
    operator = crowded_operator(monkeypatch, tmp_path)
    (tmp_path / "waiting.sqlite").write_bytes(b"no database" * 1000)
    with pytest.raises(Failure, match=r"waiting\.sqlite: file is not a database; free space, or put back"):
        processed(operator, "events", [{"a": 1.0, "id": k, "at": k} for k in range(200)])


def test_a_warning_names_keys_that_never_meet(caplog):
    operator = operator_of(settings())
    processed(operator, "events", [{"a": 1.0, "id": f"order-{k}", "at": k} for k in range(10)])
    processed(operator, "labels", [{"id": k, "at": 20, "y": True} for k in range(1500)])
    (record,) = caplog.records
    assert "the last label has the key '999', the oldest event 'order-0'" in record.getMessage()


def test_what_waits_is_stored_with_the_model():
    operator, again = operator_of(settings()), operator_of(settings())
    processed(operator, "events", [{"a": 1.0, "id": k, "at": k} for k in range(3)])
    processed(operator, "labels", [{"id": k, "at": 5, "y": True} for k in (0, 8)])
    again.restore(operator.snapshot())
    assert again.snapshot() == operator.snapshot()
    rows = [{"id": 1, "at": 6, "y": False}, {"id": 0, "at": 6, "y": True}, {"id": 8, "at": 6, "y": False}]
    assert processed(again, "labels", rows).fates == {"learned": 1, "duplicate": 1, "contradicting": 1}
    forgotten = {name: part for name, part in operator.snapshot().items() if name != "waiting"}
    again.restore(forgotten)
    assert not again.learner.waiting


def test_without_what_waits_a_model_counts_nothing_on_disk(monkeypatch, tmp_path):
    """As after a reset."""
    operator = crowded_operator(monkeypatch, tmp_path)
    processed(operator, "events", [{"a": 1.0, "id": k, "at": k} for k in range(200)])
    again = crowded_operator(monkeypatch, tmp_path / "again")
    again.restore({"model": operator.snapshot()["model"]})
    assert again.learner.to_bytes() == plain(streamk.KaczmarzClassifier(features=32, seed=3))


def test_other_commands_do_not_read_labels_by_settings(stand):
    write(stand.directory / "events.jsonl", logs(10)[0])
    write(stand.directory / "labels.jsonl", logs(10)[1])
    done = run("replay", files(stand))
    assert done.returncode == 2
    assert "labels: only streamk run reads them by settings" in done.stderr


# ---- settings


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"labels": {"kind": "topic", "topic": "labels"}}, "labels.kind is 'topic' and source.kind 'file'"),
        ({"events": {"target": "y", "time": "at"}}, "need events.key and events.time, and labels.time"),
        ({"labels": {"kind": "file", "path": "labels"}}, "need events.key and events.time, and labels.time"),
        ({"labels": {"kind": "file", "path": "other/events", "time": "at"}}, "both named 'events'"),
    ],
)
def test_settings_that_join_nothing(changes, reason):
    values = {
        "source": {"kind": "file", "path": "events"},
        "labels": {"kind": "file", "path": "labels", "time": "at"},
        "events": {"target": "y", "key": "id", "time": "at"},
    }
    with pytest.raises(ValueError, match=reason):
        Settings.model_validate({**values, **changes})


def test_times_of_topics_are_of_one_kind():
    values = {
        "source": {"kind": "topic", "topic": "events", "group": "g"},
        "labels": {"kind": "topic", "topic": "labels", "time": "at"},
        "events": {"target": "y"},
    }
    with pytest.raises(ValueError, match=r"events\.time and labels\.time belong together"):
        Settings.model_validate(values)


# ---- processes


def write(path, rows):
    with path.open("a") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def files(stand, **changes):
    base = {
        "source": {"kind": "file", "path": stand.directory / "events.jsonl"},
        "labels": {"kind": "file", "path": stand.directory / "labels.jsonl", "time": "at"},
        "events": {"target": "y", "key": "id", "time": "at"},
        "predictions": {"kind": "file", "path": stand.directory / "out.jsonl"},
        "dead_letters": {"kind": "file", "path": stand.directory / "dead.jsonl"},
    }
    return stand.settings(**{**base, **changes})


def replayed(directory, learner):
    def joined(labelled):
        return EventFormat("y", verbatim=("id", "at"), labelled=labelled)

    late = ByLabels(str(directory / "labels.jsonl"), joined(labelled=True), "at")
    log = KeyedLog(str(directory / "events.jsonl"), joined(labelled=False))
    return replay_log(log, learner, baseline=False, delay=late).learner.to_bytes()


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_a_daemon_learns_what_a_replay_learns(stand, task):
    events, labels = logs(1500)
    if task == "regression":
        labels = [{**label, "y": label["y"] + 0.5} for label in labels]
    write(stand.directory / "events.jsonl", events)
    write(stand.directory / "labels.jsonl", labels)
    path = files(
        stand, learner={"name": "kaczmarz", "task": task, "parameters": {"features": 64}},
        checkpoints__events=400,
    )  # fmt: skip
    assert run("run", path).returncode == 0
    directory = stand.directory / "daemon-checkpoints"
    model = plain(newest(directory).learner())
    assert model == replayed(stand.directory, "kaczmarz:features=64,seed=0")
    out = [json.loads(line) for line in (stand.directory / "out.jsonl").read_text().splitlines()]
    assert [line["key"] for line in out] == [event["id"] for event in events]
    dead = [json.loads(line) for line in (stand.directory / "dead.jsonl").read_text().splitlines()]
    assert {line["partition"] for line in dead} == {"labels.jsonl"}
    assert len(dead) == 15  # those that contradict
    assert run("run", path).returncode == 0  # nothing is left to do
    assert plain(newest(directory).learner()) == model


def test_logs_that_are_written_while_they_are_read(stand):
    """Kills included; a label is written before the events that are later."""
    events, labels = logs(1200)
    order = sorted([*labels, *events], key=lambda row: (row["at"], "a" in row))
    paths = {kind: stand.directory / f"{kind}.jsonl" for kind in ("events", "labels")}
    for path in paths.values():
        path.touch()
    config = files(stand, source__follow=True, checkpoints__events=100, checkpoints__seconds=0.2)
    directory, rng = stand.directory / "daemon-checkpoints", random.Random(4)
    process = stand.start(config)
    for start in range(0, len(order), 200):
        part = order[start : start + 200]
        for row in part:
            write(paths["events" if "a" in row else "labels"], [row])
        wanted = sum("a" in row for row in order[: start + len(part)]) - rng.randrange(60)
        process.until(lambda n=wanted: lines(stand.directory / "out.jsonl") >= n)
        process.kill()
        process = stand.start(config)

    def read_up():
        checkpoint = newest(directory)
        ends = {path.name: path.stat().st_size for path in paths.values()}
        return {name: p.position for name, p in checkpoint.partitions.items()} == ends

    process.until(lambda: newest(directory) is not None and read_up())
    assert process.stop() == 0
    assert plain(newest(directory).learner()) == replayed(stand.directory, "kaczmarz:features=64,seed=0")
    out = [json.loads(line)["key"] for line in (stand.directory / "out.jsonl").read_text().splitlines()]
    assert out == [event["id"] for event in events]


def lines(path):
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_a_reset_starts_both_logs_again(stand):
    from connectors.settings.file import load

    events, labels = logs(600)
    write(stand.directory / "events.jsonl", events)
    write(stand.directory / "labels.jsonl", labels)
    config = files(stand)
    assert run("run", config).returncode == 0
    before = newest(stand.directory / "daemon-checkpoints").learner().events
    rows = reset(load(config), "earliest", None, dry_run=False)
    assert [(row.partition, row.position) for row in rows] == [("events.jsonl", 0), ("labels.jsonl", 0)]
    assert run("run", config).returncode == 0
    assert newest(stand.directory / "daemon-checkpoints").learner().events == 2 * before


def test_check_names_a_log_of_labels_that_is_not_there(stand):
    events, labels = logs(10)
    write(stand.directory / "events.jsonl", events)
    done = run("check", files(stand))
    assert done.returncode == 2
    write(stand.directory / "labels.jsonl", labels)
    good = run("check", files(stand))
    assert good.returncode == 0
    assert "labels.path: " in good.stdout
    assert "no field" not in good.stdout
    assert "labels.jsonl: No such file or directory" in done.stderr + done.stdout


def test_a_record_without_a_time_follows_the_one_before_it():
    rng, rows = random.Random(1), [{"id": k, "at": float(at)} for k, at in enumerate((5, 6, 7, 8))]
    events = Log("events", raws(rows), rng)
    labels = Log("labels", raws([{"id": 0, "at": 6.5}, {"id": 1, "at": "soon"}, {"id": 2, "at": 7.5}]), rng)
    rng.randrange = lambda *_: 10
    events.there, labels.there = 4, 3
    source = LabelledSource(PlayedEvents(events), PlayedLabels(labels), clocks(settings()))
    places = [f"{partition[0]}{raw.offset // 3}" for partition, raw in passed_on(source, 20)]
    assert places == ["e0", "e1", "l0", "l1", "e2", "l2", "e3"]


def test_a_clock_counts_no_misfits():
    """Records are decoded twice, for their times and to be learned."""
    chosen = settings()
    decoder = replace(chosen.format, types={"a": "number"}).decoder("json")
    clock, body = Clock(lambda: decoder), b'{"a": "twelve", "id": 1, "at": 5}'
    assert clock(Raw(0, body)) == 5.0
    assert not decoder.take_misfits()
    decoder(body)
    assert decoder.take_misfits().keys() == {"a"}


def test_csv_logs_have_the_same_keys(tmp_path):
    """Keys are read as they are written, and columns by the header."""
    (tmp_path / "events").write_text("id,at,a\n0012,1,2.5\n12,2,3.5\n")
    (tmp_path / "labels").write_text("at;id;y\n3;0012;up\n4;12;down\n")
    chosen = Settings.model_validate(
        {
            "source": {"kind": "file", "path": tmp_path / "events"},
            "labels": {"kind": "file", "path": tmp_path / "labels", "time": "at"},
            "events": {"target": "y", "key": "id", "time": "at", "format": "csv"},
            "learner": {"name": "kaczmarz"},
        }
    )
    events = FileSource(tmp_path / "events", "csv", format=chosen.format.unlabelled())
    labels = FileLabels(tmp_path / "labels", "csv", follow=False, format=chosen.label_format)
    late = late_labels.late_labels(chosen, labels.decoder)
    operator = SingleLearning(chosen, events.decoder, Telemetry(), late=late)
    clocks = Clock(lambda: events.decoder), Clock(lambda: labels.decoder)
    source = LabelledSource(events, labels, clocks)
    finished = False
    while not finished:
        polled = source.poll(0.0)
        finished = polled.finished
        for each in polled.assigned:
            source.begin(each.partition, each.first)
        for partition, batch in polled.batches.items():
            assert operator.process(partition, batch.records).failure is None
    assert (operator.learner.events, operator.learner.labels) == (2, ["up", "down"])


def test_events_whose_records_have_keys_wait_also_in_batches():
    """These are decoded together, since no field is their key."""
    chosen = Settings.model_validate(
        {
            "source": {"kind": "topic", "topic": "in", "group": "g"},
            "labels": {"kind": "topic", "topic": "labels"},
            "events": {"target": "y"},
            "learner": {"name": "kaczmarz", "parameters": {"features": 32, "seed": 3}},
            "dead_letters": {"kind": "topic", "topic": "dead"},
        }
    )
    operator = SingleLearning(chosen, chosen.decoder(), Telemetry())
    rows = [{"a": float(k), "y": k % 2 == 0} for k in range(20)]
    labelled = [Raw(k, json.dumps(row).encode(), b"k%d" % k, k) for k, row in enumerate(rows)]
    assert operator.process("in-0", labelled).tally.learned == 20
    bare = [Raw(20 + k, b'{"a": %d.0}' % k, b"w%d" % k, 20 + k) for k in range(20)]
    assert operator.process("in-0", bare).tally == Tally(0, 20, 0, 0)
    assert list(operator.learner.waiting) == [f"w{k}" for k in range(20)]
    mixed = [labelled[0]._replace(offset=40), bare[0]._replace(offset=41, key=b"x")]
    assert operator.process("in-0", mixed).tally == Tally(1, 1, 0, 0)
    assert "x" in operator.learner.waiting
    labels = [Raw(k, b'{"y": true}', b"w%d" % k, 50) for k in range(20)]
    assert operator.process("labels-0", labels).tally.learned == 20
    assert operator.learner.events == 41
