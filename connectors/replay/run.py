"""Replay of a log: contenders predict every event, are scored, and learn it.

Batches are read until the log ends or Ctrl-C is pressed, and cut into micro-batches: their targets are read
for the task, and lines of output are due between them.
"""

from __future__ import annotations

import contextlib
import math
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from connectors.contract.records import Log
from connectors.events.batches import EXAMPLES, RecordBatch
from connectors.events.decoding import Places, Record, rejected
from connectors.events.learners import DEFAULT
from connectors.events.targets import InferredLabels, TaskError, check_by, decide_task, interpret
from connectors.events.values import labels_of
from connectors.replay.contenders import NONE, QUICK, baselines, contender
from connectors.replay.labels import ByLabels, KeyedLog
from connectors.replay.progress import Replay, ReplayCheckpoint, Scoring
from connectors.replay.writing import PredictionWriter
from streamk.arrays import Json
from streamk.encoding.fields import Event
from streamk.evaluation.adapters import EventChunk, Place
from streamk.evaluation.contest import CHUNK, RefusedError
from streamk.evaluation.label_delay import DelayByChunks, LabelDelay, Refuse, delay_of
from streamk.evaluation.replaying import LOOK, warm
from streamk.evaluation.windows import fitting

Watch = Callable[[Replay], None]
_FREEZE = 0.75  # part of the log after which the first contender is also scored without new labels


class Interruptible:
    """Batches of a log that end without the loss of a batch read before.

    Ctrl-C ends a wait for the next record at once; otherwise the replay stops after learning the current
    events. Pressed again, it ends the process. Records that standard input has delivered are still returned.

    Parameters
    ----------
    log
        What to read.
    """

    def __init__(self, log: Log) -> None:
        self._log, self._batches = log, log.batches()
        self._reading = self._ending = False
        self.interrupted, self.error = False, ""

    def __iter__(self) -> Iterator[RecordBatch]:
        return self

    def __next__(self) -> RecordBatch:
        if (self.interrupted and not self._ending) or self.error:
            raise StopIteration
        try:
            self._reading = True
            return next(self._batches)
        except KeyboardInterrupt:
            raise StopIteration from None
        except ValueError as error:
            self.error = str(error)
            raise StopIteration from None
        finally:
            self._reading = False

    def _ask(self, number: int, frame: object) -> None:
        if self.interrupted:
            raise KeyboardInterrupt
        self.interrupted = True
        if self._reading:
            self._ending = self._log.stop()

    def __enter__(self) -> Interruptible:
        self._before: Callable[[int, FrameType | None], object] | int | None = None
        with contextlib.suppress(ValueError):  # not the main thread, which handles Ctrl-C
            self._before = signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(self, *details: object) -> None:
        close = getattr(self._batches, "close", None)
        if close is not None:
            close()
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)


class MicroBatch(NamedTuple):
    """Events with their places, and their targets as the task needs them.

    ``read`` is the number of records of the log that are finished after these events: those of a whole batch
    with its last micro-batch, else 0. A replay can be resumed only from there. ``late`` is whether they are
    in the last quarter of the log.
    """

    chunk: EventChunk
    targets: Sequence[object]
    read: int = 0
    late: bool = False


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
    log: Log,
    run: Replay,
    limit: int | None,
    refuse: Refusals,
    inferred: InferredLabels | None = None,
) -> Iterator[MicroBatch]:
    """Yield the records that were not finished before an interruption, at most ``limit`` in total.

    With an ``inferred`` task of labels, the first target that is no label ends the replay.
    """
    seen, before, done = 0, run.read, 0
    for batch in batches:
        late = _late_from(slice(seen, seen + len(batch)), slice(done, batch.done), log.size, limit)
        done = batch.done
        start = min(max(before - seen, 0), len(batch))
        stop = len(batch) if limit is None else min(len(batch), limit - seen)
        seen += len(batch)
        if start < stop:
            whole, stopped = _piece(batch, slice(start, stop), log, run, refuse)
            wrong = None if inferred is None else inferred.first_wrong(whole.targets)
            if inferred is not None and wrong is not None:
                stopped = rejected(
                    _named(log, whole.chunk.place(wrong)), inferred.sentence(whole.targets[wrong])
                )
                whole = MicroBatch(whole.chunk[:wrong], whole.targets[:wrong])
                refuse.strict = True
            at, count = 0, len(whole.targets)
            while at < count and not refuse.ended:
                until = at + _until_mark(run)
                part = slice(at, min(until, late - start) if at < late - start else until)
                at = part.stop
                read = stop - start if at >= count else 0
                last = part.start >= late - start
                yield MicroBatch(whole.chunk[part], whole.targets[part], read, last)
            if not count:
                yield whole._replace(read=stop - start)
            if stopped:
                refuse(stopped)
        if refuse.ended or (limit is not None and seen >= limit):
            return


