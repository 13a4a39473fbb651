"""How to reach the brokers, and what their errors mean for a run."""

from __future__ import annotations

import contextlib
import queue
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from kafka import KafkaConsumer, TopicPartition
from kafka import errors as kafka_errors
from kafka.admin import KafkaAdminClient

from connectors.errors import (
    CHECKPOINT,
    DENIED,
    SINK,
    USAGE,
    BrokerUnavailable,
    Failure,
    Interruption,
    UnreadableRecords,
)
from connectors.kafka.connectivity import REFUSALS, check_connectivity, log_in
from connectors.kafka.records import UnreadableBatchError
from connectors.kafka.sections import Kafka

T = TypeVar("T")
MEMBER = "streamk-"  # with which the names of daemons begin, in groups and transactions
PATIENCE = 15.0  # seconds for one request
_AGAIN = 0.1  # seconds between two attempts to reach a broker
_UNREADABLE = (UnreadableBatchError, kafka_errors.CorruptRecordError, kafka_errors.UnsupportedCodecError)
_NO_BROKER = (kafka_errors.BrokerNotAvailableError,)  # which the client does not call retriable
_REJECTIONS = (kafka_errors.InvalidRecordError, kafka_errors.InvalidTimestampError)
# of every consumer: offsets are committed with checkpoints, and what no transaction has committed is not read
READING = {
    "enable_auto_commit": False, "isolation_level": "read_committed", "allow_auto_create_topics": False,
}  # fmt: skip


def partition_name(partition: TopicPartition) -> str:
    """Return the name of a partition, as ``clicks-3``."""
    return f"{partition.topic}-{partition.partition}"


def identify(consumer: KafkaConsumer, topic: str) -> str:
    """Return what tells a topic from another of its name, made later or on another cluster."""
    cluster = consumer._cluster
    found = cluster.topic_id(topic)
    return f"{cluster.cluster_id or ''}/{'' if found is None else found.hex}".rstrip("/")


def refresh(consumer: KafkaConsumer) -> None:
    """Ask the brokers anew for the topics that a consumer reads, and for no others.

    Asked is the group's coordinator, who has a connection of its own: on others an answer would come behind
    the records that the consumer waits for. Where it cannot be reached, the others are asked
    once the consumer has given it up, and for a while.
    """
    cluster, manager, until = consumer._cluster, consumer._manager, time.monotonic() + PATIENCE
    again = cluster.metadata_refresh_in_progress  # what is under way was asked before
    while True:
        found = manager.call_soon(cluster.refresh_metadata, consumer._coordinator.coordinator_id)
        try:
            consumer._net.run(manager.wait_for, found, int(PATIENCE * 1000))
            if not again:
                return
            again = False
        except (kafka_errors.KafkaConnectionError, kafka_errors.NodeNotReadyError):
            if time.monotonic() > until:
                raise
            time.sleep(_AGAIN)


def options(kafka: Kafka) -> dict[str, Any]:
    """Return the settings in the client's words, after a connectivity check.

    Raises
    ------
    Failure
        If a certificate cannot be read, or the brokers' or this client's is refused.
    Interruption
        If no broker answers.
    """
    found: dict[str, Any] = {
        "bootstrap_servers": list(kafka.servers),
        "client_id": "streamk",
        "bootstrap_timeout_ms": int(PATIENCE * 1000),
        "reconnect_backoff_max_ms": 2000,
        "metrics_enabled": False,
        "security_protocol": ("SASL_" if kafka.mechanism else "") + ("SSL" if kafka.tls else "PLAINTEXT"),
    }
    context = _context(kafka) if kafka.tls else None
    if context:
        found["ssl_context"] = context
    if kafka.mechanism and kafka.password is not None:
        found["sasl_mechanism"] = kafka.mechanism
        found["sasl_plain_username"] = kafka.username
        found["sasl_plain_password"] = kafka.password.get_secret_value()
    check_connectivity(kafka, context)
    if kafka.mechanism:
        with explained("kafka"):
            log_in(found)
    return found


def administrator(found: dict[str, Any]) -> KafkaAdminClient:
    """Return a client for groups, from what :func:`options` gave."""
    return KafkaAdminClient(**{key: value for key, value in found.items() if key != "metrics_enabled"})


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


