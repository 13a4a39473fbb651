"""kafka-python's transactions where their coordinator is lost: two faults of the client, in one place.

A *lost request*. The client's sender takes a request for the coordinator from its queue and waits until that
node is ready. It looks up the coordinator again and puts the request back where the wait returns False; but
the wait raises, and then the request is dropped, so that the transaction never ends (in 3.0.12
``kafka.producer.sender.Sender._maybe_send_pending_request``). :func:`follow` makes the wait return False.

A *repeated request*. After a lost connection the client sends the end of a transaction again, and the next
transaction has the same epoch of the producer. A broker may process the first request after the second one,
and then ends the next transaction, perhaps in its midst (KIP-890). So the caller has to begin a
new epoch before the next transaction; :class:`Coordination` says when. Brokers since 4.0 change the epoch
with every transaction, for clients of transaction version 2, which this client is not.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from kafka import KafkaProducer
from kafka import errors as kafka_errors
from kafka.protocol.metadata import CoordinatorType

_AGAIN = 0.1  # seconds before the next attempt to reach a node that is not ready


class Coordination:
    """Notes whether a coordinator was lost.

    Attributes
    ----------
    lost
        Whether one was lost that had been found, so that requests to it may have been repeated.
    """

    def __init__(self) -> None:
        self.lost = False

    def observed(
        self,
        look_up: Callable[[CoordinatorType, str], None],
        known: Callable[[CoordinatorType], object],
    ) -> Callable[[CoordinatorType, str], None]:
        """Return a look-up of a coordinator that notes the loss of one that is known."""

        def observed(kind: CoordinatorType, key: str) -> None:
            self.lost |= known(kind) is not None
            look_up(kind, key)

        return observed


def follow(producer: KafkaProducer) -> Coordination:
    """Let a producer keep the requests to a coordinator that is lost, and return what notes such losses.

    It must not have been used yet.
    """
    found = Coordination()
    client, manager = producer._sender._client, producer._transaction_manager
    client.await_ready = patient(client.await_ready)
    manager._lookup_coordinator = found.observed(manager._lookup_coordinator, manager.coordinator)
    return found


def patient(await_ready: Callable[..., bool]) -> Callable[..., bool]:
    """Return a wait for a node that returns False, a little later, where the client's own raises.

    >>> def never(node, timeout_ms=0):
    ...     raise kafka_errors.KafkaConnectionError("not ready")
    >>> patient(never)(1, timeout_ms=5)
    False
    """

    def ready(node: object, timeout_ms: float = 30_000) -> bool:
        try:
            return await_ready(node, timeout_ms=timeout_ms)
        except kafka_errors.KafkaError:
            time.sleep(_AGAIN)
            return False

    return ready
