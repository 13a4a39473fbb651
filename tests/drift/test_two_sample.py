"""The detector: its rate of false alarms, what it finds, what it refuses, and river's checks."""

import pickle
from decimal import Decimal

import joblib
import numba
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from river import base, checks

from streamk.drift import KernelTwoSample
from streamk.drift.field_values import ABSENT, FieldValues
from streamk.drift.two_sample import discrepancies
from streamk.drift.windows import BLOCK

from .streams import RARE, SMALL, alarms_of, events


def numbers(rng, count):
    return [{"a": a, "b": b} for a, b in rng.standard_cauchy(size=(count, 2)).tolist()]


def mixed(rng, count):
    return events(rng, count)


def unequal(rng, count):
    return [{"word": str(k)} for k in rng.zipf(1.6, size=count).tolist()]


@pytest.mark.parametrize(
    "stream", [mixed, *(pytest.param(s, marks=pytest.mark.long) for s in (numbers, unequal))]
)
def test_false_alarms_come_at_the_rate_that_is_set(stream):
    rate, count = 3e-3, 70_000
    detector = KernelTwoSample(rate, reference=128, window=64, features=64, seed=7)
    found = len(alarms_of(detector, stream(np.random.default_rng(11), count)))
    assert found == pytest.approx(rate * count, rel=0.2)


@pytest.mark.parametrize("x", [{}, {"a": 1.0}, {"a": 1e9, "word": "x"}, {"a": None, "on": True}, 0])
def test_constant_streams_raise_no_alarm(x):
    detector = KernelTwoSample(**SMALL)
    assert alarms_of(detector, [x] * 1500) == []
    assert detector.summary()["ratio"] == pytest.approx(0.0, abs=1e-3)


def test_a_value_that_comes_once_is_no_drift():
    xs = [{"a": 1.0}] * 1000
    xs[600] = xs[700] = {"a": 2.0}
    assert alarms_of(KernelTwoSample(**RARE), xs) == []


# drifts

