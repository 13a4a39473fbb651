"""Labels a twentieth of the stream late: ``Kernel…`` learners, and boosted trees refitted every time.

    python benchmarks/late.py [--data DIRECTORY] [--only STREAM …] [--events N] [--memory] [--seed N]
                              [--no-peer] [--peers FILE] [--json]

The protocol is called *chunks*: a stream is cut into twenty parts; a learner predicts a part, and then learns
it. The first part is not scored. streamk's learners have their defaults, without label memory unless
``--memory`` asks for it. The peer is LightGBM with its defaults if it is installed
(``pip install lightgbm``), else the histogram boosting of scikit-learn; it is fitted on all parts so far
before it predicts the next.

The table has accuracy or R² of both and of the majority class or the mean target so far, the processor time
compared with that of the peer, and how honest probabilities and intervals are: the calibration error of the
predicted class (in ten groups), or the part of the targets within intervals of level 0.9. ``--peers`` names a
file that keeps the results of the peer, which takes most of the time.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from rich.progress import track
from sections import ROOT
from tables import table
from threadpoolctl import threadpool_limits

import streamk

PARTS, LEVEL = 20, 0.9
_AFTER = ["dep_time", "dep_delay", "arr_time", "air_time"]  # take-off
_CODES = ["tailnum", "flight", "time_hour", "year"]


class Log(NamedTuple):
    """A stream: its target, whether that is a class, how many rows are used (0: all), columns to skip."""

    target: str
    classes: bool
    rows: int = 0
    without: tuple[str, ...] = ()


LOGS = {
    "elec2": Log("class", True),
    "covtype": Log("Cover_Type", True, 100_000),
    "adult_train": Log("income", True),
    "gmsc": Log("is_fraud", True, 60_000),
    "airlines": Log("delay", True, 100_000),
    "poker_lsn": Log("class", True, 60_000),
    "occupancy": Log("occupancy", True),
    "bike_hourly": Log("cnt", False),
    "kin40k": Log("target", False),
    "protein": Log("target", False),
    "nycflights13": Log("arr_delay", False, 60_000, (*_AFTER, *_CODES)),
    "elevators": Log("target", False),
    "fried": Log("target", False),
    "demand": Log("units_sold", False, 60_000),
    "gas_turbine": Log("nitrogen_oxides", False, 0, ("carbon_monoxide",)),
    "beijing_pm25": Log("pm2.5", False),
    "kings_county": Log("price", False),
    "toulouse_bikes": Log("bikes", False, 60_000),
    "turbofan_fd001": Log("remaining_life", False),
}


class Stream(NamedTuple):
    """Inputs, targets, and where its parts begin and end."""

    X: pd.DataFrame
    y: pd.Series
    cuts: list[int]

    @property
    def parts(self) -> list[tuple[int, int]]:
        """The first and last row of every part, the last exclusive."""
        return list(zip(self.cuts[:-1], self.cuts[1:], strict=True))


def read(name: str, data: Path, events: int | None = None) -> Stream:
    """Return a stream, without the rows that have no target."""
    log = LOGS[name]
    frame = pd.read_csv(data / f"{name}.csv.gz", nrows=log.rows or None, na_values=["?"])
    frame = frame.dropna(subset=[log.target]).drop(columns=list(log.without))[:events].reset_index(drop=True)
    y = frame.pop(log.target)
    cuts = np.linspace(0, len(frame), PARTS + 1).astype(int).tolist()
    return Stream(frame, y.astype(str) if log.classes else y.astype(float), cuts)


def score(y: Any, predicted: Any, classes: bool) -> float:
    """Return accuracy, or R²."""
    y, predicted = np.asarray(y), np.asarray(predicted)
    if classes:
        return float((predicted.astype(str) == y.astype(str)).mean())
    errors = y - predicted.astype(float)
    return float(1.0 - (errors**2).sum() / ((y - y.mean()) ** 2).sum())


def measure(stream: Stream, classes: bool, memory: bool, seed: int) -> dict[str, float]:
    """Return the figures of streamk's learner."""
    made = streamk.KernelClassifier if classes else streamk.KernelRegressor
    learner = made(seed=seed, label_memory=memory)
    warm = made(seed=seed, label_memory=memory)
    for _ in range(2):  # compiles what is measured
        warm.predict_many(stream.X[:300])
        warm.learn_many(stream.X[:300], stream.y[:300])
    predicted: list[Any] = []
    honest: list[Any] = []
    seconds = 0.0
    for a, b in stream.parts:
        X, y, began = stream.X[a:b].reset_index(drop=True), stream.y[a:b].reset_index(drop=True), _clock()
        if a:
            answers = learner.predict_proba_many(X) if classes else learner.predict_many(X)
        seconds += _clock() - began
        if a and classes:
            rows = answers.to_numpy()
            predicted += [answers.columns[k] for k in rows.argmax(axis=1)]
            honest += list(zip(rows.max(axis=1), rows.argmax(axis=1) == _places(answers, y), strict=True))
        elif a:
            predicted += list(answers)
            ends = learner.predict_interval_many(X, LEVEL)
            honest += ((ends["lower"] <= y) & (y <= ends["upper"])).tolist()
        began = _clock()
        learner.learn_many(X, y)
        seconds += _clock() - began
    tail = stream.y[stream.cuts[1] :]
    return {
        "score": score(tail, predicted, classes),
        "seconds": seconds,
        "honest": _calibration_error(np.array(honest)) if classes else float(np.mean(honest)),
    }


