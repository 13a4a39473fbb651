"""Boosted trees that are fitted again to all events whose labels have come, and what they must surpass.

A stream is often left to such a model, which is fitted every night. They take part where labels come in
chunks.
"""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Callable, Sequence
from typing import Any

from contest import Contestant, Peer, Setting
from logs import CLASSES, NUMBERS, Stream

from connectors.replay.contenders import MajorityClass, RunningMean
from streamk.evaluation import ModelAdapter, Refitted
from streamk.evaluation.adapters import EventChunk


class Replayed(Contestant):
    """A model of ``streamk replay``, which takes events as dicts."""

    def __init__(self, model: ModelAdapter, probabilities: bool) -> None:
        self._model, self.probabilities = model, probabilities

    def prepare(self, stream: Stream) -> list[Any]:
        return stream.frame.to_dict("records")

    def predict(self, x: Any) -> Any:
        return self._model.predict(x)

    def predict_many(self, xs: EventChunk) -> Any:
        return self._model.predict_many(xs)

    def learn(self, x: Any, y: Any) -> None:
        self._model.learn(x, y)

    def learn_many(self, xs: EventChunk, ys: Sequence[object]) -> None:
        self._model.learn_many(xs, ys)

    def size(self) -> int:
        fitted = getattr(self._model, "model", self._model)
        return len(pickle.dumps(fitted))


def _refitted(name: str, module: str, kind: str, library: str, **settings: Any) -> Callable[[str], Peer]:
    """Return what makes a peer of a task; the model is the class of this name."""

    def peer(task: str) -> Peer:
        def build(stream: Stream, setting: Setting) -> Contestant:
            suffix = "Classifier" if task == CLASSES else "Regressor"
            made = getattr(importlib.import_module(module), kind + suffix)
            return Replayed(Refitted(made(random_state=setting.seed, **settings), task), True)

        return Peer(f"{name} refitted", library, 500, build)

    return peer


_BOOSTED = (
    _refitted("LightGBM", "lightgbm", "LGBM", "lightgbm", n_jobs=1, verbose=-1),
    _refitted(
        "scikit-learn HistGradientBoosting", "sklearn.ensemble", "HistGradientBoosting", "scikit-learn"
    ),
)
PEERS: dict[str, list[Peer]] = {
    CLASSES: [
        Peer("majority class", "river", 2, lambda stream, setting: Replayed(MajorityClass(), True)),
        *(peer(CLASSES) for peer in _BOOSTED),
    ],
    NUMBERS: [
        Peer("mean target", "river", 2, lambda stream, setting: Replayed(RunningMean(), True)),
        *(peer(NUMBERS) for peer in _BOOSTED),
    ],
}
