"""Tasks in processes of this machine, each behind a pipe of its own.

A worker may be killed at any moment, also while it sends what it has learned: its pipe then ends, and nobody
else's does. The pools of the standard library share one pipe for all answers, and wait for the rest of one
that will never come.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import wait
from typing import Any

from streamk.distributed.tasks import Done, Task, perform_alone

ATTEMPTS = 5  # at one task, all of which end with the death of the worker


class WorkersDiedError(RuntimeError):
    """Workers die over and over at one task."""


class Processes:
    """Does tasks in processes of this machine; one that dies is replaced, and what it did is done again.

    Parameters
    ----------
    workers
        How many processes.

    Raises
    ------
    WorkersDiedError
        From :meth:`each`, if every worker dies that is given a certain task.
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._idle: list[_Worker] = []
        self._busy: dict[Any, _Worker] = {}  # by their pipes

    def each(self, model: bytes, tasks: Mapping[int, Task]) -> Iterator[tuple[int, Done]]:
        """Yield what came of each task as it is done."""
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
            _kill(self._busy)  # nobody wants what they are doing any more

    def _start(self, count: int) -> None:
        """Have so many idle workers; they begin side by side."""
        with _interrupts_held():  # a process begins in here, and inherits that
            while len(self._idle) < count:
                self._idle.append(_Worker())

    def close(self) -> None:
        """Kill the workers: a task may be long, and nothing is lost that is not done again."""
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
    """A process, and the pipe to it."""

    def __init__(self) -> None:
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()  # so that the pipe ends when the process does
        self._knows: bytes | None = None
        self.number = -1

    def begin(self, number: int, model: bytes, task: Task) -> None:
        """Give it a task, and the model unless it has that already."""
        self.number = number
        known, self._knows = self._knows is model, model
        with suppress(OSError):  # it is dead, as its answer will say
            self.pipe.send((None if known else model, task))

    def answer(self) -> Done | Exception | None:
        """Return what came of the task, or what it raised; None if the worker has died."""
        try:
            found: Done | Exception = self.pipe.recv()
        except (EOFError, OSError):
            return None
        return found

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.join()
        self.pipe.close()


def _work(pipe: Any) -> None:
    """Do tasks for as long as they come (in a worker)."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends Ctrl-C to all; the driver decides
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
        except (EOFError, OSError):  # nobody is there any more
            return


def _end_with_parent() -> None:
    """Die when the parent does, also in the middle of a long task."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Hold Ctrl-C back for a moment.

    A worker inherits that, and is not interrupted while it is still importing, before it can ignore Ctrl-C
    itself; this process takes it when the moment is over.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # the first process to start would start it, which unblocks SIGINT
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
