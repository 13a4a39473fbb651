"""What a session asks of an operator: to process records, and to be kept in checkpoints.

A session polls, hands records to the operator, writes what it answers, and saves its parts together with the
positions. It knows nothing of learning. What an operator answers and keeps must depend on the records of each
partition and their order alone, not on how they were cut into batches; records that a session sees again
after a crash come to an operator that was restored to where it was before them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from connectors.stream import Failure, Output, Raw


class Tally(NamedTuple):
    """How many records were learned, predicted only (no target, or no weight), refused, and skipped."""

    learned: int = 0
    predicted: int = 0
    refused: int = 0
    skipped: int = 0


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
    """

    outputs: Sequence[Output]
    tally: Tally
    done: int
    failure: Failure | None = None


class Operator(Protocol):
    """What turns records into outputs, and may learn from them."""

    def process(self, partition: str, records: Sequence[Raw]) -> Processed:
        """Take consecutive records of a partition, and answer them."""
        ...

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
