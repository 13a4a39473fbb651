"""Andrecut (2016): randomised solvers of least-squares support vector machines, on MNIST and CIFAR-10.

    python examples/papers/andrecut2016.py --data DIRECTORY [--only SECTION …] [--quick] [--json]

Sections:

- ``kaczmarz``, ``pursuit``, ``kaczmarz-pursuit``: Figure 2(b–d), blocks of 2,000 events, kernel ``⟨x, x'⟩⁴``.
- ``nystrom``: Figure 2(a), committees of blocks of 2,000 and 4,000 events.
- ``fourier``: Figure 3, pursuit with Fourier magnitudes in addition to the pixels.
- ``cifar10``: Figure 6, with pixels, with the window, with window and Fourier magnitudes.
- ``usps``: pursuit on a third set of digits, not in the paper.

``mnist.npz``, ``cifar10.npz`` and ``usps.npz`` hold ``X_train, y_train, X_test, y_test``: images as rows, of
CIFAR-10 the three channels one after the other. Nothing was chosen on test images: kernel, ``γ`` and
block size are the paper's. ``benchmarks/mnist.py`` has the same projections on a stream.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from images import fourier_images, unit_images, windowed_images
from report import Row, Section, load_images, plot, run
from rich.progress import Progress

from streamk.exact.lssvm import blocks_of
from streamk.exact.lssvm_solver import System, solutions
from streamk.kernels import kernel

GAMMA, SEED = 1e4, 7
PIECE = 2500  # test images predicted at once
CURVES: dict[str, list[tuple[float, float]]] = {}  # by label: steps, and errors in per cent


class Images(NamedTuple):
    """Prepared images with their labels."""

    train: np.ndarray
    labels: np.ndarray
    test: np.ndarray
    truths: np.ndarray


def prepared(arrays: dict[str, np.ndarray], prepare: Callable[[Any], np.ndarray], quick: bool) -> Images:
    """Return prepared images; some thousands of them if ``quick``."""
    most, tested = (4000, 1000) if quick else (None, None)
    return Images(
        prepare(arrays["X_train"][:most]),
        arrays["y_train"][:most].ravel().astype(int),
        prepare(arrays["X_test"][:tested]),
        arrays["y_test"][:tested].ravel().astype(int),
    )


def solve(
    solver: str, images: Images, block: int, steps: int, every: int, name: str, quiet: bool
) -> tuple[float, float]:
    """Run a solver; return its last test error and the mean seconds of a step, and store its curve."""
    classes = np.unique(images.labels)
    targets = (images.labels[:, None] == classes).astype(np.float64)
    count = len(images.train)
    system = System(kernel("polynomial:4:0"), 1.0, images.train, targets, np.full(count, 1.0 / GAMMA))
    spent, error, curve = 0.0, 1.0, CURVES.setdefault(name, [])
    with Progress(disable=quiet) as bar:
        task = bar.add_task(name, total=steps)
        began = time.perf_counter()
        sets = blocks_of(SEED, 0, count, block)
        for step, W in enumerate(solutions(solver, system, sets, steps), 1):
            spent += time.perf_counter() - began
            if step == 1 or step % every == 0 or step == steps:
                error = test_error(system, W, images, classes)
                curve.append((step, 100.0 * error))
            bar.update(task, advance=1, description=f"{name}: {error:.2%}")
            began = time.perf_counter()
    return error, spent / steps


def test_error(system: System, W: np.ndarray, images: Images, classes: np.ndarray) -> float:
    """Return the test error of a solution."""
    weights, wrong = W.astype(np.float32), 0
    for start in range(0, len(images.test), PIECE):
        block = system.kernel.block(images.test[start : start + PIECE], system.X, system.bandwidth)
        found = classes[(block @ weights[1:] + weights[0]).argmax(axis=1)]
        wrong += int(np.sum(found != images.truths[start : start + PIECE]))
    return wrong / len(images.test)


def iterative(solver: str, steps: int, paper: str) -> Callable[..., Iterator[Row]]:
    """Return the section of one solver of Figure 2(b–d)."""

    def section(data: Path, quick: bool, quiet: bool) -> Iterator[Row]:
        images = prepared(load_images(data, "mnist"), unit_images, quick)
        block, count, every = (500, 24, 8) if quick else (2000, steps, 10 if solver != "pursuit" else 5)
        error, seconds = solve(solver, images, block, count, every, solver, quiet)
        shown = f"{error:.2%}, {settled(solver)}"
        yield Row(f"MNIST, {solver}, J = {block:,}, {count} steps", paper, shown, seconds)

    return section


def settled(name: str) -> str:
    """Return mean and deviation of the errors in the last third of the steps."""
    curve = CURVES[name]
    last = [error for step, error in curve if step > curve[-1][0] * 2 / 3]
    return f"{np.mean(last):.2f} ± {np.std(last):.2f} % over the last third"


def nystrom(data: Path, quick: bool, quiet: bool) -> Iterator[Row]:
    """Figure 2(a): committees of several sizes."""
    images = prepared(load_images(data, "mnist"), unit_images, quick)
    for block in (250, 500) if quick else (2000, 4000):
        name = f"nystrom, J = {block:,}"
        error, seconds = solve("nystrom", images, block, 6, 1, name, quiet)
        alone = CURVES[name][0][1]
        shown = f"{alone:.2f} % alone, {100 * error:.2f} % a committee of 6"
        yield Row(f"MNIST, Nyström, J = {block:,}", "read off Figure 2(a)", shown, seconds)


def fourier(data: Path, quick: bool, quiet: bool) -> Iterator[Row]:
    """Figure 3: pursuit with Fourier magnitudes."""
    images = prepared(load_images(data, "mnist"), fourier_images, quick)
    block, steps = (500, 24) if quick else (2000, 60)
    error, seconds = solve("pursuit", images, block, steps, 5, "pursuit, Fourier", quiet)
    shown = f"{error:.2%}, {settled('pursuit, Fourier')}"
    yield Row(
        f"MNIST, pursuit with Fourier magnitudes, J = {block:,}, {steps} steps", "0.85 %", shown, seconds
    )


def cifar10(data: Path, quick: bool, quiet: bool) -> Iterator[Row]:
    """Figure 6: three ways of preparing CIFAR-10."""
    arrays = load_images(data, "cifar10")
    ways: dict[str, tuple[Callable[[Any], np.ndarray], str]] = {
        "pixels": (unit_images, "43.93 %"),
        "window": (lambda rows: unit_images(windowed_images(rows, 3)), "41.21 %"),
        "window and Fourier magnitudes": (
            lambda rows: fourier_images(windowed_images(rows, 3), 3),
            "33.71 %",
        ),
    }
    block, steps = (500, 16) if quick else (2000, 100)
    for way, (prepare, paper) in ways.items():
        images = prepared(arrays, prepare, quick)
        error, seconds = solve("pursuit", images, block, steps, 10, f"CIFAR-10, {way}", quiet)
        yield Row(f"CIFAR-10, {way}, J = {block:,}, {steps} steps", paper, f"{error:.2%}", seconds)


def usps(data: Path, quick: bool, quiet: bool) -> Iterator[Row]:
    """Pursuit on USPS."""
    images = prepared(load_images(data, "usps"), unit_images, quick)
    error, seconds = solve("pursuit", images, 500, 30, 5, "USPS, pursuit", quiet)
    yield Row("USPS, pursuit, J = 500, 30 steps", "", f"{error:.2%}", seconds)


SECTIONS: dict[str, Section] = {
    "pursuit": iterative("pursuit", 120, "1.1 ± 0.02 %, 14 s a step"),
    "kaczmarz-pursuit": iterative("kaczmarz-pursuit", 60, "1.1 ± 0.05 %"),
    "kaczmarz": iterative("kaczmarz", 120, "1.1 ± 0.1 %, 29 s a step"),
    "nystrom": nystrom,
    "fourier": fourier,
    "cifar10": cifar10,
    "usps": usps,
}


def draw(path: Path, quick: bool) -> None:
    """Draw the error curves of Figures 2, 3 and 6."""
    plot(path, CURVES, "steps", "test error, %")


if __name__ == "__main__":
    sys.exit(run(__doc__ or "", "andrecut2016", SECTIONS, draw))
