"""Labels that come late, event by event: `ask_one` and `tell_one` of every learner."""

import datetime
import itertools

import numpy as np
import pytest

import streamk
from streamk.learners.loading import loads
from streamk.learners.stale import StaleExperts
from streamk.learners.waiting import Seen, Waiting
from tests.laws.subjects import LEARNERS, build, events, subjects

KERNEL = [
    (streamk.KernelClassifier, {}),
    (streamk.KernelClassifier, {"label_memory": False}),
    (streamk.KernelRegressor, {}),
]


def made(cls, extra, seed=5):
    return cls(features=768, seed=seed, **extra)


def with_late_labels(learner, pairs, delay, first=0):
    """Ask for the prediction of every event; its label comes so many events late."""
    answers = []
    for number, (x, _) in enumerate(pairs[first:], first):
        answers.append(learner.ask_one(number, x))
        if number - delay >= 0 and number - delay in learner.waiting:
            learner.tell_one(number - delay, pairs[number - delay][1])
    return answers


@pytest.mark.parametrize("name", subjects())
def test_labels_at_once(name):
    """The answers are those of `predict_one`, and the model is that of `learn_one`."""
    cls, extra = LEARNERS[name]
    one, other = build(cls, extra), build(cls, extra)
    for number, (x, y) in enumerate(events(70, classifies=cls.classifies)):
        assert one.ask_one(number, x) == other.predict_one(x)
        one.tell_one(number, y, 1.0 + number % 2)
        other.learn_one(x, y, 1.0 + number % 2)
        assert not one.waiting
    assert one.to_bytes() == other.to_bytes()


@pytest.mark.parametrize("cls", [streamk.KernelClassifier, streamk.KernelRegressor])
@pytest.mark.parametrize("delay", [0, 1, 300])
def test_events_wait_on_while_inputs_of_heavy_tails_are_learned_again(cls, delay):
    """After 256 and 1,000 events a learner may start again; those that wait are still there."""
    rng, learner = np.random.default_rng(0), made(cls, {})
    values = np.exp(3.0 * rng.normal(size=(1400, 2)))
    xs = [{"a": a, "b": b} for a, b in values.tolist()]
    ys = (values[:, 0] > values[:, 1]).tolist()
    targets = ys if cls.classifies else np.log(values[:, 0]).tolist()
    for number, x in enumerate(xs):
        learner.ask_one(number, x)
        if number >= delay:
            learner.tell_one(number - delay, targets[number - delay])
        assert len(learner.waiting) == min(number + 1, delay)
    assert learner.summary()["transformed"] == ["a", "b"]
    assert list(learner.waiting) == list(range(1400 - delay, 1400))
    loaded = loads(learner.to_bytes())
    for number in list(learner.waiting) or (1400, 1401):
        for each in (learner, loaded):
            if not delay:
                each.ask_one(number, xs[number - 1400])
            each.tell_one(number, targets[number % 1400])
    assert loaded.to_bytes() == learner.to_bytes()


@pytest.mark.parametrize("name", subjects())
def test_saved_while_events_wait(name):
    cls, extra = LEARNERS[name]
    pairs = events(90, classifies=cls.classifies)
    whole = build(cls, extra)
    with_late_labels(whole, pairs[:50], 20)
    resumed = loads(whole.to_bytes())
    assert list(resumed.waiting) == list(whole.waiting) == list(range(30, 50))
    assert resumed.to_bytes() == whole.to_bytes()
    for learner in whole, resumed:
        with_late_labels(learner, pairs, 20, 50)
    assert resumed.to_bytes() == whole.to_bytes()


