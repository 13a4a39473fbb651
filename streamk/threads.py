"""Work on several threads, whose number never shows in a result.

Threads of Python take whole jobs; waking one takes up to a tenth of a millisecond. Compiled loops may use
Numba's own threads, which wait for work for a while and so are there at once, where that is safe: with
OpenMP (or TBB) several Python threads may use them together, but a forked process may not.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from importlib.util import find_spec
from typing import Any, TypeVar

from numba import get_num_threads
from numba.core import config
from numba.np.ufunc.parallel import threading_layer

_Job = TypeVar("_Job")
_Result = TypeVar("_Result")
_forked = False


def on_threads(work: Callable[[_Job], _Result], jobs: Sequence[_Job]) -> list[_Result]:
    """Return ``work`` of every job, in the order of the jobs, on Numba's number of threads.

    This thread takes its share, so that only the others have to be woken.
    """
    results: list[Any] = [None] * len(jobs)
    numbers = iter(range(len(jobs)))

    def take() -> None:
        for k in numbers:  # an iterator hands a number to one thread only
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
    except ValueError:  # nothing has run on its threads yet
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
