"""A session: from a checkpoint to the next, poll, process, emit, checkpoint.

A session starts from what its state backend (:mod:`connectors.state.checkpoint`) and the group have
stored, and holds nothing that cannot be made again from them. Whatever interrupts it, a crash or a lost
connection, the next one starts the same way, so there is one way to recover and it is used at every start.
The operator (:mod:`connectors.contract.records`) decides what is done with records.
"""

from __future__ import annotations

import logging
import time
from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from operator import attrgetter

from connectors.contract.errors import Failure, Interruption, UnreadableRecords
from connectors.contract.records import MOST, PREDICTIONS, Assigned, Committed, Endpoints, Raw, RawBatch
from connectors.contract.sections import Limits, StartPolicy
from connectors.daemon.telemetry import Telemetry
from connectors.settings.tables import Checkpoints
from connectors.state.checkpoint import Progress, StateBackend, lag
from connectors.state.positions import (
    OffsetMetadata,
    encode_metadata,
    find_start,
    metadata_of,
    same_identity,
)
from connectors.state.training import require_same_digest

log = logging.getLogger(__name__)
_POLL = 0.1  # seconds
_COMMIT, _SOON = 0.1, 0.03  # seconds after which outputs become visible; with little to do, sooner
_LITTLE = 256  # records of a poll
_FIRST = 64  # records by which the pace is measured
_WORK = 0.5  # seconds of work after which it is time to look at the clock
_POLLED = 20.0  # seconds of work that one poll may bring
_ASK = 5.0  # seconds between two requests for the ends of the partitions, at most
_CHECK = 60.0  # seconds between two checks of the other members of the group
_REPORT = 10.0  # seconds between two log lines of the progress


