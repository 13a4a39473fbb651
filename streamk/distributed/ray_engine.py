"""Tasks on a Ray cluster. Ray is imported when it is asked for, and not before."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator, Mapping
from typing import Any

from streamk.distributed.tasks import Done, Task, perform_alone

_PATIENCE = 10.0  # seconds


class Ray:
    """Does tasks on a Ray cluster; Ray does those of lost machines again, on whichever there are.

    Every machine needs this version of streamk, and the files that shards read. A cluster that is already in
    use by this process is used as it is, and left so.

    Parameters
    ----------
    workers
        CPUs of the cluster that is started on this machine if there is no address.
    address
        Of a cluster, as ``ray.init`` takes it.

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
        self._ray: Any = ray
        self._ours = not ray.is_initialized()
        self._waiting: dict[Any, int] = {}
        if self._ours:
            options: dict[str, Any] = (
                {"address": address} if address else {"address": "local", "num_cpus": workers}
            )
            try:
                ray.init(**options, log_to_driver=False, logging_level=logging.ERROR)
            except (ConnectionError, ValueError) as error:
                raise ValueError(f"there is no Ray cluster at {address}: {error}") from None
        self._perform = ray.remote(perform_alone).options(max_retries=-1)  # of lost workers, not of errors

    def each(self, model: bytes, tasks: Mapping[int, Task]) -> Iterator[tuple[int, Done]]:
        """Yield what came of each task as it is done."""
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
        """End the cluster if it was started, or joined, here: Ray ends the tasks of those who leave.

        In a cluster that others use, tasks on their way end by themselves, and nobody gets what they learned.
        They are not cancelled: Ray 2.60 aborts the process that cancels a task which is just then done.
        """
        self._waiting = {}
        if self._ours:
            self._ray.shutdown()


def _check_answers(address: str) -> None:
    """Refuse a host and port where nobody listens: Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), _PATIENCE).close()
    except OSError as error:
        raise ValueError(f"there is no Ray cluster at {address}: {error.strerror or error}") from None
