"""``streamk train``.

Progress is a bar for every shard on a terminal, and a line for every round elsewhere.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from connectors.cli.arguments import End, Start, assignments, check_place, refuse_bounds, required
from connectors.cli.exits import connected, exits, usage
from connectors.cli.reading import (
    Account,
    AllowSkipped,
    FormatOptions,
    Strict,
    Target,
    print_lines,
    save_model,
    with_format_options,
)
from connectors.contract.errors import STUCK, Failure
from connectors.events.learners import DEFAULT, LEARNERS, build
from connectors.events.model_files import stored_of
from connectors.events.names import seed_line
from connectors.events.targets import decide_task
from connectors.events.values import Fields
from connectors.files.log import ReplayLog
from connectors.settings.connector import MeasuredShard, connector_of
from connectors.settings.file import load
from connectors.settings.tables import Settings
from connectors.shards import BY, misfits_of, shards_of, skipped_of
from streamk.distributed import Advance, Round, Trained, WorkersDiedError, learn
from streamk.distributed.merging import SCALES
from streamk.evaluation.metric import METRICS, SUMMARIES, TASKS

Watch = Callable[[Advance | Round], None]


@with_format_options
def train_command(
    logs: Annotated[
        list[str],
        typer.Argument(
            help="CSV or JSON lines, plain or compressed, or Parquet; names in order, patterns in quotes; "
            "or a .toml: the partitions of the topic that those settings read."
        ),
    ],
    target: Target = None,
    task: Annotated[
        str | None, typer.Option(help=f"{' or '.join(TASKS)}; inferred from the first records by default.")
    ] = None,
    learner: Annotated[
        str | None, typer.Option(help=f"{' or '.join(LEARNERS)}; {DEFAULT} by default.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A parameter of the learner; repeat for more."),
    ] = None,
    start: Start = None,
    end: End = None,
    shards: Annotated[int, typer.Option(min=1, help="Into how many parts, about, the logs are cut.")] = 16,
    by: Annotated[
        str, typer.Option(help=f"{' or '.join(BY)}: how they are cut; compressed files are whole.")
    ] = BY[0],
    round: Annotated[int, typer.Option(min=1, help="Events a shard learns between two merges.")] = 10_000,
    scales: Annotated[
        str,
        typer.Option(help=f"{' or '.join(SCALES)}: whether scales are agreed on before anything is learned."),
    ] = SCALES[0],
    passes: Annotated[int, typer.Option(min=1, help="How many times everything is learned.")] = 1,
    workers: Annotated[int, typer.Option(min=1, help="Processes of this machine.")] = 2,
    ray: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Use the Ray cluster there, or a local one.")
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Store every round here, and resume from what is there.")
    ] = None,
    save: Annotated[Path | None, typer.Option(help="Save the model here at the end.")] = None,
    reading: FormatOptions = FormatOptions(),  # noqa: B008
    strict: Strict = False,
    allow_skipped: AllowSkipped = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")] = False,
) -> None:
    """Learn logs in separate shards, and merge them after every round of events.

    The model depends on the logs, the learner and how the logs are cut; neither on the workers, nor on what
    happens to them.
    """
    console = Console(stderr=as_json)
    rounds = _Rounds(checkpoint)
    engine, address = "processes" if ray is None else "ray", None if ray == "local" else ray
    with exits(), usage():
        try:
            for option, path in (("--save", save), ("--checkpoint", checkpoint)):
                check_place(option, path)
            configured = _settings(logs, target, task)
            learner = learner or (DEFAULT if configured is None else configured.learner.name)
            parameters = assignments(settings or [], learner)
            if configured is None:
                refuse_bounds(start, end)
                target = required(target)
                log = ReplayLog(logs, reading.format(target))
                decision = decide_task(log.look(), target)
                print_lines(Console(stderr=True), [*log.notes, "" if task else decision.sentence])
                whole = decision.whole and task is None
                task = task or decision.task
                parts: Sequence[MeasuredShard] = shards_of(
                    log.paths, log.format, task, by, shards, strict, whole
                )
                events, stored = f"{log.format} {task}", log.stored()
            else:
                events, stored = (
                    f"{configured.format} {configured.learner.task}",
                    stored_of(configured.format),
                )
                task = configured.learner.task
                if learner == configured.learner.name:
                    parameters = {**configured.learner.parameters, **parameters}
                with connected():
                    configured.require_targets()
                    parts = connector_of(configured.source.kind).shards(configured, start, end)
            machine = build(learner, task, parameters)
            errors = Console(stderr=True)
            if not as_json:
                console.print(seed_line(machine.seed), soft_wrap=True, highlight=False)
            if checkpoint is not None and checkpoint.exists():
                console.print(f"continuing from {checkpoint}", soft_wrap=True, highlight=False)
            with _showing(console, parts, task, as_json) as watch:
                trained = learn(
                    parts, machine, round=round, workers=workers, engine=engine, address=address,
                    passes=passes, scales=scales, checkpoint=checkpoint, events=events,
                    watch=rounds.recording(watch),
                )  # fmt: skip
            skipped, example = skipped_of(trained.positions)
            skipped, example = skipped + trained.refused // max(passes, 1), example or trained.example
            events_of_pass = trained.events // max(passes, 1)
            misfits, types = misfits_of(trained.positions), (stored or {}).get("types", {})
            account = Account(events_of_pass, skipped, 0, example, misfits, types)
            if as_json:
                typer.echo(
                    json.dumps({**_result(trained, len(parts)), "seed": machine.seed, **account.fields()})
                )
            else:
                _summary(trained, len(parts), console)
                print_lines(console, account.lines())
            if save is not None:
                save_model(trained.learner, save, stored, console)
            account.check(errors, allow_skipped)
        except WorkersDiedError as error:
            raise Failure(STUCK, str(error)) from None
        except KeyboardInterrupt:
            Console(stderr=True).print(f"streamk: {rounds.kept()}", soft_wrap=True, highlight=False)
            raise typer.Exit(130) from None


def _settings(logs: list[str], target: str | None, task: str | None) -> Settings | None:
    """Return the settings that name a topic, None if there are logs."""
    if not any(log.endswith(".toml") for log in logs):
        return None
    if len(logs) > 1:
        raise ValueError(f"{logs[0]}, {logs[1]}: give one .toml alone, or logs")
    for option, value, where in (("--target", target, "events.target"), ("--task", task, "learner.task")):
        if value is not None:
            raise ValueError(f"{option}: {logs[0]} says it, as {where}")
    return load(Path(logs[0]))


class _Rounds:
    """The last round, so that an interrupted run can say where it stands."""

    def __init__(self, checkpoint: Path | None) -> None:
        self._checkpoint, self._last = checkpoint, 0

    def recording(self, watch: Watch) -> Watch:
        def both(news: Advance | Round) -> None:
            if isinstance(news, Round):
                self._last = news.number
            watch(news)

        return both

    def kept(self) -> str:
        if self._checkpoint is None:
            return "interrupted, and nothing is stored; --checkpoint FILE stores every round"
        if not self._checkpoint.exists():
            return "interrupted before the first round was done; nothing is stored"
        after = f" after round {self._last:,}" if self._last else ""
        return f"interrupted{after}; the same command continues from {self._checkpoint}"


def _showing(
    console: Console, parts: Sequence[MeasuredShard], task: str, as_json: bool
) -> AbstractContextManager[Watch]:
    headline = SUMMARIES[task]
    if console.is_terminal:
        return _bars(console, parts, headline)
    if as_json:
        return contextlib.nullcontext(lambda news: None)
    return _lines(console, headline)


@contextmanager
def _lines(console: Console, headline: str) -> Iterator[Watch]:
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
def _bars(console: Console, shards: Sequence[MeasuredShard], headline: str) -> Iterator[Watch]:
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


def _result(trained: Trained, shards: int) -> Fields:
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


def _summary(trained: Trained, shards: int, console: Console) -> None:
    """Print the final table."""
    record = _result(trained, shards)
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
