"""confluent-kafka's producer next to kafka-python's consumer.

Both take part in one transaction: the producer sends the consumer's positions, and proves with the consumer's
membership of its group that it owns them. A broker refuses the positions of a member, or of a generation,
that is no longer in the group. Settings and errors are translated from and to kafka-python's.

confluent-kafka takes the proof of a membership only from its consumer, as bytes whose layout it does not
document; they are made here. So the version is pinned, and any other one is refused.
"""

from __future__ import annotations

import logging
import ssl
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from importlib.metadata import version
from types import ModuleType
from typing import Any

from kafka import errors as kafka_errors

from connectors.contract.errors import USAGE, Failure
from connectors.contract.records import Headers as RecordHeaders
from connectors.kafka.client import PATIENCE
from connectors.kafka.producer import (
    BATCH,
    COMPRESSION,
    LARGEST,
    LINGER,
    LONGEST,
    Content,
    Headers,
    Member,
    Offsets,
)
from connectors.kafka.sections import Kafka

_log = logging.getLogger("kafka.librdkafka")
_WAIT = 0.1  # seconds between two attempts to send where too much waits
_CLOSING = 2.0  # seconds
_TOKEN = 60.0  # seconds after which the file with the token is read again
_CONNECTED = "in state UP"  # in the log line of a connection over which requests were sent
KNOWN = "2.16."  # versions of confluent-kafka whose bytes of a membership are known
_LOCAL: dict[str, type[kafka_errors.KafkaError]] = {  # errors that no broker sent, by librdkafka's names
    "_TIMED_OUT": kafka_errors.KafkaTimeoutError,
    "_TIMED_OUT_QUEUE": kafka_errors.KafkaTimeoutError,
    "_MSG_TIMED_OUT": kafka_errors.KafkaTimeoutError,
    "_FENCED": kafka_errors.ProducerFencedError,
    "_FATAL": kafka_errors.ProducerFencedError,  # of a transaction, fatal is what another's made it
    "_STATE": kafka_errors.InvalidProducerEpochError,  # so is an end where none is open
    "_AUTHENTICATION": kafka_errors.SaslAuthenticationFailedError,
    "_UNKNOWN_TOPIC": kafka_errors.UnknownTopicOrPartitionError,
    "_UNKNOWN_PARTITION": kafka_errors.UnknownTopicOrPartitionError,
    "_INVALID_ARG": kafka_errors.KafkaConfigurationError,
}


def load_library() -> ModuleType:
    """Return the library.

    Raises
    ------
    Failure
        If it is not installed, or another version of it.
    """
    remedy = "pip install 'streamk[confluent]'"
    try:
        import confluent_kafka
    except ImportError:
        raise Failure(USAGE, f"kafka.producer: confluent-kafka is not installed: {remedy}") from None
    installed = version("confluent-kafka")
    if not installed.startswith(KNOWN):
        raise Failure(
            USAGE, f"kafka.producer: confluent-kafka is {installed}, and {KNOWN}x is wanted: {remedy}"
        )
    return confluent_kafka


def configuration(kafka: Kafka) -> dict[str, str | int | None]:
    """Return the settings of a connection in librdkafka's words.

    >>> properties = configuration(Kafka(servers=["a:9092", "b:9092"], tls=True, ca="ca.pem"))
    >>> [properties[key] for key in ("bootstrap.servers", "security.protocol", "ssl.ca.location")]
    ['a:9092,b:9092', 'ssl', 'ca.pem']
    """
    properties: dict[str, str | int | None] = {
        "bootstrap.servers": ",".join(kafka.servers),
        "client.id": "streamk",
        "security.protocol": ("sasl_" if kafka.mechanism else "") + ("ssl" if kafka.tls else "plaintext"),
        "reconnect.backoff.max.ms": 2000,
    }
    if kafka.tls:
        usual = ssl.get_default_verify_paths()  # so that both clients trust the same authorities
        if authority := kafka.ca or usual.cafile or usual.capath:
            properties["ssl.ca.location"] = str(authority)
        properties["ssl.endpoint.identification.algorithm"] = "https" if kafka.check_hostname else "none"
        if kafka.certificate:
            properties["ssl.certificate.location"] = str(kafka.certificate)
            properties["ssl.key.location"] = str(kafka.certificate_key or kafka.certificate)
        if kafka.certificate_password is not None:
            properties["ssl.key.password"] = kafka.certificate_password.get_secret_value()
    if kafka.mechanism:
        properties["sasl.mechanism"] = kafka.mechanism
    if kafka.mechanism and kafka.password is not None:
        properties["sasl.username"] = kafka.username
        properties["sasl.password"] = kafka.password.get_secret_value()
    return properties


@contextmanager
def translated(library: ModuleType) -> Iterator[None]:
    """Turn the library's errors into kafka-python's, which the run handles."""
    try:
        yield
    except library.KafkaException as exception:
        reported = exception.args[0]
        code, text = reported.code(), reported.str()
        if code >= 0:
            error = kafka_errors.for_code(code)  # an error of the protocol
        elif reported.fatal():
            error = kafka_errors.ProducerFencedError
        else:
            error = _LOCAL.get(reported.name(), kafka_errors.KafkaConnectionError)
        raise error(text) from None


def membership(member: Member) -> bytes:
    r"""Return kafka-python's metadata of a member, or the name of a group, as confluent-kafka has it.

    >>> membership("jobs")
    b'CGMDv2:\xff\xff\xff\xffjobs\x00\x00\x01'
    """
    if isinstance(member, str):
        return encoded_membership(-1, member, "", None)
    return encoded_membership(
        member.generation_id, member.group_id, member.member_id, member.group_instance_id
    )


