"""The shuffled learner: events of the sample in random order, where labels come in parts."""

import copy

import numpy as np
import pandas as pd
import pytest

import streamk
from streamk import model_file
from streamk.learners.loading import loads
from streamk.learners.rehearsal import PART
from streamk.learners.shuffled import Shuffled, share_of

from .test_rehearsal import classes, learned_in_chunks, numbers

BOTH = pytest.mark.parametrize(
    ("made", "log"), [(streamk.KernelRegressor, numbers), (streamk.KernelClassifier, classes)]
)


def in_parts(made, log, count=1800, size=300):
    X, y = log(count)
    learner = made(seed=3)
    learned_in_chunks(learner, X, y, size)
    return learner, X, y


def far_predictions(learner, X):
    """Return predictions of rows as the last of many without a label."""
    many = pd.concat([X.iloc[np.zeros(PART, dtype=int)], X])
    found = learner.predict_proba_many(many) if learner.classifies else learner.predict_many(many)
    return np.asarray(found, dtype=float)[PART:]


@BOTH
def test_predictions_are_the_mean_with_a_learner_of_the_sample(made, log, monkeypatch):
    learner, X, _ = in_parts(made, log)
    sample = learner._rehearsal.reservoir.sample()
    assert learner._shuffled.stored[0] < sample.tickets.size == learner._rehearsal.reservoir.seen
    by_both = far_predictions(learner, X)
    other, inputs = made(seed=3), learner._codec.inputs
    names = list(inputs.numbers)
    if learner.classifies:
        other._codec.register(learner.labels)
    slots = np.broadcast_to(sample.rows.slots, sample.rows.values.shape)
    for place in np.argsort(sample.tickets):
        [a] = sample.rows.values[place, slots[place] == names.index("a")]
        [event] = X[X.a == a].drop(columns="time").to_dict("records")
        target = sample.goal[0, place]
        other.learn_one(event, learner.labels[int(target)] if learner.classifies else target)
    other._shuffled.learns = False
    rows = X.drop(columns="time")
    g = other.frozen().predict_proba_many(rows) if learner.classifies else other.frozen().predict_many(rows)
    g = np.asarray(g[learner.labels] if learner.classifies else g, dtype=float)
    monkeypatch.setattr("streamk.learners.kernel.share_of", lambda *_: 0.0)
    f = far_predictions(learner, X)
    assert abs(g - f).max() > 0.01
    assert np.allclose(by_both, (f + g) / 2.0, atol=1e-5 * abs(g).max())


@BOTH
def test_a_saved_learner_makes_the_same_models(made, log):
    learner, X, y = in_parts(made, log, 1200)
    again, parts = loads(learner.to_bytes()), [slice(600, 900), slice(0, 300), slice(300, 600)]
    for part in parts:
        for one in learner, again:
            one.predict_many(X[part])
            one.learn_many(X[part], y[part])
    assert learner._shuffled.stored[0] > 1200
    assert learner.to_bytes() == again.to_bytes() == loads(learner.to_bytes()).to_bytes()
    assert (far_predictions(learner, X) == far_predictions(again, X)).all()


@BOTH
def test_a_model_is_the_same_if_it_is_made_at_the_label(made, log):
    """As by a process that goes on after the prediction, and the label brings a new field and a new class."""
    learner, X, _ = in_parts(made, log)
    far_predictions(learner, X)
    again = copy.deepcopy(learner)
    again._shuffled._made = (0, None)
    event = {**X.to_dict("records")[0], "A": 3.0, "z": 3.0}
    for one in learner, again:
        one.learn_one(event, 2)
    assert learner._shuffled.stored[0] == learner._rehearsal.reservoir.seen - 1
    assert learner.to_bytes() == again.to_bytes()


@BOTH
def test_predictions_change_nothing_that_is_stored(made, log):
    learner, X, _ = in_parts(made, log)
    before = learner.to_bytes()
    far_predictions(learner, X)
    learner.predict_one(X.to_dict("records")[0])
    assert learner.to_bytes() == before


