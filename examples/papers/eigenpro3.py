"""EigenPro 3 on MNIST (Abedsoltan, Belkin and Pandit 2023, Table 2), beside one pass of Kaczmarz.

Images are raw pixels divided by 255; the kernel is Laplace with bandwidth 20, as in the authors' code. For
100, 1,000 and 10,000 centers, random or of k-means, the table has the paper's test error and ours. Kaczmarz
has as many random features as there are centers, and sees every image once. One row is the run whose
time with the authors' code is known: 5,000 random centers, five epochs, one thread. Every run is a process of
its own, so that its peak memory is its own; table and results are written after every run.

    python examples/papers/eigenpro3.py --data DIRECTORY [--quick] [--json] [--out papers-output]

``DIRECTORY/mnist.npz`` holds ``X_train, y_train, X_test, y_test``, images as ``uint8`` rows.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numba
import numpy as np
from mnist_one_pass import unit_images
from rich.console import Console
from rich.progress import Progress

import streamk

PAPER = {  # Table 2, in percent of error
    ("random", 100): 12.76, ("random", 1000): 5.04, ("random", 10_000): 2.69,
    ("k-means", 100): 8.11, ("k-means", 1000): 4.04, ("k-means", 10_000): 2.31,
}  # fmt: skip
AUTHORS_SECONDS = 158  # 5,000 random centers, five epochs, one thread; test error 3.25 %
TIMED = 5000
WHERE = (
    "MNIST is published at https://www.openml.org/d/554 (mnist_784) and http://yann.lecun.com/exdb/mnist; "
    "write it as arrays X_train, y_train, X_test, y_test with numpy.savez"
)
QUICK = {"train": 4000, "test": 2000, "centers": [100, 500], "epochs": 3}
FULL = {"train": 60_000, "test": 10_000, "centers": [100, 1000, 10_000], "epochs": 5}
CHUNK = 2560


def images(path: Path, size: dict[str, Any]) -> tuple[np.ndarray, ...]:
    """Return training and test images as rows of bytes, with their labels."""
    data = np.load(path)
    rows = [data[name].reshape(len(data[name]), -1) for name in ("X_train", "X_test")]
    return (rows[0][: size["train"]], data["y_train"][: size["train"]],
            rows[1][: size["test"]], data["y_test"][: size["test"]])  # fmt: skip


def eigenpro(
    path: Path, size: dict[str, Any], centers: int, choose: str, threads: int | None
) -> dict[str, Any]:
    """Fit and test one learner; return what it reached."""
    if threads is not None:
        numba.set_num_threads(threads)
    X, y, T, truth = images(path, size)
    names = [f"p{j:03d}" for j in range(X.shape[1])]
    learner = streamk.EigenProClassifier(
        centers=centers, choose=choose, bandwidth=20.0, epochs=size["epochs"], scale_inputs=False, seed=1
    )
    learner.clone({"centers": 10}).fit(X[:500] / np.float32(255), y[:500], names=names)  # compiles
    began = time.perf_counter()
    learner.fit(X / np.float32(255), y, names=names)
    seconds = time.perf_counter() - began
    return reached(learner.predict_many(T / np.float32(255), names=names), truth, seconds)


def kaczmarz(path: Path, size: dict[str, Any], features: int) -> dict[str, Any]:
    """Let Kaczmarz projections on random features see every image once; return what they reached."""
    X, y, T, truth = images(path, size)
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
    return reached(learner.averaged().predict_many(unit_images(T), names=names), truth, seconds)


def reached(predicted: np.ndarray, truth: np.ndarray, seconds: float) -> dict[str, Any]:
    """Return error in percent, seconds of learning, and the peak memory of this process in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
    error = 100.0 * float(np.mean(predicted != truth))
    return {"error": round(error, 2), "seconds": round(seconds, 1), "peak_mib": round(peak)}


