"""The client of the brokers: connections, settings in the client's words, and what errors mean for a run."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from kafka import KafkaConsumer, TopicPartition
from kafka import errors as kafka_errors
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from kafka.net.compat import KafkaNetClient
from kafka.net.manager import KafkaConnectionManager
from kafka.net.sasl.oauth import AbstractTokenProvider

from connectors.contract.errors import (
    CHECKPOINT,
    DENIED,
    SINK,
    USAGE,
    BrokerUnavailable,
    Failure,
    Interruption,
    UnreadableRecords,
)
from connectors.contract.records import Raw
from connectors.kafka.records import UnreadableBatchError
from connectors.kafka.sections import OF_CLIENTS, Kafka, is_pattern, matching
from streamk.arrays import Json

REFUSALS = (
    kafka_errors.SaslAuthenticationFailedError,
    kafka_errors.UnsupportedSaslMechanismError,
    kafka_errors.IllegalSaslStateError,
    kafka_errors.AuthorizationError,
)
MEMBER = "streamk-"  # with which the names of daemons begin, in groups and transactions
PATIENCE = 15.0  # seconds for one request
_ANSWER = 3.0  # seconds for a first answer, after which a server hangs
_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)  # request 18, ApiVersions, of version 0: before any login
_PORTS = 65_535
_AGAIN = 0.1  # seconds between two attempts to reach a broker
_UNREADABLE = (UnreadableBatchError, kafka_errors.CorruptRecordError, kafka_errors.UnsupportedCodecError)
_NO_BROKER = (kafka_errors.BrokerNotAvailableError,)  # which the client does not call retriable
Options = Json  # of a client, by their names in kafka-python
# of every consumer: offsets are committed with checkpoints, and what no transaction has committed is not read
READING: Options = {
    "enable_auto_commit": False, "isolation_level": "read_committed", "allow_auto_create_topics": False,
}  # fmt: skip
_ATTEMPTS = 3  # to log in; a broker that closes the connection each time refuses
_LOGIN = 10_000  # milliseconds


def answering(servers: Sequence[str], context: ssl.SSLContext | None) -> list[str]:
    """Return the servers that answer; all if none does and one can be connected to.

    The client draws one of its servers, and waits for it even where it hangs. It also would retry a refused
    certificate forever.

    Raises
    ------
    Failure
        If a server is no ``host:port``, or a certificate is refused.
    BrokerUnavailable
        If none can be connected to.
    """
    places = {server: _place(server) for server in servers}
    with ThreadPoolExecutor(len(places)) as pool:
        tried = pool.map(lambda server: _answers(server, *places[server], context), places)
        answers = dict(zip(places, tried, strict=True))
    there = [server for server, answer in answers.items() if answer is True]
    refusals = [answer for answer in answers.values() if isinstance(answer, Failure)]
    reasons = [f"{server}: {answer}" for server, answer in answers.items() if isinstance(answer, OSError)]
    if refusals and not there:
        raise refusals[0]
    if len(reasons) == len(answers):
        raise BrokerUnavailable(f"no broker answers ({'; '.join(reasons)})")
    return there or list(servers)


def _place(server: str) -> tuple[str, int]:
    """Return host and port; raise Failure if they are none."""
    host, _, port = server.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or int(port) > _PORTS:
        raise Failure(USAGE, f"kafka.servers: {server!r} is not host:port")
    return host.strip("[]"), int(port)


def _answers(server: str, host: str, port: int, context: ssl.SSLContext | None) -> bool | Failure | OSError:
    """Return whether a server answers a request, why it refuses it, or why there is no connection."""
    try:
        with contextlib.ExitStack() as opened:
            connection = opened.enter_context(socket.create_connection((host, port), 5.0))
            if context:
                connection = opened.enter_context(context.wrap_socket(connection, server_hostname=host))
            connection.settimeout(_ANSWER)
            try:
                connection.sendall(_VERSIONS)
                return bool(connection.recv(1))  # also where a refusal of this client's certificate comes
            except (TimeoutError, ConnectionError):
                return False
    except ssl.SSLCertVerificationError as error:
        return Failure(
            DENIED,
            f"kafka.servers: {server}'s certificate is not trusted (kafka.ca): {error.verify_message}",
        )
    except ssl.SSLError as error:
        return Failure(
            DENIED,
            f"kafka.servers: {server} refused the TLS connection: {error.reason or error} (kafka.tls)",
        )
    except UnicodeError as error:
        return Failure(USAGE, f"kafka.servers: {server!r} is not host:port ({error})")
    except OSError as error:
        return OSError(error.strerror or str(error))


def log_in(client_options: Options) -> None:
    """Log in to the first broker that answers, and out again.

    Raises
    ------
    KafkaError
        If no broker answers, or one refuses the credentials.
    Failure
        If the brokers close the connection whenever they get them.
    """
    for _ in range(_ATTEMPTS):
        client = KafkaNetClient(**client_options)
        client._net.start()
        try:
            client._net.run(_greet, client._manager)
            return
        except _ClosedError:
            time.sleep(0.3)
        finally:
            client.close()
    raise Failure(
        DENIED,
        "kafka: the broker refuses it: it closes the connection on kafka.mechanism, kafka.username and "
        "kafka.password",
    )


class _ClosedError(Exception):
    """The broker ended the connection while the credentials were in transit."""


def _recording(
    login: Callable[..., Awaitable[None]], errors: list[Exception]
) -> Callable[..., Awaitable[None]]:
    """Return a login that records its errors."""

    async def recorded(*arguments: object) -> None:
        try:
            await login(*arguments)
        except Exception as error:
            errors.append(error)
            raise

    return recorded


async def _greet(manager: KafkaConnectionManager) -> None:
    *others, last = manager.cluster.bootstrap_brokers()
    for node in [*others, last]:
        connection = manager.get_connection(node.node_id, timeout_ms=_LOGIN, pop_on_close=False)
        errors: list[Exception] = []
        connection._sasl_authenticate = _recording(connection._sasl_authenticate, errors)
        try:
            await connection
        except kafka_errors.KafkaError:
            await manager._net.sleep(0.2)  # the closed connection is known before the broker's answer
            if errors:
                raise (errors[0] if isinstance(errors[0], REFUSALS) else _ClosedError) from None
            if node is last:
                raise
        else:
            return


def partition_name(partition: TopicPartition) -> str:
    """Return the name of a partition, as ``clicks-3``."""
    return f"{partition.topic}-{partition.partition}"


def topic_of(name: str) -> str:
    """Return the topic of a partition, as ``clicks`` of ``clicks-3``."""
    return name.rpartition("-")[0]


def partition_number(name: str) -> int:
    """Return the number of a partition, as 3 of ``clicks-3``."""
    return int(name.rpartition("-")[2])


def identify(consumer: KafkaConsumer, topic: str) -> str:
    """Return what distinguishes a topic from another of its name, made later or on another cluster."""
    cluster = consumer._cluster
    topic_id = cluster.topic_id(topic)
    return f"{cluster.cluster_id or ''}/{'' if topic_id is None else topic_id.hex}".rstrip("/")


def refresh(consumer: KafkaConsumer) -> None:
    """Ask the brokers again for the topics that a consumer reads, and for no others.

    The request goes to the group's coordinator, on a separate connection: others answer after
    the records that the consumer waits for. Where it cannot be reached, the others get the request once the
    consumer has abandoned it, and for a while.
    """
    cluster, manager, until = consumer._cluster, consumer._manager, time.monotonic() + PATIENCE
    again = cluster.metadata_refresh_in_progress  # the request in progress began before
    while True:
        request = manager.call_soon(cluster.refresh_metadata, consumer._coordinator.coordinator_id)
        try:
            consumer._net.run(manager.wait_for, request, int(PATIENCE * 1000))
            if not again:
                return
            again = False
        except (kafka_errors.KafkaConnectionError, kafka_errors.NodeNotReadyError):
            if time.monotonic() > until:
                raise
            time.sleep(_AGAIN)


def all_topics(consumer: KafkaConsumer) -> set[str]:
    """Return the topics that are there now; what a consumer reads does not change."""
    consumer._cluster.need_all_topic_metadata = True
    try:
        refresh(consumer)
    finally:
        consumer._cluster.need_all_topic_metadata = False
    return set(consumer._cluster.topics())


def options(kafka: Kafka) -> Options:
    """Return the settings in the client's words, after a connectivity check.

    Raises
    ------
    Failure
        If a certificate cannot be read, or the brokers' or this client's is refused.
    Interruption
        If no broker answers.
    """
    client_options: Options = {
        "client_id": "streamk",
        "bootstrap_timeout_ms": int(PATIENCE * 1000),
        "reconnect_backoff_max_ms": 2000,
        "metrics_enabled": False,
        "security_protocol": ("SASL_" if kafka.mechanism else "") + ("SSL" if kafka.tls else "PLAINTEXT"),
    }
    context = _context(kafka) if kafka.tls else None
    if context:
        client_options["ssl_context"] = context
    client_options |= kafka.options_of(OF_CLIENTS)
    if kafka.mechanism:
        client_options["sasl_mechanism"] = kafka.mechanism
    if kafka.token_file is not None:
        client_options["sasl_oauth_token_provider"] = TokenFile(kafka)
    elif kafka.mechanism and kafka.password is not None:
        client_options["sasl_plain_username"] = kafka.username
        client_options["sasl_plain_password"] = kafka.password.get_secret_value()
    client_options["bootstrap_servers"] = answering(kafka.servers, context)
    if kafka.mechanism:
        with explained("kafka"):
            log_in(client_options)
    return client_options


@AbstractTokenProvider.register
class TokenFile:
    """Gives the client the token that ``kafka.token_file`` holds now."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka

    def token(self) -> str:
        """Return the token, raising Failure if the file cannot be read."""
        try:
            return self._kafka.token()
        except (OSError, UnicodeDecodeError) as error:
            path = self._kafka.token_file
            raise Failure(USAGE, f"kafka.token_file: {path} cannot be read: {error}") from None

    def extensions(self) -> dict[str, str]:
        """Return none."""
        return {}


