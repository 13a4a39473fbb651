"""Peak rates of the machine: float32 additions, and bytes to and from memory, on the given threads."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import get_num_threads, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from streamk.threads import on_threads
from streamk.vector.lanes import HERE, LANES, at, data, index, load, store

_CHAINS = 12  # independent sums, so that no addition waits for the previous one; sixteen registers are enough
_ROUNDS = 2_000_000
_BYTES = 2**27


@intrinsic
def _chains(typing_context, numbers, rounds):
    """Add one register to each of twelve others, so many times."""

    def generate(context, b, signature, arguments):
        base = data(context, b, signature, arguments, 0)
        places = [at(b, base, index(LANES * k)) for k in range(_CHAINS + 1)]
        sums = [cgutils.alloca_once_value(b, load(b, p, HERE.lanes)) for p in places[:-1]]
        one = load(b, places[-1], HERE.lanes)
        with cgutils.for_range(b, arguments[1]):
            for total in sums:
                b.store(b.fadd(b.load(total), one), total)
        for total, place in zip(sums, places, strict=False):
            store(b, b.load(total), place)
        return context.get_dummy_value()

    return types.void(numbers, types.intp), generate


chains: Any = _chains


@njit(nogil=True)
def _add(numbers, rounds):
    chains(numbers, rounds)


def _best(work: Callable[[int], None]) -> float:
    threads = list(range(get_num_threads()))
    seconds = []
    for _ in range(5):
        began = time.perf_counter()
        on_threads(work, threads)
        seconds.append(time.perf_counter() - began)
    return min(seconds) / len(threads)


def additions() -> float:
    """Return float32 additions a nanosecond, all threads together."""
    numbers = [np.zeros(LANES * (_CHAINS + 1), dtype=np.float32) for _ in range(get_num_threads())]
    _add(numbers[0], 1)
    return HERE.lanes * _CHAINS * _ROUNDS / _best(lambda k: _add(numbers[k], _ROUNDS)) / 1e9


def bandwidth() -> float:
    """Return bytes a nanosecond that a copy reads and writes, all threads together."""
    pairs = [(np.ones(_BYTES, np.uint8), np.ones(_BYTES, np.uint8)) for _ in range(get_num_threads())]
    return 2 * _BYTES / _best(lambda k: np.copyto(*pairs[k])) / 1e9
