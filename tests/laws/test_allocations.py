"""Compiled code frees what it allocates: no event leaves an array behind."""

import gc

import numpy as np
import pytest
from numba import njit
from numba.core.runtime import _nrt_python, rtsys

from streamk.handles import unowned

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


@njit
def new_arrays(a, rows):
    """Return the sum of what arrays hold that are made from an unowned one."""
    view = unowned(a)[1:]
    found = view.copy().sum() + view.astype(np.float32).sum() + view[rows].sum()
    return found + view.reshape(3, 2).T.copy().sum() + view.flatten().sum() + (2.0 * view).sum()


def test_new_arrays_made_from_unowned_ones_are_freed(alive):
    a, rows = np.arange(7.0), np.array([0, 1])
    new_arrays(a, rows)
    before = alive()
    assert new_arrays(a, rows) == 4 * 21 + 3 + 2 * 21
    assert alive() == before
