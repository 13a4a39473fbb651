"""Two real streams and a long one, replayed beside a linear model: what `make demo` runs.

The streams are written to logs on disk and replayed as `streamk replay` does. Results go to
``demo-output/``: the logs, the models, and a picture of the curves.
"""

from __future__ import annotations

import csv
import gzip
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from river import datasets

import streamk
from connectors.files.log import Log
from connectors.replay import report
from connectors.replay.run import Replay, interpret, replay

OUTPUT = Path("demo-output")
INTERVAL = {"Bananas": 100, "ImageSegments": 100, "Synthetic": 2000}


def synthetic(events: int = 100_000) -> Iterable[tuple[dict[str, Any], str]]:
    """Yield a stream no line can separate: two arms of a spiral, whose turn depends on a category."""
    rng = np.random.default_rng(2026)
    for _ in range(events):
        arm, kind = int(rng.integers(2)), int(rng.integers(3))
        radius = rng.uniform(0.3, 2.0)
        angle = 2.0 * radius + np.pi * arm + kind + rng.normal(0, 0.25)
        x = {"x": radius * np.cos(angle), "y": radius * np.sin(angle), "kind": f"k{kind}"}
        noise = {f"n{j}": v for j, v in enumerate(rng.normal(size=2).tolist())}
        yield {**x, **noise}, f"arm {arm}"


def write_log(path: Path, stream: Iterable[tuple[dict[str, Any], Any]]) -> None:
    """Write a stream as gzipped CSV, its target in the column ``label``."""
    with gzip.open(path, "wt", newline="", compresslevel=1) as file:
        writer = None
        for x, y in stream:
            if writer is None:
                writer = csv.DictWriter(file, [*x, "label"])
                writer.writeheader()
            writer.writerow({**x, "label": y})


def same_predictions(run: Replay, path: Path, log: Path) -> bool:
    """Load a saved model and compare its predictions on the log with those of the learner that was saved."""
    loaded: Any = streamk.load(path)
    learner: Any = run.learner
    events = [interpret(record, Log(log, "label"), run.task)[0] for record in Log(log, "label")]
    return bool(loaded.predict_proba_many(events) == learner.predict_proba_many(events))


def main() -> int:
    """Replay the three streams, save and reload the models, and draw the curves."""
    console = Console()
    OUTPUT.mkdir(exist_ok=True)
    streams = {
        "Bananas": datasets.Bananas(),
        "ImageSegments": datasets.ImageSegments(),
        "Synthetic": synthetic(),
    }
    runs = {}
    for name, stream in streams.items():
        log, model = OUTPUT / f"{name.lower()}.csv.gz", OUTPUT / f"{name.lower()}.streamk"
        with console.status(f"writing {log}"):
            write_log(log, stream)
        console.print(f"\n[bold]streamk replay {log} --target label --set seed=7 --save {model}[/]")
        source = Log(log, "label")
        show = report.live(console, source, None) if console.is_terminal else report.lines(console)
        with show as watch:
            run = replay(
                source, task="classification", parameters={"seed": 7}, interval=INTERVAL[name], watch=watch
            )
        report.summary(run, console)
        console.print(f"saved to {model}: {run.learner.save(model):,} bytes")
        if run.interrupted:
            return 130
        if not same_predictions(run, model, log):
            console.print("[red]the reloaded model predicts differently[/]")
            return 1
        console.print(f"reloaded: the same predictions on all {run.events:,} events")
        runs[name] = run
    picture = OUTPUT / "curves.png"
    report.plot(runs, picture)
    console.print(f"\ncurves: {picture}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