def _places(answers: pd.DataFrame, y: pd.Series) -> np.ndarray:
    places = {str(label): k for k, label in enumerate(answers.columns)}
    return np.array([places.get(str(label), -1) for label in y])


def _calibration_error(pairs: np.ndarray) -> float:
    """Return the mean distance of probabilities from frequencies, in ten groups of equal size."""
    groups = np.array_split(pairs[np.argsort(pairs[:, 0], kind="stable")], 10)
    return float(sum(len(g) * abs(g[:, 0].mean() - g[:, 1].mean()) for g in groups) / len(pairs))


def refit(stream: Stream, classes: bool) -> dict[str, float]:
    """Return the figures of boosted trees that are fitted again before every part."""
    X = stream.X.copy()
    text = [column for column in X if not pd.api.types.is_numeric_dtype(X[column])]
    X[text] = X[text].astype("category")
    predicted: list[Any] = []
    began = _clock()
    for a, b in stream.parts[1:]:
        predicted += list(_boosted(X, text, classes).fit(X[:a], stream.y[:a]).predict(X[a:b]))
    tail = stream.y[stream.cuts[1] :]
    return {"score": score(tail, predicted, classes), "seconds": _clock() - began}


def _boosted(X: pd.DataFrame, text: list[str], classes: bool) -> Any:
    if importlib.util.find_spec("lightgbm"):
        import lightgbm

        made = lightgbm.LGBMClassifier if classes else lightgbm.LGBMRegressor
        return made(n_jobs=1, verbose=-1, random_state=0)
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    few = [column for column in text if X[column].nunique() <= 255]
    boosted = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    return boosted(categorical_features=few, random_state=0)


def constant(stream: Stream, classes: bool) -> float:
    """Return the score of the majority class, or the mean target, of all parts before."""
    predicted: list[Any] = []
    for a, b in stream.parts[1:]:
        before = stream.y[:a]
        predicted += [before.mode()[0] if classes else before.mean()] * (b - a)
    return score(stream.y[stream.cuts[1] :], predicted, classes)


def _clock() -> float:
    return time.process_time()


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    found = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    found.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    found.add_argument("--only", nargs="+", metavar="STREAM", choices=LOGS, default=list(LOGS))
    found.add_argument("--events", type=int, help="use so many rows of each stream at most")
    found.add_argument("--memory", action="store_true", help="with label memory")
    found.add_argument("--seed", type=int, default=1)
    found.add_argument("--no-peer", action="store_true", help="measure streamk alone")
    found.add_argument("--peers", type=Path, help="a JSON file that keeps the results of the peer")
    found.add_argument("--json", action="store_true", help="print the figures as JSON")
    return found


def main() -> None:
    """Measure the streams, and print a table."""
    given = parser().parse_args()
    kept = json.loads(given.peers.read_text()) if given.peers and given.peers.exists() else {}
    figures = {}
    with threadpool_limits(1):
        for name in track(given.only, "streams", console=_console()):
            classes, stream = LOGS[name].classes, read(name, given.data, given.events)
            own = measure(stream, classes, given.memory, given.seed)
            peer = kept.get(f"{name} {len(stream.y)}")
            if peer is None and not given.no_peer:
                peer = kept[f"{name} {len(stream.y)}"] = refit(stream, classes)
                if given.peers:
                    given.peers.write_text(json.dumps(kept, indent=1))
            figures[name] = {
                "rows": len(stream.y),
                **own,
                "constant": constant(stream, classes),
                "peer": peer,
            }
    if given.json:
        print(json.dumps(figures))
        return
    header = [
        "stream",
        "rows",
        "streamk",
        "refit",
        "majority or mean",
        "time / refit",
        "calibration, coverage",
    ]
    print(table(header, [_line(name, found) for name, found in figures.items()]))
    compared = [f for f in figures.values() if f["peer"] is not None]
    ahead = sum(f["score"] > f["peer"]["score"] for f in compared)
    print(f"\nAhead of the refit on {ahead} of {len(compared)} streams.")


def _line(name: str, found: dict[str, Any]) -> list[str]:
    peer = found["peer"]
    compared = (
        ["-", "-"] if peer is None else [f"{peer['score']:.3f}", f"{found['seconds'] / peer['seconds']:.2f}"]
    )
    figures = [
        f"{found['score']:.3f}",
        compared[0],
        f"{found['constant']:.3f}",
        compared[1],
        f"{found['honest']:.3f}",
    ]
    return [name, f"{found['rows']:,}", *figures]


def _console() -> Any:
    from rich.console import Console

    return Console(stderr=True)


if __name__ == "__main__":
    main()