def administrator(client_options: Options) -> KafkaAdminClient:
    """Return a client for groups, from what :func:`options` returned."""
    there = answering(client_options["bootstrap_servers"], client_options.get("ssl_context"))
    client_options = {key: value for key, value in client_options.items() if key != "metrics_enabled"}
    return KafkaAdminClient(**{**client_options, "bootstrap_servers": there})


def _context(kafka: Kafka) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=kafka.ca)
        context.check_hostname = kafka.check_hostname
        if kafka.certificate:
            secret = kafka.certificate_password
            password = secret.get_secret_value() if secret else ""
            context.load_cert_chain(kafka.certificate, kafka.certificate_key, password)
    except (OSError, ssl.SSLError) as error:
        raise Failure(USAGE, f"kafka.ca, kafka.certificate or its key cannot be read: {error}") from None
    return context


_FAILURES = (  # errors after which a retry is of no use, the exit code, and the sentence
    (REFUSALS, DENIED, "{what}: the broker refuses it: {words}"),
    (
        kafka_errors.MessageSizeTooLargeError, SINK,
        "{what}: a message is larger than the topic takes (its max.message.bytes): {words}",
    ),
    (
        (kafka_errors.InvalidRecordError, kafka_errors.InvalidTimestampError), SINK,
        "{what}: a topic rejects a message ({words}); a compacted topic takes only messages of events with a "
        "key, and message.timestamp.before.max.ms bounds their age",
    ),
    (
        kafka_errors.InconsistentGroupProtocolError, USAGE,
        "{what}: another program is a member of this group; choose a source.group that only daemons of this "
        "model use",
    ),
    (
        kafka_errors.FencedInstanceIdError, CHECKPOINT,
        "{what}: another process has this one's identity: is its checkpoints.directory a copy? Remove the "
        "file 'identity' from one of them",
    ),
    (
        kafka_errors.InvalidSessionTimeoutError, USAGE,
        "kafka.session_seconds: the broker allows no such time (its group.min.session.timeout.ms and "
        "group.max.session.timeout.ms)",
    ),
    (
        (
            kafka_errors.InvalidTopicError, kafka_errors.InvalidGroupIdError,
            kafka_errors.KafkaConfigurationError,
        ),
        USAGE, "{what}: {words}",
    ),
)  # fmt: skip


