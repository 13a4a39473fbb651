"""Test, then train, with labels in time and late, against loops that do one thing at a time."""

import numpy as np
import pytest

import streamk
from connectors.replay.baselines import LinearClasses, LinearNumbers
from streamk.encoding.rows import RowError
from streamk.prequential import LearnerSubject, Subject, test_then_train
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


class Linear(Subject):
    """A model that is no learner of streamk."""

    def __init__(self, task):
        self.model = LinearClasses() if task == "classification" else LinearNumbers()

    def predict(self, x):
        return self.model.predict(x)

    def learn(self, x, y):
        self.model.learn(x, y)


def learners(task, delay):
    kernel, kaczmarz = {
        "classification": (streamk.KernelClassifier, streamk.KaczmarzClassifier),
        "regression": (streamk.KernelRegressor, streamk.KaczmarzRegressor),
    }[task]
    yield lambda: LearnerSubject(kernel(features=768, seed=3, delay=delay), task)
    yield lambda: LearnerSubject(kaczmarz(features=32, seed=3), task)
    yield lambda: LearnerSubject(kaczmarz(features=32, seed=3, block_size=8), task)
    yield lambda: Linear(task)


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("delay", DELAYS)
def test_late_labels_are_a_plain_loop(task, delay):
    pairs = stream(task)
    subjects = [make() for make in learners(task, delay)]
    references = [make() for make in learners(task, delay)]
    given = [[] for _ in subjects]
    targets = []
    for answers in test_then_train(subjects, iter(pairs), chunk=37, delay=delay):
        targets += answers[0].targets
        for mine, answer in zip(given, answers, strict=True):
            assert answer.seconds >= 0.0
            mine += answer.predictions
    assert targets == [y for _, y in pairs]
    for i, (mine, reference) in enumerate(zip(given, references, strict=True)):
        expected = late_loop(reference.predict, reference.learn, pairs, delay)
        if delay == 0 and task == "classification":  # a pass also names the classes that are yet to come
            mine = [{k: p[k] for k in e} for p, e in zip(mine, expected, strict=True)]
        if i == 2:  # blocks agree to rounding
            mine, expected = np.array(list(map(numbers, mine))), np.array(list(map(numbers, expected)))
            np.testing.assert_allclose(mine, expected, atol=1e-5)
        else:
            assert mine == expected


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
    for _ in test_then_train([LearnerSubject(learner, "classification")], pairs, delay=delay):
        pass
    for x, y in pairs:
        whole.learn_one(x, y)
    assert learner.events == len(pairs)
    assert learner.to_bytes() == whole.to_bytes()


@pytest.mark.parametrize("delay", [-1, 1.0, True, "3", None, 2**24])
def test_what_no_delay_can_be(delay):
    with pytest.raises(ValueError, match=r"delay is .*; it must be a whole number from 0 to 16777215"):
        test_then_train([], [], delay=delay)


@pytest.mark.parametrize("chunk", [1, 3, 1000])
@pytest.mark.parametrize("delay", [0, 1, 4, 50])
@pytest.mark.parametrize("bad", [{"event": {"a": []}}, {"label": ["w"]}])
def test_a_refused_event_or_label(chunk, delay, bad):
    """Answers are given up to where the refusal shows; the model is of the events before it."""
    pairs = stream("classification", 20)
    pairs[7] = (bad.get("event", pairs[7][0]), bad.get("label", pairs[7][1]))
    learner = streamk.KaczmarzClassifier(features=32, seed=3)
    answered = 0
    with pytest.raises(RowError) as caught:  # noqa: PT012
        for answers in test_then_train([LearnerSubject(learner, "classification")], pairs, chunk, delay):
            answered += len(answers[0].targets)
    assert answered + caught.value.row == 7
    assert answered == (min(20, 8 + delay) if delay and "label" in bad else 7)
    assert learner.events == 7


def test_a_second_subject_that_fails():
    class Failing(Linear):
        def learn(self, x, y):
            raise ValueError("no")

    learner = LearnerSubject(streamk.KaczmarzClassifier(features=32, seed=3), "classification")
    subjects = [learner, Failing("classification")]
    with pytest.raises(ValueError, match="no") as caught:
        list(test_then_train(subjects, stream("classification"), delay=2))
    assert not isinstance(caught.value, RowError)
