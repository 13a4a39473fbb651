"""The order of a stream: whether it has one, and whether labels can be predicted from it alone.

- *static*: a table in an order without meaning. Neither the target nor any input resembles that of the row
  before (no correlation of ranks, or of equal strings, is above 4.5 of its standard errors; inputs with one
  value in 95 % of rows are skipped), and boosted trees that get inputs and target cannot infer from which
  half or which quarter of the stream a row is (their accuracy is less than 4 standard errors above chance on
  rows that they were not fitted to).
- *long runs*: the label is that of the event before, with a kappa of at least 0.9, as where a log is sorted
  by class; or a number only rises or only falls.
- *in turn*: the label repeats after some events, as :class:`connectors.events.targets.TargetRuns` has it.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
from logs import CLASSES, Stream
from scipy.stats import rankdata
from threadpoolctl import threadpool_limits

from connectors.events.targets import TargetRuns

RUNS, RESEMBLANCE, INFERRED = 0.9, 4.5, 4.0  # kappa, and standard errors
FITTED = 20_000  # rows at most
COMMON = 0.95  # share of the most frequent value of inputs that are skipped


class Orders:
    """Marks of whole streams, in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.marks: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}

    def add(self, stream: Stream) -> None:
        """Mark a stream, unless it is marked."""
        if stream.name not in self.marks:
            self.marks[stream.name] = order_of(stream)
            lines = json.dumps(self.marks, ensure_ascii=False, indent=1, sort_keys=True)
            self._path.write_text(lines + "\n")


def order_of(stream: Stream) -> str:
    """Return the mark of a stream, empty if it has none."""
    runs, repeated = TargetRuns(), _repeated(np.array(stream.targets))
    runs.add(stream.targets)
    period, _ = runs.in_turn() if stream.task == CLASSES else (0, 0.0)
    if period:
        return f"in turn, {period}"
    if stream.task == CLASSES and repeated >= RUNS:
        return f"long runs, {repeated:.2f}"
    if runs.is_sorted:
        return "sorted"
    if _neighbours_resemble(stream) or any(_part_is_inferred(stream, parts) for parts in (2, 4)):
        return ""
    return "static"


def _repeated(values: np.ndarray) -> float:
    """Return how much oftener a value is the one before than by chance: Cohen's kappa."""
    counts = np.unique(values, return_counts=True)[1] / len(values)
    by_chance = float((counts**2).sum())
    same = float(np.mean(values[1:] == values[:-1]))
    return (same - by_chance) / (1.0 - by_chance) if by_chance < 1.0 else 0.0


def _neighbours_resemble(stream: Stream) -> bool:
    """Return whether the target or an input resembles that of the row before."""
    columns = [np.array(stream.targets), *(stream.frame[name].to_numpy() for name in stream.frame)]
    varied = [v for v in columns if pd.Series(v).value_counts(normalize=True).max() < COMMON]
    return any(_resemblance(values) > RESEMBLANCE for values in varied)


def _resemblance(values: np.ndarray) -> float:
    """Return the correlation with the values before, in standard errors."""
    error = 1.0 / np.sqrt(len(values))
    if values.dtype.kind not in "fi":
        return abs(_repeated(values.astype(str))) / error
    ranks = rankdata(values)
    return abs(float(np.corrcoef(ranks[1:], ranks[:-1])[0, 1])) / error if np.ptp(ranks) else 0.0


def _part_is_inferred(stream: Stream, parts: int) -> bool:
    """Return whether boosted trees infer which half or quarter of the stream a row is from."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    frame = stream.frame.assign(**{" target": stream.targets})
    codes = [
        frame[name] if frame[name].dtype.kind in "fi" else pd.factorize(frame[name])[0] for name in frame
    ]
    rows = np.random.default_rng(1).permutation(len(frame))[:FITTED]
    X, part, half = np.column_stack(codes)[rows], rows * parts // len(frame), len(rows) // 2
    with threadpool_limits(1):
        model = HistGradientBoostingClassifier(max_iter=20, random_state=1).fit(X[:half], part[:half])
        right = float(np.mean(model.predict(X[half:]) == part[half:]))
    error = np.sqrt((parts - 1) / (len(rows) - half)) / parts
    return bool((right - 1.0 / parts) / error > INFERRED)
