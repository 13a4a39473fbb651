"""Batches taken as a whole come to what their records come to one by one, byte for byte."""

import json
import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from connectors.contract.records import Raw
from connectors.daemon.telemetry import Telemetry
from connectors.events.decoding import Event
from connectors.operators.learning import SingleLearning
from connectors.operators.outputs import (
    DecodedBatch,
    Origin,
    Outcome,
    body,
    encode,
    encode_batch,
    losses_of,
    without_unknown,
)
from connectors.settings.tables import Settings
from streamk.evaluation.metric import loss_and_error
from streamk.learners.loading import loads

from .test_learning import BAD, CUTS, parts

TASKS = {
    "classes": ("kaczmarz", "classification", 32),
    "numbers": ("kaczmarz", "regression", 32),
    "kernel": ("kernel", "classification", 768),
}
KINDS = st.lists(
    st.sampled_from(
        ["labelled"] * 12 + ["unlabelled"] * 3 + ["whole", "new label", "new name", "text", *BAD]
    ),
    max_size=40,
)


def record(i, kind, numbers):
    fields = {"a": i * 7919 % 13 / 13, "b": i % 3, "id": i}
    fields["y"] = fields["a"] - fields["b"] if numbers else i * 31 % 4 // 2
    fields |= {
        "whole": {"y": float(i % 2)},
        "new label": {"y": i},
        "new name": {f"n{i}": 1.5},
        "text": {"t": "xyz"[i % 3]},
        "array": {"a": [1, 2]},
        "huge": {"b": -1e200},
        "wrong target": {"y": "one"},
        "nested target": {"y": {"z": 1.5}},
        "all bad": {"a": {}, "y": [i]},
        "bad weight": {"a": {}},
    }.get(kind, {})
    if kind == "unlabelled":
        del fields["y"]
    text = json.dumps(fields).encode()
    return {"malformed": b"\xff{", "none": None, "cut": text[:-1]}.get(kind, text)


def operator_of(name, telemetry=None, limits=None, predictions=None):
    learner, task, features = TASKS[name]
    settings = Settings.model_validate({
        "source": {"kind": "file", "path": "log"},
        "events": {"target": "y", "ignore": ["id"]},
        "learner": {"name": learner, "task": task, "parameters": {"features": features, "seed": 3}},
        "limits": limits or {},
        "predictions": {"kind": "file", "path": "out", **(predictions or {})},
        "dead_letters": {"kind": "file", "path": "dead"},
    })  # fmt: skip
    telemetry = telemetry or Telemetry(classes=task == "classification")
    return SingleLearning(settings, settings.decoder(), telemetry), telemetry


@pytest.mark.parametrize("name", TASKS)
@given(kinds=KINDS, cuts=CUTS, labels=st.sampled_from([3, 1000]))
@example(kinds=["labelled"] * 5 + ["new label"] * 5 + ["labelled"], cuts=[5], labels=3)
@example(kinds=["labelled"] * 5 + ["new name"] * 5 + ["labelled"], cuts=[5], labels=3)
def test_as_one_by_one(name, kinds, cuts, labels):
    keys = [None, b"k", b"\xff%s"]
    raws = [
        Raw(100 + 3 * i, record(i, kind, name == "numbers"), keys[i % 3 if i % 2 else 0], i % 5 or None)
        for i, kind in enumerate(kinds)
    ]
    limits = {"labels": labels, "names": 4, "consecutive": 10**6}
    quick, seen = operator_of(name, limits=limits)
    slow, other = operator_of(name, limits=limits)
    slow.whole = lambda records: None
    for part in parts(raws, cuts):
        assert quick.process("p%-0", part) == slow.process("p%-0", part)
        assert quick.learner.to_bytes() == slow.learner.to_bytes()
        assert quick._limit._seen == slow._limit._seen
        assert quick._limit.row == slow._limit.row
    assert seen._losses.means == pytest.approx(other._losses.means)
    assert seen._alarms._rest == pytest.approx(other._alarms._rest)
    assert seen._models == other._models
    assert loads(quick.learner.to_bytes()).events == slow.learner.events


