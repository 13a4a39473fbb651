"""The metrics of a replay as it goes, and their curves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from streamk.learners import Learner
from streamk.scores import Score


@dataclass
class Point:
    """Where the curves are: each subject's headline metric, overall and since the last point."""

    events: int
    overall: list[float]
    recent: list[float]
    label: Any
    prediction: Any


@dataclass
class Replay:
    """One replay, running or over.

    Attributes
    ----------
    names
        The learner's name, and the baseline's if there is one.
    scores
        The running metrics of each.
    interval
        Events between two points of ``curve``.
    delay
        How many events late labels arrived.
    doublings
        The curves at powers of two.
    curve
        The curves at every ``interval`` events.
    interrupted, error
        Whether Ctrl-C ended the replay, or which record did.
    """

    task: str
    learner: Learner
    names: list[str]
    scores: list[Score]
    interval: int
    delay: int = 0
    doublings: list[Point] = field(default_factory=list)
    curve: list[Point] = field(default_factory=list)
    interrupted: bool = False
    error: str = ""

    @property
    def events(self) -> int:
        """Events scored so far."""
        return self.scores[0].events

    def mark(self, points: list[Point], label: Any, prediction: Any) -> None:
        """Add where the curves are now to ``points``."""
        before = points[-1] if points else Point(0, [0.0] * len(self.scores), [], None, None)
        overall = [score.headline for score in self.scores]
        passed = self.events - before.events
        recent = [
            (now * self.events - then * before.events) / passed
            for now, then in zip(overall, before.overall, strict=True)
        ]
        points.append(Point(self.events, overall, recent, label, prediction))

    def result(self) -> dict[str, Any]:
        """Return what ``--json`` prints."""
        found = [
            {**score.values(), "events": score.events, "events_per_second": round(score.events_per_second, 1)}
            for score in self.scores
        ]
        first: dict[str, Any] = {**found[0], "delay": self.delay, "model_bytes": len(self.learner.to_bytes())}
        if len(found) > 1:
            first["baseline"] = {"model": self.names[1], **found[1]}
        return first
