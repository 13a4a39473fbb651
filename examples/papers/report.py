"""Shared parts of the papers' scripts: a command line, data that may be missing, a table and a picture.

A section of a script is a function ``(data, quick, quiet) → rows``; every row holds the paper's figure and
ours. Tables and pictures are written into one directory.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from rich.console import Console

Curve = Sequence[tuple[float, float]]
PUBLISHED = {
    "mnist": "MNIST is published by Y. LeCun, C. Cortes and C. Burges, and by OpenML (data set 554)",
    "cifar10": "CIFAR-10 is published by A. Krizhevsky at the University of Toronto",
    "boston": "Boston is published at StatLib (lib.stat.cmu.edu/datasets/boston); it is wanted with a header",
    "abalone": "Abalone is published by the UCI Machine Learning Repository; it is wanted with a header",
    "usps": "USPS is published with the LIBSVM data sets and with The Elements of Statistical Learning",
}


class MissingError(Exception):
    """A file of a section is missing."""


@dataclass(frozen=True)
class Row:
    """Name, the paper's figure, ours, and the seconds of a run or a step.

    ``met`` says whether ours is as good as a figure that the paper gives with its deviation.
    """

    what: str
    paper: str
    ours: str
    seconds: float | None = None
    megabytes: float | None = None
    met: bool | None = None


Section = Callable[[Path, bool, bool], Iterator[Row]]


def require(directory: Path, name: str, where: str) -> Path:
    """Return the path of a file; if it is missing, raise an error that names its publication."""
    path = directory / name
    if not path.is_file():
        raise MissingError(f"{path} is missing. {where}; put it there, or name another directory with --data")
    return path


def load_images(directory: Path, name: str) -> dict[str, np.ndarray]:
    """Return ``X_train, y_train, X_test, y_test`` of ``name.npz``."""
    wanted = ("X_train", "y_train", "X_test", "y_test")
    layout = "as a .npz file with X_train, y_train, X_test, y_test"
    path = require(directory, f"{name}.npz", f"{PUBLISHED[name]}; it is wanted {layout}")
    arrays = np.load(path)
    if lacking := [key for key in wanted if key not in arrays.files]:
        raise MissingError(f"{path} lacks {', '.join(lacking)}; it must hold {', '.join(wanted)}")
    return {key: arrays[key] for key in wanted}


def peak_megabytes() -> float:
    """Return the peak memory of this process so far.

    On Linux, ``getrusage`` includes the memory of the parent process before the start.
    """
    status = Path("/proc/self/status")
    if status.exists() and (found := re.search(r"VmHWM:\s*(\d+) kB", status.read_text())):
        return int(found[1]) / (1 << 10)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def plot(
    path: Path, curves: Mapping[str, Curve], x: str, y: str, papers: Mapping[str, Curve] | None = None
) -> None:
    """Draw curves, those of a paper dashed, if matplotlib is installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return
    axes = (figure := Figure(figsize=(7.0, 4.5), layout="constrained")).subplots()
    for style, group in (("-o", curves), ("--", papers or {})):
        for name, points in group.items():
            axes.plot(*zip(*points, strict=True), style, markersize=3, label=name)
    axes.set(xlabel=x, ylabel=y, xscale="log", yscale="log")
    axes.grid(visible=True, which="both", alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=120)


def markdown(rows: Iterable[Row]) -> str:
    """Return rows as a table."""
    lines = ["| what | paper | ours | seconds | peak memory |", "|---|---|---|---|---|"]
    for row in rows:
        seconds = "" if row.seconds is None else f"{row.seconds:.3g}"
        memory = "" if row.megabytes is None else f"{row.megabytes:,.0f} MB"
        mark = {None: "", True: ", met", False: ", missed"}[row.met]
        lines.append(f"| {row.what} | {row.paper} | {row.ours}{mark} | {seconds} | {memory} |")
    return "\n".join(lines) + "\n"


def run(
    description: str,
    name: str,
    sections: Mapping[str, Section],
    draw: Callable[[Path, bool], None],
) -> int:
    """Run the selected sections, print and write their rows; return 1 if data was missing.

    ``draw`` makes the picture, given its path and whether it must be quick.
    """
    given = _arguments(description, sections)
    console, rows, missing = Console(stderr=given.json), [], []
    for section in given.only:
        try:
            for row in sections[section](given.data, given.quick, given.json):
                rows.append(row if row.megabytes else replace(row, megabytes=peak_megabytes()))
                paper = f" (paper: {row.paper})" if row.paper else ""
                console.print(f"{row.what}: {row.ours}{paper}", highlight=False, soft_wrap=True)
        except MissingError as error:
            missing.append(section)
            console.print(f"{section}: {error}", style="yellow", highlight=False, soft_wrap=True)
    if rows:
        given.out.mkdir(parents=True, exist_ok=True)
        (given.out / f"{name}.md").write_text(markdown(rows))
        draw(given.out / f"{name}.png", given.quick)
        console.print(f"wrote {given.out / name}.md", highlight=False, soft_wrap=True)
    if given.json:
        print(json.dumps([asdict(row) for row in rows]))
    return 1 if missing else 0


def _arguments(description: str, sections: Mapping[str, Section]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description.split("\n\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="the directory of the data files")
    parser.add_argument("--only", nargs="+", choices=sections, default=list(sections))
    parser.add_argument("--quick", action="store_true", help="a sample, in less than two minutes")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("papers-output"), help="where table and picture go")
    return parser.parse_args()
