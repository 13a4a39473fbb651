"""Checkpoints of a run between two rounds: the merged model, the position of each shard, and the curve.

A checkpoint is a model file (:mod:`streamk.model_file`), so ``streamk.load`` opens its model. Everything else
is JSON in the header; reading it runs no code.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from streamk import model_file
from streamk.arrays import Json
from streamk.distributed.merging import with_fixed_scales
from streamk.distributed.rounds import Round
from streamk.distributed.shards import Shard
from streamk.evaluation.tallies import ClassTally, NumberTally, Tally
from streamk.learners.learner import Learner
from streamk.learners.loading import MODEL, loads

_VERSION = 1


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
        kind: type[Tally] = ClassTally if loads(model, str(path))._classifies else NumberTally
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
