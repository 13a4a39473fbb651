"""A real Apache Kafka for tests: one KRaft node in a process of its own, on free ports of the loopback.

The jars come through Maven once and stay in ``.cache/kafka``. Besides the open listener there is one that
wants TLS and SCRAM (``secure``), with certificates made on the spot.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

VERSION = os.environ.get("STREAMK_TEST_KAFKA_VERSION", "4.1.0")
ROOT = Path(__file__).resolve().parent.parent.parent
CACHE = ROOT / ".cache" / "kafka" / VERSION
TAKEN: set[int] = set()  # ports that `free_port` returned
POM = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>streamk</groupId><artifactId>kafka-for-tests</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{VERSION}</version>
    </dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency>
  </dependencies>
</project>
"""
USER, PASSWORD = "streamk", "correct horse"
COMMON = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1000,
    "auto.create.topics.enable": "false",
    "message.max.bytes": 1 << 25,
    "replica.fetch.max.bytes": 1 << 25,
    "log.retention.check.interval.ms": 1000,
    "log.cleaner.enable": "false",
}


def lacking() -> str:
    """Return why Apache Kafka cannot be had on this machine, empty if it can."""
    missing = [tool for tool in ("java", "mvn") if shutil.which(tool) is None]
    if "java" in missing or (missing and not (CACHE / "ready").exists()):
        return f"there is no {' and no '.join(missing)}"
    return ""


def jars() -> Path:
    """Return the directory of Kafka's jars, fetched by the first that asks."""
    if not (CACHE / "ready").exists():
        CACHE.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(dir=CACHE.parent))
        (work / "pom.xml").write_text(POM)
        command = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=jars"]
        done = subprocess.run(command, cwd=work, capture_output=True, text=True)
        if done.returncode:
            shutil.rmtree(work)
            raise RuntimeError(f"Maven could not fetch Kafka {VERSION}: {done.stdout[-2000:]}")
        (work / "ready").touch()
        try:
            work.rename(CACHE)
        except OSError:  # another process was first
            shutil.rmtree(work)
    return CACHE / "jars"


def stand_in() -> Path:
    """Return the program of a broker that pip has, fetched by the first that asks."""
    place = CACHE.parent / "stand-in"
    if not (place / "ready").exists():
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(place)]
        subprocess.run([*install, "noida-db==0.2.3"], check=True)
        (place / "ready").touch()
    return place / "noida_db" / "noida-db"


def free_port() -> int:
    """Return a port that nothing listens on now, and no connection takes by itself: another at every call."""
    while True:
        port = random.SystemRandom().randrange(10_000, 32_000)
        with socket.socket() as s, contextlib.suppress(OSError):
            s.bind(("127.0.0.1", port))
            if port not in TAKEN:
                TAKEN.add(port)
                return port


