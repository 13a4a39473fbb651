"""Models replayed side by side: the numbers are those of river's own loops, and nobody disturbs anybody."""

import datetime
import math
import pickle
import random
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from river import datasets, dummy, evaluate, linear_model, metrics, preprocessing, stream, tree

import streamk
from streamk.evaluation import Contest, DelayByTime, Frozen, LearnerAdapter, Results, replay
from streamk.evaluation.contest import RefusedError

EVENTS = list(datasets.Bananas().take(2500))
CLASSES = {"accuracy": metrics.Accuracy, "kappa": metrics.CohenKappa, "macro_f1": metrics.MacroF1}


def line():
    return preprocessing.StandardScaler() | linear_model.LogisticRegression()


def kaczmarz(**parameters):
    return streamk.KaczmarzClassifier(**{"features": 64, "seed": 7, **parameters})


def numbers(n=1500):
    rng = random.Random(5)
    rows = [{"a": rng.gauss(0, 1), "b": rng.gauss(5, 2)} for _ in range(n)]
    return [(x, 3.0 * x["a"] - math.sin(x["b"]) + rng.gauss(0, 0.1)) for x in rows]


@pytest.mark.parametrize("model", [line, tree.HoeffdingTreeClassifier, kaczmarz])
def test_classes_are_rivers(model):
    """All that river leaves out is a first event that nobody could answer."""
    found = replay(EVENTS, {"it": model()}).metrics("it")
    for name, metric in CLASSES.items():
        expected, it = metric(), model()
        for x, y in EVENTS:
            said = it.predict_one(x)
            if said is not None:
                expected.update(y, said)
            it.learn_one(x, y)
        assert found[name] == pytest.approx(expected.get(), abs=2e-3), name
    assert found["accuracy"] == pytest.approx(evaluated(EVENTS, model(), metrics.Accuracy()), abs=1 / 2500)


def evaluated(events, model, metric, **late):
    evaluate.progressive_val_score(events, model, metric, **late)
    return metric.get()


@pytest.mark.parametrize("model", [linear_model.LinearRegression, lambda: streamk.KaczmarzRegressor(seed=1)])
def test_numbers_are_rivers(model):
    found = replay(numbers(), {"it": model()}).metrics("it")
    for name, metric in {"mae": metrics.MAE, "rmse": metrics.RMSE, "r2": metrics.R2}.items():
        assert found[name] == pytest.approx(evaluated(numbers(), model(), metric()), rel=1e-6), name


@pytest.mark.parametrize("delay", [1, 7, 400, 9000])
@pytest.mark.parametrize("model", [line, kaczmarz])
def test_late_targets_are_rivers(delay, model):
    """River's delay counts the event itself."""
    found = replay(EVENTS, {"it": model()}, delay=delay).metrics("it")
    metric, it = metrics.Accuracy(), model()
    asked = {}
    for number, x, y in stream.simulate_qa(EVENTS, moment=None, delay=delay + 1):
        if y is None:
            asked[number] = it.predict_one(x)
        else:
            metric.update(y, asked.pop(number))
            it.learn_one(x, y)
    known = (
        metric.get() if model is kaczmarz else evaluated(EVENTS, model(), metrics.Accuracy(), delay=delay + 1)
    )
    assert found["accuracy"] == pytest.approx(known, abs=1e-9)


def test_late_targets_by_a_clock_are_rivers():
    rng, now, events = random.Random(1), datetime.datetime(2026, 1, 1), []
    for x, y in EVENTS:
        now += datetime.timedelta(seconds=rng.choice([0, 1, 5, 60]))
        events.append(({**x, "at": now.isoformat()}, y))
    late = datetime.timedelta(minutes=3)
    numbers_only = [({k: v for k, v in x.items() if k != "at"}, y) for x, y in events]

    def moment(x):
        return times[id(x)]

    times = {id(x): datetime.datetime.fromisoformat(full["at"]) for (x, _), (full, _) in
             zip(numbers_only, events, strict=True)}  # fmt: skip
    metric, it, asked = metrics.Accuracy(), kaczmarz(), {}
    for number, x, y in stream.simulate_qa(numbers_only, moment, late, copy=False):
        if y is None:
            asked[number] = it.predict_one(x)
        else:
            metric.update(y, asked.pop(number))
            it.learn_one(x, y)
    contender = kaczmarz()
    found = replay(numbers_only, {"it": contender}, delay=DelayByTime(moment, late))
    assert found.events == len(EVENTS)
    assert found.metrics("it")["accuracy"] == pytest.approx(metric.get(), abs=1e-9)
    assert contender.to_bytes() == it.to_bytes()


