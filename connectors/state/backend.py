"""State backends: where an operator's state persists, together with the positions up to which it has read.

A session has four requests: restore the stored state, report the position of a partition, store the present
state, and release a partition. :mod:`connectors.state.disk` stores one checkpoint of everything,
:mod:`connectors.state.topic` a snapshot of every partition.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

from connectors.contract.operator import Processor
from connectors.contract.records import Assigned, Committed
from connectors.contract.sections import StartPolicy
from connectors.state.checkpoint import Progress

REMEDY = "put the settings back, or give them a checkpoints.directory and a source.group of their own"


class Committable(Protocol):
    """Returns what to commit."""

    def __call__(self, durable: Collection[str] = ()) -> dict[str, Committed]:
        """Return positions and metadata; for ``durable`` partitions, all that was read counts as stored."""


class Saved(NamedTuple):
    """How many bytes were written, and whether the positions were committed."""

    size: int
    committed: bool


class StateBackend(Protocol):
    """Stores the state of an operator.

    Attributes
    ----------
    operator
        Processes records.
    owner
        The name of the model in offset metadata (:mod:`connectors.state.positions`).
    progress
        How far partitions have been read; the session counts here.
    has_state
        Whether anything was stored when the session started.
    untried
        Whether it is not known yet that anything can be stored here.
    """

    owner: str
    progress: dict[str, Progress]
    has_state: bool
    untried: bool

    @property
    def operator(self) -> Processor:
        """The operator whose state this is."""

    def admit(self, assigned: Assigned, policy: StartPolicy) -> bool:
        """Set ``progress`` to where a partition was read up to, and restore its state.

        False means that this cannot be known yet: ask again at the next poll.

        Raises
        ------
        Failure
            If the state of what the group has read is not here.
        """

    def save(self, committable: Committable) -> Saved:
        """Make outputs visible, store the state, and commit the positions."""

    def release(self, partitions: Sequence[str]) -> None:
        """Release partitions that other processes get."""

    def close(self) -> None:
        """Close the connections."""
