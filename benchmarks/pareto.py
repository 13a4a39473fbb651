"""Pictures of mean rank against speed and against size, with the front of learners that none surpasses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from matplotlib import pyplot
from matplotlib.text import Annotation
from matplotlib.ticker import NullFormatter
from matplotlib.transforms import Bbox

OURS, OTHERS = "#c8102e", "#4c6a92"


class Point(NamedTuple):
    """A learner.

    Attributes
    ----------
    value
        Events per second, or bytes.
    stopped
        Whether the time limit stopped it on a stream, where it ranks last.
    """

    name: str
    value: float
    rank: float
    stopped: bool = False


def front(points: Iterable[Point], more_is_better: bool) -> list[Point]:
    """Return the points that no other point equals or surpasses in both value and rank, by value."""
    sign = -1.0 if more_is_better else 1.0
    found: list[Point] = []
    for point in sorted(points, key=lambda point: (sign * point.value, point.rank)):
        if not found or point.rank < found[-1].rank:
            found.append(point)
    return sorted(found, key=lambda point: point.value)


def separate(names: list[Annotation]) -> None:
    """Move names down until none covers another."""
    renderer = names[0].figure.canvas.get_renderer()
    placed: list[Bbox] = []
    for name in names:
        while any(name.get_window_extent(renderer).overlaps(other) for other in placed):
            x, y = name.get_position()
            name.set_position((x, y - 2))
        placed.append(name.get_window_extent(renderer))


def draw(path: Path, panels: Mapping[str, list[Point]], label: str, more_is_better: bool) -> None:
    """Draw a panel for each title; hollow points are learners that the time limit stopped on a stream."""
    pyplot.switch_backend("agg")
    figure, axes = pyplot.subplots(
        1, len(panels), figsize=(6.5 * len(panels), 5.2), layout="constrained", squeeze=False
    )
    for panel, (title, points) in zip(axes.flat, panels.items(), strict=True):
        best = front(points, more_is_better)
        panel.step(
            [p.value for p in best], [p.rank for p in best], where="pre" if more_is_better else "post",
            color="0.7", lw=1.2, zorder=1,
        )  # fmt: skip
        for point in sorted(points, key=lambda point: point.rank):
            ours = point.name.startswith("streamk")
            color = OURS if ours else OTHERS
            panel.scatter(
                point.value, point.rank, s=70 if ours else 28, edgecolors=color, zorder=2,
                color="white" if point.stopped else color,
            )  # fmt: skip
            panel.annotate(
                point.name, (point.value, point.rank), xytext=(6, 3), textcoords="offset points",
                color=color, fontsize=9 if ours else 7, weight="bold" if ours else "normal",
            )  # fmt: skip
        panel.set(xscale="log", xlabel=label, title=title)
        left, right = panel.get_xlim()
        panel.set_xlim(left, right * (right / left) ** 0.5)  # space for names
        panel.xaxis.set_minor_formatter(NullFormatter())
        panel.invert_yaxis()
        panel.grid(alpha=0.3)
    axes.flat[0].set_ylabel("mean rank by accuracy or R² (1 is best)")
    figure.canvas.draw()
    for panel in axes.flat:
        names = [text for text in panel.texts if isinstance(text, Annotation)]
        if names:
            separate(names)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
