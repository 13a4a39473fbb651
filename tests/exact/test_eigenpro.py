"""The learners: what they reach, what they survive, and what they keep."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamk
from streamk import model_file
from streamk.exact.eigenpro import GATHERED
from streamk.exact.eigenpro_solver import DELAY

from .references import laplace, least_squares

RNG = np.random.default_rng(5)
X = RNG.normal(size=(900, 2))
LABELS = np.array(["in", "out"])[((X**2).sum(axis=1) > 1.4).astype(int)]
TARGETS = 500.0 + 30.0 * np.sin(2 * X[:, 0]) + 10.0 * X[:, 1]
NAMES = ["a", "b"]
PROJECTIONS = ["exact", "inexact", "delayed"]


def classifier(**changes):
    return streamk.EigenProClassifier(**{"centers": 40, "seed": 7, **changes})


def regressor(**changes):
    return streamk.EigenProRegressor(**{"centers": 40, "seed": 7, **changes})


@pytest.mark.parametrize("projection", PROJECTIONS)
@pytest.mark.parametrize("choose", ["random", "k-means"])
def test_a_data_set_is_learned(choose, projection):
    learner = classifier(choose=choose, projection=projection).fit(X[:600], LABELS[:600], names=NAMES)
    assert np.mean(learner.predict_many(X[600:], names=NAMES) == LABELS[600:]) > 0.95
    other = regressor(choose=choose, projection=projection, epochs=20).fit(
        X[:600], TARGETS[:600], names=NAMES
    )
    error = np.array(other.predict_many(X[600:], names=NAMES)) - TARGETS[600:]
    assert np.mean(error**2) < 0.15 * np.var(TARGETS)
    assert learner.events == other.events == 600
    assert learner.pending == 0
    assert learner.feature_count == 40


@pytest.mark.parametrize("projection", PROJECTIONS)
def test_a_stream_is_learned(projection):
    learner = classifier(projection=projection)
    found = np.array(learner.predict_learn_many(X, LABELS, names=NAMES))
    assert np.mean(found[400:] == LABELS[400:]) > 0.85
    other = regressor(projection=projection)
    said = np.array(other.predict_learn_many(X, TARGETS, names=NAMES))
    assert np.mean((said - TARGETS)[400:] ** 2) < 0.35 * np.var(TARGETS)
    assert (said[: GATHERED * 40] == 0.0).all()


def test_a_fit_ends_at_least_squares():
    """Over the centers, for standardised inputs and numbers about their mean."""
    learner = regressor(epochs=3000, batch=600, rank=30, bandwidth=1.5).fit(
        X[:600], TARGETS[:600], names=NAMES
    )
    scaled = (X[:600] - X[:600].mean(axis=0)) / X[:600].std(axis=0)
    dense = learner._expansion.columns.dense(
        learner._codec.inputs.encode_many([dict(zip(NAMES, x, strict=True)) for x in X[:600]], [False] * 600),
        2,
    )
    assert dense.shape == scaled.shape
    K = laplace(dense, learner._expansion.centers, 1.5)
    centre = TARGETS[:600].mean()
    best = centre + K @ least_squares(K, (TARGETS[:600] - centre)[:, None])[:, 0]
    found = np.array(learner.predict_many(X[:600], names=NAMES))
    assert np.abs(found - best).max() < 0.004 * TARGETS.std()
    gaps = np.linalg.norm(dense[0] - dense[1:], axis=1) / np.linalg.norm(scaled[0] - scaled[1:], axis=1)
    assert gaps.max() < 1.01 * gaps.min()


def test_events_wait_for_the_centers_then_for_their_batch():
    learner = classifier(batch=9)
    for k in range(GATHERED * 40 - 1):
        learner.learn_one(dict(zip(NAMES, X[k], strict=True)), LABELS[k])
    assert (learner.events, learner.pending, learner.feature_count) == (0, GATHERED * 40 - 1, 0)
    blank = learner.predict_proba_one({"a": 0.0, "b": 0.0})
    assert blank == {"in": 0.5, "out": 0.5}
    learner.learn_one({"a": 0.0, "b": 0.0}, "in")
    assert (learner.events, learner.pending, learner.feature_count) == (GATHERED * 40, 0, 40)
    assert learner.predict_one({"a": 0.0, "b": 0.0}) == "in"
    before = learner.predict_proba_one({"a": 0.5, "b": 0.5})
    for k in range(8):
        learner.learn_one({"a": 0.5, "b": 0.5}, "out")
        assert learner.pending == k + 1
    assert learner.predict_proba_one({"a": 0.5, "b": 0.5}) == before
    learner.learn_one({"a": 0.5, "b": 0.5}, "out")
    assert learner.pending == 0
    assert learner.predict_proba_one({"a": 0.5, "b": 0.5})["out"] > before["out"]


def test_a_delayed_projection_waits_for_its_batches():
    learner = classifier(batch=9, projection="delayed")
    learner.learn_many(X[: GATHERED * 40], LABELS[: GATHERED * 40], names=NAMES)
    assert learner.pending == 0
    learner.learn_many(X[: 9 * DELAY - 1], LABELS[: 9 * DELAY - 1], names=NAMES)
    assert learner.pending == 9 * DELAY - 1
    learner.learn_many(X[:1], LABELS[:1], names=NAMES)
    assert learner.pending == 0


def test_flush_learns_what_waits():
    learner = classifier()
    learner.flush()
    assert learner.to_bytes() == classifier().to_bytes()
    learner.learn_many(X[:30], LABELS[:30], names=NAMES)
    learner.flush()
    assert (learner.events, learner.pending, learner.feature_count) == (30, 0, 30)
    before = learner.predict_proba_one({"a": 3.0, "b": 3.0})
    learner.learn_one({"a": 3.0, "b": 3.0}, "out")
    learner.flush()
    assert (learner.events, learner.pending) == (31, 0)
    assert learner.predict_proba_one({"a": 3.0, "b": 3.0}) != before


@pytest.mark.parametrize("projection", PROJECTIONS)
@pytest.mark.parametrize("choose", ["random", "k-means"])
@pytest.mark.parametrize("count", [1, 2, 5, 39])
def test_tiny_data(count, choose, projection):
    for make, y in ((classifier, LABELS), (regressor, TARGETS)):
        learner = make(choose=choose, projection=projection, epochs=30, batch=1 if count == 5 else None)
        learner.fit(X[:count], y[:count], names=NAMES)
        found = learner.predict_many(X[:count], names=NAMES)
        # the scales of two events know one value only, so both look the same
        assert learner.feature_count == (1 if count == 2 else count)
        if count == 2:
            continue
        if make is classifier:
            assert found.tolist() == y[:count].tolist()
        else:
            assert np.isfinite(found).all()
            assert np.mean((found - y[:count]) ** 2) <= 0.6 * np.var(y[:count]) + 1e-9


ODD = {
    "duplicates": np.repeat(X[:30], 10, axis=0),
    "one event": np.repeat(X[:1], 300, axis=0),
    "a constant column": np.column_stack([X[:300, 0], np.full(300, 3.0)]),
    "an outlier": np.vstack([X[:150], [[1e9, -1e9]], X[151:300]]),
}


@pytest.mark.parametrize(
    "kernel",
    [
        "gaussian",
        "polynomial:3",
        *(pytest.param(name, marks=pytest.mark.long) for name in ("laplace", "arc-cosine")),
    ],
)
@pytest.mark.parametrize("projection", PROJECTIONS)
@pytest.mark.parametrize("odd", ODD)
def test_odd_data_does_not_diverge(odd, projection, kernel):
    rows = ODD[odd]
    goal = 7.0 + np.sign(np.sin(np.arange(300.0)))
    for scale_inputs in (True, False):
        learner = regressor(projection=projection, kernel=kernel, batch=16, scale_inputs=scale_inputs)
        learner.fit(rows, goal, names=NAMES)
        usual = np.ones(300, dtype=bool) if odd != "an outlier" or scale_inputs else np.arange(300) != 150
        found = np.array(learner.predict_many(rows, names=NAMES))[usual]
        assert np.abs(found - 7.0).max() < 8.0
        learner.learn_many(rows[::-1], goal, names=NAMES)
        learner.flush()
        found = np.array(learner.predict_many(rows, names=NAMES))[usual]
        assert np.abs(found - 7.0).max() < 8.0


@pytest.mark.parametrize("weight", [1e-300, 1e-3, 5.0, 1e12])
def test_weights_do_not_diverge(weight):
    """A log of heavy events is a log of events; one among others counts for more."""
    weights = np.full(900, weight)
    plain, heavy = classifier(), classifier()
    plain.learn_many(X, LABELS, names=NAMES)
    heavy.learn_many(X, LABELS, weights, names=NAMES)
    if weight > 1.0:
        np.testing.assert_allclose(
            heavy.predict_proba_many(X, names=NAMES), plain.predict_proba_many(X, names=NAMES), atol=1e-4
        )
    assert np.isfinite(heavy.predict_proba_many(X, names=NAMES)).all()


def test_a_heavy_event_counts_for_more():
    mixed = np.where(np.arange(600) % 2 == 0, 10.0, 1.0)
    y = np.where(np.arange(600) % 2 == 0, 1.0, -1.0)
    learner = regressor(epochs=10).fit(X[:600], y, mixed, names=NAMES)
    assert 0.6 < np.mean(learner.predict_many(X[:600], names=NAMES)) < 1.0


def test_a_label_that_comes_late_has_a_column():
    learner = classifier(batch=20)
    learner.learn_many(X[:200], LABELS[:200], names=NAMES)
    assert learner._expansion.coefficients.shape == (40, 2)
    far = X[:300] * 0.2 + 4.0
    learner.learn_many(far, ["far"] * 300, names=NAMES)
    assert learner.labels == ["in", "out", "far"] or learner.labels == ["out", "in", "far"]
    assert learner._expansion.coefficients.shape == (40, 3)
    assert np.mean(learner.predict_many(far, names=NAMES) == "far") > 0.9
    assert np.mean(learner.predict_many(X, names=NAMES) == LABELS) > 0.75
    assert learner.predict_proba_many(X[:3], names=NAMES).shape == (3, 3)


def test_a_field_that_comes_late_is_ignored():
    learner = classifier()
    learner.learn_many(X[:200], LABELS[:200], names=NAMES)
    x = dict(zip(NAMES, X[0], strict=True))
    assert learner.predict_proba_one({**x, "new": 3.0}) == learner.predict_proba_one(x)
    learner.learn_one({**x, "new": 3.0}, "in")
    learner.flush()
    assert learner.predict_proba_one({**x, "new": 3.0}) == learner.predict_proba_one(x)


def test_the_unit_of_the_target_is_of_no_matter():
    one = regressor().fit(X, TARGETS, names=NAMES)
    two = regressor().fit(X, 1024.0 * TARGETS, names=NAMES)
    np.testing.assert_allclose(
        np.array(two.predict_many(X, names=NAMES)) / 1024.0, one.predict_many(X, names=NAMES), atol=0.05
    )
    absurd = TARGETS[:300].copy()
    one.learn_many(X[:300], absurd, names=NAMES)
    one.flush()
    before = np.array(one.predict_many(X, names=NAMES))
    one.learn_many(X[:1], [1e50], names=NAMES)
    one.flush()
    assert np.abs(np.array(one.predict_many(X, names=NAMES)) - before).max() <= 6.5 * TARGETS.std()


def test_a_fitted_learner_learns_on():
    learner = classifier(batch=10).fit(X[:600], LABELS[:600], names=NAMES)
    twin = streamk.loads(learner.to_bytes())
    for each in (learner, twin):
        each.learn_many(X[600:607], LABELS[600:607], names=NAMES)
        assert each.pending == 7
        each.learn_many(X[607:], LABELS[607:], names=NAMES)
    assert learner.to_bytes() == twin.to_bytes()
    assert learner.events == 900


def test_a_fit_is_one_and_the_same_and_forgets():
    once = classifier().fit(X, LABELS, names=NAMES)
    again = classifier()
    again.learn_many(X[:300], LABELS[:300], names=NAMES)
    again.fit(X, LABELS, names=NAMES)
    assert again.to_bytes() == once.to_bytes()
    assert classifier(seed=8).fit(X, LABELS, names=NAMES).to_bytes() != once.to_bytes()
    with pytest.raises(ValueError, match="nothing to learn"):
        again.fit(X[:3], LABELS[:3], [0.0] * 3, names=NAMES)
    assert again.to_bytes() == once.to_bytes()


def test_a_closed_learner_restarts():
    learner = classifier(batch=10)
    learner.learn_many(X[:205], LABELS[:205], names=NAMES)
    closed = learner.closed()
    assert closed.pending == 0
    assert closed.predict_proba_one({"a": 0.1, "b": 1.0}) == learner.predict_proba_one({"a": 0.1, "b": 1.0})
    closed.learn_many(X[:100], LABELS[:100], names=NAMES)
    assert closed.pending == 100
    assert streamk.loads(closed.to_bytes()).to_bytes() == closed.to_bytes()
    closed.learn_many(X[100:], LABELS[100:], names=NAMES)
    assert np.mean(closed.predict_many(X, names=NAMES) == LABELS) > 0.85


@settings(max_examples=15)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=9), st.sampled_from(PROJECTIONS), st.booleans())
def test_any_cuts_with_a_file_at_each(cuts, projection, numbers):
    y, make = (TARGETS, regressor) if numbers else (LABELS, classifier)
    one = make(centers=8, projection=projection, batch=5, choose="k-means")
    many = one.clone()
    total = sum(cuts)
    one.learn_many(X[:total], y[:total], names=NAMES)
    start = 0
    for cut in cuts:
        many.learn_many(X[start : start + cut], y[start : start + cut], names=NAMES)
        many = streamk.loads(many.to_bytes())
        start += cut
    assert many.to_bytes() == one.to_bytes()


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("centers", 0), ("centers", 1.5), ("choose", "best"), ("projection", None), ("epochs", 0),
        ("subsample", 0), ("rank", -1), ("batch", 0), ("bandwidth", 0.0), ("scale_inputs", 1), ("seed", -1),
    ],
)  # fmt: skip
def test_a_parameter_that_cannot_be(parameter, value):
    for make in (classifier, regressor):
        with pytest.raises(ValueError, match=f"{parameter}={value!r}: {parameter} must be"):
            make(**{parameter: value})
    with pytest.raises(ValueError, match="kernel 'linear' is unknown"):
        classifier(kernel="linear")


CHANGES = {
    "no seed": lambda h, a: h.__setitem__("drawn", None),
    "seed": lambda h, a: h.__setitem__("drawn", -1),
    "batch": lambda h, a: h.__setitem__("together", 1.5),
    "no centers": lambda h, a: h.__setitem__("together", 0),
    "fewer events than wait": lambda h, a: h.__setitem__("together", 3),
    "masses": lambda h, a: a["eigenpro.masses"].__setitem__(0, 0.0),
    "mass": lambda h, a: a.__setitem__("eigenpro.masses", a["eigenpro.masses"][:-1]),
    "unit": lambda h, a: a["eigenpro.scale"].__setitem__(1, 0.0),
    "centre": lambda h, a: a["eigenpro.scale"].__setitem__(0, np.nan),
    "no scale": lambda h, a: a.pop("eigenpro.scale"),
    "label": lambda h, a: a["pending.goal"].__setitem__((0, 0), 2.0),
    "half a label": lambda h, a: a["pending.goal"].__setitem__((0, 0), 0.5),
    "weight": lambda h, a: a["pending.goal"].__setitem__((1, 0), 0.0),
    "center": lambda h, a: a["expansion.centers"].__setitem__((0, 0), np.inf),
    "extra": lambda h, a: a.__setitem__("more", np.zeros(3)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_an_impossible_model_is_refused(change):
    learner = classifier(batch=10)
    learner.learn_many(X[:125], LABELS[:125], names=NAMES)
    assert learner.pending == 5
    header, arrays = learner._to_parts()
    arrays = {name: array.copy() for name, array in arrays.items()}
    CHANGES[change](header, arrays)
    with pytest.raises(ValueError, match="is not a valid EigenProClassifier"):
        streamk.loads(model_file.pack(header, arrays))


def test_progress_is_shown(capsys):
    classifier(choose="k-means", epochs=2).fit(X, LABELS, names=NAMES, progress=True)
    assert "learning" in capsys.readouterr().out
