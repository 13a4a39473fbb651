"""confluent-kafka in kafka-python's words: settings, errors, and the membership of a group.

confluent-kafka takes the proof that somebody is in a group only from a consumer of its own, as bytes whose
layout it does not document; they are made here. So the version is pinned, and another one is refused rather
than tried.
"""

from __future__ import annotations

import ssl
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

from kafka import errors as kafka_errors

from connectors.errors import USAGE, Failure
from connectors.kafka.sections import Kafka

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


def load() -> Any:
    """Return the library.

    Raises
    ------
    Failure
        If it is not installed, or another version of it.
    """
    cure = "pip install 'streamk[confluent]'"
    try:
        import confluent_kafka
    except ImportError:
        raise Failure(USAGE, f"kafka.producer: confluent-kafka is not installed: {cure}") from None
    found = version("confluent-kafka")
    if not found.startswith(KNOWN):
        raise Failure(USAGE, f"kafka.producer: confluent-kafka is {found}, and {KNOWN}x is wanted: {cure}")
    return confluent_kafka


def configuration(kafka: Kafka) -> dict[str, Any]:
    """Return the settings of a connection in librdkafka's words.

    >>> found = configuration(Kafka(servers=["a:9092", "b:9092"], tls=True, ca="ca.pem"))
    >>> [found[key] for key in ("bootstrap.servers", "security.protocol", "ssl.ca.location")]
    ['a:9092,b:9092', 'ssl', 'ca.pem']
    """
    found: dict[str, Any] = {
        "bootstrap.servers": ",".join(kafka.servers),
        "client.id": "streamk",
        "security.protocol": ("sasl_" if kafka.mechanism else "") + ("ssl" if kafka.tls else "plaintext"),
        "reconnect.backoff.max.ms": 2000,
    }
    if kafka.tls:
        usual = ssl.get_default_verify_paths()  # so that both clients trust the same authorities
        if authority := kafka.ca or usual.cafile or usual.capath:
            found["ssl.ca.location"] = str(authority)
        found["ssl.endpoint.identification.algorithm"] = "https" if kafka.check_hostname else "none"
        if kafka.certificate:
            found["ssl.certificate.location"] = str(kafka.certificate)
            found["ssl.key.location"] = str(kafka.certificate_key or kafka.certificate)
        if kafka.certificate_password is not None:
            found["ssl.key.password"] = kafka.certificate_password.get_secret_value()
    if kafka.mechanism and kafka.password is not None:
        found["sasl.mechanism"] = kafka.mechanism
        found["sasl.username"] = kafka.username
        found["sasl.password"] = kafka.password.get_secret_value()
    return found


@contextmanager
def translated(library: Any) -> Iterator[None]:
    """Turn the library's errors into kafka-python's, which the run knows how to take."""
    try:
        yield
    except library.KafkaException as exception:
        found = exception.args[0]
        code, text = found.code(), found.str()
        if code >= 0:
            error = kafka_errors.for_code(code)  # the protocol's own
        elif found.fatal():
            error = kafka_errors.ProducerFencedError
        else:
            error = _LOCAL.get(found.name(), kafka_errors.KafkaConnectionError)
        raise error(text) from None


def membership(member: Any) -> bytes:
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
    given = b"\1" if instance is None else b"\0" + instance.encode() + b"\0"  # whether it is null comes first
    return b"CGMDv2:" + struct.pack("<i", generation) + texts + given
