"""Labels that come late, in chunks: seen without any setting, and earlier events rehearsed."""

import itertools

import numpy as np
import pandas as pd
import pytest

import streamk
from streamk.learners.loading import loads
from streamk.learners.rehearsal import LATE, Rehearsal

CHUNK = 300


def numbers(count=1800, seed=0):
    """Return a stream whose target depends on two inputs; a third is the time, a fourth a serial number."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(count, 2)), columns=["a", "b"])
    X["time"] = np.arange(count) / 10.0
    X["shop"] = [f"s{k}" for k in rng.integers(5, size=count)]
    y = 10.0 * np.sin(X.a) + 5.0 * X.b + rng.normal(size=count)
    return X, y


def classes(count=1800, seed=0):
    X, y = numbers(count, seed)
    return X, (y > 0.0).astype(int)


def chunks(X, size=CHUNK):
    return list(itertools.pairwise(range(0, len(X) + 1, size)))


def learned_in_chunks(learner, X, y, size=CHUNK):
    """Predict each chunk, and then learn it; return the predictions of all chunks but the first."""
    predicted = []
    for start, stop in chunks(X, size):
        if start:
            predicted += list(learner.predict_many(X[start:stop]))
        learner.learn_many(X[start:stop], y[start:stop])
    return np.array(predicted)


def r2(y, predicted):
    return 1.0 - ((y - predicted) ** 2).sum() / ((y - y.mean()) ** 2).sum()


@pytest.mark.parametrize("size", [100, CHUNK])
@pytest.mark.parametrize(
    ("made", "log"), [(streamk.KernelRegressor, numbers), (streamk.KernelClassifier, classes)]
)
def test_events_one_by_one_or_many(made, log, size):
    X, y = log()
    many, single = made(seed=3), made(seed=3)
    learned_in_chunks(many, X, y, size)
    for start, stop in chunks(X, size):
        if start:
            single.predict_many(X[start:stop])
        for x, target in zip(X[start:stop].to_dict("records"), y[start:stop], strict=True):
            single.learn_one(x, target)
    assert many._rehearsal.lateness == size
    assert many.to_bytes() == single.to_bytes()


@pytest.mark.parametrize(
    ("made", "log"), [(streamk.KernelRegressor, numbers), (streamk.KernelClassifier, classes)]
)
def test_saved_between_labels_of_a_chunk(made, log):
    X, y = log()
    whole, resumed = made(seed=3), made(seed=3)
    for learner in whole, resumed:
        learned_in_chunks(learner, X[:1200], y[:1200])
        learner.predict_many(X[1200:1500])
        learner.learn_many(X[1200:1350], y[1200:1350])
    resumed = loads(resumed.to_bytes())
    for learner in whole, resumed:
        learner.learn_many(X[1350:1500], y[1350:1500])
        learner.predict_many(X[1500:])
        learner.learn_many(X[1500:], y[1500:])
    assert whole.to_bytes() == resumed.to_bytes()
    assert (np.array(whole.predict_many(X[:40])) == np.array(resumed.predict_many(X[:40]))).all()


def test_one_look_at_a_test_set_changes_nothing_that_is_learned():
    X, y = numbers()
    quiet, asked = streamk.KernelRegressor(seed=3), streamk.KernelRegressor(seed=3)
    for learner in quiet, asked:
        learner.learn_many(X[:900], y[:900])
    before = asked.to_bytes()
    asked.predict_many(X)
    asked.predict_one(X.to_dict("records")[0])
    assert asked.to_bytes() == before
    for learner in quiet, asked:
        learner.learn_many(X[900:], y[900:])
    learned = quiet._to_parts()[1]
    sampled = {name: array for name, array in asked._to_parts()[1].items() if name not in learned}
    assert all(name.startswith(("rehearsal.", "reservoir")) for name in sampled)
    assert all((asked._to_parts()[1][name] == array).all() for name, array in learned.items())


@pytest.mark.parametrize(
    ("made", "log"), [(streamk.KernelRegressor, numbers), (streamk.KernelClassifier, classes)]
)
def test_prompt_labels_end_it(made, log):
    X, y = log()
    one, many = made(seed=3), made(seed=3)
    for learner in one, many:
        learned_in_chunks(learner, X[:1200], y[:1200])
        assert learner._rehearsal.lateness
    seen = many._rehearsal.reservoir.seen
    expected = []
    for x, target in zip(X[1200:].to_dict("records"), y[1200:], strict=True):
        expected.append(one.predict_one(x))
        one.learn_one(x, target)
    assert list(many.predict_learn_many(X[1200:1201], y[1200:1201])) == expected[:1]
    assert list(many.predict_learn_many(X[1201:], y[1201:])) == expected[1:]
    assert (many._rehearsal.lateness, many._rehearsal.reservoir.seen) == (0, seen)
    assert one.to_bytes() == many.to_bytes()


def test_heavy_tails_that_are_noticed_between():
    """After 256 and 1,000 events everything is learned again, with other transforms; the sample stays."""
    X, y = numbers()
    X["a"], y = np.exp(3.0 * X["a"]), y + np.random.default_rng(7).standard_t(1.2, size=len(y))
    one, many = (streamk.KernelRegressor(seed=3) for _ in range(2))
    learned_in_chunks(many, X, y)
    for start, stop in chunks(X):
        if start:
            one.predict_many(X[start:stop])
        for x, target in zip(X[start:stop].to_dict("records"), y[start:stop], strict=True):
            one.learn_one(x, target)
    assert many.summary()["transformed"] == ["a"]
    assert many._rehearsal in many._codec.inputs.samples
    assert one.to_bytes() == many.to_bytes()


def test_predictions_repeat_and_do_not_depend_on_their_number():
    X, y = numbers()
    learner = streamk.KernelRegressor(seed=3)
    learned_in_chunks(learner, X, y)
    once, events = np.array(learner.predict_many(X[:64])), X[:64].to_dict("records")
    assert (once == np.array(learner.predict_many(X[:64]))).all()
    assert (once == [learner.predict_one(x) for x in events]).all()
    ends = learner.predict_interval_many(X[:64])
    single = [learner.predict_interval_one(x) for x in events]
    assert ends["lower"].tolist() == [interval.lower for interval in single]


def test_a_clock_does_not_carry_predictions_away():
    """The target falls within every chunk, and starts again: what follows the clock is wrong for the next.

    A learner that follows it has an R² of −1.5, boosted trees −1.1.
    """
    X, y = numbers(6000)
    y = y - 40.0 * (np.arange(6000) % CHUNK) / CHUNK
    learner = streamk.KernelRegressor(seed=3)
    predicted = learned_in_chunks(learner, X, y)
    assert learner._rehearsal.lateness == CHUNK
    late = slice(3 * CHUNK, None)
    assert learner.summary()["time_like"] == ["time"]
    ideal = 10.0 * np.sin(X.a) + 5.0 * X.b - 20.0
    assert r2(y[CHUNK:][late], predicted[late]) > 0.25 * r2(y[CHUNK:][late], ideal[CHUNK:][late])


def test_a_category_that_never_comes_again_holds_no_level():
    """Every chunk has its own day, whose level says nothing about the next day's."""
    X, y = numbers(6000)
    X["day"] = [f"d{k // CHUNK}" for k in range(6000)]
    with_day, without = (streamk.KernelRegressor(seed=3, label_memory=False) for _ in range(2))
    one = learned_in_chunks(with_day, X, y)
    other = learned_in_chunks(without, X.drop(columns="day"), y)
    late = slice(3 * CHUNK, None)
    assert r2(y[CHUNK:][late], one[late]) > r2(y[CHUNK:][late], other[late]) - 0.02


