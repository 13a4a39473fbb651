"""``streamk explain``: why a model predicts what it does, for one record or over a log.

Over a log, the importance of a field is how much worse a metric becomes when the values of the field are
exchanged between events (Breiman 2001; Fisher, Rudin and Dominici 2019). The interval is the jackknife's,
over blocks of consecutive events (:mod:`streamk.evaluation.jackknife`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text
from scipy.stats import t as student

from connectors.cli.arguments import AsJson, Metric
from connectors.cli.exits import exits, usage, working
from connectors.cli.reading import FormatOptions, Target, print_line, print_lines, with_format_options
from connectors.events.decoding import Record
from connectors.events.learners import labels_of
from connectors.events.model_files import LearnedFields, field_of, inputs_of, load, task_of, with_stored
from connectors.events.targets import interpret
from connectors.events.values import Fields
from connectors.files.log import ReplayLog
from connectors.replay.page.words import decimal
from streamk.arrays import Array, Json
from streamk.encoding.labels import Label
from streamk.evaluation.classes import ClassSums
from streamk.evaluation.jackknife import BatchSums
from streamk.evaluation.metric import METRICS, TASKS, headline_of
from streamk.evaluation.metric import Metric as Measure
from streamk.evaluation.numbers import NumberSums
from streamk.evaluation.results import finite, plain_label, plain_value
from streamk.learners.classifier import Classifier
from streamk.learners.explanation import Explanation
from streamk.learners.learner import Learner
from streamk.learners.regressor import Regressor

_BAR = 20  # characters of the longest bar
_EVENTS = 10_000
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Question:
    """What is explained: the record on a line, or the importance of fields over a log."""

    line: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Explain the record on this line of the log.")
    ] = None
    label: Annotated[
        str | None, typer.Option(help="Explain the probability of this class; the predicted one by default.")
    ] = None
    metric: Metric = None
    limit: Annotated[
        int, typer.Option(min=100, metavar="N", help="Importance over the first N events with a target.")
    ] = _EVENTS
    top: Annotated[int, typer.Option(min=1, metavar="K", help="Fields to print; --json has all.")] = 20


@with_format_options
def explain_command(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    files: Annotated[list[str], typer.Argument(help="A log, as of streamk replay.")],
    question: Question = Question(),
    target: Target = None,
    reading: FormatOptions = FormatOptions(),  # noqa: B008
    as_json: AsJson = False,
) -> None:
    """Say why a model predicts what it does: for one record of a log, or over all of them.

    With --line, the prediction is a sum of a base value and a contribution of every field. Without it, fields
    are ranked by how much worse the metric becomes when their values are exchanged between events.
    """
    console, errors = Console(), Console(stderr=True)
    line, label, top = question.line, question.label, question.top
    with exits(), usage():
        loaded = load(model)
        format = with_stored(reading.format(target), loaded.stored)
        if line is None and format.target is None:
            raise ValueError("--target: name the field to score predictions with, or a record with --line")
        log = ReplayLog(files, format.unlabelled() if line is not None else format)
        log.learned = LearnedFields.of([loaded], format.target)
        if not inputs_of(loaded):
            print_line(errors, f"{model} holds no names of fields, so those of the log are not checked")
        learner = loaded.learner.frozen()
        if line is not None:
            explained = _explained(learner, log, line, label)
            print_lines(errors, log.notes)
            typer.echo(json.dumps(explained)) if as_json else _print_sum(explained, top, console)
            return
        if label is not None:
            raise ValueError("--label: this is for one record; name it with --line")
        task = task_of([loaded]) or TASKS[1]
        measure = METRICS[headline_of(task, question.metric or ("log_loss" if task == TASKS[0] else None))]
        with working("exchanging fields"):
            events, targets = _labelled(log, task, question.limit)
            base, fields = importance_of(learner, events, targets, measure)
        print_lines(errors, log.notes)
        if as_json:
            rows = [each._asdict() for each in fields]
            shown: Json = {"events": len(events), "metric": measure.name, "value": finite(base)}
            typer.echo(json.dumps({**shown, "fields": rows}))
        else:
            _print_importance(measure, base, len(events), fields, top, console)


def _explained(learner: Learner, log: ReplayLog, line: int, label: str | None) -> Fields:
    """Return what ``--json`` prints of a record."""
    if len(log.paths) > 1:
        raise ValueError("--line: name one file, since each file counts its lines")
    x, target = _record(log, line)
    if label is not None and not isinstance(learner, Classifier):
        raise ValueError("--label: the model predicts numbers")
    try:
        explanation = _explanation(learner, x, label)
    except ValueError as error:
        raise ValueError(f"{log.place(line)}: {error}") from None
    contributions: dict[str, float] = {}
    for name, contribution in explanation.contributions.items():
        contributions[field_of(name)] = contributions.get(field_of(name), 0.0) + contribution
    ordered = sorted(contributions.items(), key=lambda item: (-abs(item[1]), item[0]))
    return {
        "file": log.name,
        "line": line,
        **({} if explanation.label is None else {"label": plain_label(explanation.label)}),
        "prediction": explanation.prediction,
        "base": explanation.base,
        "contributions": dict(ordered),
        "values": {name: plain_value(x[name]) for name, _ in ordered if x.get(name) is not None},
        **({} if target is None else {"target": plain_label(target)}),
    }


def _explanation(learner: Learner, x: Json, label: str | None) -> Explanation:
    if isinstance(learner, Classifier):
        return learner.explain_one(x, None if label is None else _label(label, learner.labels))
    assert isinstance(learner, Regressor)
    return learner.explain_one(x)


def _record(log: ReplayLog, line: int) -> tuple[Json, object]:
    """Return the event on a line, and its target; raise a ValueError that says why there is none."""
    last = 0
    for batch in log.batches():
        lines = list(batch.lines)
        if line in lines:
            return dict(batch.events[lines.index(line)]), batch.targets[lines.index(line)]
        last = max([last, *lines])
    place = str(log.place(line))
    for example in log.examples:
        if example.startswith(f"{place}:"):
            raise ValueError(example)
    if line < last:
        raise ValueError(
            f"{place} holds no event that can be read; name a line between the header and {last}"
        )
    raise ValueError(f"{place} is not there; the last event is on line {last}")


def _label(text: str, labels: Sequence[Label]) -> Label:
    for label in labels:
        if str(plain_label(label)).lower() == text.lower():
            return label
    known = ", ".join(str(plain_label(label)) for label in labels[:20])
    raise ValueError(f"--label {text}: the model has no such class; its classes are {known}")


def _print_sum(explained: Fields, top: int, console: Console) -> None:
    label, prediction = explained.get("label"), decimal(explained["prediction"])
    what = f"p({label}) = {prediction}" if "label" in explained else f"prediction {prediction}"
    actual = f"; the target is {explained['target']}" if "target" in explained else ""
    print_line(console, f"{explained['file']}, line {explained['line']}: {what}{actual}")
    rows = list(explained["contributions"].items())
    others = sum(value for _, value in rows[top:])
    table = Table(box=None, pad_edge=False)
    table.add_column("field", overflow="fold")
    table.add_column("value", overflow="ellipsis", no_wrap=True, max_width=24)
    table.add_column("contribution", justify="right")
    table.add_column("", no_wrap=True)
    table.add_row("base value", "", decimal(explained["base"]), "")
    longest = max((abs(value) for _, value in rows), default=0.0)
    for name, value in rows[:top]:
        shown = explained["values"].get(name)
        of_field = "" if shown is None else f"{shown:.6g}" if isinstance(shown, float) else str(shown)
        bar = Text(
            "█" * round(_BAR * abs(value) / longest) if longest else "", "green" if value > 0 else "red"
        )
        table.add_row(Text(name), Text(of_field), f"{'+' if value >= 0 else ''}{decimal(value)}", bar)
    if rows[top:]:
        table.add_row(
            f"{len(rows) - top:,} other fields", "", f"{'+' if others >= 0 else ''}{decimal(others)}", ""
        )
    console.print(table)


class Importance(NamedTuple):
    """How much worse a metric is when a field is exchanged, and the ends of its interval (NaN: unknown)."""

    field: str
    importance: float
    low: float | None
    high: float | None


def _labelled(log: ReplayLog, task: str, limit: int) -> tuple[list[Json], list[object]]:
    events, targets = list[Json](), list[object]()
    for batch in log.batches():
        rows = zip(batch.lines, batch.events, batch.targets, strict=True)
        for line, x, target in islice(rows, limit - len(events)):
            if target is not None:
                read = interpret(Record(line, x, target), log, task)
                events.append(read[0])
                targets.append(read[1])
        if len(events) >= limit:
            break
    if len(events) < 2:
        raise ValueError(f"{log.name} has {len(events)} events with a target {log.target!r}; two are needed")
    return events, targets


def importance_of(
    learner: Learner, events: Sequence[Json], targets: Sequence[object], measure: Measure
) -> tuple[float, list[Importance]]:
    """Return a metric of a model, and the importance of every field, the largest first.

    Parameters
    ----------
    learner
        The model; it learns nothing.
    events, targets
        In order; every field is exchanged by the same permutation.
    measure
        The metric. An importance is what it loses: that of accuracy falls, that of log loss rises.

    Examples
    --------
    >>> import streamk
    >>> events = [{"a": float(i % 7), "b": float(i % 5)} for i in range(700)]
    >>> targets = [3.0 * x["a"] for x in events]
    >>> learner = streamk.KaczmarzRegressor(features=128, seed=7)
    >>> learner.learn_many(events, targets)
    >>> _, (first, second) = importance_of(learner, events, targets, METRICS["mae"])
    >>> first.field, round(first.importance) > 4, first.low < first.importance < first.high
    ('a', True, True)
    >>> second.field, second.importance < 1.0
    ('b', True)
    """
    scored = _scorer(learner, targets)
    base = scored(events)
    before, value = base.losses(measure).means(), base.loss(measure)
    names: dict[str, list[str]] = {}
    for name in dict.fromkeys(name for x in events for name in x):
        names.setdefault(field_of(name), []).append(name)
    order = np.random.default_rng(0).permutation(len(events)).tolist()
    rows = []
    for field, inputs in names.items():
        gone = set(inputs)
        exchanged = [
            {k: v for k, v in x.items() if k not in gone} | {k: z[k] for k in inputs if k in z}
            for x, z in zip(events, map(events.__getitem__, order), strict=True)
        ]
        units = scored(exchanged)
        importance, differences = units.loss(measure) - value, units.losses(measure).means() - before
        ends = _interval(importance, np.asarray(differences))
        rows.append(Importance(field, importance, *ends))
    shown = 1.0 - value if measure.better > 0 else value
    return shown, sorted(rows, key=lambda row: (-row.importance, row.field))


def _interval(mean: float, values: Array) -> tuple[float | None, float | None]:
    count = len(values)
    if count < 2 or not np.isfinite(values).all():
        return None, None
    half = float(student.ppf(0.5 + _CONFIDENCE / 2, count - 1) * values.std(ddof=1) / np.sqrt(count))
    return mean - half, mean + half


def _scorer(
    learner: Learner, targets: Sequence[object]
) -> Callable[[Sequence[Mapping[str, object]]], BatchSums]:
    """Return what scores predictions of events in blocks."""
    labels = labels_of(learner)
    codes: dict[object, int] = {label: code for code, label in enumerate(labels or ())}
    wanted = np.array([y if labels is None else codes.setdefault(y, len(codes)) for y in targets])

    def scored(events: Sequence[Mapping[str, object]]) -> BatchSums:
        units = BatchSums(NumberSums() if labels is None else ClassSums(len(codes)))
        out = learner.view_array(events)
        if labels is None:
            units.add(wanted, out)
        else:
            table = np.pad(out, ((0, 0), (0, len(codes) - out.shape[1])))
            units.add(wanted.astype(np.int64), table, np.full(len(out), -1))
        return units

    return scored


def _print_importance(
    measure: Measure, base: float, events: int, fields: Sequence[Importance], top: int, console: Console
) -> None:
    print_line(console, f"{measure.title} {decimal(base)} over {events:,} events")
    table = Table(box=None, pad_edge=False)
    table.add_column("field", overflow="fold")
    table.add_column(f"{measure.title} {'lost' if measure.better > 0 else 'added'}", justify="right")
    table.add_column("95 % interval", justify="right")
    table.add_column("", no_wrap=True)
    longest = max((abs(row.importance) for row in fields), default=0.0)
    for row in fields[:top]:
        ends = "–" if row.low is None or row.high is None else f"{decimal(row.low)} to {decimal(row.high)}"
        bar = "█" * round(_BAR * max(row.importance, 0.0) / longest) if longest else ""
        table.add_row(Text(row.field), decimal(row.importance), ends, bar)
    console.print(table)
    if fields[top:]:
        print_line(console, f"{len(fields) - top:,} more fields; --top and --json have them")
