"""One pass over MNIST by block projections: the random-feature form of Andrecut (2016), §3.2.

Each image is learned once, in blocks of 256, from 60,000 training images; the 10,000 test images are then
predicted once. Images are mean-removed and scaled to unit norm, as in the paper. Bandwidth and
regulariser were chosen on the last 10,000 training images.

    python examples/papers/mnist_one_pass.py MNIST.npz [--features 4096] [--seed 7]

``MNIST.npz`` holds ``X_train, y_train, X_test, y_test``, images as ``uint8`` rows.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track

import streamk

SETTINGS = {
    4096: {"bandwidth": 0.7, "regularization": 0.01},
    16384: {"bandwidth": 0.6, "regularization": 0.003},
}
CHUNK = 2560


def unit_images(images: np.ndarray) -> np.ndarray:
    """Return images with their mean removed, at unit norm, as float32 rows."""
    rows = images.reshape(len(images), -1).astype(np.float32) / 255.0
    rows -= rows.mean(axis=1, keepdims=True)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def one_pass(
    path: Path, features: int, directions: str = "structured", seed: int = 7, quiet: bool = False
) -> dict[str, object]:
    """Learn the training images once and return what was reached."""
    learner = streamk.KaczmarzClassifier(
        features=features, scales=(1.0,), average=True, block_size=256, scale_inputs=False,
        directions=directions, seed=seed, **SETTINGS[features],
    )  # fmt: skip
    return {"features": features, **follow(learner, path, quiet)}


def follow(learner: Any, path: Path, quiet: bool) -> dict[str, object]:
    """Let an averaging learner learn the training images once, and test its average."""
    data = np.load(path)
    images, labels = data["X_train"], data["y_train"]
    names = [f"p{j:03d}" for j in range(images[0].size)]
    began = time.perf_counter()
    for start in track(range(0, len(images), CHUNK), "learning", disable=quiet):
        chunk = slice(start, start + CHUNK)
        learner.learn_many(unit_images(images[chunk]), labels[chunk], names=names)
    learner.flush()
    learned = time.perf_counter() - began
    model = learner.averaged()
    predicted = model.predict_many(unit_images(data["X_test"]), names=names)
    contents = model.to_bytes()
    return {
        "test_error": float(np.mean(predicted != data["y_test"])),
        "seconds": round(learned, 1),
        "model_bytes": len(contents),
        "sha256": hashlib.sha256(contents).hexdigest(),
    }


def main() -> None:
    """Run one pass for each number of features and print what was reached."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--features", type=int, choices=sorted(SETTINGS), action="append")
    parser.add_argument("--directions", choices=("structured", "dense", "keyed"), default="structured")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    for features in arguments.features or sorted(SETTINGS):
        result = one_pass(
            arguments.data, features, arguments.directions, arguments.seed, quiet=arguments.json
        )
        if arguments.json:
            print(json.dumps(result))
        else:
            print(
                f"{features:,} features: test error {result['test_error']:.2%}, "
                f"{result['seconds']} s, model {result['model_bytes']:,} bytes"
            )


if __name__ == "__main__":
    main()
