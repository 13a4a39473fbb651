import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamk.evaluation.classes import ClassSums
from streamk.evaluation.numbers import NumberSums
from streamk.evaluation.windows import Curve
from tests.evaluation.streams import classes, cuts, same_state

EVENTS = 130


def stream(kind, seed):
    if kind is ClassSums:
        return classes(seed, EVENTS, 3)
    rng = np.random.default_rng(seed)
    y, p = rng.normal(size=(2, EVENTS))
    return y, p, p - 1.0, p + 1.0


def saved(curve):
    """Return the curve that was written to JSON and arrays, and read."""
    header, arrays = curve.state()
    assert {array.dtype.str for array in arrays.values()} <= {"<f8", "<i8"}
    return Curve.restored((json.loads(json.dumps(header)), {k: a.copy() for k, a in arrays.items()}))


@given(st.data(), st.sampled_from([ClassSums, NumberSums]), st.integers(0, 20), st.integers(1, 140))
def test_chunks_do_not_show(data, kind, seed, interval):
    arrays = stream(kind, seed)
    whole, parts = Curve(kind(), interval), Curve(kind(), interval)
    whole.add(*arrays)
    for start, end in pairwise(cuts(data, EVENTS)):
        cut = [array[start:end] for array in arrays]
        if kind is ClassSums:  # a learner knows no label before it came
            cut[1] = cut[1][:, : 1 + max(cut[1].any(axis=0).nonzero()[0], default=-1)]
        parts.add(*cut)
        parts = saved(parts)
    assert same_state(parts.state(), whole.state())
    assert parts.rows.tobytes() == whole.rows.tobytes()
    assert parts.events == EVENTS


@pytest.mark.parametrize("kind", [ClassSums, NumberSums])
@pytest.mark.parametrize("interval", [1, 7, 13, 65, 130, 131])
def test_windows_are_the_sums_of_their_events(kind, interval):
    arrays = stream(kind, 3)
    curve, whole = Curve(kind(), interval), kind()
    curve.add(*arrays)
    whole.add(*arrays)
    assert same_state(curve.whole().state(), whole.state())
    assert curve.rows.shape == (EVENTS // interval, len(kind.columns()))
    known, sums = 0, kind()
    for k, row in enumerate(curve.rows):
        cut = [array[k * interval : (k + 1) * interval] for array in arrays]
        if kind is ClassSums:  # as many classes as the stream has shown
            known = sums.classes
        window = kind(known) if kind is ClassSums else kind()
        window.add(*cut)
        sums += window
        values = window.values()
        assert row.tobytes() == np.array([values.get(name, np.nan) for name in curve.columns]).tobytes()
    for name in kind.columns()[:1]:
        assert (curve.column(name) == curve.rows[:, 0]).all()


def test_what_is_not_given_is_not_known():
    curve = Curve(NumberSums(), 2)
    curve.add(np.arange(4.0), np.zeros(4), None, None)
    assert curve.column("mae").tolist() == [0.5, 2.5]
    assert np.isnan(curve.column("coverage")).all()


def test_the_sums_of_all_events_are_a_copy():
    curve = Curve(NumberSums(), 3)
    curve.add(np.arange(4.0), np.zeros(4))
    whole, state = curve.whole(), curve.state()
    whole.add(np.ones(5), np.ones(5))
    assert curve.events == curve.whole().events == 4
    curve.add(np.ones(5), np.ones(5))
    assert state[1]["curve.rows"].shape[0] == 1
    assert same_state(curve.whole().state(), whole.state())


def test_sums_that_were_given_are_not_touched():
    sums = NumberSums()
    curve = Curve(sums, 2)
    curve.add(np.arange(4.0), np.zeros(4))
    assert sums.events == 0


def test_options_are_stored():
    assert saved(Curve(NumberSums(0.8), 5)).whole().level == 0.8
    curve = saved(Curve(ClassSums(ranked=False), 5))
    assert not curve.whole().ranked
    assert curve.interval == 5


@pytest.mark.parametrize("interval", [0, -1, 2.0, True])
def test_an_interval_that_is_none(interval):
    with pytest.raises(ValueError, match="interval is"):
        Curve(NumberSums(), interval)
