"""Micro-batches of a log: targets are read, lines of output are due between them, rejections are counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from connectors.events.batches import EXAMPLES, RecordBatch
from connectors.events.decoding import Places, Record, rejected
from connectors.events.targets import InferredLabels, interpret
from connectors.events.values import labels_of
from connectors.replay.labels import ByLabels
from connectors.replay.progress import Replay
from streamk.encoding.fields import Event
from streamk.evaluation.adapters import EventChunk
from streamk.evaluation.contest import CHUNK


class MicroBatch(NamedTuple):
    """Events, their targets as the task needs them, and their lines.

    ``read`` is the number of records of the log that are finished after these events: those of a whole batch
    with its last micro-batch, else 0. A replay can be resumed only from there.
    """

    chunk: EventChunk
    targets: Sequence[object]
    lines: Sequence[int]
    read: int = 0


class Refusals:
    """Counts rejected records and stores the errors of the first few; the first ends a strict replay."""

    def __init__(self, run: Replay, strict: bool) -> None:
        self._run, self.strict = run, strict
        self.ended = False

    def __call__(self, sentence: str) -> None:
        """Reject a record, with an error that names it."""
        if self.strict:
            self._run.error, self.ended = self._run.error or sentence, True
            return
        self._run.refused += 1
        if len(self._run.examples) < EXAMPLES:
            self._run.examples.append(sentence)


def pieces(
    batches: Iterable[RecordBatch],
    log: Places,
    run: Replay,
    limit: int | None,
    refuse: Refusals,
    inferred: InferredLabels | None = None,
) -> Iterator[MicroBatch]:
    """Yield the records that were not finished before an interruption, at most ``limit`` in total.

    With an ``inferred`` task of labels, the first target that is no label ends the replay.
    """
    seen, before = 0, run.read
    for batch in batches:
        start = min(max(before - seen, 0), len(batch))
        stop = len(batch) if limit is None else min(len(batch), limit - seen)
        seen += len(batch)
        if start < stop:
            whole, stopped = _piece(batch, slice(start, stop), log, run, refuse)
            wrong = None if inferred is None else inferred.first_wrong(whole.targets)
            if inferred is not None and wrong is not None:
                stopped = rejected(log.place(whole.lines[wrong]), inferred.sentence(whole.targets[wrong]))
                whole = MicroBatch(whole.chunk[:wrong], whole.targets[:wrong], whole.lines[:wrong])
                refuse.strict = True
            at, count = 0, len(whole.targets)
            while at < count and not refuse.ended:
                part = slice(at, at + _until_mark(run))
                at = part.stop
                read = stop - start if at >= count else 0
                yield MicroBatch(whole.chunk[part], whole.targets[part], whole.lines[part], read)
            if not count:
                yield whole._replace(read=stop - start)
            if stopped:
                refuse(stopped)
        if refuse.ended or (limit is not None and seen >= limit):
            return


def _piece(
    batch: RecordBatch, rows: slice, log: Places, run: Replay, refuse: Refusals
) -> tuple[MicroBatch, str]:
    """Return a slice of a batch with its targets, without records whose target is invalid.

    If an invalid target ends the replay, return the records before it, and its error.
    """
    events: Callable[[], Sequence[Event]] = lambda: batch.events  # noqa: E731  # made only if needed
    chunk = EventChunk(events, batch.names, batch.matrix)[rows]
    lines = batch.lines[rows]
    if isinstance(run.late, ByLabels):
        return MicroBatch(chunk, [None] * len(lines), lines), ""
    if run.task == "regression" and batch.numbers is not None:
        return MicroBatch(chunk, batch.numbers[rows].tolist(), lines), ""
    if run.task != "regression":
        return MicroBatch(chunk, labels_of(batch.targets[rows]), lines), ""
    fields: Any = chunk.events
    accepted, stopped = [], ""
    for x, y, line in zip(fields, batch.targets[rows], lines, strict=True):
        try:
            accepted.append((*interpret(Record(line, x, y), log, run.task), line))
        except ValueError as error:
            if refuse.strict:
                stopped = str(error)
                break
            refuse(str(error))
    xs, targets, kept = zip(*accepted, strict=True) if accepted else ((), (), ())
    return MicroBatch(EventChunk(list(xs)), targets, kept), stopped


def _until_mark(run: Replay) -> int:
    """Return how many events to take next, so that a line of output follows at every power of two.

    If targets come late, events are scored one by one, and lines are added between them.
    """
    if run.late is not None:
        return CHUNK
    events = run.contest.events
    return min(CHUNK, (1 << events.bit_length()) - events)
