"""Costs of errors: decisions by their threshold, against plain loops."""

import math
import pickle
import random
from fractions import Fraction

import numpy as np
import pytest
from river import linear_model, preprocessing

import streamk
from streamk.evaluation import Contest, Costs, ModelAdapter, Results, replay
from streamk.evaluation.classes import ClassSums
from streamk.evaluation.metric import METRICS


def stream(count=1500, labels=("ok", "fraud"), seed=3):
    """Events of which one in about eight is of the second class."""
    rng = random.Random(seed)
    events = []
    for _ in range(count):
        x = {"a": rng.gauss(0, 1), "b": rng.choice("uvw")}
        p = 1.0 / (1.0 + math.exp(3.0 - 2.0 * x["a"] - (x["b"] == "w")))
        events.append((x, labels[rng.random() < p]))
    return events


def line():
    return preprocessing.StandardScaler() | linear_model.LogisticRegression()


def kaczmarz():
    return streamk.KaczmarzClassifier(features=64, seed=7)


class Numbers(ModelAdapter):
    """The linear model on the numbers alone."""

    def __init__(self):
        self.model = line()

    def predict(self, x):
        p = self.model.predict_proba_one({"a": x["a"]})
        return {"fraud": p[True], "ok": p[False]} if p else {}

    def learn(self, x, y):
        self.model.learn_one({"a": x["a"]}, y == "fraud")


def looped(model, events, costs, delay=0):
    """The mean cost of a loop over events, as a fraction."""
    total, known, waiting = Fraction(0), set(), []
    for x, y in events:
        p = model.predict_proba_one(x) if hasattr(model, "predict_proba_one") else model.predict(x)
        # a label that was no target is no prediction, and where it is the most probable one, nothing is
        p = {label: share for label, share in p.items() if share > 0.0}
        best = max(p.values(), default=0.0)
        known.add(y)
        nothing = not any(share == best for label, share in p.items() if label in known)
        positive = p.get("fraud", 0.0) > costs.threshold and "fraud" in known
        wrong = nothing or positive != (y == "fraud")
        total += Fraction(costs.fn if y == "fraud" else costs.fp) * wrong
        waiting.append((x, y))
        if len(waiting) > delay:
            x, y = waiting.pop(0)
            model.learn_one(x, y) if hasattr(model, "learn_one") else model.learn(x, y)
    return total / len(events)


@pytest.mark.parametrize("costs", [Costs(50, 1), Costs(1, 50), Costs(0.3, 0.7), Costs(1, 0), Costs(0, 1)])
@pytest.mark.parametrize("model", [Numbers, kaczmarz])
def test_the_mean_cost_is_that_of_a_loop(model, costs):
    events = stream(600)
    results = replay(events, {"it": model()}, metric=costs)
    expected = looped(model(), events, costs)
    assert results.metrics("it")["cost"] == pytest.approx(float(expected), rel=1e-12)
    assert results.costs() == {**costs._asdict(), "positive": "fraud", "threshold": costs.threshold}


def test_late_labels_cost_as_in_a_loop():
    events = stream(600)
    results = replay(events, {"it": Numbers()}, delay=40, metric=Costs(20, 1))
    assert results.metrics("it")["cost"] == pytest.approx(float(looped(Numbers(), events, Costs(20, 1), 40)))


def test_contenders_are_ranked_and_compared_by_it():
    """One is the most probable class, the other decides by chance, but both decide by the threshold."""

    class Constant(Numbers):
        def __init__(self, p):
            self.p = p

        def predict(self, x):
            return {"fraud": self.p, "ok": 1.0 - self.p}

        def learn(self, x, y):
            pass

    events = stream(3000)
    rare = sum(y == "fraud" for _, y in events) / len(events)
    contenders = {"never": Constant(0.01), "always": Constant(0.1), "line": Numbers()}
    results = replay(events, contenders, metric=Costs(50, 1))
    assert results.headline == "cost"
    assert results.ranking() == ["line", "always", "never"]
    assert results.metrics("never")["cost"] == pytest.approx(50 * rare, rel=0.01)
    assert results.metrics("always")["cost"] == pytest.approx(1 - rare, rel=0.01)
    assert results.metrics("never")["accuracy"] == results.metrics("always")["accuracy"]
    compared = results.compare("line", "never")
    difference = results.metrics("never")["cost"] - results.metrics("line")["cost"]
    assert compared.advantage.mean == pytest.approx(difference)
    assert "of mean cost" in compared.words()
    assert results.sureness("line").low < results.metrics("line")["cost"] < results.sureness("line").high
    assert results.verdict() == results.compare("line", "always").words()


