"""Who does the tasks of a round: this process, processes of this machine, or a Ray cluster.

An engine hands out results as they come. It may do a task twice, since tasks are pure, and never drops one.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Protocol

from streamk.distributed.tasks import Done, Task, ignore_interrupts, perform, perform_alone

ATTEMPTS = 5  # pools that may break, one after the other, with nothing done in between


class WorkersDiedError(RuntimeError):
    """Workers die over and over, and nothing is done in between."""


class Engine(Protocol):
    """Does tasks."""

    def each(self, model: bytes, tasks: Mapping[int, Task]) -> Iterator[tuple[int, Done]]:
        """Yield the number of each task and what came of it, in any order.

        Raises
        ------
        Exception
            What a task raised; those still to be done are then of no use to anybody.
        """
        ...

    def close(self) -> None:
        """Stop at once whatever is still being done."""
        ...


class Here:
    """Does tasks in this process, in order: for small data, and to look at with a debugger."""

    def each(self, model: bytes, tasks: Mapping[int, Task]) -> Iterator[tuple[int, Done]]:
        """Yield what came of each task."""
        for number, task in tasks.items():
            yield number, perform(model, task)

    def close(self) -> None:
        """Do nothing."""


class Processes:
    """Does tasks in processes of this machine; one that dies is replaced, and what it did is done again.

    Parameters
    ----------
    workers
        How many processes.

    Raises
    ------
    WorkersDiedError
        From :meth:`each`, if workers die over and over with no task done in between.
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._pool: ProcessPoolExecutor | None = None
        self._broken = 0  # pools since a task was last done

    def each(self, model: bytes, tasks: Mapping[int, Task]) -> Iterator[tuple[int, Done]]:
        """Yield what came of each task as it is done."""
        left = dict(tasks)
        while left:
            try:
                for number, done in self._once(model, left):
                    self._broken = 0
                    del left[number]
                    yield number, done
            except BrokenProcessPool:
                self.close()
                self._broken += 1
                if self._broken == ATTEMPTS:
                    raise WorkersDiedError(
                        f"workers died {ATTEMPTS} times in a row with no task done: is there enough memory? "
                        "A script that calls learn() must do so under `if __name__ == '__main__':`"
                    ) from None

    def _once(self, model: bytes, tasks: Mapping[int, Task]) -> Iterator[tuple[int, Done]]:
        """Yield what came of the tasks until a worker dies."""
        if self._pool is None:
            self._pool = ProcessPoolExecutor(self._workers, get_context("spawn"), ignore_interrupts)
        futures: dict[Future[Done], int] = {}
        with _interrupts_held():  # a process begins in here, and inherits that
            for number, task in tasks.items():
                futures[self._pool.submit(perform_alone, model, task)] = number
        while futures:
            for future in wait(futures, return_when=FIRST_COMPLETED).done:
                yield futures.pop(future), future.result()

    def close(self) -> None:
        """Kill the workers: a task may be long, and nothing is lost that is not done again."""
        if self._pool is None:
            return
        pool, self._pool = self._pool, None
        for process in list((pool._processes or {}).values()):
            process.kill()
        pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Hold Ctrl-C back for a moment.

    A worker inherits that, and is not interrupted while it is still importing, before it can ignore Ctrl-C
    itself; this process takes it when the moment is over.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _ray(workers: int, address: str | None) -> Engine:
    from streamk.distributed.ray_engine import Ray

    return Ray(workers, address)


_ENGINES: dict[str, Callable[[int, str | None], Engine]] = {
    "processes": lambda workers, address: Processes(workers),
    "ray": _ray,
    "here": lambda workers, address: Here(),
}


def engine_of(name: str, workers: int, address: str | None) -> Engine:
    """Return an engine by its name.

    Raises
    ------
    ValueError
        If there is none of that name, it has no address, the number of workers is none, or Ray is missing.
    """
    if name not in _ENGINES:
        raise ValueError(f"engine {name!r} is unknown; use {' or '.join(_ENGINES)}")
    if address is not None and name != "ray":
        raise ValueError(f"engine {name!r} has no address; use engine='ray'")
    if type(workers) is not int or workers < 1:
        raise ValueError(f"workers is {workers!r}; it must be a whole number, at least 1")
    return _ENGINES[name](workers, address)
