"""Running sums of predictions, of which metrics are formulas."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

from streamk.arrays import SavedState
from streamk.evaluation.metric import Metric


class Sums(ABC):
    """Sums over events, which add up over chunks, windows and slices, exactly.

    Attributes
    ----------
    events
        How many were added.
    """

    METRICS: ClassVar[tuple[Metric, ...]]
    events: int

    @abstractmethod
    def fresh(self) -> Self:
        """Return empty sums of the same settings."""

    @abstractmethod
    def clear(self) -> None:
        """Remove all events; classes stay."""

    @abstractmethod
    def add(self, *arrays: Any) -> None:
        """Add events."""

    @abstractmethod
    def merge(self, other: Self) -> None:
        """Add the events of other sums, which do not change."""

    @abstractmethod
    def state(self) -> SavedState:
        """Return everything, as :meth:`restored` takes it."""

    @classmethod
    @abstractmethod
    def restored(cls, state: SavedState) -> Self:
        """Return the sums of a state."""

    @classmethod
    def columns(cls) -> tuple[str, ...]:
        """Return the names of the metrics."""
        return tuple(metric.name for metric in cls.METRICS)

    def values(self) -> dict[str, float]:
        """Return the metrics so far, those whose formula has a value."""
        pairs = ((metric.name, metric.formula(self)) for metric in self.METRICS)
        return {name: value for name, value in pairs if value is not None}

    def copy(self) -> Self:
        """Return a copy that shares nothing."""
        return self.restored(self.state())

    def __add__(self, other: Self) -> Self:
        """Return the sums of the events of both."""
        whole = self.copy()
        whole.merge(other)
        return whole
