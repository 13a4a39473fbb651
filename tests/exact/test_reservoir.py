"""The reservoir is a uniform sample, whatever the portions, and survives its model file."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamk.encoding.rows import EncodedRows
from streamk.features.reservoir import Reservoir

from .references import ticket


def events(start, stop):
    """Return events whose value, target and weight tell their number; every third has another field.

    From the thirtieth on, every second has a field more.
    """
    numbers = np.arange(start, stop, dtype=np.float64)
    keys = np.full((stop - start, 2), 9, dtype=np.uint64)
    keys[numbers % 3 == 2, 0] = 11
    keys[:, 1] = np.where((numbers >= 30) & (numbers % 2 == 0), 17, 0)
    values = np.repeat(numbers[:, None], 2, axis=1)
    return EncodedRows(np.full(keys.shape, -1, dtype=np.int32), keys, values), np.array(
        [numbers, 1.0 + numbers]
    )


def filled(most, cuts, seed=5):
    reservoir = Reservoir(most, seed)
    for start, stop in itertools.pairwise(cuts):
        reservoir.add(*events(start, stop))
    return reservoir


@given(st.integers(1, 12), st.lists(st.integers(0, 60), max_size=6))
def test_portions_never_show(most, cuts):
    cuts = [0, *sorted(cuts), 60]
    one = filled(most, range(61)).state_dict()
    many = filled(most, cuts).state_dict()
    assert one.keys() == many.keys()
    for name, array in one.items():
        assert array.dtype == many[name].dtype
        assert np.array_equal(array, many[name]), name


def test_rows_stay_with_their_goals():
    rows, goal = filled(20, [0, 33, 34, 500]).rows()
    assert np.array_equal(rows.values[:, 0], goal[0])
    assert np.array_equal(goal[1], goal[0] + 1.0)
    assert np.array_equal(rows.keys[:, 0], np.where(goal[0] % 3 == 2, 11, 9))
    assert np.array_equal(rows.keys[:, 1], np.where((goal[0] >= 30) & (goal[0] % 2 == 0), 17, 0))
    assert (rows.values[:, 1] == np.where(rows.keys[:, 1] > 0, goal[0], 0.0)).all()
    assert len(set(goal[0])) == 20


def test_a_reservoir_of_one_event_holds_all_of_it():
    for seed in range(20):
        rows, goal = filled(1, [0, 5, 60], seed).rows()
        number = goal[0, 0]
        expected = {11 if number % 3 == 2 else 9} | ({17} if number >= 30 and number % 2 == 0 else set())
        assert set(rows.keys[0][rows.keys[0] > 0]) == expected
        assert set(rows.values[0][rows.keys[0] > 0]) == {number}


def test_tickets_are_pinned():
    """Samples outlive versions: of 1,000 events, these are the ones that seed 5 keeps."""
    _, goal = filled(6, [0, 1000]).rows()
    fields = [
        {11 if n % 3 == 2 else 9: float(n)} | ({17: float(n)} if n >= 30 and n % 2 == 0 else {})
        for n in range(1000)
    ]
    assert set(goal[0]) == set(sorted(range(1000), key=lambda n: ticket(5, n, fields[n]))[:6])
    assert sorted(goal[0]) == [100, 262, 337, 346, 434, 650]


def test_every_event_is_as_likely_as_any_other():
    """Of 4,000 samples of 5 of 20 events, each event is in a quarter, to four standard errors."""
    counts = np.zeros(20)
    for seed in range(4000):
        _, goal = filled(5, [0, 20], seed).rows()
        counts[goal[0].astype(int)] += 1
    error = np.sqrt(4000 * 0.25 * 0.75)
    assert (abs(counts - 1000) < 4 * error).all()
    assert counts.sum() == 20_000


def test_it_is_restored():
    whole = filled(7, [0, 40])
    again = Reservoir(7, 5)
    again.load_state_dict(whole.state_dict(), 0)
    for reservoir in (whole, again):
        reservoir.add(*events(40, 90))
    assert all(
        np.array_equal(a, b)
        for a, b in zip(whole.state_dict().values(), again.state_dict().values(), strict=True)
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("reservoir.seen", np.array([0])),
        ("reservoir.seen", np.array([3])),
        ("reservoir.tickets", np.zeros(6, dtype=np.uint64)),
        ("reservoir.tickets", np.zeros(7)),
        ("reservoir.goal", np.full((2, 7), np.nan)),
        ("reservoir.goal", np.zeros((2, 7))),
        ("reservoir.values", np.full((7, 2), np.inf)),
        ("reservoir.slots", np.full((7, 2), 4, dtype=np.int32)),
    ],
)
def test_impossible_parts_are_refused(name, value):
    parts = {**filled(7, [0, 40]).state_dict(), name: value}
    with pytest.raises(ValueError, match=r"^(its|an event of its) "):
        Reservoir(7, 5).load_state_dict(parts, 2)


def test_it_shares_nothing():
    rows, goal = events(0, 3)
    reservoir = Reservoir(5, 1)
    reservoir.add(rows, goal)
    rows.values[:], goal[:] = 7.0, 7.0
    assert reservoir.rows()[1][0].tolist() == [0.0, 1.0, 2.0]
    assert reservoir.rows()[0].values[:, 0].tolist() == [0.0, 1.0, 2.0]
