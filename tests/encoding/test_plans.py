"""Plans: an event that comes again is encoded as one that is met for the first time."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamk
from streamk.encoding import inputs
from streamk.encoding.inputs import Inputs
from streamk.encoding.rows import EncodedRows, missing

NAMES = ["a", "b", "c", "d", "e"]
VALUES = st.one_of(
    st.floats(-1e6, 1e6), st.integers(-9, 9), st.none(), st.booleans(), st.sampled_from(["x", "y", "1"])
)
EVENTS = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=5)
SETTINGS = [(True, "keyed"), (True, "dense"), (False, "keyed"), (False, "dense")]


def fields_of(rows: EncodedRows) -> set[tuple[int, int, float]]:
    """Return slot, key and value of every field there is."""
    return {
        (int(slot), int(key), float(value))
        for slot, key, value in zip(rows.slots[0], rows.keys[0], rows.values[0], strict=True)
        if key
    }


def encoder(scaled, directions):
    made = Inputs(directions, scaled)
    made.register(NAMES)
    return made


@pytest.mark.parametrize(("scaled", "directions"), SETTINGS)
@given(shapes=st.lists(EVENTS, min_size=1, max_size=4), order=st.lists(st.integers(0, 3), max_size=40))
@settings(max_examples=60, deadline=None)
def test_an_event_that_comes_again_is_encoded_as_at_first(scaled, directions, shapes, order):
    kept = encoder(scaled, directions)
    for _ in range(9):  # until every shape has a plan
        for x in shapes:
            kept.encode(x, True)
    for k in order:
        x = shapes[k % len(shapes)]
        known = fields_of(kept.encode(x, True))
        assert known == fields_of(encoder(scaled, directions).encode(x, True))


@pytest.mark.parametrize(("scaled", "directions"), SETTINGS)
def test_holes_come_and_go(scaled, directions):
    kept = encoder(scaled, directions)
    events = [
        {"a": 1.5, "b": None, "c": "x", "d": 2},
        {"a": None, "b": None, "c": "y", "d": 3.0},
        {"a": 4.5, "b": 0.25, "c": "x", "d": 5},
        {"a": 1.5, "b": "x", "c": "x", "d": None},
        {"a": True, "b": 2.5, "c": None, "d": 6},
        {"a": 7.5, "b": 8.5, "c": 9.5, "d": 1},
    ]
    for _ in range(8):
        for x in events:
            found = fields_of(kept.encode(x, True))
            assert found == fields_of(encoder(scaled, directions).encode(x, True))
    assert len(kept._plans) == 1


@pytest.mark.parametrize("bad", [10**400, [1.0], math.nan, math.inf])
@pytest.mark.parametrize("beside", [1.0, None, "x"])
def test_what_cannot_be_taken_is_refused_with_a_plan_too(bad, beside):
    kept = encoder(True, "keyed")
    for _ in range(20):
        kept.encode({"a": 1.0, "b": 2.0, "c": beside}, True)
    refused = None
    try:
        rows = kept.encode({"a": 1.0, "b": bad, "c": beside}, True)
    except ValueError as error:
        refused = str(error)
    if refused is None:  # compiled code refuses it
        assert not all(map(math.isfinite, rows.values[0]))
    else:
        assert "'b'" in refused


def test_optional_numbers_in_any_order():
    kept = encoder(True, "keyed")
    for names in ("abc", "cb", "a", "edcba", "ba"):
        x = {name: float(ord(name)) for name in names}
        rows = kept.encode(x, False)
        assert fields_of(rows) == {(kept.numbers[n], kept.entry(n)[1], float(ord(n))) for n in names}
        assert rows.values.shape == (1, len(names))


def changing(count, seed=0):
    """Events whose fields come and go, are missing, and have other types later on."""
    rng = np.random.default_rng(seed)
    kinds = [lambda: float(rng.normal()), lambda: "xyz"[rng.integers(3)], lambda: True, lambda: None]
    found = []
    for i in range(count):
        often = [0.1, 0.1, 0.1, 0.7] if i < count // 3 else [0.4, 0.3, 0.1, 0.2]
        names = [n for n in NAMES if rng.random() < 0.9]
        kind = {n: (k + i // (count // 2)) % 4 for k, n in enumerate(NAMES)}
        found.append(
            {n: kinds[rng.choice(4, p=often) if rng.random() < 0.2 else kind[n] or 3]() for n in names}
        )
    return found


@pytest.mark.parametrize("directions", ["keyed", "structured"])
@pytest.mark.parametrize("scaled", [True, False])
def test_plans_change_no_model(monkeypatch, scaled, directions):
    models = []
    for plans in (True, False):
        if not plans:
            monkeypatch.setattr("streamk.encoding.inputs.plan_for", lambda x, inputs: None)
        learner = streamk.KaczmarzRegressor(features=64, seed=1, scale_inputs=scaled, directions=directions)
        said = []
        for i, x in enumerate(changing(600)):
            said.append(learner.predict_one(x))
            learner.learn_one(x, float(i % 5))
        assert bool(learner._codec.inputs._plans) == plans
        models.append((learner.to_bytes(), said))
    assert models[0] == models[1]


def test_missing_categories_have_a_plan():
    kept = Inputs()
    for i in range(40):
        kept.encode({"a": 1.0, "s": "x" if i % 3 else None, "t": None}, True)
    assert len(kept._plans) == 1
    planned = next(iter(kept._plans.values()))
    assert planned.failures == 0
    assert fields_of(kept.encode({"a": 1.0, "s": None, "t": None}, True)) == {(0, kept.entry("a")[1], 1.0)}
    kept.encode({"a": 1.0, "t": 2.0, "s": 1.0}, True)  # now they are numbers
    found = kept.encode({"a": 1.0, "s": None, "t": None}, True)
    assert {slot for slot, _, _ in fields_of(found)} == {0, missing(kept.numbers["s"]), missing(2)}


def test_a_plan_that_fails_is_replaced():
    kept = Inputs()
    for value in (None, 3.0):
        for i in range(60):
            kept.encode({"a": float(i), "s": value}, True)
        assert [plan.failures for plan in kept._plans.values()] == [0]


ONE, TWO = 1.5, 2.5
NEXT = [
    ({"a": ONE, "b": TWO}, {"a": TWO, "b": ONE}),
    ({"a": ONE, "b": TWO}, {"b": ONE, "c": TWO}),
    ({"a": ONE, "b": TWO}, {"a": ONE}),
    ({"a": ONE}, {"a": ONE, "b": TWO}),
    ({"a": 1.0, "b": TWO}, {"a": True, "b": TWO}),
    ({"a": ONE, "b": TWO}, {"a": ONE, "b": "2.5"}),
    ({"a": ONE, "b": TWO}, {"b": TWO, "a": ONE}),
]


@pytest.mark.parametrize(("first", "second"), NEXT)
def test_only_the_same_values_under_the_same_names_are_not_encoded_again(first, second):
    one, two = Inputs(), Inputs()
    for i in range(20):
        for inputs_ in (one, two):
            inputs_.encode({"a": float(i), "b": -float(i), "c": 1.0 / (i + 1)}, True)
    one.encode(first, False)
    found, wanted = one.encode(second, False), two.encode(second, False)
    for array, other in zip(found, wanted, strict=True):
        assert array.tolist() == other.tolist()


def test_many_patterns_of_fields_make_few_plans(monkeypatch):
    """A plan takes as long as a dozen events, so it must be used as often at least."""
    made, make = [], inputs.plan_for
    monkeypatch.setattr(inputs, "plan_for", lambda x, fields: made.append(1) or make(x, fields))
    rng, kept = np.random.default_rng(0), Inputs()
    names = [f"x{j}" for j in range(11)]
    for _ in range(20_000):
        kept.encode({name: 1.0 for name in names if rng.random() < 0.7}, True)
    assert len(made) < 20_000 / 60
    assert len(kept._plans) <= 256
