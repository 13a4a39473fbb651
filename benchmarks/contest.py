"""Contestants of the comparison: models with their preparation of events and their size."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from logs import Stream

from streamk.evaluation import ModelAdapter


class Contestant(ModelAdapter):
    """A model under comparison; labels are strings, targets numbers."""

    probabilities = True  # whether its predictions are scored by log loss

    @abstractmethod
    def prepare(self, stream: Stream) -> list[Any]:
        """Return the events in the form of the model; this is not timed."""

    def answer_batch(self, xs: list[Any], ys: list[Any]) -> list[Any]:
        """Predict all events, then learn them; return the predictions."""
        answers = [self.predict(x) for x in xs]
        for x, y in zip(xs, ys, strict=True):
            self.learn(x, y)
        return answers

    @abstractmethod
    def size(self) -> int | None:
        """Return the bytes of the model when saved, None if it cannot be saved."""


@dataclass(frozen=True)
class Setting:
    """Setting of a measurement.

    Attributes
    ----------
    memory
        Whether labels that have arrived are inputs.
    delay
        How many events late labels arrive.
    batch
        How many events are predicted before they are learned.
    """

    memory: bool
    delay: int
    seed: int
    batch: int = 1

    @property
    def latest(self) -> int:
        """The most events by which a label is late."""
        return max(self.delay, self.batch - 1)

    @property
    def unscored(self) -> int:
        """The number of events predicted before the first late label."""
        return self.delay if self.batch == 1 else self.batch

    def arrived(self, events: int) -> np.ndarray:
        """Return how many labels have arrived when each event is predicted."""
        found: np.ndarray = np.maximum(np.arange(events) // self.batch * self.batch - self.delay, 0)
        return found


@dataclass(frozen=True)
class Peer:
    """A line of the table.

    Attributes
    ----------
    library
        The distribution whose version its results belong to.
    cost
        Microseconds an event is expected to take: the order of the run, and its remaining time.
    make
        Returns a new contestant for a stream.
    ours
        Whether it has its own label memory.
    """

    name: str
    library: str
    cost: float
    make: Callable[[Stream, Setting], Contestant]
    ours: bool = False


class Standard:
    """A running mean and deviation of the target."""

    def __init__(self) -> None:
        self.count, self.mean, self._squares = 0, 0.0, 0.0

    def learn(self, y: float) -> float:
        """Count a target, and return it standardised."""
        self.count += 1
        step = y - self.mean
        self.mean += step / self.count
        self._squares += step * (y - self.mean)
        return (y - self.mean) / self.deviation

    @property
    def deviation(self) -> float:
        """Standard deviation, 1 before the second target."""
        return math.sqrt(self._squares / max(self.count, 1)) or 1.0


def standardised(frame: pd.DataFrame) -> np.ndarray:
    """Return rows as vectors: numbers standardised by the rows so far, strings one-hot."""
    X = pd.get_dummies(frame, dtype=float)
    texts = np.array([c not in frame.columns for c in X.columns])
    values = X.to_numpy(dtype=float)
    counts = np.arange(1, len(values) + 1)[:, None]
    centred = values - values[0]  # squares of large numbers would lose digits
    means = np.cumsum(centred, axis=0) / counts
    variances = np.maximum(np.cumsum(centred**2, axis=0) / counts - means**2, 0.0)
    deviations = np.where(variances > 1e-12, np.sqrt(variances), 1.0)
    found: np.ndarray = np.where(texts, values, (centred - means) / deviations)
    return found


def shares(labels: list[str], values: Any) -> dict[str, float]:
    """Return non-negative numbers, one per class, as probabilities; nothing if none is above 0."""
    numbers = [float(v) if v == v and v > 0.0 else 0.0 for v in values]
    whole = sum(numbers)
    return {label: v / whole for label, v in zip(labels, numbers, strict=False)} if whole > 0.0 else {}