@pytest.mark.parametrize("name", subjects())
def test_what_cannot_be_taken_changes_nothing(name):
    cls, extra = LEARNERS[name]
    pairs = events(60, classifies=cls.classifies)
    learner = build(cls, extra)
    with_late_labels(learner, pairs, 10)
    before = learner.to_bytes()
    bad = 1.5 if cls.classifies else "high"
    x, y = pairs[0]
    for call, error in (
        (lambda: learner.ask_one(59, x), "waits for its label already"),
        (lambda: learner.ask_one(2.5, x), "must be a string or a whole number"),
        (lambda: learner.ask_one("new", {"a": float("inf")}), "'a'"),
        (lambda: learner.ask_one("new", [1.0]), "event"),
        (lambda: learner.tell_one(59, bad), "label|target"),
        (lambda: learner.tell_one(59, y, -1.0), "weight"),
        (lambda: learner.tell_many([59, 58], [y, bad]), "row 1"),
        (lambda: learner.tell_many([59, 59], [y, y]), "two labels"),
        (lambda: learner.tell_many([59, 58], [y]), "must be the same"),
    ):
        with pytest.raises(ValueError, match=error):
            call()
        assert learner.to_bytes() == before
    for key in 0, "never", [3]:  # its label has come; it never was; no key at all
        with pytest.raises(KeyError, match="no event of key"):
            learner.tell_one(key, y)
        with pytest.raises(KeyError, match="no event of key"):
            learner.tell_many([59, key], [y, y])
        assert learner.to_bytes() == before
    learner.tell_one(59, None)
    learner.tell_one(58, y, 0.0)
    assert list(learner.waiting) == list(range(50, 58))


@pytest.mark.parametrize(("cls", "extra"), KERNEL)
def test_labels_that_come_together_in_any_order(cls, extra):
    pairs, rng = events(200, classifies=cls.classifies), np.random.default_rng(3)
    one, other = made(cls, extra), made(cls, extra)
    for start in range(0, 200, 20):
        keys = list(range(start, start + 20))
        for learner in one, other:
            for key in keys:
                learner.ask_one(key, pairs[key][0])
        one.tell_many(keys, [pairs[key][1] for key in keys])
        rng.shuffle(keys)
        other.tell_many(keys, [pairs[key][1] for key in keys])
    assert one.to_bytes() == other.to_bytes()


class Reference:
    """A learner that keeps a copy of itself for every event that waits."""

    def __init__(self, learner):
        self.learner, self.copies, self.keys = learner, {}, []

    def ask(self, key, x):
        answer = self.learner.ask_one(key, dict(x))
        self.copies[key] = loads(self.learner.to_bytes())
        return answer

    def tell(self, key, y):
        copy, held = self.copies.pop(key), self.learner._waiting.held[key]
        if held.seen is not None:
            memory = copy._codec.memory
            outputs = copy._outputs_for(held.x)
            live = [array for _, array in copy._combiner.live]
            labels = memory[0].copy() if len(memory) else np.zeros(0)
            seen = Seen(labels, outputs, held.seen.answers, live)
            self.learner._waiting.held[key] = held._replace(seen=seen)
        self.learner.tell_one(key, y)


def follow_schedule(cls, extra, seed):
    rng = np.random.default_rng(seed)
    pairs = events(12, seed=seed, classifies=cls.classifies)
    learner, reference = made(cls, extra, seed), Reference(made(cls, extra, seed))
    answers, late, waits = [], int(rng.integers(1, 8)), []
    for key, (x, _) in enumerate(pairs):
        given = dict(x)
        answers.append((learner.ask_one(key, given), reference.ask(key, x)))
        given.clear()  # the event that waits is another one
        waits.append(key)
        while waits and rng.random() < len(waits) / (2.0 * late):
            one = waits.pop(int(rng.integers(len(waits))))
            y = pairs[one][1] if rng.random() < 0.8 else None
            learner.tell_one(one, y)
            if y is None:
                reference.learner.tell_one(one, None)
                del reference.copies[one]
            else:
                reference.tell(one, y)
        if rng.random() < 0.1:
            learner = loads(learner.to_bytes())
    assert all(one == other for one, other in answers)
    assert learner.to_bytes() == reference.learner.to_bytes()


