"""Rounds: shards learn separately from one model, and their models are merged into the next one.

A round reports events, seconds, bytes and metrics. Between two rounds, a run has a checkpoint: the merged
model, the position of each shard, and the curve. It is a model file (:mod:`streamk.model_file`), so
``streamk.load`` opens its model. Everything else is JSON in the header; reading it runs no code.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from streamk import model_file
from streamk.arrays import Json
from streamk.distributed.engines import Engine, engine_of
from streamk.distributed.merging import SCALES, Merging, beginning, merged, pooled, with_fixed_scales
from streamk.distributed.shards import Shard
from streamk.distributed.tasks import Done, Task
from streamk.evaluation.tallies import ClassTally, NumberTally, Tally, total
from streamk.learners.learner import Learner
from streamk.learners.loading import MODEL, loads

LEAD, LEAST = 256, 64  # events of the first shard alone, and least of a shard in growing rounds
_VERSION = 1


class Round(NamedTuple):
    """The result of a round.

    Attributes
    ----------
    number
        Counted from 1; 0 in the pass for scales.
    turn
        Number of the pass over the shards, counted from 1; 0 in the pass for scales.
    shards
        Number of shards that learned events.
    events
        Learned, over all shards.
    seconds
        From the first task to the merged model.
    bytes
        Size of the models sent to the tasks and back.
    tally
        Metrics of the previous merged model on the events of this round; empty without ``evaluate``.
    refused
        Events rejected by the learner and skipped, over all shards.
    example
        Reason of the first rejection.
    """

    number: int
    turn: int
    shards: int
    events: int
    seconds: float
    bytes: int
    tally: Tally
    refused: int = 0
    example: str = ""

    def values(self) -> Json:
        """Return the round as values that JSON takes."""
        record: Json = {"round": self.number, "pass": self.turn, "shards": self.shards}
        record |= {"refused": self.refused} if self.refused else {}
        record |= {"events": self.events, "seconds": round(self.seconds, 6), "bytes": self.bytes}
        return record | (self.tally.values() if self.tally.events else {})


class Advance(NamedTuple):
    """A shard has learned its events of a round.

    Attributes
    ----------
    shard
        Its number.
    events
        Events of it learned in this pass.
    position, ended
        Its current position, and whether that is its end.
    """

    shard: int
    events: int
    position: object
    ended: bool


Watch = Callable[[Advance | Round], None]


def identity(
    shards: Sequence[Shard], learner: Learner, round: int, evaluate: bool, scales: str, events: str = ""
) -> Json:
    """Return the identity of a run: everything that its model or curve depends on."""
    learned = learner.events or learner.pending
    return {
        "learner": type(learner).__name__,
        "parameters": learner._parameters(),
        "learned before": hashlib.sha256(learner.to_bytes()).hexdigest() if learned else None,
        "round": round,
        "evaluate": evaluate,
        "scales": scales,
        "shards": [shard.name for shard in shards],
        "events": events,
    }


@dataclass
class RunState:
    """The state of a run between two rounds.

    Attributes
    ----------
    model
        The merged model.
    positions, ended, learned
        Of each shard: its position, whether that is its end, and the events learned in this pass.
    turn
        The current pass, counted from 1; 0 for the pass for scales.
    curve
        The finished rounds.
    """

    model: bytes
    positions: list[object]
    ended: list[bool]
    learned: list[int]
    turn: int = 1
    curve: list[Round] = field(default_factory=list)

    @classmethod
    def beginning(cls, model: bytes, shards: int, turn: int) -> RunState:
        """Return the state before the first round."""
        return cls(model, [None] * shards, [False] * shards, [0] * shards, turn)

    def begin_again(self) -> None:
        """Start the next pass over the shards."""
        if not self.turn:
            self.model = with_fixed_scales(self.model)
        count = len(self.positions)
        self.positions, self.ended, self.learned = [None] * count, [False] * count, [0] * count
        self.turn += 1

    def write(self, path: Path, known_by: Json) -> int:
        """Write the file atomically, and return its size in bytes."""
        run = {
            "version": _VERSION, "known by": known_by, "positions": self.positions, "ended": self.ended,
            "learned": self.learned, "turn": self.turn, "curve": [list(entry) for entry in self.curve],
        }  # fmt: skip
        array = np.frombuffer(self.model, np.uint8)
        return model_file.write(path, {"extra": {"shards": run}}, {MODEL: array})

    @classmethod
    def read(cls, path: Path, known_by: Json) -> RunState:
        """Return the state in a file.

        Raises
        ------
        ValueError
            If it is damaged, no checkpoint of shards, or of another run; the message names the difference.
        """
        header, arrays = model_file.unpack(path.read_bytes(), str(path))
        try:
            run = header["extra"]["shards"]
            version, theirs = run["version"], dict(run["known by"])
            model = arrays[MODEL].tobytes()
        except (KeyError, TypeError):
            raise ValueError(f"{path} is a model file, but no checkpoint of shards") from None
        if version != _VERSION:
            raise ValueError(
                f"{path} has version {version!r} and this streamk reads version {_VERSION}; run the version "
                "that wrote it"
            )
        for name, ours in known_by.items():
            if theirs.get(name) != ours:
                raise ValueError(f"{path} is of another run: {_difference(name, theirs.get(name), ours)}")
        kind: type[Tally] = ClassTally if loads(model, str(path)).classifies else NumberTally
        at = Round._fields.index("tally")
        curve = [Round._make([*e[:at], kind(*e[at]), *e[at + 1 :]]) for e in run["curve"]]
        return cls(model, run["positions"], run["ended"], run["learned"], run["turn"], curve)


def _difference(name: str, theirs: object, ours: object) -> str:
    """Return a short description of the difference."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        key = next(key for key in {**theirs, **ours} if theirs.get(key) != ours.get(key))
        return f"it has {key}={theirs.get(key)!r} and this one {key}={ours.get(key)!r}"
    if isinstance(theirs, list) and isinstance(ours, list):
        if len(theirs) != len(ours):
            return f"it has {len(theirs)} {name} and this one {len(ours)}"
        k = next(k for k in range(len(ours)) if theirs[k] != ours[k])
        return f"shard {k} is {theirs[k]!r} there and {ours[k]!r} here"
    return f"it has {name} {theirs!r} and this one {ours!r}"