def test_labels_that_are_whole_numbers():
    operator, _ = operator_of("classes")
    raws = [Raw(i, record(i, "whole", False)) for i in range(20)]
    operator.process("p", raws[:10])
    assert operator.learn_batch(raws[10:]).targets == [0, 1] * 5
    assert operator.learner.labels == [0, 1]


@pytest.mark.parametrize("name", TASKS)
def test_what_is_common_is_taken_as_a_whole(name):
    operator, _ = operator_of(name)
    raws = [
        Raw(i, record(i, ["labelled", "unlabelled", "text"][i % 3], name == "numbers")) for i in range(60)
    ]
    assert operator.learn_batch(raws[:1]) is None or name == "numbers"  # a label is new, or a name
    operator.process("p", raws[:30])
    whole = operator.learn_batch(raws[30:])
    assert len(whole.records) == 30
    assert operator.learner.events == 40


PROBABILITIES = st.one_of(
    st.floats(0.0, 1.0),
    st.integers(0, 10**6).map(lambda k: k / 10**6),
    st.integers(0, 10**6).map(lambda k: (k + 0.5) / 10**6),
    st.sampled_from([5e-324, 1e-7, 4.9999999e-7, 5e-7, 1e-6, 1.5e-6, 2.5e-6, 0.1, 1 - 1e-9, 0.0]),
)
LABELS = st.one_of(
    st.just([False, True]),
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=3, unique=True),
    st.lists(st.text(st.characters(codec="utf-8"), max_size=5), min_size=1, max_size=3, unique=True),
)


ORIGIN = Origin("clicks%", "120-e2a41f86", 'a "group"')


def singly(partition, whole, top=20):
    rows = whole.predictions.tolist()
    if whole.labels is not None:
        rows = [without_unknown(dict(zip(whole.labels, row, strict=True))) for row in rows]
    outcomes = [
        Outcome(raw, Event({}, target, None, None, None), row, "")
        for raw, target, row in zip(whole.records, whole.targets, rows, strict=True)
    ]
    return encode(partition, outcomes, True, top, ORIGIN)


def raws_of(data, count):
    keys = data.draw(st.sampled_from([st.none(), st.binary(max_size=5), st.none() | st.binary(max_size=5)]))
    times = data.draw(st.sampled_from([st.none(), st.integers(0, 2**62), st.none() | st.just(7)]))
    return [Raw(k << 40, b"", data.draw(keys), data.draw(times)) for k in range(count)]


@given(st.data(), LABELS, st.text(st.characters(codec="utf-8"), max_size=5))
def test_labels_encoded(data, labels, partition):
    rows = data.draw(
        st.lists(st.lists(PROBABILITIES, min_size=len(labels), max_size=len(labels)), min_size=1)
    )
    targets = [data.draw(st.sampled_from([None, *labels])) for _ in rows]
    whole = DecodedBatch(raws_of(data, len(rows)), targets, np.array(rows), labels)
    assert encode_batch(partition, whole, origin=ORIGIN) == singly(partition, whole)


@given(st.data(), st.integers(2, 6), st.integers(0, 7))
@example(None, 6, 3)
def test_the_most_probable_labels_encoded(data, count, top):
    """Ties, labels that are not known, and names with a per cent sign are as when encoded singly."""
    labels = [f"{chr(97 + k)}%s" for k in range(count)]
    if data is None:
        rows = [[0.1, 0.3, 0.1, 0.3, 0.1, 0.1], [0.0] * 6, [0.5, 0.5, 0.0, 0.0, 0.0, 0.0]]
    else:
        chance = st.sampled_from([0.0, 0.1, 0.1, 0.2, 0.3]) | PROBABILITIES
        rows = data.draw(st.lists(st.lists(chance, min_size=count, max_size=count), min_size=1))
    targets = [None, *labels]
    whole = DecodedBatch(
        [Raw(k, b"", b"k") for k in range(len(rows))],
        [targets[k % len(targets)] for k in range(len(rows))],
        np.array(rows),
        labels,
    )
    found = encode_batch("p%-0", whole, top, ORIGIN)
    assert found == singly("p%-0", whole, top)
    for output, row in zip(found, rows, strict=True):
        order = sorted(range(count), key=lambda k: (-row[k], k))
        expected = {labels[k]: round(row[k], 6) for k in sorted(order[:top]) if row[k] > 0.0}
        answer = json.loads(output.body)
        assert list(answer.get("probabilities", {}).items()) == list(expected.items())
        assert ("probabilities" in answer) == (top > 0)
        assert answer["prediction"] == (labels[order[0]] if row[order[0]] > 0.0 else None)


