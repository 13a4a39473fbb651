"""The picture of the README: mean rank against speed, of every learner that finished all streams.

    python benchmarks/front.py

Ranks, speeds and names come from the tables of ``docs/streams.md``, which ``benchmarks/streams.py`` writes.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from matplotlib import pyplot
from matplotlib.text import Annotation
from matplotlib.transforms import Bbox

DOCS = Path(__file__).resolve().parent.parent / "docs"
NOT_NAMED = {"last label", "last target"}  # baselines without a model


class Peer(NamedTuple):
    """A learner: its mean rank without labels as inputs, and the median of its events per second."""

    name: str
    rank: float
    speed: float


def tables(text: str) -> list[list[dict[str, str]]]:
    """Return the tables of a page as rows by column."""
    found = []
    for block in re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE):
        lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()]
        found.append([dict(zip(lines[0], line, strict=True)) for line in lines[2:]])
    return found


def peers(section: str) -> list[Peer]:
    """Return the learners of a section that have a mean rank and a speed."""
    ranks: dict[str, float] = {}
    speeds: dict[str, float] = {}
    for rows in tables(section):
        for row in rows:
            name, rank, speed = row.get("learner"), row.get("without labels", ""), row.get("events/s")
            if name is None or name.startswith("*"):
                continue
            if speed is not None:
                speeds[name] = float(speed.replace(",", ""))
            elif re.fullmatch(r"\d+\.\d+", rank):
                ranks[name] = float(rank)
    return [Peer(name, rank, speeds[name]) for name, rank in ranks.items() if name not in NOT_NAMED]


def separate(names: list[Annotation]) -> None:
    """Move names down until none covers another."""
    renderer = names[0].figure.canvas.get_renderer()
    placed: list[Bbox] = []
    for name in names:
        while any(name.get_window_extent(renderer).overlaps(other) for other in placed):
            x, y = name.get_position()
            name.set_position((x, y - 2))
        placed.append(name.get_window_extent(renderer))


def draw(path: Path) -> None:
    """Draw both sections of the page into a file."""
    text = (DOCS / "streams.md").read_text()
    classes, numbers = re.split(r"^## Numbers", text, maxsplit=1, flags=re.MULTILINE)
    pyplot.switch_backend("agg")
    figure, panels = pyplot.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
    for panel, section, title in zip(
        panels, (classes, numbers), ("14 streams of classes", "10 streams of numbers"), strict=True
    ):
        for peer in sorted(peers(section), key=lambda peer: peer.rank):
            ours = peer.name.startswith("streamk")
            color = "#c8102e" if ours else "#4c6a92"
            panel.scatter(peer.speed, peer.rank, s=70 if ours else 28, color=color, zorder=2)
            panel.annotate(
                peer.name, (peer.speed, peer.rank), xytext=(6, 3), textcoords="offset points", color=color,
                fontsize=9 if ours else 7, weight="bold" if ours else "normal",
            )  # fmt: skip
        panel.set(xscale="log", xlabel="events per second", title=title)
        panel.set_xlim(panel.get_xlim()[0], 6.0 * panel.get_xlim()[1])  # space for names
        panel.invert_yaxis()
        panel.grid(alpha=0.3)
    figure.canvas.draw()
    for panel in panels:
        separate([text for text in panel.texts if isinstance(text, Annotation)])
    panels[0].set_ylabel("mean rank by accuracy or R² (1 is best)")
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    draw(DOCS / "rank-and-speed.png")
