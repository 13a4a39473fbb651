"""Streamk's learners as lines of the comparison: those without settings, and the four with some."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from contest import Contestant, Peer, Setting
from logs import CAP, CLASSES, NUMBERS, Stream
from run import STREAMS as TUNED

import streamk
from streamk.evaluation import LearnerAdapter

SEEDS = 7, 1, 2
NAMES = {CLASSES: "streamk KernelClassifier", NUMBERS: "streamk KernelRegressor"}
ELEC2, COVERTYPE = "Elec2", f"CoverType, first {CAP:,}"
SCALES = (4.0, 2.0, 1.0)
# The parameters that the learners with settings have on some streams; on all others, their defaults.
SETTINGS: dict[str, dict[str, dict[str, Any]]] = {
    "Kaczmarz": {
        ELEC2: TUNED["Elec2"]["parameters"],
        COVERTYPE: TUNED["CoverType, first 100,000"]["parameters"],
    },
    "KaczmarzPursuit": {
        ELEC2: {
            "memory": 0, "regularization": 3.0, "scales": SCALES, "features": 128, "period": 100,
            "max_features": 512,
        },
        COVERTYPE: {"memory": 0},
    },
    "MatchingPursuit": {
        ELEC2: {"scales": SCALES, "features": 128, "period": 50, "max_features": 128},
        COVERTYPE: {"period": 100, "max_features": 256},
    },
    "DoublyStochastic": {
        ELEC2: {
            "loss": "hinge", "precondition": False, "batch_size": 4, "features": 256, "growth": "fixed",
            "regularization": 0.001,
        },
        COVERTYPE: {"batch_size": 128, "revisits": 7, "regularization": 0.01, "max_features": 1024},
        f"Adult, first {CAP:,}": {
            "batch_size": 1024, "features": 128, "regularization": 0.01, "loss": "hinge"
        },
    },
}  # fmt: skip


class Ours(LearnerAdapter, Contestant):
    """A streamk learner."""

    def __init__(self, stream: Stream, family: str, **parameters: Any) -> None:
        kind = "Classifier" if stream.task == CLASSES else "Regressor"
        super().__init__(getattr(streamk, family + kind)(**parameters), stream.task)

    def prepare(self, stream: Stream) -> list[Any]:
        return stream.frame.to_dict("records")

    def size(self) -> int:
        return len(self.learner.to_bytes())


def _kernel(stream: Stream, setting: Setting) -> Contestant:
    return Ours(stream, "Kernel", label_memory=setting.memory, seed=setting.seed)


def _older(family: str, cost: float) -> Peer:
    def build(stream: Stream, setting: Setting) -> Contestant:
        return Ours(stream, family, seed=setting.seed, **SETTINGS[family].get(stream.name, {}))

    return Peer(f"streamk {family}", "streamk", cost, build)


def sources() -> str:
    """Return a hash of streamk's sources."""
    found = hashlib.sha256()
    for path in sorted(Path(streamk.__file__).parent.rglob("*.py")):
        found.update(path.read_bytes())
    return found.hexdigest()[:12]


PEERS: dict[str, list[Peer]] = {
    task: [Peer(name, "streamk", 80, _kernel, ours=True)] for task, name in NAMES.items()
}
OLDER = [
    _older("Kaczmarz", 10),
    _older("KaczmarzPursuit", 30),
    _older("MatchingPursuit", 30),
    _older("DoublyStochastic", 60),
]
