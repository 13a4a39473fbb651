"""The streams of the board: files of ``../shared/data``, river's packaged and synthetic ones, and digits.

Labels are strings, targets numbers; a missing value (empty, or ``?``) is 0 or an empty string.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from generators import ADAPTIVE, EVENTS, poker
from river import datasets
from river.datasets import synth
from scipy import ndimage

CAP, MADE = 20_000, 10_000  # rows of a file, and events of a synthetic stream
COMPONENTS, FITTED = 40, 1000  # of digits, and the images whose principal axes they are
LAGS = 1, 2, 3, 4, 48, 336  # half hours
AFTER = "dep_time", "dep_delay", "arr_time", "air_time"  # of a flight, measured after it is predicted
CODES = "tailnum", "flight", "time_hour", "year"
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


class Source(NamedTuple):
    """Where a stream comes from.

    Attributes
    ----------
    long
        Whether it is measured only if ``--only`` names it.
    """

    task: str
    events: int
    load: Load
    long: bool = False


def _file(
    name: str,
    target: str,
    rows: int | None = None,
    strings: tuple[str, ...] = (),
    without: tuple[str, ...] = (),
    time: str = "",
) -> Load:
    """Read a file; rows without a target are skipped, and a time becomes hour and weekday."""

    def load(data: Path) -> tuple[pd.DataFrame, list[Any]]:
        frame = pd.read_csv(data / name, nrows=rows, na_values="?", skipinitialspace=True)
        frame = frame.dropna(subset=[target]).drop(columns=list(without)).reset_index(drop=True)
        frame = frame.astype(dict.fromkeys(strings, str))
        if time:
            moments = pd.to_datetime(frame.pop(time)).dt
            frame = frame.assign(hour=moments.hour + moments.minute / 60.0, weekday=moments.day_name())
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


def _drawn(make: Callable[[], tuple[pd.DataFrame, list[Any]]]) -> Load:
    return lambda data: make()


def _friedman(kind: str, events: int, parts: int) -> Load:
    """Return Friedman's function, which drifts where parts of equal length meet."""
    places = tuple(events * k // parts for k in range(1, parts))
    more = {"transition_window": events // 10} if kind == "gsg" else {}
    return _river(lambda: synth.FriedmanDrift(kind, places, seed=1, **more), events)


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


def _pixels(data: Path) -> tuple[pd.DataFrame, list[Any]]:
    with np.load(data / "mnist.npz") as file:
        images, labels = file["X_train"][:MADE].reshape(MADE, -1), file["y_train"][:MADE]
    return pd.DataFrame(images, columns=[f"p{j:03d}" for j in range(images.shape[1])]), labels.tolist()


def _anomalies(data: Path) -> tuple[pd.DataFrame, list[Any]]:
    with np.load(data / "adbench_cover.npz") as file:
        X, labels = file["X"][:CAP], file["y"][:CAP].ravel()
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])]), labels.tolist()


def _demand(rows: int) -> Load:
    """Return units sold a week, with the week as a number of days, and store and product as strings."""

    def load(data: Path) -> tuple[pd.DataFrame, list[Any]]:
        frame, units = _file("demand.csv.gz", "units_sold", rows, ("store_id", "sku_id"))(data)
        weeks = pd.to_datetime(frame["week"], format="%d/%m/%y")
        frame["week"] = (weeks - pd.Timestamp(2011, 1, 1)).dt.days
        return frame, units

    return load


def _taxis(data: Path) -> tuple[pd.DataFrame, list[Any]]:
    """Return passengers of half an hour, with its time and the counts up to two hours, a day, a week ago."""
    frame = pd.read_csv(data / "nyc_taxi.csv.gz", parse_dates=["timestamp"])
    time, values = frame["timestamp"].dt, frame["value"]
    lags = {f"value_{lag}": values.shift(lag) for lag in LAGS}
    inputs = {"hour": time.hour + time.minute / 60.0, "weekday": time.day_name(), "day": time.dayofyear}
    return pd.DataFrame(inputs | lags)[LAGS[-1] :], values[LAGS[-1] :].tolist()