def _late_from(rows: slice, done: slice, size: int, limit: int | None) -> int:
    """Return the row of a batch with which the last quarter of a log starts; it may be outside of the batch.

    Parameters
    ----------
    rows
        The batch's, of the log.
    done, size
        How much had been read before and after the batch, and how much there is; 0 of a pipe.
    limit
        Rows after which a replay stops.

    >>> _late_from(slice(0, 1000), slice(0, 500), 500, None), _late_from(slice(0, 1000), slice(0, 0), 0, 400)
    (750, 300)
    """
    count = rows.stop - rows.start
    starts: list[int] = [math.ceil(_FREEZE * limit) - rows.start] if limit else []
    if size and done.stop > done.start:
        starts.append(math.ceil(count * (_FREEZE * size - done.start) / (done.stop - done.start)))
    return min(starts, default=count)


def _piece(
    batch: RecordBatch, rows: slice, log: Places, run: Replay, refuse: Refusals
) -> tuple[MicroBatch, str]:
    """Return a slice of a batch with its targets, without records whose target is invalid.

    If an invalid target ends the replay, return the records before it, and its error.
    """
    events: Callable[[], Sequence[Event]] = lambda: batch.events  # noqa: E731  # made only if needed
    lines = batch.lines[rows]
    chunk = EventChunk(events, batch.names, batch.matrix)[rows]
    chunk.places = [(batch.name, line) for line in lines]
    if isinstance(run.late, ByLabels):
        return MicroBatch(chunk, [None] * len(lines)), ""
    if run.task == "regression" and batch.numbers is not None:
        return MicroBatch(chunk, batch.numbers[rows].tolist()), ""
    if run.task != "regression":
        return MicroBatch(chunk, labels_of(batch.targets[rows])), ""
    fields: Any = chunk.events
    accepted, stopped = [], ""
    for x, y, line in zip(fields, batch.targets[rows], lines, strict=True):
        try:
            accepted.append((*interpret(Record(line, x, y), log, run.task), (batch.name, line)))
        except ValueError as error:
            if refuse.strict:
                stopped = str(error)
                break
            refuse(str(error))
    xs, targets, kept = zip(*accepted, strict=True) if accepted else ((), (), ())
    return MicroBatch(EventChunk(list(xs), places=kept), targets), stopped


def _until_mark(run: Replay) -> int:
    """Return how many events to take next, so that a line of output follows at every power of two.

    If targets come late, events are scored one by one, and lines are added between them.
    """
    if run.late is not None:
        return CHUNK
    events = run.contest.events
    return min(CHUNK, (1 << events.bit_length()) - events)


