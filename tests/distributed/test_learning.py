"""A run of rounds: the same bytes whoever does the work, and whatever happens to them."""

import logging
import multiprocessing
import os
import random
import signal
import sys
from dataclasses import replace

import pytest

import streamk
from streamk.distributed import Chunk, Rows, WorkersDiedError, engines, learn
from tests.distributed.streams import (
    CLASSIFIER,
    REGRESSOR,
    Deadly,
    News,
    Odd,
    Untouchable,
    reference,
    shards_of,
)

SIZES = (300, 170, 0, 230, 100)


@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize("learner", [CLASSIFIER, REGRESSOR], ids=lambda learner: type(learner).__name__)
def test_it_is_a_plain_loop(learner, passes):
    shards = shards_of(SIZES, learner is CLASSIFIER)
    trained = learn(shards, learner, round=100, passes=passes, engine="here")
    assert trained.learner.to_bytes() == reference(shards, learner, 100, passes)
    assert trained.events == passes * sum(SIZES)
    assert learner.events == 0


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_workers_do_not_show(workers):
    shards = shards_of(SIZES)
    here = learn(shards, CLASSIFIER, round=60, engine="here")
    trained = learn(shards, CLASSIFIER, round=60, workers=workers)
    assert trained.learner.to_bytes() == here.learner.to_bytes()
    assert [entry.tally for entry in trained.curve] == [entry.tally for entry in here.curve]
    assert not multiprocessing.active_children()


def test_blas_threads_of_workers_do_not_show():
    shards = shards_of((300, 200), classes=False)
    trained = learn(shards, REGRESSOR, round=100, workers=2)
    assert trained.learner.to_bytes() == reference(shards, REGRESSOR, 100)


def test_killed_workers_do_not_show():
    shards, chance, killed = shards_of((200,) * 5), random.Random(5), []

    def kill(news):
        if len(killed) < 4 and chance.random() < 0.4 and (children := multiprocessing.active_children()):
            killed.append(chance.choice(children).pid)
            os.kill(killed[-1], signal.SIGKILL)

    trained = learn(shards, CLASSIFIER, round=40, workers=2, watch=kill)
    assert len(killed) == 4
    assert trained.learner.to_bytes() == reference(shards, CLASSIFIER, 40)


def test_it_gives_up_on_what_kills_every_worker(monkeypatch):
    monkeypatch.setattr(engines, "ATTEMPTS", 2)
    with pytest.raises(WorkersDiedError, match="shard deadly: workers died 2 times"):
        learn([Deadly(), *shards_of((10, 10))], CLASSIFIER, workers=1)
    assert not multiprocessing.active_children()


def test_ray():
    shards = shards_of(SIZES)
    trained = learn(shards, CLASSIFIER, round=100, engine="ray", workers=2)
    assert trained.learner.to_bytes() == reference(shards, CLASSIFIER, 100)
    with pytest.raises(ValueError, match="shard odd: too odd"):
        learn([*shards, Odd(ValueError("too odd"))], CLASSIFIER, engine="ray", workers=2)


@pytest.mark.long
def test_ray_in_use(monkeypatch):
    """A run that fails leaves the cluster as it was, and cancels nothing: Ray would abort us at times."""
    ray = pytest.importorskip("ray")
    shards = shards_of(SIZES)
    ray.init(address="local", num_cpus=2, log_to_driver=False, logging_level=logging.ERROR)
    try:
        monkeypatch.setattr(ray, "cancel", None)
        with pytest.raises(ValueError, match="shard odd: too odd"):
            learn([Odd(ValueError("too odd")), *shards], CLASSIFIER, engine="ray")
        trained = learn(shards, CLASSIFIER, round=100, engine="ray")
        assert ray.is_initialized()
    finally:
        ray.shutdown()
    assert trained.learner.to_bytes() == reference(shards, CLASSIFIER, 100)


def test_ray_is_not_there(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ValueError, match=r"pip install 'streamk\[ray\]'"):
        learn(shards_of((10,)), CLASSIFIER, engine="ray")


