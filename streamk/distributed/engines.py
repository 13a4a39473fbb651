"""Engines run the tasks of a round: in this process, in processes of this machine, or on a Ray cluster.

An engine yields results as they arrive. It may run a task twice, since tasks are pure, and never drops one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from streamk.distributed.processes import Processes
from streamk.distributed.tasks import Done, Task, perform


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
        If the name is unknown, it takes no address, the number of workers is invalid, or Ray is missing.
    """
    if name not in _ENGINES:
        raise ValueError(f"engine {name!r} is unknown; use {' or '.join(_ENGINES)}")
    if address is not None and name != "ray":
        raise ValueError(f"engine {name!r} has no address; use engine='ray'")
    if type(workers) is not int or workers < 1:
        raise ValueError(f"workers is {workers!r}; it must be a whole number, at least 1")
    return _ENGINES[name](workers, address)
