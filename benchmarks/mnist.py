"""MNIST as a stream: every training image is learned once, then the 10,000 test images are predicted.

    python benchmarks/mnist.py MNIST.npz [--learner kaczmarz pursuit] [--features 4096] [--axes 50]
        [--directions structured] [--seed 7] [--json]

Images are mean-removed and at unit norm, as in Andrecut (2016), in the order of the file, in blocks of 256.
``kaczmarz`` projects onto them with a fixed number of features. ``pursuit`` begins with one block of 1,024
features and opens the next when ``⌊√(1 + n/58)⌋`` grows, up to ``--features``: the open block pursues the
residual of the others, and they are projected onto the rest. With ``--axes`` the inputs are not pixels but
so many principal axes of the first 2,560 images, scaled together to a mean square norm of 1, and the period
is 10 instead of 58; no image is learned twice. Settings were chosen on the last 10,000 training images.

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
from sklearn.decomposition import PCA

import streamk

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples" / "papers"))

from images import unit_images

SETTINGS: dict[int, dict[str, Any]] = {
    4096: {"bandwidth": 0.7, "regularization": 0.01},
    16384: {"bandwidth": 0.6, "regularization": 0.003},
}
ON_AXES: dict[int, dict[str, Any]] = {
    4096: {"bandwidth": 1.0, "regularization": 0.003},
    16384: {"bandwidth": 0.7, "regularization": 0.003},
}
SHARED: dict[str, Any] = {"scales": (1.0,), "average": True, "block_size": 256, "scale_inputs": False}
CHUNK = 2560


class Inputs:
    """The inputs of images: pixels, or principal axes of the first of them."""

    def __init__(self, images: np.ndarray, axes: int) -> None:
        self._axes = PCA(axes, svd_solver="covariance_eigh") if axes else None
        first = unit_images(images)
        if self._axes is not None:
            self._scale = np.sqrt((self._axes.fit_transform(first) ** 2).sum(axis=1).mean())
        self.names = [f"p{j:03d}" for j in range(axes or first.shape[1])]

    def of(self, images: np.ndarray) -> np.ndarray:
        """Return the inputs of images, one row each."""
        pixels = unit_images(images)
        return pixels if self._axes is None else np.asarray(self._axes.transform(pixels) / self._scale)


def learner_of(name: str, features: int, axes: int, directions: str, seed: int) -> Any:
    """Return an untrained learner of that name."""
    chosen = (ON_AXES if axes else SETTINGS)[features]
    settings = {**SHARED, **chosen, "directions": directions, "seed": seed}
    if name == "kaczmarz":
        return streamk.KaczmarzClassifier(features=features, **settings)
    return streamk.KaczmarzPursuitClassifier(
        features=1024,
        growth="sqrt",
        period=10 if axes else 58,
        max_features=features,
        ridge=10.0,
        **settings,
    )


def one_pass(
    path: Path,
    features: int,
    directions: str = "structured",
    seed: int = 7,
    quiet: bool = False,
    learner: str = "kaczmarz",
    axes: int = 0,
) -> dict[str, Any]:
    """Learn the training images once, and test the average."""
    model, data = learner_of(learner, features, axes, directions, seed), np.load(path)
    images, labels = data["X_train"], data["y_train"]
    inputs = Inputs(images[:CHUNK], axes)
    began = time.perf_counter()
    for start in track(range(0, len(images), CHUNK), "learning", disable=quiet):
        chunk = slice(start, start + CHUNK)
        model.learn_many(inputs.of(images[chunk]), labels[chunk], names=inputs.names)
    model.flush()
    learned = time.perf_counter() - began
    model = model.averaged()
    predicted = model.predict_many(inputs.of(data["X_test"]), names=inputs.names)
    contents = model.to_bytes()
    return {
        "learner": learner,
        "features": model.feature_count,
        "axes": axes,
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
    parser.add_argument("--axes", type=int, default=0, help="inputs; 0, the default, for pixels")
    parser.add_argument("--directions", choices=("structured", "dense", "keyed"), default="structured")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    for learner in given.learner:
        for features in given.features or sorted(SETTINGS):
            result = one_pass(
                given.data, features, given.directions, given.seed, given.json, learner, given.axes
            )
            if given.json:
                print(json.dumps(result))
            else:
                print(
                    f"{learner}, {result['features']:,} features of {given.axes or 784} inputs: "
                    f"test error {result['test_error']:.2%}, "
                    f"{result['seconds']} s, model {result['model_bytes']:,} bytes"
                )


if __name__ == "__main__":
    main()
