"""Engines run the tasks of a round: in this process, in processes of this machine, or on a Ray cluster.

An engine yields results as they arrive. It may run a task twice, since tasks are pure, and never drops one.

Every process has its own pipe. It may be killed at any time, also while it sends a result: only its pipe then
ends. The pools of the standard library share one pipe for all results, and would wait forever for the rest of
a partial one. Ray is imported only if its engine is used.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol

from streamk.arrays import Json
from streamk.distributed.tasks import Done, Task, perform, perform_alone

ATTEMPTS = 5  # attempts at one task, each ended by the death of the worker
_PATIENCE = 10.0  # seconds


class WorkersDiedError(RuntimeError):
    """Workers die repeatedly at one task."""


class Processes:
    """Runs tasks in processes of this machine; a dead process is replaced, and its task runs again.

    Parameters
    ----------
    workers
        Number of processes.

    Raises
    ------
    WorkersDiedError
        From :meth:`each`, if every worker with a certain task dies.
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._idle: list[_Worker] = []
        self._busy: dict[Any, _Worker] = {}  # by their pipes

    def each(self, model: bytes, tasks: Mapping[int, Task]) -> Iterator[tuple[int, Done]]:
        """Yield the result of each task when it is finished."""
        left, deaths = deque(tasks), Counter[int]()
        try:
            while left or self._busy:
                self._start(min(len(left), self._workers - len(self._busy)))
                while left and self._idle:
                    worker, number = self._idle.pop(), left.popleft()
                    self._busy[worker.pipe] = worker
                    worker.begin(number, model, tasks[number])
                for pipe in wait(list(self._busy)):
                    worker = self._busy.pop(pipe)
                    done = worker.answer()
                    if isinstance(done, Exception):
                        self._idle.append(worker)
                        raise done
                    if done is None:
                        worker.kill()
                        deaths[worker.number] += 1
                        _check_worth(tasks[worker.number], deaths[worker.number])
                        left.appendleft(worker.number)
                    else:
                        self._idle.append(worker)
                        yield worker.number, done
        finally:
            _kill(self._busy)  # their results are not needed any more

    def _start(self, count: int) -> None:
        """Start idle workers in parallel until there are so many."""
        with _interrupts_held():  # a process starts in this block, and inherits it
            while len(self._idle) < count:
                self._idle.append(_Worker())

    def close(self) -> None:
        """Kill the workers: a task may take long, and lost tasks run again."""
        _kill(self._busy)
        _kill(self._idle)


def _kill(workers: dict[Any, _Worker] | list[_Worker]) -> None:
    for worker in workers.values() if isinstance(workers, dict) else workers:
        worker.kill()
    workers.clear()


def _check_worth(task: Task, deaths: int) -> None:
    """Raise WorkersDiedError if a task has killed too many workers."""
    if deaths >= ATTEMPTS:
        raise WorkersDiedError(
            f"shard {task.shard.name}: workers died {deaths} times in a row over it: is there enough memory? "
            "A script that calls learn() must do so under `if __name__ == '__main__':`"
        )


class _Worker:
    """A process and its pipe."""

    def __init__(self) -> None:
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()  # so that the pipe ends when the process does
        self._knows: bytes | None = None
        self.number = -1

    def begin(self, number: int, model: bytes, task: Task) -> None:
        """Send a task, and the model unless the worker has it."""
        self.number = number
        known, self._knows = self._knows is model, model
        with suppress(OSError):  # it is dead; reading its result reports that
            self.pipe.send((None if known else model, task))

    def answer(self) -> Done | Exception | None:
        """Return the result of the task, or its exception; None if the worker has died."""
        try:
            done: Done | Exception = self.pipe.recv()
        except (EOFError, OSError):
            return None
        return done

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.join()
        self.pipe.close()


def _work(pipe: Connection) -> None:
    """Run tasks until the pipe ends (in a worker)."""
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # a terminal sends Ctrl-C to all processes; the driver handles it
    threading.Thread(target=_end_with_parent, daemon=True).start()
    model = b""
    while True:
        try:
            sent, task = pipe.recv()
            model = model if sent is None else sent
            answer: Done | Exception
            try:
                answer = perform_alone(model, task)
            except Exception as error:
                answer = error
            pipe.send(answer)
        except (EOFError, OSError):  # the driver has ended
            return