CHANGES = {
    "a number moves": ("a", lambda x: {**x, "a": x["a"] + 1.5}),
    "a number spreads": ("b", lambda x: {**x, "b": 100.0 + 6.0 * (x["b"] - 100.0)}),
    "a number is constant": ("b", lambda x: {**x, "b": 101.0}),
    "a number is missing": ("a", lambda x: {**x, "a": None}),
    "a string has another value": ("word", lambda x: {**x, "word": "new"}),
    "a boolean has one value": ("on", lambda x: {**x, "on": True}),
    "a field vanishes": ("word", lambda x: {k: v for k, v in x.items() if k != "word"}),
    "a number vanishes": ("a", lambda x: {k: v for k, v in x.items() if k != "a"}),
    "a number appears": ("d", lambda x: {**x, "d": 3}),
    "a string appears": ("d", lambda x: {**x, "d": "s"}),
    "a number becomes a string": ("a", lambda x: {**x, "a": "s"}),
    "a number is absurd": ("a", lambda x: {**x, "a": 1e99}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_found_and_named(change):
    field, changed = CHANGES[change]
    xs, start = events(np.random.default_rng(2), 1000), 600
    detector = KernelTwoSample(**RARE)
    for i, x in enumerate(xs):
        detector.update(x if i < start else changed(x))
        if detector.drift_detected:
            break
    assert start < i < start + 250
    summary = detector.summary()
    assert next(iter(summary["inputs"])) == field
    assert summary["ratio"] > 1.0
    assert summary["window"] in (8, 16, 32, 64)
    assert summary["events"] == i + 1


def test_a_constant_that_changes_is_found():
    xs = [{"a": 5.0, "b": v} for v in np.random.default_rng(2).normal(size=900).tolist()]
    xs[600:] = [{**x, "a": 5.001} for x in xs[600:]]
    assert 600 < alarms_of(KernelTwoSample(**RARE), xs)[0] < 640


def test_one_of_twenty_columns():
    X = np.random.default_rng(4).normal(size=(2500, 20))
    X[1500:, 13] += 1.0
    detector = KernelTwoSample(1e-5, seed=7)
    found = []
    for i, row in enumerate(X.tolist()):
        found += alarms_of(detector, [{f"x{j}": v for j, v in enumerate(row)}]) and [i]
        if found:
            break
    assert 1500 < found[0] < 1800
    assert next(iter(detector.summary()["inputs"])) == "x13"


def test_labels_of_a_new_concept_in_events_of_the_same_inputs():
    X = np.random.default_rng(4).uniform(0.0, 10.0, size=(3000, 3))
    y = X[:, 0] + X[:, 1] <= np.where(np.arange(3000) < 2000, 6.0, 12.0)
    xs = [dict(zip("abc", row, strict=True)) for row in X.tolist()]
    labelled = [{**x, "label": bool(label)} for x, label in zip(xs, y, strict=True)]
    assert alarms_of(KernelTwoSample(1e-5, seed=7), xs) == []
    assert 2000 < alarms_of(KernelTwoSample(1e-5, seed=7), labelled)[0] < 2200


@pytest.mark.parametrize("spoil", [1e99, -1e99])
def test_an_absurd_value_does_not_blind(spoil):
    xs = events(np.random.default_rng(6), 1000)
    for i, x in enumerate(xs):
        x["mostly 0"] = float(i % 10 == 0) if i < 600 else 1.0
    xs[20] = {**xs[20], "mostly 0": spoil, "a": spoil}
    assert 600 < alarms_of(KernelTwoSample(**RARE), xs)[0] < 640
    moved = [x if i < 600 else {**x, "a": x["a"] + 1.5, "mostly 0": 0.0} for i, x in enumerate(xs)]
    assert 600 < alarms_of(KernelTwoSample(**RARE), moved)[0] < 700


def test_after_an_alarm_the_new_events_are_the_reference():
    rng = np.random.default_rng(8)
    xs = events(rng, 600) + events(rng, 2000, shift=3.0) + events(rng, 400)
    detector, maps = KernelTwoSample(**RARE), set()
    found = []
    for i, x in enumerate(xs):
        detector.update(x)
        found += [i] * detector.drift_detected
        if detector._reference is not None:
            maps.add(detector._reference.map.seed)
    assert len(found) == 2
    assert len(maps) == 3  # the features, too, are new
    assert 600 < found[0] < 630
    assert 2600 < found[1] < 2630


def test_errors_of_a_model_may_be_watched():
    rng = np.random.default_rng(1)
    wrong = rng.random(2000) < np.where(np.arange(2000) < 1000, 0.1, 0.5)
    kinds = (bool, int, float, np.bool_)
    found = [alarms_of(KernelTwoSample(**RARE), [kind(v) for v in wrong]) for kind in kinds]
    assert 1000 < found[0][0] < 1100
    assert found[0] == found[1] == found[2] == found[3]


# the same events, the same alarms


def state(detector):
    return (
        detector.drift_detected,
        detector.summary(),
        [] if detector._reference is None else [detector._distances.tolist(), detector._thresholds.tolist()],
    )


DRIFTING = events(np.random.default_rng(21), 500) + events(np.random.default_rng(22), 500, shift=2.0)


@given(cut=st.integers(0, 999))
@example(cut=255)
@example(cut=256)
@example(cut=512)
def test_an_unpickled_detector_continues_identically(cut):
    one = KernelTwoSample(**SMALL)
    alarms_of(one, DRIFTING[:cut])
    other = pickle.loads(pickle.dumps(one))
    until = DRIFTING[cut : cut + 300]
    assert state(one) == state(other)
    assert alarms_of(one, until) == alarms_of(other, until)
    assert state(one) == state(other)


def test_a_detector_mapped_by_joblib_continues_identically(tmp_path):
    one = KernelTwoSample(**SMALL)
    alarms_of(one, DRIFTING[:300])
    joblib.dump(one, tmp_path / "detector")
    other = joblib.load(tmp_path / "detector", mmap_mode="r")
    assert alarms_of(one, DRIFTING[300:]) == alarms_of(other, DRIFTING[300:])
    assert state(one) == state(other)


def test_neither_the_order_of_fields_nor_threads_change_a_bit():
    one, other = KernelTwoSample(**SMALL), KernelTwoSample(**SMALL)
    before = numba.get_num_threads()
    found = alarms_of(one, DRIFTING)
    numba.set_num_threads(1)
    try:
        again = alarms_of(other, [dict(reversed(x.items())) for x in DRIFTING])
    finally:
        numba.set_num_threads(before)
    assert found == again
    assert 500 < found[0] < 530
    assert state(one) == state(other)


def test_the_seed_alone_is_random():
    runs = [KernelTwoSample(**{**SMALL, "seed": seed}) for seed in (7, 7, 8)]
    for detector in runs:
        alarms_of(detector, DRIFTING[:400])
    assert state(runs[0]) == state(runs[1])
    assert state(runs[0]) != state(runs[2])


def test_events_that_change_afterwards_change_nothing():
    one, other = KernelTwoSample(**SMALL), KernelTwoSample(**SMALL)
    for x in DRIFTING[:400]:
        one.update(x)
        lent = dict(x)
        other.update(lent)
        lent["a"] = 1e9
    assert state(one) == state(other)


# bad input

BAD = [
    ({"a": float("-inf"), "new": 1.0}, "'a' is -inf"),
    ({"new": float("inf")}, "'new' is inf"),
    ({"a": 10**400}, "'a'"),
    ({"a": Decimal("1e200")}, "'a'"),
    ({"a": [1.0]}, "'a' is a list"),
    ({"word": b"x", "new": 3}, "'word' is a bytes"),
    ({"1": 1.0, 1: 2.0}, "same name '1'"),
    (float("inf"), "'x' is inf"),
    ("text", "must be a dict"),
    (None, "must be a dict"),
    ([1.0], "must be a dict"),
]


@pytest.mark.parametrize(("bad", "message"), BAD, ids=[m for _, m in BAD])
def test_bad_input_is_refused_and_changes_nothing(bad, message):
    one, other = KernelTwoSample(**SMALL), KernelTwoSample(**SMALL)
    for i, x in enumerate(DRIFTING[:900]):
        if i % 37 == 0 or one.drift_detected:
            drifted = one.drift_detected
            with pytest.raises(ValueError, match=message):
                one.update(bad)
            assert one.drift_detected == drifted
        one.update(x)
        other.update(x)
        assert one.drift_detected == other.drift_detected
    assert state(one) == state(other)
    assert one._inputs.numbers == other._inputs.numbers


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("false_alarms", 0.0), ("false_alarms", 0.75 / 255), ("false_alarms", float("nan")),
        ("false_alarms", "1e-4"), ("reference", 63), ("reference", 256.0), ("reference", True),
        ("window", 4), ("window", 24), ("window", 512), ("features", 0), ("features", 100),
        ("features", 2**17), ("seed", -1), ("seed", 2**63), ("seed", 1.5),
    ],
)  # fmt: skip
def test_parameters_are_checked(name, value):
    with pytest.raises(ValueError, match=f"^{name}="):
        KernelTwoSample(**{**SMALL, name: value})