def test_a_clock_that_is_a_field():
    events = [
        ({"x": i % 7, "at": f"2026-01-01T00:{i // 60:02d}:{i % 60:02d}"}, i % 7 > 3) for i in range(600)
    ]
    found = replay(events, {"it": kaczmarz()}, delay=DelayByTime("at", 10.0))
    assert found.events == 600
    with pytest.raises(ValueError, match="field 'at': None is no time"):
        replay([({"x": 1}, True)], {"it": kaczmarz()}, task="classification", delay=DelayByTime("at", 1.0))


def test_contenders_do_not_disturb_one_another():
    """Each has the numbers and ends with the model that it has alone."""

    def make():
        return {"kernel": streamk.KernelClassifier(seed=1), "kaczmarz": kaczmarz(), "line": line()}

    together = make()
    beside = replay(EVENTS, together)
    for name, model in make().items():
        alone = replay(EVENTS, {name: model})
        assert alone.metrics(name) == beside.metrics(name)
        if hasattr(model, "to_bytes"):
            assert model.to_bytes() == together[name].to_bytes()


class Broken(dummy.NoChangeClassifier):
    """It raises at its 1,500th event."""

    def __init__(self, verb):
        super().__init__()
        self.verb, self.count = verb, 0

    def _count(self, verb):
        self.count += verb == self.verb
        if verb == self.verb and self.count == 1500:
            raise RuntimeError("no more")

    def predict_proba_one(self, x):
        self._count("predict")
        return super().predict_proba_one(x)

    def learn_one(self, x, y):
        self._count("learn")
        super().learn_one(x, y)


@pytest.mark.parametrize("verb", ["predict", "learn"])
@pytest.mark.parametrize("delay", [0, 10])
def test_a_contender_that_raises_is_excluded(verb, delay):
    found = replay(EVENTS, {"broken": Broken(verb), "it": kaczmarz()}, delay=delay)
    assert "RuntimeError: no more" in found.error("broken")
    assert not found.error("it")
    assert found.ranking() == ["it"]
    alone = replay(EVENTS, {"it": kaczmarz()}, delay=delay)
    assert found.metrics("it") == alone.metrics("it")
    assert found.verdict() == alone.verdict()
    with pytest.raises(ValueError, match="not scored on the same events"):
        found.compare("broken", "it")


def test_a_learner_that_rejects_an_accepted_event_is_excluded():
    events = [({"x": float(i % 9) * (1e20 if i == 700 else 1.0)}, i % 9 > 4) for i in range(1500)]
    found = replay(events, {"scaled": kaczmarz(), "unscaled": kaczmarz(scale_inputs=False)})
    assert "at event 701: field 'x' is" in found.error("unscaled")
    assert not found.error("scaled")


def test_events_that_no_learner_takes():
    contest = Contest({"line": line(), "it": kaczmarz()}, "classification")
    xs = [{"a": 1.0 * i} for i in range(10)]
    ys = [i % 2 > 0 for i in range(10)]
    xs[4] = {"a": math.inf}
    with pytest.raises(RefusedError) as refused:
        contest.take(xs, ys)
    assert refused.value.row == 4
    assert contest.events == 4
    assert {s.events for s in contest.standings.values()} == {4}
    contest.take(xs[5:], ys[5:])
    assert contest.models["it"].events == 9


