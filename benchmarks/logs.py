"""The streams of the comparison: files of ``../shared/data``, river's packaged and synthetic ones, digits."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from river import datasets
from river.datasets import synth
from scipy import ndimage

CAP, MADE = 20_000, 10_000  # rows of a file, and events of a synthetic stream
COMPONENTS, FITTED = 40, 1000  # of digits, and the images whose principal axes they are
CLASSES, NUMBERS = "classification", "regression"


@dataclass(frozen=True)
class Stream:
    """Events in their order, all in memory.

    Attributes
    ----------
    frame
        The inputs: numbers and strings.
    targets
        Labels as strings, or numbers.
    """

    name: str
    task: str
    frame: pd.DataFrame
    targets: list[Any]

    @property
    def labels(self) -> list[str]:
        """The classes, sorted."""
        return sorted(set(self.targets)) if self.task == CLASSES else []

    def first(self, events: int | None) -> Stream:
        """Return the first events."""
        return (
            self
            if events is None
            else replace(self, frame=self.frame[:events], targets=self.targets[:events])
        )


Load = Callable[[Path], tuple[pd.DataFrame, list[Any]]]


def _file(name: str, target: str, rows: int | None = None) -> Load:
    def load(data: Path) -> tuple[pd.DataFrame, list[Any]]:
        frame = pd.read_csv(data / name, nrows=rows)
        return frame, frame.pop(target).tolist()

    return load


def _river(make: Callable[[], Iterable[tuple[dict[Any, Any], Any]]], events: int | None = None) -> Load:
    def load(data: Path) -> tuple[pd.DataFrame, list[Any]]:
        xs, ys = zip(*islice(iter(make()), events), strict=True)
        rows = [{str(k): _plain(v) for k, v in x.items()} for x in xs]
        return pd.DataFrame(rows), list(ys)

    return load


def _plain(value: Any) -> Any:
    """Return a date as its day, and a truth as a number."""
    if isinstance(value, datetime):
        return value.timestamp() / 86_400
    return int(value) if isinstance(value, bool) else value


def _drifting(first: Any, second: Any) -> Any:
    return synth.ConceptDriftStream(first, second, position=MADE // 2, width=1000, seed=1)


def _digits(data: Path) -> tuple[pd.DataFrame, list[Any]]:
    """Return digits that turn by 180 degrees, once to the middle of the stream and back to its end."""
    with np.load(data / "mnist.npz") as file:
        images, labels = file["X_train"][:MADE].reshape(-1, 28, 28) / 255.0, file["y_train"][:MADE]
    angles = 180.0 * (1.0 - np.abs(np.linspace(-1.0, 1.0, MADE)))
    turned = np.array(
        [ndimage.rotate(i, a, reshape=False, order=1).ravel() for i, a in zip(images, angles, strict=True)]
    )
    centred = turned - turned[:FITTED].mean(axis=0)
    axes = np.linalg.svd(centred[:FITTED], full_matrices=False)[2][:COMPONENTS]
    columns = [f"p{j:02d}" for j in range(COMPONENTS)]
    return pd.DataFrame(np.round(centred @ axes.T, 4), columns=columns), labels.tolist()


STREAMS: dict[str, tuple[str, Load]] = {
    "Elec2": (CLASSES, _file("elec2.csv.gz", "class")),
    f"CoverType, first {CAP:,}": (CLASSES, _file("covtype.csv.gz", "Cover_Type", CAP)),
    f"Adult, first {CAP:,}": (CLASSES, _file("adult_train.csv.gz", "income", CAP)),
    f"moving squares, first {CAP:,}": (CLASSES, _file("moving_squares.csv.gz", "label", CAP)),
    "Phishing": (CLASSES, _file("phishing.csv.gz", "is_phishing")),
    "Bananas": (CLASSES, _river(datasets.Bananas)),
    "ImageSegments": (CLASSES, _river(datasets.ImageSegments)),
    f"Shuttle, first {CAP:,}": (CLASSES, _river(datasets.Shuttle, CAP)),
    "SEA, drift": (
        CLASSES,
        _river(lambda: _drifting(synth.SEA(0, noise=0.1, seed=1), synth.SEA(3, noise=0.1, seed=2)), MADE),
    ),
    "Agrawal, drift": (
        CLASSES,
        _river(lambda: _drifting(synth.Agrawal(0, seed=1), synth.Agrawal(6, seed=2)), MADE),
    ),
    "RandomRBF, drift": (
        CLASSES,
        _river(lambda: synth.RandomRBFDrift(1, 1, n_classes=4, n_features=10, change_speed=0.001), MADE),
    ),
    "LED, drift": (
        CLASSES,
        _river(
            lambda: _drifting(
                synth.LEDDrift(seed=1, noise_percentage=0.1, irrelevant_features=True, n_drift_features=0),
                synth.LEDDrift(seed=2, noise_percentage=0.1, irrelevant_features=True, n_drift_features=4),
            ),
            MADE,
        ),
    ),
    "Hyperplane, drift": (
        CLASSES,
        _river(lambda: synth.Hyperplane(seed=1, n_features=10, n_drift_features=5, mag_change=0.001), MADE),
    ),
    "digits that turn": (CLASSES, _digits),
    "bike_hourly": (NUMBERS, _file("bike_hourly.csv.gz", "cnt")),
    f"kin40k, first {CAP:,}": (NUMBERS, _file("kin40k.csv.gz", "target", CAP)),
    "abalone": (NUMBERS, _file("abalone.csv", "rings")),
    "boston": (NUMBERS, _file("boston.csv", "MEDV")),
    "TrumpApproval": (NUMBERS, _river(datasets.TrumpApproval)),
    "ChickWeights": (NUMBERS, _river(datasets.ChickWeights)),
    "WaterFlow": (NUMBERS, _river(datasets.WaterFlow)),
    "Friedman, drift": (
        NUMBERS,
        _river(lambda: synth.FriedmanDrift("gra", position=(MADE // 3, 2 * MADE // 3), seed=1), MADE),
    ),
    "Mv": (NUMBERS, _river(lambda: synth.Mv(seed=1), MADE)),
    "Planes2D": (NUMBERS, _river(lambda: synth.Planes2D(seed=1), MADE)),
    # Long ones, which --only must name:
    "CoverType, first 100,000": (CLASSES, _file("covtype.csv.gz", "Cover_Type", 100_000)),
    "kin40k": (NUMBERS, _file("kin40k.csv.gz", "target")),
}
LONG = "CoverType, first 100,000", "kin40k"


def load(name: str, data: Path) -> Stream:
    """Return a stream: labels as strings, targets as floats, missing values as 0 or an empty string."""
    task, make = STREAMS[name]
    frame, targets = make(data)
    frame = frame.rename(columns=str)
    for column in frame.columns:
        text = not pd.api.types.is_numeric_dtype(frame[column])
        frame[column] = (
            frame[column].fillna("").astype(str) if text else frame[column].fillna(0.0).astype(float)
        )
    return Stream(name, task, frame, [str(y) if task == CLASSES else float(y) for y in targets])
