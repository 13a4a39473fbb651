"""Estimators of scikit-learn on tables: five folds of shuffled rows, the same for every estimator.

    python benchmarks/folds.py [--data DIRECTORY] [--only TABLE …] [--estimators NAME …] [--splits N]

With --splits, N times three random quarters to train on and the other one to test on, with another seed each
time, instead. Accuracy of classes, R² of numbers; seconds to fit and to predict once, on this machine. Prints
a Markdown table. LightGBM takes part with its defaults if it is installed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
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
from sklearn.model_selection import KFold, ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from streamk.sklearn import KernelClassifier, KernelRegressor

ROOT = Path(__file__).resolve().parent.parent
FOLDS, COMPONENTS = 5, 1000


class Table(NamedTuple):
    """A file, its target, how many rows are used, whether the target is a class, and fields to drop."""

    file: str
    target: str
    rows: int | None
    classes: bool
    dropped: tuple[str, ...] = ()


TABLES = {
    "Elec2": Table("elec2.csv.gz", "class", None, True),
    "CoverType, 30,000 rows": Table("covtype.csv.gz", "Cover_Type", 30_000, True),
    "Adult": Table("adult_train.csv.gz", "income", None, True),
    "bike_hourly": Table("bike_hourly.csv.gz", "cnt", None, False),
    "kin40k": Table("kin40k.csv.gz", "target", None, False),
    "abalone": Table("abalone.csv", "rings", None, False),
    "protein": Table("protein.csv.gz", "target", None, False),
    "kings_county": Table("kings_county.csv.gz", "price", None, False),
    "elevators": Table("elevators.csv.gz", "target", None, False),
    "gas_turbine": Table("gas_turbine.csv.gz", "nitrogen_oxides", None, False, ("carbon_monoxide",)),
    "airlines, 100,000 rows": Table("airlines.csv.gz", "delay", 100_000, True),
    "poker, 60,000 rows": Table("poker_lsn.csv.gz", "class", 60_000, True),
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


def streamk(classes: bool, seed: int, budget: str = "default") -> BaseEstimator:
    """Return streamk's estimator of a task."""
    return (KernelClassifier if classes else KernelRegressor)(budget=budget, random_state=seed)


def lightgbm(classes: bool, seed: int) -> BaseEstimator:
    """Return LightGBM's estimator of a task."""
    from lightgbm import LGBMClassifier, LGBMRegressor

    return (LGBMClassifier if classes else LGBMRegressor)(n_jobs=1, verbose=-1, random_state=seed)


ESTIMATORS: dict[str, Callable[[bool, int], BaseEstimator]] = {
    "streamk.sklearn": streamk,
    "streamk.sklearn, small": partial(streamk, budget="small"),
    "streamk.sklearn, large": partial(streamk, budget="large"),
    "linear": lambda classes, _: encoded(linear(classes)),
    f"Nystroem({COMPONENTS:,}) and linear": lambda classes, _: nystroem(linear(classes)),
    "histogram gradient boosting": lambda classes, seed: (
        HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    )(random_state=seed),
}
if find_spec("lightgbm"):
    ESTIMATORS["LightGBM"] = lightgbm


def load(table: Table, data: Path) -> tuple[pd.DataFrame, np.ndarray]:
    """Return the inputs, strings as categories, and the target."""
    frame = pd.read_csv(data / table.file, nrows=table.rows).drop(columns=list(table.dropped))
    y = frame.pop(table.target)
    strings = frame.select_dtypes(exclude="number").columns
    return frame.astype(dict.fromkeys(strings, "category")), y.to_numpy()


def measure(
    make: Callable[[bool, int], BaseEstimator], table: Table, data: Path, splits: int
) -> tuple[float, float, float]:
    """Return the mean score, and seconds to fit and to predict once."""
    X, y = load(table, data)
    folds = KFold(FOLDS, shuffle=True, random_state=0)
    if splits:
        folds = ShuffleSplit(splits, test_size=0.25, random_state=0)
    scores, fitting, predicting = [], 0.0, 0.0
    for seed, (training, test) in enumerate(folds.split(X)):
        model, began = make(table.classes, seed), time.perf_counter()
        model.fit(X.iloc[training], y[training])
        fitted = time.perf_counter()
        scores.append(model.score(X.iloc[test], y[test]))
        fitting, predicting = fitting + fitted - began, predicting + time.perf_counter() - fitted
    return float(np.mean(scores)), fitting / len(scores), predicting / len(scores)


def main() -> None:
    """Measure every estimator on every table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--only", nargs="+", choices=TABLES, default=list(TABLES), metavar="TABLE")
    parser.add_argument("--estimators", nargs="+", choices=ESTIMATORS, default=list(ESTIMATORS))
    parser.add_argument("--splits", type=int, default=0, help="random splits instead of five folds")
    arguments = parser.parse_args()
    estimators = {name: ESTIMATORS[name] for name in arguments.estimators}
    X = pd.DataFrame({"a": range(100)})  # compile before time is taken
    for classes in (True, False):
        streamk(classes, 0).fit(X, X["a"] % 2).predict(X)
    print("| table | " + " | ".join(estimators) + " |")
    print("| --- |" + " ---: |" * len(estimators), flush=True)
    for name in arguments.only:
        cells = [
            measure(make, TABLES[name], arguments.data, arguments.splits) for make in estimators.values()
        ]
        shown = [f"{score:.3f} ({fit:.2f} s, {predict:.2f} s)" for score, fit, predict in cells]
        print(f"| {name} | " + " | ".join(shown) + " |", flush=True)


if __name__ == "__main__":
    main()
