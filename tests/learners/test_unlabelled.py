"""Events without a label: nothing is learned, and later predictions rely less on the labels before."""

import numpy as np
import pytest

import streamk
from streamk.learners.stale import unlabelled_before
from tests.laws.subjects import LEARNERS, build, events, subjects
from tests.learners.test_frozen import NAMES, drifting, learned

KERNEL = [streamk.KernelClassifier, streamk.KernelRegressor]


def targets_of(cls, y):
    return (y > 0.0).tolist() if cls is streamk.KernelClassifier else y.tolist()


def rows_of(z):
    return [dict(zip(NAMES, row, strict=True)) for row in z.tolist()]


def with_gaps(cls, n, seed):
    """Rows and targets, of which none, a few or many in a row are missing."""
    z, y = drifting(n, seed)
    targets = targets_of(cls, y)
    for start, length in ((0, 20), (40, 1), (60, 5), (100, 300), (420, 17), (450, 100)):
        targets[start : start + length] = [None] * len(targets[start : start + length])
    return z, targets


def test_rows_without_a_label_are_counted_since_the_last_that_is_learned():
    unlabelled = np.array([1, 1, 0, 0, 1, 0, 1, 0, 1], dtype=bool)
    learned = np.array([0, 0, 0, 1, 0, 0, 0, 1, 0], dtype=bool)
    np.testing.assert_array_equal(unlabelled_before(unlabelled, learned, 3), [3, 4, 5, 5, 0, 1, 1, 2, 0, 1])


@pytest.mark.parametrize("cls", KERNEL)
def test_a_pass_is_the_loop_over_events(cls):
    z, targets = with_gaps(cls, 600, seed=1)
    one, many = (learned(cls, 2500) for _ in range(2))
    expected = []
    for x, y in zip(rows_of(z), targets, strict=True):
        expected.append(one.predict_one(x))
        one.learn_one(x, y)
    found = list(many.predict_learn_many(z, targets, names=NAMES))
    assert found == expected
    assert one.to_bytes() == many.to_bytes()
    one.learn_many(z[450:550], [None] * 100, names=NAMES)
    again = streamk.loads(one.to_bytes())
    assert again.to_bytes() == one.to_bytes()
    for x in rows_of(z[:5]):
        assert again.predict_one(x) == one.predict_one(x)
    found = list(one.predict_many(z[:5], names=NAMES))
    for x, answer in zip(rows_of(z[:5]), found, strict=True):  # a row is an event without a label
        assert one.predict_one(x) == answer
        one.learn_one(x, None)


@pytest.mark.parametrize("cls", KERNEL)
def test_an_event_that_opens_a_block_is_predicted_without_it(cls):
    """After 1,000 and 2,000 events, of which some have no weight, some no label."""
    z, y = drifting(2100, seed=5)
    targets, weights = targets_of(cls, y), np.ones(2100)
    weights[[3, 1000, 1001, 2003]] = 0.0
    targets[700:703] = [None] * 3
    one, many = (cls(features=768, seed=3) for _ in range(2))
    expected = []
    for x, target, w in zip(rows_of(z), targets, weights.tolist(), strict=True):
        expected.append(one.predict_one(x))
        one.learn_one(x, target, w=w)
    found = list(many.predict_learn_many(z, targets, w=weights, names=NAMES))
    assert found == expected
    assert one.to_bytes() == many.to_bytes()


@pytest.mark.parametrize("cls", KERNEL)
def test_any_cut_of_a_pass_gives_the_same(cls):
    z, targets = with_gaps(cls, 600, seed=2)
    whole, parts = (learned(cls, 2500) for _ in range(2))
    expected = whole.predict_learn_many(z, targets, names=NAMES)
    found = []
    for start in range(0, 600, 37):
        part = slice(start, start + 37)
        found += list(parts.predict_learn_many(z[part], targets[part], names=NAMES))
    assert found == list(expected)
    assert parts.to_bytes() == whole.to_bytes()


