"""``streamk merge``."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from connectors.cli.arguments import check_place
from connectors.cli.exits import exits, usage, working

_Row = dict[str, object]
_COLUMNS = "file", "class", "events", "labels", "fields", "bytes"


def merge_command(
    models: Annotated[list[Path], typer.Argument(help="Model files, or checkpoints, of one learner.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the merged model goes.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")] = False,
) -> None:
    """Merge models that learned parts of a stream into one that has learned the events of all.

    They must have the same parameters and the same seed. Events that wait for their block to fill are
    learned first, as a shorter block.
    """
    with exits(), usage():
        rows, whole = _merge(models, output)
        if as_json:
            typer.echo(json.dumps({"models": rows, "merged": whole}))
            return
        table = Table()
        for name in _COLUMNS:
            table.add_column(name, justify="left" if name in ("file", "class") else "right", overflow="fold")
        for row in rows:
            table.add_row(*map(_cell, row.values()))
        table.add_section()
        table.add_row(*map(_cell, whole.values()))
        Console().print(table)


def _merge(models: list[Path], output: Path) -> tuple[list[_Row], _Row]:
    """Write the merged model, and return the rows of the models and of the merged one."""
    with working(f"merging {len(models)} models"):
        import streamk
        from connectors.events import model_files as model_files

        for path in models:
            if path.exists() and output.exists() and output.samefile(path):
                raise ValueError(f"-o {output} is one of the models to merge; name another file")
        there = [path.resolve() for path in models]
        if twice := next((path for path in models if there.count(path.resolve()) > 1), None):
            raise ValueError(f"{twice} is named twice, and its events would count twice")
        check_place("-o", output)
        files = list(map(model_files.load, models))
        loaded = [file.learner for file in files]
        stored = model_files.merged(files)
        rows = [_row(path, path.stat().st_size, model) for path, model in zip(models, loaded, strict=True)]
        model_files.require_common(files)
        for model in loaded:
            model.flush()
        try:
            merged = streamk.merge(loaded)
        except ValueError as error:
            raise ValueError(_with_names(str(error), models)) from None
        return rows, _row(output, model_files.save(merged, output, stored), merged)


def _row(path: Path, size: int, model: Any) -> _Row:
    names = model.number_names
    return {
        "file": str(path),
        "class": type(model).__name__,
        "events": model.events + model.pending,
        "labels": len(model.labels) if hasattr(model, "labels") else None,
        "fields": None if names is None else len(names),
        "bytes": size,
    }


def _cell(value: object) -> str:
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def _with_names(sentence: str, models: list[Path]) -> str:
    """Return a sentence of :func:`streamk.merge` that names files instead of numbers.

    >>> _with_names("model 1 has seed 2 and model 0 1", [Path("a"), Path("b")])
    'b has seed 2 and a 1'
    """
    return re.sub(r"\bmodel (\d+)\b", lambda match: str(models[int(match[1])]), sentence)
