"""What training shows: a bar a shard on a terminal, a line a round elsewhere, and a table at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from connectors.events.values import Fields
from connectors.settings.connector import MeasuredShard
from streamk.distributed import Advance, Round, Trained
from streamk.evaluation.metric import METRICS

Watch = Callable[[Advance | Round], None]


@contextmanager
def lines(console: Console, headline: str) -> Iterator[Watch]:
    """Print a line for every round."""
    titles = "round", "pass", "shards", "events", METRICS[headline].title, "events/s", "bytes"
    begun = False

    def watch(news: Advance | Round) -> None:
        nonlocal begun
        if isinstance(news, Advance):
            return
        if not begun:
            begun = True
            console.print("".join(f"{title:>12}" for title in titles), highlight=False, soft_wrap=True)
        numbers = [news.number or "scales", news.turn or "-", f"{news.shards:,}", f"{news.events:,}"]
        text = "".join(f"{number:>12}" for number in numbers) + f"{_metric(news, headline):>12}"
        text += f"{_speed(news.events, news.seconds):12,.0f}{news.bytes:12,}"
        console.print(text, highlight=False, soft_wrap=True)

    yield watch


@contextmanager
def bars(console: Console, shards: Sequence[MeasuredShard], headline: str) -> Iterator[Watch]:
    """Draw a bar for every shard and one line of the last round, in place."""
    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
    with Progress(*columns, TextColumn("{task.fields[note]}"), console=console, transient=True) as drawing:
        jobs = [drawing.add_task(_short(shard.name), total=1.0, note="") for shard in shards]
        last = drawing.add_task("no round yet", total=None, note="")

        def watch(news: Advance | Round) -> None:
            if isinstance(news, Round):
                text = f"round {news.number:,}: {METRICS[headline].title} {_metric(news, headline)}"
                text = text if news.turn else "agreeing on scales"
                drawing.update(last, description=text)
                return
            part = 1.0 if news.ended else shards[news.shard].done(news.position)
            drawing.update(jobs[news.shard], completed=part, note=f"{news.events:,} events")

        yield watch


def result(trained: Trained, shards: int) -> Fields:
    """Return what ``--json`` prints."""
    curve = trained.curve
    return {
        "learner": type(trained.learner).__name__,
        "events": trained.events,
        "rounds": len(curve),
        "passes": curve[-1].turn if curve else 0,
        "shards": shards,
        "predicted": trained.tally.events,
        **(trained.tally.values() if trained.tally.events else {}),
        "last": curve[-1].tally.values() if trained.tally.events else {},
        "seconds": round(trained.seconds, 6),
        "events_per_second": round(_speed(trained.events, trained.seconds), 1),
        "bytes_per_round": round(sum(entry.bytes for entry in curve) / max(len(curve), 1)),
        "model_bytes": len(trained.learner.to_bytes()),
        "curve": [entry.values() for entry in curve],
    }


def summary(trained: Trained, shards: int, console: Console) -> None:
    """Print the final table."""
    record = result(trained, shards)
    table = Table(title=f"{record['events']:,} events", title_justify="left")
    table.add_column("")
    table.add_column(record["learner"], justify="right", overflow="fold")
    for metric in METRICS.values():
        if metric.name in record:
            table.add_row(
                f"{metric.title} of {record['predicted']:,} predicted", f"{record[metric.name]:.4g}"
            )
            table.add_row(f"{metric.title} of the last round", f"{record['last'][metric.name]:.4g}")
    table.add_row("shards, rounds, passes", f"{shards:,}, {record['rounds']:,}, {record['passes']:,}")
    table.add_row("seconds", f"{record['seconds']:,.1f}")
    table.add_row("events/s (predict + learn + merge)", f"{record['events_per_second']:,.0f}")
    table.add_row("bytes a round", f"{record['bytes_per_round']:,}")
    table.add_row("bytes of the model", f"{record['model_bytes']:,}")
    console.print(table)


def _metric(entry: Round, headline: str) -> str:
    return f"{entry.tally.values()[headline]:.4f}" if entry.tally.events else "-"


def _speed(events: int, seconds: float) -> float:
    return events / seconds if seconds else 0.0


def _short(name: str) -> str:
    return name if len(name) <= 40 else f"…{name[-39:]}"