def test_slices_windows_and_unpickled_contests():
    events = stream(1000)
    results = replay(events, {"it": Numbers()}, metric=Costs(5, 1), by="b", interval=100)
    whole = results.metrics("it")["cost"]
    slices = results.slices("it")
    assert sum(count * cost for count, cost in slices.values()) / 1000 == pytest.approx(whole)
    windows = results.windows("it")
    assert windows.rows[:, windows.columns.index("cost")].mean() == pytest.approx(whole)
    assert windows.cumulative[-1] == whole
    contest = Contest({"it": Numbers()}, "classification", metric=Costs(5, 1, "fraud"))
    for k in range(0, 1000, 300):
        contest.take([x for x, _ in events[k : k + 300]], [y for _, y in events[k : k + 300]])
        contest = pickle.loads(pickle.dumps(contest))
    assert Results(contest).metrics("it")["cost"] == whole


def test_a_frozen_copy_has_a_cost():
    events = stream(800)
    contest = Contest({"it": kaczmarz()}, "classification", metric=Costs(5, 1, "fraud"))
    contest.take([x for x, _ in events[:500]], [y for _, y in events[:500]])
    contest.freeze()
    contest.take([x for x, _ in events[500:]], [y for _, y in events[500:]])
    frozen = Results(contest).frozen()
    assert frozen["metrics"]["cost"] > 0.0
    assert frozen["with_labels"]["cost"] > 0.0


def test_sums_of_costs_are_exact():
    targets, p = np.array([0, 1, 1]), np.array([[1.0, 0.0]] * 3)
    arrays = targets, p, np.array([-1, 0, 1])
    sums, parts = ClassSums(), [ClassSums(), ClassSums()]
    sums.add(*arrays, np.array([1e16, 1.0, 1.0]))
    parts[0].add(*(a[:1] for a in arrays), np.array([1e16]))
    parts[1].add(*(a[1:] for a in arrays), np.array([1.0, 1.0]))
    assert (parts[0] + parts[1]).mean_cost == ClassSums.restored(sums.state()).mean_cost == (1e16 + 2) / 3
    assert parts[0].copy().mean_cost == 1e16
    parts[0].clear()
    assert parts[0].mean_cost is None
    assert "cost" not in parts[0].values()
    assert METRICS["cost"].better == -1
    with pytest.raises(ValueError, match="they must be as long"):
        sums.add(*arrays, np.zeros(2))


def test_without_costs_there_is_no_cost():
    results = replay(stream(200), {"it": kaczmarz()})
    assert "cost" not in results.metrics("it")
    assert results.to_dict()["costs"] is None
    with pytest.raises(ValueError, match="metric 'cost' is of the costs of errors; set them"):
        replay(stream(200), {"it": kaczmarz()}, metric="cost")


@pytest.mark.parametrize(
    ("labels", "positive", "expected"),
    [
        ([0, 0, 1], None, 1),
        ([1, 1, 0], None, 0),
        ([0, 0, 1], "0", 0),
        ([0, 0, 1], 0.0, 0),
        ([True, False, True], None, False),
        ([False, False], None, True),
        ([False, True, False], "false", False),
        ([True, False], "True", True),
        (["0", "0"], "1", "1"),
        ([0, 0], "1", 1),
        ([np.int64(3), np.int64(3), np.int64(4)], None, 4),
    ],
)
def test_the_positive_label(labels, positive, expected):
    found = Costs(2, 1, positive).decided("classification", labels).positive
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("costs", "labels", "sentence"),
    [
        (Costs(50, 1), ["a", "b", "c"], "are for two classes; labels are a, b, c"),
        (Costs(50, 1), ["a", "b"], r"the first 2 labels are as often a and b; name the positive one"),
        (Costs(50, 1), ["a", "a"], r"the first 2 labels are all a; name the positive one \(--positive\)"),
        (Costs(50, 1, "x"), ["a", "b"], "the positive label 'x' is none of a, b"),
        (Costs(-1, 1), ["a", "b"], "the cost fn is -1; it must be a finite number, at least 0"),
        (Costs(1, math.nan), ["a", "b"], "the cost fp is nan"),
        (Costs("1", 1), ["a", "b"], "the cost fn is '1'"),
        (Costs(0, 0), ["a", "b"], "are both 0"),
        (Costs(2, 1), [0.5, 1.25] * 15, "for two classes, not for regression"),
    ],
)
def test_wrong_costs(costs, labels, sentence):
    events = [({"a": 1.0}, label) for label in labels]
    with pytest.raises(ValueError, match=sentence):
        replay(events, {"it": kaczmarz()}, metric=costs)


@pytest.mark.parametrize("delay", [0, 5])
def test_a_third_class_ends_a_replay(delay):
    events = [*stream(1200), ({"a": 0.0, "b": "u"}, "other")]
    with pytest.raises(ValueError, match="are for two classes; labels are ok, fraud, other"):
        replay(events, {"it": kaczmarz()}, metric=Costs(5, 1), delay=delay)
