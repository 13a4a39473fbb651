import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from streamk.encoding.fields import check_events
from streamk.encoding.inputs import Inputs
from streamk.encoding.keys import category_slot
from streamk.encoding.names import MOST_NAMES
from streamk.encoding.rows import CATEGORY, EncodedRows, RowError, missing, stack
from streamk.encoding.scaling import scale_rows


def row(inputs, x, learning=True):
    return inputs.encode(x, learning).copy()


def scaled(inputs, encoded):
    statistics = np.tile([4.0, 1.0, 2.0, 3.0], (8, 1))
    return scale_rows(encoded, statistics if inputs.scaled else inputs.statistics, (-0.5, -1.0))


def content(encoded):
    """The fields of a row, whatever their order: (key, slot, value)."""
    slots, keys, values = (part[0].tolist() for part in encoded)
    return sorted(zip(keys, slots, values, strict=True))


def same(a, b):
    return content(a) == content(b)


def test_order_of_fields_does_not_matter():
    x = {"b": 1.0, "a": "red", "d": True, "c": 2}
    y = dict(reversed(x.items()))
    one, other = Inputs(), Inputs()
    for _ in range(3):  # the third time by a plan
        a, b = row(one, x), row(other, y)
        assert same(a, b)
        for i, j in zip(scaled(one, a), scaled(other, b), strict=True):
            assert i.tobytes() == j.tobytes()


def test_numbers_of_every_kind():
    values = {"a": 1, "b": 2.5, "c": np.float32(3), "d": np.int8(4), "e": Decimal("5"), "f": Fraction(1, 2)}
    assert row(Inputs(), values).values.tolist() == [[1, 2.5, 3, 4, 5, 0.5]]


def test_booleans_and_strings_are_one_hot():
    inputs = Inputs()
    encoded = row(inputs, {"flag": True, "name": "x", "z": np.bool_(False), "s": np.str_("t")})
    assert encoded.values.tolist() == [[1, 1, 1, 1]]
    assert encoded.slots.tolist() == [[category_slot(name) for name in ("flag", "name", "z", "s")]]
    assert (encoded.slots <= CATEGORY).all()
    assert row(inputs, {"flag": False}).keys[0, 0] != row(inputs, {"flag": True}).keys[0, 0]
    assert row(inputs, {"flag": "True"}).keys[0, 0] == row(inputs, {"flag": True}).keys[0, 0]


def test_missing_values_of_new_names_are_skipped():
    inputs = Inputs()
    assert row(inputs, {"a": None, "b": 1.0}).values.shape == (1, 1)
    assert list(inputs.numbers) == ["b"]


def test_names_are_learned_only_by_learning():
    inputs = Inputs()
    unknown = row(inputs, {"a": 1.0}, learning=False)
    assert not unknown.keys.any()  # absent: it has no scale yet
    assert not inputs.numbers
    row(inputs, {"b": 1.0, "a": 2.0})
    assert inputs.numbers == {"a": 0, "b": 1}
    assert row(inputs, {"a": 1.0}, learning=False).values.tolist() == [[1.0]]


def test_one_name_with_changing_types():
    inputs = Inputs()
    keys = []
    for value in (1.0, "one", True, None, 2):
        encoded = row(inputs, {"a": value})
        assert encoded.values.shape == (1, 1)
        keys.append(int(encoded.keys[0, 0]))
    assert keys[0] == keys[3] == keys[4]
    assert len(set(keys)) == 3


@pytest.mark.parametrize("directions", ["keyed", "dense", "structured"])
def test_a_missing_number_that_is_known_says_so(directions):
    inputs = Inputs(directions)
    row(inputs, {"a": 1.0, "b": 2.0})
    known = content(row(inputs, {"a": 1.0, "b": 2.0}, learning=False))
    for x in ({"a": 1.0, "b": None}, {"b": None, "a": 1.0}):
        found = content(row(inputs, x, learning=False))
        assert [key for key, _, _ in found] == [key for key, _, _ in known]
        assert (missing(1), 0.0) in [(slot, value) for _, slot, value in found]
    assert content(row(inputs, {"c": None})) == []
    unscaled = Inputs(directions, scaled=False)
    row(unscaled, {"a": 1.0})
    assert content(row(unscaled, {"a": None})) == []


def test_dense_numbers_are_tied_to_positions():
    x, renamed = {"a": 1.0, "b": 2.0, "c": "x"}, {"p": 1.0, "q": 2.0, "c": "x"}
    for scaled in (True, False):
        assert same(row(Inputs("dense", scaled), x), row(Inputs("dense", scaled), renamed))
    assert not same(row(Inputs("keyed"), x), row(Inputs("keyed"), renamed))


def test_a_new_dense_number_is_predicted_where_it_will_be_learned():
    inputs = Inputs("dense", scaled=False)
    row(inputs, {"m": 1.0})
    x = {"z": 1.0, "m": 2.0, "a": 3.0}
    before = row(inputs, x, learning=False)
    assert same(before, row(inputs, x))
    assert inputs.numbers == {"m": 0, "a": 1, "z": 2}


def test_unscaled_keyed_names_are_not_kept():
    inputs = Inputs(scaled=False)
    for i in range(1000):
        assert row(inputs, {f"n{i}": 1.0}).keys[0, 0] != 0
    assert not inputs.numbers
    assert inputs.statistics.size == 0


