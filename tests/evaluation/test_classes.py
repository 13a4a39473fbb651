import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import metrics
from sklearn import metrics as sk
from sklearn.calibration import calibration_curve

from streamk.evaluation.classes import CELLS, MOST_RANKED, ClassSums, decisions, score_cell
from tests.evaluation.streams import classes, cuts, same_state

score_cells = np.vectorize(score_cell, otypes=[np.int64])
STREAMS = [(seed, count) for seed in range(4) for count in (2, 3, 7)]


def sums_of(targets, given, last, **options):
    sums = ClassSums(**options)
    sums.add(targets, given, last)
    return sums


def as_dict(row):
    return {k: float(p) for k, p in enumerate(row)} if row.any() else {}


@pytest.mark.parametrize(("seed", "count"), STREAMS)
def test_values_are_those_of_scikit_learn(seed, count):
    targets, given, last = classes(seed, count=count)
    values = sums_of(targets, given, last).values()
    labels = range(count)
    made = given.any(axis=1)
    said = np.where(made, np.argmax(given, axis=1), -1)
    assert values["accuracy"] == pytest.approx(sk.accuracy_score(targets, said), abs=1e-12)
    recall = sk.recall_score(targets, said, labels=labels, average="macro", zero_division=0)
    assert values["balanced_accuracy"] == pytest.approx(recall, abs=1e-12)
    assert values["kappa"] == pytest.approx(sk.cohen_kappa_score(targets, said), abs=1e-12)
    macro = sk.f1_score(targets, said, labels=labels, average="macro", zero_division=0)
    assert values["macro_f1"] == pytest.approx(macro, abs=1e-12)
    y, p = targets[made], given[made]
    own = np.maximum(p[np.arange(len(y)), y], 1e-15)
    assert values["log_loss"] == pytest.approx(np.mean(-np.log(own)), rel=1e-12)
    if count == 2:
        assert values["brier"] == pytest.approx(sk.brier_score_loss(y, p[:, 1]), rel=1e-12)
    else:
        whole = sk.brier_score_loss(y, p, labels=labels, scale_by_half=False)
        assert values["brier"] == pytest.approx(whole, rel=1e-12)
    if (own > 1e-15).all():
        assert values["log_loss"] == pytest.approx(sk.log_loss(y, p, labels=labels), rel=1e-12)


def test_balanced_accuracy_skips_classes_without_targets():
    targets, given, last = classes(1, count=3, silent=0.0, late=False)
    targets[targets == 2] = 0
    expected = sk.recall_score(targets, decisions(given), labels=[0, 1], average="macro")
    assert sums_of(targets, given, last).values()["balanced_accuracy"] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("seed", "count"), STREAMS)
def test_values_are_those_of_river(seed, count):
    targets, given, last = classes(seed, count=count)
    values = sums_of(targets, given, last).values()
    found = {
        "accuracy": metrics.Accuracy(),
        "balanced_accuracy": metrics.BalancedAccuracy(),
        "kappa": metrics.CohenKappa(),
        "log_loss": metrics.CrossEntropy(),
    }
    macro = metrics.MacroF1()
    for y, row in zip(targets.tolist(), given, strict=True):
        label = int(np.argmax(row)) if row.any() else None
        for name in ("accuracy", "balanced_accuracy", "kappa"):
            found[name].update(y, label)
        if label is not None:
            found["log_loss"].update(y, as_dict(row))
            macro.update(y, label)
    for name, metric in found.items():
        assert values[name] == pytest.approx(metric.get(), rel=1e-9), name
    # river takes no prediction for one more class in its mean of F1
    made = given.any(axis=1)
    assert sums_of(targets[made], given[made], last[made]).values()["macro_f1"] == pytest.approx(macro.get())


@pytest.mark.parametrize(("seed", "count"), STREAMS)
def test_temporal_kappa_compares_with_the_last_label(seed, count):
    targets, given, last = classes(seed, count=count)
    said = np.where(given.any(axis=1), given.argmax(axis=1), -1)
    p, q = np.mean(said == targets), np.mean(last == targets)
    assert sums_of(targets, given, last).values()["kappa_temporal"] == pytest.approx((p - q) / (1.0 - q))


@pytest.mark.parametrize(("seed", "count"), STREAMS)
def test_each_class_is_as_scikit_learn_says(seed, count):
    targets, given, last = classes(seed, count=count)
    sums = sums_of(targets, given, last)
    said = np.where(given.any(axis=1), np.argmax(given, axis=1), -1)
    labels = range(count)
    found = sums.each_class()
    expected = sk.precision_recall_fscore_support(targets, said, labels=labels, zero_division=0)
    for name, values in zip(("precision", "recall", "f1", "targets"), expected, strict=True):
        assert found[name] == pytest.approx(values, abs=1e-12), name
    matrix = sk.confusion_matrix(targets, said, labels=labels)
    assert (sums.confusion == matrix).all()
    assert sums.right == np.trace(matrix)
    assert sums.answered == given.any(axis=1).sum()


