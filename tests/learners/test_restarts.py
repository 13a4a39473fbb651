"""Learners with nothing to tune, on streams that change: the blocks under relevance begin anew."""

import itertools

import numpy as np
import pytest

import streamk
from streamk.experts.change import KNOWN, RISES
from streamk.learners.mixture import RELEVANT

CHANGE, END = 1500, 2500


def stream(classes, seed=0, n=END, change=CHANGE):
    """Targets that from an event on are other functions of the inputs."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    a, b, c = np.where(np.arange(n) < change, x.T, x.T[[1, 2, 0]])
    y = np.sin(2 * a) + b * c
    xs = [dict(zip("abc", row, strict=True)) for row in x.tolist()]
    return xs, (y > 0.0).tolist() if classes else (y + 0.1 * rng.normal(size=n)).tolist()


def made(classes, watched=True, **settings):
    learner = (streamk.KernelClassifier if classes else streamk.KernelRegressor)(
        **{"features": 768, "seed": 3, **settings}
    )
    for expert in learner._experts:
        if not watched and hasattr(expert, "watched"):
            expert.watched = False
    return learner


def restarts(learner):
    return {e["expert"]: e["restarts"] for e in learner.summary()["experts"] if "restarts" in e}


@pytest.mark.parametrize("classes", [True, False])
def test_it_follows_a_change_faster(classes):
    errors = {True: 0.0, False: 0.0}
    for seed, watched in itertools.product(range(10), errors):
        xs, ys = stream(classes, seed)
        learner = made(classes, watched, binning=False, neighbours=False)  # which follow by themselves
        learner.learn_many(xs[: CHANGE + 200], ys[: CHANGE + 200])
        assert sum(restarts(learner).values()) in ((1, 2) if watched else (0,))
        found = learner.predict_learn_many(xs[CHANGE + 200 :], ys[CHANGE + 200 :])
        errors[watched] += np.sum(np.abs(np.array(found, float) - np.array(ys[CHANGE + 200 :], float)))
    assert errors[True] < 0.95 * errors[False], errors


@pytest.mark.parametrize("classes", [True, False])
def test_the_summary_says_how_often(classes):
    xs, ys = stream(classes)
    learner = made(classes)
    named = {f"least squares, {name}" for name in RELEVANT}
    assert restarts(learner) == dict.fromkeys(named, 0)
    learner.learn_many(xs[:CHANGE], ys[:CHANGE])
    assert restarts(learner) == dict.fromkeys(named, 0)
    learner.learn_many(xs[CHANGE:1999], ys[CHANGE:1999])
    found = restarts(learner)
    assert set(found) == named
    assert min(found.values()) >= 1
    learner.learn_many(
        xs[1999:2010], ys[1999:2010]
    )  # after 2,000 events one of the blocks has other features
    assert sorted(restarts(learner).values())[0] == 0
    assert sorted(restarts(learner).values())[1] >= 1


@pytest.mark.parametrize("settings", [{}, {"label_memory": False}])
@pytest.mark.parametrize("classes", [True, False])
def test_a_change_is_seen_alike_however_events_come(classes, settings):
    xs, ys = stream(classes)
    one, many, passed, saved = (made(classes, **settings) for _ in range(4))
    for x, y in zip(xs, ys, strict=True):
        one.learn_one(x, y)
    many.learn_many(xs[:77], ys[:77])
    many.learn_many(xs[77:], ys[77:])
    (passed.predict_proba_learn_many if classes else passed.predict_learn_many)(xs, ys)
    cuts = [0, 1000, CHANGE, CHANGE + 50, CHANGE + 51, CHANGE + 100, 1990, END]
    for start, stop in itertools.pairwise(cuts):
        saved = streamk.loads(saved.to_bytes())
        saved.learn_many(xs[start:stop], ys[start:stop])
    expected = one.to_bytes()
    assert sum(restarts(one).values()) >= 1
    for learner in (many, passed, saved):
        assert learner.to_bytes() == expected


def awkward(kind, n=6000):
    """Streams on which errors jump, and nothing has changed for good."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(n, 3))
    xs = [dict(zip("abc", row, strict=True)) for row in x.tolist()]
    y = x[:, 0] + np.sin(x[:, 1]) + 0.1 * rng.normal(size=n)
    if kind == "a constant":
        y[:] = 7.0
    if kind == "absurd outliers":
        y[[50, 2100, 3000, 3001, 5000]] = 1e12
    if kind == "absurd inputs":
        xs[3000]["a"] = 1e90
    if kind == "noise alone":
        y = rng.standard_cauchy(n)
    if kind == "a label that comes late":
        return xs, ["late" if k in (2500, 4000, 4001) else str(v > 0.0) for k, v in enumerate(y.tolist())]
    if kind == "one label":
        return xs, ["same"] * n
    if kind == "a new class for good":
        return xs, [str(v > 0.0) if k < 3000 else str(int(v > 1.0) + int(v > 0.0)) for k, v in enumerate(y)]
    return xs, y.tolist()


