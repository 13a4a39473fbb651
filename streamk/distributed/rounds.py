"""The rounds of a run: events, seconds, bytes, and how well the model predicted."""

from __future__ import annotations

from typing import Any, NamedTuple

from streamk.metrics.tallies import Tally


class Round(NamedTuple):
    """What became of a round.

    Attributes
    ----------
    number
        Counted from 1; 0 in the pass for scales.
    turn
        In which pass over the shards, counted from 1; 0 in the one for scales.
    shards
        How many learned something.
    events
        Learned, over all shards.
    seconds
        From the first task to the merged model.
    bytes
        Of models sent to the tasks and back.
    tally
        How well the model merged before this round predicted its events; no events if none were asked for.
    refused
        Events that the learner refused, over all shards; they are skipped.
    example
        Why the first of them was refused.
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

    def values(self) -> dict[str, Any]:
        """Return the round as values that JSON takes."""
        found: dict[str, Any] = {"round": self.number, "pass": self.turn, "shards": self.shards}
        found |= {"refused": self.refused} if self.refused else {}
        found |= {"events": self.events, "seconds": round(self.seconds, 6), "bytes": self.bytes}
        return found | (self.tally.values() if self.tally.events else {})


class Advance(NamedTuple):
    """A shard has learned its events of a round.

    Attributes
    ----------
    shard
        Its number.
    events
        Learned of it in this pass.
    position, ended
        Where it stands now, and whether that is its end.
    """

    shard: int
    events: int
    position: Any
    ended: bool