def test_the_curve_is_of_the_model_before_each_round():
    shards = shards_of((100, 50))
    news = News()
    curve = learn(shards, CLASSIFIER, round=50, engine="here", watch=news).curve
    assert [entry.tally.events for entry in curve] == [0, 100]
    before = CLASSIFIER.clone()
    before.learn_many(shards[0].rows[:50], shards[0].targets[:50])
    later = [*zip(shards[0].rows[50:], shards[0].targets[50:], strict=True)]
    later += zip(shards[1].rows, shards[1].targets, strict=True)
    right = sum(before.predict_one(x) == y for x, y in later)
    assert curve[1].tally.right == right
    assert news.rounds == curve
    assert [(n.shard, n.events, n.ended) for n in news.told if n not in curve] == [
        (0, 50, False), (0, 100, True), (1, 50, True),
    ]  # fmt: skip
    assert not any(
        e.tally.events for e in learn(shards, CLASSIFIER, round=50, engine="here", evaluate=False).curve
    )


def test_the_first_that_has_events_leads_and_rounds_grow():
    news = News()
    learn(shards_of((0, 700, 300)), CLASSIFIER, round=400, engine="here", watch=news)
    assert [(n.shard, n.events) for n in news.told if n not in news.rounds] == [
        (0, 0), (1, 256), (1, 341), (2, 85), (1, 483), (2, 227), (1, 700), (2, 300),
    ]  # fmt: skip
    news = News()
    learn(shards_of((700,)), CLASSIFIER, round=400, engine="here", watch=news)
    assert [entry.events for entry in news.rounds] == [400, 300]


def test_one_seed_is_drawn_for_all():
    learner = streamk.KaczmarzClassifier(features=64)
    first, second = (learn(shards_of((60, 60)), learner, round=30, engine="here").learner for _ in range(2))
    assert learner.seed is None
    assert first.seed != second.seed


def test_a_trained_learner_continues_from_its_state():
    learner = streamk.MatchingPursuitRegressor(features=64, block_size=32, seed=1)
    (before, *shards) = shards_of((50, 70, 70), classes=False)
    learner.learn_many(before.rows, before.targets)
    known, waiting = learner.to_bytes(), learner.pending
    assert waiting
    trained = learn(shards, learner, round=70, engine="here")
    assert learner.to_bytes() == known
    learner.flush()
    assert trained.learner.to_bytes() == reference(shards, learner, 70)


def test_what_has_no_weight_is_neither_learned_nor_counted():
    rows = [{"x": i % 7} for i in range(200)]
    targets = [None if i % 3 == 0 else i % 7 > 3 for i in range(200)]
    weights = [float(target is not None) for target in targets]
    shards = [Rows("some", rows, targets, weights), Rows("none", rows, [None] * 200, [0.0] * 200)]
    trained = learn(shards, CLASSIFIER, round=50, engine="here")
    assert trained.events == trained.learner.events == sum(weights)
    assert trained.tally.events == sum(weights[50:])
    assert [entry.shards for entry in trained.curve] == [1] * 4


@pytest.mark.parametrize(
    ("given", "kind", "sentence"),
    [
        (FileNotFoundError(2, "No such file"), FileNotFoundError, "shard odd: .*No such file"),
        (KeyError("x"), LookupError, "shard odd: 'x'"),
        (
            Chunk([{"x": 1}, {"x": "a" * 3, "y": []}], [1, 2], 2, True),
            ValueError,
            "shard odd: row 1: field 'y'",
        ),
        (Chunk([{"x": []}], [1], 1, True, None, [17]), ValueError, "shard odd: line 17: field 'x'"),
        (Chunk([{"x": 1}], [1], float("nan"), True), ValueError, "position nan"),
        (Chunk([{"x": 1}], [1], {1}, True), ValueError, r"position \{1\}"),
        (Chunk([], [], 5, False), ValueError, "gave no events at position None"),
    ],
)
def test_errors_name_the_shard(given, kind, sentence):
    with pytest.raises(kind, match=sentence):
        learn([Odd(given), *shards_of((10,))], CLASSIFIER, engine="here")