@pytest.mark.parametrize("quickly", [True, False])
@pytest.mark.parametrize(("top", "shown"), [(None, 20), (3, 3), (0, 0), (900, 900)])
def test_a_prediction_holds_the_most_probable_labels_alone(quickly, top, shown):
    chosen = {} if top is None else {"top": top}
    operator, _ = operator_of("classes", predictions=chosen)
    if not quickly:
        operator.whole = lambda records: None
    raws = [Raw(i, json.dumps({"a": i % 7, "y": f"label {i % 900}"}).encode()) for i in range(1000)]
    operator.process("p", raws[:900])
    outputs = operator.process("p", raws[900:]).outputs
    for output in outputs:
        answer = json.loads(output.body)
        found = answer.get("probabilities", {})
        assert len(found) <= shown
        assert (top == 0) or answer["prediction"] == max(found, key=found.get)
    assert operator.learner.events == 1000


@pytest.mark.parametrize("quickly", [True, False])
def test_a_prediction_without_a_label_says_why(quickly):
    operator, _ = operator_of("classes")
    if not quickly:
        operator.whole = lambda records: None
    raws = [Raw(0, b'{"a": 1}'), Raw(1, b'{"a": 2}'), Raw(2, b'{"a": 3, "y": "up"}'), Raw(3, b'{"a": 1}')]
    answers = []
    for part in (raws[:2], raws[2:3], raws[3:]):
        answers += [json.loads(output.body) for output in operator.process("p", part).outputs]
    assert [a["prediction"] for a in answers] == [None, None, None, "up"]
    assert [a.get("reason") for a in answers] == ["no label learned yet"] * 3 + [None]
    numbers, _ = operator_of("numbers")
    (output,) = numbers.process("p", [Raw(0, b'{"a": 1}')]).outputs
    assert "reason" not in json.loads(output.body)


@given(st.data())
def test_numbers_encoded(data):
    numbers = st.floats() | st.sampled_from([0.0, -0.0, 1.0, 1e16, 1e-7])
    rows = data.draw(st.lists(numbers, min_size=1))
    targets = [data.draw(st.none() | st.integers(-9, 9) | st.floats(allow_nan=False)) for _ in rows]
    whole = DecodedBatch(raws_of(data, len(rows)), targets, np.array(rows), None)
    assert encode_batch("p", whole, origin=ORIGIN) == singly("p", whole)


@given(st.data(), st.integers(1, 4))
@example(None, 2)
def test_losses_of_a_batch_equal_those_of_single_events(data, count):
    labels = list("abcd"[:count])
    if data is None:
        rows = [[0.5, 0.5], [0.0, 1.0], [1e-30, 0.2], [0.3, 0.3], [0.6, 0.9]]
        targets = ["a", "a", "a", "b", "a"]
    else:
        width = {"min_size": count, "max_size": count}
        rows = data.draw(st.lists(st.lists(PROBABILITIES, **width), min_size=1))
        targets = [data.draw(st.sampled_from([None, *labels])) for _ in rows]
    wanted = [
        loss_and_error(target, without_unknown(dict(zip(labels, row, strict=True))))
        for row, target in zip(rows, targets, strict=True)
        if target is not None
    ]
    found = losses_of(DecodedBatch([], targets, np.array(rows), labels))
    assert found.shape == (2, len(wanted))
    assert found.T.tolist() == [pytest.approx(pair) for pair in wanted]
    assert all(map(math.isfinite, found.ravel().tolist()))


def test_a_label_learned_later_is_skipped():
    whole = DecodedBatch([Raw(1, b"")], ["a"], np.array([[1.0, 0.0]]), ["a", "b"])
    assert json.loads(encode_batch("p", whole)[0].body)["probabilities"] == {"a": 1.0}
    event = Event({}, "a", None, None, None)
    assert encode_batch("p", whole)[0].body == body("p", Raw(1, b""), event, {"a": 1.0})
