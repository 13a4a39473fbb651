"""What a shard is: a part of a stream that can be read from any of its positions, on any machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol


class Chunk(NamedTuple):
    """Consecutive events of a shard.

    Attributes
    ----------
    rows
        What ``learn_many`` takes: a list of dicts, a frame, or an array with ``names``.
    targets
        One a row; None only where the weight is 0.
    next
        The position after them, a value that JSON holds: a number, a text, or a list of such.
    ended
        Whether no event comes after them.
    weights
        One a row; None means 1.
    lines
        What errors call the rows, such as their lines in a file; None counts them from 0.
    names
        Column names of an array.
    strict
        Whether a row that the learner refuses, such as one with an infinite number, ends the run. It is
        skipped and counted otherwise (:attr:`streamk.distributed.Trained.refused`), as a replay does.
    """

    rows: Any
    targets: Sequence[Any]
    next: Any
    ended: bool
    weights: Sequence[float] | None = None
    lines: Sequence[int] | None = None
    names: Sequence[str] | None = None
    strict: bool = True


class Shard(Protocol):
    """A part of a stream. It is pickled to whoever reads it, and holds no open file."""

    @property
    def name(self) -> str:
        """What errors, checkpoints and progress bars call it; no two shards of a run have the same."""
        ...

    def read(self, position: Any, count: int) -> Chunk:
        """Return at most ``count`` events from a position on; None is the beginning.

        The same position always gives the same events: what was lost with a worker is read again. An empty
        chunk that has not ended is refused, since nobody would ever get past it.
        """
        ...


@dataclass(frozen=True)
class Rows:
    """A shard of events in memory; they travel with it, so it suits small data and tests.

    Parameters
    ----------
    name
        What it is called.
    rows
        A list of dicts.
    targets
        One a row.
    weights
        One a row; None means 1.
    strict
        As of :class:`Chunk`.

    Examples
    --------
    >>> Rows("small", [{"x": 1}, {"x": 2}, {"x": 3}], [2, 4, 6]).read(2, 10)
    Chunk(rows=[{'x': 3}], targets=[6], next=3, ended=True, weights=None, lines=None, names=None, strict=True)
    """

    name: str
    rows: Sequence[dict[str, Any]]
    targets: Sequence[Any]
    weights: Sequence[float] | None = None
    strict: bool = True

    def read(self, position: Any, count: int) -> Chunk:
        """Return at most ``count`` events from a row on."""
        start = position or 0
        stop = min(start + count, len(self.rows))
        weights = None if self.weights is None else list(self.weights[start:stop])
        rows, targets = list(self.rows[start:stop]), list(self.targets[start:stop])
        return Chunk(rows, targets, stop, stop == len(self.rows), weights, strict=self.strict)