@pytest.mark.parametrize("cls", KERNEL)
def test_a_label_ends_it_and_weight_0_does_not_count(cls):
    learner, other = (learned(cls, 2500) for _ in range(2))
    z, y = drifting(60, seed=3)
    x, target = rows_of(z)[0], targets_of(cls, y)[0]
    before = learner.to_bytes()
    learner.learn_many(z, [None] * 60, w=np.zeros(60), names=NAMES)
    learner.learn_one(x, None, w=0.0)
    assert learner.to_bytes() == before
    learner.learn_many(z, [None] * 60, names=NAMES)
    assert learner.to_bytes() != before
    learner.learn_one(x, target)
    other.learn_one(x, target)
    assert learner.predict_one(x) == other.predict_one(x)
    learner.learn_one(x, target)
    other.learn_one(x, target)
    assert learner.to_bytes() == other.to_bytes()


def test_predictions_become_those_of_stale_experts():
    learner = learned(streamk.KernelRegressor)
    model = learner.frozen()
    z = drifting(50, seed=4)[0]
    fresh, still = answers_of(learner, z), answers_of(model, z)
    ends = {m: widths_of(m, z) for m in (learner, model)}
    learner.learn_many(z[:16], [None] * 16, names=NAMES)
    np.testing.assert_array_equal(answers_of(learner, z), fresh)
    learner.learn_many(z[16:32], [None] * 16, names=NAMES)
    np.testing.assert_allclose(answers_of(learner, z), (fresh + still) / 2.0, rtol=1e-5)
    assert np.isclose(widths_of(learner, z), np.mean(list(ends.values())), rtol=0.1)
    learner.learn_many(z[:50], [None] * 50, names=NAMES)
    learner.learn_many(z[:46], [None] * 46, names=NAMES)
    np.testing.assert_allclose(answers_of(learner, z), fresh + 0.875 * (still - fresh), rtol=1e-5)
    for _ in range(3):
        learner.learn_many(z, [None] * 50, names=NAMES)
    np.testing.assert_allclose(answers_of(learner, z), still, rtol=1e-5)


def answers_of(model, z):
    return np.array([model.predict_one(x) for x in rows_of(z)])


def widths_of(model, z):
    """Return the mean width of intervals."""
    return np.mean([i.upper - i.lower for i in map(model.predict_interval_one, rows_of(z))])


@pytest.mark.parametrize("cls", KERNEL)
def test_the_rows_of_one_call_are_events_without_a_label(cls):
    learner = learned(cls, 2500)
    z = drifting(300, seed=4)[0]
    together = list(learner.predict_many(z, names=NAMES))
    assert together == list(learner.predict_many(z, names=NAMES))
    one = streamk.loads(learner.to_bytes())
    for x, answer in zip(rows_of(z), together, strict=True):
        assert one.predict_one(x) == answer
        one.learn_one(x, None)
    assert together[-10:] == list(learner.frozen().predict_many(z[-10:], names=NAMES))


@pytest.mark.parametrize("name", subjects())
def test_every_learner_takes_events_without_a_label(name):
    cls, extra = LEARNERS[name]
    learner, other = build(cls, extra), build(cls, extra)
    pairs = events(90, classifies=learner.classifies)
    learner.learn_one(pairs[0][0], None)
    for x, y in pairs:
        learner.learn_one(x, y)
        other.learn_one(x, y)
    learner.learn_one(pairs[0][0], None)
    learner.learn_many([x for x, _ in pairs[:3]], [None] * 3)
    assert learner.events == other.events
    assert learner.predict_one(pairs[0][0]) == other.predict_one(pairs[0][0])
    with pytest.raises(ValueError, match="field 'a'"):
        learner.learn_one({"a": object()}, None)


def test_an_impossible_count_is_refused():
    learner = learned(streamk.KernelRegressor, 1500)
    learner.learn_one({"a": 1.0}, None)
    header, arrays = learner._to_parts()
    for bad in (0, -1):
        with pytest.raises(ValueError, match="impossible"):
            type(learner)._from_parts(header, arrays | {"stale.unlabelled": np.array([bad])})


@pytest.mark.parametrize("cls", KERNEL)
def test_copies_of_a_block_that_restarts_are_not_used(cls):
    """A block restarts after 2,000 events; coefficients are copied after 1,024 and 2,048."""
    learner = learned(cls, 1990)
    assert learner._stale.since == 1024.0
    z, y = drifting(70, seed=3)
    for k, (x, target) in enumerate(zip(rows_of(z), targets_of(cls, y), strict=True), 1991):
        learner.learn_one(x, target)
        if k > 2000:
            assert learner._stale.since == (2048.0 if k >= 2048 else -1.0)
