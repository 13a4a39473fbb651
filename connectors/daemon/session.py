"""From a checkpoint to the next: poll, process, emit, checkpoint.

A session begins from what lasts (:mod:`connectors.daemon.keeping`) and what the group says, and keeps nothing
that cannot be made again from them. Whatever interrupts it, a crash or a lost connection, the next one begins
the same way, so there is one way to recover and it is used at every start. What is done with records is the
operator's business (:mod:`connectors.daemon.operator`).
"""

from __future__ import annotations

import logging
import time
from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from operator import attrgetter

from connectors.daemon import ownership
from connectors.daemon.beginning import begin
from connectors.daemon.checkpoint import Progress, lag
from connectors.daemon.keeping import Keeping
from connectors.daemon.operator import Processor
from connectors.daemon.ownership import Note
from connectors.daemon.telemetry import Telemetry
from connectors.daemon.training import require_same_digest
from connectors.errors import Failure, Interruption, UnreadableRecords
from connectors.sections import StartPolicy
from connectors.settings import Checkpoints, Limits
from connectors.stream import MOST, Assigned, Batch, Committed, Raw, Sink, Source

log = logging.getLogger(__name__)
_POLL = 0.1  # seconds
_COMMIT = 0.1  # seconds after which outputs become visible
_FIRST = 64  # records by which the pace is found
_PIECE = 0.5  # seconds of work after which it is time to look at the clock
_POLLED = 20.0  # seconds of work that one poll may bring
_ASK = 5.0  # seconds between two looks at the ends of the partitions
_CHECK = 60.0  # seconds between two looks at the other members of the group
_TELL = 10.0  # seconds between two lines of the log about how it goes