def encoded_membership(generation: int, group: str, member: str, instance: str | None) -> bytes:
    """Return what a member of a group is, in the bytes of librdkafka 2.16."""
    texts = b"".join(text.encode() + b"\0" for text in (group, member))
    encoded_instance = (
        b"\1" if instance is None else b"\0" + instance.encode() + b"\0"
    )  # whether it is null comes first
    return b"CGMDv2:" + struct.pack("<i", generation) + texts + encoded_instance


class ConfluentProducer:
    """confluent-kafka's.

    Parameters
    ----------
    kafka
        Settings.
    name
        The identity in transactions.
    largest
        Bytes of a batch that every topic takes.

    Raises
    ------
    Failure
        If the library is not installed, or another version of it.
    """

    def __init__(self, kafka: Kafka, name: str, largest: int) -> None:
        self._library = load_library()
        self._lost = False
        self._failed: list[int] = []  # codes of messages that were not delivered
        token = (
            {} if kafka.token_file is None else {"oauth_cb": lambda _: (kafka.token(), time.time() + _TOKEN)}
        )
        with self._translated():
            self._producer = self._library.Producer(
                {
                    **configuration(kafka),
                    **token,
                    "transactional.id": name,
                    "transaction.timeout.ms": int(LONGEST * 1000),
                    "delivery.timeout.ms": int(LONGEST * 1000),
                    "socket.timeout.ms": int(PATIENCE * 1000),
                    "message.max.bytes": LARGEST,
                    "compression.type": COMPRESSION,
                    "queue.buffering.max.messages": 1_000_000,
                    "linger.ms": LINGER,
                    "batch.size": min(BATCH, largest),  # what a topic does not take at once is not split
                    "partitioner": "murmur2_random",  # a key's partition is that of every other client
                    "delivery.report.only.error": True,
                    "on_delivery": self._delivered,
                },
                logger=self,
            )

    def _delivered(self, error: Any, message: object) -> None:
        if error is not None:
            self._failed.append(error.code())

    def log(self, level: int, message: str, *arguments: object) -> None:
        """Take a line of the library's log, the only place where it reports a lost connection.

        It repeats requests over another one. The line names the state of the connection, since failed
        attempts to connect are reported, too, as long as a broker is down.
        """
        self._lost |= _CONNECTED in message % arguments
        _log.log(level, message, *arguments)

    def unclear(self) -> bool:
        """Return whether a connection was lost."""
        self._serve(0.0)
        return self._lost

    def _translated(self) -> AbstractContextManager[None]:
        return translated(self._library)

    def _serve(self, seconds: float) -> None:
        """Let the library report failures; a fatal one is also raised by the next call."""
        with suppress(kafka_errors.KafkaError), self._translated():
            self._producer.poll(seconds)

    def open(self) -> None:
        """Abort what a process of the same name has left open, and fence that process."""
        with self._translated():
            self._producer.init_transactions(LONGEST)
        self._serve(0.0)
        self._lost = False

    def begin(self) -> None:
        """Begin a transaction."""
        with self._translated():
            self._producer.begin_transaction()

    def send(
        self, topic: str, value: Content, key: Content, headers: Headers, partition: int | None = None
    ) -> None:
        """Take a message into the transaction, once the queue has space."""
        place = {} if partition is None else {"partition": partition}
        if headers:  # the library would cut a name at a NUL
            headers = [(name.replace("\0", "\ufffd"), value) for name, value in headers]
        self._put(topic, value, key, headers, place)

    def _put(
        self, topic: str, value: Content, key: Content, headers: Headers, place: Mapping[str, int]
    ) -> None:
        try:
            self._producer.produce(topic, value, key, headers=headers, **place)
        except BufferError:
            self._send_slowly(topic, value, key, headers, place)
        except self._library.KafkaException:
            with self._translated():
                raise

    def send_many(
        self, topic: str, values: Sequence[bytes], keys: Sequence[bytes | None], headers: RecordHeaders = ()
    ) -> None:
        """Take messages with the same headers into the transaction."""
        same: Headers = [*headers]
        for value, key in zip(values, keys, strict=True):
            self._put(topic, value, key, same, {})

    def _send_slowly(
        self, topic: str, value: bytes | None, key: bytes | None, headers: Headers, place: Mapping[str, int]
    ) -> None:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            self._serve(_WAIT)
            with suppress(BufferError), self._translated():
                self._producer.produce(topic, value, key, headers=headers, **place)
                return
        raise kafka_errors.KafkaTimeoutError(f"no message was accepted for {PATIENCE:.0f} seconds")

    def commit(self, offsets: Offsets, member: Member) -> None:
        """End the transaction, the positions in it."""
        self._serve(0.0)
        places = [
            self._library.TopicPartition(place.topic, place.partition, at.offset, at.metadata)
            for place, at in offsets.items()
        ]
        with self._translated():
            if places:
                self._producer.send_offsets_to_transaction(places, membership(member), LONGEST)
            self._producer.commit_transaction(LONGEST)

    def too_large(self) -> bool:
        """Return whether a message was larger than its topic takes."""
        self._serve(0.0)
        return self._library.KafkaError.MSG_SIZE_TOO_LARGE in self._failed

    def abort(self) -> None:
        """Abort the transaction."""
        with self._translated():
            self._producer.abort_transaction(_CLOSING)

    def close(self) -> None:
        """Close the connections at once, and drop messages in transit.

        The library's ``close`` would retry to abort what is open, and warn of it.
        """
        with self._translated():
            self._producer.purge()
            self._producer.flush(_CLOSING)
        del self._producer  # which ends its threads

    def discard(self) -> None:
        """Do nothing: every call of the library has a limit."""