@pytest.mark.parametrize("bad", [(math.inf, 1.0), (0.5, math.nan)])
def test_intervals_and_an_event_that_is_refused(bad):
    """What was learned before it is not learned again; it is scored as if it had never come."""
    pairs = [({"a": math.sin(i)}, math.cos(i)) for i in range(50)]
    without = [*pairs[:40], *pairs[41:]]
    pairs[40] = {"a": bad[0]}, bad[1]
    contest = Contest({"it": streamk.KernelRegressor(seed=1)}, "regression", level=0.9)
    with pytest.raises(RefusedError) as refused:
        contest.take([x for x, _ in pairs], [y for _, y in pairs])
    assert (refused.value.row, contest.events, contest.models["it"].events) == (40, 40, 40)
    contest.take([x for x, _ in pairs[41:]], [y for _, y in pairs[41:]])
    model = streamk.KernelRegressor(seed=1)
    expected = replay(without, {"it": model}, task="regression", level=0.9, interval=1000)
    assert contest.models["it"].to_bytes() == model.to_bytes()
    assert Results(contest).to_dict() == expected.to_dict()


def test_intervals_with_a_contender_that_rejects_an_event():
    events = [({"x": float(i % 9) * (1e20 if i == 700 else 1.0)}, float(i % 5)) for i in range(1500)]
    it, alone = (streamk.KernelRegressor(seed=1) for _ in range(2))
    less = streamk.KaczmarzRegressor(seed=1, features=64, scale_inputs=False)
    found = replay(events, {"it": it, "less": less}, task="regression", level=0.9)
    expected = replay(events, {"it": alone}, task="regression", level=0.9)
    assert "at event 701: field 'x' is" in found.error("less")
    assert found.metrics("it") == expected.metrics("it")
    assert it.to_bytes() == alone.to_bytes()


@pytest.mark.parametrize("late", [lambda: 0, lambda: 300, lambda: 5000, lambda: DelayByTime("t", 300.0)])
@pytest.mark.parametrize("bad", [{"x": math.inf}, {"y": "a text"}])
def test_an_event_that_is_refused_is_named_by_its_row(late, bad):
    events = [({**x, "t": float(i)}, y) for i, (x, y) in enumerate(EVENTS)]
    x, y = events[1500]
    events[1500] = {**x, "x": bad.get("x", 1.0)}, bad.get("y", y)
    with pytest.raises(ValueError, match=r"^row 1500: "):
        replay(events, {"it": kaczmarz()}, delay=late())


def test_a_time_that_is_none_is_named_by_its_row():
    events = [({**x, "t": None if i == 1200 else i}, y) for i, (x, y) in enumerate(EVENTS)]
    with pytest.raises(ValueError, match=r"^row 1200: field 't': None is no time"):
        replay(events, {"it": kaczmarz()}, delay=DelayByTime("t", 300.0))


def test_a_frozen_model_learns_nothing():
    model = kaczmarz()
    model.learn_many([x for x, _ in EVENTS[:1000]], [y for _, y in EVENTS[:1000]])
    before = model.to_bytes()
    found = replay(
        EVENTS[1000:], {"frozen": Frozen(LearnerAdapter(model, "classification")), "new": kaczmarz()}
    )
    assert model.to_bytes() == before
    said = model.predict_many([x for x, _ in EVENTS[1000:]])
    right = np.mean([a == y for a, (_, y) in zip(said, EVENTS[1000:], strict=True)])
    assert found.metrics("frozen")["accuracy"] == pytest.approx(right)


@pytest.mark.parametrize("delay", [0, 7])
def test_a_frozen_model_of_other_labels_is_excluded(delay):
    model = kaczmarz()
    model.learn_many([x for x, _ in EVENTS[:100]], [str(int(y)) for _, y in EVENTS[:100]])
    numbers = [(x, int(y)) for x, y in EVENTS[100:600]]
    frozen = Frozen(LearnerAdapter(model, "classification"))
    for others in ({"new": kaczmarz()}, {"line": line()}):
        found = replay(numbers, {"frozen": frozen, **others}, delay=delay)
        assert "earlier labels are of type str" in found.error("frozen")
        assert found.ranking() == [*others]
        assert found.events == 500


