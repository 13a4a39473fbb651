"""The rounds of a run: events, seconds, bytes and metrics."""

from __future__ import annotations

from typing import NamedTuple

from streamk.arrays import Json
from streamk.evaluation.tallies import Tally


class Round(NamedTuple):
    """The result of a round.

    Attributes
    ----------
    number
        Counted from 1; 0 in the pass for scales.
    turn
        Number of the pass over the shards, counted from 1; 0 in the pass for scales.
    shards
        Number of shards that learned events.
    events
        Learned, over all shards.
    seconds
        From the first task to the merged model.
    bytes
        Size of the models sent to the tasks and back.
    tally
        Metrics of the previous merged model on the events of this round; empty without ``evaluate``.
    refused
        Events rejected by the learner and skipped, over all shards.
    example
        Reason of the first rejection.
    """

    number: int
    turn: int
    shards: int
    events: int
    seconds: float
    bytes: int
    tally: Tally
    refused: int = 0
    example: str = ""

    def values(self) -> Json:
        """Return the round as values that JSON takes."""
        record: Json = {"round": self.number, "pass": self.turn, "shards": self.shards}
        record |= {"refused": self.refused} if self.refused else {}
        record |= {"events": self.events, "seconds": round(self.seconds, 6), "bytes": self.bytes}
        return record | (self.tally.values() if self.tally.events else {})


class Advance(NamedTuple):
    """A shard has learned its events of a round.

    Attributes
    ----------
    shard
        Its number.
    events
        Events of it learned in this pass.
    position, ended
        Its current position, and whether that is its end.
    """

    shard: int
    events: int
    position: object
    ended: bool
