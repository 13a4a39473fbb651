"""Shards: parts of a stream, readable from any of their positions on any machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from streamk.arrays import Json


class Chunk(NamedTuple):
    """Consecutive events of a shard.

    Attributes
    ----------
    rows
        Rows for ``learn_many``: a list of dicts, a frame, or an array with ``names``.
    targets
        One a row; None only where the weight is 0.
    next
        The position after them, a JSON value: a number, a string, or a list of such.
    ended
        Whether no event comes after them.
    weights
        One a row; None means 1.
    lines
        Names of the rows in errors, such as their lines in a file; None counts them from 0.
    names
        Column names of an array.
    strict
        Whether a row rejected by the learner, such as one with an infinite number, ends the run. Otherwise it
        is skipped and counted (:attr:`streamk.distributed.Trained.refused`), as in a replay.
    """

    rows: Any
    targets: Sequence[object]
    next: object
    ended: bool
    weights: Sequence[float] | None = None
    lines: Sequence[int] | None = None
    names: Sequence[str] | None = None
    strict: bool = True


class Shard(Protocol):
    """A part of a stream. It is pickled to the workers, and holds no open file."""

    @property
    def name(self) -> str:
        """Its name in errors, checkpoints and progress bars, unique in a run."""
        ...

    def read(self, position: Any, count: int) -> Chunk:
        """Return at most ``count`` events from a position on; None is the start.

        The same position always gives the same events: events lost with a worker are read again. An empty
        chunk that has not ended is an error, since the run could never continue after it.
        """
        ...


@dataclass(frozen=True)
class Rows:
    """A shard of events in memory, pickled with it: for small data and tests.

    Parameters
    ----------
    name
        Its name.
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
    rows: Sequence[Json]
    targets: Sequence[object]
    weights: Sequence[float] | None = None
    strict: bool = True

    def read(self, position: Any, count: int) -> Chunk:
        """Return at most ``count`` events from a row on."""
        start = position or 0
        stop = min(start + count, len(self.rows))
        weights = None if self.weights is None else list(self.weights[start:stop])
        rows, targets = list(self.rows[start:stop]), list(self.targets[start:stop])
        return Chunk(rows, targets, stop, stop == len(self.rows), weights, strict=self.strict)