@pytest.mark.parametrize(("seed", "count"), STREAMS)
def test_auc_on_the_grid_and_off_it(seed, count):
    targets, given, last = classes(seed, count=count, events=3000)
    sums = sums_of(targets, given, last)
    made = given.any(axis=1)
    y, p = targets[made], given[made]
    chosen = [1] if count == 2 else range(count)
    on = np.mean([sk.roc_auc_score(y == k, score_cells(p[:, k])) for k in chosen])
    off = np.mean([sk.roc_auc_score(y == k, p[:, k]) for k in chosen])
    found, error = sums.auc()
    assert found == pytest.approx(on, abs=1e-12)
    assert found == pytest.approx(off, abs=1e-4)
    assert abs(found - off) <= error < 0.1
    assert sums.values()["auc"] == found


def test_auc_is_that_of_river():
    targets, given, last = classes(3, silent=0.0)
    metric = metrics.RollingROCAUC(window_size=len(targets))
    for y, p in zip(targets, given[:, 1], strict=True):
        metric.update(bool(y), float(p))
    given[0] = [1.0, 0.0]  # what river makes of no prediction
    assert sums_of(targets, given, last).values()["auc"] == pytest.approx(metric.get(), abs=2e-4)


@pytest.mark.parametrize(
    ("middle", "spread"), [(0.5, 0.01), (0.3, 0.01), (0.02, 0.01), (1e-4, 1e-4), (1e-7, 1e-7)]
)
def test_auc_where_scores_stand_close(middle, spread):
    rng = np.random.default_rng(5)
    y = rng.integers(0, 2, 20_000)
    p = np.clip(middle + spread * (rng.uniform(-1.0, 1.0, len(y)) + 0.5 * y), 0.0, 1.0)
    for score in (p, 1.0 - p):
        sums = sums_of(y, np.column_stack([1.0 - score, score]), np.full(len(y), -1))
        assert sums.values()["auc"] == pytest.approx(sk.roc_auc_score(y, score), abs=2e-4)


@given(st.lists(st.floats(0.0, 1.0), min_size=2, max_size=50))
def test_a_higher_score_is_in_no_lower_cell(scores):
    cells = score_cells(np.sort(np.array(scores)))
    assert (np.diff(cells) >= 0).all()
    assert cells.min() >= 0
    assert cells.max() < 8192


@pytest.mark.parametrize(("seed", "count"), STREAMS)
def test_calibration_is_as_scikit_learn_says(seed, count):
    targets, given, last = classes(seed, count=count)
    sums = sums_of(targets, given, last)
    made = given.any(axis=1)
    top, right = given[made].max(axis=1), np.argmax(given[made], axis=1) == targets[made]
    shares, means = calibration_curve(right, top, n_bins=15, strategy="uniform")
    found = sums.calibration()
    hit = found["events"] > 0
    assert found["accuracy"][hit] == pytest.approx(shares, abs=1e-9)
    assert found["confidence"][hit] == pytest.approx(means, abs=1e-8)
    expected = sum(
        abs(right[inside].sum() - top[inside].sum())
        for k in range(15)
        if (inside := (top > k / 15) & (top <= (k + 1) / 15)).any()
    ) / len(top)  # fmt: skip
    assert sums.values()["calibration_error"] == pytest.approx(expected, abs=1e-8)


def test_a_bin_has_its_upper_edge():
    top = np.linspace(0.0, 1.0, 16)[[9, 12, 15]]
    sums = sums_of(np.zeros(3, int), np.column_stack([top, 1.0 - top]), np.full(3, -1))
    assert np.flatnonzero(sums.calibration()["events"]).tolist() == [8, 11, 14]


def test_the_grid_is_the_same_from_both_ends():
    scores = np.array([0.0, 1e-3, 0.25, 0.375, 0.49])
    assert (score_cells(1.0 - scores) == CELLS - 1 - score_cells(scores)).all()
    assert score_cells(np.array([1.0, np.nextafter(1.0, 0.0), np.nextafter(0.5, 1.0)])).tolist() == [
        CELLS - 1, CELLS - 1, CELLS // 2,
    ]  # fmt: skip


