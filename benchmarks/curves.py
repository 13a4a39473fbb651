"""Curves of accuracy and error over public streams, for the page ``docs/curves.md``.

    python benchmarks/curves.py [--data DIRECTORY] [--events N]

Every learner predicts each event before it learns the event, with the settings of ``board.py``; no
label is an input. Results go into ``docs/curves.json``.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from contest import Peer, Setting
from logs import CLASSES, NUMBERS, Stream, load
from measuring import peers
from rich.progress import track

DOCS = Path(__file__).resolve().parent.parent / "docs"
STREAMS = ["Elec2", "CoverType, first 20,000", "Adult, first 20,000", "bike_hourly", "kin40k, first 20,000"]
PEERS = {
    CLASSES: [
        "streamk KernelClassifier",
        "river ARF(10)",
        "river HAT",
        "river LogisticRegression",
    ],
    NUMBERS: [
        "streamk KernelRegressor",
        "river ARF(10)",
        "river HATR",
        "river LinearRegression, Adam",
    ],
}
WINDOWS = 50


def scores(stream: Stream, peer: Peer) -> np.ndarray:
    """Return 1 for each right prediction, else 0; of numbers, squared errors in variances of the target."""
    contestant = peer.make(stream, Setting(memory=False, seed=7))
    found, variance = [], 1.0 if stream.task == CLASSES else float(np.var(stream.targets))
    for x, y in zip(contestant.prepare(stream), stream.targets, strict=True):
        predicted = contestant.predict(x)
        if stream.task == CLASSES:
            found.append(float(bool(predicted) and max(predicted, key=predicted.__getitem__) == y))
        else:
            found.append((predicted - y) ** 2 / variance)
        contestant.learn(x, y)
    return np.array(found)


def curve(values: np.ndarray, size: int) -> dict[str, list[float]]:
    """Return the mean of every window, and of all events up to its end."""
    ends = np.arange(size, len(values) + 1, size)
    means = np.cumsum(values)[ends - 1]
    return {
        "window": np.round(np.diff(means, prepend=0.0) / size, 4).tolist(),
        "so far": np.round(means / ends, 4).tolist(),
    }


def main() -> None:
    """Measure all curves and write them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=DOCS.parent.parent / "shared/data")
    parser.add_argument("--events", type=int, help="at most so many of each stream")
    arguments = parser.parse_args()
    found = []
    for name in STREAMS:
        stream = load(name, arguments.data).first(arguments.events)
        size = len(stream.targets) // WINDOWS
        known = {peer.name: peer for peer in peers(stream.task)}
        curves = {
            learner: curve(scores(stream, known[learner]), size)
            for learner in track(PEERS[stream.task], name)
        }
        found.append({"stream": name, "task": stream.task, "window": size, "curves": curves})
    (DOCS / "curves.json").write_text(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
