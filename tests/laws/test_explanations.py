"""Laws of explanations: they sum to the prediction, are repeatable, and leave no trace."""

import math

import pytest

from tests.laws.subjects import LEARNERS, build, events, subjects


def _learned(name):
    cls, extra = LEARNERS[name]
    learner = build(cls, extra)
    for x, y in events(classifies=learner.classifies):
        learner.learn_one(x, y)
    return learner


def _predicted(learner, x, label):
    return learner.predict_proba_one(x)[label] if learner.classifies else learner.predict_one(x)


def _sum(explanation):
    return explanation.base + math.fsum(explanation.contributions.values())


@pytest.mark.parametrize("name", subjects())
def test_explanations_sum_to_the_prediction_and_leave_no_trace(name):
    learner = _learned(name)
    before = learner.to_bytes()
    odd = {"a": None, "unknown": 3.0, "colour": "never seen", "k": float("nan")}
    explained = [*[x for x, _ in events(6, seed=5, classifies=learner.classifies)], {}, odd]
    explanations = [learner.explain_one(x) for x in explained]
    assert learner.to_bytes() == before
    assert [learner.explain_one(x) for x in explained] == explanations
    assert [learner.explain_one(dict(reversed(x.items()))).prediction for x in explained] == pytest.approx(
        [each.prediction for each in explanations], abs=1e-9
    )
    for x, each in zip(explained, explanations, strict=True):
        assert _sum(each) == pytest.approx(_predicted(learner, x, each.label), abs=1e-6)
        assert each.contributions.keys() == x.keys()
        sizes = [abs(value) for value in each.contributions.values()]
        assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize(
    "name", ["kernel-classifier", "kernel-regressor", "classifier", "low-rank-regressor"]
)
def test_learner_learns_the_same_with_explanations_between(name):
    cls, extra = LEARNERS[name]
    explaining, silent = build(cls, extra), build(cls, extra)
    for x, y in events(60, classifies=silent.classifies):
        for learner in (explaining, silent):
            learner.predict_one(x)
            if learner is explaining:
                learner.explain_one(x)
            learner.learn_one(x, y)
    assert explaining.to_bytes() == silent.to_bytes()


@pytest.mark.parametrize("name", ["kernel-classifier", "kernel-regressor"])
def test_frozen_and_late_learners_explain_what_they_predict(name):
    cls, extra = LEARNERS[name]
    learner = build(cls, extra)
    stream = events(400, classifies=learner.classifies)
    for key, (x, _) in enumerate(stream[:300]):
        learner.ask_one(key, x)
    learner.tell_many(list(range(300)), [y for _, y in stream[:300]])
    for x, _ in stream[300:]:
        learner.learn_one(x, None)
    for model in (learner, learner.frozen(), learner.closed()):
        x = stream[7][0]
        explanation = model.explain_one(x)
        assert _sum(explanation) == pytest.approx(_predicted(model, x, explanation.label), abs=1e-6)
