"""``streamk demo``: replay two real streams and a long one."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from river import datasets

import streamk
from connectors.cli.exits import exits, usage
from connectors.files.log import ReplayLog
from connectors.replay import report
from connectors.replay.progress import Replay, Scoring
from connectors.replay.run import replay_log
from connectors.replay.writing import write
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


def demo_command(
    output: Annotated[Path, typer.Option(metavar="DIR", help="Where logs, models and pages go.")] = Path(
        "demo-output"
    ),
) -> None:
    """Replay three streams next to baselines, save and reload the models, and write pages."""
    console = Console()
    with exits(), usage():
        output.mkdir(parents=True, exist_ok=True)
        for name, (make, interval) in STREAMS.items():
            log, model, page = output / f"{name}.csv.gz", output / f"{name}.streamk", output / name
            with console.status(f"writing {log}"):
                write_log(log, make())
            options = f"--target label --set seed=7 --interval {interval} --save {model} --report {page}"
            console.print(f"\n[bold]streamk replay {log} {options}[/]", soft_wrap=True)
            source = ReplayLog(log, "label")
            show = report.live(console, source, None) if console.is_terminal else report.lines(console)
            with show as watch:
                run = replay_log(
                    source,
                    task="classification",
                    parameters={"seed": 7},
                    scoring=Scoring(interval),
                    watch=watch,
                )
            report.summary(run, console)
            if run.interrupted:
                raise typer.Exit(130)
            console.print(f"saved to {model}: {run.learner.save(model):,} bytes")
            if not _same_predictions(run, model, log):
                raise ValueError("the reloaded model predicts differently")
            console.print(f"reloaded: the same predictions on all {run.events:,} events")
            words = ["streamk", "replay", str(log), *options.split()]
            write(page, run, source, words, {"seed": 7})
            console.print(f"the page: {page / 'index.html'}", soft_wrap=True)


def _same_predictions(run: Replay, path: Path, log: Path) -> bool:
    """Load a saved model and compare its predictions on the log with those of the learner that was saved."""
    loaded: Any = streamk.load(path)
    events = [record.fields for record in ReplayLog(log, "label")]
    return bool(loaded.predict_proba_many(events) == run.learner.predict_proba_many(events))