def test_the_number_of_names_is_bounded():
    inputs = Inputs()
    inputs.register([f"n{i}" for i in range(MOST_NAMES)])
    with pytest.raises(ValueError, match="'extra' would be among more than 65,536"):
        inputs.encode({"extra": 1.0}, True)
    assert len(inputs.numbers) == MOST_NAMES


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (math.inf, "field 'bad' is inf"),
        (-math.inf, "field 'bad' is -inf"),
        (1e200, "at most 1e\\+100"),
        (10**400, "field 'bad' is 1000"),
        (Decimal("sNaN"), "field 'bad' is sNaN"),
        (np.float32("inf"), "field 'bad' is inf"),
        ([1, 2], "field 'bad' is a list"),
        ({"x": 1}, "field 'bad' is a dict"),
        (np.zeros(2), "field 'bad' is a ndarray"),
        (b"bytes", "field 'bad' is a bytes"),
        (1j, "field 'bad' is a complex"),
    ],
)
def test_a_bad_value_is_named(value, message):
    inputs = Inputs()
    with pytest.raises(ValueError, match=message):
        inputs.encode({"fine": 1.0, "bad": value}, True)
    assert not inputs.numbers


def test_two_fields_with_one_name():
    with pytest.raises(ValueError, match="same name '1'"):
        Inputs().encode({1: 2.0, "1": 3.0}, True)


@pytest.mark.parametrize("event", [[1, 2], "text", 3, None])
def test_an_event_is_a_dict(event):
    with pytest.raises(ValueError, match="an event must be a dict"):
        Inputs().encode(event, True)


def test_many_shapes_of_event_stay_bounded():
    inputs = Inputs(scaled=False)
    for i in range(2000):
        inputs.encode({f"n{i}": 1.0, "c": f"v{i}"}, True)
    assert len(inputs._plans) <= 256


def test_stacking_shares_what_is_shared():
    keys = np.array([[5, 6]], dtype=np.uint64)
    a = EncodedRows(np.zeros((1, 2), np.int32), keys, np.ones((1, 2)))
    b = EncodedRows(np.zeros((1, 2), np.int32), keys.copy(), np.zeros((3, 2)))
    assert stack([a, b]).keys.shape == (1, 2)
    c = EncodedRows(np.zeros((1, 1), np.int32), keys[:, :1], np.ones((1, 1)))
    mixed = stack([a, c])
    assert mixed.keys.tolist() == [[5, 6], [5, 0]]
    assert mixed.slots.tolist() == [[0, 0], [0, -1]]


def test_stacking_puts_fields_in_the_order_of_their_keys():
    a = EncodedRows(np.array([[1, 2, 0]]), np.array([[9, 7, 8]], np.uint64), np.array([[0.1, 0.2, 0.3]]))
    b = EncodedRows(np.array([[2, -1, 0]]), np.array([[7, 0, 8]], np.uint64), np.array([[0.4, 0.5, 0.6]]))
    mixed = stack([a, b])
    assert mixed.keys.tolist() == [[7, 8, 9], [7, 8, 0]]
    assert mixed.slots.tolist() == [[2, 0, 1], [2, 0, -1]]
    assert mixed.values.tolist() == [[0.2, 0.3, 0.1], [0.4, 0.6, 0.0]]


ONE = [1, 1.0, np.float64(1.0), np.float32(1.0), np.int64(1)]


@pytest.mark.parametrize("directions", ["keyed", "dense", "structured"])
@pytest.mark.parametrize("scaled", [True, False])
def test_a_whole_number_is_one_name(scaled, directions):
    inputs = Inputs(directions, scaled)
    expected = content(row(inputs, {1: 2.5, "c": "x"}))
    for field in ONE * 3:
        assert content(row(inputs, {field: 2.5, "c": "x"})) == expected
        many = inputs.encode_many([{field: 2.5, "c": "x"}] * 2, [True, True])
        assert content(many.select(slice(0, 1))) == expected
    assert list(inputs.numbers) == (["1"] if inputs.registers else [])
    assert content(row(inputs, {"1": 2.5, "c": "x"})) == expected


@pytest.mark.parametrize("scaled", [True, False])
def test_true_and_one_are_different_names_after_one_is_cached(scaled):
    inputs = Inputs("keyed", scaled)
    for _ in range(4):
        one = content(row(inputs, {1: 2.5}))
        truth = content(row(inputs, {True: 2.5}))
        assert one != truth
        assert truth == content(row(inputs, {"True": 2.5})) == content(row(inputs, {np.True_: 2.5}))
        assert one == content(row(inputs, {"1": 2.5}))
    assert content(row(inputs, {1.5: 1.0})) == content(row(inputs, {"1.5": 1.0}))


def test_nothing_is_a_row():
    inputs = Inputs()
    assert inputs.encode({}, True).values.shape == (1, 0)
    assert inputs.encode_many([{}, {}], [True, True]).values.shape == (2, 0)
    assert inputs.encode_many([], []).values.shape == (0, 0)


def test_the_row_of_a_bad_value_is_named():
    with pytest.raises(RowError, match="row 1: field 'a' is inf"):
        check_events([{"a": math.nan}, {"a": math.inf}], 1e100)
    with pytest.raises(RowError, match="row 1: field 'a' is a list"):
        Inputs().encode_many([{"a": 1.0}, {"a": []}], [True, True])
    for number in (10**400, Decimal("sNaN")):
        with pytest.raises(RowError, match="row 1: field 'a' is"):
            Inputs().encode_many([{"a": 1.0}, {"a": number}], [True, True])