@contextlib.contextmanager
def explained(what: str) -> Iterator[None]:
    """Turn the client's errors into a Failure, if trying again is of no use, or into an Interruption.

    Errors that the client calls retriable mean that no broker answers (:class:`BrokerUnavailable`); sessions
    restart after all others, known here or not, up to ``limits.restarts`` times in a row.
    """
    try:
        yield
    except REFUSALS as error:
        raise Failure(DENIED, f"{what}: the broker refuses it: {_words(error)}") from None
    except kafka_errors.MessageSizeTooLargeError as error:
        raise Failure(
            SINK, f"{what}: a message is larger than the topic takes (its max.message.bytes): {_words(error)}"
        ) from None
    except _REJECTIONS as error:
        raise Failure(
            SINK,
            f"{what}: a topic rejects a message ({_words(error)}); a compacted topic takes only messages "
            "of events with a key, and message.timestamp.before.max.ms bounds their age",
        ) from None
    except kafka_errors.InconsistentGroupProtocolError:
        raise Failure(
            USAGE,
            f"{what}: another program is a member of this group; choose a source.group that only daemons of "
            "this model use",
        ) from None
    except kafka_errors.FencedInstanceIdError:
        raise Failure(
            CHECKPOINT,
            f"{what}: another process has this one's identity: is its checkpoints.directory a copy? Remove "
            "the file 'identity' from one of them",
        ) from None
    except kafka_errors.InvalidSessionTimeoutError:
        raise Failure(
            USAGE,
            "kafka.session_seconds: the broker allows no such time (its group.min.session.timeout.ms and "
            "group.max.session.timeout.ms)",
        ) from None
    except (kafka_errors.InvalidTopicError, kafka_errors.InvalidGroupIdError) as error:
        raise Failure(USAGE, f"{what}: {_words(error)}") from None
    except kafka_errors.KafkaConfigurationError as error:
        raise Failure(USAGE, f"{what}: {error}") from None
    except _UNREADABLE as error:
        raise UnreadableRecords(f"{what}: {_words(error)}") from None
    except kafka_errors.KafkaTimeoutError as error:
        hint = (
            "; the port is open, so are kafka.tls and kafka.mechanism right?"
            if "bootstrap" in str(error)
            else ""
        )
        raise BrokerUnavailable(f"{what}: {_words(error)}{hint}") from None
    except kafka_errors.KafkaError as error:
        kind = BrokerUnavailable if error.retriable or isinstance(error, _NO_BROKER) else Interruption
        raise kind(f"{what}: {_words(error)}") from None


def _words(error: BaseException) -> str:
    text = str(error)
    return text if text else type(error).__name__


def require_topics(consumer: KafkaConsumer, topics: dict[str, str]) -> None:
    """Raise Failure if a topic is not there; ``topics`` has settings and names."""
    there = consumer.topics()  # without those that this client may not describe
    for key, topic in topics.items():
        if topic not in there:
            raise Failure(
                USAGE,
                f"{key}: there is no topic {topic!r} that this client may describe; create it, fix the name, "
                "or allow DESCRIBE on it",
            )


def partitions_of(consumer: KafkaConsumer, topic: str, numbers: Sequence[int] | None) -> list[TopicPartition]:
    """Return the partitions of these numbers, all of a topic if None; raise Failure if one is not there."""
    there = consumer.partitions_for_topic(topic)
    if strange := set(numbers or ()) - there:
        raise Failure(USAGE, f"--partition: {topic} has no partition {min(strange)}")
    return [TopicPartition(topic, n) for n in sorted(numbers or there)]


def describe(topic: str, key: str, found: dict[str, Any]) -> tuple[list[str], str]:
    """Return the names of a topic's partitions, in order, and its identity.

    ``key`` is the setting that names it, ``found`` what :func:`options` gave.
    """
    with explained(key), contextlib.closing(KafkaConsumer(**found)) as consumer:
        require_topics(consumer, {key: topic})
        return [partition_name(p) for p in partitions_of(consumer, topic, None)], identify(consumer, topic)


def member_name(model: str) -> str:
    """Return the name of a model's daemon in its group, and in transactions."""
    return f"{MEMBER}{model}"


class Worker:
    """A thread for calls that may never return: they are given up after a while.

    kafka-python's transactions wait without a limit. The thread is a daemon: a call that hangs does not keep
    the process.
    """

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[tuple[Callable[[], Any], queue.SimpleQueue[Any]] | None]
        self._jobs = queue.SimpleQueue()
        threading.Thread(target=self._work, name="transactions", daemon=True).start()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            call, answer = job
            try:
                answer.put((call(), None))
            except BaseException as error:
                answer.put((None, error))

    def do(self, call: Callable[[], T], seconds: float) -> T:
        """Return what the call returns.

        Raises
        ------
        Interruption
            If it takes longer.
        """
        answer: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()
        self._jobs.put((call, answer))
        try:
            value, error = answer.get(timeout=seconds)
        except queue.Empty:
            raise BrokerUnavailable(f"the broker has not answered for {seconds:.0f} seconds") from None
        if error is not None:
            raise error
        return value  # type: ignore[no-any-return]

    def end(self) -> None:
        """Let the thread go when it can."""
        self._jobs.put(None)
