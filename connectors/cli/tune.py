"""``streamk tune``: successive halving of settings over one pass of a log.

All settings of a grid are contenders on the same events. From the 2,048th event on, at every doubling, two
kinds of contenders are dropped: those significantly worse than the best
(:mod:`streamk.evaluation.comparison`: ``p`` below a bound divided by the number of comparisons, after
Bonferroni), and, of three or more, those in the worse half of the ranking whose mean is worse. So a grid of
``n`` costs about ``n`` passes over the first events, and a few over all.

A dropped contender has processed fewer events than the others, so it is not ranked with them: its metric is
stored next to that of the best one, both on the events up to then.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields
from itertools import product
from types import MappingProxyType
from typing import Annotated, NamedTuple

import typer
from rich.console import Console
from rich.table import Table

from connectors.cli.arguments import Metric
from connectors.cli.exits import connected, exits, usage
from connectors.cli.reading import (
    AllowSkipped,
    FormatOptions,
    Strict,
    account_of,
    print_line,
    with_format_options,
)
from connectors.events.learners import (
    LEARNERS,
    build,
    check_parameter,
    learner_classes,
    parameter_names,
    read_parameter,
)
from connectors.events.names import DEFAULT, SEED, TASKS, seed_line
from connectors.replay import report
from connectors.replay.contenders import settings_of
from connectors.replay.logs import Reading, opened
from connectors.replay.page.words import decimal
from connectors.replay.progress import Replay, Scoring
from connectors.replay.run import replay_log
from streamk.arrays import Json
from streamk.evaluation.metric import METRICS, check_metric
from streamk.evaluation.results import Results, finite

FIRST = 2048  # events before the first contender is dropped
SURE = 0.01  # of a wrong drop by the test, over all contenders at one doubling
GRIDS: dict[str, dict[str, Sequence[str]]] = {
    "kernel": {"features": ("768", "1536", "2304"), "label_memory": ("true", "false")},
    "kaczmarz": {
        "features": ("512", "2048"),
        "bandwidth": ("none", "1", "3"),
        "memory": ("none", "1000"),
    },
    "doubly-stochastic": {"features": ("64", "256"), "bandwidth": ("none", "1", "3")},
    "matching-pursuit": {"features": ("256", "512"), "bandwidth": ("none", "1", "3")},
    "subspace-pursuit": {"features": ("512", "2048"), "bandwidth": ("none", "1", "3")},
    "kaczmarz-pursuit": {"features": ("256", "512"), "bandwidth": ("none", "1", "3")},
}


def grid_of(
    learner: str, grid: Sequence[str], fixed: Mapping[str, object] = MappingProxyType({})
) -> list[str]:
    """Return the contenders of a grid: all combinations of values.

    Parameters
    ----------
    learner
        A learner of streamk.
    grid
        ``KEY=VALUE|VALUE…`` strings; none means the learner's grid.
    fixed
        Parameters that all contenders have, unless the grid has other values of them.

    Raises
    ------
    ValueError
        If a string has another form, or the learner has no grid.

    Examples
    --------
    >>> grid_of("kaczmarz", ["features=64|128", "memory=none"])
    ['kaczmarz:features=64,memory=none', 'kaczmarz:features=128,memory=none']
    """
    values: dict[str, Sequence[str]] = {}
    known = parameter_names(learner)
    for text in grid:
        key, equals, choices = text.partition("=")
        if not equals or not key or not all(choices.split("|")):
            raise ValueError(f"--grid {text}: write KEY=VALUE|VALUE")
        check_parameter(f"--grid {text}", key, learner, known)
        values[key] = choices.split("|")
    if not values:
        if learner not in GRIDS:
            raise ValueError(f"{learner} has no grid of its own; give --grid KEY=VALUE|VALUE")
        values = dict(GRIDS[learner])
    values = {**{key: (_text(value),) for key, value in fixed.items() if key not in values}, **values}
    pairs = [[f"{key}={value}" for value in each] for key, each in values.items()]
    return [f"{learner}:{','.join(combination)}" for combination in product(*pairs)]


def _text(value: object) -> str:
    """Return a parameter of the settings as people write it in a command."""
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


class Dropped(NamedTuple):
    """A contender that was dropped, and what was known then.

    Attributes
    ----------
    events
        Events that it was scored on: as many as ``best`` was then.
    value, best_value
        The headline metric of the contender and of the best one, both on these events.
    best
        The contender that was the best then.
    reason
        In words.
    """

    events: int
    value: float
    best: str
    best_value: float
    reason: str

    @property
    def why(self) -> str:
        """The reason, with what it is about."""
        return f"{self.reason} after {self.events:,} events, when {self.best} was the best"


class Halving:
    """Drops contenders of a running replay; it is called after every chunk.

    Attributes
    ----------
    dropped
        The dropped contenders, with the results at that time.
    """

    def __init__(self, watch: Callable[[Replay], None]) -> None:
        self._watch, self._next = watch, FIRST
        self.dropped: dict[str, Dropped] = {}

    def __call__(self, run: Replay) -> None:
        """Drop contenders if that is due, and call the watcher."""
        if run.events >= self._next:
            self._next *= 2
            self._halve(run)
        self._watch(run)

    def _halve(self, run: Replay) -> None:
        results = run.results()
        ranked = results.ranking()
        if not ranked:
            return
        best, others = ranked[0], ranked[1:]
        half = (len(ranked) + 1) // 2
        for place, name in enumerate(others, 1):
            comparison = results.compare(best, name)
            advantage = comparison.advantage
            if advantage is None:
                continue
            if comparison.p < SURE / len(others):
                reason = "clearly worse"
            elif place >= half > 1 and advantage.mean > 0.0:
                reason = "in the worse half"
            else:
                continue
            value, of_best = (results.metrics_of(each, results.headline) for each in (name, best))
            dropped = self.dropped[name] = Dropped(run.events, value, best, of_best, reason)
            run.contest.drop(name, dropped.why)


def table_of(name: str, parameters: Json) -> str:
    """Return the settings of a contender as the ``[learner]`` table of a daemon's settings.

    >>> print(table_of("kaczmarz", {"features": 64, "kernel": "laplace", "memory": None}))
    [learner]
    name = "kaczmarz"
    parameters = {features = 64, kernel = "laplace"}
    """
    pairs = (f"{key} = {_toml(value)}" for key, value in parameters.items() if value is not None)
    return f'[learner]\nname = "{name}"\nparameters = {{{", ".join(pairs)}}}'


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return repr(value) if isinstance(value, (int, float)) else '"' + str(value).replace('"', '\\"') + '"'


@with_format_options
def tune_command(
    files: Annotated[
        list[str],
        typer.Argument(help="Logs, as of replay: names in order, patterns in quotes, a topic, or a .toml."),
    ],
    target: Annotated[
        str | None, typer.Option(help="The field to predict; a .toml has it as events.target.")
    ] = None,
    learner: Annotated[
        str | None, typer.Option(help=f"{', '.join(LEARNERS)}; {DEFAULT}, or that of the .toml, by default.")
    ] = None,
    grid: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE|VALUE",
            help="Values of a parameter to compare; repeat for more. The learner's own grid by default.",
        ),
    ] = None,
    task: Annotated[
        str | None, typer.Option(help=f"{' or '.join(TASKS)}; inferred from the first events by default.")
    ] = None,
    metric: Metric = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Stop after so many events.")] = None,
    delay: Annotated[int, typer.Option(min=0, metavar="EVENTS", help="How late labels arrive.")] = 0,
    reading: FormatOptions = FormatOptions(),  # noqa: B008
    strict: Strict = False,
    allow_skipped: AllowSkipped = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare settings over one pass of a log, and print the best as a table for the daemon.

    Settings that are clearly behind are dropped on the way. The ranking is among those that were scored on
    all events; each of the others is compared with the best on the events that both were scored on.
    """
    console = Console(stderr=as_json)
    errors = Console(stderr=True)
    with exits(), usage(), connected(), contextlib.ExitStack() as stack:
        check_metric(metric)
        format = reading.format(target)
        log, configured = stack.enter_context(opened(files, Reading(format, strict=strict)))
        learner = learner or configured.name
        learner_classes(learner, "--learner")
        names = grid_of(learner, grid or [], configured.parameters if learner == configured.name else {})
        of_settings = configured.task if files[0].endswith(".toml") else None
        showing: AbstractContextManager[report.Watch] = nullcontext(lambda run: None)
        if console.is_terminal:
            showing = report.live(console, log, limit)
        with showing as watch:
            halving = Halving(watch)
            run = replay_log(
                log, names, task or of_settings, None, limit, False, delay, Scoring(metric=metric),
                strict=strict, watch=halving, announce=lambda text: print_line(errors, text),
            )  # fmt: skip
        results = run.results()
        ranked = results.ranking()
        failed = {name: results.error(name) for name in run.names if name not in (*ranked, *halving.dropped)}
        if not ranked:
            raise ValueError("every setting failed: " + "; ".join(map(" ".join, failed.items())))
        _, chosen = settings_of(ranked[0])
        parameters = {key: read_parameter(value) for key, value in chosen.items()}
        account = account_of(run, log)
        default = against_default(run, halving.dropped, learner)
        if as_json:
            best = {"learner": learner, "parameters": parameters, "seed": parameters.get("seed", SEED)}
            best["default"] = default
            typer.echo(json.dumps({**best, **_fields(results, halving.dropped, failed), **account.fields()}))
        else:
            console.print(seed_line(parameters.get("seed", SEED), "--grid seed=N"), highlight=False)
            _print(run, halving.dropped, failed, console)
            print_line(console, default)
            for sentence in filter(None, [report.left_out(run, log), *account.lines()]):
                print_line(console, sentence)
            typer.echo("\n" + table_of(learner, parameters))
        if run.error:
            raise ValueError(run.error)
    if run.interrupted:
        raise typer.Exit(130)
    account.check(errors, allow_skipped)


