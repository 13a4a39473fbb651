"""Dai et al. (2014): doubly stochastic functional gradients on Adult, Forest and millions of deformed digits.

    python examples/papers/dai2014.py --data DIRECTORY [--only SECTION …] [--quick] [--json] [--out DIRECTORY]

Sections:

- ``adult``: hinge loss; trained on the training file in a random order, tested on the test file.
- ``forest``: class 2 against the rest; all 581,012 rows in a random order, the first nine tenths learned
  once, the others tested. The 44 columns of zeros and ones are passed as two categories.
- ``eights``: digits 8 against 6, trained on deformed ones.
- ``digits``: all ten digits. Every pass deforms the 60,000 training images again, 2,040,000 events in all, in
  place of the paper's MNIST8M; 100 principal components of mean-removed images at unit norm. The picture
  shows the test error after every so many events.
- ``scattering``: all ten digits, described by wavelet scattering (``scattering.py``) in place of the paper's
  1,568 convolution features.
- ``mnist``: the training images as they are, five passes.

The directory holds ``adult_train.csv.gz``, ``adult_test.csv.gz``, ``covtype.csv.gz`` and ``mnist.npz``.
Parameters were chosen on parts of the training data: the last fifth of Adult's in a random order, 30,000 rows
of Forest's nine tenths, the last 10,000 images of MNIST's.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from images import deformed_digits, principal_components, unit_images
from report import Row, Section, load_images, plot, require, run
from rich.progress import Progress, track
from scattering import RootScattering

import streamk

CHUNK, SEED = 8192, 7
ADULT = "Adult is published by the UCI Machine Learning Repository; it is wanted as CSV with a header line"
FOREST = (
    "Covertype is published by the UCI Machine Learning Repository; it is wanted as CSV with a header line"
)
SETTINGS: dict[str, dict[str, Any]] = {
    "adult": {
        "loss": "hinge", "features": 128, "max_features": 4096, "batch_size": 1024, "regularization": 0.01,
        "average": True,
    },
    "forest": {
        "loss": "logistic", "features": 4096, "max_features": 32768, "batch_size": 8192, "revisits": 7,
        "regularization": 1e-5, "bandwidth": 1.0, "scales": (1.0,), "average": True,
        "directions": "structured",
    },
    "mnist": {
        "loss": "squared", "features": 1024, "max_features": 16384, "batch_size": 4096, "revisits": 15,
        "regularization": 0.008, "bandwidth": 0.6, "scales": (1.0,), "average": True, "scale_inputs": False,
        "directions": "structured",
    },
}  # fmt: skip
COMPONENTS, PASSES, EVERY = 100, 34, 2  # passes between tests
CURVES: dict[str, list[tuple[float, float]]] = {}  # events, and errors in per cent
Part = tuple[Any, np.ndarray]


def adult(data: Path, quick: bool, quiet: bool) -> Iterator[Row]:
    """Income of more than 50,000 dollars."""
    frames = [pd.read_csv(require(data, f"adult_{part}.csv.gz", ADULT)) for part in ("train", "test")]
    train, test = frames[0].iloc[np.random.default_rng(SEED).permutation(len(frames[0]))], frames[1]
    parts = [(frame.drop(columns="income"), frame["income"].to_numpy()) for frame in (train, test)]
    yield _passes("adult", parts[0], parts[1], 1, "Adult, one pass", "15.3 %", quiet)


def forest(data: Path, quick: bool, quiet: bool) -> Iterator[Row]:
    """Lodgepole pine or not."""
    frame = pd.read_csv(require(data, "covtype.csv.gz", FOREST), nrows=20_000 if quick else None)
    second = frame.pop("Cover_Type").to_numpy() == 2
    numbers, indicators = frame.iloc[:, :10].astype(np.float64), frame.iloc[:, 10:].to_numpy()
    for name, columns in (("wilderness", slice(0, 4)), ("soil", slice(4, 44))):
        numbers[name] = indicators[:, columns].argmax(axis=1).astype(str)
    order = np.random.default_rng(SEED).permutation(len(frame))
    first, rest = np.split(order, [len(order) * 9 // 10])
    parts = [(numbers.iloc[chosen], second[chosen]) for chosen in (first, rest)]
    yield _passes("forest", parts[0], parts[1], 1, "Forest, one pass", "15 %", quiet)


def mnist(data: Path, quick: bool, quiet: bool) -> Iterator[Row]:
    """Digits as they are."""
    arrays = load_images(data, "mnist")
    most = 10_000 if quick else None
    names = [f"p{j:03d}" for j in range(784)]
    parts = [
        (pd.DataFrame(unit_images(arrays[f"X_{part}"][:most]), columns=names), arrays[f"y_{part}"][:most])
        for part in ("train", "test")
    ]
    passes = 1 if quick else 5
    yield _passes("mnist", parts[0], parts[1], passes, f"MNIST as it is, passes: {passes}", "", quiet)


def _passes(name: str, train: Part, test: Part, passes: int, what: str, paper: str, quiet: bool) -> Row:
    """Learn a training part several times and test once; the first pass is in the order of the rows."""
    rng = np.random.default_rng(SEED)
    learner = streamk.DoublyStochasticClassifier(**SETTINGS[name], seed=SEED)
    seconds = 0.0
    for number in range(1, passes + 1):
        rows, labels = train
        order = rng.permutation(len(labels)) if passes > 1 else np.arange(len(labels))
        parts = range(0, len(order), CHUNK)
        for start in track(parts, f"{name}, pass {number}", disable=quiet):
            chosen = order[start : start + CHUNK]
            began = time.perf_counter()
            learner.learn_many(rows.iloc[chosen], labels[chosen])
            seconds += time.perf_counter() - began
    learner.flush()
    model = learner.averaged()
    error = np.mean(np.asarray(model.predict_many(test[0])) != test[1])
    return Row(what, paper, f"{error:.2%}", round(seconds, 1))


class Digits:
    """Deformed training images of some digits, as principal components, with the test images.

    Parameters
    ----------
    data
        Directory of ``mnist.npz``.
    wanted
        The digits.
    most
        Use only the first so many images.
    describe
        Returns the inputs of some images before principal components, given the training images.
    count
        Principal components.
    fitted
        Training images that determine the components; all by default.
    """

    def __init__(
        self,
        data: Path,
        wanted: tuple[int, ...],
        most: int | None,
        describe: Callable[[np.ndarray], Callable[[np.ndarray], np.ndarray]] = lambda _: unit_images,
        count: int = COMPONENTS,
        fitted: int | None = None,
    ) -> None:
        arrays = load_images(data, "mnist")
        chosen = [np.isin(arrays[f"y_{part}"], wanted) for part in ("train", "test")]
        parts = zip(("train", "test"), chosen, strict=True)
        (self.images, self.labels), (tested, self.truths) = [
            (arrays[f"X_{part}"][rows][:most], arrays[f"y_{part}"][rows][:most]) for part, rows in parts
        ]
        self._describe = describe(self.images[:fitted])
        self._mean, self._directions = principal_components(self._describe(self.images[:fitted]), count)
        self.names = [f"c{j:03d}" for j in range(count)]
        self.test = self.prepared(tested)

    def prepared(self, images: np.ndarray) -> np.ndarray:
        """Return the components of some images."""
        return np.asarray((self._describe(images) - self._mean) @ self._directions)

    def deformed(self, number: int, **limits: float) -> Iterator[Part]:
        """Yield every image once, deformed within some limits, in the random order of this pass."""
        rng = np.random.default_rng((SEED, number))
        order = rng.permutation(len(self.labels))
        for start in range(0, len(order), CHUNK):
            chosen = order[start : start + CHUNK]
            yield self.prepared(deformed_digits(self.images[chosen], rng, **limits)), self.labels[chosen]

    def plain(self, number: int) -> Iterator[Part]:
        """Yield every image once as it is, in the random order of this pass."""
        order = np.random.default_rng((SEED, number)).permutation(len(self.labels))
        for start in range(0, len(order), CHUNK):
            chosen = order[start : start + CHUNK]
            yield self._components[chosen], self.labels[chosen]

    @cached_property
    def _components(self) -> np.ndarray:
        starts = range(0, len(self.images), CHUNK)
        return np.vstack([self.prepared(self.images[start : start + CHUNK]) for start in starts])


def _follow(
    name: str,
    digits: Digits,
    events: Callable[[int], Iterator[Part]],
    learner: Any,
    passes: int,
    every: int,
    quiet: bool,
) -> tuple[float, float]:
    """Learn the events of each pass; return the last test error and the seconds of learning."""
    curve, seconds, error = CURVES.setdefault(name, []), 0.0, 1.0
    with Progress(disable=quiet) as bar:
        task = bar.add_task(name, total=passes)
        for number in range(1, passes + 1):
            for rows, labels in events(number):
                began = time.perf_counter()
                learner.learn_many(rows, labels, names=digits.names)
                seconds += time.perf_counter() - began
            if number % every == 0 or number == passes:
                found = learner.averaged().predict_many(digits.test, names=digits.names)
                error = float(np.mean(found != digits.truths))
                curve.append((learner.events, 100.0 * max(error, 0.5 / len(found))))
            bar.update(task, advance=1, description=f"{name}: {error:.2%} after {learner.events:,} events")
    return error, seconds


def _digits_learner(features: int, bandwidth: float = 0.7, revisits: int = 15) -> Any:
    return streamk.DoublyStochasticClassifier(
        loss="squared", features=1024, max_features=features, batch_size=4096, revisits=revisits,
        regularization=3e-3, bandwidth=bandwidth, scales=(1.0,), average=True, scale_inputs=False,
        directions="structured", seed=SEED,
    )  # fmt: skip


def eights(data: Path, quick: bool, quiet: bool) -> Iterator[Row]:
    """Digits 8 against 6, deformed differently in every pass."""
    digits, passes = Digits(data, (6, 8), 4000 if quick else None), 2 if quick else PASSES
    learner = _digits_learner(2048 if quick else 16384)
    error, seconds = _follow("8 against 6", digits, digits.deformed, learner, passes, EVERY, quiet)
    what = f"MNIST 8 against 6, {learner.events:,} deformed events, {learner.feature_count:,} features"
    yield Row(what, "0.26 %", f"{error:.2%}", round(seconds, 1))


def all_digits(data: Path, quick: bool, quiet: bool) -> Iterator[Row]:
    """All digits, deformed differently in every pass."""
    digits, passes = Digits(data, tuple(range(10)), 8192 if quick else None), 2 if quick else PASSES
    learner = _digits_learner(2048 if quick else 131072)
    error, seconds = _follow("ten digits", digits, digits.deformed, learner, passes, EVERY, quiet)
    what = f"MNIST, {learner.events:,} deformed events, {learner.feature_count:,} features"
    yield Row(what, "0.5 %", f"{error:.2%}", round(seconds, 1))


def scattering(data: Path, quick: bool, quiet: bool) -> Iterator[Row]:
    """All digits, by roots of wavelet scattering coefficients: as they are, and half of them deformed."""
    most, fitted = (4096, 1024) if quick else (None, 20_000)
    digits = Digits(data, tuple(range(10)), most, RootScattering, 400, fitted)

    def alternating(number: int) -> Iterator[Part]:
        return digits.plain(number) if number % 2 else digits.deformed(number, turn=7.0, bend=10.0)

    ways = {"as it is": (digits.plain, 10, 16384), "deformed in every second pass": (alternating, 8, 32768)}
    for way, (events, passes, features) in ways.items():
        learner = _digits_learner(2048 if quick else features, 3.6, features // 1024 - 1)
        error, seconds = _follow(
            f"scattering, {way}", digits, events, learner, 2 if quick else passes, 1, quiet
        )
        what = f"MNIST {way}, scattering, {learner.events:,} events, {learner.feature_count:,} features"
        yield Row(what, "0.5 %", f"{error:.2%}", round(seconds, 1))


SECTIONS: dict[str, Section] = {
    "adult": adult,
    "forest": forest,
    "mnist": mnist,
    "eights": eights,
    "digits": all_digits,
    "scattering": scattering,
}


def draw(path: Path, quick: bool) -> None:
    """Draw the test error against the events learned, as in Figures 2 and 3."""
    if CURVES:
        plot(path, CURVES, "events", "test error, %")


if __name__ == "__main__":
    sys.exit(run(__doc__ or "", "dai2014", SECTIONS, draw))