@contextlib.contextmanager
def explained(what: str) -> Iterator[None]:
    """Turn the client's errors into a Failure, if a retry is of no use, or into an Interruption.

    Errors that the client calls retriable mean that no broker answers (:class:`BrokerUnavailable`); sessions
    restart after all others, known here or not, up to ``limits.restarts`` times in a row.
    """
    try:
        yield
    except kafka_errors.KafkaError as error:
        words = str(error) or type(error).__name__
        for kinds, code, sentence in _FAILURES:
            if isinstance(error, kinds):
                raise Failure(code, sentence.format(what=what, words=words)) from None
        kind: type[Interruption] = Interruption
        if isinstance(error, _UNREADABLE):
            kind = UnreadableRecords
        elif isinstance(error, kafka_errors.KafkaTimeoutError):
            kind = BrokerUnavailable
            if "bootstrap" in str(error):
                words += "; the port is open, so are kafka.tls and kafka.mechanism right?"
        elif error.retriable or isinstance(error, _NO_BROKER):
            kind = BrokerUnavailable
        raise kind(f"{what}: {words}") from None


def topic_configs(
    client_options: Options, topics: Iterable[str], names: Sequence[str]
) -> dict[str, dict[str, str]]:
    """Return these configurations of topics, of those topics that this client may describe."""
    resources = [ConfigResource(ConfigResourceType.TOPIC, topic, dict.fromkeys(names)) for topic in topics]
    with contextlib.closing(administrator(client_options)) as admin:
        configs = admin.describe_configs(resources, config_filter="all").get("topic", {})
    return {
        topic: {name: config[name]["value"] for name in names}
        for topic, config in configs.items()
        if config and config.keys() >= set(names)
    }