@pytest.mark.parametrize("bad", [({"x": math.inf}, True), ({"x": 1.0}, "a text")])
@pytest.mark.parametrize("delay", [0, 7])
def test_a_frozen_model_judges_events(bad, delay):
    """One that it refuses nobody takes, and it goes on."""
    model = kaczmarz()
    model.learn_many([x for x, _ in EVENTS[:100]], [y for _, y in EVENTS[:100]])
    before = model.to_bytes()
    contest = Contest(
        {"line": line(), "it": Frozen(LearnerAdapter(model, "classification"))}, "classification"
    )
    events, refused = [*EVENTS[:40], bad, *EVENTS[40:80]], []
    if delay:
        for key, (x, _) in enumerate(events):
            try:
                contest.ask(key, x)
            except RefusedError:
                refused.append(key)
        for key in sorted(contest.asked):
            try:
                contest.tell(key, events[key][1])
            except RefusedError as error:
                refused.append(error.key)
        contest.score()
    else:
        with pytest.raises(RefusedError) as error:
            contest.take([x for x, _ in events], [y for _, y in events])
        refused.append(error.value.row)
        contest.take([x for x, _ in events[41:]], [y for _, y in events[41:]])
    assert refused == [40]
    assert {s.events for s in contest.standings.values()} == {80}
    assert not any(s.error for s in contest.standings.values())
    assert model.to_bytes() == before


def test_slices_are_the_parts():
    events = [({**x, "day": f"d{i % 3}"}, y) for i, (x, y) in enumerate(EVENTS)]
    found = replay(events, {"it": kaczmarz()}, by="day").to_dict()["contenders"][0]
    assert [each["value"] for each in found["slices"]] == ["d0", "d1", "d2"]
    assert sum(each["events"] for each in found["slices"]) == len(EVENTS)
    whole = sum(each["events"] * each["metrics"]["accuracy"] for each in found["slices"]) / len(EVENTS)
    assert whole == pytest.approx(found["metrics"]["accuracy"])


def test_intervals_are_scored():
    events = numbers()
    found = replay(events, {"it": streamk.KernelRegressor(seed=1)}, level=0.8).metrics("it")
    it, inside = streamk.KernelRegressor(seed=1), []
    for x, y in events:
        ends = it.predict_interval_one(x, 0.8)
        if math.isfinite(ends.lower):
            inside.append(ends.lower <= y <= ends.upper)
        it.learn_one(x, y)
    assert found["coverage"] == pytest.approx(np.mean(inside))


def test_an_unpickled_contest_continues():
    """A contest that was written and read goes on to the bytes it would have ended with."""

    def make():
        return Contest({"it": kaczmarz(), "tree": tree.HoeffdingTreeClassifier()}, "classification", by="x")

    contest, again = make(), make()
    for k in range(0, 2500, 130):
        xs, ys = [x for x, _ in EVENTS[k : k + 130]], [y for _, y in EVENTS[k : k + 130]]
        contest.take(xs, ys)
        again.take(xs, ys)
        again = pickle.loads(pickle.dumps(again))

    assert Results(again).to_dict() == Results(contest).to_dict()
    assert again.models["it"].to_bytes() == contest.models["it"].to_bytes()


def test_chunks_do_not_show():

    found = []
    for size in (1, 37, 1000, 2500):
        contest = Contest({"it": kaczmarz(), "line": line()}, "classification", interval=300)
        for k in range(0, 2500, size):
            contest.take([x for x, _ in EVENTS[k : k + size]], [y for _, y in EVENTS[k : k + size]])
        found.append(Results(contest).to_dict())
    assert all(each == found[0] for each in found)


def test_what_results_show():
    found = replay(EVENTS, {"it": kaczmarz(), "line": line()}, metrics=["accuracy", "log_loss"], interval=500)
    frame = found.to_frame()
    assert list(frame.index) == ["it", "line"]
    assert list(frame.columns) == ["accuracy", "log_loss", "events/s"]
    curves = found.curves()
    assert isinstance(curves, pd.DataFrame)
    ours = curves[curves.contender == "it"]
    assert ours.events.tolist() == [500, 1000, 1500, 2000, 2500]
    assert ours.accuracy.mean() == pytest.approx(frame.accuracy["it"])
    assert ours.cumulative_accuracy.iloc[-1] == pytest.approx(frame.accuracy["it"])
    sure = found.sureness("it")
    assert sure.low < frame.accuracy["it"] < sure.high
    assert found.plot().axes[0].get_ylabel() == "accuracy"
    text = found._repr_html_()
    assert "<caption>" in text
    assert "it is better than line" in found.verdict()
    assert replay(EVENTS, {"<b>": kaczmarz()})._repr_html_().count("<b>") == 0