class StandIn:
    """A broker for machines without Java: it has groups and transactions, but no TLS and no SCRAM."""

    secure = None

    def __init__(self, directory: Path) -> None:
        self._directory, port = directory, free_port()
        self.servers = f"127.0.0.1:{port}"
        options = {"--only": "kafka", "--kafka-port": str(port), "--data-dir": str(directory)}
        self._command = [str(stand_in()), "start", *(text for pair in options.items() for text in pair)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers."""
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(self._command, stdin=quiet, stdout=quiet, stderr=quiet)
        host, port = self.servers.split(":")
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                socket.create_connection((host, int(port)), 1).close()
                return
            time.sleep(0.1)
        raise RuntimeError("the stand-in did not start")

    launch = start

    @property
    def running(self) -> bool:
        """Whether it has been started and not ended."""
        return self._process is not None

    def kill(self) -> None:
        """End it at once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    stop = kill


class Broker:
    """One Kafka node: ``start``, ``kill``, ``stop``, and ``start`` again with the same data and ports.

    ``properties`` are added to those of its file. The open listener is on ``port``, or on a free one. The
    node ends when the process ``owner`` does, however it ends; another process that names the same directory
    finds it there.
    """

    memory = "-Xms256m", "-Xmx512m"

    def __init__(
        self,
        directory: Path,
        properties: Mapping[str, object] | None = None,
        owner: int | None = None,
        port: int | None = None,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory, self._properties = directory, properties or {}
        self._owner = owner or os.getpid()
        self._process: subprocess.Popen[bytes] | None = None
        self.frozen = False
        self.authority, self.stranger = directory / "ca.pem", directory / "stranger.pem"
        kept = directory / "ports"
        new = not kept.exists()
        self._ports = [free_port() for _ in range(3)] if new else [int(p) for p in kept.read_text().split()]
        if new and port is not None:
            self._ports[0] = port
        self.servers = f"127.0.0.1:{self._ports[0]}"
        self.secure = f"localhost:{self._ports[1]}"
        if new:
            self._format()
            kept.write_text(" ".join(map(str, self._ports)))

    def _format(self) -> None:
        self._certify()
        self._write(self._lines())
        self._java(
            "kafka.tools.StorageTool", "format", "--standalone", "--cluster-id", "c3RyZWFtay10ZXN0LTAwMQ",
            "--config", str(self.directory / "server.properties"),
            "--add-scram", f"SCRAM-SHA-512=[name={USER},password={PASSWORD}]",
            "--add-scram", f"SCRAM-SHA-256=[name={USER},password={PASSWORD}]",
        )  # fmt: skip

    def _certify(self) -> None:
        import trustme
        from cryptography.hazmat.primitives import serialization

        authority = trustme.CA()
        certificate = authority.issue_cert("localhost", "127.0.0.1")
        key = serialization.load_pem_private_key(certificate.private_key_pem.bytes(), None)
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        chain = b"".join(part.bytes() for part in certificate.cert_chain_pems)
        (self.directory / "server.pem").write_bytes(pem + chain)
        authority.cert_pem.write_to_path(str(self.authority))
        trustme.CA().cert_pem.write_to_path(str(self.stranger))

    def _lines(self) -> dict[str, object]:
        plain, secure, controller = self._ports
        listeners = f"PLAIN://127.0.0.1:{plain},SECURE://127.0.0.1:{secure}"
        return {
            **COMMON,
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}",
            "listeners": f"{listeners},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": listeners.replace("SECURE://127.0.0.1", "SECURE://localhost"),
            "listener.security.protocol.map": "PLAIN:PLAINTEXT,SECURE:SASL_SSL,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "PLAIN",
            "controller.listener.names": "CONTROLLER",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512,SCRAM-SHA-256,PLAIN,OAUTHBEARER",
            "listener.name.secure.oauthbearer.sasl.jaas.config": "org.apache.kafka.common.security."
            f'oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="{USER}";',
            "listener.name.secure.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain."
            f'PlainLoginModule required user_{USER}="{PASSWORD}";',
            "listener.name.secure.scram-sha-512.sasl.jaas.config": "org.apache.kafka.common.security.scram."
            "ScramLoginModule required;",
            "listener.name.secure.scram-sha-256.sasl.jaas.config": "org.apache.kafka.common.security.scram."
            "ScramLoginModule required;",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self.directory / "server.pem",
            "log.dirs": self.directory / "data",
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 2,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 2,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
        }

    def _write(self, lines: Mapping[str, object]) -> None:
        lines = {**lines, **self._properties}
        text = "".join(f"{key}={value}\n" for key, value in lines.items())
        (self.directory / "server.properties").write_text(text)

    def _command(self, *arguments: str) -> list[str]:
        memory = [*self.memory, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
        return ["java", *memory, quiet, "-cp", f"{jars()}/*", *arguments]

    def _java(self, *arguments: str) -> None:
        done = subprocess.run(self._command(*arguments), capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{arguments[0]} failed: {done.stdout[-1000:]} {done.stderr[-1000:]}")

    def start(self) -> None:
        """Start the node and wait until it answers."""
        self.launch()
        self.wait()

    def launch(self) -> None:
        """Start the node."""
        with (self.directory / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command("kafka.Kafka", str(self.directory / "server.properties")),
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        self._watch(self._process.pid)

    def wait(self) -> None:
        """Wait until the node answers."""
        deadline = time.monotonic() + 90
        while not self._answers():
            if self._process is None or self._process.poll() is not None or time.monotonic() > deadline:
                log_text = (self.directory / "server.log").read_text()[-3000:]
                raise RuntimeError(f"Kafka did not start: {log_text}")
            time.sleep(0.1)

    def _watch(self, pid: int) -> None:
        """Let a shell kill the broker when its owner is gone, however it went."""
        script = f"while kill -0 {self._owner} 2>/dev/null; do sleep 1; done; kill -9 {pid} 2>/dev/null"
        watcher = subprocess.Popen(
            ["sh", "-c", script], start_new_session=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        for process in (watcher, self._process):  # else they are missed when this object goes before them
            threading.Thread(target=process.wait, daemon=True).start()

    def _answers(self) -> bool:
        from kafka.admin import KafkaAdminClient
        from kafka.errors import KafkaError

        try:
            socket.create_connection(("127.0.0.1", self._ports[0]), 1).close()
            admin = KafkaAdminClient(bootstrap_servers=self.servers, bootstrap_timeout_ms=2000)
        except (OSError, KafkaError):
            return False
        with contextlib.closing(admin):
            try:
                admin.list_topics()
            except KafkaError:
                return False
        return True

    @property
    def running(self) -> bool:
        """Whether the node has been started and not ended."""
        return self._process is not None

    def kill(self) -> None:
        """End the node at once, as a power cut does."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End the node in order."""
        self._end(signal.SIGTERM)

    def freeze(self) -> None:
        """Let the node hang: it keeps its connections and answers nothing."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)
            self.frozen = True

    def thaw(self) -> None:
        """Let a frozen node go on."""
        if self._process is not None and self.frozen:
            self._process.send_signal(signal.SIGCONT)
        self.frozen = False

    def _end(self, number: int) -> None:
        if self._process is None:
            return
        self._process.send_signal(number)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None


@contextlib.contextmanager
def running_broker() -> Iterator[str]:
    """Yield the address of the broker that ``STREAMK_TEST_KAFKA`` names, or of a new one, removed at the end.

    Raises
    ------
    RuntimeError
        If the variable is not set and this machine has no Java or no Maven.
    """
    if given := os.environ.get("STREAMK_TEST_KAFKA"):
        yield given
        return
    if why := lacking():
        remedy = "install Java 17 and Maven, or set STREAMK_TEST_KAFKA to the host:port of a broker"
        raise RuntimeError(f"Apache Kafka cannot be started here, since {why}; {remedy}")
    with tempfile.TemporaryDirectory() as directory:
        broker = Broker(Path(directory))
        try:
            broker.start()
            yield broker.servers
        finally:
            broker.kill()
