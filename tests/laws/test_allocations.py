"""Compiled code frees what it allocates: no event leaves an array behind."""

import gc

import pytest
from numba.core.runtime import _nrt_python, rtsys

from .subjects import events

KEPT = 60  # arrays that a learner may keep of other widths, fields and blocks


@pytest.fixture
def alive():
    """A function that returns how many arrays of compiled code are not freed."""
    _nrt_python.memsys_enable_stats()

    def count():
        gc.collect()
        found = rtsys.get_allocation_stats()
        return found.alloc - found.free

    yield count
    _nrt_python.memsys_disable_stats()


def test_no_event_leaves_an_array(make, alive):
    learner = make()
    pairs = events(classifies=make.classifies)
    xs, ys = map(list, zip(*pairs, strict=True))

    def follow():
        for x, y in pairs:
            learner.predict_one(x)
            learner.learn_one(x, y)
        learner.learn_many(xs, ys)
        learner.predict_many(xs)

    follow()
    before = alive()
    follow()
    follow()
    assert alive() - before < KEPT