def _end_with_parent() -> None:
    """End with the parent process, also during a long task."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Block Ctrl-C during the block.

    A worker inherits this, so it is not interrupted during its imports, before it ignores Ctrl-C itself. This
    process receives the signal after the block.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # otherwise the first started process starts it, which unblocks SIGINT
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Ray:
    """Runs tasks on a Ray cluster; Ray repeats the tasks of lost machines on others.

    Every machine needs this version of streamk and the files of the shards. A cluster to which this process
    is already connected is used, and stays connected.

    Parameters
    ----------
    workers
        CPUs of the cluster on this machine, if there is no address.
    address
        Of a cluster, for ``ray.init``.

    Raises
    ------
    ValueError
        If Ray is not installed, or there is no cluster at the address.
    """

    def __init__(self, workers: int, address: str | None) -> None:
        try:
            import ray
        except ImportError:
            raise ValueError("engine 'ray' needs Ray: pip install 'streamk[ray]'") from None
        if address is not None:
            _check_answers(address)
        self._ray = ray
        self._ours = not ray.is_initialized()
        self._waiting: dict[object, int] = {}
        if self._ours:
            options: Json = {"address": address} if address else {"address": "local", "num_cpus": workers}
            try:
                ray.init(**options, log_to_driver=False, logging_level=logging.ERROR)
            except (ConnectionError, ValueError) as error:
                raise ValueError(f"there is no Ray cluster at {address}: {error}") from None
        self._perform = ray.remote(perform_alone).options(max_retries=-1)  # of lost workers, not of errors

    def each(self, model: bytes, tasks: Mapping[int, Task]) -> Iterator[tuple[int, Done]]:
        """Yield the result of each task when it is finished."""
        sent = self._ray.put(model)
        self._waiting = {self._perform.remote(sent, task): number for number, task in tasks.items()}
        while self._waiting:
            done, _ = self._ray.wait(list(self._waiting))
            try:
                result: Done = self._ray.get(done[0])
            except self._ray.exceptions.RayTaskError as error:
                raise error.cause from None
            yield self._waiting.pop(done[0]), result

    def close(self) -> None:
        """Disconnect if this engine connected: Ray then ends its tasks.

        In a shared cluster, running tasks finish, and their results are dropped. They are not cancelled: Ray
        2.60 aborts the process that cancels a task at the moment it finishes.
        """
        self._waiting = {}
        if self._ours:
            self._ray.shutdown()


def _check_answers(address: str) -> None:
    """Raise an error if no process listens on host and port: Ray would retry for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), _PATIENCE).close()
    except OSError as error:
        raise ValueError(f"there is no Ray cluster at {address}: {error.strerror or error}") from None


class Engine(Protocol):
    """Runs tasks."""

    def each(self, model: bytes, tasks: Mapping[int, Task]) -> Iterator[tuple[int, Done]]:
        """Yield the number of each task and its result, in any order.

        Raises
        ------
        Exception
            Raised by a task; the remaining tasks are then not needed.
        """
        ...

    def close(self) -> None:
        """Stop all running tasks at once."""
        ...


class Here:
    """Runs tasks in this process, in order: for small data and debugging."""

    def each(self, model: bytes, tasks: Mapping[int, Task]) -> Iterator[tuple[int, Done]]:
        """Yield the result of each task."""
        for number, task in tasks.items():
            yield number, perform(model, task)

    def close(self) -> None:
        """Do nothing."""


_ENGINES: dict[str, Callable[[int, str | None], Engine]] = {
    "processes": lambda workers, address: Processes(workers),
    "ray": Ray,
    "here": lambda workers, address: Here(),
}


def engine_of(name: str, workers: int, address: str | None) -> Engine:
    """Return an engine by its name.

    Raises
    ------
    ValueError
        If the name is unknown, it takes no address, the number of workers is invalid, or Ray is missing.
    """
    if name not in _ENGINES:
        raise ValueError(f"engine {name!r} is unknown; use {' or '.join(_ENGINES)}")
    if address is not None and name != "ray":
        raise ValueError(f"engine {name!r} has no address; use engine='ray'")
    if type(workers) is not int or workers < 1:
        raise ValueError(f"workers is {workers!r}; it must be a whole number, at least 1")
    return _ENGINES[name](workers, address)
