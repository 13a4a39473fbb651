"""Learners whose labels come late: they learn from what they predicted at request time."""

import numpy as np
import pytest

import streamk
from streamk import model_file
from tests.references import late_loop


def stream(n, seed=0):
    """Two classes whose neighbours resemble each other."""
    rng = np.random.default_rng(seed)
    level = np.cumsum(rng.normal(size=n)) / 8
    x = rng.normal(size=(n, 3))
    y = (np.sin(level + 0.3 * x[:, 0]) + 0.2 * rng.normal(size=n)) > 0.0
    return [dict(zip("abc", row, strict=True)) for row in x.tolist()], y.tolist()


def with_late_labels(learner, ask, xs, ys, delay):
    """Return the predictions of all events, whose labels come so many events late."""
    answers = []
    for number, x in enumerate(xs):
        answers.append(ask(number, x))
        if number >= delay:
            learner.tell_one(number - delay, ys[number - delay])
    return answers


def test_a_learner_of_events_that_wait_is_not_overconfident():
    xs, ys = stream(3000)
    losses = {}
    for waits in (False, True):
        learner = streamk.KernelClassifier(features=768, seed=3)
        if waits:
            answers = with_late_labels(learner, learner.ask_proba_one, xs, ys, 60)
        else:
            answers = late_loop(
                learner.predict_proba_one, learner.learn_one, list(zip(xs, ys, strict=True)), 60
            )
        losses[waits] = np.mean(
            [-np.log(max(p.get(y, 0.0), 1e-9)) for p, y in zip(answers, ys, strict=True)][500:]
        )
    assert losses[True] < 0.75  # a coin has 0.69
    assert losses[True] < 0.8 * losses[False]


def test_intervals_cover_their_level_when_targets_come_late():
    rng = np.random.default_rng(1)
    n, delay = 3000, 50
    y = 0.5 * rng.normal(size=n)
    level = 0.0
    for t in range(n):
        level = 0.97 * level + 0.3 * rng.normal()
        y[t] += level
    xs = [{"a": a} for a in rng.normal(size=n).tolist()]
    learner = streamk.KernelRegressor(features=768, seed=3)

    def ask(number, x):
        interval = learner.predict_interval_one(x, 0.9)
        learner.ask_one(number, x)
        return interval

    intervals = with_late_labels(learner, ask, xs, y.tolist(), delay)
    inside = [target in interval for interval, target in zip(intervals, y, strict=True)][delay + 1 :]
    assert abs(np.mean(inside[500:]) - 0.9) < 0.04


@pytest.mark.parametrize("delay", [0, 3])
@pytest.mark.parametrize("memory", [True, False])
def test_a_model_saved_with_a_delay_is_read(memory, delay):
    """As earlier versions saved it: with a row and a queue of labels, and copies of parameters."""
    xs, ys = stream(90)
    learner = streamk.KernelClassifier(features=768, label_memory=memory, budget="small", seed=3)
    learner.learn_many(xs, ys)
    header, arrays = learner._to_parts()
    header = {**header, "parameters": {**header["parameters"], "delay": delay}}
    if delay:
        arrays |= {"asked0.values": np.ones((4, 1, 2, 7)), "asked1.values": np.ones((4, 3))}
        if memory:
            arrays["codec.memory"] = arrays["codec.memory"][[0, 0, 1]]
            arrays["codec.queue"] = np.array([*arrays["codec.queue"], 1.0, 0.0, 1.0])
    again = streamk.loads(model_file.pack(header, arrays, 10))
    assert again.to_bytes() == learner.to_bytes()
    assert again.predict_proba_one(xs[0]) == learner.predict_proba_one(xs[0])
