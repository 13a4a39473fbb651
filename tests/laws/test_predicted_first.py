"""Learning an event gives the same model, whether or not it, or another one, was predicted just before."""

import numpy as np
import pytest

import streamk

from .subjects import LEARNERS, build, events, subjects


def learned(make, pairs, before):
    """Return the bytes of a model that learned events; ``before`` is called ahead of each."""
    learner = make()
    for i, (x, y) in enumerate(pairs):
        before(learner, i, x)
        learner.learn_one(x, y)
    return learner.to_bytes()


def predict_it(learner, i, x):
    learner.predict_one(x)


def predict_it_with_an_interval(learner, i, x):
    learner.predict_one(x)
    if hasattr(learner, "predict_interval_one"):
        learner.predict_interval_one(x)


def predict_another(learner, i, x):
    learner.predict_one(x)
    learner.predict_one({**x, "a": float(i)})


def predict_many(learner, i, x):
    learner.predict_one(x)
    learner.predict_many([x, {**x, "a": float(i)}])


def predict_a_copy(learner, i, x):
    learner.predict_one(dict(x))


def predict_its_values_by_other_names(learner, i, x):
    learner.predict_one(x)
    learner.predict_one(dict(zip([*x][::-1], x.values(), strict=True)))


def predict_many_widths(learner, i, x):
    before = learner.predict_one(x)
    if i % 40 == 39:
        for width in range(70):
            learner.predict_many([{f"c{k}": "v" for k in range(width)}])
        assert learner.predict_one(x) == before


def check_it(learner, i, x):
    learner.predict_one(x)
    with pytest.raises(ValueError, match="a"):
        learner.predict_one({"a": object()})


@pytest.mark.parametrize(
    "before",
    [
        predict_it,
        predict_it_with_an_interval,
        predict_another,
        predict_many,
        predict_a_copy,
        predict_its_values_by_other_names,
        predict_many_widths,
        check_it,
    ],
    ids=lambda before: before.__name__,
)
def test_a_prediction_changes_nothing(make_kernel, before):
    pairs = events(classifies=make_kernel.classifies)
    silent = learned(make_kernel, pairs, lambda learner, i, x: None)
    assert learned(make_kernel, pairs, before) == silent


def test_an_event_changed_in_place_after_its_prediction_is_learned_as_it_is(make_kernel):
    pairs = events(classifies=make_kernel.classifies)

    def change(learner, i, x):
        wanted = dict(x)
        for name in list(x):
            x[name] = True if x[name] == 1 else 1.0
        learner.predict_one(x)
        x.clear()
        x.update(wanted)

    silent = learned(make_kernel, [(dict(x), y) for x, y in pairs], lambda learner, i, x: None)
    assert learned(make_kernel, [(dict(x), y) for x, y in pairs], change) == silent


def learn_others(learner, xs, ys):
    learner.learn_many(xs, ys)


def learn_scales(learner, xs, ys):
    learner._pass(xs, ys, None, None, wanted=False, scales_only=True)


@pytest.mark.parametrize("between", [learn_others, learn_scales], ids=lambda between: between.__name__)
def test_what_was_learned_after_the_prediction_counts(make_kernel, between):
    xs, ys = map(list, zip(*events(classifies=make_kernel.classifies), strict=True))
    models = []
    for predicts in (False, True):
        learner = make_kernel()
        learner.learn_many(xs[:50], ys[:50])
        if predicts:
            learner.predict_one(xs[80])
        between(learner, xs[50:80], ys[50:80])
        learner.learn_one(xs[80], ys[80])
        models.append(learner.to_bytes())
    assert models[0] == models[1]


def test_an_event_is_encoded_once_for_its_prediction_and_its_lesson():
    learner = streamk.KernelClassifier(features=768, seed=1)
    pairs = [({"a": float(i % 7), "b": i % 5}, i % 7 > 3) for i in range(200)]
    for x, y in pairs[:100]:
        learner.learn_one(x, y)
    before = learner._codec.inputs.encoded
    for x, y in pairs[100:]:
        learner.predict_one(x)
        learner.learn_one(x, y)
    assert learner._codec.inputs.encoded == before + 100


@pytest.mark.parametrize("name", subjects())
def test_views_leave_no_trace(name):
    """Also where so many events are seen between two labels that labels would seem to come late."""
    cls, extra = LEARNERS[name]
    plain, viewed = build(cls, extra), build(cls, extra)
    pairs = events(140, classifies=plain.classifies)
    rows = [x for x, _ in pairs]
    for x, y in pairs:
        viewed.view_array(rows)
        for learner in (plain, viewed):
            learner.learn_one(x, y)
    assert viewed.to_bytes() == plain.to_bytes()
    few = rows[:9]
    found = viewed.view_array(few)
    wanted = viewed.predict_proba_many(few) if viewed.classifies else viewed.predict_many(few)
    if viewed.classifies:
        wanted = [[p[label] for label in viewed.labels] for p in wanted]
    np.testing.assert_array_equal(found, wanted)
    for x, y in pairs[:20]:
        for learner in (plain, viewed):
            learner.ask_one("key", x)
            learner.tell_one("key", y)
        viewed.view_array(rows)
    assert viewed.to_bytes() == plain.to_bytes()
