"""Adult, Forest and MNIST by doubly stochastic gradients: the classification figures of Dai et al. (2014).

    python examples/papers/doubly_stochastic.py DIRECTORY [--only adult forest mnist] [--seed 7] [--json]

The directory holds ``adult_train.csv.gz``, ``adult_test.csv.gz``, ``covtype.csv.gz`` and ``mnist.npz``.

- Adult: hinge loss; trained on the training file in a random order, tested on the test file.
- Forest: class 2 against the rest; all 581,012 rows in a random order, the first nine tenths learned once,
the
  others tested. The 44 columns of zeros and ones are two categories, and are given as such.
- MNIST: squared loss; mean-removed images at unit norm, several passes in random orders.

Parameters were chosen on parts of the training data (the last fifth of Adult's in a random order, 30,000
rows of Forest's nine tenths, the last 10,000 images of MNIST's). The seed is that of the orders and of the
features.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from images import unit_images
from rich.progress import track

import streamk

CHUNK = 8192
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
PASSES = {"adult": 1, "forest": 1, "mnist": 5}
PAPER = {"adult": "15.3 %", "forest": "15 %", "mnist": ""}
Part = tuple[Any, np.ndarray]


def adult(data: Path, rng: np.random.Generator) -> tuple[Part, Part]:
    """Return the training and the test part, with names of columns in the frames."""
    train, test = (pd.read_csv(data / f"adult_{part}.csv.gz") for part in ("train", "test"))
    train = train.iloc[rng.permutation(len(train))]
    return (train.drop(columns="income"), train["income"].to_numpy()), (
        test.drop(columns="income"),
        test["income"].to_numpy(),
    )


def forest(data: Path, rng: np.random.Generator) -> tuple[Part, Part]:
    """Return nine tenths and one tenth of the rows in a random order; indicators become categories."""
    frame = pd.read_csv(data / "covtype.csv.gz")
    second = frame.pop("Cover_Type").to_numpy() == 2
    numbers, indicators = frame.iloc[:, :10], frame.iloc[:, 10:].to_numpy()
    numbers = numbers.astype(np.float64)
    for name, columns in (("wilderness", slice(0, 4)), ("soil", slice(4, 44))):
        numbers[name] = indicators[:, columns].argmax(axis=1).astype(str)
    order = rng.permutation(len(frame))
    first, rest = np.split(order, [len(order) * 9 // 10])
    return (numbers.iloc[first], second[first]), (numbers.iloc[rest], second[rest])


def mnist(data: Path, rng: np.random.Generator) -> tuple[Part, Part]:
    """Return the training and the test images as frames of mean-removed pixels at unit norm."""
    arrays = np.load(data / "mnist.npz")
    names = [f"p{j:03d}" for j in range(784)]
    parts = [
        (pd.DataFrame(unit_images(arrays[f"X_{part}"]), columns=names), arrays[f"y_{part}"])
        for part in ("train", "test")
    ]
    return parts[0], parts[1]


DATA = {"adult": adult, "forest": forest, "mnist": mnist}


def chunks(part: Part, order: np.ndarray) -> Iterator[Part]:
    """Yield the rows of a part in an order, some thousands at a time."""
    rows, labels = part
    for start in range(0, len(order), CHUNK):
        chosen = order[start : start + CHUNK]
        yield rows.iloc[chosen], labels[chosen]


def run(name: str, data: Path, seed: int, quiet: bool) -> dict[str, Any]:
    """Train on one data set and return what was reached on its test part."""
    rng = np.random.default_rng(seed)
    train, test = DATA[name](data, rng)
    learner = streamk.DoublyStochasticClassifier(**SETTINGS[name], seed=seed)
    seconds = 0.0
    for number in range(1, PASSES[name] + 1):
        order = (
            np.arange(len(train[1])) if number == 1 and name != "mnist" else rng.permutation(len(train[1]))
        )
        parts = -(-len(order) // CHUNK)
        for X, y in track(chunks(train, order), f"{name}, pass {number}", total=parts, disable=quiet):
            began = time.perf_counter()
            learner.learn_many(X, y)
            seconds += time.perf_counter() - began
    learner.flush()
    model = learner.averaged()
    wrong = sum(
        int(np.sum(np.asarray(model.predict_many(X)) != y)) for X, y in chunks(test, np.arange(len(test[1])))
    )
    return {
        "data": name,
        "passes": PASSES[name],
        "test_error": wrong / len(test[1]),
        "seconds": round(seconds, 1),
        "features": model.feature_count,
        "model_bytes": len(model.to_bytes()),
    }


def main() -> None:
    """Run what is asked for and print what was reached."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--only", nargs="+", choices=DATA, default=list(DATA))
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    for name in arguments.only:
        result = run(name, arguments.directory, arguments.seed, quiet=arguments.json)
        if arguments.json:
            print(json.dumps(result))
            continue
        paper = f" (paper: {PAPER[name]})" if PAPER[name] else ""
        print(
            f"{name}: test error {result['test_error']:.2%}{paper} after {result['passes']} pass(es), "
            f"{result['seconds']} s, {result['features']:,} features, model {result['model_bytes']:,} bytes"
        )


if __name__ == "__main__":
    main()
