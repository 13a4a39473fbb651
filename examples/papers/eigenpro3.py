"""EigenPro 3 on MNIST (Abedsoltan, Belkin and Pandit 2023, Table 2), compared with one pass of Kaczmarz.

    python examples/papers/eigenpro3.py --data DIRECTORY [--only SECTION …] [--quick] [--json]

Sections:

- ``random``, ``k-means``: 100, 1,000 and 10,000 centers, five epochs. Images are raw pixels divided by 255;
  the kernel is Laplace with bandwidth 20, as in the authors' code.
- ``kaczmarz``: as many random features as centers; one pass.
- ``timed``: the run that the authors' code was timed on: 5,000 random centers, five epochs, one thread.

Every run has its own process, for its peak memory. ``mnist.npz`` holds ``X_train, y_train,
X_test, y_test``, images as ``uint8`` rows.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
from images import unit_images
from report import Curve, Row, Section, load_images, peak_megabytes, plot, run
from rich.console import Console

import streamk

PAPER = {  # Table 2, in percent of error
    ("random", 100): 12.76, ("random", 1000): 5.04, ("random", 10_000): 2.69,
    ("k-means", 100): 8.11, ("k-means", 1000): 4.04, ("k-means", 10_000): 2.31,
}  # fmt: skip
TIMED = 5000
CHUNK = 2560
CURVES: dict[str, list[tuple[float, float]]] = {}  # errors in percent, by number of centers


class Size(NamedTuple):
    """Size of a run."""

    train: int
    test: int
    centers: tuple[int, ...]
    epochs: int


QUICK = Size(4000, 2000, (100, 500), 3)
FULL = Size(60_000, 10_000, (100, 1000, 10_000), 5)


class Reached(NamedTuple):
    """Error in percent, seconds of learning, and the peak memory of the process."""

    error: float
    seconds: float
    megabytes: float


def images(data: Path, size: Size) -> tuple[np.ndarray, ...]:
    """Return training and test images as rows of bytes, with their labels."""
    arrays = load_images(data, "mnist")
    rows = [arrays[name].reshape(len(arrays[name]), -1) for name in ("X_train", "X_test")]
    return (
        rows[0][: size.train],
        arrays["y_train"][: size.train],
        rows[1][: size.test],
        arrays["y_test"][: size.test],
    )


def eigenpro(data: Path, size: Size, centers: int, choose: str, threads: int | None) -> Reached:
    """Fit and test one learner."""
    if threads is not None:
        numba.set_num_threads(threads)
    X, y, T, truths = images(data, size)
    names = [f"p{j:03d}" for j in range(X.shape[1])]
    learner = streamk.EigenProClassifier(
        centers=centers, choose=choose, bandwidth=20.0, epochs=size.epochs, scale_inputs=False, seed=1
    )
    learner.clone({"centers": 10}).fit(X[:500] / np.float32(255), y[:500], names=names)  # compiles
    began = time.perf_counter()
    learner.fit(X / np.float32(255), y, names=names)
    seconds = time.perf_counter() - began
    return _reached(learner.predict_many(T / np.float32(255), names=names), truths, seconds)


def kaczmarz(data: Path, size: Size, features: int) -> Reached:
    """Learn every image once by Kaczmarz projections on random features."""
    X, y, T, truths = images(data, size)
    names = [f"p{j:03d}" for j in range(X.shape[1])]
    learner = streamk.KaczmarzClassifier(
        features=features, scales=(1.0,), average=True, block_size=256, scale_inputs=False,
        directions="structured", seed=7, bandwidth=0.7, regularization=0.01,
    )  # fmt: skip
    learner.clone().learn_many(unit_images(X[:500]), y[:500], names=names)  # compiles
    began = time.perf_counter()
    for start in range(0, len(X), CHUNK):
        learner.learn_many(unit_images(X[start : start + CHUNK]), y[start : start + CHUNK], names=names)
    learner.flush()
    seconds = time.perf_counter() - began
    return _reached(learner.averaged().predict_many(unit_images(T), names=names), truths, seconds)


def _reached(predicted: np.ndarray, truths: np.ndarray, seconds: float) -> Reached:
    return Reached(100.0 * float(np.mean(predicted != truths)), seconds, peak_megabytes())


def alone(what: str, quiet: bool, work: Callable[..., Reached], *arguments: Any) -> Reached:
    """Return the result of work in a separate process."""
    context = multiprocessing.get_context("spawn")
    with Console(stderr=True, quiet=quiet).status(what), ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(work, *arguments).result()


def table(choose: str) -> Section:
    """Return the section for one choice of centers."""

    def section(data: Path, quick: bool, quiet: bool) -> Iterator[Row]:
        load_images(data, "mnist")  # raises an error if the file is missing
        size = QUICK if quick else FULL
        for count in size.centers:
            what = f"EigenPro 3, {count:,} {choose} centers"
            found = alone(what, quiet, eigenpro, data, size, count, choose, None)
            CURVES.setdefault(f"{choose} centers", []).append((count, found.error))
            paper = "" if quick else f"{PAPER[choose, count]:.2f} %"
            yield Row(what, paper, f"{found.error:.2f} %", *found[1:])

    return section


def one_pass(data: Path, quick: bool, quiet: bool) -> Iterator[Row]:
    """One pass of Kaczmarz."""
    load_images(data, "mnist")
    size = QUICK if quick else FULL
    for count in size.centers:
        what = f"Kaczmarz, one pass, {count:,} features"
        found = alone(what, quiet, kaczmarz, data, size, count)
        CURVES.setdefault("Kaczmarz, one pass, features", []).append((count, found.error))
        yield Row(what, "", f"{found.error:.2f} %", *found[1:])


def timed(data: Path, quick: bool, quiet: bool) -> Iterator[Row]:
    """The run that the authors' code was timed on; it ignores ``quick``."""
    load_images(data, "mnist")
    if quick:
        return
    what = f"EigenPro 3, {TIMED:,} random centers, one thread"
    found = alone(what, quiet, eigenpro, data, FULL, TIMED, "random", 1)
    yield Row(what, "3.25 %, 158 s (authors' code)", f"{found.error:.2f} %", *found[1:])


SECTIONS: dict[str, Section] = {
    "random": table("random"),
    "k-means": table("k-means"),
    "kaczmarz": one_pass,
    "timed": timed,
}


def draw(path: Path, quick: bool) -> None:
    """Draw error against centers, the paper's and ours."""
    papers: dict[str, Curve] = {
        f"{choose} centers, paper": [(count, PAPER[choose, count]) for count in FULL.centers]
        for choose in ("random", "k-means")
    }
    if CURVES:
        plot(path, CURVES, "centers or features", "test error, %", papers)


if __name__ == "__main__":
    sys.exit(run(__doc__ or "", "eigenpro3", SECTIONS, draw))
