"""What a replay shows: lines at powers of two for a pipe, a live table for a terminal, a final table."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from connectors.files.log import Log
from connectors.replay.metrics import Point, Replay
from streamk.scores import decide

Watch = Callable[[Replay], None]
_TITLES = {
    "kappa_temporal": "temporal kappa",
    "log_loss": "log loss",
    "mae": "MAE",
    "rmse": "RMSE",
    "r2": "R²",
}
_REFRESH = 0.1  # seconds between two drawings of the live table


@contextmanager
def lines(console: Console) -> Iterator[Watch]:
    """Print a line at every power of two events, as Vowpal Wabbit does."""
    shown = 0

    def watch(run: Replay) -> None:
        nonlocal shown
        if shown == 0:
            if run.delay:
                console.print(_lateness(run).removeprefix(", "), highlight=False, soft_wrap=True)
            console.print(_heading(run), highlight=False, soft_wrap=True)
        for point in run.doublings[shown:]:
            console.print(_line(run, point), highlight=False, markup=False, soft_wrap=True)
        shown = len(run.doublings)

    yield watch


def _heading(run: Replay) -> str:
    metric = "accuracy" if run.task == "classification" else "MAE"
    columns = ["events", metric, "since last"]
    if len(run.names) > 1:
        columns.append("baseline")
    return "".join(f"{c:>12}" for c in columns) + f"{'label':>14}{'prediction':>14}"


def _line(run: Replay, point: Point) -> str:
    numbers = [point.overall[0], point.recent[0], *point.overall[1:]]
    texts = "".join(f"{number:12.6g}" for number in numbers)
    return f"{point.events:12,}{texts}{_short(point.label):>14}{_short(decide(point.prediction)):>14}"


def _short(value: Any) -> str:
    text = "-" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 12 else text[:11] + "…"


@contextmanager
def live(console: Console, log: Log, limit: int | None) -> Iterator[Watch]:
    """Draw a table of the metrics so far and a progress bar, in place."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=console,
    )
    job = bar.add_task(Path(log.name).name, total=limit or log.size or None)
    drawn = 0.0
    with Live(bar, console=console, auto_refresh=False, transient=True) as screen:

        def watch(run: Replay) -> None:
            nonlocal drawn
            bar.update(job, completed=run.events if limit else log.position())
            if time.monotonic() - drawn >= _REFRESH:
                drawn = time.monotonic()
                screen.update(Group(metrics_table(run), bar), refresh=True)

        yield watch


def metrics_table(run: Replay) -> Table:
    """Return the metrics of the learner and the baseline, side by side."""
    table = Table(title=f"{run.events:,} events{_lateness(run)}", title_justify="left")
    table.add_column("")
    for name in run.names:
        table.add_column(name, justify="right", overflow="fold")
    values = [score.values() for score in run.scores]
    for key in values[0]:
        table.add_row(
            _TITLES.get(key, key),
            *(f"{v[key]:.4f}" if abs(v[key]) < 1e5 else f"{v[key]:.4g}" for v in values),
        )
    speeds = (f"{score.events_per_second:,.0f}" for score in run.scores)
    table.add_row("events/s (predict + learn)", *speeds)
    return table


def _lateness(run: Replay) -> str:
    return f", labels {run.delay:,} events late" if run.delay else ""


def summary(run: Replay, console: Console) -> None:
    """Print the final table and the size of the model."""
    console.print(metrics_table(run))
    text = f"model: {len(run.learner.to_bytes()):,} bytes"
    if run.learner.pending:
        text += f"; {run.learner.pending} events wait for their block to fill"
    console.print(text, soft_wrap=True, highlight=False)
    if run.interrupted:
        console.print(f"interrupted after {run.events:,} events; the figures and the model are of those")


def plot(runs: dict[str, Replay], path: Path) -> None:
    """Draw the curves of some replays, the window's metric over the events, into one picture.

    Raises
    ------
    ImportError
        If matplotlib is not installed (``pip install 'streamk[plots]'``).
    """
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(
        len(runs), 1, figsize=(10, 2.6 * len(runs)), layout="constrained", squeeze=False
    )
    for panel, (title, run) in zip(panels[:, 0], runs.items(), strict=True):
        events = [point.events for point in run.curve]
        for i, name in enumerate(run.names):
            panel.plot(
                events, [point.recent[i] for point in run.curve], label=f"{name}, last {run.interval:,}"
            )
            colour = panel.lines[-1].get_color()
            panel.plot(events, [point.overall[i] for point in run.curve], color=colour, alpha=0.4, ls="--")
        panel.set_title(
            f"{title}: {run.events:,} events{_lateness(run)} (dashed: from the start)", loc="left"
        )
        panel.set_ylabel("accuracy" if run.task == "classification" else "MAE")
        panel.grid(alpha=0.3)
        panel.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    panels[-1, 0].set_xlabel("events")
    figure.savefig(path, dpi=120)
    plt.close(figure)
