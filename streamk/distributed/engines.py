"""Who does the tasks of a round: this process, processes of this machine, or a Ray cluster.

An engine hands out results as they come. It may do a task twice, since tasks are pure, and never drops one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from streamk.distributed.processes import Processes
from streamk.distributed.tasks import Done, Task, perform


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