def test_merging_leaves_the_other_as_it_is():
    few, many = sums_of(*classes(1, count=2)), sums_of(*classes(1, count=5))
    before = few.state()
    whole = many + few
    assert same_state(few.state(), before)
    assert same_state((few + many).state(), whole.state())
    assert few.classes == 2


@given(st.data(), st.integers(0, 50), st.sampled_from([2, 3, 7]))
def test_chunks_do_not_show(data, seed, count):
    targets, given, last = classes(seed, events=120, count=count)
    whole = sums_of(targets, given, last)
    parts, apart, kept = ClassSums(), ClassSums(), ClassSums()
    ends = cuts(data, 120)
    for start, end in pairwise(ends):
        y, p, q = targets[start:end], given[start:end], last[start:end]
        known = 1 + max(p.any(axis=0).nonzero()[0], default=-1)
        parts.add(y, p[:, :known], q)  # as learners do, which know no label before it came
        apart += sums_of(y, p, q)
        kept = ClassSums.restored(kept.state())
        kept.add(y, p, q)
    for other in (parts, apart, kept):
        assert same_state(other.state(), whole.state())
        assert other.values() == pytest.approx(whole.values(), abs=0.0, nan_ok=True)


def test_events_one_by_one():
    targets, given, last = classes(8, events=300, count=12)
    sums = ClassSums()
    for k in range(len(targets)):
        sums.add(targets[k : k + 1], given[k : k + 1], last[k : k + 1])
    assert same_state(sums.state(), sums_of(targets, given, last).state())


def test_added_sums_stay_independent():
    targets, given, last = classes(1)
    one = sums_of(targets, given, last)
    before, state = one.values(), one.state()
    both = one + one.fresh()
    both.add(targets, given, last)
    again = one.copy()
    again.add(targets, given, last)
    assert one.values() == before
    assert same_state(ClassSums.restored(state).state(), one.state())
    assert both.events == again.events == 2 * one.events
    assert same_state((one + one).state(), both.state())
    assert one.fresh().events == 0
    assert one.fresh().classes == 2


def test_a_state_is_not_touched_by_what_comes_after():
    targets, given, last = classes(1)
    sums = sums_of(targets, given, last)
    state = sums.state()
    other = ClassSums.restored(state)
    sums.add(targets, given, last)
    other.add(targets, given, last)
    assert same_state(sums.state(), other.state())
    assert state[0]["events"] == state[1]["counts"].sum() == len(targets)


def test_what_is_no_prediction():
    given = np.array([[0.0, 0.0], [np.nan, 0.5], [np.inf, 0.0], [0.2, 0.8]])
    sums = sums_of(np.array([0, 1, 0, 1]), given, np.array([-1, 0, 1, 0]))
    assert sums.answered == 1
    values = sums.values()
    assert values["accuracy"] == 0.25
    assert values["log_loss"] == pytest.approx(-math.log(0.8))
    empty = sums_of(np.array([0, 0]), np.zeros((2, 0)), np.array([-1, 0]))
    expected = {"accuracy": 0.0, "kappa": 0.0, "kappa_temporal": -1.0, "log_loss": 0.0}
    assert {name: empty.values()[name] for name in expected} == expected


def test_nothing_yet():
    values = ClassSums().values()
    assert math.isnan(values.pop("auc"))
    assert set(values.values()) == {0.0}
    assert (*values, "auc", "cost") == ClassSums.columns()


def test_a_target_without_a_probability_is_a_new_class():
    sums = sums_of(np.array([2]), np.array([[0.5, 0.5]]), np.array([-1]))
    assert sums.classes == 3
    assert sums.values()["log_loss"] == pytest.approx(-math.log(1e-15))


def test_many_classes_have_no_auc():
    targets, given, last = classes(1, count=MOST_RANKED + 1, late=False)
    sums = sums_of(targets, given, last)
    assert math.isnan(sums.values()["auc"])
    early = sums_of(targets[:5] % 2, given[:5, :2], last[:5])
    assert (early + sums).values()["accuracy"] > 0
    few = sums_of(*classes(1, count=MOST_RANKED, late=False))
    assert few.values()["auc"] > 0.5
    assert math.isnan(sums_of(*classes(1), ranked=False).values()["auc"])


def test_refused():
    sums = ClassSums()
    with pytest.raises(ValueError, match="arrays of 1, 2 events"):
        sums.add(np.array([0, 1]), np.zeros((1, 2)), np.array([-1, 0]))
    with pytest.raises(ValueError, match="target -1"):
        sums.add(np.array([-1]), np.zeros((1, 2)), np.array([-1]))
    with pytest.raises(ValueError, match="do not add up"):
        sums.merge(ClassSums(ranked=False))
