"""Work on several threads; results do not depend on their number.

Python threads run whole jobs; waking one takes up to a tenth of a millisecond. Compiled loops may use Numba's
threads, which wait actively for a while and start at once, where that is safe: with OpenMP (or TBB)
several Python threads may use them together, but a forked process may not.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from functools import cache
from importlib.util import find_spec
from threading import RLock, get_ident
from typing import Any, TypeVar

from numba import get_num_threads
from numba.core import config
from numba.np.ufunc.parallel import threading_layer
from threadpoolctl import ThreadpoolController

_Job = TypeVar("_Job")
_Result = TypeVar("_Result")
_forked = False


def on_threads(work: Callable[[_Job], _Result], jobs: Sequence[_Job]) -> list[_Result]:
    """Return ``work`` of every job, in the order of the jobs, on Numba's number of threads.

    This thread runs jobs too, so that only the others have to be woken.
    """
    results: list[Any] = [None] * len(jobs)
    numbers = iter(range(len(jobs)))

    def take() -> None:
        for k in numbers:  # an iterator returns each number to one thread only
            results[k] = work(jobs[k])

    others = min(get_num_threads(), len(jobs)) - 1
    helpers = [_pool(others, os.getpid()).submit(take) for _ in range(others)]
    try:
        take()
    finally:
        wait(helpers)
    for helper in helpers:
        helper.result()
    return results


def compiled_threads() -> bool:
    """Return whether compiled loops may run on Numba's threads here."""
    return not _forked and get_num_threads() > 1 and _layer_is_safe()


def _layer_is_safe() -> bool:
    """Return whether Numba has chosen, or will choose, threads that several Python threads may use."""
    try:
        return threading_layer() in ("omp", "tbb")
    except ValueError:  # its threads have not started yet
        pass
    asked = getattr(config, "THREADING_LAYER", "default")
    if asked != "default":
        return asked in ("omp", "tbb", "safe", "threadsafe")
    choices = list(getattr(config, "THREADING_LAYER_PRIORITY", ()))
    before = choices[: choices.index("workqueue")] if "workqueue" in choices else choices
    return "omp" in before and find_spec("numba.np.ufunc.omppool") is not None


def _in_child() -> None:
    global _forked
    _forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


@cache
def _pool(threads: int, _process: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="streamk")


class _BlasLimit:
    """The limit of one BLAS thread, a property of the process, held by one thread at a time."""

    def __init__(self) -> None:
        self._lock, self._depth, self._owner = RLock(), 0, 0
        self._limit: Any = None

    def __enter__(self) -> None:
        self._lock.acquire()
        self._depth += 1
        if self._depth == 1:
            self._owner, self._limit = get_ident(), _blas().limit(limits=1, user_api="blas")
            self._limit.__enter__()

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._limit.__exit__(None, None, None)
        self._lock.release()

    def after_fork(self) -> None:
        """Reset a holder of another process."""
        if self._depth and self._owner != get_ident():
            self._limit.restore_original_limits()
            self._lock, self._depth = RLock(), 0


_limit = _BlasLimit()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_limit.after_fork)


def one_blas_thread() -> AbstractContextManager[None]:
    """Run matrix products on the calling thread, so that their sums have one order.

    The number of threads is a property of the process: the first caller sets it, and the last one restores
    it.
    """
    return _limit


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()
