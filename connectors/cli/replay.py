"""``streamk replay``."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from connectors.cli.arguments import End, Start, assignments, check_place, refuse_bounds, required
from connectors.cli.exits import connected, exits, usage
from connectors.events import Decoder
from connectors.files.replayed import ReplayLog
from connectors.learners import DEFAULT, LEARNERS
from connectors.replay import report
from connectors.replay.keyed import KeyedLog
from connectors.replay.labels import ByLabels, Joined
from connectors.replay.progress import Checkpoint, Replay, Scoring
from connectors.replay.run import replay
from connectors.replay.specs import settings_of
from connectors.replay.writing import write
from connectors.settings import Learner as LearnerSettings
from connectors.settings_file import load
from streamk.learners import Learner
from streamk.prequential import ByTime
from streamk.prequential.results import bytes_of, finite
from streamk.scores import TASKS, check_delay


def replay_command(
    files: Annotated[
        list[str],
        typer.Argument(
            help="CSV, JSON lines, MessagePack or Parquet, plain, gzip or zstd, by names and patterns; - is "
            "a pipe, a .toml what those settings read."
        ),
    ],
    target: Annotated[str | None, typer.Option(help="The field to predict.")] = None,
    task: Annotated[
        str | None, typer.Option(help=f"{' or '.join(TASKS)}; told from the first records by default.")
    ] = None,
    learner: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[:KEY=VALUE,…]",
            help=f"{', '.join(LEARNERS)}; a model of river by its path, as river.forest.ARFClassifier; a "
            f".streamk file, with :learn=false to freeze it. Repeat to compare; {DEFAULT} by default.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A parameter of the first learner; repeat for more."),
    ] = None,
    start: Start = None,
    end: End = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Stop after so many events.")] = None,
    delay: Annotated[
        str, typer.Option(metavar="EVENTS", help="How many events late labels arrive; seconds with --time.")
    ] = "0",
    time: Annotated[
        str | None, typer.Option(metavar="FIELD", help="When an event was: --delay is by this clock.")
    ] = None,
    labels: Annotated[
        str | None, typer.Option(metavar="LOG", help="Labels, joined on --key; they come when --time says.")
    ] = None,
    key: Annotated[str | None, typer.Option(metavar="FIELD", help="What joins events and --labels.")] = None,
    by: Annotated[
        str | None, typer.Option(metavar="FIELD", help="Metrics for each value of a field.")
    ] = None,
    interval: Annotated[int, typer.Option(min=1, help="Events of a window of the curves.")] = 1000,
    level: Annotated[
        float | None, typer.Option(help="Score intervals of numbers of that level, as 0.9.")
    ] = None,
    report_to: Annotated[
        Path | None,
        typer.Option("--report", metavar="DIR", help="Write a page with pictures, and the figures."),
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Go on from here after an interruption.")
    ] = None,
    delimiter: Annotated[str | None, typer.Option(help="Between the values of CSV; told by default.")] = None,
    decimal: Annotated[
        str | None, typer.Option(help="Before fractions in CSV, . or ,; told by default.")
    ] = None,
    strict: Annotated[bool, typer.Option(help="Stop at the first record that cannot be taken.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")] = False,
    save: Annotated[Path | None, typer.Option(help="Save the first learner's model here at the end.")] = None,
    baseline: Annotated[bool, typer.Option(help="Run river's linear model beside.")] = True,
) -> None:
    """Replay a log: predict every event, then learn it, and say how well that went."""
    console = Console(stderr=as_json)
    with exits(), usage():
        check_place("--save", save)
        _check_directory("--report", report_to)
        _check_directory("--checkpoint", checkpoint)
        if (labels is None) != (key is None):
            raise ValueError("--labels and --key belong together")
        with _log(files, target, (start, end), strict, key, (delimiter, decimal)) as (log, given):
            names = learner or [given.name]
            parameters = {**given.parameters, **_assignments(settings or [], names[0])}
            late = _late(delay, time)
            if labels is not None and key is not None:
                if time is None:
                    log = Joined(log, labels, key, strict)
                elif delay != "0":
                    raise ValueError("--delay: with --labels and --time, labels come when their log says")
                else:
                    late = ByLabels(labels, log.target, key, time)
            keep = None
            if checkpoint is not None:
                keep = Checkpoint(
                    checkpoint,
                    {
                        "log": files, "bytes": log.size, "target": log.target, "learner": names,
                        "set": parameters, "delay": delay, "time": time, "labels": labels, "key": key,
                        "by": by, "interval": interval, "level": level, "baseline": baseline,
                        "task": task, "limit": limit,
                    },
                )  # fmt: skip
            with _showing(console, log, limit, as_json) as watch:
                told = task or (given.task if files[0].endswith(".toml") else None)
                scoring = Scoring(interval, by, level)
                run = replay(
                    log, names, told, parameters, limit, baseline, late, scoring, strict, keep, watch
                )
            if not as_json:
                for sentence in report.notes(run, log, told is None):
                    console.print(sentence, soft_wrap=True, highlight=False, markup=False)
            if sentence := report.left_out(run, log):
                console.print(sentence, soft_wrap=True, highlight=False, markup=False)
            if report_to is not None:
                with console.status(f"writing {report_to}") if console.is_terminal else nullcontext():
                    write(report_to, run, log, ["streamk", *sys.argv[1:]], {"seed": 0})
        if as_json:
            typer.echo(json.dumps(_found(run)))
        else:
            report.summary(run, console)
        if report_to is not None:
            console.print(f"the page: {report_to / 'index.html'}", soft_wrap=True, highlight=False)
        if save is not None:
            console.print(f"saved to {save}: {_save(run, save):,} bytes", soft_wrap=True, highlight=False)
        if run.error:
            raise ValueError(run.error)
    if run.interrupted:
        raise typer.Exit(130)


def _check_directory(option: str, path: Path | None) -> None:
    if path is not None and path.exists() and not path.is_dir():
        raise ValueError(f"{option} {path}: this is not a directory")


def _assignments(texts: list[str], name: str) -> dict[str, str]:
    learner, _ = settings_of(name)
    if learner not in LEARNERS:
        if texts:
            raise ValueError(f"--set is for a learner of streamk; write {name}:KEY=VALUE,…")
        return {}
    return assignments(texts, learner)


def _late(delay: str, time: str | None) -> Any:
    """Return how late labels come."""
    try:
        number = float(delay)
    except ValueError:
        raise ValueError(f"--delay {delay}: it is a number of events, or of seconds with --time") from None
    if time is not None:
        return ByTime(time, number)
    if not number.is_integer():
        raise ValueError(f"--delay {delay}: it is a whole number of events, unless there is a --time")
    return check_delay(int(number))


def _showing(
    console: Console, log: Any, limit: int | None, as_json: bool
) -> AbstractContextManager[report.Watch]:
    if console.is_terminal:
        return report.live(console, log, limit)
    return nullcontext(lambda run: None) if as_json else report.lines(console)


def _save(run: Replay, path: Path) -> int:
    model = run.learner
    model = getattr(getattr(model, "subject", model), "learner", model)
    if not isinstance(model, Learner):
        raise ValueError(f"--save {path}: {run.names[0]} is no learner of streamk, which come as model files")
    return model.save(path)


def _found(run: Replay) -> dict[str, Any]:
    """Return what ``--json`` prints."""
    results = run.results()
    contenders = {}
    for name in run.names:
        contenders[name] = {
            **{key: finite(value) for key, value in results.metrics(name).items()},
            "events_per_second": round(results.rate(name), 1),
            "model_bytes": bytes_of(run.contest.models[name]),
            "error": results.error(name),
        }
    return {
        "events": run.events,
        "task": run.task,
        "verdict": results.verdict(),
        "refused": run.refused,
        "contenders": contenders,
    }


@contextlib.contextmanager
def _log(
    files: list[str],
    target: str | None,
    bounds: tuple[str | None, str | None],
    strict: bool,
    key: str | None,
    dialect: tuple[str | None, str | None],
) -> Iterator[tuple[Any, LearnerSettings]]:
    """Open a log, or what the settings in a TOML file read; give the learner of the settings too."""
    file, (start, end) = files[0], bounds
    if not file.endswith(".toml"):
        target = required(target)
        refuse_bounds(start, end)
        if key is None:
            delimiter, decimal = dialect
            delimiter = "\t" if delimiter in ("tab", "\\t") else delimiter
            yield (
                ReplayLog(files, target, delimiter=delimiter, decimal=decimal, strict=strict),
                LearnerSettings(),
            )
        elif len(files) > 1:
            raise ValueError("--labels is for one log of events")
        else:
            yield KeyedLog(file, target, key, lenient=not strict), LearnerSettings()
        return
    if len(files) > 1:
        raise ValueError(f"{file}: the settings of a daemon stand alone")
    settings = load(Path(file))
    if target is not None:
        raise ValueError(f"--target: {file} says it, as events.target")
    if settings.source.kind == "file":
        if start is not None or end is not None:
            raise ValueError("--from and --to are for topics, and the source is a log on disk")
        events, task = settings.events, settings.learner.task

        def decoder_of(form: str, columns: list[str] | None, delimiter: str) -> Decoder:
            return events.decoder(task, columns, delimiter)

        yield (
            ReplayLog(settings.source.path, events.target, form=events.format, decoder=decoder_of),
            settings.learner,
        )
        return
    from connectors.kafka.topic_range import TopicLog, TopicRange

    decoder = settings.events.decoder(settings.learner.task)
    with connected(), TopicRange(settings.source.topic, settings.kafka, start, end) as records:
        yield TopicLog(records, decoder, settings.events.target), settings.learner
