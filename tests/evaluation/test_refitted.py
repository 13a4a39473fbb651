"""Refitted models in a contest, against loops that fit and predict."""

import pickle
from datetime import date, timedelta

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from streamk.evaluation import DelayByChunks, DelayByTime, Refitted, replay
from streamk.evaluation.adapters import EventChunk
from streamk.evaluation.results import bytes_of

ROWS = 430


def stream(task, rows=ROWS):
    rng = np.random.default_rng(3)
    for k in range(rows):
        a, b = rng.normal(size=2).tolist()
        y = a * b + k / 100 if task == "regression" else "uvw"[int(a > 0) + int(b > 0.5)]
        yield {"a": a, "b": b}, y


def tree(task):
    cls = DecisionTreeRegressor if task == "regression" else DecisionTreeClassifier
    return cls(max_depth=4, random_state=0)


def fitted(task, xs, ys):
    """Return what a tree predicts that is fitted to these events."""
    names = list(dict.fromkeys(ys))
    codes = ys if task == "regression" else [names.index(y) for y in ys]
    model = tree(task).fit([[x["a"], x["b"]] for x in xs], codes)
    predicted = lambda x: model.predict([[x["a"], x["b"]]])[0]  # noqa: E731
    return predicted if task == "regression" else lambda x: names[int(predicted(x))]


def loop(task, known_at, fits):
    """Return what a model predicts that knows so many events at each, and is fitted to ``fits`` of them."""
    xs, ys = map(list, zip(*stream(task), strict=True))
    predicted, models = [], {}
    for k, x in enumerate(xs):
        count = max([n for n in fits if n <= known_at(k)], default=0)
        if count:
            models.setdefault(count, None)
            models[count] = models[count] or fitted(task, xs[:count], ys[:count])
            predicted.append(models[count](x))
        else:
            before = ys[: known_at(k)]
            most = max(dict.fromkeys(before), key=before.count, default=None)
            predicted.append(most if task != "regression" else float(np.mean(before)) if before else 0.0)
    return predicted, ys


def headline(results):
    values = results.metrics("refitted")
    return values["accuracy"] if "accuracy" in values else values["mae"]


def expected(task, predicted, ys, start=0):
    pairs = list(zip(predicted, ys, strict=True))[start:]
    return np.mean([p == y if task != "regression" else abs(p - y) for p, y in pairs])


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("delay", [0, 30])
def test_fits_by_events(task, delay):
    results = replay(
        stream(task), {"refitted": Refitted(tree(task), task, every=100)}, delay=delay, task=task
    )
    predicted, ys = loop(task, lambda k: max(k - delay, 0), range(100, ROWS, 100))
    assert headline(results) == pytest.approx(expected(task, predicted, ys), abs=1e-12)


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_fits_after_every_chunk(task):
    results = replay(
        stream(task), {"refitted": Refitted(tree(task), task)}, delay=DelayByChunks(ROWS), task=task
    )
    cuts = np.linspace(0, ROWS, 21).astype(int)
    predicted, ys = loop(task, lambda k: cuts[cuts <= k].max(), cuts[1:])
    assert headline(results) == pytest.approx(expected(task, predicted, ys, cuts[1]), abs=1e-12)


def test_fits_by_time():
    """The hours of the first event count; a label of a later period makes a fit due, with its event."""
    pairs = [({**x, "at": 60.0 * (k + 50)}, y) for k, (x, y) in enumerate(stream("regression"))]
    model = Refitted(tree("regression"), "regression", every=timedelta(hours=1))
    results = replay(pairs, {"refitted": model}, delay=DelayByTime("at", 0.0), task="regression")
    predicted, ys = loop("regression", lambda k: k, range(11, ROWS, 60))
    assert headline(results) == pytest.approx(expected("regression", predicted, ys), abs=1e-12)
    model = Refitted(tree("regression"), "regression", every=timedelta(hours=1))
    untimed = replay(stream("regression"), {"refitted": model}, task="regression")
    assert "fits are due by time, and the events have none" in untimed.error("refitted")


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_batches_and_single_events_agree(task):
    one, many = (Refitted(tree(task), task, every=70) for _ in range(2))
    xs, ys = map(list, zip(*stream(task, 300), strict=True))
    single = one.answer(xs, ys)
    together = many.answer_many(EventChunk(xs), ys)
    for k in range(300):
        if task == "regression":
            assert together[k] == single[k]
        else:
            row = dict(zip(together.labels, together.rows[k], strict=True))
            assert {label: p for label, p in row.items() if p} == {y: p for y, p in single[k].items() if p}


def test_a_copy_continues():
    pairs = list(stream("classification", 300))
    model = Refitted(tree("classification"), "classification", every=70)
    for x, y in pairs[:100]:
        model.predict(x)
        model.learn(x, y)
    copy = pickle.loads(pickle.dumps(model))
    for x, y in pairs[100:]:
        assert model.predict(x) == copy.predict(x)
        model.learn(x, y)
        copy.learn(x, y)
    assert bytes_of(model) > 2 * 8 * 300


@pytest.mark.parametrize("distinct", [3, 300])
def test_strings_are_categories(distinct):
    """Categories that come after a fit, and more than a histogram takes, are predicted, too."""
    model = Refitted(HistGradientBoostingRegressor(max_iter=20, random_state=0), "regression", every=600)
    rng = np.random.default_rng(1)
    for _ in range(600):
        k = int(rng.integers(distinct))
        x = {"c": f"c{k}", "on": bool(k % 2), "day": date(2024, 1, 1 + k % 28), "gone": None, "a": None}
        model.learn({**x, "a": float(k)} if k % 2 else x, float(k % 3))
    names = [name for name, _ in model._columns]
    assert names[0] == "c"
    assert {"on", "a", "day@weekday.sin"} <= set(names)
    assert "gone" not in names
    categories = [True] + [False] * (len(names) - 1)
    assert model.predict({"c": "new"}) == pytest.approx(1.0, abs=1.0)
    told = model.model.is_categorical_
    assert told is None if distinct == 300 else told.tolist() == categories
    if distinct == 3:
        assert [round(model.predict({"c": f"c{k}", "on": k % 2 > 0})) for k in range(3)] == [0, 1, 2]


def test_models_without_probabilities_and_those_that_fail():
    pairs = list(stream("classification"))
    contenders = {
        "refitted": Refitted(LinearSVC(random_state=0), "classification", 100),
        "fails": Refitted(LogisticRegression(), "classification", 100),
        "one": Refitted(HistGradientBoostingClassifier(), "classification", 100),
    }
    gaps = [({"a": x["a"]} if k == 150 else x, y) for k, (x, y) in enumerate(pairs)]
    results = replay(gaps[:150], contenders, task="classification")
    assert headline(results) > 0.5
    results = replay(gaps[:250], {"fails": contenders["fails"]}, task="classification")
    assert results.error("fails") == "after event 0: ValueError: Input X contains NaN."
    same = [(x, "u") for x, _ in pairs]
    results = replay(same, {"one": Refitted(HistGradientBoostingClassifier(), "classification", 100)})
    assert results.metrics("one")["accuracy"] == pytest.approx(1 - 1 / ROWS)
