"""LabelDelay labels in a contest, against loops that do one thing at a time."""

import itertools

import numpy as np
import pytest

import streamk
from connectors.replay.contenders import LinearClasses, LinearNumbers
from streamk.evaluation import Contest, LearnerAdapter, ModelAdapter, Table, replay
from streamk.evaluation.contest import RefusedError
from streamk.evaluation.label_delay import delay_of
from tests.references import late_loop

DELAYS = [0, 1, 100, 1000]  # the last is longer than the stream


def stream(task, events=260):
    rng = np.random.default_rng(4)
    pairs = []
    for i in range(events):
        a, b = rng.normal(size=2).tolist()
        label = "uvw"[(i // 20 + (a > 0)) % 3] if task == "classification" else a * b + i / 100
        pairs.append(({"a": a, "b": b, "kind": "pq"[i % 2]}, label))
    return pairs


class Linear(ModelAdapter):
    """A model that is no learner of streamk."""

    def __init__(self, task):
        self.model = LinearClasses() if task == "classification" else LinearNumbers()

    def predict(self, x):
        return self.model.predict(x)

    def learn(self, x, y):
        self.model.learn(x, y)


def learners(task):
    kernel, kaczmarz = {
        "classification": (streamk.KernelClassifier, streamk.KaczmarzClassifier),
        "regression": (streamk.KernelRegressor, streamk.KaczmarzRegressor),
    }[task]
    yield lambda: LearnerAdapter(kernel(features=768, seed=3), task)
    yield lambda: LearnerAdapter(kaczmarz(features=32, seed=3), task)
    yield lambda: LearnerAdapter(kaczmarz(features=32, seed=3, block_size=8), task)
    yield lambda: Linear(task)


def answers_of(subjects, task, pairs, delay, chunk=37):
    """Return the predictions of every subject, in the order of the events."""
    contest = Contest({str(k): subject for k, subject in enumerate(subjects)}, task)
    given = [[] for _ in subjects]

    def listen(scored):
        for k, mine in enumerate(given):
            found = scored.answers[str(k)]
            mine += found.tolist() if not isinstance(found, Table) else [
                dict(zip(found.labels, row, strict=True)) for row in found.rows.tolist()
            ]  # fmt: skip

    contest.listener, late = listen, delay_of(delay)
    for start in range(0, len(pairs), chunk):
        part = pairs[start : start + chunk]
        if late is None:
            contest.take([x for x, _ in part], [y for _, y in part])
        else:
            for x, y in part:
                late.event(contest, x, y)
    if late is not None:
        late.end(contest)
    contest.score()
    assert not any(standing.error for standing in contest.standings.values())
    return given


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("delay", DELAYS)
def test_late_labels_are_a_plain_loop(task, delay):
    pairs = stream(task)
    references = [make() for make in learners(task)]
    given = answers_of([make() for make in learners(task)], task, pairs, delay)
    for mine, reference in zip(given, references, strict=True):
        asks, tells = itertools.count(), itertools.count()
        predict, learn = (
            (lambda x, r=reference, n=asks: r.ask(next(n), x)),
            (lambda x, y, r=reference, n=tells: r.tell(next(n), x, y)),
        )
        expected = late_loop(predict, learn, pairs, delay)
        mine, expected = (np.array(list(map(numbers, found))) for found in (mine, expected))
        np.testing.assert_allclose(mine, expected, rtol=0, atol=1e-5 if has_blocks(reference) else 0)


def has_blocks(subject):
    """Return whether it learns blocks of events, which agree with a loop to rounding."""
    return isinstance(subject, LearnerAdapter) and getattr(subject.learner, "block_size", 1) > 1


def numbers(prediction):
    """One row an event, of one number or of one a class."""
    if isinstance(prediction, float):
        return [prediction]
    return [prediction.get(label, 0.0) for label in "uvw"]


@pytest.mark.parametrize("delay", [1, 100, 1000])
def test_every_event_is_learned_by_the_end(delay):
    learner = streamk.KaczmarzClassifier(features=32, seed=3)
    whole = streamk.KaczmarzClassifier(features=32, seed=3)
    pairs = stream("classification")
    replay(pairs, {"kernel": learner}, delay=delay)
    for x, y in pairs:
        whole.learn_one(x, y)
    assert learner.to_bytes() == whole.to_bytes()


@pytest.mark.parametrize("delay", [-1, 1.0, True, "3", None, 2**24])
def test_a_delay_is_a_number_of_events(delay):
    learner = streamk.KaczmarzClassifier(features=32, seed=3)
    with pytest.raises(ValueError, match=r"delay is .*; it must be a whole number from 0 to 16777215"):
        replay(stream("classification"), {"kernel": learner}, delay=delay)


@pytest.mark.parametrize("chunk", [1, 3, 1000])
@pytest.mark.parametrize("delay", [0, 1, 4, 50])
@pytest.mark.parametrize("bad", [{"event": {"a": []}}, {"label": ["w"]}])
def test_a_refused_event_or_label_leaves_the_model_of_the_events_before_it(chunk, delay, bad):
    pairs = stream("classification", 20)
    pairs[7] = (bad.get("event", pairs[7][0]), bad.get("label", pairs[7][1]))
    learner, whole = (streamk.KaczmarzClassifier(features=32, seed=3) for _ in range(2))
    with pytest.raises(RefusedError):
        answers_of([LearnerAdapter(learner, "classification")], "classification", pairs, delay, chunk)
    learned = 7 if not delay or "label" in bad else max(0, 7 - delay)
    for x, y in pairs[:learned]:
        whole.learn_one(x, y)
    for key in list(learner.waiting):
        learner.tell_one(key, None)
    assert learner.to_bytes() == whole.to_bytes()


class Failing(Linear):
    """A model that fails at one call of a method."""

    def __init__(self, task, method, at):
        super().__init__(task)
        self._method, self._left = method, at

    def _count(self, method):
        self._left -= method == self._method
        if self._left < 0:
            raise RuntimeError(f"cannot {method}")

    def predict(self, x):
        self._count("predict")
        return super().predict(x)

    def learn(self, x, y):
        self._count("learn")
        super().learn(x, y)


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("order", [1, -1])  # of the labels
@pytest.mark.parametrize(("method", "events"), [("predict", 130), ("learn", 140)])
def test_predictions_made_before_a_failure_are_scored(task, order, method, events):
    pairs = stream(task)
    contest = Contest({"whole": Linear(task), "fails": Failing(task, method, 130)}, task, interval=50)
    given = []
    contest.listener = given.append
    for start in range(0, len(pairs), 20):  # labels come up to 20 events late
        part = list(enumerate(pairs))[start : start + 20]
        for key, (x, _) in part:
            contest.ask(key, x)
        for key, (_, y) in part[::order]:
            contest.tell(key, y)
    contest.score()
    whole, fails = (contest.standings[name] for name in ("whole", "fails"))
    assert fails.error.startswith("after event 120: " if method == "predict" else "after event 130: ")
    assert (whole.events, fails.events) == (260, events)
    before = [each for each in given if "fails" in each.answers]
    assert sorted(key for each in before for key in each.keys) == list(range(events))
    for each in before:
        one, other = (getattr(each.answers[name], "rows", each.answers[name]) for name in ("whole", "fails"))
        assert (one == other).all()
    assert [each.first for each in given] == np.cumsum([1, *(len(each.keys) for each in given)])[:-1].tolist()


def test_a_contender_that_is_dropped_is_scored_no_further():
    pairs = stream("classification")
    contest = Contest({"one": Linear("classification"), "two": Linear("classification")}, "classification")
    for key, (x, _) in enumerate(pairs):
        contest.ask(key, x)
        if key >= 10:
            contest.tell(key - 10, pairs[key - 10][1])
        if key == 100:
            contest.score()
            contest.drop("two", "worse")
    contest.score()
    assert [standing.events for standing in contest.standings.values()] == [250, 91]
