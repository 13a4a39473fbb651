"""The logs that ``streamk demo`` replays: two real streams and a long one."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
from river import datasets

from streamk.arrays import Json

Stream = Iterable[tuple[Json, object]]


def synthetic(events: int = 100_000) -> Stream:
    """Yield a stream that is not linearly separable: two arms of a spiral, rotated by a category."""
    rng = np.random.default_rng(2026)
    for _ in range(events):
        arm, kind = int(rng.integers(2)), int(rng.integers(3))
        radius = rng.uniform(0.3, 2.0)
        angle = 2.0 * radius + np.pi * arm + kind + rng.normal(0, 0.25)
        x = {"x": radius * np.cos(angle), "y": radius * np.sin(angle), "kind": f"k{kind}"}
        noise = {f"n{j}": v for j, v in enumerate(rng.normal(size=2).tolist())}
        yield {**x, **noise}, f"arm {arm}"


STREAMS: dict[str, tuple[Callable[[], Stream], int]] = {  # how it is made, events of a window of the curves
    "bananas": (datasets.Bananas, 100),
    "imagesegments": (datasets.ImageSegments, 100),
    "synthetic": (synthetic, 2000),
}


def write_log(path: Path, stream: Stream) -> None:
    """Write a stream as gzipped CSV, its target in the column ``label``."""
    with gzip.open(path, "wt", newline="", compresslevel=1) as file:
        writer = None
        for x, y in stream:
            if writer is None:
                writer = csv.DictWriter(file, [*x, "label"])
                writer.writeheader()
            writer.writerow({**x, "label": y})