def require_topics(
    consumer: KafkaConsumer, topics: Mapping[str, str | Sequence[str]]
) -> dict[str, list[str]]:
    """Return the topics that settings name, by a name, or by a list of names and patterns.

    Raises
    ------
    Failure
        If one is not there, or a pattern matches none.
    """
    there = consumer.topics()  # without those that this client may not describe
    named = {key: [names] if isinstance(names, str) else names for key, names in topics.items()}
    for key, names in named.items():
        if missing := [name for name in names if not matching([name], there)]:
            wanted = (f"that matches {name!r}" if is_pattern(name) else repr(name) for name in missing)
            raise Failure(
                USAGE,
                f"{key}: there is no topic {' and no topic '.join(wanted)} that this client may describe; "
                "create it, fix the name, or allow DESCRIBE on it",
            )
    return {key: matching(names, there) for key, names in named.items()}


def partitions_of(
    consumer: KafkaConsumer, topics: Sequence[str], numbers: Sequence[int] | None
) -> list[TopicPartition]:
    """Return the partitions of these numbers, all if None; raise Failure if no topic has one of them."""
    there = [
        TopicPartition(topic, n) for topic in topics for n in sorted(consumer.partitions_for_topic(topic))
    ]
    if unknown := set(numbers or ()) - {place.partition for place in there}:
        raise Failure(USAGE, f"--partition: {', '.join(topics)} has no partition {min(unknown)}")
    return [place for place in there if not numbers or place.partition in numbers]


def records_between(
    consumer: KafkaConsumer, place: TopicPartition, start: int, end: int, what: str
) -> Iterator[tuple[Raw | None, int]]:
    """Yield each record between two offsets, and the offset after it; None in place of what is no record.

    Raises
    ------
    Interruption
        If the partition brings no records any more; ``what`` names it in other errors.
    """
    consumer.seek(place, start)
    at, quiet = start, 0.0
    while at < end:
        with explained(what):
            polled = consumer.poll(500).get(place, [])
            passed = consumer.position(place, int(PATIENCE * 1000))
        for raw in polled:
            if raw.offset >= end:
                yield None, end
                return
            at = raw.offset + 1
            yield raw, at
        quiet = 0.0 if polled or passed > at else quiet + 0.5
        if passed > at:  # markers of transactions, and what was aborted or compacted away
            at = passed
            yield None, at
        if quiet > 2 * PATIENCE:
            raise Interruption(f"{partition_name(place)} brings no records after {at - 1}")


def describe(topics: Sequence[str], key: str, client_options: Options) -> tuple[list[str], set[str]]:
    """Return the names of the topics' partitions, in order, and the topics' identities.

    ``key`` is the setting that names them, ``client_options`` what :func:`options` returned.
    """
    with explained(key), contextlib.closing(KafkaConsumer(**client_options)) as consumer:
        there = require_topics(consumer, {key: topics})[key]
        names = [partition_name(place) for place in partitions_of(consumer, there, None)]
        return names, {identify(consumer, topic) for topic in there}


def member_name(model: str) -> str:
    """Return the name of a model's daemon in its group, and in transactions."""
    return f"{MEMBER}{model}"