@BOTH
@pytest.mark.parametrize("count", [400, 700, 1800])
def test_predictions_do_not_depend_on_later_rows(made, log, count):
    X, y = log()
    learner = made(seed=3)
    if count == len(X):
        learned_in_chunks(learner, X, y)
    else:
        learner.learn_many(X[:count], y[:count])
    whole = np.asarray(learner.predict_many(X))
    for rows in 1, PART - 1, PART, PART + 1:
        assert (np.asarray(learner.predict_many(X[:rows])) == whole[:rows]).all()


@BOTH
@pytest.mark.parametrize(("count", "size"), [(700, 700), (1000, 500), (2400, 1200), (1800, 300)])
def test_closed_and_frozen_learners_have_the_model(made, log, count, size):
    """Also after one part or none, of events that are few or many."""
    X, y = log(2400)
    learner = made(seed=3)
    learned_in_chunks(learner, X[:count], y[:count], size)
    assert learner._latest_shuffled[1] is not None
    expected = far_predictions(learner, X)
    for model in learner.closed(), learner.frozen(), loads(learner.frozen().to_bytes()):
        assert np.allclose(far_predictions(model, X), expected, atol=1e-4 * abs(expected).max())


def test_frozen_models_of_the_first_part_are_saved_whole():
    """Also where the sample has only the last of the events before the part."""
    X, y = numbers(2400)
    learner = streamk.KernelRegressor(seed=3)
    learner.learn_many(X[:2000], y[:2000])
    learner.predict_many(X[2000:])
    learner.learn_many(X[2000:], y[2000:])
    frozen = learner.frozen()
    assert frozen._latest_shuffled[1] is not None
    assert (far_predictions(frozen, X) == far_predictions(loads(frozen.to_bytes()), X)).all()


def test_events_so_far_are_shuffled_while_they_are_few():
    """Rows sorted by class: experts that follow the last events predict its class."""
    rng = np.random.default_rng(0)
    y = np.arange(900) // 300
    X = pd.DataFrame(rng.normal(size=(900, 4)) + 1.5 * np.eye(3, 4)[y], columns=list("abcd"))
    test = rng.permutation(900)
    learner = streamk.KernelClassifier(seed=1)
    learner.learn_many(X, y)
    found = far_predictions(learner, X.loc[test]).argmax(axis=1)
    assert (found == y[test]).mean() > 0.7
    learner._shuffled.learns = False
    without = far_predictions(learner, X.loc[test]).argmax(axis=1)
    assert (found == y[test]).mean() > (without == y[test]).mean()


@BOTH
@pytest.mark.parametrize("count", [700, 1100])
def test_heavy_tails_are_seen_in_random_order_too(made, log, count):
    X, y = log()
    X = X.assign(a=np.exp(3.0 * X.a))
    learner = made(seed=3)
    learner.learn_many(X[:count], y[:count])
    assert np.isfinite(far_predictions(learner, X)).all()
    model = learner._latest_shuffled[1]
    assert model.summary()["transformed"] == learner.summary()["transformed"] == ["a"]


@BOTH
def test_prompt_labels_and_small_parts_make_no_model(made, log):
    X, y = log(1800)
    for size in 1, 150:
        learner = made(seed=3)
        learned_in_chunks(learner, X, y, size)
        far_predictions(learner, X)
        assert learner._latest_shuffled == learner._shuffled.stored == (0, None)


@BOTH
def test_first_predictions_without_labels_are_those_of_stale_experts(made, log):
    X, y = log(700)
    learner = made(seed=3)
    learner.learn_many(X, y)
    predict = learner.predict_proba_many if learner.classifies else learner.predict_many
    following = X.assign(time=X["time"].iloc[-1])
    found = np.asarray(predict(following))
    learner._shuffled.learns, learner._shuffled._made = False, (0, None)
    alone = np.asarray(predict(following))
    assert (found[:PART] == alone[:PART]).all()
    assert (found[PART + 1 :] != alone[PART + 1 :]).any()


@BOTH
def test_one_look_at_many_events_leaves_no_sample(made, log):
    X, y = log(1200)
    quiet, asked = made(seed=3), made(seed=3)
    for learner in quiet, asked:
        learner.learn_many(X[:600], y[:600])
    far_predictions(asked, X)
    for learner in quiet, asked:
        for x, target in zip(X[600:].to_dict("records"), y[600:], strict=True):
            learner.predict_one(x)
            learner.learn_one(x, target)
    assert quiet.to_bytes() == asked.to_bytes()


