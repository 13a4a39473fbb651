"""What a run says of itself: sums of right answers and errors that add up over shards, and its rounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple


class Classes(NamedTuple):
    """How many events had their class predicted before they were learned.

    >>> (Classes(10, 7) + Classes(10, 8)).values()
    {'accuracy': 0.75}
    """

    events: int = 0
    right: int = 0

    @classmethod
    def of(cls, targets: Sequence[Any], predictions: Sequence[Any]) -> Classes:
        """Return the sums of some events."""
        return cls(len(targets), sum(map(bool, map(lambda y, p: y == p, targets, predictions))))

    def __add__(self, other: Classes) -> Classes:  # type: ignore[override]  # sums, not tuples end to end
        return Classes(self.events + other.events, self.right + other.right)

    def values(self) -> dict[str, float]:
        """Return the accuracy."""
        return {"accuracy": round(self.right / max(self.events, 1), 6)}


class Numbers(NamedTuple):
    """Errors of numbers predicted before they were learned; the targets' mean, and squares about it.

    Sums about the mean are added as Chan, Golub and LeVeque add them, since ``Σy² - n·mean²`` would lose all
    digits of targets far from 0.

    >>> both = Numbers.of([1.0, 2.0], [1.0, 2.5]) + Numbers.of([3.0, 6.0], [3.5, 6.0])
    >>> both == Numbers.of([1.0, 2.0, 3.0, 6.0], [1.0, 2.5, 3.5, 6.0]), both.values()
    (True, {'mae': 0.25, 'rmse': 0.353553, 'r2': 0.964286})
    """

    events: int = 0
    absolute: float = 0.0
    squared: float = 0.0
    mean: float = 0.0
    about_mean: float = 0.0

    @classmethod
    def of(cls, targets: Sequence[Any], predictions: Sequence[Any]) -> Numbers:
        """Return the sums of some events."""
        if not len(targets):
            return cls()
        errors = [float(y) - float(p) for y, p in zip(targets, predictions, strict=True)]
        mean = math.fsum(targets) / len(targets)
        return cls(
            len(targets), math.fsum(map(abs, errors)), math.fsum(e * e for e in errors), mean,
            math.fsum((y - mean) ** 2 for y in targets),
        )  # fmt: skip

    def __add__(self, other: Numbers) -> Numbers:  # type: ignore[override]  # sums, not tuples end to end
        if not self.events or not other.events:
            return other if not self.events else self
        events, apart = self.events + other.events, other.mean - self.mean
        between = apart * apart * self.events * other.events / events
        return Numbers(
            events, self.absolute + other.absolute, self.squared + other.squared,
            self.mean + apart * other.events / events, self.about_mean + other.about_mean + between,
        )  # fmt: skip

    def values(self) -> dict[str, float]:
        """Return mean absolute error, root of the mean squared error, and R² (0 if targets do not vary)."""
        count = max(self.events, 1)
        r2 = 1.0 - self.squared / self.about_mean if self.about_mean > 0.0 else 0.0
        found = {"mae": self.absolute / count, "rmse": math.sqrt(self.squared / count), "r2": r2}
        return {name: float(f"{value:.6g}") for name, value in found.items()}


Tally = Classes | Numbers


def total(tallies: Sequence[Tally]) -> Tally:
    """Return the sum of tallies of one kind, in their order."""
    return reduce(lambda a, b: a + b, tallies)  # type: ignore[operator]


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
