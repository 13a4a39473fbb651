"""A field that changes from a number to a category, or back, is in the log once."""

import json
import logging

import pytest

from connectors.contract.records import Raw
from connectors.daemon.telemetry import Telemetry
from connectors.operators.learning import SingleLearning
from connectors.settings.tables import Settings

LEARNERS = {
    "kaczmarz": {"features": 32},
    "kernel": {"features": 768},
    "kaczmarz without scales": {"features": 32, "scale_inputs": False, "directions": "keyed"},
    "low-rank": {},
}


@pytest.fixture
def lines(caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("connectors"), "propagate", True)
    caplog.set_level(logging.WARNING, "connectors")
    return lambda: [record.getMessage() for record in caplog.records]


def operator_of(name="kaczmarz", telemetry=None):
    settings = Settings.model_validate({
        "source": {"kind": "file", "path": "log"},
        "events": {"target": "y"},
        "learner": {"name": name.partition(" ")[0], "parameters": {"seed": 0, **LEARNERS[name]}},
        "dead_letters": {"kind": "file", "path": "dead"},
    })  # fmt: skip
    return SingleLearning(settings, settings.decoder(), telemetry or Telemetry())


def raws(values, field="price", first=0, **others):
    return [
        Raw(first + i, json.dumps({field: value, "b": i % 3, **others, "y": i % 2}).encode())
        for i, value in enumerate(values)
    ]


def text_to_number(offset, field="price", value="7"):
    return (
        f"p-0, offset {offset}: the field '{field}' was a category in all events before, and is {value} "
        "here; it is also learned as a number (logged once a field)"
    )


def number_to_text(offset, field="price", value="'n/a'"):
    return (
        f"p-0, offset {offset}: the field '{field}' was a number in all events before, and is {value} "
        "here; it is also learned as a category (logged once a field)"
    )


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_number_that_becomes_a_string(lines, name, size):
    operator = operator_of(name)
    records = raws([1.5, 2, None] * 30 + ["n/a", 3.5, "none"] * 10)
    for start in range(0, len(records), size):
        operator.process("p-0", records[start : start + size])
    assert operator.learner.events == 120
    assert lines() == [number_to_text(90)]


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_string_that_becomes_a_number(lines, name, size):
    operator = operator_of(name)
    records = raws(["a", "b", None] * 30 + [7, "a", 8] * 10)
    for start in range(0, len(records), size):
        operator.process("p-0", records[start : start + size])
    assert operator.learner.events == 120
    assert lines() == [text_to_number(90)]


def test_a_number_that_becomes_a_boolean(lines):
    operator = operator_of()
    operator.process("p-0", raws([1, 2, 3, True]))
    assert lines() == [number_to_text(3, value="True")]


@pytest.mark.parametrize("values", [[1, 2.5, None, 3], ["a", None, "b", True], [None, None, 1, 2]])
def test_a_field_of_one_kind_is_not_in_the_log(lines, values):
    operator = operator_of()
    for start in range(0, 400, 8):
        operator.process("p-0", raws(values * 2, first=start))
    assert lines() == []


def test_a_restored_model_warns_of_changed_fields(lines):
    before = operator_of()
    before.process("p-0", raws([1.0] * 20))
    operator = operator_of()
    operator.restore(before.snapshot())
    operator.process("p-0", raws(["n/a"], first=20))
    assert lines() == [number_to_text(20)]


def test_one_warning_a_field_and_process_however_many_models(lines):
    telemetry = Telemetry()
    for _ in range(3):
        operator = operator_of(telemetry=telemetry)
        operator.process("p-0", raws([1.0] * 20 + ["n/a"]))
    assert lines() == [number_to_text(20)]


def test_twenty_fields_at_most(lines):
    operator = operator_of()
    operator.process("p-0", raws([1.0] * 20, **{f"f{i}": 1.0 for i in range(30)}))
    operator.process("p-0", raws([1.0] * 20, first=20, **{f"f{i}": "x" for i in range(30)}))
    assert lines() == [number_to_text(20, f"f{i}", "'x'") for i in range(20)]


def test_a_field_of_a_refused_event_and_a_long_value(lines):
    operator = operator_of()
    operator.process("p-0", raws([1.0] * 20))
    bad = Raw(20, json.dumps({"price": "x" * 1000, "b": [1], "y": 1}).encode())
    operator.process("p-0", [bad, *raws([1.0, "later"], first=21)])
    (line,) = lines()
    assert line.startswith("p-0, offset 20: the field 'price' was a number in all events before, and is 'xxx")
    assert len(line) < 250


def test_the_model_is_the_same_with_and_without_a_warning(lines):
    records = raws([1.5, 2, None] * 30 + ["n/a", 3.5, "none"] * 10)
    one, other = operator_of(), operator_of()
    one.process("p-0", records)
    for record in records:
        other.process("p-0", [record])
    assert one.learner.to_bytes() == other.learner.to_bytes()
    assert len(lines()) == 2  # two processes
