"""``streamk show``: describe a model file."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from connectors.cli.exits import exits, usage
from connectors.learners import name_of
from connectors.models import load
from streamk.prequential.results import finite, plain_label

_BAR, _MOST = 20, 20  # characters of a bar, and rows of a table


def show_command(
    model: Annotated[Path, typer.Argument(help="A model file, or a checkpoint of a daemon.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Describe a model file: learner, parameters, events, labels, inputs, relevance, experts and size.

    Example: streamk show model.streamk
    """
    with exits(), usage():
        learner, stored = load(model)
        found = describe(learner) | {"bytes": model.stat().st_size}
        if stored is not None:
            found["target"], found["types"] = stored.get("target"), stored.get("types", {})
        if as_json:
            typer.echo(json.dumps(found))
        else:
            _print(found, Console())


def describe(learner: Any) -> dict[str, Any]:
    """Return what a learner is and holds, as values that JSON takes."""
    parameters = learner._parameters()
    defaults = {key: each.default for key, each in inspect.signature(type(learner)).parameters.items()}
    changed = {key: value for key, value in parameters.items() if not _same(value, defaults.get(key))}
    found: dict[str, Any] = {
        "class": type(learner).__name__,
        "name": name_of(learner),
        "task": "classification" if hasattr(learner, "labels") else "regression",
        "parameters": changed,
        "seed": parameters.get("seed"),
        "events": learner.events,
    }
    if hasattr(learner, "labels"):
        found["labels"] = [plain_label(label) for label in learner.labels]
    numbers, categories = list(learner.number_names), list(getattr(learner, "category_names", []))
    found |= {"numbers": numbers, "categories": categories}
    summary = getattr(learner, "summary", None)
    if callable(summary) and learner.events:
        said = summary()
        found["relevance"] = {
            str(name): _largest(values) for name, values in (said.get("relevance") or {}).items()
        }
        found["experts"] = [
            {"expert": str(each.get("expert", "")), "weight": finite(float(each.get("weight") or 0.0))}
            for each in said.get("experts") or []
        ]
    return found


def _same(value: Any, default: Any) -> bool:
    plain = list(default) if isinstance(default, tuple) else default
    return bool(value == plain)


def _largest(values: Any) -> float:
    several = values if isinstance(values, (list, tuple)) or hasattr(values, "__len__") else [values]
    return max((abs(float(value)) for value in several), default=0.0)


def _print(found: dict[str, Any], console: Console) -> None:
    facts = Table(show_header=False, box=None)
    inputs = len(found["numbers"]) + len(found["categories"])
    rows = {
        "learner": f"{found['class']} (--learner {found['name']})",
        "events": f"{found['events']:,}",
        "inputs": f"{inputs:,}: {len(found['numbers']):,} numbers, {len(found['categories']):,} categories",
        "labels": _some(found["labels"]) if "labels" in found else None,
        "target": found.get("target"),
        "seed": found["seed"],
        "parameters": ", ".join(
            f"{key}={value}" for key, value in found["parameters"].items() if key != "seed"
        )
        or "the defaults",
        "size": f"{found['bytes']:,} bytes",
    }
    for name, value in rows.items():
        if value is not None:
            facts.add_row(Text(name, style="bold"), Text(str(value)))
    console.print(facts)
    _bars(console, "relevance of inputs", found.get("relevance", {}))
    _bars(
        console, "weights of experts", {each["expert"]: each["weight"] for each in found.get("experts", [])}
    )


def _some(labels: list[Any]) -> str:
    more = f" and {len(labels) - _MOST:,} more" if len(labels) > _MOST else ""
    return f"{len(labels):,}: " + ", ".join(map(str, labels[:_MOST])) + more


def _bars(console: Console, title: str, values: dict[str, float | None]) -> None:
    known = {name: value for name, value in values.items() if value}
    if not known:
        return
    top = max(abs(value) for value in known.values())
    table = Table(title=title, title_justify="left", show_header=False, box=None)
    for name, value in sorted(known.items(), key=lambda pair: -abs(pair[1]))[:_MOST]:
        table.add_row(Text(name), Text("█" * max(1, round(_BAR * abs(value) / top))), f"{value:.3f}")
    console.print(table)
