import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamk.evaluation.classes import ClassSums
from streamk.evaluation.numbers import NumberSums
from streamk.evaluation.slices import MISSING, OTHER, Slices, groups_of
from tests.evaluation.streams import classes, cuts, same_state


def sliced(values, **options):
    """Return slices of events whose target is their number and prediction 0."""
    slices = Slices(NumberSums(), **options)
    slices.add(values, np.arange(float(len(values))), np.zeros(len(values)))
    return slices


def counts(slices):
    return {name: sums.events for name, sums in slices.table().items()}


def saved(slices):
    header, arrays = slices.state()
    assert {array.dtype.str for array in arrays.values()} <= {"<f8", "<i8"}
    return Slices.restored((json.loads(json.dumps(header)), arrays))


def test_values_by_hand():
    slices = sliced(["b", "a", None, True, 1, 2.0, "a", float("nan"), np.float64(2.5), np.bool_(False)])
    assert counts(slices) == {"a": 2, "b": 1, "true": 1, "1": 1, "2": 1, "2.5": 1, "false": 1, MISSING: 2}
    assert next(iter(counts(slices))) == "a"
    table = slices.table()
    assert table["a"].values()["mae"] == (1 + 6) / 2
    assert table[MISSING].values()["mae"] == (2 + 7) / 2


def test_many_values_are_pooled():
    values = [f"v{k % 70}" for k in range(3000)] + [None]
    found = counts(sliced(values))
    assert list(found)[-2:] == [MISSING, OTHER]
    assert [name for name in found if name not in (MISSING, OTHER)] == [f"v{k}" for k in range(50)]
    assert found[OTHER] == sum(k % 70 >= 50 for k in range(3000))
    assert set(counts(sliced(["a", "b", "c", "a"], most=2))) == {"a", "b", OTHER}


def test_numbers_are_cut_at_quantiles_of_the_first():
    rng = np.random.default_rng(1)
    values = rng.normal(size=5000) * 10.0
    found = counts(sliced(values.tolist()))
    edges = [float(f"{e:.4g}") for e in np.quantile(values[:1000], [0.2, 0.4, 0.6, 0.8], method="lower")]
    assert list(found) == groups_of(edges)
    bounds = [-np.inf, *edges, np.inf]
    for name, low, high in zip(found, bounds[:-1], bounds[1:], strict=True):
        assert found[name] == ((values > low) & (values <= high)).sum()
        assert 850 < found[name] < 1150


def test_an_edge_is_in_the_group_below():
    found = counts(sliced([*range(100), 19.0, 19.5, None, ""]))
    assert found == {"≤ 19": 21, "19 to 38": 20, "38 to 58": 20, "58 to 78": 20, "> 78": 21, MISSING: 2}


def test_a_column_that_turns_out_to_be_numbers_and_more():
    values = [float(k) for k in range(1000)] + ["x", None, True, 5.0]
    found = counts(sliced(values))
    assert found[OTHER] == 2
    assert found[MISSING] == 1
    assert found["≤ 199"] == 201


def test_few_numbers_are_values():
    assert set(counts(sliced([k % 20 for k in range(500)]))) == {str(k) for k in range(20)}
    assert len(counts(sliced([k % 21 for k in range(500)]))) == 5
    assert set(counts(sliced([1e9 + k for k in range(40)]))) == set(
        groups_of([1000000007.0, 1000000015.0, 1000000023.0, 1000000031.0])
    )


def test_numbers_that_are_mostly_one():
    assert counts(sliced([0.0] * 900 + [float(k) for k in range(1, 101)])) == {"≤ 0": 900, "> 0": 100}


def test_looking_early_changes_nothing():
    values = [float(k % 15) for k in range(500)] + [float(k) for k in range(700)]
    looked, whole = Slices(NumberSums()), sliced(values)
    for k in range(0, 1200, 100):
        looked.add(values[k : k + 100], np.arange(k, k + 100.0), np.zeros(100))
        assert sum(counts(looked).values()) == k + 100
        looked.state()
    assert counts(looked) == counts(whole)
    assert same_state(looked.state(), whole.state())


@settings(max_examples=30)
@given(st.data(), st.sampled_from(["text", "many", "number"]), st.sampled_from([400, 1000, 1400]))
def test_chunks_do_not_show(data, kind, events):
    arrays = classes(5, events, 3)
    rng = np.random.default_rng(2)
    values = {
        "text": rng.choice(["a", "b", None], events).tolist(),
        "many": rng.integers(0, 90, events).astype(str).tolist(),
        "number": rng.normal(size=events).tolist(),
    }[kind]
    whole, parts = Slices(ClassSums()), Slices(ClassSums())
    whole.add(values, *arrays)
    for start, end in pairwise(cuts(data, events, most=3)):
        y, p, last = (array[start:end] for array in arrays)
        known = 1 + max(p.any(axis=0).nonzero()[0], default=-1)
        parts.add(values[start:end], y, p[:, :known], last)
        parts = saved(parts)
    assert same_state(parts.state(), whole.state())


def test_slices_add_up_to_the_whole():
    targets, given_, last = classes(7, 12_000, 3)
    values = np.random.default_rng(1).choice(["a", "b", "c"], len(targets))
    slices, whole, sums = Slices(ClassSums()), ClassSums(), ClassSums()
    whole.add(targets, given_, last)
    slices.add(values.tolist(), targets, given_, last)
    for name, part in slices.table().items():
        mine, alone = values == name, ClassSums(3)
        alone.add(targets[mine], given_[mine], last[mine])
        assert same_state(part.state(), alone.state())
        sums += part
    assert same_state(sums.state(), whole.state())


def test_all_slices_have_the_same_classes():
    slices = Slices(ClassSums())
    given_ = np.array([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]])
    slices.add(["a", "b"], np.array([0, 2]), given_, np.array([-1, 0]))
    table = slices.table()
    assert {sums.classes for sums in table.values()} == {3}
    assert table["a"].values()["brier"] == 0.5


def test_arrays_may_be_written_to_afterwards():
    slices, targets = Slices(NumberSums()), np.ones(5)
    slices.add(["a"] * 5, targets, np.zeros(5), None, None)
    targets[:] = 9.0
    assert slices.table()["a"].values()["mae"] == 1.0
    assert saved(slices).table()["a"].values()["mae"] == 1.0


def test_the_table_is_a_copy():
    slices = sliced(["a", "b"])
    slices.table()["a"].add(np.ones(3), np.ones(3))
    assert counts(slices) == {"a": 1, "b": 1}


def test_refused():
    with pytest.raises(ValueError, match="most is 0"):
        sliced(["a"], most=0)
    with pytest.raises(ValueError, match="arrays of 1, 2 events"):
        Slices(NumberSums()).add(["a"], np.ones(2), np.ones(2))