def test_errors_of_workers_are_raised():
    refused = Chunk([{"x": 1}, {"x": []}], [True, True], 2, True)
    with pytest.raises(ValueError, match="shard odd: row 1: field 'x'"):
        learn([Odd(refused), *shards_of((10,))], CLASSIFIER, workers=1)
    assert not multiprocessing.active_children()


def closed():
    learner = streamk.LSSVMClassifier(seed=1)
    learner.learn_one({"x": 1.0}, True)
    return learner.closed()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"learner": closed}, "merge models as they were before closed"),
        ({"learner": "kernel"}, "must be a streamk learner, not str"),
        ({"shards": []}, "no shard to learn"),
        ({"shards": [Untouchable(), Untouchable()]}, "two shards are named 'untouchable'"),
        ({"round": 0}, "round is 0"),
        ({"passes": True}, "passes is True"),
        ({"workers": 0}, "workers is 0"),
        ({"engine": "threads"}, "engine 'threads' is unknown; use processes or ray or here"),
        ({"address": "auto"}, "has no address"),
        ({"checkpoint": "/no/such/place/c"}, "there is no directory"),
    ],
)
def test_wrong_use_is_refused_before_any_work(options, sentence):
    given = {"shards": [Untouchable()], "learner": CLASSIFIER, **options}
    if given["learner"] is closed:
        given["learner"] = closed()
    with pytest.raises(ValueError, match=sentence):
        learn(given.pop("shards"), given.pop("learner"), **given)


BAD = (0, 3, 4, 59, 119, 150, 299)


def with_refused(size):
    """A shard of which some events are refused, and the same without them."""
    (whole,) = shards_of((size,))
    kept = [row for row in range(size) if row not in BAD]
    rows = [{**x, "x": 1e300} if row in BAD else x for row, x in enumerate(whole.rows)]
    clean = Rows("clean", [whole.rows[row] for row in kept], [whole.targets[row] for row in kept])
    return Rows("part 0", rows, whole.targets, strict=False), clean


@pytest.mark.parametrize("known", [0, 50])
def test_refused_events_are_skipped_and_counted(known):
    """The model and the accuracy are those of the same events without them."""
    shard, clean = with_refused(300)
    learner = CLASSIFIER.clone()
    for row in range(known):
        learner.learn_one(clean.rows[row], clean.targets[row])
    there = learn([shard], learner, round=1000, engine="here")
    here = learn([clean], learner, round=1000, engine="here")
    assert there.learner.to_bytes() == here.learner.to_bytes()
    assert (there.events, there.tally, here.refused) == (here.events, here.tally, 0)
    assert there.tally.events == (len(clean.rows) if known else 0)
    assert there.refused == len(BAD)
    assert there.example.startswith("part 0, row 0: field 'x' is 1e+300")


def test_a_strict_run_ends_at_a_refused_event():
    with pytest.raises(ValueError, match="shard part 0: row 0: field 'x' is 1e\\+300"):
        learn([replace(with_refused(300)[0], strict=True)], CLASSIFIER, engine="here")


def test_refused_events_are_counted_over_an_interruption(tmp_path):
    shard, path = with_refused(300)[0], tmp_path / "run"

    def train(**more):
        return learn([shard], CLASSIFIER, round=50, engine="here", **more)

    whole = train()
    with pytest.raises(KeyboardInterrupt):
        train(checkpoint=path, watch=News(until=2))
    resumed = train(checkpoint=path)
    assert resumed.learner.to_bytes() == whole.learner.to_bytes()
    assert (resumed.refused, resumed.example) == (whole.refused, whole.example)
    assert whole.refused == len(BAD)


def test_a_round_of_refused_events_alone_is_not_the_end():
    rows, targets = [{"x": 1e300}] * 20 + [{"x": 1.0}, {"x": -1.0}] * 10, [True, False] * 20
    trained = learn([Rows("odd", rows, targets, strict=False)], CLASSIFIER, round=10, engine="here")
    assert (trained.events, trained.refused) == (20, 20)
