"""From a checkpoint to the next: poll, decode, predict, learn, emit, checkpoint.

A session begins from what is on disk and in the group, and keeps nothing that cannot be made again from them.
Whatever interrupts it, a crash or a lost connection, the next one begins the same way, so there is one way to
recover and it is used at every start.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence

from connectors.daemon import ownership
from connectors.daemon.checkpoint import Checkpoint, Progress, Store, lag
from connectors.daemon.operators import Limits, Operator, Tally, encode
from connectors.daemon.ownership import Owner, Start
from connectors.daemon.telemetry import Telemetry
from connectors.settings import Settings
from connectors.stream import (
    POSITION,
    REFUSED_EVENTS,
    Assigned,
    Batch,
    Committed,
    Failure,
    Interruption,
    Sink,
    Source,
)
from streamk.learners import Learner

log = logging.getLogger(__name__)
_POLL = 0.1  # seconds
_COMMIT = 0.1  # seconds after which outputs become visible
_ASK = 5.0  # seconds between two looks at the ends of the partitions
_TELL = 10.0  # seconds between two lines of the log about how it goes


class Session:
    """One run from a checkpoint on.

    Parameters
    ----------
    settings
        Of the daemon.
    store
        Its checkpoints, locked.
    source, sinks
        Open.
    telemetry
        Told of everything.
    """

    def __init__(
        self,
        settings: Settings,
        store: Store,
        source: Source,
        sinks: Mapping[str, Sink],
        telemetry: Telemetry,
    ) -> None:
        self._settings, self._store, self._telemetry = settings, store, telemetry
        self._source, self._sinks = source, sinks
        self._checkpoint = self._load()
        task = settings.learner.task
        decoder = settings.events.decoder(task, source.columns, source.delimiter)
        self._operator = Operator(self._checkpoint.learner, decoder, task)
        self._limits = Limits(settings.limits)
        self._owners: dict[str, list[Owner]] = {}  # of the partitions that are this process's
        self._emitted: dict[str, int] = {}  # up to where they were before this session
        self._unsaved = self._processed = 0
        self._saved_at = self._committed_at = self._asked_at = self._told_at = time.monotonic()
        if not self._checkpoint.number:
            self.save()  # a directory that cannot be written is better found now

    def _load(self) -> Checkpoint:
        """Return the newest checkpoint that counts, or a blank one."""
        learner = self._settings.learner.build()
        found = self._store.newest(self._granted)
        if found is not None:
            found.require(learner, self._source.name, self._store.directory)
            if found.source_mark is not None:
                self._source.recognise(found.source_mark)
            log.info("checkpoint %d: %d events learned", found.number, found.learner.events)
        marks = (found and found.sink_marks) or {}
        for kind, sink in self._sinks.items():
            sink.restore(marks.get(kind))
        return found or Checkpoint(learner, self._source.name)

    def _granted(self, checkpoint: Checkpoint) -> bool:
        """Return whether the group was told of all that the checkpoint claims to have learned."""
        if checkpoint.source != self._source.name:
            return True  # it will be refused by its name
        committed = self._source.committed(list(checkpoint.partitions))
        return not any(
            ownership.overreaches(self._store.model, committed.get(name), progress.position)
            for name, progress in checkpoint.partitions.items()
        )

    @property
    def learner(self) -> Learner:
        """The model, learning."""
        return self._operator.learner

    @property
    def _partitions(self) -> dict[str, Progress]:
        return self._checkpoint.partitions

    def step(self) -> bool:
        """Go once round the loop; return whether the source is at its end."""
        telemetry = self._telemetry
        telemetry.beat()
        try:
            polled = self._source.poll(_POLL)
        except Failure:  # what came before it is good
            self.finish()
            raise
        for assigned in polled.assigned:
            self._assign(assigned)
        if polled.revoked:
            self._revoke(polled.revoked)
        for partition, batch in polled.batches.items():
            self._process(partition, batch)
        now = time.monotonic()
        if now - self._committed_at >= _COMMIT:
            self._commit()
        checkpoints = self._settings.checkpoints
        if self._unsaved >= checkpoints.events or (
            self._unsaved and now - self._saved_at >= checkpoints.seconds
        ):
            self.save()
        if now - self._asked_at >= _ASK:
            self._asked_at = now
            telemetry.waiting(lag(self._source.ends(), self._owned()))
        if now - self._told_at >= _TELL:
            self._tell(now)
        return polled.finished

    def _tell(self, now: float) -> None:
        """Say in the log how it goes."""
        done, seconds = self._processed, now - self._told_at
        self._told_at, self._processed = now, 0
        fields = {
            "events": self.learner.events,
            "events_per_second": round(done / seconds),
            **self._telemetry.figures(),
        }
        log.info("running", extra={"fields": fields})

    def _owned(self) -> dict[str, Progress]:
        return {name: self._partitions[name] for name in self._owners}

    def _assign(self, assigned: Assigned) -> None:
        """Begin with a partition where the checkpoint and the group say."""
        name = assigned.partition
        progress = self._partitions.get(name)
        saved = None if progress is None else progress.position
        otherwise = (
            assigned.end if getattr(self._settings.source, "start", "") == "latest" else assigned.first
        )
        start = ownership.start(self._store.model, assigned.committed, saved, otherwise)
        if not assigned.first <= start.position <= assigned.end:
            start = self._expired(assigned, start)
        position, emitted, owners = start
        if saved is not None and position > saved:
            log.info("%s: %d to %d were learned by other models", name, saved, position - 1)
        if not self._source.commit({name: Committed(emitted, ownership.write(owners))}):
            return  # the group is rebalancing again, and will tell
        self._partitions.setdefault(name, Progress(position)).position = position
        self._owners[name], self._emitted[name] = owners, emitted
        for sink in self._sinks.values():
            sink.begin(name, emitted)
        self._source.begin(name, position)
        silent = f", replaying without emitting up to {emitted}" if emitted > position else ""
        log.info("%s: from %d%s", name, position, silent)
        self._telemetry.ready = True

    def _expired(self, assigned: Assigned, start: Start) -> Start:
        policy = getattr(self._settings.source, "expired", "fail")
        name, position = assigned.partition, start.position
        there = (
            f"{name} holds {assigned.first} to {assigned.end - 1}, and the next event to read is {position}"
        )
        if policy == "fail":
            raise Failure(
                POSITION,
                f"{there}: events were deleted before they were read, or the topic was made anew. "
                "source.expired = 'earliest' or 'latest' goes on from there",
            )
        position = assigned.first if policy == "earliest" else assigned.end
        log.warning("%s: going on from the %s, %d", there, policy, position)
        model = self._store.model
        return Start(position, position, [*start.owners[:-1], Owner(model, position, position)])

    def _revoke(self, partitions: Sequence[str]) -> None:
        """Put what was learned from partitions that go to others where it lasts."""
        gone = [name for name in partitions if name in self._owners]
        if gone:
            if not self.save():
                raise Interruption("the group did not wait for the checkpoint")
            for name in gone:
                del self._owners[name]
            log.info("revoked: %s", ", ".join(gone))

    def _process(self, partition: str, batch: Batch) -> None:
        began = time.perf_counter()
        lenient = self._settings.dead_letters is not None
        outcomes = self._operator.process(batch.records, lenient)
        progress = self._partitions[partition]
        outputs = encode(partition, outcomes, self._settings.predictions is not None) if self._sinks else []
        for sink in self._sinks.values():
            sink.write(outputs)
        stopped = not lenient and outcomes and outcomes[-1].event is None
        done = outcomes[:-1] if stopped else outcomes
        progress.position = outcomes[-1].raw.offset if stopped else batch.next
        tally = Tally.of(done)
        progress.learned += tally.learned
        progress.predicted += tally.predicted
        progress.refused += tally.refused
        self._unsaved += len(done)
        self._processed += len(done)
        self._telemetry.worked(done, tally, time.perf_counter() - began, self._operator.learner)
        if stopped:
            self.save()
            bad = outcomes[-1]
            raise Failure(
                REFUSED_EVENTS,
                f"{partition}, offset {bad.raw.offset}: {bad.reason}. Fix it, or set [dead_letters] to "
                "let such events go there",
            )
        if trouble := self._limits.exceeded(outcomes, tally.refused):
            self.save()
            raise Failure(REFUSED_EVENTS, trouble)

    def _positions(self) -> dict[str, Committed]:
        """Return what to commit: what is learned again silently stays committed."""
        return {
            name: Committed(
                max(self._partitions[name].position, self._emitted[name]), ownership.write(owners)
            )
            for name, owners in self._owners.items()
        }

    def _commit(self) -> None:
        """Make the outputs visible, together with the positions."""
        self._committed_at = time.monotonic()
        for sink in self._sinks.values():
            sink.commit(self._positions())

    def save(self) -> bool:
        """Make the outputs visible, then write a checkpoint, then tell the group; return whether it knows."""
        self._commit()
        checkpoint = self._checkpoint
        checkpoint.sink_marks = {kind: sink.mark() for kind, sink in self._sinks.items()}
        positions = {name: progress.position for name, progress in self._partitions.items()}
        checkpoint.source_mark = self._source.mark(positions)
        size = self._store.write(checkpoint)
        for name, owners in self._owners.items():
            owners[-1] = owners[-1]._replace(until=self._partitions[name].position)
        told = self._source.commit(self._positions())
        if told:
            self._store.prune()  # until then the one before may be all that is granted
        self._unsaved, self._saved_at = 0, time.monotonic()
        self._telemetry.checkpointed(size)
        return told

    def finish(self) -> None:
        """Put everything where it lasts."""
        if self._unsaved:
            self.save()