@BOTH
def test_models_follow_the_sample(made, log):
    """A model is made again after a sixteenth more events, and stored when the next labels come."""
    learner, X, y = in_parts(made, log)
    stored = learner._shuffled.stored[0]
    assert learner._latest_shuffled[0] == learner._rehearsal.reservoir.seen > stored > 0
    for _ in range(3):
        learner.predict_many(X[:300])
        learner.learn_many(X[:40], y[:40])
    seen, (stored, model) = learner._rehearsal.reservoir.seen, learner._shuffled.stored
    assert stored <= seen < stored + stored // 16 or learner._latest_shuffled[0] == seen
    assert model is not None


def test_new_numbers_and_classes_after_the_model():
    learner, X, _ = in_parts(streamk.KernelClassifier, classes)
    rows = X[:400].assign(new=np.arange(400.0), other=None)
    learner.learn_many(rows, [2] * 400)
    found = learner.predict_proba_many(rows)
    assert set(found) == {0, 1, 2}
    assert np.allclose(found.sum(axis=1), 1.0)
    assert np.isfinite(found.to_numpy()).all()


@BOTH
def test_numbers_that_come_after_the_model_say_nothing_to_it(made, log, monkeypatch):
    learner, X, y = in_parts(made, log)
    learner.predict_many(X[:300])
    learner.learn_many(X[:20].assign(new=np.arange(20.0)), y[:20])
    assert learner._latest_shuffled == learner._shuffled.stored
    monkeypatch.setattr("streamk.learners.kernel.share_of", lambda *_: 1.0)
    found = far_predictions(learner, X.assign(new=1e6))
    assert np.allclose(found, far_predictions(learner, X), rtol=0.0, atol=1e-9)


def test_constant_scales_are_those_of_the_model():
    X, y = numbers(1200)
    learner = streamk.KernelRegressor(seed=3)
    learner.learn_many(X[:300], y[:300])
    learner._codec.freeze_scales()
    for part in slice(300, 600), slice(600, 900), slice(900, 1200):
        learner.predict_many(X[part])
        learner.learn_many(X[part], y[part])
    model = learner._latest_shuffled[1]
    assert (model._codec.statistics[:2] == learner._codec.statistics[:2]).all()
    assert (model._codec.target == learner._codec.target).all()


def test_evicted_names_forget_the_model():
    learner, X, _ = in_parts(streamk.KernelRegressor, numbers)
    far_predictions(learner, X)
    learner._shuffled.move(np.zeros(1, dtype=np.int32))
    assert learner._shuffled.stored == learner._shuffled._made == (0, None)


@pytest.mark.parametrize("damage", ["seed", "seen", "live", "class", "names"])
def test_models_of_another_learner_are_rejected(damage):
    learner, X, y = in_parts(streamk.KernelRegressor, numbers, 1200)
    header, arrays = learner._to_parts()
    other = streamk.KernelRegressor(seed=4 if damage == "seed" else 3)
    if damage == "class":
        other, y = streamk.KernelClassifier(seed=3), y > 0.0
    other.learn_many(X.rename(columns={"a": "A"}) if damage == "names" else X, y)
    other._shuffled.learns = False
    model = other if damage == "live" else other.frozen()
    arrays["shuffled.model"] = np.frombuffer(model.to_bytes(), dtype=np.uint8)
    arrays["shuffled.seen"] = np.array([5 if damage == "seen" else 700])
    with pytest.raises(ValueError, match="its shuffled learner is of another learner"):
        loads(model_file.pack(header, arrays))


def test_share_is_a_half_where_labels_are_late_relative_to_all_events():
    assert share_of(5000, 80_000) == 0.5
    assert share_of(500, 80_000) == 0.05
    assert Shuffled().stored == (0, None)


@BOTH
def test_summaries_compare_stale_experts_alone(made, log, monkeypatch):
    """The shuffled learner has learned the events of which errors are printed."""
    learner, _, _ = in_parts(made, log)
    errors = learner.summary()["errors"]
    assert errors["without_labels"] > 0.0
    monkeypatch.setattr("streamk.learners.kernel.share_of", lambda *_: 0.0)
    assert learner.summary()["errors"] == errors
