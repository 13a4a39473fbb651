"""MNIST as a stream: every training image is learned once, then the 10,000 test images are predicted.

    python benchmarks/mnist.py MNIST.npz [--learner kaczmarz pursuit] [--features 4096]
        [--directions structured] [--seed 7] [--json]

Images are mean-removed and at unit norm, as in Andrecut (2016), in the order of the file, in blocks of 256.
``kaczmarz`` projects onto them with a fixed number of features. ``pursuit`` begins with one block of 1,024
features and opens the next when ``⌊√(1 + n/58)⌋`` grows, up to ``--features``: the open block pursues the
residual of the others, and they are projected onto the rest. Bandwidth and regulariser were chosen on the
last 10,000 training images.

``MNIST.npz`` holds ``X_train, y_train, X_test, y_test``, images as ``uint8`` rows.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track

import streamk

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples" / "papers"))

from images import unit_images

SETTINGS = {
    4096: {"bandwidth": 0.7, "regularization": 0.01},
    16384: {"bandwidth": 0.6, "regularization": 0.003},
}
SHARED: dict[str, Any] = {"scales": (1.0,), "average": True, "block_size": 256, "scale_inputs": False}
CHUNK = 2560


def learner_of(name: str, features: int, directions: str, seed: int) -> Any:
    """Return an untrained learner of that name."""
    settings = {**SHARED, **SETTINGS[features], "directions": directions, "seed": seed}
    if name == "kaczmarz":
        return streamk.KaczmarzClassifier(features=features, **settings)
    return streamk.KaczmarzPursuitClassifier(
        features=1024, growth="sqrt", period=58, max_features=features, ridge=10.0, **settings
    )


def one_pass(
    path: Path,
    features: int,
    directions: str = "structured",
    seed: int = 7,
    quiet: bool = False,
    learner: str = "kaczmarz",
) -> dict[str, Any]:
    """Learn the training images once, and test the average."""
    model, data = learner_of(learner, features, directions, seed), np.load(path)
    images, labels = data["X_train"], data["y_train"]
    names = [f"p{j:03d}" for j in range(images[0].size)]
    began = time.perf_counter()
    for start in track(range(0, len(images), CHUNK), "learning", disable=quiet):
        chunk = slice(start, start + CHUNK)
        model.learn_many(unit_images(images[chunk]), labels[chunk], names=names)
    model.flush()
    learned = time.perf_counter() - began
    model = model.averaged()
    predicted = model.predict_many(unit_images(data["X_test"]), names=names)
    contents = model.to_bytes()
    return {
        "learner": learner,
        "features": model.feature_count,
        "test_error": float(np.mean(predicted != data["y_test"])),
        "seconds": round(learned, 1),
        "model_bytes": len(contents),
        "sha256": hashlib.sha256(contents).hexdigest(),
    }


def main() -> None:
    """Run one pass for each learner and number of features, and print the results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--learner", nargs="+", choices=("kaczmarz", "pursuit"), default=["kaczmarz"])
    parser.add_argument("--features", type=int, choices=sorted(SETTINGS), action="append")
    parser.add_argument("--directions", choices=("structured", "dense", "keyed"), default="structured")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    for learner in given.learner:
        for features in given.features or sorted(SETTINGS):
            result = one_pass(given.data, features, given.directions, given.seed, given.json, learner)
            if given.json:
                print(json.dumps(result))
            else:
                print(
                    f"{learner}, {result['features']:,} features: test error {result['test_error']:.2%}, "
                    f"{result['seconds']} s, model {result['model_bytes']:,} bytes"
                )


if __name__ == "__main__":
    main()
