"""Whether a log is sorted by its target: a prequential evaluation of such a log says little.

A learner of streams follows what comes now, so of a log that has one class after the other it predicts the
last one, while the baseline that repeats the last label is nearly always right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise

_ENOUGH, _LENGTH = 50, 10  # events, and events of a run, from which on they are noted
_MOST = 4096  # runs that are counted
_ADVICE = "shuffle the log unless this is the order of time (docs/limits.md)"


@dataclass
class TargetRuns:
    """Counts runs of equal labels, or rises and falls of numbers, from event to event.

    Examples
    --------
    >>> runs = TargetRuns()
    >>> runs.add(["a"] * 40)
    >>> runs.add(["a"] * 10 + ["b"] * 50)
    >>> print(runs.sentence("y"))
    the targets come in runs: `y` changes 1 time in 100 events; shuffle the log unless this is the order of \
time (docs/limits.md)
    """

    events: int = 0
    runs: int = 0
    rises: int = 0
    falls: int = 0
    _labels: set[object] = field(default_factory=set)
    _last: object = None

    def add(self, targets: Sequence[object]) -> None:
        """Count the next targets."""
        self.events += len(targets)
        if self.runs > _MOST and not self._sorted:
            return
        labels = [label for label, _ in groupby(targets)]
        if self.runs and labels and labels[0] == self._last:
            del labels[0]
        for before, after in pairwise([self._last, *labels] if self.runs else labels):
            if isinstance(before, float) and isinstance(after, float):
                self.rises += before < after
                self.falls += before > after
        self.runs += len(labels)
        if labels:
            self._labels.update(labels[:_MOST])
            self._last = labels[-1]

    @property
    def _sorted(self) -> bool:
        """Whether numbers only rise or only fall, but for one step in a hundred."""
        steps = self.rises + self.falls
        return steps > _ENOUGH and min(self.rises, self.falls) * 100 <= steps

    def sentence(self, name: str) -> str:
        """Return a warning about the order of the targets, empty if there is none."""
        if self.events < _ENOUGH:
            return ""
        if self._sorted:
            return f"the log is sorted by its target `{name}`; {_ADVICE}"
        few = 1 < self.runs <= 2 * len(self._labels) and self.runs * _LENGTH <= self.events
        if not few or self.rises + self.falls:
            return ""
        times = self.runs - 1
        changes = f"`{name}` changes {times:,} time{'s' * (times > 1)} in {self.events:,} events"
        return f"the targets come in runs: {changes}; {_ADVICE}"


def sentence_about(targets: Sequence[object], name: str, more: bool) -> str:
    """Return a warning about the first targets of a log; ``more`` is whether others follow them.

    >>> print(sentence_about(["a"] * 1000, "y", more=True)[:42])
    the first 1,000 events all have the target
    """
    runs = TargetRuns()
    runs.add(targets)
    if more and runs.runs == 1:
        shown = f"{str(targets[0])[:20]} of `{name}`"
        return (
            f"the first {len(targets):,} events all have the target {shown}; if the log is sorted, {_ADVICE}"
        )
    return runs.sentence(name)
