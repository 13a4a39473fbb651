"""When a session restarts after an interruption, and when the daemon stops instead.

Progress is a committed position. Sessions that make none are counted, and brokers that do not answer are
waited for, both up to a limit.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from connectors.errors import AWAY, STUCK, BrokerUnavailable, Failure, Interruption

_LONG = 60.0  # seconds after which a session without events counts as a working one
_START = 10.0  # seconds without an answer at the start: an address is wrong


class Committing(Protocol):
    """A session, as far as restarts depend on it.

    Attributes
    ----------
    committed
        Positions committed by this session.
    processed
        Records processed.
    """

    committed: dict[str, int]
    processed: int


class RestartLimit:
    """Counts sessions without progress, and the time for which no broker answers.

    Parameters
    ----------
    away
        Seconds for which brokers may not answer, once they have answered.
    restarts
        Sessions in a row that may end without progress.
    """

    def __init__(self, away: float, restarts: int) -> None:
        self._away, self.restarts = away, restarts
        self._answered = False
        self._away_since: float | None = None
        self._fruitless = 0
        self._furthest: dict[str, int] = {}
        self._session: Committing | None = None

    def follow(self, session: Committing) -> None:
        """Measure progress by what this session commits."""
        self._session, self._answered = session, True

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Raise Failure in place of an interruption that is one too many."""
        started, self._session = time.monotonic(), None
        try:
            yield
        except Interruption as error:
            idle = False
            if self._session is not None:
                self.advance(self._session.committed)
                idle = not self._session.processed
            self.count(error, idle, time.monotonic() - started)
            raise

    def advance(self, committed: Mapping[str, int]) -> None:
        """Start to count again if a position is ahead of all that were committed before."""
        ahead = {name: at for name, at in committed.items() if at > self._furthest.get(name, -1)}
        if ahead:
            self._furthest |= ahead
            self._fruitless, self._away_since = 0, None

    def count(self, error: Interruption, idle: bool, lasted: float) -> None:
        """Count an interruption of a session that lasted so many seconds, ``idle`` if no event came.

        Raises
        ------
        Failure
            If it is one too many.
        """
        now, worked = time.monotonic(), idle and lasted > _LONG
        if isinstance(error, BrokerUnavailable):
            if self._away_since is None or worked:
                self._away_since = now
            gone, limit = now - self._away_since, self._away if self._answered else min(_START, self._away)
            if gone > limit:
                why = "kafka.away_seconds" if self._answered else "none has answered since the start"
                raise Failure(AWAY, f"{error}; it has been so for {gone:.0f} seconds ({why})") from None
            return
        self._fruitless = 1 if worked else self._fruitless + 1
        if self._fruitless > self.restarts:
            raise Failure(
                STUCK,
                f"{error}; {self._fruitless} sessions have ended without progress (limits.restarts)",
            ) from None