class Session:
    """One run from a checkpoint on.

    Parameters
    ----------
    backend
        Holds the operator, and stores its state.
    endpoints
        Open.
    telemetry
        Counts everything.
    checkpoints, policy
        How often to write checkpoints, and where to start.
    clock
        Seconds, growing.
    """

    def __init__(
        self,
        backend: StateBackend,
        endpoints: Endpoints,
        telemetry: Telemetry,
        checkpoints: Checkpoints,
        policy: StartPolicy,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._operator, self._backend, self._telemetry = backend.operator, backend, telemetry
        self._source, self._sinks = endpoints
        self._checkpoints, self._policy, self._clock = checkpoints, policy, clock
        self._partitions = backend.progress
        self._metadata: dict[str, OffsetMetadata] = {}  # of the partitions that are this process's
        self._emitted: dict[str, int] = {}  # up to where they were before this session
        self._unsaved = self._unconfirmed = self._reported = 0
        self._truncated = 0  # truncated dead letters that are not committed yet
        self._idle = False  # whether the last poll brought little
        self._predicts = False  # whether it has written predictions, which are there once they are committed
        self.processed = 0  # records
        self.committed: dict[str, int] = {}
        self._pace = 0.0  # seconds a record
        self._saved_at = self._committed_at = self._asked_at = self._reported_at = self._check_at = clock()
        if backend.untried:
            self.save()  # a directory that cannot be written fails at once

    @property
    def positions(self) -> dict[str, int]:
        """Up to where partitions have been read."""
        return {name: progress.position for name, progress in self._partitions.items()}

    def adjust(self, checkpoints: Checkpoints, limits: Limits) -> None:
        """Take settings that have changed."""
        self._checkpoints = checkpoints
        self._operator.adjust(limits)

    def step(self) -> bool:
        """Run the loop once; return whether the source is at its end."""
        self._telemetry.beat()
        most = MOST if self._pace * MOST < _POLLED else max(1, int(_POLLED / self._pace))
        try:
            with self._telemetry.awaits("poll"):
                polled = self._source.poll(_POLL, most)
        except (Failure, UnreadableRecords):  # what came before it is good
            self.finish()
            raise
        with self._telemetry.awaits("request about partitions"):
            changes = [self._assign(assigned) for assigned in polled.assigned]
        if polled.revoked:
            changes.append(self._revoke(polled.revoked))
        if any(changes):
            self._telemetry.rebalanced()
        if polled.standby and not self._telemetry.ready:
            log.info("standing by: the group has given all partitions to others")
            self._telemetry.ready = True
        self._idle = sum(len(batch.records) for batch in polled.batches.values()) < _LITTLE
        for partition, batch in polled.batches.items():
            if partition in self._metadata:  # what has just been handed over is another's
                self._take(partition, batch)
        self._commit_if_due()  # also where nothing came
        now = self._clock()
        if now - self._asked_at >= min(_ASK, self._telemetry.silence / 2):
            self._asked_at = now
            with self._telemetry.awaits("request about the group"):
                self._ask(now)
        if now - self._reported_at >= _REPORT:
            self._report(now)
        return polled.finished

    def _ask(self, now: float) -> None:
        """Ask the brokers about the group and the ends of the partitions."""
        self._check_group(now)
        ends = self._source.ends()
        if ends is None:
            self._telemetry.unanswered()
            return
        self._telemetry.waiting(lag(ends, self._owned()), self._source.uncommitted(ends))
        if not self._unsaved:
            self._telemetry.caught_up()

    def _commit_if_due(self) -> None:
        """Make outputs visible, and store the state, if that is due."""
        now = self._clock()
        if self._sinks and now - self._committed_at >= (_SOON if self._idle else _COMMIT):
            self._commit()
        due = self._checkpoints
        if self._unsaved >= due.events or (self._unsaved and now - self._saved_at >= due.seconds):
            self.save()

    def _report(self, now: float) -> None:
        """Log the progress."""
        done, seconds = self.processed - self._reported, now - self._reported_at
        self._reported_at, self._reported = now, self.processed
        fields = {"events_per_second": round(done / seconds), **self._telemetry.figures()}
        log.info("running", extra={"fields": fields})

    def _check_group(self, now: float) -> None:
        """Raise Failure if others of the group read partitions and are no daemons with the same settings."""
        if now < self._check_at:
            return
        self._check_at = now + _CHECK
        self._source.require_daemons()
        others = [name for name in self._source.partitions() if name not in self._metadata]
        for name, committed in self._source.committed(others).items():
            require_same_digest(name, metadata_of(committed).digest, self._policy)

    def _owned(self) -> dict[str, Progress]:
        return {name: self._partitions[name] for name in self._metadata}

    def _assign(self, assigned: Assigned) -> bool:
        """Start to read a partition where the checkpoint and the group say; return whether that is known."""
        name, model = assigned.partition, self._backend.owner
        if not self._backend.admit(assigned, self._policy):
            return False  # the next poll brings it again
        saved = self._partitions.get(name)
        start, metadata = find_start(
            model, assigned, saved, partial(self._partition_count, assigned), self._policy
        )
        position, emitted, owners = start
        others = [owner for owner in owners if owner.model != model]
        if saved is not None and any(saved.position < owner.until <= position for owner in others):
            log.info("%s: %d to %d were learned by other models", name, saved.position, position - 1)
        if not self._source.commit({name: Committed(emitted, encode_metadata(metadata))}):
            return False  # the group is rebalancing again, and will assign it again
        recreated = saved is not None and not same_identity(saved.identity, metadata.identity)
        progress = self._partitions.setdefault(name, Progress(position))
        progress.position, progress.identity = position, metadata.identity
        self._metadata[name], self._emitted[name] = metadata, emitted
        self._check_at = self._clock()
        for sink in self._sinks.values():
            sink.begin(name, emitted, recreated)
        self._source.begin(name, position)
        self._telemetry.begin(name, emitted, assigned.end, metadata.identity)
        silent = f", replaying without emitting up to {emitted}" if emitted > position else ""
        log.info("%s: reading from position %d%s", name, position, silent)
        self._telemetry.ready = True
        return True

    def _partition_count(self, assigned: Assigned) -> int | None:
        """Return how many partitions a topic had when the group started to read it.

        It is 0 if that is lost, or if the topic is new, and None if the group has not read it.
        """
        committed = self._source.committed(self._source.partitions())
        topic = assigned.partition.rpartition("-")[0]
        counts = [
            metadata_of(each).partition_count
            for name, each in committed.items()
            if name.rpartition("-")[0] == topic
        ]
        lost = assigned.added or (self._backend.has_state and len(counts) == len(committed))
        return max(filter(None, counts), default=0 if lost else None)

    def _revoke(self, partitions: Sequence[str]) -> bool:
        """Store what was learned from partitions that go to others; return whether there is any."""
        gone = [name for name in partitions if name in self._metadata]
        if gone:
            if not self.save():
                raise Interruption("the group did not wait for the checkpoint")
            for name in gone:
                del self._metadata[name]
            self._telemetry.revoked(gone)
            log.info("revoked: %s", ", ".join(gone))
        self._backend.release(partitions)
        return bool(gone)

    def _take(self, partition: str, batch: RawBatch) -> None:
        """Process a batch, in micro-batches if it takes long: outputs and checkpoints must not wait for it.

        No micro-batch holds both records that are counted already and others.
        """
        records, at = self._without_excluded(partition, batch.records), 0
        new = bisect_left(records, self._telemetry.counted(partition), key=attrgetter("offset"))
        while at < len(records):
            size = _FIRST if self._pace == 0.0 else max(1, int(_WORK / self._pace))
            part = records[at : min(at + size, new) if at < new else at + size]
            self._telemetry.replays(at < new)
            at += len(part)
            self._process(partition, part, batch.next if at >= len(records) else records[at].offset)
            self._commit_if_due()
        progress = self._partitions[partition]
        if progress.position < batch.next:  # what is no event, as the marker of a transaction, counts as read
            progress.position = batch.next
            self._count(1)

    def _without_excluded(self, partition: str, records: Sequence[Raw]) -> Sequence[Raw]:
        """Return the records that are to be processed."""
        ranges = self._backend.excluded.get(partition)
        if not ranges:
            return records
        kept = [raw for raw in records if not any(a <= raw.offset < b for a, b in ranges)]
        self._partitions[partition].skipped += len(records) - len(kept)
        return kept

    def _process(self, partition: str, records: Sequence[Raw], after: int) -> None:
        started = self._clock()
        processed = self._operator.process(partition, records)
        progress, tally, done = self._partitions[partition], processed.tally, processed.done
        progress.position = after if done == len(records) else records[done].offset
        # before a sink can interrupt: the operator has scored these records, and they would be scored twice
        self._telemetry.count(partition, progress.position, processed, records[:done])
        with self._telemetry.awaits("write"):
            for sink in self._sinks.values():
                self._truncated += sink.write(processed.outputs)
        progress.learned += tally.learned
        progress.predicted += tally.predicted
        progress.refused += tally.refused
        progress.skipped += tally.skipped + tally.repeated
        self._count(done)
        self.processed += done
        seconds = self._clock() - started
        if done:
            self._pace = seconds / done
            self._telemetry.worked(seconds)
        self._predicts = self._predicts or any(each.kind == PREDICTIONS for each in processed.outputs)
        if not (self._sinks and self._predicts):
            self._telemetry.delivered()
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
        positions = {}
        for name, metadata in self._metadata.items():
            position = self._partitions[name].position
            if name in durable:
                metadata.owners[-1] = metadata.owners[-1]._replace(until=position)
            positions[name] = Committed(max(position, self._emitted[name]), encode_metadata(metadata))
        return positions

    def _confirm(self) -> None:
        """Raise Interruption if what was read since the last time does not count."""
        self._committed_at = self._clock()
        if self._unconfirmed:
            self._source.confirm()
            self._unconfirmed = 0

    def _commit(self) -> None:
        """Make the outputs visible, together with the positions."""
        with self._telemetry.awaits("commit"):
            self._confirm()
            started, positions = self._clock(), self._committable()
            committed = [sink.commit(positions) for sink in self._sinks.values()]
        if any(committed):
            self._count_commit("outputs", started)
            self._advance(positions)

    def _count_commit(self, kind: str, started: float) -> None:
        self._telemetry.committed(kind, self._clock() - started, self._truncated)
        self._telemetry.delivered()
        self._truncated = 0

    def _advance(self, positions: Mapping[str, Committed]) -> None:
        """Record what is committed."""
        offsets = {name: committed.position for name, committed in positions.items()}
        if any(at > self.committed.get(name, self._emitted[name]) for name, at in offsets.items()):
            self._telemetry.progressed()
        self.committed |= offsets

    def save(self) -> bool:
        """Make the outputs visible and store the state; return whether the positions were committed."""
        with self._telemetry.awaits("commit"):
            self._confirm()
            started = self._clock()
            size, committed = self._backend.save(self._committable)
        self._telemetry.granted(committed)
        self._unsaved, self._saved_at = 0, self._clock()
        self._count_commit("checkpoint", started)
        self._telemetry.checkpointed(size)
        if committed:
            self._advance(self._committable())
        return committed

    def close(self) -> None:
        """Close the state backend."""
        self._backend.close()

    def finish(self) -> None:
        """Store everything."""
        if self._unsaved:
            self.save()
