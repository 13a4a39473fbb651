"""The model and the outcomes depend on the good records alone, wherever batches are cut."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.contract.records import Raw, Tally
from connectors.daemon.telemetry import Telemetry
from connectors.operators.learning import SingleLearning, tally
from connectors.operators.outputs import Outcome
from connectors.settings.tables import Settings

TASKS = {
    "classes": ("kaczmarz", {}, "classification"),
    "classes in blocks": ("kaczmarz", {"block_size": 5}, "classification"),
    "classes, growing": (
        "matching-pursuit",
        {"features": 64, "period": 10, "max_features": 128},
        "classification",
    ),
    "numbers": ("kaczmarz", {}, "regression"),
}
TELEMETRY = {task: Telemetry(classes=task == "classification") for task in ("classification", "regression")}
GOOD = ["labelled", "labelled", "labelled", "unlabelled", "weighted", "weightless"]
BAD = ["malformed", "none", "cut", "array", "huge", "wrong target", "nested target", "bad weight", "all bad"]
KINDS = st.lists(st.sampled_from(GOOD + BAD), max_size=30)
CUTS = st.lists(st.integers(0, 30), max_size=6)


def record(i, kind, numbers):
    """Return the bytes of record ``i``, whose fields and target depend on ``i`` alone."""
    fields = {"a": i * 7919 % 13 / 13, "b": i % 3, "c": "xyz"[i % 3]}
    if i % 5 == 4:
        fields["later"] = float(i)
    target = fields["a"] - fields["b"] if numbers else f"class {i * 31 % 4 // 2 + i // 20}"
    event = {**fields, "y": target}
    event |= {
        "weighted": {"w": 0.5 + i % 2},
        "weightless": {"w": 0},
        "array": {"w": [1, 2]},
        "huge": {"b": -1e200},
        "wrong target": {"y": "one" if numbers else i % 2},
        "nested target": {"y": {"z": 1.5}},
        "bad weight": {"w": -1},
        "all bad": {"a": {}, "y": [i]},
    }.get(kind, {})
    if kind == "unlabelled":
        del event["y"]
    text = json.dumps(event).encode()
    return {"malformed": b"\xff{", "none": None, "cut": text[:-1]}.get(kind, text)


def records(kinds, numbers):
    return [Raw(100 + 3 * i, record(i, kind, numbers)) for i, kind in enumerate(kinds)]


def refusals(kinds, numbers):
    """Return of each record whether it is refused; the first label learned says of which type they are."""
    settled, refused = str if numbers else None, []
    for kind in kinds:
        found = int if kind == "wrong target" else str
        bad = kind in BAD and kind != "wrong target"
        if not bad and kind != "unlabelled":
            bad = settled not in (None, found)
            if not bad and kind != "weightless":
                settled = found
        refused.append(bad)
    return refused


def made(name, lenient=True, **tables):
    """Return a learner that knows nothing, and the operator in which it learns."""
    learner, extra, task = TASKS[name]
    values = {
        "source": {"kind": "file", "path": "log"},
        "events": {"target": "y", "weight": "w"},
        "learner": {"name": learner, "task": task, "parameters": {"features": 32, "seed": 3, **extra}},
        **tables,
    }
    if lenient:
        values["dead_letters"] = {"kind": "file", "path": "dead"}
    settings = Settings.model_validate(values)
    operator = SingleLearning(settings, settings.decoder(), TELEMETRY[task])
    return operator.learner, operator


def test_causes_of_refusals():
    _, operator = made("classes", limits={"labels": 2})
    values = [{"a": 1, "y": "u"}, {"a": 2, "y": "v"}, {"a": 3, "y": "w"}, {"a": 1, "y": 3}]
    bodies = [b"bad", b"[1]", *(json.dumps(value).encode() for value in values), b'{"a": 1, "y": "u"}']
    processed = operator.process("p-0", [Raw(i, body) for i, body in enumerate(bodies)])
    assert processed.tally == Tally(3, 0, 4, 0)
    assert processed.causes == {"undecodable": 2, "limits": 1, "learner": 1}


def parts(raws, cuts):
    bounds = [0, *sorted(cut for cut in cuts if cut < len(raws)), len(raws)]
    return [raws[a:b] for a, b in pairwise(bounds)]


def known(prediction):
    """Return a prediction without the labels that were not known yet."""
    return {k: p for k, p in prediction.items() if p} if isinstance(prediction, dict) else prediction


def alike(one, two, exactly):
    assert [(o.raw, o.event, o.reason) for o in one] == [(o.raw, o.event, o.reason) for o in two]
    for a, b in zip(one, two, strict=True):
        p, q = known(a.prediction), known(b.prediction)
        assert p == q if exactly else p == pytest.approx(q, abs=1e-5)


@pytest.mark.parametrize("name", TASKS)
@given(kinds=KINDS, cuts=CUTS)
def test_cuts_and_bad_records_change_nothing(name, kinds, cuts):
    raws, refused = records(kinds, name == "numbers"), refusals(kinds, name == "numbers")
    learner, operator = made(name)
    outcomes = [outcome for part in parts(raws, cuts) for outcome in operator.outcomes(part)]
    assert [outcome.raw for outcome in outcomes] == raws
    assert [outcome.event is None for outcome in outcomes] == refused
    assert all(bool(outcome.reason) == (outcome.event is None) for outcome in outcomes)

    # one by one, as the learner itself would have it
    plain, _ = made(name)
    predict = plain.predict_one if name == "numbers" else plain.predict_proba_one
    for raw, outcome, bad in zip(raws, outcomes, refused, strict=True):
        if bad:
            assert outcome.prediction is None
            continue
        event = json.loads(raw.value)
        target, weight = event.pop("y", None), event.pop("w", 1.0)
        assert outcome.event.fields == event
        assert known(outcome.prediction) == pytest.approx(predict(event), abs=1e-5)
        if target is not None:
            plain.learn_one(event, target, weight)
    assert learner.to_bytes() == plain.to_bytes()

    whole, operator = made(name)
    alike(operator.outcomes(raws), outcomes, exactly="blocks" not in name)
    assert whole.to_bytes() == learner.to_bytes()

    found = tally(outcomes, 0)
    unlearned = [kind in ("unlabelled", "weightless") for kind in kinds]
    assert found.predicted == sum(a and not b for a, b in zip(unlearned, refused, strict=True))
    assert found.refused == sum(refused)
    assert sum(found) == len(kinds)


@pytest.mark.parametrize("name", TASKS)
@given(kinds=KINDS, cuts=CUTS)
def test_work_that_is_not_lenient_ends_at_the_first_refused(name, kinds, cuts):
    raws, refused = records(kinds, name == "numbers"), refusals(kinds, name == "numbers")
    bad = refused.index(True) if True in refused else len(kinds)
    learner, operator = made(name, lenient=False)
    outcomes = []
    for part in parts(raws, cuts):
        outcomes += operator.outcomes(part)
        if outcomes and outcomes[-1].event is None:
            break
    assert [outcome.raw for outcome in outcomes] == raws[: bad + 1]
    assert [outcome.event is None for outcome in outcomes] == refused[: bad + 1]
    before, operator = made(name)
    operator.outcomes(raws[:bad])
    assert learner.to_bytes() == before.to_bytes()


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("name", TASKS)
def test_a_stream_that_begins_badly(name, kind):
    """A label or a field of a record that is refused decides nothing about those behind it."""
    kinds = [kind] * 70 + ["unlabelled"] + ["labelled"] * 70 + [kind]
    raws, refused = records(kinds, name == "numbers"), refusals(kinds, name == "numbers")
    learner, operator = made(name)
    outcomes = operator.outcomes(raws)
    assert [outcome.event is None for outcome in outcomes] == refused
    assert refused.count(True) == (70 if kind == "wrong target" and name != "numbers" else 71)
    good, operator = made(name)
    operator.outcomes([raw for raw, bad in zip(raws, refused, strict=True) if not bad])
    assert learner.to_bytes() == good.to_bytes()


def test_labels_are_not_foretold():
    raws = records(["labelled"] * 40, False)
    _, operator = made("classes")
    whole = [outcome.prediction for outcome in operator.outcomes(raws)]
    _, operator = made("classes")
    assert whole == [operator.outcomes([raw])[0].prediction for raw in raws]


def test_reasons_say_what_is_wrong():
    _, operator = made("classes")
    operator.outcomes(records(["labelled"], False))
    reasons = [outcome.reason for outcome in operator.outcomes(records(BAD, False))]
    said = ["cannot be decoded"] * 3 + ["'w' is a list", "field 'b' is -1e+200", "the label is 1"]
    said += ["'y' is an object", "the weight is -1", "'y' is a list"]
    for reason, words in zip(reasons, said, strict=True):
        assert words in reason
        assert "row" not in reason


def test_no_records():
    learner, operator = made("numbers")
    blank = learner.to_bytes()
    assert operator.outcomes([]) == []
    assert operator.outcomes([]) == []
    assert learner.to_bytes() == blank
    assert tally([], 0) == Tally()


def test_tally():
    raws = records(["labelled", "unlabelled", "malformed", "array"], True)
    _, operator = made("numbers")
    assert tally(operator.outcomes(raws), 0) == Tally(1, 1, 2, 0)
    assert tally([Outcome(raws[0], None, None, "so")], 3) == Tally(0, 0, 1, 3)


@pytest.mark.parametrize("field", ["w", "y"])
def test_reasons_are_short(field):
    _, operator = made("classes")
    good = Raw(0, b'{"a": 1, "y": true}')
    long = Raw(1, json.dumps({"a": 1, "y": True, field: "x" * 100_000}).encode())
    outcome = operator.outcomes([good, long])[1]
    assert 0 < len(outcome.reason) <= 300