STREAMS: dict[str, Source] = {
    "Elec2": Source(CLASSES, 45_312, _file("elec2.csv.gz", "class")),
    f"CoverType, first {CAP:,}": Source(CLASSES, CAP, _file("covtype.csv.gz", "Cover_Type", CAP)),
    f"Adult, first {CAP:,}": Source(CLASSES, CAP, _file("adult_train.csv.gz", "income", CAP)),
    f"GMSC, first {CAP:,}": Source(CLASSES, CAP, _file("gmsc.csv.gz", "is_fraud", CAP)),
    f"Cover anomalies, first {CAP:,}": Source(CLASSES, CAP, _anomalies),
    f"Shuttle anomalies, first {CAP:,}": Source(CLASSES, CAP, _river(datasets.Shuttle, CAP)),
    "Phishing": Source(CLASSES, 1250, _file("phishing.csv.gz", "is_phishing")),
    "Bananas": Source(CLASSES, 5300, _river(datasets.Bananas)),
    "ImageSegments": Source(CLASSES, 2310, _river(datasets.ImageSegments)),
    f"MNIST pixels, first {MADE:,}": Source(CLASSES, MADE, _pixels),
    "digits that turn": Source(CLASSES, MADE, _digits),
    f"moving squares, first {CAP:,}": Source(CLASSES, CAP, _file("moving_squares.csv.gz", "label", CAP)),
    "Poker hands": Source(CLASSES, CAP, lambda data: poker(CAP)),
    "SEA, drift": Source(
        CLASSES,
        MADE,
        _river(lambda: _drifting(synth.SEA(0, noise=0.1, seed=1), synth.SEA(3, noise=0.1, seed=2)), MADE),
    ),
    "Agrawal, drift": Source(
        CLASSES, MADE, _river(lambda: _drifting(synth.Agrawal(0, seed=1), synth.Agrawal(6, seed=2)), MADE)
    ),
    "RandomRBF, drift": Source(
        CLASSES,
        MADE,
        _river(lambda: synth.RandomRBFDrift(1, 1, n_classes=4, n_features=10, change_speed=0.001), MADE),
    ),
    "LED, drift": Source(
        CLASSES,
        MADE,
        _river(
            lambda: _drifting(
                synth.LEDDrift(seed=1, noise_percentage=0.1, irrelevant_features=True, n_drift_features=0),
                synth.LEDDrift(seed=2, noise_percentage=0.1, irrelevant_features=True, n_drift_features=4),
            ),
            MADE,
        ),
    ),
    "Hyperplane, drift": Source(
        CLASSES,
        MADE,
        _river(lambda: synth.Hyperplane(seed=1, n_features=10, n_drift_features=5, mag_change=0.001), MADE),
    ),
    "bike_hourly": Source(NUMBERS, 17_379, _file("bike_hourly.csv.gz", "cnt")),
    "nyc_taxi": Source(NUMBERS, 9984, _taxis),
    f"demand, first {CAP:,}": Source(NUMBERS, CAP, _demand(CAP)),
    "elevators": Source(NUMBERS, 16_599, _file("elevators.csv.gz", "target")),
    f"kin40k, first {CAP:,}": Source(NUMBERS, CAP, _file("kin40k.csv.gz", "target", CAP)),
    "abalone": Source(NUMBERS, 4177, _file("abalone.csv", "rings")),
    "boston": Source(NUMBERS, 506, _file("boston.csv", "MEDV")),
    "TrumpApproval": Source(NUMBERS, 1001, _river(datasets.TrumpApproval)),
    "ChickWeights": Source(NUMBERS, 578, _river(datasets.ChickWeights)),
    "WaterFlow": Source(NUMBERS, 1268, _river(datasets.WaterFlow)),
    "AirlinePassengers": Source(NUMBERS, 144, _river(datasets.AirlinePassengers)),
    "SP500Stocks": Source(NUMBERS, 1257, _river(datasets.SP500Stocks)),
    f"fried, first {CAP:,}": Source(NUMBERS, CAP, _file("fried.csv.gz", "target", CAP)),
    "Friedman, drift": Source(NUMBERS, MADE, _friedman("gra", MADE, 3)),
    "Friedman, local drift": Source(NUMBERS, CAP, _friedman("lea", CAP, 4)),
    "Friedman, gradual drift": Source(NUMBERS, CAP, _friedman("gsg", CAP, 3)),
    "Mv": Source(NUMBERS, MADE, _river(lambda: synth.Mv(seed=1), MADE)),
    "Planes2D": Source(NUMBERS, MADE, _river(lambda: synth.Planes2D(seed=1), MADE)),
    "CoverType, first 100,000": Source(
        CLASSES, 100_000, _file("covtype.csv.gz", "Cover_Type", 100_000), long=True
    ),
    "CoverType": Source(CLASSES, 581_012, _file("covtype.csv.gz", "Cover_Type"), long=True),
    "demand": Source(NUMBERS, 150_150, _demand(150_150), long=True),
    "fried": Source(NUMBERS, 40_768, _file("fried.csv.gz", "target"), long=True),
    "kin40k": Source(NUMBERS, 40_000, _file("kin40k.csv.gz", "target"), long=True),
    **{name: Source(CLASSES, EVENTS, _drawn(make), long=True) for name, make in ADAPTIVE.items()},
    "Adult": Source(CLASSES, 32_561, _file("adult_train.csv.gz", "income"), long=True),
    "GMSC, first 60,000": Source(CLASSES, 60_000, _file("gmsc.csv.gz", "is_fraud", 60_000), long=True),
    "airlines, first 100,000": Source(
        CLASSES, 100_000, _file("airlines.csv.gz", "delay", 100_000), long=True
    ),
    "Poker, first 60,000": Source(CLASSES, 60_000, _file("poker_lsn.csv.gz", "class", 60_000), long=True),
    "Poker": Source(CLASSES, 829_201, _file("poker_lsn.csv.gz", "class"), long=True),
    "occupancy": Source(CLASSES, 20_560, _file("occupancy.csv.gz", "occupancy", time="date"), long=True),
    "protein": Source(NUMBERS, 45_730, _file("protein.csv.gz", "target"), long=True),
    "nycflights13, first 60,000": Source(
        NUMBERS, 57_508, _file("nycflights13.csv.gz", "arr_delay", 60_000, (), (*AFTER, *CODES)), long=True
    ),
    "demand, first 60,000": Source(NUMBERS, 60_000, _demand(60_000), long=True),
    "gas_turbine": Source(
        NUMBERS,
        36_733,
        _file("gas_turbine.csv.gz", "nitrogen_oxides", without=("carbon_monoxide",)),
        long=True,
    ),
    "beijing_pm25": Source(NUMBERS, 41_757, _file("beijing_pm25.csv.gz", "pm2.5"), long=True),
    "kings_county": Source(NUMBERS, 21_613, _file("kings_county.csv.gz", "price"), long=True),
    "toulouse_bikes, first 60,000": Source(
        NUMBERS, 60_000, _file("toulouse_bikes.csv.gz", "bikes", 60_000, time="moment"), long=True
    ),
    "turbofan_fd001": Source(NUMBERS, 20_631, _file("turbofan_fd001.csv.gz", "remaining_life"), long=True),
}
CHUNKED = (  # measured with labels in chunks
    "Elec2", "CoverType, first 100,000", "Adult", "GMSC, first 60,000", "airlines, first 100,000",
    "Poker, first 60,000", "occupancy", "bike_hourly", "kin40k", "protein", "nycflights13, first 60,000",
    "elevators", "fried", "demand, first 60,000", "gas_turbine", "beijing_pm25", "kings_county",
    "toulouse_bikes, first 60,000", "turbofan_fd001",
)  # fmt: skip
LONG = tuple(name for name, source in STREAMS.items() if source.long)


def load(name: str, data: Path) -> Stream:
    """Return a stream."""
    task, events, make, _ = STREAMS[name]
    frame, targets = make(data)
    if len(targets) != events:
        raise ValueError(f"{name} has {len(targets):,} events; {events:,} are expected")
    frame = frame.rename(columns=str)
    for column in frame.columns:
        text = not pd.api.types.is_numeric_dtype(frame[column])
        frame[column] = (
            frame[column].fillna("").astype(str) if text else frame[column].fillna(0.0).astype(float)
        )
    return Stream(name, task, frame, [str(y) if task == CLASSES else float(y) for y in targets])
