"""Operators: what processes records, and whose state is stored, as a whole or partition by partition.

A session polls, hands records to the operator, writes its outputs, and has its state stored together with
the positions (:mod:`connectors.state.backend`); it depends on no learner. The outputs and the state of
an operator must depend on the records of each partition and their order alone, not on how they were cut into
batches. Records that a session sees again after a crash come to an operator that was restored to where it was
before them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol

from connectors.contract.errors import Failure
from connectors.contract.records import Output, Raw
from connectors.contract.sections import Limits


class Tally(NamedTuple):
    """How many records were learned, predicted only (no target, or no weight), refused, and skipped."""

    learned: int = 0
    predicted: int = 0
    refused: int = 0
    skipped: int = 0


CAUSES = UNDECODABLE, NO_INPUT, BY_LEARNER, BY_LIMITS = "undecodable", "no_input", "learner", "limits"


class Processed(NamedTuple):
    """The result of processing records.

    Attributes
    ----------
    outputs
        For the sinks, in order.
    tally
        Of the records that count as done.
    done
        How many of the records those are: all of them, or those before the one that ends the run.
    failure
        Why the run must end after them; None if it continues.
    causes
        Of the refused records that count as done: how many were refused for each of ``CAUSES``.
    """

    outputs: Sequence[Output]
    tally: Tally
    done: int
    failure: Failure | None = None
    causes: Mapping[str, int] = MappingProxyType({})


class Processor(Protocol):
    """Turns records into outputs, and may learn from them."""

    def process(self, partition: str, records: Sequence[Raw]) -> Processed:
        """Process consecutive records of a partition."""

    def adjust(self, limits: Limits) -> None:
        """Take limits that have changed, for the records to come."""


class Operator(Processor, Protocol):
    """A processor whose state is stored as a whole."""

    def snapshot(self) -> Mapping[str, bytes]:
        """Return its state, as named parts."""

    def restore(self, parts: Mapping[str, bytes]) -> None:
        """Restore the state of these parts.

        Raises
        ------
        ValueError
            If they are those of another operator; the sentence continues "checkpoint 7 in /data …".
        """


class PartitionedOperator(Processor, Protocol):
    """A processor with a state for every partition, which can move with the partition."""

    def begin(self, partition: str, parts: Mapping[str, bytes] | None) -> None:
        """Restore the state of a partition from these parts; start with none if there are none.

        Raises
        ------
        ValueError
            If they are those of another operator; the sentence continues "the snapshot of clicks-3 …".
        """

    def snapshot(self, partition: str) -> Mapping[str, bytes]:
        """Return the state of a partition, as named parts."""

    def release(self, partition: str) -> None:
        """Forget a partition that goes to another process."""
