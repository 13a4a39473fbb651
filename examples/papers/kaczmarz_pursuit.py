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
from pathlib import Path

from mnist_one_pass import follow

import streamk


def one_pass(path: Path, most: int, seed: int, quiet: bool) -> dict[str, object]:
    """Learn the training images once and return what was reached."""
    learner = streamk.KaczmarzPursuitClassifier(
        features=1024, growth="sqrt", period=58, max_features=most, ridge=10.0, regularization=0.003,
        average=True, block_size=256, bandwidth=0.6, scales=(1.0,), scale_inputs=False,
        directions="structured", seed=seed,
    )  # fmt: skip
    result = follow(learner, path, quiet)
    return {**result, "features": learner.feature_count}


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
