"""The terminal report of a replay: lines at powers of two for a pipe, a live table, a final table.

With several contenders it recommends one, in one sentence, by error, time and memory.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from connectors.contract.records import Log
from connectors.replay.page.words import decimal, metric_name, metric_order, size
from connectors.replay.progress import Point, Replay
from streamk.arrays import Json
from streamk.evaluation import Results
from streamk.evaluation.comparison import Comparison
from streamk.evaluation.label_delay import DelayByCount
from streamk.evaluation.metric import METRICS, SUMMARIES
from streamk.evaluation.results import bytes_of

Watch = Callable[[Replay], None]
FAILED = "failed"
_REFRESH = 0.1  # seconds between two drawings of the live table
_WIDTH = 14  # of a line in the head of a column
_RATES = 0.5  # seconds between two measurements of them
_MOST = 2.0  # times the error of the best contender, for an equal one


@contextmanager
def lines(console: Console) -> Iterator[Watch]:
    """Print a line at every power of two events, as Vowpal Wabbit does."""
    shown = 0

    def watch(run: Replay) -> None:
        nonlocal shown
        if not run.doublings:
            return
        if shown == 0:
            if run.late is not None:
                console.print(lateness(run).removeprefix(", "), highlight=False, soft_wrap=True)
            console.print(_heading(run), highlight=False, markup=False, soft_wrap=True)
        for point in run.doublings[shown:]:
            console.print(_line(run, point), highlight=False, markup=False, soft_wrap=True)
        shown = len(run.doublings)

    yield watch


def _heading(run: Replay) -> str:
    metric = METRICS[run.contest.headline].title
    others = [_short(name) for name in run.names[1:]]
    columns = ["events", metric, "since last", *others]
    return "".join(f"{c:>14}" for c in columns) + f"{'label':>14}{'prediction':>14}"


def _line(run: Replay, point: Point) -> str:
    numbers = [point.overall[0], point.recent[0], *point.overall[1:]]
    texts = "".join(f"{decimal(number):>14}" for number in numbers)
    return f"{point.events:14,}{texts}{_short(point.label):>14}{_short(point.prediction):>14}"


def _short(value: object) -> str:
    text = "-" if value is None else decimal(value) if isinstance(value, float) else str(value)
    return text if len(text) <= 12 else text[:11] + "…"


@contextmanager
def live(console: Console, log: Log, limit: int | None) -> Iterator[Watch]:
    """Draw a table of the metrics so far and a progress bar, in place."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        console=console,
    )
    job = bar.add_task(Path(log.name).name, total=limit or log.size or None, rate="")
    drawn, since, before = 0.0, time.monotonic(), 0
    with Live(bar, console=console, auto_refresh=False, transient=True) as screen:

        def watch(run: Replay) -> None:
            nonlocal drawn, since, before
            now = time.monotonic()
            if now - since >= _RATES:
                rate = f"{(run.events - before) / (now - since):,.0f} events/s"
                bar.update(job, rate=rate)
                since, before = now, run.events
            bar.update(job, completed=run.events if limit else log.done)
            if now - drawn >= _REFRESH:
                drawn = now
                screen.update(Group(metrics_table(run), bar), refresh=True)

        yield watch


def metrics_table(run: Replay) -> Table:
    """Return the metrics of the contenders, side by side."""
    results = run.results()
    table = Table(title=f"{run.events:,} events{lateness(run)}", title_justify="left")
    table.add_column("")
    for name in run.names:
        table.add_column(in_lines(name), justify="right", overflow="fold")
    metrics = [results.metrics(name) for name in run.names]
    for key in sorted(metric_order(metrics), key=lambda key: key != results.headline):
        table.add_row(metric_name(key), *(decimal(values.get(key)) for values in metrics))
    rates = (FAILED if results.failed(name) else f"{results.rate(name):,.0f}" for name in run.names)
    table.add_row("events/s (predict + learn)", *rates)
    return table


def in_lines(name: str) -> str:
    r"""Return a name for the head of a narrow column: without modules, in lines that end between words.

    >>> in_lines("refit:sklearn.ensemble.HistGradientBoostingRegressor,every=1000")
    'refit:\nHistGradient\nBoosting\nRegressor,\nevery=1000'
    """
    bare = re.sub(r"\b(?:\w+\.)+(?=[A-Z])", "", name)
    if len(bare) <= _WIDTH:
        return bare
    lines = [""]
    for part in re.findall(r"[A-Z]?(?:[^A-Z:,|]|(?<![a-z])[A-Z])*[:,|]?", bare):
        if lines[-1] and (len(lines[-1]) + len(part) > _WIDTH or lines[-1][-1] in ":,|"):
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)


def lateness(run: Replay) -> str:
    """Return when labels come, as the end of a sentence."""
    if run.late is None:
        return ", labels come before the next event"
    if isinstance(run.late, DelayByCount):
        return f", labels come {run.late.delay:,} events late"
    return f", labels come {run.late}"


