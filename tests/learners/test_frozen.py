"""The model to deploy where no labels come."""

import numpy as np
import pytest

import streamk
from tests.laws.subjects import LEARNERS, build, events, subjects

NAMES = ["a", "b", "c"]


def drifting(n, seed=0):
    """Labels that resemble their neighbours far more than the inputs explain, then none of that."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 3))
    level = np.repeat(rng.normal(size=n // 40 + 1), 40)[:n]
    return z, np.sin(2.0 * z[:, 0]) + 0.5 * z[:, 1] + 1.5 * level + 0.1 * rng.normal(size=n)


def learned(cls, n=6000, **parameters):
    z, y = drifting(n)
    learner = cls(features=768, seed=3, **parameters)
    targets = (y > 0.0).tolist() if cls is streamk.KernelClassifier else y
    learner.learn_many(z, targets, names=NAMES)
    return learner


def test_a_frozen_classifier_is_as_sure_as_it_is_right():
    learner = learned(streamk.KernelClassifier)
    z, y = drifting(4000, seed=1)
    losses = {}
    for name, model in {"live": learner, "frozen": learner.frozen()}.items():
        rows = [dict(zip(NAMES, row, strict=True)) for row in z.tolist()]
        found = np.array([model.predict_proba_one(x)[True] for x in rows])
        losses[name] = -np.log(np.where(y > 0.0, found, 1.0 - found)).mean()
    assert losses["frozen"] < 0.66 < losses["live"] - 0.1, losses  # log 2 is .69


@pytest.mark.parametrize("cls", [streamk.KernelClassifier, streamk.KernelRegressor])
@pytest.mark.parametrize("events", [200, 3000])
def test_a_learner_without_labels_predicts_as_the_frozen_one(cls, events):
    """To the bit, and is the same afterwards."""
    learner, z = learned(cls, events, neighbours=False), drifting(300, seed=1)[0]
    before, of_next = learner.to_bytes(), learner.view_array(z[:9], NAMES)
    with learner._without_labels() as model:
        np.testing.assert_array_equal(model.view_array(z, NAMES), learner.frozen().view_array(z, NAMES))
    assert learner.to_bytes() == before
    np.testing.assert_array_equal(learner.view_array(z[:9], NAMES), of_next)


def test_a_frozen_regressor_uses_the_inputs_and_has_honest_intervals():
    """In the mean over twelve moments, since what came last is different at each."""
    learner = learned(streamk.KernelRegressor, 5000)
    z, y = drifting(2000, seed=1)
    rows = [dict(zip(NAMES, row, strict=True)) for row in z.tolist()]
    more, labels = drifting(3600, seed=2)
    errors, inside = {"live": [], "frozen": []}, {"live": [], "frozen": []}
    for start in range(0, 3600, 300):
        part = slice(start, start + 300)
        learner.learn_many(more[part], labels[part], names=NAMES)
        live = streamk.loads(learner.to_bytes())  # the learner itself would see that labels come late
        for name, model in {"live": live, "frozen": learner.frozen()}.items():
            found = np.array([model.predict_one(x) for x in rows])
            intervals = [model.predict_interval_one(x, level=0.9) for x in rows]
            lower, upper = np.array([(i.lower, i.upper) for i in intervals]).T
            errors[name].append(np.mean((found - y) ** 2) / y.var())
            inside[name].append(np.mean((lower <= y) & (y <= upper)))
    assert np.mean(errors["frozen"]) < 0.9 * np.mean(errors["live"]), errors
    assert np.mean(inside["live"]) < 0.6, inside
    assert 0.75 < np.mean(inside["frozen"]) < 0.97, inside


@pytest.mark.parametrize("cls", [streamk.KernelClassifier, streamk.KernelRegressor])
def test_freezing_changes_no_bit_of_the_learner_and_is_saved(cls):
    learner = learned(cls, 2500)
    before = learner.to_bytes()
    model = learner.frozen()
    assert learner.to_bytes() == before
    assert len(model.to_bytes()) < 0.6 * len(before)
    again = streamk.loads(model.to_bytes())
    assert again.to_bytes() == model.to_bytes()
    z = drifting(50, seed=2)[0]
    np.testing.assert_array_equal(again.predict_many(z, names=NAMES), model.predict_many(z, names=NAMES))
    x = dict(zip(NAMES, z[0].tolist(), strict=True))
    for frozen in (model, again):
        y = True if cls is streamk.KernelClassifier else 1.0
        with pytest.raises(ValueError, match="the learner is frozen"):
            frozen.learn_one(x, y)
        with pytest.raises(ValueError, match="the learner is frozen"):
            frozen.learn_many([x], [y])
        frozen.learn_one(x, y, w=0.0)  # teaches nothing
        assert frozen.to_bytes() == model.to_bytes()


@pytest.mark.parametrize("name", subjects())
def test_every_learner_can_be_frozen_at_any_time(name):
    cls, extra = LEARNERS[name]
    learner = build(cls, extra)
    assert learner.frozen().predict_one({"a": 1.0}) == learner.predict_one({"a": 1.0})
    pairs = events(90, classifies=learner.classifies)
    for x, y in pairs:
        learner.learn_one(x, y)
    model = learner.frozen()
    if not name.startswith("kernel"):
        assert [model.predict_one(x) for x, _ in pairs] == [learner.closed().predict_one(x) for x, _ in pairs]
    assert [streamk.loads(model.to_bytes()).predict_one(x) for x, _ in pairs] == [
        model.predict_one(x) for x, _ in pairs
    ]


@pytest.mark.parametrize("cls", [streamk.KernelClassifier, streamk.KernelRegressor])
def test_a_learner_saved_in_the_middle_freezes_to_the_same(cls):
    z, y = drifting(3300)
    targets = (y > 0.0).tolist() if cls is streamk.KernelClassifier else y.tolist()
    whole, part = (cls(features=768, seed=3) for _ in range(2))
    whole.learn_many(z, targets, names=NAMES)
    for start, stop in ((0, 900), (900, 1500), (1500, 2100), (2100, 3300)):
        part.learn_many(z[start:stop], targets[start:stop], names=NAMES)
        part = streamk.loads(part.to_bytes())
    assert part.to_bytes() == whole.to_bytes()
    assert part.frozen().to_bytes() == whole.frozen().to_bytes()


@pytest.mark.parametrize(
    ("name", "value"), [("stale.since", 7.0), ("stale.used0", -1), ("stale.values0", np.nan)]
)
def test_impossible_copies_are_refused(name, value):
    learner = learned(streamk.KernelRegressor, 1500)
    header, arrays = learner._to_parts()
    arrays = {k: v.copy() for k, v in arrays.items()}
    arrays[name].flat[0] = value
    with pytest.raises(ValueError, match="impossible"):
        type(learner)._from_parts(header, arrays)


@pytest.mark.parametrize("name", subjects())
def test_a_frozen_learner_passed_events_without_weight_predicts_as_before(name):
    """Also numbers that rise steadily, which a frozen learner holds at their last value."""
    cls, extra = LEARNERS[name]
    learner = build(cls, extra)
    pairs = [({**x, "t": float(i)}, y) for i, (x, y) in enumerate(events(700, classifies=learner.classifies))]
    learner.learn_many(*zip(*pairs[:600], strict=True))
    model, new = learner.frozen(), [x for x, _ in pairs[600:]]
    before = model.to_bytes()
    wanted = model.predict_proba_many(new) if learner.classifies else model.predict_many(new)
    for targets in ([None] * len(new), [y for _, y in pairs[600:]]):
        found = model.predict_learn_array(new, targets, [0.0] * len(new))
        columns = [[p[label] for label in learner.labels] for p in wanted] if learner.classifies else wanted
        np.testing.assert_array_equal(found, columns)
    assert model.to_bytes() == before
