"""Three nodes of Apache Kafka, each broker and controller in a process of its own, on free ports.

Everything is on all three, and a write counts when two have it. A node is killed as by a power cut, and
started again with the same data and ports.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError
from kafka.protocol.metadata import CoordinatorType

from .broker import COMMON, Broker

SIZE = 3
KINDS = {"group": CoordinatorType.GROUP, "transaction": CoordinatorType.TRANSACTION}


class Node(Broker):
    """One of several; it answers once a majority of them runs."""

    memory = "-Xms96m", "-Xmx256m"

    def __init__(
        self, directory: Path, number: int, controllers: list[int], cluster: dict[str, object]
    ) -> None:
        self.number, self._controllers = number, controllers
        super().__init__(directory, cluster)

    def _format(self) -> None:
        """Do nothing: the ports of the others are not known yet."""

    def format(self) -> None:
        """Make the directory that the node starts from."""
        self._write(self._lines())
        self._java(
            "kafka.tools.StorageTool", "format", "--cluster-id", "c3RyZWFtay10ZXN0LTAwMw",
            "--config", str(self.directory / "server.properties"),
        )  # fmt: skip

    @property
    def controller(self) -> int:
        """The port of its controller."""
        return self._ports[2]

    def _lines(self) -> dict[str, object]:
        plain, controller = self._ports[0], self.controller
        voters = enumerate(self._controllers, 1)
        return {
            **COMMON,
            "process.roles": "broker,controller",
            "node.id": self.number,
            "controller.quorum.voters": ",".join(f"{n}@127.0.0.1:{port}" for n, port in voters),
            "listeners": f"PLAIN://127.0.0.1:{plain},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAIN://127.0.0.1:{plain}",
            "listener.security.protocol.map": "PLAIN:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "PLAIN",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": self.directory / "data",
            "min.insync.replicas": 2,
            "default.replication.factor": SIZE,
            "offsets.topic.replication.factor": SIZE,
            "offsets.topic.num.partitions": 3,
            "transaction.state.log.replication.factor": SIZE,
            "transaction.state.log.min.isr": 2,
            "transaction.state.log.num.partitions": 3,
            "num.network.threads": 2,
            "num.io.threads": 4,
        }


class Cluster:
    """Three nodes.

    Parameters
    ----------
    directory
        Of their data.
    properties
        Added to those of every node.
    """

    def __init__(self, directory: Path, properties: dict[str, object] | None = None) -> None:
        ports: list[int] = []
        numbers = range(1, SIZE + 1)
        self.nodes = {n: Node(directory / str(n), n, ports, properties or {}) for n in numbers}
        ports += [node.controller for node in self.nodes.values()]
        for node in self.nodes.values():
            node.format()
        self.servers = ",".join(node.servers for node in self.nodes.values())

    def start(self, numbers: Collection[int] = ()) -> None:
        """Start those nodes that do not run, or these, and let frozen ones go on."""
        for node in self.nodes.values():
            node.thaw()
        started = [
            node for n, node in self.nodes.items() if not node.running and (not numbers or n in numbers)
        ]
        for node in started:
            node.launch()
        for node in started:
            node.wait()

    def kill(self, *numbers: int) -> None:
        """End these nodes at once, all of them if none is named."""
        for n in numbers or self.nodes:
            self.nodes[n].kill()

    @property
    def living(self) -> list[int]:
        """The numbers of the nodes that run and answer."""
        return [n for n, node in self.nodes.items() if node.running and not node.frozen]

    @contextlib.contextmanager
    def admin(self) -> Iterator[KafkaAdminClient]:
        """Yield a client of the nodes that run."""
        servers = [self.nodes[n].servers for n in self.living]
        admin = KafkaAdminClient(
            bootstrap_servers=servers, bootstrap_timeout_ms=2000, request_timeout_ms=3000
        )
        with contextlib.closing(admin):
            yield admin

    def coordinator(self, kind: str, name: str) -> int | None:
        """Return the living node that coordinates a ``group`` or a ``transaction``, None if there is none."""
        try:
            with self.admin() as admin:
                found = admin._manager.run(admin._find_coordinator_id, name, KINDS[kind])
        except KafkaError:
            return None
        number = int(str(found).rpartition("-")[2])
        return number if number in self.living else None

    def in_sync(self) -> bool:
        """Return whether every partition has a leader, and all of its replicas are in sync."""
        try:
            with self.admin() as admin:
                topics = admin.describe_topics()
        except KafkaError:
            return False
        partitions = [partition for topic in topics for partition in topic["partitions"]]
        return all(len(p["isr_nodes"]) == SIZE and p["leader_id"] in self.nodes for p in partitions)

    def until(self, done: Callable[[], object], seconds: float = 120.0) -> None:
        """Wait until ``done()``."""
        deadline = time.monotonic() + seconds
        while not done():
            assert time.monotonic() < deadline, f"not in {seconds} s"
            time.sleep(0.1)
