"""``streamk show``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from connectors.cli.exits import exits, usage

_Facts = Mapping[str, Any]  # of a model, as --json prints them
_MOST = 20  # rows of a table; --json has all
_BAR = 30  # characters of the longest bar


def show_command(
    model: Annotated[Path, typer.Argument(help="A model file, or a checkpoint of a daemon.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")] = False,
) -> None:
    """Describe a model file: learner, parameters, events, labels, inputs and their relevance.

    Inputs that are numbers are listed with the mean and the standard deviation that scale them. Relevance is
    that of fields, in shares of their sum: by how much errors grow where a field has another event's value.
    """
    with exits(), usage():
        from connectors.events.model_files import field_of, inputs_of, load
        from streamk.learners.description import describe
        from streamk.learners.summary import shares_of
        from streamk.model_file import FORMAT

        size = model.stat().st_size
        loaded = load(model)
        learner = loaded.learner
        description = describe(learner, inputs_of(loaded))
        description["fields"] = shares_of(
            description["fields"], lambda name: name if name.startswith("#") else field_of(name)
        )
        about = {
            "file": str(model),
            "bytes": size,
            "format": FORMAT,
            "learner": learner.family,
            **description,
        }
        if as_json:
            typer.echo(json.dumps(about))
        else:
            _print(about, Console())


def _print(about: _Facts, console: Console) -> None:
    from streamk.learners.summary import Summary

    facts = Table(show_header=False, box=None)
    facts.add_column(style="bold")
    facts.add_column(overflow="fold")
    changed = ", ".join(f"{key}={value}" for key, value in about["parameters"].items())
    waiting = f", and {about['pending']:,} pending until their block is full" if about["pending"] else ""
    rows = {
        "file": f"{about['file']}: {about['bytes']:,} bytes, model format {about['format']}",
        "learner": f"{about['class']} ({about['learner']}), {about['task']}",
        "parameters": changed or "the defaults",
        "seed": "none" if about["seed"] is None else str(about["seed"]),
        "events": f"{about['events']:,} learned{waiting}",
        "features": f"{about['features']:,}",
    }
    if about["labels"] is not None:
        rows["labels"] = _listed([str(label) for label in about["labels"]])
    if about["target"] is not None:
        rows["target"] = f"mean {_number(about['target']['mean'])}, "
        rows["target"] += f"standard deviation {_number(about['target']['deviation'])}"
    for name, text in rows.items():
        facts.add_row(name, Text(text))
    console.print(facts)
    if about["inputs"]:
        console.print(_inputs(about["inputs"]))
    if relevance := Summary(about).by_field():
        console.print(_relevance(relevance))
    if about["experts"]:
        console.print(_experts(about["experts"]))


def _inputs(inputs: Sequence[_Facts]) -> Table:
    table = Table(title=_title("Numbers", len(inputs)), title_justify="left")
    for column in ("input", "mean", "standard deviation", "median"):
        table.add_column(column, justify="left" if column == "input" else "right", overflow="fold")
    for row in inputs[:_MOST]:
        table.add_row(Text(row["name"]), *(_number(row[key]) for key in ("mean", "deviation", "median")))
    return table


def _relevance(relevance: Mapping[str, float]) -> Table:
    table = Table(title=_title("Relevance of inputs", len(relevance)), title_justify="left")
    table.add_column("input", overflow="fold")
    table.add_column("relevance", justify="right")
    table.add_column("", no_wrap=True)
    longest = max(relevance.values())
    for name, value in list(relevance.items())[:_MOST]:
        shown = name if not name.startswith("#") else f"{name} (a string)"
        table.add_row(Text(shown), f"{value:.3f}", "█" * round(_BAR * value / longest) if longest else "")
    return table


def _experts(experts: Sequence[_Facts]) -> Table:
    table = Table(title="Experts", title_justify="left")
    for column in ("expert", "weight", "error"):
        table.add_column(column, justify="left" if column == "expert" else "right", overflow="fold")
    for row in sorted(experts, key=lambda row: -abs(row["weight"])):
        table.add_row(Text(row["expert"]), f"{row['weight']:.3f}", _number(row["error"]))
    return table


def _title(what: str, count: int) -> str:
    return f"{what}: the first {_MOST} of {count:,}; --json has all" if count > _MOST else what


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST:,} more" if len(names) > _MOST else ""
    return f"{len(names):,}" + (f": {', '.join(names[:_MOST])}{more}" if names else "")


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.5g}"
