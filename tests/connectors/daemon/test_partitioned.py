"""A model for every partition: what one learns does not depend on the others."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.contract.errors import REFUSED_EVENTS
from connectors.contract.records import DEAD_LETTERS, PREDICTIONS, Raw
from connectors.daemon.telemetry import Telemetry
from connectors.operators.learning import PartitionedLearning, SingleLearning
from connectors.settings.tables import Settings
from connectors.state.checkpoint import WATCH
from streamk.learners.loading import MODEL

PARTS = "p-0", "p-1"
TELEMETRY = Telemetry()


def configured(**tables):
    return Settings.model_validate(
        {
            "source": {"kind": "topic", "topic": "p", "group": "g"},
            "events": {"target": "y"},
            "learner": {"name": "kaczmarz", "parameters": {"features": 32, "block_size": 3}},
            "predictions": {"kind": "topic", "topic": "out"},
            "dead_letters": {"kind": "topic", "topic": "dead"},
            "snapshots": {"topic": "models"},
            **tables,
        }
    )


def made(kind=PartitionedLearning, telemetry=TELEMETRY, **tables):
    settings = configured(**tables)
    return kind(settings, settings.decoder(), telemetry)


def raws(seed, count, bad=()):
    values = [
        {"a": (i * 7919 + seed) % 13 / 13, "b": i % 3, "y": (i * 31 + seed) % 4 > 1} for i in range(count)
    ]
    return [Raw(i, b"{" if i in bad else json.dumps(value).encode()) for i, value in enumerate(values)]


@given(st.lists(st.tuples(st.sampled_from(PARTS), st.integers(1, 7)), max_size=15), st.booleans())
def test_two_partitions_by_turns_are_each_alone(turns, moved):
    """Byte for byte, outputs too, and also if a model goes to another process half-way."""
    operator, records = made(), {p: raws(seed, 60, bad={5}) for seed, p in enumerate(PARTS)}
    outputs, at = {p: [] for p in PARTS}, dict.fromkeys(PARTS, 0)
    for p in PARTS:
        operator.begin(p, None)
    for number, (p, count) in enumerate(turns):
        batch = records[p][at[p] : at[p] + count]
        at[p] += len(batch)
        if batch:
            outputs[p] += operator.process(p, batch).outputs
        if moved and number == len(turns) // 2:
            parts, operator = {q: operator.snapshot(q) for q in PARTS}, made()
            for q in PARTS:
                operator.begin(q, parts[q])
    for p in PARTS:
        alone = made(SingleLearning)
        found = alone.process(p, records[p][: at[p]]).outputs if at[p] else []
        assert operator.snapshot(p)[MODEL] == alone.snapshot()[MODEL]
        assert [(o.kind, o.partition, o.raw.offset) for o in outputs[p]] == [
            (o.kind, o.partition, o.raw.offset) for o in found
        ]
        assert {o.kind for o in outputs[p]} <= {PREDICTIONS, DEAD_LETTERS}


def test_changed_limits_apply_to_every_model_and_to_later_ones():
    def labelled(offset, label):
        return [Raw(offset, json.dumps({"a": 1, "y": label}).encode())]

    operator = made()
    operator.begin("p-0", None)
    operator.process("p-0", labelled(0, "one"))
    operator.adjust(configured(limits={"labels": 1}).limits)
    operator.begin("p-1", None)
    operator.process("p-1", labelled(0, "one"))
    for p in PARTS:
        (letter,) = operator.process(p, labelled(1, "two")).outputs
        assert (letter.kind, b"more than 1 (limits.labels)" in letter.body) == (DEAD_LETTERS, True)


def test_changed_limits_apply_where_no_partition_is_given_yet():
    operator = made()
    operator.adjust(configured(limits={"consecutive": 2}).limits)
    operator.begin("p-0", None)
    assert "2 events in a row" in str(operator.process("p-0", raws(0, 3, bad=range(3))).failure)


def test_refusals_are_counted_over_all():
    operator = made(limits={"consecutive": 6})
    for p in PARTS:
        operator.begin(p, None)
    assert operator.process("p-0", raws(0, 3, bad=range(3))).failure is None
    failure = operator.process("p-1", raws(0, 3, bad=range(3))).failure
    assert failure.code == REFUSED_EVENTS
    assert "6 events in a row" in str(failure)


def test_telemetry_adds_up_and_forgets():
    telemetry = Telemetry()
    operator = made(telemetry=telemetry)
    for p in PARTS:
        operator.begin(p, None)
    operator.process("p-0", raws(0, 30))
    operator.process("p-1", raws(1, 12))
    assert telemetry.figures()["events"] == 42
    assert telemetry.registry.get_sample_value("streamk_features") == 64
    operator.release("p-0")
    assert telemetry.figures()["events"] == 12
    assert telemetry.registry.get_sample_value("streamk_model_events") == 12
    with pytest.raises(KeyError):  # its memory is free
        operator.snapshot("p-0")
    operator.release("p-0")
    telemetry.restarted()
    assert telemetry.figures()["events"] == 0


def test_a_model_of_other_settings():
    operator, other = made(), made(learner={"name": "kaczmarz", "parameters": {"features": 48}})
    other.begin("p-0", None)
    other.process("p-0", raws(0, 10))
    with pytest.raises(ValueError, match="holds a learner with features=48, and the settings ask for 32"):
        operator.begin("p-0", other.snapshot("p-0"))


def test_snapshots_hold_what_is_usual(caplog):
    operator = made()
    for part in PARTS:
        operator.begin(part, None)
        operator.process(part, raws(1, 3000))
    parts, later = {part: operator.snapshot(part) for part in PARTS}, made()
    later.begin("p-1", parts["p-1"])
    lacking = [Raw(r.offset, json.dumps({"a": 0.5, "y": r.offset % 4 > 1}).encode()) for r in raws(1, 1500)]
    later.process("p-1", lacking)
    assert caplog.text.count("the field b is missing in 100 % of the last 1,000 events") == 1
    known = later.snapshot("p-1")[WATCH]
    later.begin("p-0", parts["p-0"])  # whose snapshot is older than what this process knows
    assert later.snapshot("p-0")[WATCH] == known