@dataclass(frozen=True)
class Trained:
    """The result of a run.

    Attributes
    ----------
    learner
        The merged learner.
    curve
        The rounds, in order, with the metrics of the previous model on the events of each.
    positions
        The final position of each shard.
    """

    learner: Learner
    curve: list[Round]
    positions: Sequence[object] = ()

    @property
    def events(self) -> int:
        """Events learned, over all passes."""
        return sum(entry.events for entry in self.curve)

    @property
    def refused(self) -> int:
        """Events rejected by the learner, over all passes."""
        return sum(entry.refused for entry in self.curve)

    @property
    def example(self) -> str:
        """Reason of the first rejection; empty if there was none."""
        return next((entry.example for entry in self.curve if entry.example), "")

    @property
    def seconds(self) -> float:
        """Seconds of all rounds."""
        return sum(entry.seconds for entry in self.curve)

    @property
    def tally(self) -> Tally:
        """Prequential metrics over all rounds."""
        nothing: Tally = ClassTally() if self.learner.classifies else NumberTally()
        return total([nothing, *(entry.tally for entry in self.curve)])


def learn(
    shards: Sequence[Shard],
    learner: Learner,
    *,
    round: int = 10_000,
    workers: int = 2,
    engine: str = "processes",
    address: str | None = None,
    passes: int = 1,
    scales: str = "running",
    evaluate: bool = True,
    checkpoint: str | Path | None = None,
    events: str = "",
    watch: Watch = lambda news: None,
) -> Trained:
    """Learn shards separately, merge their models after every round, and return the last merged model.

    In round ``r``, every shard that has not ended learns its next ``round`` events from the model of round
    ``r - 1``, as a pure function of bytes: model, shard and position in; model and position out. Workers have
    no state. A worker that is killed, slow, restarted or added changes only the time: a lost task runs again,
    from the same bytes to the same bytes. The models merge in a binary tree by the number of the shard, so
    the result depends on shards, learner and ``round`` alone.

    Parameters
    ----------
    shards
        Parts of a stream, with distinct names.
    learner
        The learner to start from, trained or not; it is not changed. If its seed is None, one seed is drawn
        for all shards.
    round
        Events a shard learns between two merges. Rounds of several shards start shorter, with no more events
        than all rounds before. Short rounds keep the models of shards similar, and send more models.
    workers
        Parallel tasks on this machine. With an ``address``, the cluster decides.
    engine
        ``"processes"``; ``"ray"``; ``"here"``, in this process without workers.
    address
        Of a Ray cluster; None starts one on this machine.
    passes
        Number of passes over every shard.
    scales
        ``"running"``: every shard scales by its earlier events, and merging ignores the differences.
        ``"first"``: all shards are read once for their scales, which are then fixed for all shards
        (:mod:`streamk.distributed.merging`).
    evaluate
        Whether the merged model predicts every event before a shard learns it, except in the first round.
    checkpoint
        A file, written atomically after every round. If it exists, the run resumes from it, with the same
        final bytes; a finished run resumes if there are more passes.
    events
        Further settings of the events, such as the types of their fields; a checkpoint of other settings is
        rejected.
    watch
        Called with each shard that has learned its events of a round, and with each round.

    Raises
    ------
    ValueError
        If the learner cannot be merged, a parameter is wrong, or the checkpoint is damaged or of another run;
        before anything is learned.
    Exception
        Raised by reading or learning a shard; the message starts with the name of the shard.
    WorkersDiedError
        If processes of this machine die repeatedly without finishing a task.
    KeyboardInterrupt
        On Ctrl-C, after the workers have stopped; the checkpoint of the last round remains.
    """
    names = [shard.name for shard in shards]
    if not names:
        raise ValueError("there is no shard to learn; give at least one")
    if len(set(names)) < len(names):
        raise ValueError(f"two shards are named {next(n for n in names if names.count(n) > 1)!r}")
    for name, value in (("round", round), ("passes", passes)):
        if type(value) is not int or value < 1:
            raise ValueError(f"{name} is {value!r}; it must be a whole number, at least 1")
    first = beginning(learner)
    if scales not in SCALES:
        raise ValueError(f"scales is {scales!r}; use {' or '.join(SCALES)}")
    if scales == "first" and first.events:
        raise ValueError(
            f"scales='first' needs an untrained learner; this one has learned {first.events} events"
        )
    known_by = identity(shards, learner, round, evaluate, scales, events)
    path = None if checkpoint is None else Path(checkpoint)
    if path is not None and path.exists():
        state = RunState.read(path, known_by)
        if state.turn > passes:
            raise ValueError(f"{path} is in pass {state.turn} already, and passes is {passes}")
    else:
        state = RunState.beginning(first.to_bytes(), len(shards), int(scales == "running"))
    _check_place(path)
    with _closing(engine_of(engine, workers, address)) as doing:
        run = _Run(shards, state, doing, watch)
        while run.goes_on(passes):
            run.round(round, evaluate)
            if path is not None:
                state.write(path, known_by)
    return Trained(loads(state.model), state.curve, tuple(state.positions))