@pytest.mark.parametrize(
    ("kind", "most"),
    [
        ("a constant", 0), ("absurd outliers", 2), ("absurd inputs", 0), ("noise alone", 0),
        ("a label that comes late", 0), ("one label", 0), ("a new class for good", 3),
    ],
)  # fmt: skip
def test_restarts_are_bounded(kind, most):
    xs, ys = awkward(kind)
    learner = made(isinstance(ys[0], str))
    learner.learn_many(xs[:4000], ys[:4000])
    assert max(restarts(learner).values()) <= most
    learner.learn_many(xs[4000:], ys[4000:])
    assert max(restarts(learner).values()) <= most


@pytest.mark.parametrize("classes", [True, False])
def test_a_merge_with_nothing_keeps_the_watch(classes):
    xs, ys = stream(classes)
    learner, other = made(classes), made(classes)
    learner.learn_many(xs[:1990], ys[:1990])
    assert streamk.merge([learner, other]).to_bytes() == learner.to_bytes()
    other.learn_many(xs[:1200], ys[:1200])
    merged = streamk.merge([learner, other])
    for expert, one, two in zip(merged._experts, learner._experts, other._experts, strict=True):
        if getattr(expert, "watched", False):
            assert expert.watch[0, RISES] == one.watch[0, RISES] + two.watch[0, RISES]
            assert 0.0 < expert.watch[0, KNOWN] <= 1990 + 1200
            assert not expert.watch[1:].any()


def test_a_closed_learner_keeps_no_watch():
    xs, ys = stream(True)
    learner = made(True)
    learner.learn_many(xs, ys)
    closed = learner.closed()
    assert sum(restarts(closed).values()) == 0
    assert not any("watch" in expert.state_dict() for expert in closed._experts)


