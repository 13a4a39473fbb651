"""Estimators of scikit-learn on tables: five folds of shuffled rows, the same for every estimator.

    python benchmarks/folds.py [--data DIRECTORY] [--only TABLE …]

Accuracy of classes, R² of numbers; seconds to fit and to predict one fold, on this machine. Prints a Markdown
table.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from streamk.sklearn import KernelClassifier, KernelRegressor

ROOT = Path(__file__).resolve().parent.parent
FOLDS, COMPONENTS = 5, 1000


class Table(NamedTuple):
    """A file, its target, how many rows are used, and whether the target is a class."""

    file: str
    target: str
    rows: int | None
    classes: bool


TABLES = {
    "Elec2": Table("elec2.csv.gz", "class", None, True),
    "CoverType, 30,000 rows": Table("covtype.csv.gz", "Cover_Type", 30_000, True),
    "Adult": Table("adult_train.csv.gz", "income", None, True),
    "bike_hourly": Table("bike_hourly.csv.gz", "cnt", None, False),
    "kin40k": Table("kin40k.csv.gz", "target", None, False),
    "abalone": Table("abalone.csv", "rings", None, False),
}


def encoded(model: BaseEstimator) -> BaseEstimator:
    """Return a model behind the encoding that it needs: standardised numbers, one-hot strings."""
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    columns = make_column_transformer(
        (numbers, make_column_selector(dtype_include="number")),
        (
            OneHotEncoder(handle_unknown="ignore", sparse_output=False),
            make_column_selector(dtype_exclude="number"),
        ),
    )
    return make_pipeline(columns, model)


def nystroem(model: BaseEstimator) -> BaseEstimator:
    """Return a linear model on a kernel approximation."""
    return encoded(make_pipeline(Nystroem(n_components=COMPONENTS, random_state=0), model))


def linear(classes: bool) -> BaseEstimator:
    """Return the linear model of a task."""
    return LogisticRegression(max_iter=1000) if classes else Ridge()


ESTIMATORS: dict[str, Callable[[bool], BaseEstimator]] = {
    "streamk.sklearn": lambda classes: (KernelClassifier if classes else KernelRegressor)(random_state=0),
    "linear": lambda classes: encoded(linear(classes)),
    f"Nystroem({COMPONENTS:,}) and linear": lambda classes: nystroem(linear(classes)),
    "histogram gradient boosting": lambda classes: (
        HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    )(random_state=0),
}


def load(table: Table, data: Path) -> tuple[pd.DataFrame, np.ndarray]:
    """Return the inputs, strings as categories, and the target."""
    frame = pd.read_csv(data / table.file, nrows=table.rows)
    y = frame.pop(table.target)
    strings = frame.select_dtypes(exclude="number").columns
    return frame.astype(dict.fromkeys(strings, "category")), y.to_numpy()


def measure(make: Callable[[bool], BaseEstimator], table: Table, data: Path) -> tuple[float, float, float]:
    """Return the mean score of the folds, and seconds to fit and to predict one."""
    X, y = load(table, data)
    scores, fitting, predicting = [], 0.0, 0.0
    for training, test in KFold(FOLDS, shuffle=True, random_state=0).split(X):
        model, began = make(table.classes), time.perf_counter()
        model.fit(X.iloc[training], y[training])
        fitted = time.perf_counter()
        scores.append(model.score(X.iloc[test], y[test]))
        fitting, predicting = fitting + fitted - began, predicting + time.perf_counter() - fitted
    return float(np.mean(scores)), fitting / FOLDS, predicting / FOLDS


def main() -> None:
    """Measure every estimator on every table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--only", nargs="+", choices=TABLES, default=list(TABLES))
    arguments = parser.parse_args()
    X = pd.DataFrame({"a": range(100)})  # compile before time is taken
    for classes in (True, False):
        ESTIMATORS["streamk.sklearn"](classes).fit(X, X["a"] % 2).predict(X)
    print("| table | " + " | ".join(ESTIMATORS) + " |")
    print("| --- |" + " ---: |" * len(ESTIMATORS))
    for name in arguments.only:
        cells = [measure(make, TABLES[name], arguments.data) for make in ESTIMATORS.values()]
        shown = [f"{score:.3f} ({fit:.1f} s, {predict:.2f} s)" for score, fit, predict in cells]
        print(f"| {name} | " + " | ".join(shown) + " |", flush=True)


if __name__ == "__main__":
    main()