# as a river object, for months


def test_it_is_a_detector_of_river():
    detector = KernelTwoSample(**SMALL)
    alarms_of(detector, DRIFTING[:400])
    fresh = detector.clone()
    assert isinstance(fresh, base.DriftDetector)
    assert fresh._get_params() == SMALL
    assert fresh.summary() == {"events": 0, "watching": False, "ratio": 0.0, "window": 0, "inputs": {}}
    assert "KernelTwoSample" in repr(detector)
    assert KernelTwoSample().seed is None
    for parameters in KernelTwoSample._unit_test_params():
        for check in (
            checks.common.check_repr,
            checks.common.check_str,
            checks.common.check_pickling_supports_roundtrip,
            checks.common.check_clone_same_class,
            checks.common.check_clone_is_idempotent,
            checks.common.check_repr_roundtrips_clone,
            checks.common.check_clone_with_new_params_applies,
            checks.common.check_get_params_matches_signature,
            checks.common.check_init_default_params_are_not_mutable,
            checks.common.check_doc,
        ):
            check(KernelTwoSample(**parameters))


def test_names_that_are_new_every_day_take_no_memory():
    rng, sizes, detector = np.random.default_rng(2), [], KernelTwoSample(**{**SMALL, "false_alarms": 1e-8})
    for i, v in enumerate(rng.normal(size=6000).tolist()):
        detector.update({"a": v, f"n{i}": v, "id": f"{i}"})
        if i in (1000, 5999):
            sizes.append(len(pickle.dumps(detector)))
    assert sizes[1] < 1.05 * sizes[0]


