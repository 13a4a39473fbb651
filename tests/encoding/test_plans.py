"""Plans: an event that comes again is encoded as one that is met for the first time."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamk.encoding.inputs import Inputs
from streamk.encoding.rows import Rows

NAMES = ["a", "b", "c", "d", "e"]
VALUES = st.one_of(
    st.floats(-1e6, 1e6), st.integers(-9, 9), st.none(), st.booleans(), st.sampled_from(["x", "y", "1"])
)
EVENTS = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=5)
SETTINGS = [(True, "keyed"), (True, "dense"), (False, "keyed"), (False, "dense")]


def fields_of(rows: Rows) -> set[tuple[int, int, float]]:
    """Return slot, key and value of every field there is."""
    return {
        (int(slot), int(key), float(value))
        for slot, key, value in zip(rows.slots[0], rows.keys[0], rows.values[0], strict=True)
        if key
    }


def encoder(scaled, directions):
    inputs = Inputs(directions, scaled)
    inputs.register(NAMES)
    return inputs


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
