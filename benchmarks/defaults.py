"""``Kernel…`` learners on public streams in one configuration: test, then train.

    python benchmarks/defaults.py [--data DIRECTORY] [--only streams intervals noise speed peers features]
                                  [--json]

Accuracies and R² are means of three seeds (of one for all of CoverType). ``noise`` adds 30 columns of normal
noise to the inputs of three streams, with and without learned relevance; ``intervals`` counts the targets
inside intervals predicted before them; ``peers`` compares speed, in a pass and one by one, with river's
forests and linear models on the first 5,000 events of each stream, in turns of 500; forests become slower as
they grow. ``features`` compares other numbers of features, with one seed, by accuracy and time.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from river import compose, linear_model, multiclass, preprocessing
from river import forest as forests
from sections import Row, measure, one_by_one

import streamk

SEEDS = (7, 1, 2)
ELEC2, BIKE = ("elec2.csv.gz", "class", None), ("bike_hourly.csv.gz", "cnt", None)
KIN = ("kin40k.csv.gz", "target", None)
COVERTYPE = ("covtype.csv.gz", "Cover_Type", 100_000)
STREAMS: list[tuple[str, tuple[str, str, int | None], bool, dict[str, Any], float]] = [
    # name, (file, target, rows), whether it has classes, parameters, least
    ("Elec2", ELEC2, True, {}, 0.936),
    ("Elec2, without label memory", ELEC2, True, {"label_memory": False}, 0.933),
    ("CoverType, first 100,000", COVERTYPE, True, {}, 0.950),
    ("CoverType, first 100,000, without label memory", COVERTYPE, True, {"label_memory": False}, 0.940),
    ("CoverType, all", (*COVERTYPE[:2], None), True, {}, 0.961),
    ("Adult", ("adult_train.csv.gz", "income", None), True, {}, 0.848),
    ("moving squares, first 100,000", ("moving_squares.csv.gz", "label", 100_000), True, {}, 0.999),
    ("bike_hourly", BIKE, False, {}, 0.855),
    ("bike_hourly, without label memory", BIKE, False, {"label_memory": False}, 0.82),
    ("kin40k", KIN, False, {}, 0.82),
    ("abalone", ("abalone.csv", "rings", None), False, {}, 0.655),
]
NOISE, LONG, WARM = 30, 200_000, 100
LEVELS = (0.5, 0.9, 0.98)
FIRST, TURN = 5_000, 500  # events for the speed of peers: in all, and in turns with a pass of ours
NUMBERS = 768, 1536, 2304, 3840, 6144  # of features


def load(data: Path, stream: tuple[str, str, int | None]) -> tuple[pd.DataFrame, list[Any]]:
    """Return the inputs and the targets of a stream."""
    file, target, rows = stream
    frame = pd.read_csv(data / file, nrows=rows)
    return frame, frame.pop(target).tolist()


def _kernel(classes: bool) -> Any:
    """Return the class of the learner."""
    return streamk.KernelClassifier if classes else streamk.KernelRegressor


def score(frame: pd.DataFrame, truths: list[Any], classes: bool, seed: int, **parameters: Any) -> list[float]:
    """Return accuracy and log loss, or R², of one pass, and events a second."""
    learner: Any = _kernel(classes)(seed=seed, **parameters)
    began = time.perf_counter()
    if not classes:
        found = np.array(learner.predict_learn_many(frame, truths))
        rate = len(truths) / (time.perf_counter() - began)
        y = np.array(truths, dtype=float)
        return [1.0 - float(((found - y) ** 2).sum() / ((y - y.mean()) ** 2).sum()), 0.0, rate]
    given = learner.predict_proba_learn_many(frame, truths).to_numpy()
    rate = len(truths) / (time.perf_counter() - began)
    codes = {label: k for k, label in enumerate(learner.labels)}
    at = np.array([codes[y] for y in truths])
    loss = -np.log(np.maximum(given[np.arange(len(at)), at], 1e-15))[1:].mean()
    return [float((given.argmax(axis=1) == at).mean()), float(loss), rate]


def streams(data: Path) -> Iterator[Row]:
    """Accuracy or R² on every stream."""
    for name, stream, classes, parameters, least in STREAMS:
        frame, truths = load(data, stream)
        score(frame[:50], truths[:50], classes, 1, **parameters)  # compiled by then
        seeds = SEEDS[:1] if len(truths) > LONG else SEEDS
        runs = [score(frame, truths, classes, seed, **parameters) for seed in seeds]
        mean, loss, rate = (statistics.mean(column) for column in zip(*runs, strict=True))
        shown = f"accuracy {mean:.4f}, log loss {loss:.4f}" if classes else f"R² {mean:.4f}"
        yield name, f"{shown}, {rate:,.0f} events/s", f"≥ {least}", mean >= least


def intervals(data: Path) -> Iterator[Row]:
    """Share of targets inside intervals of three levels, on every regression stream."""
    for name, stream, classes, parameters, _ in STREAMS:
        if classes:
            continue
        frame, truths = load(data, stream)
        learner, inside, width = (
            streamk.KernelRegressor(seed=SEEDS[0], **parameters),
            dict.fromkeys(LEVELS, 0),
            0.0,
        )
        for x, y in zip(frame.to_dict("records"), truths, strict=True):
            for level in LEVELS if learner.events >= WARM else ():
                found = learner.predict_interval_one(x, level)
                inside[level] += y in found
                width += found.width if level == LEVELS[1] else 0.0
            learner.learn_one(x, y)
        count = len(truths) - WARM
        parts = {level: n / count for level, n in inside.items()}
        shown = ", ".join(f"{part:.3f} at {level:g}" for level, part in parts.items())
        met = all(abs(part - level) <= 0.02 for level, part in parts.items())
        relative = width / count / statistics.stdev(truths)
        yield (
            f"{name}: inside intervals",
            f"{shown}; width at 0.9: {relative:.2f} deviations",
            "within 0.02",
            met,
        )


def noise(data: Path) -> Iterator[Row]:
    """Cost of 30 columns of noise with learned relevance, as a share of the cost without."""
    for name, stream, classes in (
        ("Elec2", ELEC2, True),
        ("bike_hourly", BIKE, False),
        ("kin40k", KIN, False),
    ):
        frame, truths = load(data, stream)
        columns = {f"noise {j:02d}": np.random.default_rng(j).normal(size=len(frame)) for j in range(NOISE)}
        noisy = frame.assign(**columns)
        lost = {}
        for relevance in (True, False):
            clean, spoilt = (
                statistics.mean(score(x, truths, classes, s, relevance=relevance)[0] for s in SEEDS)
                for x in (frame, noisy)
            )
            lost[relevance] = clean - spoilt
        made = _kernel(classes)
        learner = made(seed=SEEDS[0])
        learner.learn_many(noisy[:20_000], truths[:20_000])
        found = {k: np.square(v) for k, v in learner.summary()["relevance"].items()}
        share = float(min(sum(v for k, v in found.items() if k in columns) / sum(found.values())))
        yield (
            f"{name}, {NOISE} columns of noise: lost",
            f"{lost[True]:.4f}, without relevance {lost[False]:.4f}",
            "≤ a third",
            lost[True] <= lost[False] / 3,
        )
        yield f"{name}: relevance of the noise after 20,000 events", f"{share:.1%}", "< 5 %", share < 0.05


def speed(data: Path) -> Iterator[Row]:
    """Microseconds and kilobytes on Elec2."""
    frame, truths = load(data, ELEC2)
    xs = frame[:4000].to_dict("records")
    rates = []
    for _ in range(3):
        learner = streamk.KernelClassifier(seed=7)
        learner.learn_many(frame[:2000], truths[:2000])
        learner.predict_one(xs[0])
        began = time.perf_counter()
        for x, y in zip(xs, truths, strict=False):
            learner.predict_one(x)
            learner.learn_one(x, y)
        rates.append(1e6 * (time.perf_counter() - began) / len(xs))
    yield "Elec2: predict_one + learn_one", f"{min(rates):.1f} µs", "≤ 60 µs", min(rates) <= 60
    best = max(score(frame, truths, True, 7)[2] for _ in range(3))
    yield "Elec2: predict_proba_learn_many", f"{best:,.0f} events/s", "≥ 20,000", best >= 20_000
    learner = streamk.KernelClassifier(seed=7)
    learner.learn_many(frame, truths)
    size = len(learner.closed().to_bytes())
    whole = len(learner.to_bytes())
    yield "Elec2: model, closed()", f"{size:,} bytes (open {whole:,})", "≤ 60,000", size <= 60_000


def peers(data: Path) -> Iterator[Row]:
    """Speed in a pass and one by one relative to river's forest of ten trees, and to its linear model."""
    seen = set()
    for name, stream, classes, _, _ in STREAMS:
        if stream[0] in seen:
            continue
        seen.add(stream[0])
        frame, truths = load(data, (*stream[:2], FIRST))
        if classes and len(set(truths)) == 2:
            truths = [y == truths[0] for y in truths]
        xs = frame.to_dict("records")
        trees = forests.ARFClassifier(seed=1) if classes else forests.ARFRegressor(seed=1)
        kinds = (str, int, float) if classes else (int, float)  # its regression trees accept no strings
        without = [{k: v for k, v in x.items() if isinstance(v, kinds)} for x in xs]
        one_by_one(_kernel(classes)(seed=7), xs[:TURN], truths[:TURN])  # compiles, as does the next
        score(frame, truths, classes, 7)
        ours = _kernel(classes)(seed=7)
        model, taken = _linear(frame, truths, classes), np.zeros(4)
        for start in range(0, len(xs), TURN):  # a machine's speed changes within seconds
            part = slice(start, start + TURN)
            taken += (
                sum(one_by_one(trees, without[part], truths[part])),
                sum(one_by_one(model, xs[part], truths[part])),
                len(xs[part]) / score(frame, truths, classes, 7)[2],
                sum(one_by_one(ours, xs[part], truths[part])),
            )
        forest, linear, whole, alone = len(xs) / taken
        shown = (
            f"{whole:,.0f} events/s, {whole / forest:.1f} times a forest, {whole / linear:.1f} times linear"
        )
        met = whole >= 25 * forest and (whole >= linear or frame.shape[1] > 60)
        yield f"{name.split(',')[0]}: speed", shown, "≥ 25, ≥ 1", met
        shown = (
            f"{alone:,.0f} events/s, {alone / forest:.1f} times a forest, {whole / alone:.2f} times as long"
        )
        met = alone >= 18 * forest and whole <= 1.35 * alone
        yield f"{name.split(',')[0]}: speed one by one", shown, "≥ 18, ≤ 1.35", met