def replay_log(
    log: Log,
    learners: str | Sequence[str] = DEFAULT,
    task: str | None = None,
    parameters: Mapping[str, object] | None = None,
    limit: int | None = None,
    baseline: str | bool = QUICK,
    delay: int | LabelDelay = 0,
    scoring: Scoring = Scoring(),  # noqa: B008  # it never changes
    strict: bool = False,
    checkpoint: ReplayCheckpoint | None = None,
    watch: Watch = lambda replay: None,
    announce: Callable[[str], None] = lambda sentence: None,
) -> Replay:
    """Replay a log through contenders, and return the replay with their results.

    Parameters
    ----------
    log
        What to read.
    learners
        As :func:`connectors.replay.contenders.contender` takes them.
    task
        ``"classification"`` or ``"regression"``; inferred from the first records by default.
    parameters
        More settings of the first contender.
    limit
        Events after which to stop.
    baseline
        Which baselines to run, as :func:`connectors.replay.contenders.baselines` takes them; False is none.
    delay
        How late targets come (:mod:`streamk.evaluation.label_delay`).
    scoring
        Windows, slices, intervals, and a file for every prediction.
    strict
        Whether the first invalid record ends the replay, without targets that have not arrived. Otherwise
        invalid records are skipped and counted, with a few examples.
    checkpoint
        The checkpoint to resume from and to write.
    watch
        Called after every chunk of events.
    announce
        Takes sentences about how the log is read and what the task is, before the first event.

    Ctrl-C ends the replay; the results are then those of the events before.

    Raises
    ------
    ValueError
        If no record can be taken, or a name or a parameter is wrong.
    """
    late = delay_of(delay)
    chosen = baseline if isinstance(baseline, str) else QUICK if baseline else NONE
    names = [learners] if isinstance(learners, str) else list(learners)
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"{twice} is there twice; give one of them other settings")

    def models(task: str) -> Json:
        extras = [parameters, *[None] * (len(names) - 1)]
        return {name: contender(name, task, extra=more) for name, more in zip(names, extras, strict=True)}

    if task is not None:
        models(task)  # raises on wrong settings before anything is read
    with Interruptible(log) as reading, contextlib.ExitStack() as opened:
        head = _read_head(reading)
        records = [record for batch in head for record in batch.records()][:LOOK]
        if not records:
            raise ValueError(reading.error or _nothing(log))
        check_by(scoring.by, records)
        targets = late.look() if isinstance(late, ByLabels) else [record.target for record in records]
        announced = _announce(log, announce)
        inferred = None
        if task is None:
            task, inferred = _infer_task(targets, log, announce)
        if isinstance(late, ByLabels):
            late.task, late.inferred = task, inferred
        scoring = scoring.decided(task, [target for target in targets if target is not None], announce)
        contenders = models(task)
        _warm(contenders, task, records[:2], log)
        contenders |= {
            name: model for name, model in baselines(chosen, task).items() if name not in contenders
        }
        scoring = _with_windows(scoring, log, head, limit)
        run = Replay.beginning(task, contenders, scoring, late)
        if checkpoint is not None:
            run = checkpoint.read(run)
        refuse = Refusals(run, strict)
        file = None
        if scoring.predictions is not None:
            file = opened.enter_context(contextlib.closing(_listening(run, scoring.predictions)))
        batches = pieces(chain(head, reading), log, run, limit, refuse, inferred)
        for piece in _taken(run, batches, log, refuse):
            watch(run)
            if checkpoint is not None and piece.read and checkpoint.due():
                _save(run, file, checkpoint)
        if not refuse.ended and not (reading.interrupted and checkpoint is not None):
            whole = limit is None and not reading.interrupted and not reading.error
            _end_late(run, log, refuse, whole)
        _announce(log, announce, announced)
        if sentence := run.runs.sentence(log.target):
            announce(sentence)
        run.contest.score()
        run.mark(last=not reading.interrupted)
        watch(run)
        run.interrupted = reading.interrupted
        run.error = run.error or reading.error
        _save(run, file, None if refuse.ended else checkpoint)
    if not run.events and not run.interrupted:
        raise ValueError(run.error or (run.refused and run.examples[0]) or _nothing(log))
    return run


def _announce(log: Log, announce: Callable[[str], None], start: int = 0) -> int:
    """Announce the sentences about a log from one on; return how many there are."""
    for sentence in log.notes[start:]:
        announce(sentence)
    return len(log.notes)


def _save(run: Replay, file: PredictionWriter | None, checkpoint: ReplayCheckpoint | None) -> None:
    """Record the length of the predictions file, and write the checkpoint; without one, no event waits."""
    run.written = 0 if file is None else file.length()
    if checkpoint is None:
        run.contest.give_up()
    else:
        checkpoint.write(run)


def _with_windows(scoring: Scoring, log: Log, head: Sequence[RecordBatch], limit: int | None) -> Scoring:
    """Return how to score in windows that fit the log, by the part of it that was read."""
    if scoring.interval is not None:
        return scoring
    share = min(log.done / log.size, 1.0) if log.size else 0.0
    events = min(sum(map(len, head)) / share, limit or math.inf) if share else limit
    return scoring._replace(interval=fitting(events))


def _read_head(reading: Iterator[RecordBatch]) -> list[RecordBatch]:
    """Read the batches that the task is inferred from."""
    head: list[RecordBatch] = []
    while sum(map(len, head)) < LOOK and (batch := next(reading, None)) is not None:
        head.append(batch)
    return head


