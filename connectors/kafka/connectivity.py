"""The connectivity check: a first connection, which finds at once what the client would retry for long.

kafka-python goes on trying where a certificate is not trusted or a password is wrong, and over TLS it loses
the answer of a broker that hangs up right after it.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from typing import Any

from kafka import errors as kafka_errors
from kafka.net.compat import KafkaNetClient

from connectors.errors import DENIED, USAGE, BrokerUnavailable, Failure
from connectors.kafka.sections import Kafka

REFUSALS = (
    kafka_errors.SaslAuthenticationFailedError,
    kafka_errors.UnsupportedSaslMechanismError,
    kafka_errors.IllegalSaslStateError,
    kafka_errors.AuthorizationError,
)
_ATTEMPTS = 3  # to log in; a broker that hangs up each time means no
_LOGIN = 10_000  # milliseconds


def check_connectivity(kafka: Kafka, context: ssl.SSLContext | None) -> None:
    """Open and close a connection: the client itself would retry a refused certificate for ever."""
    reasons = []
    for server in kafka.servers:
        host, _, port = server.rpartition(":")
        if not host or not port.isdigit():
            raise Failure(USAGE, f"kafka.servers: {server!r} is not host:port")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), 5.0) as plain:
                if context:
                    _shake_hands(plain, host.strip("[]"), context)
            return
        except ssl.SSLCertVerificationError as error:
            raise Failure(
                DENIED,
                f"kafka.servers: {server}'s certificate is not trusted (kafka.ca): {error.verify_message}",
            ) from None
        except ssl.SSLError as error:
            raise Failure(
                DENIED,
                f"kafka.servers: {server} refused the TLS connection: {error.reason or error} (kafka.tls)",
            ) from None
        except (UnicodeError, OverflowError, ValueError) as error:
            raise Failure(USAGE, f"kafka.servers: {server!r} is not host:port ({error})") from None
        except OSError as error:
            reasons.append(f"{server}: {error.strerror or error}")
    raise BrokerUnavailable(f"no broker answers ({'; '.join(reasons)})")


def _shake_hands(plain: socket.socket, host: str, context: ssl.SSLContext) -> None:
    with context.wrap_socket(plain, server_hostname=host) as secure:
        secure.settimeout(0.3)
        with contextlib.suppress(TimeoutError):
            secure.recv(1)  # where a refusal of this client's certificate would come


def log_in(found: dict[str, Any]) -> None:
    """Log in to the first broker that answers, and out again.

    Raises
    ------
    KafkaError
        If no broker can be asked, or one refuses the credentials.
    Failure
        If the brokers hang up whenever they get them.
    """
    for _ in range(_ATTEMPTS):
        client = KafkaNetClient(**found)
        client._net.start()
        try:
            client._net.run(_greet, client._manager)
            return
        except _HungUpError:
            time.sleep(0.3)
        finally:
            client.close()
    raise Failure(
        DENIED,
        "kafka: the broker refuses it: it hangs up on kafka.mechanism, kafka.username and kafka.password",
    )


class _HungUpError(Exception):
    """The broker ended the connection while the credentials were on their way."""


async def _greet(manager: Any) -> None:
    *others, last = manager.cluster.bootstrap_brokers()
    for node in [*others, last]:
        connection = manager.get_connection(node.node_id, timeout_ms=_LOGIN, pop_on_close=False)
        login = connection._sasl_authenticate
        troubles: list[Exception] = []

        async def noting(*arguments: Any, login: Any = login, troubles: list[Exception] = troubles) -> None:
            try:
                await login(*arguments)
            except Exception as error:
                troubles.append(error)
                raise

        connection._sasl_authenticate = noting
        try:
            await connection
        except kafka_errors.KafkaError:
            await manager._net.sleep(0.2)  # that the broker hung up is known before what it said
            if troubles:
                raise (troubles[0] if isinstance(troubles[0], REFUSALS) else _HungUpError) from None
            if node is last:
                raise
        else:
            return
