"""``streamk replay``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from connectors.cli.arguments import End, Metric, Start, assignments, check_place
from connectors.cli.exits import connected, exits, usage
from connectors.cli.reading import (
    AllowSkipped,
    FormatOptions,
    Strict,
    Target,
    account_of,
    print_line,
    print_lines,
    save_model,
    with_format_options,
)
from connectors.contract.records import Log
from connectors.events.learners import DEFAULT, LEARNERS, read_parameter
from connectors.events.model_files import LearnedFields, ModelFile, load, merged, task_of, with_stored
from connectors.events.names import SEED, seed_line
from connectors.replay import report
from connectors.replay.contenders import NONE, QUICK, REFIT, baselines, check_name, model_file, settings_of
from connectors.replay.logs import PROTOCOLS, Reading, delay_of, event_count, opened
from connectors.replay.progress import Replay, ReplayCheckpoint, Scoring, identity_of
from connectors.replay.run import replay_log
from connectors.replay.writing import write
from connectors.settings.tables import LearnerSection as LearnerSettings
from streamk.arrays import Json
from streamk.evaluation.costs import Costs
from streamk.evaluation.metric import TASKS, check_metric
from streamk.evaluation.results import bytes_of, finite
from streamk.learners.learner import Learner


@with_format_options
def replay_command(
    files: Annotated[
        list[str],
        typer.Argument(
            help="CSV, JSON lines, MessagePack or Parquet, plain or compressed, by names and patterns, in "
            "order; - is standard input, a .toml what those settings read, "
            "kafka://HOST:PORT/TOPIC a topic."
        ),
    ],
    target: Target = None,
    task: Annotated[
        str | None, typer.Option(help=f"{' or '.join(TASKS)}; inferred from the first records by default.")
    ] = None,
    learner: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[:KEY=VALUE,…]",
            help=f"{', '.join(LEARNERS)}; a model of river by its path, as river.forest.ARFClassifier; a "
            f".streamk file, with :learn=false to freeze it; refit:PATH,every=1000 (or 1d), as "
            f"refit:sklearn.svm.SVC, is refitted regularly. Repeat to compare; {DEFAULT} by default.",
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
        str | None,
        typer.Option(
            metavar="EVENTS|TIME", help="How late labels come: events; with --time also 1d, 6h or seconds."
        ),
    ] = None,
    protocol: Annotated[
        str | None, typer.Option(metavar="|".join(PROTOCOLS), help="When labels come; chunks are twentieths.")
    ] = None,
    time: Annotated[
        str | None, typer.Option(metavar="FIELD", help="Field with the time of an event, for --delay.")
    ] = None,
    labels: Annotated[
        str | None, typer.Option(metavar="LOG", help="Labels, joined on --key; they come when --time says.")
    ] = None,
    key: Annotated[
        str | None, typer.Option(metavar="FIELD", help="Field that joins events and --labels.")
    ] = None,
    by: Annotated[
        str | None, typer.Option(metavar="FIELD", help="Metrics for each value of a field.")
    ] = None,
    predictions: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write every prediction, and with --level every interval: JSON lines, or a table if it ends "
            "in .csv.",
        ),
    ] = None,
    metric: Metric = None,
    cost: Annotated[
        str | None,
        typer.Option(
            metavar="fn=COST,fp=COST",
            help="What a missed positive and a false alarm cost, as fn=50,fp=1: contenders decide by the "
            "threshold that this implies, and are ranked by the mean cost of an event.",
        ),
    ] = None,
    positive: Annotated[
        str | None, typer.Option(metavar="LABEL", help="The positive label of --cost; the rarer by default.")
    ] = None,
    interval: Annotated[
        int | None, typer.Option(min=1, help="Events of a window of the curves; it fits the log by default.")
    ] = None,
    level: Annotated[
        float | None, typer.Option(help="Score intervals of numbers of that level, as 0.9.")
    ] = None,
    report_to: Annotated[
        Path | None,
        typer.Option("--report", metavar="DIR", help="Write a page with pictures, and the figures."),
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Resume from here after an interruption.")
    ] = None,
    reading: FormatOptions = FormatOptions(),  # noqa: B008
    form: Annotated[
        str | None,
        typer.Option("--format", help="Format of a kafka:// topic: json or msgpack; json by default."),
    ] = None,
    strict: Strict = False,
    allow_skipped: AllowSkipped = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")] = False,
    save: Annotated[Path | None, typer.Option(help="Save the first learner's model here at the end.")] = None,
    baseline: Annotated[
        str,
        typer.Option(
            metavar="none|quick|full",
            help="Baselines to compare with: last value, running mean or majority class, and a linear model; "
            "full adds a Hoeffding tree.",
        ),
    ] = QUICK,
    no_baseline: Annotated[bool, typer.Option("--no-baseline", hidden=True, help="--baseline none.")] = False,
) -> None:
    """Replay a log: predict every event, then learn it, and score the predictions."""
    console = Console(stderr=as_json)
    with exits(), usage(), connected():
        baseline = NONE if no_baseline else baseline
        baselines(baseline, TASKS[0])  # refused before anything is read
        check_metric(metric)
        ranked_by = _costs(cost, positive, metric) or metric
        check_place("--save", save)
        check_place("--predictions", predictions)
        _check_directory("--report", report_to)
        _check_directory("--checkpoint", checkpoint)
        if (labels is None) != (key is None):
            raise ValueError("--labels and --key belong together")
        models = _models(learner or [])
        stored = merged(
            [] if files[0].endswith(".toml") else models
        )  # those settings say how events are read
        format = with_stored(reading.format(target), stored)
        learned = LearnedFields.of(models, format.target) if models else None
        how = Reading(format, start, end, strict, labels, key, time, form, learned)
        errors = Console(stderr=True)

        def announce(sentence: str) -> None:
            print_line(errors, sentence)

        with opened(files, how) as (log, configured):
            names = learner or [configured.name]
            for name in names:
                check_name(name, time is not None)
            parameters = _parameters(configured, names[0], settings or [])
            _check_saved(save, names[0])
            keep = None
            if checkpoint is not None:
                identity = identity_of(
                    files, log, labels, learner=names, set=parameters, delay=delay or "0", protocol=protocol,
                    time=time, key=key, by=by, interval=interval, level=level, baseline=baseline, task=task,
                    limit=limit, strict=strict, form=form, start=start, end=end, metric=metric,
                    cost=cost, positive=positive,
                    **vars(reading),
                )  # fmt: skip
                keep = ReplayCheckpoint(checkpoint, identity)
            log, late = delay_of(log, how, delay, protocol, lambda: event_count(files, how, limit))
            with _showing(console, log, limit, as_json) as watch:
                chosen = task or (configured.task if files[0].endswith(".toml") else task_of(models))
                scoring = Scoring(interval, by, level, predictions, ranked_by)
                run = replay_log(
                    log,
                    names,
                    chosen,
                    parameters,
                    limit,
                    baseline,
                    late,
                    scoring,
                    strict,
                    keep,
                    watch,
                    announce,
                )
            seed = _seed(names[0], parameters)
            more = ",random_state" if names[0].startswith(REFIT) else ":seed"
            option = "--set seed=N" if settings_of(names[0])[0] in LEARNERS else f"{names[0]}{more}=N"
            if not as_json:
                print_line(console, seed_line(seed, option))
            account = account_of(run, log)
            print_lines(console, [report.left_out(run, log), *account.lines()])
            if as_json:
                typer.echo(json.dumps({**_fields(run), "seed": seed, **account.fields()}))
            else:
                report.summary(run, console)
            if save is not None:
                save_model(_model(run), save, log.stored(), console)
            if report_to is not None:  # at the end: a full disk then loses nothing else
                with console.status(f"writing {report_to}") if console.is_terminal else nullcontext():
                    write(report_to, run, log, ["streamk", *sys.argv[1:]], {"seed": seed, **account.fields()})
                console.print(f"the page: {report_to / 'index.html'}", soft_wrap=True, highlight=False)
        if run.error:
            raise ValueError(run.error)
    if run.interrupted:
        raise typer.Exit(130)
    results = run.results()
    failed = [name for name in run.names if results.failed(name)]
    account.check(errors, allow_skipped)
    if failed:
        raise typer.Exit(1)


def _costs(cost: str | None, positive: str | None, metric: str | None) -> Costs | None:
    """Return the costs of errors, None without ``--cost``."""
    if cost is None:
        if positive is not None:
            raise ValueError(f"--positive {positive} is for --cost; give both")
        return None
    if metric not in (None, "cost"):
        raise ValueError(
            f"--cost ranks contenders by the mean cost, not by {metric}; give --cost or --metric"
        )
    try:
        pairs = {key.strip(): float(value) for key, value in (each.split("=") for each in cost.split(","))}
        return Costs(**pairs, positive=positive)
    except (TypeError, ValueError):
        raise ValueError(f"--cost {cost}: write fn=COST,fp=COST, as fn=50,fp=1") from None


def _models(names: Sequence[str]) -> list[ModelFile]:
    """Return the model files among contenders."""
    return [load(path) for path in map(model_file, names) if path is not None and path.is_file()]


def _check_directory(option: str, path: Path | None) -> None:
    """Refuse a directory that cannot be made, or written to, before anything is learned."""
    if path is None:
        return
    there = next(each for each in (path, *path.absolute().parents) if each.exists())
    if not there.is_dir():
        raise ValueError(f"{option} {path}: {'this' if there == path else there} is not a directory")
    if not os.access(there, os.W_OK):
        raise ValueError(f"{option} {path}: {there} cannot be written to")


def _check_saved(path: Path | None, name: str) -> None:
    if path is not None and name.startswith(("river.", REFIT)):
        raise ValueError(
            f"--save {path}: {name} is no learner of streamk, which come as model files; name one of streamk "
            "first"
        )


def _parameters(configured: LearnerSettings, name: str, assigned: list[str]) -> Json:
    """Return more parameters of the first contender: those of the settings are for the learner they name."""
    learner, settings = settings_of(name)
    if learner not in LEARNERS:
        if assigned:
            raise ValueError(f"--set is for a learner of streamk; write {name}:KEY=VALUE,…")
        return {}
    known = configured.parameters if learner == configured.name else {}
    known = {key: value for key, value in known.items() if key not in settings}
    return {**known, **assignments(assigned, learner)}


def _seed(name: str, parameters: Json) -> int | None:
    """Return the seed of the first contender, as its settings or --set give it."""
    settings = settings_of(name)[1]
    value = parameters.get("seed", settings.get("seed", settings.get("random_state", SEED)))
    seed: int | None = read_parameter(value) if isinstance(value, str) else value
    return seed


def _showing(
    console: Console, log: Log, limit: int | None, as_json: bool
) -> AbstractContextManager[report.Watch]:
    if console.is_terminal:
        return report.live(console, log, limit)
    return nullcontext(lambda run: None) if as_json else report.lines(console)


def _model(run: Replay) -> Learner:
    model = run.learner
    model = getattr(getattr(model, "subject", model), "learner", model)
    assert isinstance(model, Learner)
    return model


def _fields(run: Replay) -> Json:
    """Return what ``--json`` prints."""
    results = run.results()
    contenders = {}
    for name in run.names:
        contenders[name] = {
            **{key: finite(value) for key, value in results.metrics(name).items()},
            "events_per_second": round(results.rate(name), 1),
            "model_bytes": bytes_of(run.contest.models[name]),
            "error": results.error(name),
            "thresholds": results.thresholds(name),
            "worst": results.worst(name),
        }
    return {
        "events": run.events,
        "task": run.task,
        "labels": report.lateness(run).removeprefix(", "),
        "metric": results.headline,
        "costs": results.costs(),
        "verdict": results.verdict(),
        "recommendation": report.recommendation(results) if len(run.names) > 1 else "",
        "drift": run.sample.drift(),
        "refused": run.refused,
        "contenders": contenders,
    }
