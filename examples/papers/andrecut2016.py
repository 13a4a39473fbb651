"""Andrecut (2016): randomised solvers of least-squares support vector machines, on MNIST and CIFAR-10.

    python examples/papers/andrecut2016.py --data DIRECTORY [--only SECTION …] [--quick] [--json]

Sections:

- ``kaczmarz``, ``pursuit``, ``kaczmarz-pursuit``: Figure 2(b–d), blocks of 2,000 events, kernel ``⟨x, x'⟩⁴``.
- ``nystrom``: Figure 2(a), committees of blocks of 2,000 and 4,000 events.
- ``fourier``: Figure 3, pursuit with Fourier magnitudes in addition to the pixels.
- ``variants``: other readings of the Fourier magnitudes, other inputs and other powers, for 8,000 images
  solved exactly and tested on the last 10,000 training images.
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
from images import SPECTRA, fourier_images, spectra, unit_images, unit_parts, windowed_images
from report import Row, Section, load_images, plot, run
from rich.progress import Progress, track
from scipy.linalg import cho_factor, cho_solve

from streamk.exact.lssvm import blocks_of
from streamk.exact.lssvm_solver import System, solutions
from streamk.kernels import kernel

GAMMA, SEED = 1e4, 7
PIECE = 2500  # test images predicted at once
Prepare = Callable[[Any], np.ndarray]
CURVES: dict[str, list[tuple[float, float]]] = {}  # by label: steps, and errors in per cent


def with_spectra(*kinds: str, power: float = 0.5, pixels: bool = True, weight: float = 0.5) -> Prepare:
    """Return a preparation: pixels and magnitudes of some transforms, to a power, each part at unit norm."""

    def prepare(images: Any) -> np.ndarray:
        parts = [unit_images(images)] if pixels else []
        found = unit_parts([spectra(images, kind) ** power for kind in kinds])
        return np.hstack([np.sqrt(1.0 - weight) * parts[0], np.sqrt(weight) * found] if parts else [found])

    return prepare


VARIANTS: dict[str, tuple[Prepare, int]] = {
    "pixels": (unit_images, 4),
    "pixels, power 3": (unit_images, 3),
    "pixels, power 6": (unit_images, 6),
    **{f"pixels and magnitudes {kind}": (with_spectra(kind), 4) for kind in SPECTRA},
    "rows and columns": (with_spectra("rows", "columns"), 4),
    "by columns, power 3": (with_spectra("by columns"), 3),
    "by columns, power 6": (with_spectra("by columns"), 6),
    "by columns, fourth roots": (with_spectra("by columns", power=0.25), 4),
    "by columns, no roots": (with_spectra("by columns", power=1.0), 4),
    "by columns, weight 0.25": (with_spectra("by columns", weight=0.25), 4),
    "by columns, weight 0.75": (with_spectra("by columns", weight=0.75), 4),
    "by columns, no pixels": (with_spectra("by columns", pixels=False), 4),
    "rows and columns, no pixels": (with_spectra("rows", "columns", pixels=False), 4),
    "rows and columns, power 6": (with_spectra("rows", "columns"), 6),
    "windows": (with_spectra("windows"), 4),
    "small windows": (with_spectra("small windows"), 4),
}


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


def held_out_error(
    rows: np.ndarray, tested: np.ndarray, labels: np.ndarray, truths: np.ndarray, degree: int
) -> float:
    """Return the error on ``tested`` of the exact solution (eq. 16) for ``rows``.

    The bias follows from the solutions for the targets and for ones.
    """
    classes = np.unique(labels)
    targets = np.hstack([labels[:, None] == classes, np.ones((len(labels), 1))]).astype(np.float32)
    matrix = (rows @ rows.T) ** degree
    matrix[np.diag_indices_from(matrix)] += np.float32(1.0 / GAMMA)
    solved = cho_solve(cho_factor(matrix, overwrite_a=True, check_finite=False), targets).astype(np.float64)
    sums = solved.sum(axis=0)
    bias = sums[:-1] / sums[-1]
    weights = (solved[:, :-1] - solved[:, -1:] * bias).astype(np.float32)
    outputs = ((tested @ rows.T) ** degree) @ weights + bias
    return float(np.mean(classes[outputs.argmax(axis=1)] != truths))


def variants(data: Path, quick: bool, quiet: bool) -> Iterator[Row]:
    """Readings of eqs. 69 to 75, and what else reduces the error, on training images alone."""
    arrays = load_images(data, "mnist")
    count, tested = (1500, 1000) if quick else (8_000, 10_000)
    images, labels = arrays["X_train"], arrays["y_train"].ravel().astype(int)
    parts = images[:count], images[-tested:]
    for name, (prepare, degree) in track(VARIANTS.items(), "variants", disable=quiet):
        began = time.perf_counter()
        rows, others = map(prepare, parts)
        error = held_out_error(rows, others, labels[:count], labels[-tested:], degree)
        what = f"MNIST, {count:,} images: {name}"
        yield Row(what, "", f"{error:.2%}", time.perf_counter() - began)


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
    "kaczmarz-pursuit": iterative("kaczmarz-pursuit", 300, "1.1 ± 0.05 %"),
    "kaczmarz": iterative("kaczmarz", 120, "1.1 ± 0.1 %, 29 s a step"),
    "nystrom": nystrom,
    "fourier": fourier,
    "variants": variants,
    "cifar10": cifar10,
    "usps": usps,
}


def draw(path: Path, quick: bool) -> None:
    """Draw the error curves of Figures 2, 3 and 6."""
    if CURVES:
        plot(path, CURVES, "steps", "test error, %")


if __name__ == "__main__":
    sys.exit(run(__doc__ or "", "andrecut2016", SECTIONS, draw))
