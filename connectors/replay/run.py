"""Replay a log: contenders predict every event, are scored, and learn it, side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any

from connectors.events import Places, Record
from connectors.files.log import SHOWN
from connectors.learners import DEFAULT
from connectors.replay.contenders import LinearClassifier, LinearRegressor
from connectors.replay.interrupts import Interruptible
from connectors.replay.labels import ByLabels
from connectors.replay.progress import Checkpoint, Replay, Scoring
from connectors.replay.reading import interpret
from connectors.replay.specs import contender
from streamk.prequential.contest import CHUNK, RefusedError
from streamk.prequential.late import ByCount, Late, late_of
from streamk.prequential.replaying import LOOK, tell_task, warm

Watch = Callable[[Replay], None]


def replay(
    log: Any,
    learners: str | Sequence[str] = DEFAULT,
    task: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    limit: int | None = None,
    baseline: bool = True,
    delay: int | Late = 0,
    scoring: Scoring = Scoring(),  # noqa: B008  # it never changes
    strict: bool = False,
    checkpoint: Checkpoint | None = None,
    watch: Watch = lambda replay: None,
) -> Replay:
    """Replay a log through contenders, and return where they stand.

    Parameters
    ----------
    log
        What to read: a :class:`connectors.files.log.Log`, or what has its verbs.
    learners
        As :func:`connectors.replay.specs.contender` takes them.
    task
        ``"classification"`` or ``"regression"``; told from the first records by default.
    parameters
        More settings of the first contender.
    limit
        Events after which to stop.
    baseline
        Whether to run river's linear model beside them.
    delay
        How late targets come (:mod:`streamk.prequential.late`). A learner that has a parameter of this name
        is told how many events, unless its settings say another.
    scoring
        Windows, slices, intervals.
    strict
        Whether the first record that cannot be taken ends the replay, with no target that is still on its
        way. Else it is left out and counted, and the first few are kept.
    checkpoint
        Where it goes on from, and what it writes.
    watch
        Called after every chunk of events.

    Ctrl-C ends the replay; the figures are then of what was before.

    Raises
    ------
    ValueError
        If no record can be taken, or a name or a parameter is wrong.
    """
    late = late_of(delay)
    names = [learners] if isinstance(learners, str) else list(learners)
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"{twice} is there twice; give one of them other settings")
    count = late.delay if isinstance(late, ByCount) else 0

    def models(task: str) -> dict[str, Any]:
        given = [parameters, *[None] * (len(names) - 1)]
        return {
            name: contender(name, task, count, given=more) for name, more in zip(names, given, strict=True)
        }

    if task is not None:
        models(task)  # what is wrong is said before anything is read
    with Interruptible(islice(iter(log), limit)) as records:
        head = list(islice(records, LOOK))
        if not head:
            raise ValueError(records.error or _nothing(log))
        targets = late.look() if isinstance(late, ByLabels) else [record.target for record in head]
        task = task or tell_task(targets)
        if isinstance(late, ByLabels):
            late.task = task
        found = models(task)
        pairs: list[Any] = [
            pair for record in head[:2] if record.target is not None
            and (pair := _pair(record, log, task)) is not None
        ]  # fmt: skip
        if pairs:
            warm(found, task, pairs)
        if baseline:
            linear: Any = LinearRegressor() if task == "regression" else LinearClassifier()
            if task == "classification":
                linear.expect(len({*map(str, targets)}))
            found[f"river {linear.name}"] = linear
        run = Replay.beginning(task, found, scoring, late)
        if checkpoint is not None:
            run = checkpoint.read(run)
        _follow(run, chain(head, records), log, records, strict, checkpoint, watch)
        run.interrupted = records.interrupted
        run.error = run.error or records.error
        if checkpoint is not None:
            checkpoint.write(run)
    if not run.events and not run.interrupted:
        raise ValueError(run.error or (run.refused and run.examples[0]) or _nothing(log))
    return run


def _nothing(log: Any) -> str:
    found = getattr(log, "examples", [])
    return f"{log.name} holds no events" + (f": {found[0]}" if found else "")


def _pair(record: Record, log: Places, task: str) -> tuple[dict[str, Any], Any] | None:
    try:
        return interpret(record, log, task)
    except ValueError:
        return None


def _follow(
    run: Replay,
    records: Iterator[Record],
    log: Places,
    reading: Interruptible,
    strict: bool,
    checkpoint: Checkpoint | None,
    watch: Watch,
) -> None:
    """Go through the records that were not gone through before an interruption."""
    skipped = islice(records, run.read)
    for _ in skipped:
        pass
    refuse = _Refusals(run, strict)
    while chunk := list(islice(records, _until_mark(run))):
        run.read += len(chunk)
        pairs, lines = [], []
        for record in chunk:
            try:
                waits = isinstance(run.late, ByLabels)
                pairs.append((record.fields, None) if waits else interpret(record, log, run.task))
            except ValueError as error:
                refuse(str(error))
                continue
            lines.append(record.line)
        if run.late is None:
            _take(run, pairs, lines, log, refuse)
        else:
            _take_late(run, run.late, pairs, lines, log, refuse)
        if refuse.ended:
            break
        run.mark()
        watch(run)
        if checkpoint is not None and checkpoint.due():
            checkpoint.write(run)
    goes_on = refuse.ended or (reading.interrupted and checkpoint is not None)
    if run.late is not None and not goes_on:
        _end_late(run, run.late, log, refuse)
    run.contest.score()
    run.mark(last=not reading.interrupted)
    watch(run)


def _until_mark(run: Replay) -> int:
    """Return how many events to take next, so that there is a line at every power of two."""
    events = run.contest.events
    late = run.late.delay - run.contest.waiting if isinstance(run.late, ByCount) else 0
    return min(CHUNK, (1 << events.bit_length()) - events + late)


class _Refusals:
    """Records that were refused: counted, the first few kept; the first ends a strict replay."""

    def __init__(self, run: Replay, strict: bool) -> None:
        self._run, self._strict = run, strict
        self.ended = False

    def __call__(self, sentence: str) -> None:
        if self._strict:
            self._run.error, self.ended = self._run.error or sentence, True
            return
        self._run.refused += 1
        if len(self._run.examples) < SHOWN:
            self._run.examples.append(sentence)


def _take(run: Replay, pairs: Sequence[Any], lines: Sequence[int], log: Places, refuse: _Refusals) -> None:
    start = 0
    while start < len(pairs):
        part = pairs[start:]
        try:
            run.contest.take([x for x, _ in part], [y for _, y in part])
            return
        except RefusedError as error:
            refuse(f"{log.place(lines[start + error.row])}: {error.reason}")
            if refuse.ended:
                return
            start += error.row + 1


def _take_late(
    run: Replay, late: Late, pairs: Sequence[Any], lines: Sequence[int], log: Places, refuse: _Refusals
) -> None:
    for (x, y), line in zip(pairs, lines, strict=True):
        run.lines[late.count] = line
        try:
            late.event(run.contest, x, y)
        except RefusedError as error:
            refuse(f"{_place(run, late, error, log, line)}: {error.reason}")
            if refuse.ended:
                return
        except ValueError as error:
            refuse(f"{log.place(line)}: {error}")
            if refuse.ended:
                return
    run.lines = {key: run.lines[key] for key in run.contest.asked & run.lines.keys()}
    run.contest.score()


def _place(run: Replay, late: Late, error: RefusedError, log: Places, line: int) -> str:
    """Return how messages name an event that was refused, or whose target was."""
    if isinstance(late, ByLabels):
        return f"{late.path}, key {error.key!r}"
    return log.place(run.lines.get(error.key, line))


def _end_late(run: Replay, late: Late, log: Places, refuse: _Refusals) -> None:
    while True:
        try:
            late.end(run.contest)
            return
        except RefusedError as error:
            refuse(f"{_place(run, late, error, log, 0)}: {error.reason}")
            if refuse.ended:
                return
