"""Bad input raises one ValueError that names the field, and never changes a learner."""

import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamk

from .subjects import COMMON, FEW, LEARNERS, build, events, subjects

BAD_VALUES = st.one_of(
    st.sampled_from([math.inf, -math.inf, 1e101, -1e300, 10**400, Decimal("inf"), Decimal("sNaN"), b"", 1j]),
    st.lists(st.integers(), max_size=3),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
    st.builds(object),
    st.builds(set),
    st.builds(lambda: np.zeros(3)),
    st.builds(lambda: np.float32("inf")),
)
BAD_LABELS = st.one_of(
    st.sampled_from([1.5, math.nan, b"x", 3, True, np.float64(2), np.int64(1)]),
    st.lists(st.text(), max_size=1),
)
BAD_TARGETS = st.sampled_from(
    [
        math.nan,
        math.inf,
        -math.inf,
        "3",
        True,
        [1.0],
        1e101,
        1j,
        10**400,
        Decimal("sNaN"),
        np.timedelta64(1, "s"),
    ]
)
BAD_WEIGHTS = st.one_of(
    st.sampled_from([-1.0, math.nan, math.inf, "1", None, [1], 10**400, 1j, np.complex64(1)]),
    st.builds(lambda: np.ones(2)),
    st.just(np.timedelta64(1, "s")),
)
GOOD = st.dictionaries(st.sampled_from("abcd"), st.one_of(st.none(), st.floats(-9, 9), st.text(max_size=3)))


@pytest.fixture(params=subjects(), scope="module")
def learned(request):
    cls, extra = LEARNERS[request.param]
    learner = build(cls, extra)
    for x, y in events(30, classifies=hasattr(learner, "labels")):
        learner.learn_one(x, y)
    return learner


def refuse(learner, message, *arguments, method="learn_one", **named):
    before = learner.to_bytes()
    with pytest.raises(ValueError, match=message):
        getattr(learner, method)(*arguments, **named)
    assert learner.to_bytes() == before


def target(learner):
    return "class 0" if hasattr(learner, "labels") else 1.0


@settings(max_examples=FEW)
@given(x=GOOD, bad=BAD_VALUES)
def test_a_bad_value_is_named(learned, x, bad):
    x = {**x, "the field": bad}
    refuse(learned, "'the field'", x, target(learned))
    known = {**x, "a": bad}
    del known["the field"]
    refuse(learned, "'a'", known, target(learned))


@settings(max_examples=FEW)
@given(x=GOOD, bad=BAD_VALUES)
def test_a_bad_value_cannot_be_predicted_on(learned, x, bad):
    refuse(learned, "'a'", {**x, "a": bad}, method="predict_one")
    refuse(learned, "row 1: .*'a'", [x, {**x, "a": bad}], method="predict_many")


@settings(max_examples=FEW)
@given(rows=st.lists(GOOD, min_size=1, max_size=5), at=st.integers(0, 4), bad=BAD_VALUES)
def test_a_bad_row_stops_the_whole_batch(learned, rows, at, bad):
    at = min(at, len(rows) - 1)
    rows[at] = {**rows[at], "new name": 1.0, "the field": bad}
    y = [target(learned)] * len(rows)
    refuse(learned, f"row {at}: .*'the field'", rows, y, method="learn_many")
    refuse(learned, f"row {at}: .*'the field'", rows, y, method="predict_learn_many")


@given(x=GOOD, label=BAD_LABELS)
def test_a_bad_label(label, x):
    learner = streamk.KaczmarzClassifier(**COMMON)
    learner.learn_one({"a": 1.0}, "text")
    refuse(learner, "the label is", x, label)
    refuse(learner, "row 1: the label is", [x, x], ["text", label], method="learn_many")


@given(x=GOOD, bad=BAD_TARGETS)
def test_a_bad_target(x, bad):
    learner = streamk.KaczmarzRegressor(**COMMON)
    learner.learn_one({"a": 1.0}, 2.0)
    refuse(learner, "the target is", x, bad)
    refuse(learner, "row 1: the target is", [x, x], [1.0, bad], method="learn_many")


@settings(max_examples=FEW)
@given(x=GOOD, bad=BAD_WEIGHTS)
def test_a_bad_weight(learned, x, bad):
    refuse(learned, "the weight is", x, target(learned), w=bad)
    y = [target(learned)] * 2
    refuse(learned, "the weight is", [x, x], y, [1.0, bad], method="learn_many")


@pytest.mark.parametrize("event", [[1.0], "text", None, 3])
def test_what_is_not_an_event(event):
    for cls, y in ((streamk.KaczmarzClassifier, "a"), (streamk.KaczmarzRegressor, 1.0)):
        learner = cls(**COMMON)
        refuse(learner, "an event must be a dict", event, y)
        refuse(learner, "an event must be a dict", event, y, 0.0)
        refuse(learner, "an event must be a dict", event, None)
        refuse(learner, "an event must be a dict", event, method="predict_one")
        refuse(learner, "two fields", {1: 1.0, "1": 2.0}, y, 0.0)


def test_bad_input_first_of_all():
    for cls, y in ((streamk.KaczmarzClassifier, "a"), (streamk.KaczmarzRegressor, 1.0)):
        learner = cls(**COMMON)
        refuse(learner, "'x'", {"x": math.inf}, y)
        refuse(learner, "'x'", {"x": math.inf}, y, 0.0)
        refuse(learner, "'x'", {"x": math.inf}, None)
        refuse(learner, "row 1: .*'x'", [{}, {"x": math.inf}], [None, None], method="learn_many")
        refuse(learner, "the weight is", {}, None, w=-1.0)
        refuse(learner, "'x'", {"x": math.inf}, method="predict_one")
        refuse(learner, "row 0: .*'x'", [{"x": math.inf}], [y], method="learn_many")


def test_a_new_label_with_a_bad_value_is_not_registered():
    learner = streamk.KaczmarzClassifier(**COMMON)
    learner.learn_one({"x": 1.0}, "a")
    refuse(learner, "'x'", {"x": math.inf}, "b")
    assert learner.labels == ["a"]


def test_too_many_names_in_a_batch_are_all_forgotten():
    learner = streamk.KaczmarzRegressor(directions="dense", **COMMON)
    learner.learn_one({"x": 1.0}, 1.0)
    rows = [{f"n{i}": 1.0 for i in range(start, start + 20_000)} for start in range(0, 80_000, 20_000)]
    refuse(learner, "row 3: .*more than 65,536 names", rows, [1.0] * 4, method="learn_many")
