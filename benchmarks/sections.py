"""Shared parts of benchmarks with several sections: a command line, lines of figures and targets, a loop."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

ROOT = Path(__file__).resolve().parent.parent
# Name of the measurement, figure, target if any, and whether it is met.
Row = tuple[str, str, str, bool]


def measure(description: str, sections: Mapping[str, Callable[[Path], Iterator[Row]]]) -> int:
    """Run the selected sections; return 1 if a figure misses its target."""
    parser = argparse.ArgumentParser(description=description.split("\n\n")[0])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--only", nargs="+", choices=sections, default=list(sections))
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    console, rows = Console(stderr=arguments.json), []
    for section in arguments.only:
        with console.status(f"measuring: {section}"):
            for row in sections[section](arguments.data):
                rows.append(row)
                name, found, wanted, met = row
                mark = "" if not wanted else "  ok" if met else "  MISSED"
                console.print(f"{name}: {found}  {wanted}{mark}", highlight=False, soft_wrap=True)
    if arguments.json:
        keys = ("measure", "found", "wanted", "met")
        print(json.dumps([dict(zip(keys, row, strict=True)) for row in rows]))
    return 0 if all(met for *_, met in rows) else 1


def one_by_one(model: Any, xs: list[Any], ys: list[Any]) -> list[float]:
    """Return the seconds of every event, predicted and learned."""
    latencies, now = [], time.perf_counter
    for x, y in zip(xs, ys, strict=True):
        began = now()
        model.predict_one(x)
        model.learn_one(x, y)
        latencies.append(now() - began)
    return latencies
