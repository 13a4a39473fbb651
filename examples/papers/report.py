"""What the scripts of papers share: their data, what a cell of a table cost, and the table."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path


class MissingError(Exception):
    """A file of data that is not there."""


def require(directory: Path, name: str, where: str) -> Path:
    """Return the path of a file of data, or raise a ``MissingError`` that says where it is published."""
    path = directory / name
    if not path.is_file():
        raise MissingError(f"{name} is missing from {directory}; it is published at {where}")
    return path


def peak_memory() -> float:
    """Return the most memory that this process has held so far, in MB."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (1e6 if sys.platform == "darwin" else 1e6 / 1024)


@dataclass
class Row:
    """A cell of a paper's table: its figure, ours, the seconds of one run, and whether ours is as good."""

    what: str
    paper: str
    ours: str
    seconds: float
    reached: bool | None = None
    megabytes: float = field(default_factory=peak_memory)


def markdown(rows: Iterable[Row]) -> str:
    """Return the rows as a Markdown table."""
    lines = [
        "| | paper | here | reached | seconds a run | peak memory so far, MB |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        reached = {True: "yes", False: "no", None: ""}[row.reached]
        lines.append(
            f"| {row.what} | {row.paper} | {row.ours} | {reached} | {row.seconds:.2f} | {row.megabytes:.0f} |"
        )
    return "\n".join(lines) + "\n"