def against_default(run: Replay, dropped: Mapping[str, Dropped], learner: str) -> str:
    """Return how the best settings compare with the default configuration, in a sentence."""
    results = run.results()
    best, plain = results.ranking()[0], build(learner, run.task, {})
    values = {each.name: getattr(plain, each.name) for each in fields(plain)}
    same = (n for n, m in results.models.items() if all(getattr(m, k) == v for k, v in values.items()))
    default = next(same, None)
    if default is None or (results.error(default) and default not in dropped):
        return "the default configuration is not among the settings that were scored"
    if default == best:
        return f"the default configuration is the best: {best}"
    if default not in dropped:
        return f"against the default configuration: {results.compare(best, default).words()}"
    each, title = dropped[default], METRICS[results.headline].title
    return (
        f"the default configuration, {default}, was dropped after {each.events:,} events with {title} "
        f"{decimal(each.value)}; the best then had {decimal(each.best_value)}"
    )


def _fields(results: Results, dropped: Mapping[str, Dropped], failed: Mapping[str, str]) -> dict[str, object]:
    """Return what ``--json`` prints of the settings."""
    ranking = [
        {
            "settings": name,
            "events": results.events,
            "metrics": {key: finite(value) for key, value in results.metrics(name).items()},
        }
        for name in results.ranking()
    ]
    return {
        "events": results.events,
        "headline": results.headline,
        "verdict": results.verdict(),
        "ranking": ranking,
        "dropped": [
            {
                "settings": name,
                "events_in_common": each.events,
                results.headline: finite(each.value),
                "best": {"settings": each.best, results.headline: finite(each.best_value)},
                "reason": each.reason,
            }
            for name, each in dropped.items()
        ],
        "failed": dict(failed),
    }


def _print(run: Replay, dropped: Mapping[str, Dropped], failed: Mapping[str, str], console: Console) -> None:
    results = run.results()
    metric = METRICS[results.headline].title
    table = Table(title="Ranking: settings scored on all events", title_justify="left")
    table.add_column("settings", overflow="fold")
    table.add_column(f"{metric} over all {run.events:,} events", justify="right")
    for name in results.ranking():
        table.add_row(name, decimal(results.metrics_of(name, results.headline)))
    console.print(table)
    if dropped:
        table = Table(title="Dropped on the way: compared on the events in common", title_justify="left")
        table.add_column("settings", overflow="fold")
        table.add_column("events in common", justify="right")
        table.add_column(metric, justify="right")
        table.add_column(f"{metric} of the best", justify="right")
        table.add_column("reason")
        for name, each in dropped.items():
            table.add_row(
                name, f"{each.events:,}", decimal(each.value), decimal(each.best_value), each.reason
            )
        console.print(table)
        for events, best in dict.fromkeys((each.events, each.best) for each in dropped.values()):
            console.print(f"the best on the first {events:,} events: {best}", soft_wrap=True, highlight=False)
    for name, error in failed.items():
        print_line(console, f"{name} failed {error}")
    print_line(console, results.verdict())