def other_inputs(change=2300, n=4600):
    """Targets that depend on three of eight inputs, and then on three others."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 8))
    first, second = (np.sin(1.5 * x[:, k]) + x[:, k + 1] * x[:, k + 2] for k in (0, 4))
    y = np.where(np.arange(n) < change, first, second) + 0.1 * rng.normal(size=n)
    return [{f"x{k}": value for k, value in enumerate(row)} for row in x.tolist()], y.tolist()


def relevant(learner):
    """The three inputs of most relevance, in each block."""
    found = learner.summary()["relevance"]
    return [set(sorted(found, key=lambda name: -found[name][block])[:3]) for block in range(2)]


def test_blocks_open_again_where_other_inputs_matter():
    """They do about a thousand events after an error has doubled, at the same event whatever the calls."""
    xs, ys = other_inputs()
    learner = made(False, label_memory=False)
    learner.learn_many(xs[:4095], ys[:4095])
    again, before = streamk.loads(learner.to_bytes()), relevant(learner)
    for x, y in zip(xs[4095:4100], ys[4095:4100], strict=True):
        learner.learn_one(x, y)
    again.learn_many(xs[4095:4100], ys[4095:4100])
    assert learner.to_bytes() == again.to_bytes()
    assert {"x0", "x1", "x2"} in before  # another block has opened since the change, as events had doubled
    assert relevant(learner) == [{"x4", "x5", "x6"}] * 2
    assert sum(restarts(learner).values()) == 0  # the experts are new
    found = np.array(learner.predict_learn_many(xs[4100:], ys[4100:]))
    assert np.mean((found - ys[4100:]) ** 2) < 0.1 * np.var(ys[4100:])


def test_blocks_stay_where_the_same_inputs_matter():
    xs, ys = other_inputs(change=10_000)
    ys[2300:] = [-2.0 * y for y in ys[2300:]]  # an error that doubles, by the same inputs
    learner = made(False, label_memory=False)
    learner.learn_many(xs[:4095], ys[:4095])
    assert sum(restarts(learner).values()) >= 1
    before = learner._map.sections.transforms.copy()
    learner.learn_many(xs[4095:4100], ys[4095:4100])
    np.testing.assert_array_equal(learner._map.sections.transforms, before)


def test_blocks_do_not_open_again_where_labels_come_late():
    """Errors rise with each part of a stream, which is no change."""
    xs, ys = other_inputs()
    learner = made(False, label_memory=False)
    learner.learn_many(xs[:3956], ys[:3956])
    before = learner._map.sections.transforms[1].copy()  # the other block opens after 4,000 events
    for start in (3956, 4026):
        learner.predict_many(xs[start : start + 70])
        learner.learn_many(xs[start : start + 70], ys[start : start + 70])
    np.testing.assert_array_equal(learner._map.sections.transforms[1], before)


@pytest.mark.parametrize("classes", [True, False])
def test_weights_of_stale_experts_follow_slowly_while_labels_come_late(classes):
    xs, ys = stream(classes)
    learner = made(classes)
    learner.learn_many(xs[:700], ys[:700])
    paces = [learner._stale.combiner.pace]
    for start in (700, 800):
        learner.predict_many(xs[start : start + 100])
        learner.learn_many(xs[start : start + 100], ys[start : start + 100])
    paces += [learner._stale.combiner.pace, streamk.loads(learner.to_bytes())._stale.combiner.pace]
    learner.predict_one(xs[900])
    learner.learn_one(xs[900], ys[900])
    paces.append(learner._stale.combiner.pace)
    assert paces == ([1.0] * 4 if classes else [1.0, 0.08, 0.08, 1.0])


@pytest.mark.parametrize("classes", [True, False])
def test_weights_of_stale_experts_of_numbers_start_again_when_parts_begin_to_come_late(classes):
    xs, ys = stream(classes)
    learner = made(classes)
    learner.learn_many(xs[:700], ys[:700])
    stale, events, weights = learner._stale, [], learner._stale.combiner.weights
    restart = stale.combiner.restart

    def start_again():
        restart()
        assert np.ptp(weights[:2]) == 0.0
        events.append((learner.events, stale.rarely))

    stale.combiner.restart = start_again
    for start in range(700, 1100, 100):
        learner.predict_many(xs[start : start + 100])
        learner.learn_many(xs[start : start + 100], ys[start : start + 100])
    assert events == ([] if classes else [(800, 4)])
    assert np.ptp(weights[:2]) > 0.01


@pytest.mark.parametrize("classes", [True, False])
def test_predictions_of_late_parts_are_those_of_the_saved_and_the_frozen_model(classes):
    xs, ys = stream(classes)
    learner = made(classes)
    learner.learn_many(xs[:700], ys[:700])
    for start in range(700, 2200, 300):
        learner.predict_many(xs[start : start + 300])
        before = learner._stale.combiner.error.copy()
        learner.learn_many(xs[start : start + 300], ys[start : start + 300])
    _, weight, count = learner._stale.combiner.error - before
    assert weight == pytest.approx((1.0 if classes else 0.25) * count)
    assert learner._stale.combiner.has_patient == (not classes)
    loaded, frozen = streamk.loads(learner.to_bytes()), learner.frozen()
    predicted = learner.view_array(xs[2200:])
    assert loaded.view_array(xs[2200:]).tobytes() == predicted.tobytes()
    np.testing.assert_allclose(frozen.view_array(xs[2200:]), predicted, atol=1e-9)