def runs(quick: bool, most: int) -> list[dict[str, Any]]:
    """Return what is to be run, without what was reached."""
    size = QUICK if quick else FULL
    counts = [count for count in size["centers"] if count <= most]
    listed: list[dict[str, Any]] = []
    for count in counts:
        for choose in ("random", "k-means"):
            paper = None if quick else PAPER[choose, count]
            listed.append({"learner": "EigenPro 3", "centers": count, "choose": choose, "paper": paper})
        listed.append(
            {"learner": "Kaczmarz, one pass", "centers": count, "choose": "features", "paper": None}
        )
    if not quick and most >= TIMED:
        listed.append(
            {"learner": "EigenPro 3, one thread", "centers": TIMED, "choose": "random", "paper": 3.25}
        )
    return sorted(listed, key=lambda what: what["centers"])


def run(path: Path, quick: bool, what: dict[str, Any]) -> dict[str, Any]:
    """Return a run with what it reached, in a process of its own."""
    size = QUICK if quick else FULL
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        if what["learner"].startswith("Kaczmarz"):
            job = pool.submit(kaczmarz, path, size, what["centers"])
        else:
            threads = 1 if "one thread" in what["learner"] else None
            job = pool.submit(eigenpro, path, size, what["centers"], what["choose"], threads)
        return {**what, **job.result()}


def table(results: list[dict[str, Any]]) -> str:
    """Return the results as a Markdown table."""
    lines = [
        "| learner | centers or features | chosen | paper, test error | here | seconds | peak memory |",
        "|---|---|---|---|---|---|---|",
    ]
    for r in results:
        paper = "" if r["paper"] is None else f"{r['paper']:.2f} %"
        if "one thread" in r["learner"]:
            paper += f" (authors' code, {AUTHORS_SECONDS} s)"
        lines.append(
            f"| {r['learner']} | {r['centers']:,} | {r['choose']} | {paper} | {r['error']:.2f} % "
            f"| {r['seconds']:.0f} | {r['peak_mib']:,} MiB |"
        )
    return "\n".join(lines) + "\n"


def plot(results: list[dict[str, Any]], path: Path) -> None:
    """Draw error against centers, the paper's beside ours."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.add_subplot()
    for choose, colour in (("random", "C0"), ("k-means", "C1"), ("features", "C2")):
        ours = [r for r in results if r["choose"] == choose and "one thread" not in r["learner"]]
        name = "Kaczmarz, one pass" if choose == "features" else f"{choose} centers"
        axes.plot([r["centers"] for r in ours], [r["error"] for r in ours], "o-", color=colour, label=name)
        known = [r for r in ours if r["paper"] is not None]
        if known:
            axes.plot(
                [r["centers"] for r in known], [r["paper"] for r in known], "x--", color=colour,
                label=f"{choose} centers, paper",
            )  # fmt: skip
    axes.set(xscale="log", yscale="log", xlabel="centers or features", ylabel="test error, %", title="MNIST")
    axes.legend()
    figure.savefig(path)


def main() -> None:
    """Run everything, and write table and plot."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="directory of mnist.npz")
    parser.add_argument("--out", type=Path, default=Path("papers-output"))
    parser.add_argument("--quick", action="store_true", help="4,000 images, 100 and 500 centers")
    parser.add_argument("--most", type=int, default=10_000, help="leave out runs of more centers")
    parser.add_argument("--json", action="store_true", help="print results as JSON and nothing else")
    arguments = parser.parse_args()
    path = arguments.data / "mnist.npz"
    if not path.is_file():
        parser.error(f"there is no {path}; {WHERE}")
    arguments.out.mkdir(parents=True, exist_ok=True)
    results = []
    console = Console(stderr=True)
    with Progress(console=console, disable=arguments.json) as bar:
        listed = runs(arguments.quick, arguments.most)
        task = bar.add_task("MNIST", total=len(listed))
        for what in listed:
            bar.update(task, description=f"{what['learner']}, {what['centers']:,} {what['choose']}")
            results.append(run(path, arguments.quick, what))
            (arguments.out / "eigenpro3.md").write_text(table(results))
            (arguments.out / "eigenpro3.json").write_text(json.dumps(results, indent=1) + "\n")
            bar.advance(task)
    try:
        plot(results, arguments.out / "eigenpro3.png")
    except ImportError:
        console.print("No plot: install matplotlib (pip install 'streamk[plots]').")
    if arguments.json:
        print(json.dumps(results))
    else:
        print(table(results), end="")


if __name__ == "__main__":
    main()
