"""Sources and sinks of runs: records, positions, and the protocols of what reads and writes them.

A *partition* is a text: ``clicks-3`` for partition 3 of a topic, the name of the file for a log on disk. A
*position* is the offset of the next record: a Kafka offset, or a byte of the (uncompressed) log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

from connectors.decoding import Decoder, EventFormat

MOST = 2000  # records a poll


class Raw(NamedTuple):
    """One record as it came; a record of kafka-python is one too."""

    offset: int
    value: bytes | None
    key: bytes | None = None
    timestamp: int | None = None  # milliseconds since the epoch
    headers: Sequence[tuple[str, bytes]] = ()


def read_bound(text: str) -> int | datetime:
    """Return an offset, or a time in ISO 8601, which is UTC unless it says otherwise.

    >>> read_bound("1200"), read_bound("2026-11-21T08:00").isoformat()
    (1200, '2026-11-21T08:00:00+00:00')
    """
    if text.isdigit():
        return int(text)
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


class Batch(NamedTuple):
    """Consecutive records of a partition, none perhaps, and the position after them.

    The position is the source's own: behind the last record there may be others that are no events, as the
    markers of transactions.
    """

    records: Sequence[Raw]
    next: int


class Committed(NamedTuple):
    """What a group has committed for a partition: a position, and a note that goes with it."""

    position: int
    note: str = ""


class Assigned(NamedTuple):
    """A partition that this process is to read, what is committed for it, and what is there.

    Attributes
    ----------
    identity
        Of what the partition is a part of: another one if a topic is deleted and made anew. Empty if it has
        none.
    number, siblings
        Which partition it is, counted from 0, and how many there are.
    """

    partition: str
    committed: Committed | None
    first: int
    end: int
    identity: str = ""
    number: int = 0
    siblings: int = 1


@dataclass
class Polled:
    """What a poll brought.

    Attributes
    ----------
    standby
        Whether this process is in the group and all partitions are given to others.
    """

    batches: Mapping[str, Batch] = field(default_factory=dict)
    assigned: Sequence[Assigned] = ()
    revoked: Sequence[str] = ()
    finished: bool = False
    standby: bool = False


class Source(Protocol):
    """Where records come from."""

    name: str  # of the topic or log

    def decoder(self, form: str, format: EventFormat) -> Decoder:
        """Return the decoder of its records, of a format that is set."""
        ...

    def poll(self, seconds: float, most: int = MOST) -> Polled:
        """Wait so long at most for so many records at most; they come in order, after :meth:`begin`."""
        ...

    def begin(self, partition: str, position: int) -> None:
        """Read a partition that was assigned from this position on."""
        ...

    def committed(self, partitions: Sequence[str]) -> Mapping[str, Committed]:
        """Return what the group has committed, for those partitions for which it has."""
        ...

    def commit(self, positions: Mapping[str, Committed]) -> bool:
        """Tell the group; False if it is rebalancing, Interruption if this process is no longer in it."""
        ...

    def partitions(self) -> Sequence[str]:
        """Return all partitions, whoever reads them."""
        ...

    def alone(self) -> bool:
        """Return whether no other process reads beside this one."""
        ...

    def require_daemons(self) -> None:
        """Raise Failure if a program that is no daemon reads a part of the source."""
        ...

    def ends(self) -> Mapping[str, int]:
        """Return where each partition ends now, asking anew; raises Interruption if nobody answers."""
        ...

    def uncommitted(self, ends: Mapping[str, int]) -> Mapping[str, int]:
        """Return how many offsets after these ends are hidden by open transactions, where that is known."""
        ...

    def confirm(self) -> None:
        """Raise Interruption if what has been read is no longer there: nothing of it is to be kept."""
        ...

    def mark(self, positions: Mapping[str, int]) -> Any:
        """Return what a checkpoint keeps of the source, to know it again."""
        ...

    def recognise(self, mark: Any) -> None:
        """Raise Failure if the source is not the one of the mark."""
        ...

    def close(self, leaving: bool) -> None:
        """Let go; ``leaving`` says that this process will not come back soon."""
        ...


PREDICTIONS, DEAD_LETTERS, SNAPSHOTS = "predictions", "dead_letters", "snapshots"


class Output(NamedTuple):
    """One line for a sink, of a kind: a prediction, a dead letter, or what else an operator makes."""

    kind: str
    partition: str
    raw: Raw
    body: bytes  # what is written; of a dead letter, the reason


class Sink(Protocol):
    """Where predictions and dead letters go."""

    def restore(self, mark: Any) -> None:
        """Find what has been written since a mark (None: since ever)."""
        ...

    def begin(self, partition: str, emitted: int, anew: bool = False) -> None:
        """Learn that a partition's outputs below this offset were committed with their positions.

        ``anew`` says that it is another one than that whose outputs are here: its topic was made anew.
        """
        ...

    def write(self, outputs: Sequence[Output]) -> int:
        """Take the outputs that belong here and are not written yet; return how many had to be truncated."""
        ...

    def commit(self, positions: Mapping[str, Committed]) -> bool:
        """Make everything written visible; return whether the positions were committed with it."""
        ...

    def mark(self) -> Any:
        """Make everything committed safe, and return what a checkpoint keeps of the sink."""
        ...

    def close(self) -> None:
        """Let go of what was not committed."""
        ...