def summary(run: Replay, console: Console) -> None:
    """Print the final table, the better contender, skipped records, and the size of the model."""
    from streamk.evaluation.results import bytes_of

    results = run.results()
    console.print(metrics_table(run))
    if (slices := slices_table(run)) is not None:
        console.print(slices)
    if len(run.names) > 1:
        console.print(results.verdict(), soft_wrap=True, highlight=False, markup=False)
        console.print(recommendation(results), soft_wrap=True, highlight=False, markup=False)
    if (frozen := results.frozen()) is not None:
        console.print(
            without_labels(frozen, summary_metric(run)), soft_wrap=True, highlight=False, markup=False
        )
    for name in run.names:
        if error := results.error(name):
            console.print(f"{name} failed {error}", soft_wrap=True, highlight=False, markup=False)
    size = bytes_of(run.learner)
    text = "model: of unknown size" if size is None else f"model: {size:,} bytes"
    if waiting := getattr(run.learner, "pending", 0):
        text += f"; {waiting:,} events wait for their block to fill"
    console.print(text, soft_wrap=True, highlight=False)
    if run.interrupted:
        console.print(f"interrupted after {run.events:,} events; the figures and the model are of those")


def slices_table(run: Replay) -> Table | None:
    """Return the headline metric for each value of the field of ``--by``, None without one."""
    results = run.results()
    by_contender = {name: slices for name in run.names if (slices := results.slices(name))}
    if not by_contender:
        return None
    by = str(run.contest.by)
    table = Table(title=f"{metric_name(results.headline)} by {by}", title_justify="left")
    table.add_column(by, overflow="fold")
    for name in ("events", *by_contender):
        table.add_column(name, justify="right", overflow="fold")
    for value, (events, _) in next(iter(by_contender.values())).items():
        shown = (decimal(slices[value][1] if value in slices else None) for slices in by_contender.values())
        table.add_row(value, f"{events:,}", *shown)
    return table


def summary_metric(run: Replay) -> str:
    """Return the metric that was chosen, or that of a summary: accuracy or R²."""
    return run.contest.metric or SUMMARIES[run.task]


def without_labels(frozen: Json, metric: str) -> str:
    """Return what a model reached that got no labels at the end of the log, next to the one that did.

    >>> frozen = {"contender": "kernel", "since": 7000, "events": 2500}
    >>> metrics = {"metrics": {"r2": -0.84}, "with_labels": {"r2": 0.855}}
    >>> print(without_labels({**frozen, **metrics}, "r2"))
    Had labels stopped after event 7,000: R² -0.840 on the other 2,500; with labels 0.855
    """
    alone, live = (frozen[which].get(metric) for which in ("metrics", "with_labels"))
    first, second = ("–" if value is None else f"{value:,.3f}" for value in (alone, live))
    before, events = frozen["since"], frozen["events"]
    return (
        f"Had labels stopped after event {before:,}: {metric_name(metric)} {first} on the other {events:,}; "
        f"with labels {second}"
    )


def left_out(run: Replay, log: Log) -> str:
    """Return a sentence about rejected and skipped records; empty if there are none."""
    sentences = []
    if run.refused:
        what = "record was" if run.refused == 1 else "records were"
        sentences.append(f"{run.refused:,} {what} rejected and skipped")
    if skipped := log.left_out():
        sentences.append(skipped)
    first = next(iter([*log.examples, *run.examples]), "")
    if log.unreadable:  # which the sentence says of all
        first = str(first).replace(": cannot be decoded: ", ": ", 1)
    return "; ".join(sentences) + (f" ({first})" if sentences and first else "")