def _check_place(path: Path | None) -> None:
    """Raise an error if the checkpoint cannot be written, before anything is learned."""
    if path is not None and not path.absolute().parent.is_dir():
        raise ValueError(f"checkpoint {path}: there is no directory {path.absolute().parent}")


@contextmanager
def _closing(engine: Engine) -> Iterator[Engine]:
    try:
        yield engine
    finally:
        engine.close()


class _Run:
    """A running run: each round advances its state to the next."""

    def __init__(self, shards: Sequence[Shard], state: RunState, engine: Engine, watch: Watch) -> None:
        self._shards, self._state, self._engine, self._watch = shards, state, engine, watch

    def goes_on(self, passes: int) -> bool:
        """Return whether there is another round; start the next pass if this one has ended."""
        if all(self._state.ended) and self._state.turn < passes:
            self._state.begin_again()
        return not all(self._state.ended)

    def round(self, count: int, evaluate: bool) -> None:
        """Learn so many events of every shard, and merge the models.

        The first shard starts alone with few events, and no round has more events than all rounds before it,
        except for a minimum per shard: early scales vary between shards, which harms the merged model. A
        round also ends where the learner chooses features, so that all shards choose from the same model.
        """
        began, state = time.perf_counter(), self._state
        scaling, led = not state.turn, False
        if len(self._shards) > 1 and not scaling:
            known, shards = loads(state.model), len(self._shards)
            if led := bool(known._must_lead()):
                count = known._must_lead()
            elif led := not known.events:
                count = int(min(count, known._may_learn_apart(1), LEAD))
            else:
                most = max(LEAST, known.events // shards)
                count = int(min(count, known._may_learn_apart(shards), most))
        merging = Merging(state.model, len(self._shards), pooled if scaling else merged)
        tasks: dict[int, Task] = {}
        for k, shard in enumerate(self._shards):
            if state.ended[k] or (led and tasks):
                merging.put(k, None)
            else:
                tasks[k] = Task(shard, state.positions[k], count, evaluate, scaling)
        results: dict[int, Done] = {}
        for k, done in self._engine.each(state.model, tasks):
            results[k] = done
            merging.put(k, done.model)
            self._watch(Advance(k, state.learned[k] + done.events, done.position, done.ended))
        self._take(results, merging.model(), began)

    def _take(self, results: dict[int, Done], model: bytes, began: float) -> None:
        """Set the state of the next round, all fields at once."""
        state = self._state
        sent = len(results) * len(state.model) + sum(len(done.model or b"") for done in results.values())
        state.model = model
        for k, done in results.items():
            state.positions[k], state.ended[k] = done.position, done.ended
            state.learned[k] += done.events
        active = [results[k] for k in sorted(results) if results[k].events or results[k].refused]
        if not active:  # all shards have ended
            return
        tally = total([done.tally for done in active])
        events, seconds = sum(done.events for done in active), time.perf_counter() - began
        number = len(state.curve) + 1 if state.turn else 0
        refused = sum(done.refused for done in active)
        example = next((done.example for done in active if done.example), "")
        entry = Round(number, state.turn, len(active), events, seconds, sent, tally, refused, example)
        if state.turn:
            state.curve.append(entry)
        self._watch(entry)
