"""One BLAS thread for whoever asks for it, in turn, and as many as before when nobody does."""

import os
import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import streamk
from streamk.threads import one_blas_thread


def blas_threads():
    return {info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def two_threads():
    np.ones((2, 2)) @ np.ones((2, 2))
    with threadpool_limits(2, "blas"):
        yield


def test_the_limit_is_released_by_the_last_that_holds_it():
    before = blas_threads()
    first, second = one_blas_thread(), one_blas_thread()
    with first:
        assert blas_threads() == {1}
        with second:
            assert blas_threads() == {1}
        assert blas_threads() == {1}
    assert blas_threads() == before


def test_two_threads_take_turns_and_leave_no_limit_behind():
    before, seen, inside = blas_threads(), [], threading.Event()

    def hold():
        inside.set()
        with one_blas_thread():
            seen.append(blas_threads())

    other = threading.Thread(target=hold)
    with one_blas_thread():
        other.start()
        assert inside.wait(10)
        other.join(0.2)
        assert seen == []
        assert blas_threads() == {1}
    other.join(10)
    assert blas_threads() == before


def test_block_learners_on_two_threads_leave_no_limit_behind():
    before = blas_threads()
    X = np.random.default_rng(0).normal(size=(3000, 4))

    def learn(found):
        learner = streamk.KaczmarzRegressor(features=128, block_size=32, seed=1)
        learner.learn_many(X, X[:, 0], names=list("abcd"))
        found.append(learner.to_bytes())

    found = []
    threads = [threading.Thread(target=learn, args=(found,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] == found[1]
    assert blas_threads() == before


def test_an_error_releases_it():
    before = blas_threads()
    with pytest.raises(ZeroDivisionError), one_blas_thread():
        1 / 0  # noqa: B018
    assert blas_threads() == before


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_does_not_inherit_it():
    holds, leave = threading.Event(), threading.Event()

    def hold():
        with one_blas_thread():
            holds.set()
            leave.wait(10)

    holder = threading.Thread(target=hold)
    holder.start()
    assert holds.wait(10)
    child = os.fork()
    if not child:
        with one_blas_thread():  # must not wait for a thread that is not there
            os._exit(0)
    leave.set()
    holder.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