def test_sorted_by_class():
    """The order of classes is no reason to predict the last one."""
    rng = np.random.default_rng(1)
    y = np.repeat([0, 1, 2], 1200)
    X = pd.DataFrame(rng.normal(size=(3600, 3)) + 3.0 * np.eye(3)[y], columns=list("abc"))
    learner = streamk.KernelClassifier(seed=3)
    learned_in_chunks(learner, X, y)
    assert (np.array(learner.predict_many(X)) == y).mean() > 0.85


def test_sample_is_bounded_and_smaller_where_events_are_wide():
    rng = np.random.default_rng(1)
    wide = pd.DataFrame(rng.normal(size=(1200, 600)))
    learner = streamk.KernelRegressor(seed=3, relevance=False)
    learned_in_chunks(learner, wide.rename(columns=str), wide[0])
    assert len(learner._rehearsal.reservoir) == 873
    assert len(loads(learner.to_bytes())._rehearsal.reservoir) == 873


def test_closed_predicts_the_same():
    X, y = numbers()
    learner = streamk.KernelRegressor(seed=3)
    learned_in_chunks(learner, X, y)
    for model in learner.closed(), loads(learner.closed().to_bytes()):
        assert np.allclose(learner.predict_many(X), model.predict_many(X))
    frozen = learner.frozen()
    assert np.allclose(frozen.predict_many(X), learner.predict_many(X), atol=0.5)
    assert frozen.to_bytes() == loads(frozen.to_bytes()).to_bytes()
    assert not any(name.startswith("stale.") for name in frozen._to_parts()[1])
    assert frozen.predict_one(X.to_dict("records")[7]) == list(frozen.predict_many(X))[7]
    assert len(learner.closed().to_bytes()) < len(learner.to_bytes()) / 2


