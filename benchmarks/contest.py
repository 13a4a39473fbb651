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

from connectors.replay.logs import CHUNKS, PROTOCOLS
from streamk.evaluation import DelayByChunks, ModelAdapter
from streamk.evaluation.label_delay import LabelDelay, delay_of

PROMPT, BATCHES, BATCH = "prompt", "batches", 100
LATE = {  # protocols, and when labels come by them, as the end of a title
    PROMPT: "prompt labels",
    **{n: f"labels {int(n):,} events late" for n in PROTOCOLS if n.isdigit()},
    CHUNKS: "labels in 20 chunks",
    BATCHES: f"labels in batches of {BATCH}",
}


class Contestant(ModelAdapter):
    """A model under comparison; labels are strings, targets numbers."""

    batched = True
    probabilities = True  # whether its predictions are scored by log loss

    @abstractmethod
    def prepare(self, stream: Stream) -> list[Any]:
        """Return the events in the form of the model; this is not timed."""

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
    protocol
        When labels come: one of :data:`LATE`.
    """

    memory: bool
    seed: int
    protocol: str = PROMPT

    @property
    def delay(self) -> int:
        """How many events late each label comes; 0 in chunks and batches."""
        return int(self.protocol) if self.protocol.isdigit() else 0

    def late(self, events: int) -> LabelDelay | None:
        """Return when the labels of a stream come; None for before the next event."""
        if self.protocol == BATCHES:
            batches = -(-events // BATCH)
            return DelayByChunks(BATCH * batches, batches)
        return DelayByChunks(events) if self.protocol == CHUNKS else delay_of(self.delay)

    def arrived(self, events: int) -> np.ndarray:
        """Return how many labels have arrived when each event is predicted, but for chunks."""
        batch = BATCH if self.protocol == BATCHES else 1
        found: np.ndarray = np.maximum(np.arange(events) // batch * batch - self.delay, 0)
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
