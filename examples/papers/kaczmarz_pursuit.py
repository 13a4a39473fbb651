"""One pass over MNIST by Kaczmarz pursuit with features that grow like √n (Andrecut 2016, Kaczmarz-MP).

    python examples/papers/kaczmarz_pursuit.py MNIST.npz [--max-features 16384] [--seed 7] [--json]

Images as in ``mnist_one_pass.py``, in the order of the file, in blocks of 256. The learner begins with one
block of features and opens the next when ``⌊√(1 + n/period)⌋`` grows, until there are all; the open block
pursues what the others leave, and they are projected onto the rest. Bandwidth and regulariser are those of
``mnist_one_pass.py``.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
from mnist_one_pass import unit_images
from rich.progress import track

import streamk

CHUNK = 2560


def one_pass(path: Path, most: int, seed: int, quiet: bool) -> dict[str, object]:
    """Learn the training images once and return what was reached."""
    data = np.load(path)
    names = [f"p{j:03d}" for j in range(784)]
    learner = streamk.KaczmarzPursuitClassifier(
        features=1024, growth="sqrt", period=58, max_features=most, ridge=10.0, regularization=0.003,
        average=True, block_size=256, bandwidth=0.6, scales=(1.0,), scale_inputs=False,
        directions="structured", seed=seed,
    )  # fmt: skip
    images, labels = data["X_train"], data["y_train"]
    began = time.perf_counter()
    for start in track(range(0, len(images), CHUNK), "learning", disable=quiet):
        chunk = slice(start, start + CHUNK)
        learner.learn_many(unit_images(images[chunk]), labels[chunk], names=names)
    learner.flush()
    seconds = time.perf_counter() - began
    model = learner.averaged()
    predicted = model.predict_many(unit_images(data["X_test"]), names=names)
    return {
        "features": model.feature_count,
        "test_error": float(np.mean(predicted != data["y_test"])),
        "seconds": round(seconds, 1),
        "model_bytes": len(model.to_bytes()),
    }


def main() -> None:
    """Run one pass and print what was reached."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--max-features", type=int, default=16384)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    result = one_pass(arguments.data, arguments.max_features, arguments.seed, quiet=arguments.json)
    if arguments.json:
        print(json.dumps(result))
    else:
        print(
            f"grown to {result['features']:,} features: test error {result['test_error']:.2%}, "
            f"{result['seconds']} s, model {result['model_bytes']:,} bytes"
        )


if __name__ == "__main__":
    main()
