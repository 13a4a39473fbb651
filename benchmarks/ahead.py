"""The picture of the first page: on how many streams the defaults are ahead of all learners of a kind.

    python benchmarks/ahead.py [--file docs/board.jsonl] [--output docs/ahead.svg] [--json]

It reads the results that ``benchmarks/board.py`` measured. With prompt labels, kinds are trees, linear
models, neighbours and the network of Vowpal Wabbit, without earlier labels as inputs; with labels a twentieth
of the stream late, LightGBM that is fitted again to all events before each part. A learner is ahead on a
stream if its accuracy or R² is higher than that of every learner of the kind; one that the time limit stopped
counts as behind. Streams of a million events do not count with prompt labels.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

import ours
from contest import PROMPT
from data_file import DataFile
from logs import CHUNKED, CLASSES, LONG, NUMBERS, STREAMS
from sections import ROOT
from tables import METRICS, figures, settings_of

from connectors.replay.logs import CHUNKS

TREES = (
    "MOA ARF",
    "MOA LeveragingBagging",
    "MOA SRP",
    "MOA SGBR",
    "MOA HAT",
    "MOA FIMT-DD",
    "river HAT",
    "river AMRules",
)
LINEAR = "river L", "river PA", "river ALMA", "Vowpal Wabbit!", "Vowpal Wabbit --coin", "Vowpal Wabbit -q"
KINDS: Mapping[
    str, tuple[str, tuple[str, ...]]
] = {  # the protocol, and how names of learners, with a ! after them, begin
    "trees and rules (river, MOA)": (PROMPT, TREES),
    "linear models (river, Vowpal Wabbit)": (PROMPT, LINEAR),
    "nearest neighbours (MOA)": (PROMPT, ("MOA kNN",)),
    "a neural network (Vowpal Wabbit)": (PROMPT, ("Vowpal Wabbit --nn",)),
    "LightGBM, fitted again to all before": (CHUNKS, ("LightGBM",)),
}
HEADINGS = {
    PROMPT: "Labels at once: ahead of",
    CHUNKS: "Labels late by a twentieth of the stream: ahead of",
}
OURS, OTHERS, TEXT = "#c8102e", "#d9dee6", "#1f2933"
WIDTH, LINE, BAR = 360, 15, 12


class Count(NamedTuple):
    """On how many streams the default is ahead of all learners of a kind."""

    kind: str
    protocol: str
    ahead: int
    streams: int


def counts(results: DataFile) -> list[Count]:
    """Return a count for each kind."""
    return [count(results, kind, protocol, begins) for kind, (protocol, begins) in KINDS.items()]


def count(results: DataFile, kind: str, protocol: str, begins: tuple[str, ...]) -> Count:
    """Return the count of a kind."""
    ahead = streams = 0
    streams_of = CHUNKED if protocol == CHUNKS else set(STREAMS) - set(LONG)
    rows = [r for r in results if r["protocol"] == protocol and r["stream"] in streams_of]
    for task in (CLASSES, NUMBERS):
        scores = settings_of({"": figures(rows, task, False)}, METRICS[task][0])[""]
        first = next(found for name, found in scores.items() if name == ours.NAMES[task])
        others = [by for name, by in scores.items() if f"{name}!".startswith(begins)]
        for stream, score in first.items():
            there = [by[stream] for by in others if stream in by]
            streams += bool(there)
            ahead += bool(there) and score > max(there)
    return Count(kind, protocol, ahead, streams)


def draw(found: list[Count]) -> str:
    """Return the picture as SVG, readable at 360 pixels and wider."""
    parts, y, last = [], 20, ""
    for each in found:
        if each.protocol != last:
            y += 24 if last else 0
            parts.append(text(0, y, HEADINGS[each.protocol], bold=True))
            y, last = y + 8, each.protocol
        y += LINE + 4
        parts.append(text(0, y, each.kind))
        parts.append(text(WIDTH, y, f"{each.ahead} of {each.streams} streams", end=True))
        y += 6
        full = WIDTH * each.ahead / each.streams
        parts.append(f'<rect x="0" y="{y}" width="{WIDTH}" height="{BAR}" rx="2" fill="{OTHERS}"/>')
        parts.append(f'<rect x="0" y="{y}" width="{full:.1f}" height="{BAR}" rx="2" fill="{OURS}"/>')
        y += BAR + 6
    title = "Streams on which streamk's default is ahead of all learners of a kind"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-12 0 {WIDTH + 24} {y + 6}" role="img" '
        f'aria-label="{escape(title)}" font-family="system-ui, sans-serif" font-size="13" fill="{TEXT}">'
        f'<title>{escape(title)}</title><rect x="-12" width="{WIDTH + 24}" height="{y + 6}" fill="#fff"/>'
        + "".join(parts)
        + "</svg>\n"
    )


def text(x: float, y: float, words: str, bold: bool = False, end: bool = False) -> str:
    """Return a line of text, which begins or ends at a place."""
    weight = (' font-weight="600"' if bold else "") + (' text-anchor="end"' if end else "")
    return f'<text x="{x}" y="{y}"{weight}>{escape(words)}</text>'


def main() -> None:
    """Count, and write the picture."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--file", type=Path, default=ROOT / "docs/board.jsonl")
    parser.add_argument("--output", type=Path, default=ROOT / "docs/ahead.svg")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found = counts(DataFile(arguments.file))
    arguments.output.write_text(draw(found))
    if arguments.json:
        print(json.dumps([each._asdict() for each in found]))
    else:
        for each in found:
            print(f"{each.ahead} of {each.streams}: {each.kind} ({each.protocol})")


if __name__ == "__main__":
    main()