@pytest.mark.parametrize("count", [60, pytest.param(10_000, marks=pytest.mark.long)])
def test_schedules(count):
    """Labels in any order, after any time, or never, are learned as copies of the learner say."""
    for seed, (cls, extra) in zip(range(count), itertools.cycle(KERNEL), strict=False):
        follow_schedule(cls, extra, seed)


@pytest.mark.parametrize(("cls", "extra"), KERNEL)
def test_chunks(cls, extra):
    """Once labels come in chunks, asking and telling one by one is `predict_many` and `learn_many`."""
    pairs = events(800, classifies=cls.classifies)
    X, y = [x for x, _ in pairs], [y for _, y in pairs]
    one, other = made(cls, extra), made(cls, extra)
    for start in range(0, 800, 100):
        part = slice(start, start + 100)
        many = list(other.predict_many(X[part]))
        other.learn_many(X[part], y[part])
        if start < 400:
            one.predict_many(X[part])
            one.learn_many(X[part], y[part])
        else:
            assert [one.ask_one(key, X[key]) for key in range(start, start + 100)] == many
            one.tell_many(list(range(start, start + 100)), y[part])
    assert one.to_bytes() == other.to_bytes()


def test_the_oldest_waits_no_longer_where_there_are_too_many(monkeypatch):
    monkeypatch.setattr("streamk.learners.waiting._MOST", 300)
    pairs = events(320)
    learner = streamk.KernelClassifier(features=768, seed=1)
    for key, (x, _) in enumerate(pairs):
        learner.ask_one(key, x)
    assert list(learner.waiting) == list(range(20, 320))
    with pytest.raises(KeyError, match="300 events and more came after it"):
        learner.tell_one(19, "class 0")


@pytest.mark.parametrize("name", subjects())
def test_events_set_aside_are_learned_as_if_they_had_waited(name):
    """In any order, through a model file, and next to events that wait in memory."""
    cls, extra = LEARNERS[name]
    pairs, rng = events(120, classifies=cls.classifies), np.random.default_rng(4)
    whole, other, aside = build(cls, extra), build(cls, extra), {}
    order = rng.permutation(120).tolist()
    for number, (x, _) in enumerate(pairs):
        assert whole.ask_one(number, x) == other.ask_one(number, x)
        if len(other.waiting) > 10:
            oldest = next(iter(other.waiting))
            aside[oldest] = other.set_aside(oldest)
        if number % 2:
            key = next(k for k in order if k <= number)
            order.remove(key)
            if key in aside:
                other.take_back(key, aside.pop(key))
            for learner in whole, other:
                learner.tell_one(key, pairs[key][1])
        if number % 25 == 24:
            other = loads(other.to_bytes())
    assert set(aside) | set(other.waiting) == set(whole.waiting)
    while aside:
        other.take_back(*aside.popitem())
    assert other.to_bytes() == whole.to_bytes()
    assert loads(other.to_bytes()).to_bytes() == whole.to_bytes()


@pytest.mark.parametrize(("cls", "extra"), KERNEL)
def test_predictions_without_a_label_between_them_are_of_their_events(cls, extra):
    """Where labels come late and in any order, several events are predicted before the next label."""
    pairs, rng = events(420, classifies=cls.classifies), np.random.default_rng(2)
    learner, due = made(cls, extra), []
    for number, (x, y) in enumerate(pairs):
        for key, target in [each[1:] for each in due if each[0] <= number]:
            learner.tell_one(key, target)
        due = [each for each in due if each[0] > number]
        if number > 350:
            alone = loads(learner.to_bytes())
            assert learner.ask_one(number, x) == alone.ask_one(number, x)
            seen, other = learner._waiting.of(number).seen, alone._waiting.of(number).seen
            assert np.array_equal(seen.outputs, other.outputs)
            assert np.array_equal(seen.answers, other.answers)
        else:
            learner.ask_one(number, x)
        due.append((number + int(rng.integers(80, 160)), number, y))
    assert learner._answers_by_both


