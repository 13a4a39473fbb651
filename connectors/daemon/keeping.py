"""Where what an operator knows lasts, together with how far it has read.

A session asks for four things: that what had lasted is known again, where a partition was read up to, that
what is known now lasts, and that a partition is let go. :class:`OnDisk` keeps one checkpoint of everything in
a directory; :mod:`connectors.daemon.partition_bound` keeps every partition apart, in a topic.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from connectors.daemon import ownership
from connectors.daemon.beginning import require_known
from connectors.daemon.checkpoint import Checkpoint, Progress
from connectors.daemon.operator import Operator
from connectors.daemon.store import Store
from connectors.daemon.training import Training, require_same_training
from connectors.errors import CHECKPOINT, Failure
from connectors.sections import StartPolicy
from connectors.stream import Assigned, Committed, Sink, Source

log = logging.getLogger(__name__)
CURE = "put the settings back, or give them a checkpoints.directory and a source.group of their own"


class Committable(Protocol):
    """Says what to commit."""

    def __call__(self, durable: Collection[str] = ()) -> dict[str, Committed]:
        """Return positions and notes; those of ``durable`` partitions say that all that was read lasts."""
        ...


class Saved(NamedTuple):
    """How many bytes were written, and whether the group was told."""

    size: int
    told: bool


class Keeping(Protocol):
    """Keeps what an operator knows.

    Attributes
    ----------
    owner
        The name of the model in notes (:mod:`connectors.daemon.ownership`).
    progress
        How far partitions have been read; the session counts here.
    knows
        Whether anything had lasted when the session began.
    untried
        Whether it is not known yet that anything can be kept here.
    """

    owner: str
    progress: dict[str, Progress]
    knows: bool
    untried: bool

    def admit(self, assigned: Assigned, policy: StartPolicy) -> bool:
        """Have ``progress`` say up to where a partition was read, if it was, and the operator know it.

        False says that this cannot be known yet: ask again at the next poll.

        Raises
        ------
        Failure
            If what the group has read is not known here.
        """
        ...

    def save(self, committable: Committable) -> Saved:
        """Make outputs visible and what is known last, and tell the group."""
        ...

    def release(self, partitions: Sequence[str]) -> None:
        """Let go of partitions that others get."""
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...


class OnDisk:
    """One checkpoint of everything in a directory.

    Parameters
    ----------
    operator
        It is restored.
    store
        The checkpoints, locked.
    source, sinks
        Open; the sinks are told from where on to write.
    training
        The settings that the model is trained with.

    Raises
    ------
    Failure
        If no checkpoint can be used, or the newest is of other settings.
    """

    def __init__(
        self,
        operator: Operator,
        store: Store,
        source: Source,
        sinks: Mapping[str, Sink],
        training: Training | None = None,
    ) -> None:
        self._operator, self.store, self._source, self._sinks = operator, store, source, sinks
        self._training = training
        self.owner = store.model
        self._checkpoint = self._load()
        self.progress = self._checkpoint.partitions
        self.knows, self.untried = bool(self.progress), not self._checkpoint.number

    def _load(self) -> Checkpoint:
        """Return the newest checkpoint that counts, restored, or a blank one."""
        found = self.store.newest(self._granted)
        if found is not None:
            where = f"checkpoint {found.number} in {self.store.directory}"
            if found.source != self._source.name:
                belongs = f"belongs to {found.source!r}, and the source is {self._source.name!r}"
                raise Failure(CHECKPOINT, f"{where} {belongs}; {CURE}")
            if found.source_mark is not None:
                self._source.recognise(found.source_mark)
            try:
                self._operator.restore(found.parts)
            except ValueError as error:
                raise Failure(CHECKPOINT, f"{where} {error}; {CURE}") from None
            require_same_training(found, self._training, where)
            if found.training is not None and found.training != self._training:
                log.info("the settings changed before anything was learned: reading again from the start")
                found.partitions.clear()
            log.info("checkpoint %d, written %s", found.number, found.written)
        marks = found.sink_marks if found else {}
        for kind, sink in self._sinks.items():
            sink.restore(marks.get(kind))
        return found or Checkpoint(self._source.name)

    def _granted(self, checkpoint: Checkpoint) -> bool:
        """Return whether the group was told of all that the checkpoint claims to have learned."""
        if checkpoint.source != self._source.name:
            return True  # it will be refused by its name
        committed = self._source.committed(list(checkpoint.partitions))
        return not any(
            ownership.overreaches(self.owner, committed.get(name), p.position, p.identity)
            for name, p in checkpoint.partitions.items()
        )

    def admit(self, assigned: Assigned, policy: StartPolicy) -> bool:
        """Refuse to go on with nothing where others ended; what the checkpoint holds is known already."""
        if not self.progress and assigned.committed is not None:
            require_known(
                self.owner, assigned, self._source.alone, policy,
                "the model in this checkpoints.directory knows nothing of it. Put the directory back",
            )  # fmt: skip
        return True

    def save(self, committable: Committable) -> Saved:
        """Make the outputs visible, then write the checkpoint, then tell the group."""
        for sink in self._sinks.values():
            sink.commit(committable())
        checkpoint = self._checkpoint
        checkpoint.parts, checkpoint.training = dict(self._operator.snapshot()), self._training
        checkpoint.sink_marks = {kind: sink.mark() for kind, sink in self._sinks.items()}
        positions = {name: progress.position for name, progress in self.progress.items()}
        checkpoint.source_mark = self._source.mark(positions)
        size = self.store.write(checkpoint)
        told = self._source.commit(committable(self.progress))
        if told:
            self.store.prune()  # until then the one before may be all that is granted
        return Saved(size, told)

    def release(self, partitions: Sequence[str]) -> None:
        """Do nothing: how far they were read stays known."""

    def close(self) -> None:
        """Do nothing: the directory is let go by who locked it."""
