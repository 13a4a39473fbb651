"""Plain columns: every input keeps the column it was given."""

import numpy as np
import pytest
from numba import njit

from streamk.encoding.label_history import COLUMNS
from streamk.encoding.rows import CATEGORY
from streamk.features.columns.plain import (
    LINEAR,
    PLAIN,
    columns_of,
    empty_columns,
    in_use,
    index_of,
)
from streamk.features.plans import WITHOUT
from streamk.features.sections import Sections
from streamk.learners.kernel_loop import fill_columns, recall_columns
from tests.features.scratch import Scratch, scratch_of


@njit
def fill(sections, inputs, found, slots, count, learned, features, memory, phi, wider):
    scratch = scratch_of(inputs, found, slots, count, 1.0)
    inputs, keys, slots, codes, wide, counts, units, _ = scratch
    if wider:
        wide = wide * np.float32(2.0)
    scratch = Scratch(inputs, keys, slots, codes, wide, counts, units, features)
    fill_columns(sections, scratch, 0, learned, phi)
    recall_columns(sections, memory, 1, phi, 0)


def filled(keys, places, event, learned, slot=CATEGORY - 7, wider=False):
    """The row of an event of keys to values, of seven features and its labels.

    Four are in the first part, and two and one in the second, which has room for three more.
    """
    width, starts = 2 * PLAIN + 10, np.array([0, PLAIN + 4])
    places_of = [
        (0, PLAIN, 4, 1),
        (4, 2 * PLAIN + 4, 2, 1),
        (6, 2 * PLAIN + 6, 1, 1),
        (7, 2 * PLAIN + 7, 3, 0),
    ]
    made = Sections(768, True, plan=WITHOUT).record
    record = made._replace(
        families=made.families[:3],
        amplitude=np.float32(3.0), columns=keys, places=places, width=width, starts=starts,
        parts=np.array(places_of), tags=TAGS,
    )  # fmt: skip
    found = np.array([[*event, 0]], dtype=np.uint64)
    inputs = np.array([[[*event.values(), 0.0]]], dtype=np.float32)
    phi = np.full((1, width), 9.0, dtype=np.float32)
    features = np.arange(7, dtype=np.float32).reshape(1, 7)
    slots = np.full(found.shape, slot, dtype=np.int32)
    fill(record, inputs, found, slots, len(event), learned, features, MEMORY, phi, wider)
    return phi[0]


TAGS = np.zeros(LINEAR, dtype=np.uint64)
MEMORY = np.arange(2 * COLUMNS, dtype=np.float64).reshape(2, COLUMNS)


def expected(columns):
    plain = np.zeros(PLAIN, dtype=np.float32)
    plain[0], plain[LINEAR:] = 3.0, 3.0 * MEMORY[1]
    for column, value in columns.items():
        plain[column] = 3.0 * value
    return np.concatenate([plain, np.arange(4), plain, [4.0, 5.0, 6.0, 0.0, 0.0, 0.0]]).astype(np.float32)


def test_numbers_with_a_long_tail_are_unclipped_in_the_first_part_only():
    keys = empty_columns()
    filled(keys, index_of(keys), {5: 1.0}, True)
    row = filled(keys, index_of(keys), {5: 4.0}, True, wider=True)
    assert row[1] == 3.0 * 8.0
    assert row[PLAIN + 4 + 1] == 3.0 * 4.0


def test_columns_are_given_by_learning_in_turn():
    keys = empty_columns()
    places = index_of(keys)
    a, b, c = 2**63 + 5, 512 + 5, 5  # the same place of the table, one after the other
    np.testing.assert_array_equal(filled(keys, places, {a: 0.5}, False), expected({}))
    np.testing.assert_array_equal(filled(keys, places, {a: 0.5, b: 2.0}, True), expected({1: 0.5, 2: 2.0}))
    np.testing.assert_array_equal(filled(keys, places, {b: 1.0, c: 4.0}, False), expected({2: 1.0}))
    np.testing.assert_array_equal(filled(keys, places, {c: 4.0, b: 1.0}, True), expected({3: 4.0, 2: 1.0}))
    assert in_use(keys) == [a, b, c]
    assert TAGS[1:5].tolist() == [2**64 + CATEGORY - 7] * 3 + [0]  # of columns given while learning
    np.testing.assert_array_equal(index_of(keys), places)
    again = columns_of(in_use(keys))
    np.testing.assert_array_equal(again, keys)
    np.testing.assert_array_equal(filled(again, index_of(again), {c: 1.0}, False), expected({3: 1.0}))


@pytest.mark.parametrize(("slot", "most"), [(CATEGORY - 7, 128), (3, LINEAR)])
def test_inputs_beyond_the_last_column_have_none(slot, most):
    """Values of categories have the first 127 alone."""
    keys = empty_columns()
    places = index_of(keys)
    for k in range(1, most + 100):
        row = filled(keys, places, {k * 7919: 1.0}, True, slot)
        np.testing.assert_array_equal(row, expected({k: 1.0} if k < most else {}))
    assert in_use(keys) == [k * 7919 for k in range(1, most)]
    if most < LINEAR:
        return
    np.testing.assert_array_equal(columns_of([*in_use(keys), 5]), keys)


@pytest.mark.parametrize("keys", [[1, 1], [0], [3, 0, 4]])
def test_what_are_no_columns(keys):
    with pytest.raises(ValueError, match="impossible"):
        columns_of(keys)