def _infer_task(
    targets: Sequence[object], log: Log, announce: Callable[[str], None]
) -> tuple[str, InferredLabels | None]:
    """Return the task of a log, and the classes if it has whole numbers for them."""
    decision = decide_task(targets, log.target)
    announce(decision.sentence)
    return decision.task, InferredLabels(log.target) if decision.whole else None


def _warm(models: Json, task: str, records: Sequence[Record], log: Log) -> None:
    """Compile what the models need on the first records."""
    known: list[tuple[Json, object]] = []
    for record in records:
        if record.target is not None and (pair := _pair(record, log, task)) is not None:
            known.append(pair)
    if known:
        warm(models, task, known)


def _taken(
    run: Replay,
    batches: Iterable[MicroBatch],
    log: Log,
    refuse: Refusals,
) -> Iterator[MicroBatch]:
    """Replay micro-batches, and yield each when its records are counted."""
    for piece in batches:
        if run.contest.tail is None and piece.late:
            run.contest.freeze()
        run.sample.add(piece.chunk)
        _take(run, piece, log, refuse)
        if refuse.ended:
            return
        run.runs.add(piece.targets)
        run.read += piece.read
        run.mark()
        yield piece


def _nothing(log: Log) -> str:
    return f"{log.name} holds no events" + (f": {log.examples[0]}" if log.examples else "")


def _pair(record: Record, log: Places, task: str) -> tuple[Json, object] | None:
    try:
        return interpret(record, log, task)
    except ValueError:
        return None


def _listening(run: Replay, path: Path) -> PredictionWriter:
    """Return a file that gets every prediction from now on, after those of before an interruption."""
    names = [*run.names, f"{run.names[0]} (frozen)"]
    contest, classes = run.contest, run.task == "classification"
    file = PredictionWriter(path, names, classes, contest.bounded, contest.by, run.written)
    run.contest.listener = file.add
    return file


def _named(log: Places, place: Place | None) -> object:
    """Return what names the place of a record in messages."""
    assert place is not None  # of a log
    return log.place(place[1])


def _take(run: Replay, piece: MicroBatch, log: Places, refuse: Refusals) -> None:
    if run.late is not None:
        _take_late(run, run.late, piece, log, refuse)
        return
    start = 0
    while start < len(piece.targets):
        try:
            run.contest.take(piece.chunk[start:], piece.targets[start:])
            return
        except RefusedError as error:
            refuse(rejected(_named(log, piece.chunk.place(start + error.row)), error.reason))
            if refuse.ended:
                return
            start += error.row + 1


def _take_late(run: Replay, late: LabelDelay, piece: MicroBatch, log: Places, refuse: Refusals) -> None:
    bad, in_chunks = _of_targets(run, log, refuse), isinstance(late, DelayByChunks)
    for row, (x, y) in enumerate(zip(piece.chunk.events, piece.targets, strict=True)):
        run.contest.place = piece.chunk.place(row)
        try:
            late.event(run.contest, x, y, bad)
        except (
            ValueError
        ) as error:  # of the event; if a target has ended the replay, the first error is stored
            refuse(rejected(_named(log, run.contest.place), getattr(error, "reason", error)))
            if refuse.ended:
                return
        if in_chunks or not run.events & (run.events - 1):
            run.contest.score()
            run.mark(last=in_chunks)
    run.contest.score()


def _of_targets(run: Replay, log: Places, refuse: Refusals) -> Refuse:
    """Return the function that rejects late targets; it raises if that ends the replay."""

    def bad(error: ValueError) -> None:
        if isinstance(error, RefusedError):
            refuse(rejected(_named(log, error.place), error.reason))
        else:
            refuse.strict |= isinstance(error, TaskError)
            refuse(str(error))
        if refuse.ended:
            raise error

    return bad


def _end_late(run: Replay, log: Log, refuse: Refusals, whole: bool) -> None:
    """Add the targets that have not arrived; ``whole`` is whether all events were read."""
    if run.late is None:
        return
    with contextlib.suppress(ValueError):  # it has ended the replay
        run.late.end(run.contest, _of_targets(run, log, refuse))
    if isinstance(run.late, ByLabels) and isinstance(log, KeyedLog):
        log.never(run.contest.waiting, run.late.early if whole else [])
    run.contest.give_up()
