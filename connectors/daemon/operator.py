"""What is asked of an operator: to process records, and to be kept, as a whole or partition by partition.

A session polls, hands records to the operator, writes what it answers, and has what it knows kept together
with the positions (:mod:`connectors.daemon.keeping`). It knows nothing of learning. What an operator answers
and keeps must depend on the records of each partition and their order alone, not on how they were cut into
batches; records that a session sees again after a crash come to an operator that was restored to where it was
before them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol

from connectors.errors import Failure
from connectors.settings import Limits
from connectors.stream import Output, Raw


class Tally(NamedTuple):
    """How many records were learned, predicted only (no target, or no weight), refused, and skipped."""

    learned: int = 0
    predicted: int = 0
    refused: int = 0
    skipped: int = 0


CAUSES = UNDECODABLE, BY_LEARNER, BY_LIMITS = "undecodable", "learner", "limits"  # of refusals


class Processed(NamedTuple):
    """What an operator made of records.

    Attributes
    ----------
    outputs
        For the sinks, in order.
    tally
        Of the records that count as done.
    done
        How many of the records those are: all of them, or those before the one that ends the run.
    failure
        Why the run must end after them; None if it goes on.
    causes
        Of the refused records that count as done: how many were refused for each of ``CAUSES``.
    """

    outputs: Sequence[Output]
    tally: Tally
    done: int
    failure: Failure | None = None
    causes: Mapping[str, int] = MappingProxyType({})


class Processor(Protocol):
    """What turns records into outputs, and may learn from them."""

    def process(self, partition: str, records: Sequence[Raw]) -> Processed:
        """Take consecutive records of a partition, and answer them."""
        ...

    def adjust(self, limits: Limits) -> None:
        """Take limits that have changed, for the records to come."""
        ...


class Operator(Processor, Protocol):
    """A processor that is kept as a whole."""

    def snapshot(self) -> Mapping[str, bytes]:
        """Return everything that it knows, as named parts."""
        ...

    def restore(self, parts: Mapping[str, bytes]) -> None:
        """Know what was known when these parts were made.

        Raises
        ------
        ValueError
            If they are those of another operator; the sentence goes on from "checkpoint 7 in /data …".
        """
        ...


class PartitionedOperator(Processor, Protocol):
    """A processor that knows of every partition apart, so that what it knows can move with the partition."""

    def begin(self, partition: str, parts: Mapping[str, bytes] | None) -> None:
        """Know of a partition what was known when these parts were made; nothing if there are none.

        Raises
        ------
        ValueError
            If they are those of another operator; the sentence goes on from "the snapshot of clicks-3 …".
        """
        ...

    def snapshot(self, partition: str) -> Mapping[str, bytes]:
        """Return everything that it knows of a partition, as named parts."""
        ...

    def release(self, partition: str) -> None:
        """Forget a partition that goes to another process."""
        ...