@pytest.mark.parametrize(
    ("events", "contenders", "options", "sentence"),
    [
        ([], {"it": kaczmarz()}, {}, "there are no events"),
        (EVENTS, {}, {}, "at least one contender"),
        (EVENTS, {"it": object()}, {}, "object has no learn_one"),
        (EVENTS, {"it": streamk.KaczmarzRegressor()}, {}, "KaczmarzRegressor is not for classification"),
        (EVENTS, {"it": kaczmarz()}, {"task": "ranking"}, "task 'ranking' is unknown"),
        (EVENTS, {"it": kaczmarz()}, {"metrics": ["speed"]}, "metric 'speed' is unknown; use accuracy"),
        (EVENTS, {"it": kaczmarz()}, {"delay": -1}, "delay is -1"),
        (EVENTS, {"it": kaczmarz()}, {"interval": 0}, "interval is 0"),
    ],
)
def test_wrong_things(events, contenders, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        replay(events, contenders, **options)


def test_the_latest_event_is_the_last_of_a_batch():
    contest, alone = Contest({"it": kaczmarz()}, "classification"), kaczmarz()
    count = next(k for k in range(300, 400) if EVENTS[k - 1][1] != EVENTS[0][1])
    xs, ys = map(list, zip(*EVENTS[:count], strict=True))
    contest.take(xs, ys)
    assert contest.latest == (ys[-1], list(alone.predict_learn_many(xs, ys))[-1])


class Failing:
    def predict_one(self, x):
        raise RuntimeError("no")

    def predict_proba_one(self, x):
        raise RuntimeError("no")

    def learn_one(self, x, y):
        pass


def test_results_print_their_ranking():
    lines = repr(replay(EVENTS[:300], {"line": line(), "it": kaczmarz(), "failing": Failing()})).splitlines()
    assert lines[0] == "300 events, classification"
    assert re.fullmatch(r"1\. it: accuracy 0\.\d{4}", lines[1])
    assert re.fullmatch(r"2\. line: accuracy 0\.\d{4}", lines[2])
    assert lines[3].startswith("-. failing: after event 0: RuntimeError: no")


def test_learners_print_how_many_events_they_learned():
    learner = kaczmarz()
    before = repr(learner)
    learner.learn_many(*map(list, zip(*EVENTS[:1200], strict=True)))
    assert repr(learner) == f"{before} after 1,200 events"


@pytest.mark.parametrize("library", [pd, pl])
def test_a_frame_is_its_rows(library):
    xs, ys = map(list, zip(*EVENTS[:400], strict=True))
    rows = replay(zip(xs, ys, strict=True), {"it": kaczmarz(), "line": line()})
    frame = replay((library.DataFrame(xs), library.Series(ys)), {"it": kaczmarz(), "line": line()})
    assert frame.metrics("it") == rows.metrics("it")
    assert frame.metrics("line") == rows.metrics("line")
    with pytest.raises(ValueError, match="399"):
        replay((library.DataFrame(xs), ys[:-1]), {"it": kaczmarz()})


@pytest.mark.parametrize(
    ("events", "what"),
    [
        (pd.DataFrame({"x": [1.0, 2.0], "y": [0, 1]}), "DataFrame"),
        (pl.DataFrame({"x": [1.0, 2.0], "y": [0, 1]}), "DataFrame"),
        (7, "int"),
        ([{"x": 1.0, "y": 0}], "dict"),
        ([({"x": 1.0}, 0, 1.0)], "tuple of 3"),
        (["xy"], "str"),
        ([({"x": 1.0}, 0)] * 1200 + [({"x": 1.0},)], "tuple of 1"),
    ],
)
def test_what_are_no_pairs(events, what):
    sentence = "give (X, y), a data frame and its targets, or pairs of an event (a dict) and its target, not "
    with pytest.raises(ValueError, match=f"^{re.escape(sentence + what)}$"):
        replay(events, {"it": kaczmarz()})


@pytest.mark.parametrize("model", [kaczmarz, line])
def test_labels_that_are_floats_are_scored_as_integers(model):
    events = [(x, int(y)) for x, y in EVENTS[:500]]
    whole = replay(events, {"it": model()}).metrics("it")
    assert replay([(x, float(y)) for x, y in events], {"it": model()}).metrics("it") == whole
