"""Tasks on a Ray cluster. Ray is imported only if this engine is used."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator, Mapping

from streamk.arrays import Json
from streamk.distributed.tasks import Done, Task, perform_alone

_PATIENCE = 10.0  # seconds


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
