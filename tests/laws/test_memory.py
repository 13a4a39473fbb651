"""A learner that follows a stream for a million events takes no more memory than after the first ones."""

import gc
import resource
import tracemalloc

import numpy as np
import pytest

from .subjects import LEARNERS, build

FOLLOWED = [
    "classifier-margin-average",
    "classifier-growing",
    "kaczmarz-pursuit-regressor",
    "doubly-stochastic-classifier",
    "classifier-structured",
    "regressor-growing-sketch",
    "pursuit-classifier",
    "kaczmarz-pursuit-classifier-structured",
]
CHUNKS = 50  # of the events, so that what a chunk leaves behind counts alike in short streams


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.mark.parametrize(
    ("name", "events"),
    [
        (FOLLOWED[0], 1_000_000),
        *((name, 100_000) for name in FOLLOWED[1:4]),
        *(pytest.param(name, 1_000_000, marks=pytest.mark.long) for name in FOLLOWED[1:]),
    ],
)
def test_many_events(name, events):
    cls, extra = LEARNERS[name]
    if "batch_size" in extra:
        extra = {**extra, "batch_size": 128}  # fewer steps of Python
    learner = build(cls, extra)
    rng = np.random.default_rng(0)
    names = ["a", "b", "c"]

    def follow(count):
        for _ in range(count * CHUNKS // events):
            X = rng.normal(size=(events // CHUNKS, 3))
            y = (X[:, 0] * X[:, 1] > 0).tolist() if hasattr(learner, "labels") else X[:, 0].tolist()
            learner.predict_learn_many(X, y, names=names)
        for i in range(200):  # and one by one
            x = {"a": float(i), "text": "xyz"[i % 3]}
            learner.predict_one(x)
            learner.learn_one(x, y[0])

    follow(events // 50)
    # what is allocated before this is not counted, and is replaced by what is, so begin early
    tracemalloc.start()
    try:
        follow(events // 50 * 9)
        size = len(learner.to_bytes())
        follow(events // 10)
        gc.collect()
        before, highest = tracemalloc.get_traced_memory()[0], peak()
        follow(events // 10 * 7)
        gc.collect()
        after, later = tracemalloc.get_traced_memory()[0], peak()
    finally:
        tracemalloc.stop()
    assert learner.events + learner.pending == events + 800
    assert after - before < min(events, 200_000)
    assert later - highest < 16 * 2**20
    waiting = 200 * learner.pending  # bytes of events that wait
    assert len(learner.to_bytes()) <= size + waiting + 1000
