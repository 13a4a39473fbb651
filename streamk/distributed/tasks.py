"""Tasks of workers: learn events of a shard from the bytes of a model.

A task is a pure function without state or side effects, so a task lost with its worker runs again on another
worker, with the same result.
"""

from __future__ import annotations

import json
import pickle
from functools import cache
from typing import NamedTuple

import numba
from threadpoolctl import threadpool_limits

from streamk.arrays import Array
from streamk.distributed.shards import Chunk, Shard
from streamk.encoding.labels import plain
from streamk.encoding.rows import RowError
from streamk.encoding.targets import check_weights, targets
from streamk.evaluation.tallies import ClassTally, NumberTally, Tally, total
from streamk.learners.learner import Learner
from streamk.learners.loading import loads


class Task(NamedTuple):
    """Events to learn: at most ``most`` of a shard from a position on.

    With ``evaluate``, they are predicted before; with ``scales_only``, only scales are learned.
    """

    shard: Shard
    position: object
    most: int
    evaluate: bool
    scales_only: bool = False


class Done(NamedTuple):
    """Result of a task: the model (None if no event was learned), the position of the shard, and the sums.

    ``refused`` is the number of events rejected by the learner, and ``example`` the reason of the first.
    """

    model: bytes | None
    position: object
    ended: bool
    events: int
    tally: Tally
    refused: int = 0
    example: str = ""


def perform(model: bytes, task: Task) -> Done:
    """Learn the events of a task; return the model and the metrics of its predictions before.

    Raises
    ------
    Exception
        Raised by reading or learning; the message starts with the name of the shard.
    """
    try:
        chunk = task.shard.read(task.position, task.most)
        return _learned(model, chunk, task)
    except Exception as error:
        raise _named(error, task.shard.name) from None


def _learned(model: bytes, chunk: Chunk, task: Task) -> Done:
    learner, position = loads(model), _position(chunk.next)
    nothing: Tally = ClassTally() if learner.classifies else NumberTally()
    if not len(chunk.targets):
        if not chunk.ended:
            raise ValueError(f"it gave no events at position {task.position!r}, and has not ended")
        return Done(None, position, True, 0, nothing)
    weights = check_weights(chunk.weights, len(chunk.targets))
    ys = list(map(plain, targets(chunk.targets, len(weights))))
    tally, events, refused, example = nothing, 0, 0, ""
    judge, start = learner, 0
    while start < len(ys):
        stop = len(ys)
        try:
            part = _learn_part(learner, judge, chunk, ys, weights, slice(start, stop), task)
        except RowError as error:
            stop = start + error.row
            line = f"row {stop}" if chunk.lines is None else f"line {chunk.lines[stop]}"
            if chunk.strict:
                raise ValueError(f"{line}: {error.reason}") from None
            refused, example = refused + 1, example or f"{task.shard.name}, {line}: {error.reason}"
            if judge is learner:  # an untrained model, which predicts only before it learns
                judge = loads(model)
            part = _learn_part(learner, judge, chunk, ys, weights, slice(start, stop), task)
        tally, events, start = total([tally, part]), events + int((weights[start:stop] > 0.0).sum()), stop + 1
    learner.flush()
    learned = learner.to_bytes() if events else None
    return Done(learned, position, chunk.ended, events, tally, refused, example)


def _learn_part(
    learner: Learner,
    judge: Learner,
    chunk: Chunk,
    ys: list[object],
    weights: Array,
    rows: slice,
    task: Task,
) -> Tally:
    """Learn rows of a chunk; return the metrics of the judge's predictions of them.

    Raises
    ------
    RowError
        If a row is rejected; nothing was then learned.
    """
    tally: Tally = ClassTally() if learner.classifies else NumberTally()
    part = chunk._replace(rows=chunk.rows[rows], targets=ys[rows])
    # an untrained model is not evaluated: the errors of a first round would not describe it
    answers = _answers(judge, part) if task.evaluate and judge.events else []
    learner._pass(part.rows, part.targets, weights[rows], chunk.names, False, task.scales_only)
    learned = weights[rows] > 0.0
    asked = [(y, p) for y, p, counts in zip(part.targets, answers, learned, strict=False) if counts]
    return type(tally).of([y for y, _ in asked], [p for _, p in asked])


def _answers(learner: Learner, chunk: Chunk) -> list[object]:
    predictions = learner.predict_many(chunk.rows, chunk.names)  # type: ignore[attr-defined]
    return targets(predictions, len(chunk.targets), "predictions")


def _position(value: object) -> object:
    """Return a position as restored from a checkpoint, so that resuming changes nothing."""
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise ValueError(f"its position {value!r} is no value that JSON holds ({error})") from None


def _named(error: Exception, name: str) -> Exception:
    """Return an exception with the shard's name, of the nearest class that can be pickled."""
    sentence = f"shard {name}: {error}"
    for kind in type(error).__mro__:
        try:
            made: Exception = kind(sentence)
            if str(pickle.loads(pickle.dumps(made))) == sentence:
                return made
        except Exception:  # other arguments, or not picklable: try its base class
            continue
    return RuntimeError(sentence)


def perform_alone(model: bytes, task: Task) -> Done:
    """Run :func:`perform` on one thread: there are as many workers as cores."""
    _one_thread()
    return perform(model, task)


@cache
def _one_thread() -> None:
    numba.set_num_threads(1)
    threadpool_limits(1)
