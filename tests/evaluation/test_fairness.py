"""Contenders cannot influence one another, and a verdict cannot contradict its interval."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamk
from streamk.evaluation import ModelAdapter, Results, replay
from streamk.evaluation.adapters import RiverAdapter
from streamk.evaluation.bootstrap import BatchMeans
from streamk.evaluation.comparison import DIVERGED, compare
from streamk.evaluation.contest import Contest

RNG = random.Random(5)
EVENTS = [({"a": RNG.gauss(k % 3, 1.0)}, "uvw"[k % 3]) for k in range(1500)]


class Strange(ModelAdapter):
    """It predicts what no other model does."""

    def __init__(self, answers):
        self.answers, self.asked = answers, 0

    def predict(self, x):
        self.asked += 1
        return self.answers[self.asked % len(self.answers)]

    def learn(self, x, y):
        pass


ANSWERS = [
    {"other": 1.0}, {}, {"u": float("nan")}, {"u": -3.0, "v": 0.2}, {"u": 5.0, 7: 1.0}, {None: 0.9, "w": 0.1},
    {"u": 0.5, "v": 0.5},
]  # fmt: skip


@pytest.mark.parametrize("delay", [0, 5])
@pytest.mark.parametrize("answers", [ANSWERS[:1], ANSWERS[1:3], ANSWERS])
def test_a_strange_contender_changes_no_other(answers, delay):
    def own():
        return streamk.KaczmarzClassifier(features=32, seed=1)

    alone = replay(EVENTS, {"it": own()}, delay=delay).to_dict()
    beside = replay(EVENTS, {"odd": Strange(answers), "it": own()}, delay=delay).to_dict()
    assert next(c for c in beside["contenders"] if c["name"] == "it") == alone["contenders"][0]
    assert beside["labels"] == alone["labels"] == ["u", "v", "w"]


def test_a_label_that_is_no_target_is_wrong():
    found = replay(EVENTS, {"odd": Strange([{"other": 0.9, "u": 0.1}])}).metrics("odd")
    assert found["accuracy"] == 0.0


class Boom(ModelAdapter):
    """It fails after some events."""

    def __init__(self, after):
        self.left = after

    def predict(self, x):
        self.left -= 1
        if self.left < 0:
            raise RuntimeError("boom")
        return {"u": 1.0}

    def learn(self, x, y):
        pass


@pytest.mark.parametrize("after", [0, 700])
def test_a_failed_contender_has_no_metrics(after):
    found = replay(EVENTS, {"it": streamk.KaczmarzClassifier(features=32, seed=1), "boom": Boom(after)})
    assert found.failed("boom")
    assert not found.failed("it")
    assert np.isnan(list(found.metrics("boom").values())).all()
    assert found.ranking() == ["it"]
    assert found.comparisons() == []


@pytest.mark.parametrize(
    ("labels", "truths"),
    [
        ("ab", {"a": False, "b": True}),
        ("ba", {"b": False, "a": True}),
        (["1", "0"], {"1": True, "0": False}),
        ([1, 0], {1: True, 0: False}),
        (["yes", "other"], {"yes": True, "other": False}),
        ([True, False], {True: True, False: False}),
    ],
)
def test_labels_reach_a_model_of_two_classes_as_booleans(labels, truths):
    class Noted:
        _multiclass = False

        def __init__(self):
            self.seen = []

        def predict_proba_one(self, x):
            return {False: 0.25, True: 0.75}

        def predict_one(self, x):
            return True

        def learn_one(self, x, y):
            self.seen.append(y)

    model = Noted()
    subject = RiverAdapter(model, "classification")
    for label in labels:
        subject.learn({}, label)
    assert model.seen == [truths[label] for label in labels]
    assert subject.predict({}) == {label: 0.75 if truths[label] else 0.25 for label in labels}
    with pytest.raises(ValueError, match=r"'third' is a third one; wrap it in river\.multiclass"):
        subject.learn({}, "third")


SERIES = st.lists(
    st.floats(-3, 3) | st.sampled_from([0.0, 0.0, 1.0, -1.0, 1e6, -1e-6]), min_size=16, max_size=200
)


@given(SERIES, st.floats(-0.5, 0.5))
def test_a_verdict_agrees_with_its_interval(values, shift):
    units = BatchMeans()
    units.add(np.array(values) + shift)
    found = compare(units, "one", "two", "mae")
    assert found.advantage is not None
    excludes = found.advantage.low > 0.0 or found.advantage.high < 0.0
    assert (found.bound is not None) == excludes
    assert (found.leader is None) == (not excludes)
    if found.leader is not None:
        assert found.leader == ("one" if found.advantage.mean > 0.0 else "two")


class Number(ModelAdapter):
    """It predicts one number."""

    def __init__(self, number):
        self.number = number

    def predict(self, x):
        return self.number

    def learn(self, x, y):
        pass


@pytest.mark.parametrize("far", [4e11, float("inf"), float("nan")])
def test_a_diverged_contender_is_reported(far):
    events = [({"a": 1.0}, float(k % 5)) for k in range(600)]
    found = replay(events, {"far": Number(far), "near": Number(2.0)}, task="regression")
    assert found.ranking()[0] == "near"
    words = found.verdict()
    assert "near is better than far, which diverged" in words
    assert f"{DIVERGED:,}" in words
    assert "e+" not in words
    assert (
        replay(events, {"a": Number(3.0), "b": Number(2.0)}, task="regression").compare("a", "b").diverged
        == ""
    )


def test_latencies_are_of_the_same_events():
    def noted(seen):
        class Noted(ModelAdapter):
            def predict(self, x):
                seen.append(x["k"])
                return {"u": 1.0}

            def learn(self, x, y):
                pass

        return Noted()

    events = [({"k": k}, "uv"[k % 2]) for k in range(3000)]
    contest = Contest(
        {"it": streamk.KaczmarzClassifier(features=32, seed=1), "odd": noted([])}, "classification"
    )
    contest.take([x for x, _ in events], [y for _, y in events])
    sizes = {len(each.latencies.predict) for each in contest.standings.values()}
    assert sizes == {len(contest.standings["it"].latencies.learn)} == {32}
    measured = Results(contest).measured()["odd"]["latency_us"]
    assert measured.keys() == {"predict", "learn", "predict_learn"}


def level_shift(count=4000, at=3000):
    """Return events and targets whose level changes, which only labels show."""
    xs = [{"a": float(k % 7)} for k in range(count)]
    return xs, [float(k % 7) + (50.0 if k >= at else 0.0) for k in range(count)]


def test_the_tail_without_labels_is_that_of_the_frozen_model():
    xs, ys = level_shift()
    contest = Contest({"it": streamk.KernelRegressor(seed=1)}, "regression", interval=500)
    contest.take(xs[:2800], ys[:2800])
    contest.freeze()
    frozen = contest.models["it"].frozen()
    contest.take(xs[2800:], ys[2800:])
    found = Results(contest).frozen()
    assert (found["since"], found["events"]) == (2800, 1200)
    expected = np.abs(np.array(frozen.predict_many(xs[2800:])) - ys[2800:]).mean()
    assert found["metrics"]["mae"] == pytest.approx(expected, rel=1e-12)
    assert found["metrics"]["mae"] > 20 > 5 > found["with_labels"]["mae"]
    rows, mae = (getattr(Results(contest).frozen_windows(), part) for part in ("rows", "cumulative"))
    assert rows.shape[0] == len(mae) == 8
    assert np.isnan(rows[:5]).all()
    assert mae[-1] == pytest.approx((200 * rows[5, 0] + 500 * rows[6, 0] + 500 * rows[7, 0]) / 1200)


def test_the_tail_of_late_labels_is_that_of_the_frozen_model():
    """Labels come 20 events late: 2,780 are known at the freeze."""
    xs, ys = level_shift()
    contest = Contest({"it": streamk.KernelRegressor(seed=1)}, "regression", interval=500)
    frozen = None
    for k, x in enumerate(xs):
        contest.ask(k, x)
        if k >= 20:
            contest.tell(k - 20, ys[k - 20])
        if k == 2799:
            contest.freeze()
            frozen = contest.models["it"].frozen()
    contest.score()
    found = Results(contest).frozen()
    assert (found["since"], found["events"]) == (2780, 1200)
    expected = np.abs(np.array(frozen.predict_many(xs[2780:3980])) - ys[2780:3980]).mean()
    assert found["metrics"]["mae"] == pytest.approx(expected, rel=1e-12)
    assert found["metrics"]["mae"] > 20 > 5 > found["with_labels"]["mae"]
    assert Results(contest).frozen_windows().rows.shape[0] == 7
