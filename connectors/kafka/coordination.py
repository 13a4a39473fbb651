"""Four faults of kafka-python 3.0.12 in its dealings with coordinators and leaders, in one place.

A *lost request*. The client's sender takes a request for the coordinator from its queue and waits until that
node is ready. It looks up the coordinator again and puts the request back where the wait returns False; but
the wait raises, and then the request is dropped, so that the transaction never ends (in
``kafka.producer.sender.Sender._maybe_send_pending_request``). :func:`follow` makes the wait return False.

A *repeated request*. After a lost connection the client sends the end of a transaction again, and the next
transaction has the same epoch of the producer. A broker may process the first request after the second one,
and then ends the next transaction, perhaps in its midst (KIP-890). So the caller has to begin a
new epoch before the next transaction; :class:`Coordination` says when. Brokers since 4.0 change the epoch
with every transaction, for clients of transaction version 2, which this client is not.

A *forgotten join*. A join of a consumer's group that ends between two polls is forgotten, and the next poll
begins another one, for which every other member has to join again. Members that poll briefly may so rebalance
without end (``kafka.coordinator.base.BaseCoordinator.join_group_async``). :func:`keep_joins` keeps the
result for the next poll. A join that new metadata began and that outlived the poll is forgotten as well:
:func:`keep_joining`.

*Metadata that is never requested again*. See :func:`keep_refreshing`.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from kafka import KafkaConsumer, KafkaProducer
from kafka import errors as kafka_errors
from kafka.protocol.metadata import CoordinatorType
from kafka.structs import MemberState

_AGAIN = 0.1  # seconds before the next attempt to reach a node that is not ready


class Coordination:
    """Notes whether a coordinator was lost.

    Attributes
    ----------
    lost
        Whether a known coordinator was lost, so that requests to it may have been repeated.
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
    coordination = Coordination()
    client, manager = producer._sender._client, producer._transaction_manager
    client.await_ready = patient(client.await_ready)
    manager._lookup_coordinator = coordination.observed(manager._lookup_coordinator, manager.coordinator)
    return coordination


def patient(await_ready: Callable[..., bool]) -> Callable[..., bool]:
    """Return a wait for a node that returns False, a little later, where the client's raises.

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


def keep_joins(consumer: KafkaConsumer) -> None:
    """Let a consumer use the result of a join that ended between two of its polls.

    It must not have been polled yet.
    """
    coordinator = consumer._coordinator
    coordinator._do_join_and_sync_async = resumable(
        coordinator._do_join_and_sync_async, coordinator.rebalance_in_progress
    )


def resumable(
    join: Callable[[], Awaitable[bytes]], joining: Callable[[], bool]
) -> Callable[[], Awaitable[bytes]]:
    """Return a join that returns the last one's result if nothing has used it.

    Parameters
    ----------
    join
        Joins and returns the assignment; ``joining()`` is true from its start until its result is used.
    """
    unused: list[bytes] = []

    async def resumed() -> bytes:
        if unused and joining():
            return unused.pop()
        unused.clear()
        assignment = await join()
        unused.append(assignment)
        return assignment

    return resumed


def keep_joining(consumer: KafkaConsumer) -> None:
    """Let the next poll of a consumer end the join that its last one left."""
    if consumer.group_metadata().state is MemberState.REBALANCING:
        consumer._coordinator.request_rejoin()


def keep_refreshing(consumer: KafkaConsumer) -> None:
    """Restart the client's requests for metadata where they have ended.

    They end for good if a request of ``client.refresh`` fails while they wait for it; the
    client would then never find the next leader of a partition.
    """
    cluster = consumer._cluster
    if cluster._refresh_loop_future is not None and cluster._refresh_loop_future.is_done:
        cluster._refresh_loop_future = None
        cluster.start_refresh_loop()