def test_summary_counts_events_and_blocks():
    detector = KernelTwoSample(**SMALL)
    for i, x in enumerate(DRIFTING[:300]):
        detector.update(x)
        summary = detector.summary()
        assert summary["events"] == i + 1
        assert summary["watching"] == (i + 1 >= 256)
        assert (summary["window"] > 0) == (i + 1 >= 256 + BLOCK)
    assert list(summary["inputs"].values()) == sorted(summary["inputs"].values(), reverse=True)


@given(st.lists(st.integers(-3, 3), min_size=1), st.lists(st.floats(-3, 3), min_size=1))
def test_discrepancies_of_numbers_are_those_of_kolmogorov_and_smirnov(before, after):
    found = discrepancies([{"a": v} for v in before], [{"a": v} for v in after])
    one, other = np.array(before), np.array(after)
    wanted = max(abs((one <= t).mean() - (other <= t).mean()) for t in [*before, *after])
    assert found["a"] == pytest.approx(wanted)


@given(*[st.lists(st.sampled_from(["x", "y", None, True, "absent"]), min_size=1)] * 2)
def test_discrepancies_of_other_values_are_total_variation(before, after):
    found = discrepancies(
        *([{"b": 1} if v == "absent" else {"b": 1, "a": v} for v in part] for part in (before, after))
    )
    wanted = (
        sum(abs(before.count(v) / len(before) - after.count(v) / len(after)) for v in {*before, *after}) / 2
    )
    assert found.get("a", 0.0) == pytest.approx(wanted)
    assert found["b"] == 0.0


VALUES = st.sampled_from([0.0, 1.5, -2, 7, float("nan"), None, True, "a", "b", ABSENT])


@given(st.lists(st.tuples(VALUES, st.floats(allow_nan=True), st.integers(-9, 9)), min_size=1, max_size=30))
def test_values_of_several_fields_are_those_of_each(rows):
    columns = {name: list(column) for name, column in zip("abc", zip(*rows, strict=True), strict=True)}
    for name, values in FieldValues.of_each(columns).items():
        wanted = FieldValues.of(columns[name])
        assert np.array_equal(values.numbers, wanted.numbers)
        assert +values.others == +wanted.others
        assert (values.events, values.missing) == (wanted.events, pytest.approx(wanted.missing))
        assert values.distance(wanted) == wanted.distance(values) == 0.0


@given(*[st.lists(st.tuples(VALUES, st.integers(0, 3), st.floats(-3, 3)), min_size=1, max_size=20)] * 2)
def test_distances_of_several_fields_are_those_of_each(before, after):
    first, second = (
        FieldValues.of_each({name: list(c) for name, c in zip("abc", zip(*rows, strict=True), strict=True)})
        for rows in (before, after)
    )
    wanted = {name: first[name].distance(second[name]) for name in "abc"}
    assert FieldValues.distances(first, second) == pytest.approx(wanted)
    assert FieldValues.distances({}, second) == {}