class Session:
    """One run from a checkpoint on.

    Parameters
    ----------
    operator
        What processes records.
    keeping
        Where what it knows lasts.
    source, sinks
        Open.
    telemetry
        Told of everything.
    checkpoints, policy
        How often to write checkpoints, and where to begin.
    clock
        Seconds, growing.
    """

    def __init__(
        self,
        operator: Processor,
        keeping: Keeping,
        source: Source,
        sinks: Mapping[str, Sink],
        telemetry: Telemetry,
        checkpoints: Checkpoints,
        policy: StartPolicy,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._operator, self._keeping, self._telemetry = operator, keeping, telemetry
        self._source, self._sinks = source, sinks
        self._checkpoints, self._policy, self._clock = checkpoints, policy, clock
        self._partitions = keeping.progress
        self._notes: dict[str, Note] = {}  # of the partitions that are this process's
        self._emitted: dict[str, int] = {}  # up to where they were before this session
        self._unsaved = self._unconfirmed = self._told = 0
        self._stubs = 0  # truncated dead letters that are not committed yet
        self.processed = 0  # records
        self.committed: dict[str, int] = {}
        self._pace = 0.0  # seconds a record
        self._saved_at = self._committed_at = self._asked_at = self._told_at = self._check_at = clock()
        if keeping.untried:
            self.save()  # a directory that cannot be written is better found now

    @property
    def positions(self) -> dict[str, int]:
        """Up to where partitions have been read."""
        return {name: progress.position for name, progress in self._partitions.items()}

    def adjust(self, checkpoints: Checkpoints, limits: Limits) -> None:
        """Take settings that have changed."""
        self._checkpoints = checkpoints
        self._operator.adjust(limits)

    def step(self) -> bool:
        """Go once round the loop; return whether the source is at its end."""
        self._telemetry.beat()
        most = MOST if self._pace * MOST < _POLLED else max(1, int(_POLLED / self._pace))
        try:
            polled = self._source.poll(_POLL, most)
        except (Failure, UnreadableRecords):  # what came before it is good
            self.finish()
            raise
        changes = [self._assign(assigned) for assigned in polled.assigned]
        if polled.revoked:
            changes.append(self._revoke(polled.revoked))
        if any(changes):
            self._telemetry.rebalanced()
        if polled.standby and not self._telemetry.ready:
            log.info("standing by: the group has given all partitions to others")
            self._telemetry.ready = True
        for partition, batch in polled.batches.items():
            if partition in self._notes:  # what has just been handed over is another's
                self._take(partition, batch)
        self._look_at_the_clock()  # also where nothing came
        now = self._clock()
        if now - self._asked_at >= _ASK:
            self._asked_at = now
            self._check_group(now)
            ends = self._source.ends()
            self._telemetry.waiting(lag(ends, self._owned()), self._source.uncommitted(ends))
            if not self._unsaved:
                self._telemetry.caught_up()
        if now - self._told_at >= _TELL:
            self._tell(now)
        return polled.finished

    def _look_at_the_clock(self) -> None:
        """Make outputs visible, and what is known last, if that is due."""
        now = self._clock()
        if self._sinks and now - self._committed_at >= _COMMIT:
            self._commit()
        due = self._checkpoints
        if self._unsaved >= due.events or (self._unsaved and now - self._saved_at >= due.seconds):
            self.save()

    def _tell(self, now: float) -> None:
        """Say in the log how it goes."""
        done, seconds = self.processed - self._told, now - self._told_at
        self._told_at, self._told = now, self.processed
        fields = {"events_per_second": round(done / seconds), **self._telemetry.figures()}
        log.info("running", extra={"fields": fields})

    def _check_group(self, now: float) -> None:
        """Raise Failure if others of the group read partitions and are no daemons with the same settings."""
        if now < self._check_at:
            return
        self._check_at = now + _CHECK
        self._source.require_daemons()
        others = [name for name in self._source.partitions() if name not in self._notes]
        for name, committed in self._source.committed(others).items():
            digest = ownership.read(committed.note).digest
            require_same_digest(name, digest, self._policy.digest, self._policy.group)

    def _owned(self) -> dict[str, Progress]:
        return {name: self._partitions[name] for name in self._notes}

    def _assign(self, assigned: Assigned) -> bool:
        """Begin with a partition where the checkpoint and the group say; return whether that is known."""
        name, model = assigned.partition, self._keeping.owner
        if not self._keeping.admit(assigned, self._policy):
            return False  # the next poll tells of it again
        saved = self._partitions.get(name)
        position, emitted, note = begin(model, assigned, saved, self._siblings, self._policy)
        others = [owner for owner in note.owners if owner.model != model]
        if saved is not None and any(saved.position < owner.until <= position for owner in others):
            log.info("%s: %d to %d were learned by other models", name, saved.position, position - 1)
        if not self._source.commit({name: Committed(emitted, ownership.write(note))}):
            return False  # the group is rebalancing again, and will tell
        anew = saved is not None and not ownership.same(saved.identity, note.identity)
        progress = self._partitions.setdefault(name, Progress(position))
        progress.position, progress.identity = position, note.identity
        self._notes[name], self._emitted[name] = note, emitted
        self._check_at = self._clock()
        for sink in self._sinks.values():
            sink.begin(name, emitted, anew)
        self._source.begin(name, position)
        self._telemetry.begin(name, emitted, assigned.end, note.identity)
        silent = f", replaying without emitting up to {emitted}" if emitted > position else ""
        log.info("%s: from %d%s", name, position, silent)
        self._telemetry.ready = True
        return True

    def _siblings(self) -> int | None:
        """Return how many partitions there were when the group began; 0 if that is lost, None if never."""
        committed = self._source.committed(self._source.partitions())
        notes = [ownership.read(found.note) for found in committed.values()]
        known = [note.siblings for note in notes if note.siblings]
        return max(known, default=0 if self._keeping.knows else None)

    def _revoke(self, partitions: Sequence[str]) -> bool:
        """Put what was learned from partitions that go to others where it lasts; return if there is any."""
        gone = [name for name in partitions if name in self._notes]
        if gone:
            if not self.save():
                raise Interruption("the group did not wait for the checkpoint")
            for name in gone:
                del self._notes[name]
            self._telemetry.revoked(gone)
            log.info("revoked: %s", ", ".join(gone))
        self._keeping.release(partitions)
        return bool(gone)

    def _take(self, partition: str, batch: Batch) -> None:
        """Process a batch, in pieces if it takes long: outputs must not wait for it, nor checkpoints.

        No piece holds both records that are counted already and others.
        """
        records, at = batch.records, 0
        new = bisect_left(records, self._telemetry.counted(partition), key=attrgetter("offset"))
        while at < len(records):
            size = _FIRST if self._pace == 0.0 else max(1, int(_PIECE / self._pace))
            piece = records[at : min(at + size, new) if at < new else at + size]
            self._telemetry.replays(at < new)
            at += len(piece)
            self._process(partition, piece, batch.next if at >= len(records) else records[at].offset)
            self._look_at_the_clock()
        progress = self._partitions[partition]
        if progress.position < batch.next:  # what is no event, as the marker of a transaction, counts as read
            progress.position = batch.next
            self._count(1)

    def _process(self, partition: str, records: Sequence[Raw], after: int) -> None:
        began = self._clock()
        processed = self._operator.process(partition, records)
        progress, tally, done = self._partitions[partition], processed.tally, processed.done
        progress.position = after if done == len(records) else records[done].offset
        # before a sink can interrupt: the operator has scored these records, and they would be scored twice
        self._telemetry.count(partition, progress.position, processed)
        for sink in self._sinks.values():
            self._stubs += sink.write(processed.outputs)
        progress.learned += tally.learned
        progress.predicted += tally.predicted
        progress.refused += tally.refused
        progress.skipped += tally.skipped
        self._count(done)
        self.processed += done
        seconds = self._clock() - began
        if done:
            self._pace = seconds / done
            self._telemetry.worked(seconds, records[done - 1].timestamp)
        if processed.failure is not None:
            self.save()
            raise processed.failure

    def _count(self, done: int) -> None:
        if done:
            self._telemetry.unsaved()
        self._unsaved += done
        self._unconfirmed += done

    def _committable(self, durable: Collection[str] = ()) -> dict[str, Committed]:
        """Return what to commit: what is learned again silently stays committed."""
        found = {}
        for name, note in self._notes.items():
            position = self._partitions[name].position
            if name in durable:
                note.owners[-1] = note.owners[-1]._replace(until=position)
            found[name] = Committed(max(position, self._emitted[name]), ownership.write(note))
        return found

    def _confirm(self) -> None:
        """Raise Interruption if what was read since the last time is not to be kept."""
        self._committed_at = self._clock()
        if self._unconfirmed:
            self._source.confirm()
            self._unconfirmed = 0

    def _commit(self) -> None:
        """Make the outputs visible, together with the positions."""
        self._confirm()
        began, positions = self._clock(), self._committable()
        committed = [sink.commit(positions) for sink in self._sinks.values()]
        if any(committed):
            self._tell_commit("outputs", began)
            self._advance(positions)

    def _tell_commit(self, kind: str, began: float) -> None:
        self._telemetry.committed(kind, self._clock() - began, self._stubs)
        self._stubs = 0

    def _advance(self, positions: Mapping[str, Committed]) -> None:
        """Note what is committed."""
        found = {name: committed.position for name, committed in positions.items()}
        if any(at > self.committed.get(name, self._emitted[name]) for name, at in found.items()):
            self._telemetry.progressed()
        self.committed |= found

    def save(self) -> bool:
        """Make the outputs visible and what is known last; return whether the group was told."""
        self._confirm()
        began = self._clock()
        size, told = self._keeping.save(self._committable)
        self._unsaved, self._saved_at = 0, self._clock()
        self._tell_commit("checkpoint", began)
        self._telemetry.checkpointed(size)
        if told:
            self._advance(self._committable())
        return told

    def close(self) -> None:
        """Let go of what keeps what is known."""
        self._keeping.close()

    def finish(self) -> None:
        """Put everything where it lasts."""
        if self._unsaved:
            self.save()
