"""From a checkpoint to the next: poll, decode, predict, learn, emit, checkpoint.

A session begins from what is on disk and in the group, and keeps nothing that cannot be made again from them.
Whatever interrupts it, a crash or a lost connection, the next one begins the same way, so there is one way to
recover and it is used at every start.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from connectors import ledger
from connectors.checkpoint import Checkpoint, Progress, Store, lag
from connectors.events import Event
from connectors.ledger import Start, Tenure
from connectors.machine import Machine, Outcome, Tally
from connectors.settings import Settings
from connectors.stream import (
    POSITION,
    REFUSED_EVENTS,
    Assigned,
    Batch,
    Committed,
    Failure,
    Interruption,
    Output,
    Raw,
    Sink,
    Source,
)
from connectors.telemetry import Telemetry
from streamk.learners import KernelLearner
from streamk.prequential import decide

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
        self._machine = Machine(self._checkpoint.learner, decoder, task)
        self._limits = _Limits(settings)
        self._tenures: dict[str, list[Tenure]] = {}  # of the partitions that are this process's
        self._emitted: dict[str, int] = {}  # up to where they were before this session
        self._unsaved = self._worked = 0
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
            ledger.overreaches(self._store.model, committed.get(name), progress.position)
            for name, progress in checkpoint.partitions.items()
        )

    @property
    def learner(self) -> KernelLearner:
        """The model, learning."""
        return self._machine.learner

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
            self._adopt(assigned)
        if polled.revoked:
            self._hand_over(polled.revoked)
        for partition, batch in polled.batches.items():
            self._work(partition, batch)
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
        done, seconds = self._worked, now - self._told_at
        self._told_at, self._worked = now, 0
        fields = {
            "events": self.learner.events,
            "a_second": round(done / seconds),
            **self._telemetry.figures(),
        }
        log.info("running", extra={"fields": fields})

    def _owned(self) -> dict[str, Progress]:
        return {name: self._partitions[name] for name in self._tenures}

    def _adopt(self, assigned: Assigned) -> None:
        """Begin with a partition where the checkpoint and the group say."""
        name = assigned.partition
        progress = self._partitions.get(name)
        saved = None if progress is None else progress.position
        otherwise = (
            assigned.end if getattr(self._settings.source, "start", "") == "latest" else assigned.first
        )
        start = ledger.start(self._store.model, assigned.committed, saved, otherwise)
        if not assigned.first <= start.position <= assigned.end:
            start = self._expired(assigned, start)
        position, emitted, tenures = start
        if saved is not None and position > saved:
            log.info("%s: %d to %d were learned by other models", name, saved, position - 1)
        if not self._source.commit({name: Committed(emitted, ledger.write(tenures))}):
            return  # the group is rebalancing again, and will tell
        self._partitions.setdefault(name, Progress(position)).position = position
        self._tenures[name], self._emitted[name] = tenures, emitted
        for sink in self._sinks.values():
            sink.begin(name, emitted)
        self._source.begin(name, position)
        silent = f", silently up to {emitted}" if emitted > position else ""
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
        return Start(position, position, [*start.tenures[:-1], Tenure(model, position, position)])

    def _hand_over(self, partitions: Sequence[str]) -> None:
        """Put what was learned from partitions that go to others where it lasts."""
        gone = [name for name in partitions if name in self._tenures]
        if gone:
            if not self.save():
                raise Interruption("the group did not wait for the checkpoint")
            for name in gone:
                del self._tenures[name]
            log.info("handed over: %s", ", ".join(gone))

    def _work(self, partition: str, batch: Batch) -> None:
        began = time.perf_counter()
        lenient = self._settings.dead_letters is not None
        outcomes = self._machine.work(batch.records, lenient)
        progress = self._partitions[partition]
        outputs = self._outputs(partition, outcomes)
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
        self._worked += len(done)
        self._telemetry.worked(done, tally, time.perf_counter() - began, self._machine.learner)
        if stopped:
            self.save()
            bad = outcomes[-1]
            raise Failure(
                REFUSED_EVENTS,
                f"{partition}, offset {bad.raw.offset}: {bad.reason}. Mend it, or set [dead_letters] to "
                "let such events go there",
            )
        if trouble := self._limits.exceeded(outcomes, tally.refused):
            self.save()
            raise Failure(REFUSED_EVENTS, trouble)

    def _outputs(self, partition: str, outcomes: Sequence[Outcome]) -> list[Output]:
        if not self._sinks:
            return []
        wanted = self._settings.predictions is not None
        outputs = []
        for outcome in outcomes:
            raw, event = outcome.raw, outcome.event
            if event is None:
                outputs.append(Output(True, partition, raw, outcome.reason.encode()))
            elif wanted:
                outputs.append(
                    Output(False, partition, raw, _body(partition, raw, event, outcome.prediction))
                )
        return outputs

    def _positions(self) -> dict[str, Committed]:
        """Return what to commit: what is learned again silently stays committed."""
        return {
            name: Committed(max(self._partitions[name].position, self._emitted[name]), ledger.write(tenures))
            for name, tenures in self._tenures.items()
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
        for name, tenures in self._tenures.items():
            tenures[-1] = tenures[-1]._replace(until=self._partitions[name].position)
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


class _Limits:
    """Refuses to go on where too many events are refused."""

    def __init__(self, settings: Settings) -> None:
        self._limits = settings.limits
        self._row = 0
        self._seen: list[bool] = []  # of the events in the window, whether each was refused

    def exceeded(self, outcomes: Sequence[Outcome], refused: int) -> str:
        """Count outcomes, and return the sentence that ends the run, empty if there is none."""
        limits = self._limits
        if not refused:
            self._row = 0
        for outcome in outcomes if refused else ():
            self._row = self._row + 1 if outcome.event is None else 0
            if self._row >= limits.consecutive:
                return f"{self._row} events in a row were refused (limits.consecutive): {outcome.reason}"
        self._seen += [outcome.event is None for outcome in outcomes] if refused else [False] * len(outcomes)
        del self._seen[: -limits.window]
        refused = sum(self._seen) if refused else 0
        if len(self._seen) == limits.window and refused > limits.ratio * limits.window:
            reason = next((o.reason for o in reversed(outcomes) if o.event is None), "")
            return f"{refused} of the last {limits.window} events were refused (limits.ratio): {reason}"
        return ""


def _body(partition: str, raw: Raw, event: Event, prediction: Any) -> bytes:
    """Return a prediction as JSON."""
    key = event.key
    if key is None and raw.key is not None:
        key = raw.key.decode("utf-8", "replace")
    answer: dict[str, Any] = {"partition": partition, "offset": raw.offset}
    if key is not None:
        answer["key"] = key
    if (moment := raw.timestamp if event.time is None else event.time) is not None:
        answer["time"] = moment
    answer["prediction"] = decide(prediction)
    if isinstance(prediction, dict):
        answer["probabilities"] = {_name(label): round(p, 6) for label, p in prediction.items()}
    if event.target is not None:
        answer["target"] = event.target
    return msgspec.json.encode(answer)


def _name(label: Any) -> str:
    return str(label).lower() if isinstance(label, bool) else str(label)
