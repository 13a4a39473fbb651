"""The arguments that several subcommands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Config = Annotated[Path, typer.Argument(help="The settings, a TOML file; streamk init writes an example.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
FROM = "Offset or time (ISO 8601, UTC) of the first record of a topic."
TO = "Offset or time of the first record that is skipped; default: the end at the start."
Start = Annotated[str | None, typer.Option("--from", help=FROM)]
End = Annotated[str | None, typer.Option("--to", help=TO)]

Metric = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="The metric that ranks contenders, as log_loss, auc or rmse; accuracy or mae."
    ),
]


def check_place(option: str, path: Path | None) -> None:
    """Refuse a file that cannot be written before anything is learned."""
    if path is not None and not path.absolute().parent.is_dir():
        raise ValueError(f"{option} {path}: there is no directory {path.absolute().parent}")
    if path is not None and path.exists() and not path.is_file():
        raise ValueError(f"{option} {path}: this is not a file")


def required(target: str | None) -> str:
    """Return the target of a log, refusing none."""
    if target is None:
        raise ValueError("--target: name the field to predict")
    return target


def refuse_bounds(start: str | None, end: str | None) -> None:
    """Refuse the bounds of a topic where there is none."""
    if start is not None or end is not None:
        raise ValueError("--from and --to are for the topic of a .toml")


def assignments(strings: list[str], learner: str) -> dict[str, str]:
    """Return the keys and values of ``KEY=VALUE`` strings, each key a parameter of the learner.

    >>> assignments(["features=1024", "scales=2,1,0.5"], "kaczmarz")
    {'features': '1024', 'scales': '2,1,0.5'}
    """
    from connectors.events.learners import check_parameter, parameter_names

    known = parameter_names(learner)
    parameters = {}
    for text in strings:
        key, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"--set {text}: write KEY=VALUE with KEY one of {', '.join(known)}")
        check_parameter(f"--set {text}", key, learner, known)
        parameters[key] = value
    return parameters