def test_what_is_taken_back_is_checked():
    pairs = events(20)
    one, other = streamk.KernelClassifier(seed=1), streamk.KaczmarzClassifier(seed=1)
    for number, (x, y) in enumerate(pairs):
        one.learn_one(x, y)
        one.ask_one(number, x)
    stored = one.set_aside(3)
    with pytest.raises(KeyError, match="no event of key 3"):
        one.tell_one(3, pairs[3][1])
    with pytest.raises(ValueError, match="waits for its label already"):
        one.take_back(4, stored)
    with pytest.raises(ValueError, match="was cut short"):
        one.take_back(3, stored[:-9])
    with pytest.raises(ValueError, match="by another learner"):
        other.take_back(3, stored)
    one.take_back(3, stored)
    one.tell_one(3, pairs[3][1])
    assert one.events == 21


def test_experts_that_restart_had_no_outputs_for_events_set_aside():
    learner = streamk.KernelClassifier(seed=1)
    for number, (x, y) in enumerate(events(40)):
        learner.learn_one(x, y)
        learner.ask_one(number, x)
    stored = learner.set_aside(39)
    learner._waiting.exchange([1, 3], learner.events)
    learner = loads(learner.to_bytes())
    learner.take_back(39, stored)
    outputs = learner._waiting.of(39).seen.outputs
    assert [k for k, row in enumerate(outputs) if not row.any()] == [1, 3]


def test_values_of_any_type_wait_in_a_model_file():
    rows = [
        {"a": np.float32(1.5), "when": datetime.datetime(2026, 3, 4, 5, 6), "on": np.bool_(True)},
        {"a": float("nan"), "when": datetime.date(2026, 3, 5), "on": False, 7: "seven"},
        {"a": None, "when": np.datetime64("2026-03-06"), "on": True, 7: np.str_("eight")},
        {"a": 2**60, "on": None},
    ] * 4
    one = streamk.KernelRegressor(features=768, seed=2)
    for key, x in enumerate(rows):
        one.ask_one(f"row {key}", x)
        if key == 9:
            one.tell_one("row 0", 3.0)
    other = loads(one.to_bytes())
    for learner in one, other:
        for key in range(1, len(rows)):
            learner.tell_one(f"row {key}", float(key))
    assert one.to_bytes() == other.to_bytes()


@pytest.mark.parametrize("change", ["number", "events", "key", "text", "value"])
def test_impossible_events_that_wait_are_not_loaded(change):
    learner = streamk.KernelClassifier(features=768, seed=1)
    with_late_labels(learner, events(40), 10)
    header, arrays = learner._to_parts()
    text = arrays["waiting.events"].tobytes().decode()
    changed = {
        "number": text.replace("[31,9,", "[31,10,"),
        "events": text.replace(",29,true]", ",31,true]"),
        "key": text.replace("[31,9,", "[30,9,"),
        "text": text[:-1],
        "value": text.replace('"a":', '"a":1e999,"z":', 1),
    }[change]
    assert changed != text
    arrays["waiting.events"] = np.frombuffer(changed.encode(), dtype=np.uint8)
    with pytest.raises(ValueError, match="wait for labels are impossible"):
        type(learner)._from_parts(header, arrays)


def test_labels_that_follow_in_turn():
    """The label is that of ten events before; labels come 99 events late."""
    rng = np.random.default_rng(0)
    turn = rng.permutation(10)
    pairs = [({"noise": float(rng.normal())}, f"class {turn[k % 10]}") for k in range(4000)]
    learner = streamk.KernelClassifier(features=768, seed=1)
    answers = with_late_labels(learner, pairs, 99)
    right = [answer == y for answer, (_, y) in zip(answers, pairs, strict=True)]
    assert np.mean(right[2000:]) > 0.95


def test_how_late_labels_usually_are():
    waiting, learner = Waiting(), streamk.KernelRegressor(features=768, seed=1)
    assert len(waiting) == 0
    pairs = events(600, classifies=False)
    with_late_labels(learner, pairs[:400], 100)
    assert learner._rehearsal.usual == 100
    learner.tell_many(list(learner.waiting), [pairs[key][1] for key in learner.waiting])
    for number, (x, y) in enumerate(pairs[400:], 400):
        learner.ask_one(number, x)
        learner.tell_one(number, y)
    assert learner._rehearsal.usual == 0
    assert learner._combiner.pace == 1.0