def plot(runs: dict[str, Replay], path: Path) -> None:
    """Draw the curves of replays, the window's metric over the events, into one picture.

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
        results = run.results()
        for name in run.names:
            columns, rows, interval, cumulative = results.windows(name)
            events = [interval * (k + 1) for k in range(len(rows))]
            panel.plot(events, rows[:, columns.index(results.headline)], label=f"{name}, last {interval:,}")
            colour = panel.lines[-1].get_color()
            panel.plot(events, cumulative, color=colour, alpha=0.4, ls="--")
        panel.set_title(f"{title}: {run.events:,} events{lateness(run)} (dashed: from the start)", loc="left")
        panel.set_ylabel(METRICS[results.headline].title)
        panel.grid(alpha=0.3)
        panel.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    panels[-1, 0].set_xlabel("events")
    figure.savefig(path, dpi=120)
    plt.close(figure)


def recommended(results: Results) -> str:
    """Return the contender to use, as :func:`recommendation` explains; the first one if none is left."""
    sentence = recommendation(results)
    return max(
        (n for n in results.names if sentence.startswith(f"Use {n}:")), key=len, default=results.names[0]
    )


def recommendation(results: Results) -> str:
    """Return which contender to use and why, empty if none is left.

    It is the best one, unless a contender that is not significantly worse (``p >= 0.05``), and has at most
    twice its error, takes less time an event: then it is the cheapest of these. Few independent events prove
    little, but an error of six times that of the best one is no reason to save time. If the metric was not
    chosen, and another of these is better by log loss, it is that one. What it gains and costs is in
    comparison with the next best of the others.

    Parameters
    ----------
    results
        Of a replay; its times differ from run to run, and so may the sentence.
    """
    ranked = results.ranking()
    if not ranked:
        return ""
    best = ranked[0]
    if len(ranked) == 1:
        return f"Use {best}: no other contender is left"
    most = _MOST * _error(results, best)
    equals = [best]
    equals += [n for n in ranked[1:] if _tied(results.compare(best, n)) and _error(results, n) <= most]
    chosen = min(equals, key=lambda name: _seconds(results, name))
    tied = [name for name in equals if name != chosen and _tied(results.compare(name, chosen))]
    if (doubt := results.second_opinion([chosen, *tied])) is not None:
        by_accuracy = _interval(results.compare(doubt.first, chosen))
        return f"{_lead(results, doubt)}; there is no clear winner on accuracy ({by_accuracy})"
    doubt = results.second_opinion([chosen, *ranked])
    but = "" if doubt is None else f"; by log loss, {doubt.first} is better ({_interval(doubt)})"
    if chosen != best:
        compared = results.compare(best, chosen)
        return (
            f"Use {chosen}: there is no clear winner on {_metric(compared)}, where {best} is ahead "
            f"({_interval(compared)}) and takes {_times(_seconds(results, best), _seconds(results, chosen))} "
            f"its time{_memory(results, chosen, best)}{but}"
        )
    other = next(name for name in ranked if name != chosen)
    compared = results.compare(chosen, other)
    if compared.diverged:
        memory = _memory(results, chosen, other).replace(" and ", "; it takes ", 1)
        return f"Use {chosen}: {other} diverged{memory}"
    if _tied(compared):
        return (
            f"Use {chosen}: there is no clear winner on {_metric(compared)}, where it is ahead of {other} "
            f"({_interval(compared)}), and it takes "
            f"{_times(_seconds(results, chosen), _seconds(results, other))} its time"
            f"{_memory(results, chosen, other)}{but}"
        )
    return _lead(results, compared) + but


def _lead(results: Results, comparison: Comparison) -> str:
    """Return what the first of two contenders gains and costs, in a sentence."""
    first, second = comparison.first, comparison.second
    cost = _times(_seconds(results, first), _seconds(results, second))
    return (
        f"Use {first}: its {_gain(comparison)} that of {second} ({_interval(comparison)}) for {cost} its time"
        f"{_memory(results, first, second)}"
    )


def _metric(comparison: Comparison) -> str:
    return METRICS[comparison.measure].title


def _error(results: Results, name: str) -> float:
    """Return the metric that ranks, or 1 minus it if more is better."""
    value = results.metrics_of(name, results.headline)
    return 1.0 - value if METRICS[results.headline].better > 0 else value


def _tied(comparison: Comparison) -> bool:
    return comparison.leader is None


def _seconds(results: Results, name: str) -> float:
    """Return the seconds that an event costs, none if that was not measured."""
    rate = results.rate(name)
    return 1.0 / rate if rate else 0.0


def _times(ours: float, other: float) -> str:
    if not ours or not other:
        return "an unknown multiple of"
    ratio = ours / other
    return f"{ratio:,.0f} times" if ratio >= 9.5 else f"{ratio:.2g} times"


def _memory(results: Results, name: str, other: str) -> str:
    """Return the size of a model, next to the other's where that is known; empty if it is not known."""
    ours, theirs = (bytes_of(results.models[each]) for each in (name, other))
    if ours is None:
        return ""
    return f" and {size(ours)}" + ("" if theirs is None else f" (against {size(theirs)})")


def _gain(comparison: Comparison) -> str:
    metric = METRICS[comparison.measure]
    mean = _figure(0.0 if comparison.advantage is None else abs(comparison.advantage.mean) * metric.scale)
    if metric.scale == 100.0:
        return f"error is {mean} points below"
    return f"{metric.title} is {mean} {'above' if metric.better > 0 else 'below'}"


def _interval(comparison: Comparison) -> str:
    if comparison.advantage is None:
        return "it cannot be compared"
    metric = METRICS[comparison.measure]
    low, high = sorted(end * metric.scale for end in (comparison.advantage.low, comparison.advantage.high))
    if comparison.advantage.mean < 0.0:
        low, high = -high, -low
    return (
        f"{100 * comparison.advantage.level:.4g} % interval {_figure(low)} to {_figure(high)} {metric.unit}"
    )


def _figure(value: float) -> str:
    """Return a figure with three digits, or all of a whole number of thousands."""
    return decimal(value, max(0, 2 - math.floor(math.log10(abs(value)))) if 0.0 < abs(value) < 1e3 else 0)
