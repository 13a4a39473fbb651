"""Compute the figures of a replay again, from its predictions, with pandas and scikit-learn alone.

``streamk replay LOG --target y --predictions p.jsonl --report page`` writes both; then

    python benchmarks/recompute.py p.jsonl page/results.json

prints every figure that differs, and exits with 1 if one does.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn import metrics

EXACT, GRID = 1e-9, 2e-3  # relative differences; AUC is computed on a grid of scores
_CERTAIN = 1e-15


def figures_of_labels(
    targets: list[str], rows: list[dict[str, float]], labels: list[str], first: dict[str, int]
) -> dict[str, float]:
    """Return the metrics of probabilities; a row without any is no prediction, which is wrong.

    ``first`` has the row at which each label is a target for the first time, below 0 if that was before.
    """
    table = np.array([[row.get(label, 0.0) for label in labels] for row in rows])
    # a label that comes later is not known yet: where it is the most probable one, there is no prediction
    later = np.array([[first[label] > k for label in labels] for k in range(len(rows))])
    other = np.array([max((p for name, p in row.items() if name not in first), default=0.0) for row in rows])
    other = np.maximum(other, np.where(later, table, 0.0).max(axis=1))
    table = np.where(later, 0.0, table)
    made = (table.max(axis=1) > 0.0) & (other <= table.max(axis=1))
    said = np.where(made, np.array(labels, dtype=object)[table.argmax(axis=1)], "no prediction")
    truth = np.array(targets, dtype=object)
    true_rows = np.array([[label == target for label in labels] for target in targets], dtype=float)
    own = np.clip((table * true_rows).sum(axis=1)[made], _CERTAIN, 1.0 - _CERTAIN)
    squares = ((table - true_rows) ** 2).sum(axis=1)[made].mean()
    right = float((said == truth).mean())
    unchanged = float((truth[1:] == truth[:-1]).sum()) / len(truth)
    recalls = [float((said[truth == label] == label).mean()) for label in labels if (truth == label).any()]
    shown = [label for label in labels if (truth == label).any() or (said == label).any()]
    found = {
        "accuracy": right,
        "balanced_accuracy": float(np.mean(recalls)),
        "kappa_temporal": (right - unchanged) / (1.0 - unchanged),
        "macro_f1": float(metrics.f1_score(truth, said, labels=shown, average="macro", zero_division=0)),
        "log_loss": float(-np.log(own).mean()),
        "brier": float(squares) / (2.0 if len(labels) <= 2 else 1.0),
    }
    if made.all():
        found["kappa"] = float(metrics.cohen_kappa_score(truth, said))
    if made.all() and len(labels) == 2:
        found["auc"] = float(metrics.roc_auc_score(truth == labels[1], table[:, 1]))
    return found


def figures_of_numbers(targets: list[float], predictions: list[float]) -> dict[str, float]:
    """Return the metrics of numbers."""
    return {
        "mae": float(metrics.mean_absolute_error(targets, predictions)),
        "rmse": float(metrics.mean_squared_error(targets, predictions)) ** 0.5,
        "r2": float(metrics.r2_score(targets, predictions)),
    }


def computed(rows: pd.DataFrame, name: str, results: dict[str, Any]) -> dict[str, float]:
    """Return the metrics of a contender from the rows that have its predictions."""
    mine = rows[[name in each for each in rows["predictions"]]]
    predictions = [each[name] for each in mine["predictions"]]
    if results["task"] != "classification":
        return figures_of_numbers(mine["target"].tolist(), predictions)
    labels = list(map(str, results["labels"]))
    every, start = list(map(str, rows["target"])), int(mine.index[0])
    first = {label: every.index(label) - start for label in labels}
    return figures_of_labels(every[start : start + len(mine)], predictions, labels, first)


def differences(predictions: Path, results: Path) -> list[str]:
    """Return a sentence for each figure that is another one when it is computed again."""
    with predictions.open(encoding="utf-8") as file:
        rows = pd.DataFrame(map(json.loads, file))
    found = json.loads(results.read_text())
    expected = {c["name"]: c["metrics"] for c in found["contenders"] if not c["failed"]}
    if found.get("frozen"):
        expected[f"{found['frozen']['contender']} (frozen)"] = found["frozen"]["metrics"]
    odd = [] if len(rows) == found["events"] else [f"{len(rows)} rows for {found['events']} events"]
    for name, reported in expected.items():
        for metric, value in computed(rows, name, found).items():
            if metric == "kappa_temporal" and (name.endswith(" (frozen)") or found["delay"]):
                continue  # the label that had come last at an event is not in the file
            bound = GRID if metric == "auc" else EXACT
            if abs(value - reported[metric]) > bound * max(1.0, abs(value)):
                odd.append(f"{name}, {metric}: {reported[metric]} reported, {value} computed")
    return odd


def main() -> None:
    """Compare, print and exit."""
    odd = differences(Path(sys.argv[1]), Path(sys.argv[2]))
    print("\n".join(odd) or "every figure is the same")
    sys.exit(bool(odd))


if __name__ == "__main__":
    main()