@pytest.mark.parametrize(("cls", "extra"), KERNEL)
def test_an_event_that_comes_again_is_predicted_again(cls, extra):
    """Its values are the same objects as those of the event that was learned since."""
    pairs = events(400, classifies=cls.classifies)
    learner = made(cls, extra)
    with_late_labels(learner, pairs, 90)
    x, y = pairs[-1]
    for key in range(1000, 1005):  # after eight, labels are prompt
        answer = learner.ask_one(key, x)
        assert answer == learner.predict_one(x) == loads(learner.to_bytes()).predict_one(x)
        learner.tell_one(key, y)
    assert learner._answers_by_both


@pytest.mark.parametrize("part", ["memory", "outputs", "weights"])
@pytest.mark.parametrize("cls", [streamk.KernelClassifier, streamk.KernelRegressor])
def test_what_was_seen_is_what_is_learned_from(cls, part):
    pairs = events(120, classifies=cls.classifies)
    one, other = made(cls, {}), made(cls, {})
    for learner in one, other:
        with_late_labels(learner, pairs, 5)
    held = other._waiting.held[117]
    value = getattr(held.seen, part)
    changed = [array + 0.25 for array in value] if part == "weights" else value + 0.25
    other._waiting.held[117] = held._replace(seen=held.seen._replace(**{part: changed}))
    for learner in one, other:
        learner.tell_one(117, pairs[117][1])
        for key in list(learner.waiting):
            learner.tell_one(key, None)
    assert one.to_bytes() != other.to_bytes()


def test_outputs_of_a_block_that_restarts_are_those_of_other_events():
    waiting, rng = Waiting(), np.random.default_rng(0)
    outputs = [rng.normal(size=(3, 2 if number < 2 else 3)).astype(np.float32) for number in range(5)]
    for number, one in enumerate(outputs):
        seen = Seen(np.zeros(0), one.copy(), np.zeros((2, one.shape[1])), [])
        waiting.hold(number, {}, 0, seen if number != 4 else None)
    waiting.exchange([2], 0)
    for number, other in enumerate([2, 3, 0, 1]):
        after, before = waiting.held[number].seen.outputs, outputs[number]
        assert (after[:2] == before[:2]).all()
        assert (after[2, :2] == outputs[other][2, :2]).all()
    assert waiting.held[2].seen.outputs[2, 2] == 0.0


def test_the_part_of_both_combiners_is_that_of_least_squares():
    stale, rng = StaleExperts(2, False, [False, False]), np.random.default_rng(1)
    assert stale.part == 0.5
    both = rng.normal(size=(4000, 2))
    targets = both @ [0.7, 0.3] + 0.1 * rng.normal(size=4000)
    for answers, target in zip(both, targets, strict=True):
        stale.label_of(answers[:, None], np.array([target]))
    assert stale.part == pytest.approx(0.3, abs=0.02)
    for answers, _ in zip(both, targets, strict=True):
        stale.label_of(answers[:, None], answers[:1] - 5.0 * (answers[1] - answers[0]))
    assert stale.part == 0.0


def test_categories_are_learned_where_labels_come_late():
    """The label is that of the shop, which the sample of earlier events must have, too."""
    rng = np.random.default_rng(0)
    shops = [f"shop {k}" for k in rng.integers(12, size=3000)]
    pairs = [({"shop": shop, "noise": float(rng.normal())}, f"class {int(shop[5:]) % 3}") for shop in shops]
    learner = streamk.KernelClassifier(features=768, seed=1, label_memory=False)
    answers = with_late_labels(learner, pairs, 200)
    right = [answer == y for answer, (_, y) in zip(answers, pairs, strict=True)]
    assert learner._rehearsal.rehearses
    assert np.mean(right[1000:]) > 0.98
