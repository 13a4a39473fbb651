"""Plain columns: every input keeps the column it was given."""

import numpy as np
import pytest
from numba import njit

from streamk.features.map import MapRecord
from streamk.features.plain import LINEAR, PLAIN, columns_of, empty_columns, fill_plain, in_use, index_of


@njit
def fill(record, inputs, found, count, learned, features, phi):
    fill_plain(record, inputs, found, count, 0, learned, features, phi)


def filled(keys, places, event, learned):
    """The row of an event of keys to values, and its features."""
    empty = np.zeros((0, 0), dtype=np.float32)
    whole = np.zeros(0, dtype=np.int64)
    record = MapRecord(
        np.zeros(0, dtype=np.uint64), whole, whole.reshape(0, 1), empty, 0, 4, np.float32(3.0), keys, places,
        np.zeros(0, dtype=np.uint64), whole, empty,
    )  # fmt: skip
    found = np.array([[*event, 0]], dtype=np.uint64)
    inputs = np.array([[[*event.values(), 0.0]]], dtype=np.float32)
    phi = np.full((1, PLAIN + 4), 9.0, dtype=np.float32)
    features = np.arange(4, dtype=np.float32).reshape(1, 4)
    fill(record, inputs, found, len(event), learned, features, phi)
    return phi[0]


def expected(columns):
    row = np.zeros(PLAIN + 4, dtype=np.float32)
    row[0], row[PLAIN:] = 3.0, range(4)
    for column, value in columns.items():
        row[column] = 3.0 * value
    return row


def test_columns_are_given_by_learning_in_turn():
    keys = empty_columns()
    places = index_of(keys)
    a, b, c = 2**63 + 5, 512 + 5, 5  # the same place of the table, one after the other
    np.testing.assert_array_equal(filled(keys, places, {a: 0.5}, False), expected({}))
    np.testing.assert_array_equal(filled(keys, places, {a: 0.5, b: 2.0}, True), expected({1: 0.5, 2: 2.0}))
    np.testing.assert_array_equal(filled(keys, places, {b: 1.0, c: 4.0}, False), expected({2: 1.0}))
    np.testing.assert_array_equal(filled(keys, places, {c: 4.0, b: 1.0}, True), expected({3: 4.0, 2: 1.0}))
    assert in_use(keys) == [a, b, c]
    np.testing.assert_array_equal(index_of(keys), places)
    again = columns_of(in_use(keys))
    np.testing.assert_array_equal(again, keys)
    np.testing.assert_array_equal(filled(again, index_of(again), {c: 1.0}, False), expected({3: 1.0}))


def test_inputs_beyond_the_last_column_have_none():
    keys = empty_columns()
    places = index_of(keys)
    for k in range(1, 300):
        row = filled(keys, places, {k * 7919: 1.0}, True)
        np.testing.assert_array_equal(row, expected({k: 1.0} if k < LINEAR else {}))
    assert in_use(keys) == [k * 7919 for k in range(1, LINEAR)]
    np.testing.assert_array_equal(columns_of([*in_use(keys), 5]), keys)


@pytest.mark.parametrize("keys", [[1, 1], [0], [3, 0, 4]])
def test_what_are_no_columns(keys):
    with pytest.raises(ValueError, match="impossible"):
        columns_of(keys)