def _linear(frame: pd.DataFrame, truths: list[Any], classes: bool) -> Any:
    """Return river's linear model of standardised numbers and one-hot strings."""
    texts = [column for column in frame.columns if not pd.api.types.is_numeric_dtype(frame[column])]
    numbers = [column for column in frame.columns if column not in texts]
    inputs: Any = compose.Select(*numbers) | preprocessing.StandardScaler()
    if texts:
        inputs += compose.Select(*texts) | preprocessing.OneHotEncoder()
    if not classes:
        return inputs | linear_model.LinearRegression()
    model = linear_model.LogisticRegression()
    return inputs | (model if isinstance(truths[0], bool) else multiclass.OneVsRestClassifier(model))


def features(data: Path) -> Iterator[Row]:
    """Accuracy or R² with fewer and more features, and the time of an event relative to the default."""
    for name, stream, classes in (
        ("Elec2", ELEC2, True),
        ("CoverType, first 100,000", COVERTYPE, True),
        ("kin40k", KIN, False),
    ):
        frame, truths = load(data, stream)
        usual = 1536 if classes else 2304
        found = {}
        for count in sorted(NUMBERS, key=lambda count: count != usual):
            score(frame[:50], truths[:50], classes, 1, features=count)
            found[count] = score(frame, truths, classes, SEEDS[0], features=count)
            value, loss, rate = found[count]
            shown = f"accuracy {value:.4f}, log loss {loss:.4f}" if classes else f"R² {value:.4f}"
            yield f"{name}, {count} features", f"{shown}, time {found[usual][2] / rate:.2f}", "", True


SECTIONS: dict[str, Callable[[Path], Iterator[Row]]] = {
    "streams": streams,
    "intervals": intervals,
    "noise": noise,
    "speed": speed,
    "peers": peers,
    "features": features,
}


if __name__ == "__main__":
    sys.exit(measure(__doc__ or "", SECTIONS))
