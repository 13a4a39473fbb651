import math

import pytest
from river import metrics

from streamk.scores import Score, decide


def test_scores_are_those_of_river():
    score = Score("classification")
    accuracy, kappa, loss = metrics.Accuracy(), metrics.CohenKappa(), metrics.CrossEntropy()
    stream = [("a", {"a": 0.9, "b": 0.1}), ("b", {"a": 0.6, "b": 0.4}), ("b", {"a": 0.2, "b": 0.8})]
    for y, p in stream:
        score.update(y, p)
        accuracy.update(y, decide(p))
        kappa.update(y, decide(p))
        loss.update(y, p)
    expected = {"accuracy": accuracy.get(), "kappa": kappa.get(), "log_loss": loss.get()}
    expected["kappa_temporal"] = (2 - 1) / (3 - 1)  # the last label is right once
    assert score.values() == pytest.approx(expected, abs=1e-6)
    assert score.headline == pytest.approx(2 / 3)


def test_a_class_never_seen_costs_much_but_not_everything():
    score = Score("classification")
    score.update("new", {"a": 1.0})
    assert score.values()["log_loss"] == pytest.approx(-math.log(1e-15), abs=1e-5)
    assert score.values()["accuracy"] == 0.0


def test_before_any_class_is_known():
    score = Score("classification")
    score.update("a", {})
    score.update("a", {"a": 0.0, "b": 0.0})
    assert score.values() == {"accuracy": 0.0, "kappa": 0.0, "kappa_temporal": -1.0, "log_loss": 0.0}


def test_numbers():
    score = Score("regression")
    for y, p in ((1.0, 2.0), (3.0, 3.0), (5.0, 4.0)):
        score.update(y, p)
    values = score.values()
    assert values["mae"] == pytest.approx(2 / 3, rel=1e-5)
    assert values["rmse"] == pytest.approx(math.sqrt(2 / 3), rel=1e-5)
    assert values["r2"] == pytest.approx(1 - 2 / 8, rel=1e-5)
    assert score.headline == pytest.approx(2 / 3)


def test_what_is_passed_over_counts_only_as_a_label_that_came():
    score, answers = Score("classification", delay=2), "aabbab"
    for k, y in enumerate(answers):
        if k < 2:
            score.pass_over(y)
        else:
            score.update(y, {"b": 1.0})
    # of bbab, the labels three before are -, a, a, b
    assert score.events == 4
    assert score.values()["accuracy"] == 0.75
    assert score.values()["kappa_temporal"] == pytest.approx((3 - 2) / (4 - 2))


def test_an_unknown_task():
    with pytest.raises(ValueError, match="task 'ranking' is unknown"):
        Score("ranking")


@pytest.mark.parametrize(
    ("prediction", "label"), [({}, None), ({"a": 0.0}, None), ({"a": 0.3, "b": 0.7}, "b"), (2.5, 2.5)]
)
def test_decide(prediction, label):
    assert decide(prediction) == label


def kappa_temporal(truths, answers, delay):
    """By hand: count what is right, and what the last label that had arrived would have got right."""
    right = sum(y == a for y, a in zip(truths, answers, strict=True))
    unchanged = sum(truths[t] == truths[t - delay - 1] for t in range(delay + 1, len(truths)))
    p, q = right / len(truths), unchanged / len(truths)
    return (p - q) / (1 - q)


@pytest.mark.parametrize("delay", [0, 1, 3, 50])
def test_temporal_kappa(delay):
    truths, answers = "aaabbbbabbaacc", "aababbbbbbaaac"
    score = Score("classification", delay)
    for y, a in zip(truths, answers, strict=True):
        score.update(y, {a: 1.0})
    assert score.values()["kappa_temporal"] == pytest.approx(kappa_temporal(truths, answers, delay), abs=1e-6)


def test_temporal_kappa_where_labels_stay():
    """The last label is wrong once, before there is one, so there is something to divide by."""
    score = Score("classification")
    assert score.values()["kappa_temporal"] == 0.0
    for _ in range(5):
        score.update("a", {"a": 1.0})
    assert score.values()["kappa_temporal"] == 1.0
    score = Score("classification")
    for prediction in ({}, {"a": 1.0}, {"a": 1.0}):
        score.update("a", prediction)
    assert score.values()["kappa_temporal"] == 0.0


@pytest.mark.parametrize("delay", [-1, 0.5])
def test_a_delay_that_is_none(delay):
    with pytest.raises(ValueError, match="delay is"):
        Score("classification", delay)
