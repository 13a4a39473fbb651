"""What the group's coordinator gives and takes, noted for the next poll."""

from __future__ import annotations

import threading
from typing import Any

from kafka import ConsumerRebalanceListener, TopicPartition


class RevokedError(Exception):
    """Ends a poll between the two rounds of a rebalance: this member still owns what it is to give."""


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Notes what the coordinator says; it is called on the client's thread, which must not wait."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.consumer: Any = None
        self.assigned: set[TopicPartition] = set()
        self.revoked: set[TopicPartition] = set()
        self.lost = self.closing = False

    def on_partitions_assigned(self, assigned: Any) -> None:
        """Note what was given, paused until the run says where to begin."""
        with self._lock:
            self.assigned |= set(assigned)
        self.consumer.pause(*assigned)
        for partition in assigned:
            self.consumer.seek(partition, 0)  # nowhere yet: without it the client asks for a position itself

    def on_partitions_revoked(self, revoked: Any) -> None:
        """Note what is taken, and end the poll."""
        with self._lock:
            self.revoked |= set(revoked)
            self.assigned -= set(revoked)
        if not self.closing:
            raise RevokedError  # the client hands it to whoever polls

    def on_partitions_lost(self, lost: Any) -> None:
        """Note that everything has been given to others."""
        self.lost = True

    def take(self) -> tuple[set[TopicPartition], set[TopicPartition]]:
        """Return what was assigned and revoked since the last time."""
        with self._lock:
            news = self.assigned, self.revoked
            self.assigned, self.revoked = set(), set()
        return news