def test_batches_of_labels_that_follow_in_turn():
    """Labels of a hundred events ago say nothing, and those of the event before are missing."""
    rng = np.random.default_rng(0)
    y = np.arange(3000) % 10
    X = 1.3 * rng.normal(size=(10, 6))[y] + rng.normal(size=(3000, 6))
    rows = pd.DataFrame(X, columns=list("abcdef"))
    right = {}
    for memory in True, False:
        learner = streamk.KernelClassifier(seed=1, label_memory=memory)
        right[memory] = (learned_in_chunks(learner, rows, y, 100) == y[100:])[500:].mean()
    assert right[True] > right[False] - 0.04 > 0.6


def test_lateness_is_seen_at_two_labels():
    learner, rehearsal = streamk.KernelRegressor(), Rehearsal()
    for count, late in [
        (LATE, 0),
        (LATE, LATE),
        (0, LATE),
        (900, LATE),
        (900, 900),
        (1, 0),
        (900, 0),
        (900, 900),
    ]:
        assert rehearsal.lateness_after(count) == late
        rehearsal.label_comes(count, learner._values)
        assert rehearsal.lateness == late


def test_each_event_is_followed_by_one_before_it():
    """Drawn from all events before, and the same one by one or together."""
    learner = streamk.KernelRegressor(seed=3)
    learner.learn_one({"a": 1.0}, 1.0)
    rows = learner._codec.inputs
    events = [rows.encode({"a": float(k)}, False).copy() for k in range(60)]
    goals = [np.array([[float(k)], [1.0]]) for k in range(60)]
    single, together = Rehearsal(), Rehearsal()
    for one in single, together:
        one.begin(3, events[0], events[0].select(slice(0)), np.zeros((2, 0)))
    followed = [
        np.concatenate([goal for _, goal in single.follow(e, g, learner._values)], axis=1)
        for e, g in zip(events, goals, strict=True)
    ]
    values = np.concatenate([e.values for e in events])
    all_rows = events[0]._replace(values=values)
    [(_, both)] = together.follow(all_rows, np.concatenate(goals, axis=1), learner._values)
    assert (np.concatenate(followed, axis=1) == both).all()
    again = both[1] < 0.0
    assert again.sum() == 59
    assert (both[0, again] < both[0, np.flatnonzero(again) - 1]).all()
    assert len(set(both[0, again].tolist())) > 25


def test_intervals_hold_in_chunks():
    """Events that are learned again have small errors: these are not those of the next chunk."""
    rng, n = np.random.default_rng(3), 6000
    X = pd.DataFrame(rng.normal(size=(n, 8)), columns=list("abcdefgh"))
    noisy = (X.d > 0.0).to_numpy()
    y = np.sin(2.0 * X.a) + X.b * X.c + rng.normal(size=n) * np.where(noisy, 1.0, 0.1)
    learner, inside, widths = streamk.KernelRegressor(seed=1), [], []
    for start, stop in chunks(X, 500):
        if start:
            ends = learner.predict_interval_many(X[start:stop])
            inside.append(((ends.lower <= y[start:stop]) & (y[start:stop] <= ends.upper)).mean())
            width = (ends.upper - ends.lower).to_numpy()
            widths.append((width[noisy[start:stop]].mean(), width[~noisy[start:stop]].mean()))
        learner.learn_many(X[start:stop], y[start:stop])
    assert 0.92 <= np.mean(inside[-5:]) <= 0.98  # .95; .91 with the errors of those events
    noisy_ones, others = np.mean(widths[-5:], axis=0)
    assert noisy_ones > 1.9 * others
