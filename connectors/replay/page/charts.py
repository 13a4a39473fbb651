"""Charts: curves over events, and reliability diagrams of confidence and accuracy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from connectors.replay.page.axes import (
    band,
    colour,
    grid,
    mark,
    numbers,
    path,
    picture,
    rule,
    shape,
    spread,
    stretched,
    text,
)
from connectors.replay.page.thinning import Thinned, diverged, last_of, reach, thin
from connectors.replay.page.words import count, decimal, escape, short
from streamk.arrays import Array

_HEIGHT, _TOP, _BOTTOM = 300, 12, 264  # of the curves, in pixels
_MARKS = 5  # along a line, to distinguish it from others without its colour
_MOST_ALARMS = 200  # drawn of a contender; more would be one bar
_MOST_CLIPPED = 24  # arrows of a contender along an edge


@dataclass(frozen=True)
class Line:
    """A contender's curve: a metric of every window, where the windows end, and what came with it.

    Parameters
    ----------
    name : str
        The contender.
    place : int
        Its place among the contenders, which gives colour and mark.
    events : numpy.ndarray
        The event at which every window ended.
    windows : numpy.ndarray
        The metric of every window; NaN where it is unknown.
    cumulative : numpy.ndarray, optional
        The metric from the start, at the same events.
    alarms : sequence of int
        Events at which a drift was noticed.
    """

    name: str
    place: int
    events: Array
    windows: Array
    cumulative: Array | None = None
    alarms: Sequence[float] = field(default=())


@dataclass(frozen=True)
class Reliability:
    """The accuracy of a contender by bins of its confidence."""

    name: str
    place: int
    events: Array
    confidence: Array
    accuracy: Array


def legend(names: Sequence[tuple[str, int]]) -> str:
    """Return the contenders with their colours and marks, as a list."""
    items = "".join(
        f'<li><svg class="key" aria-hidden="true" width="30" height="12" viewBox="-15 -6 30 12">'
        f'<path class="line {colour(place)}" d="M-14,0H14"/><path class="mark {colour(place)}" '
        f'd="{shape(place)}"/></svg>{escape(name)}</li>'
        for name, place in names
    )
    return f'<ul class="legend">{items}</ul>'


def line_chart(key: str, title: str, lines: Sequence[Line], bounded: bool = True) -> tuple[str, str]:
    """Draw the curves of contenders over the events.

    Parameters
    ----------
    key : str
        What the ids of the picture begin with; unique on the page.
    title : str
        The picture's name.
    lines : sequence of Line
        The curves.
    bounded : bool
        False for a metric without bounds: the axis is then not drawn for contenders that diverge.

    Returns
    -------
    picture : str
        The SVG.
    remark : str
        Remarks on clipped or missing parts; empty if the picture is complete.
    """
    ends = max((float(line.events[-1]) for line in lines if len(line.events)), default=1.0) or 1.0
    thinned = [thin(line.events, line.windows) for line in lines]
    everything = [line.windows for line in lines]
    out = set() if bounded else diverged(everything)
    drawn_for = [values for k, values in enumerate(everything) if k not in out]
    # the start of the cumulative curve varies like the first window: it may lie outside the picture
    drawn_for += [
        line.cumulative[-1:] for k, line in enumerate(lines) if line.cumulative is not None and k not in out
    ]
    low, high = reach(np.concatenate(drawn_for) if drawn_for else np.zeros(0))
    room = 0.06 * (high - low)
    bottom, top = low - room, high + room
    scale = (_BOTTOM - _TOP) / (top - bottom)

    def down(values: Array) -> Array:
        # far beyond the edge is as good as beyond it, and shorter to write
        return np.clip(_BOTTOM - (values - bottom) * scale, -400, _HEIGHT + 400)

    def across(values: Array) -> Array:
        return values / ends

    back, front, marks, said = [], [], [], []
    for line, curve in zip(lines, thinned, strict=True):
        kind = colour(line.place)
        if curve.windows > 1:
            back.append(
                f'<path class="band {kind}" d="{band(across(curve.x), down(curve.low), down(curve.high))}"/>'
            )
        if line.cumulative is not None:
            x, y = last_of(line.events, line.cumulative)
            front.append(f'<path class="line dashed {kind}" d="{path(across(x), down(y))}"/>')
        front.append(f'<path class="line {kind}" d="{path(across(curve.x), down(curve.y))}"/>')
        marks += _along(line.place, across(curve.x), down(curve.y), len(lines))
        marks += _alarms(line, curve.x, curve.y, down, ends)
        marks += _clipped(line.place, across(curve.x), curve.low, curve.high, (bottom, top))
        said.append(_said(line))
    named = [(line, float(down(known)[-1])) for line, known in _last_known(lines, thinned)]
    heights = spread([y for _, y in named], 16, _TOP, _BOTTOM)
    for (line, _), height in zip(named, heights, strict=True):
        marks.append(mark(line.place, 1, height, dx=12, kind="end"))
        marks.append(text(1, height + 4, short(line.name, 20), "end", 20))
    places = numbers(bottom, top, lambda v: _BOTTOM - (v - bottom) * scale)
    under = numbers(0, ends, lambda v: v / ends, 4)
    body = (
        grid(places, under, _TOP, _BOTTOM)
        + text(1, _BOTTOM + 34, "events", "tick right")
        + stretched(_BOTTOM, "".join(back + front))
        + "".join(marks)
    )
    drawn = picture(key, title, f"{title}. " + " ".join(said), body, _HEIGHT, "curves")
    return drawn, _remark(lines, thinned, bottom, top)


def _last_known(lines: Sequence[Line], thinned: Sequence[Thinned]) -> list[tuple[Line, Array]]:
    """Return the lines that have a known point, each with its known points."""
    points = [(line, curve.y[~np.isnan(curve.y)]) for line, curve in zip(lines, thinned, strict=True)]
    return [(line, known) for line, known in points if len(known)]


def _along(place: int, x: Array, y: Array, lines: int) -> list[str]:
    """Return marks along a line, each contender's between those of the others."""
    known = np.flatnonzero(~np.isnan(y))
    if not len(known):
        return []
    shares = (np.arange(_MARKS) + (place % lines + 0.5) / lines) / _MARKS
    chosen = np.unique(known[(shares * len(known)).astype(int)])
    return [mark(place, x[k], y[k], 0.8) for k in chosen if 0 < y[k] <= _BOTTOM]


def _alarms(line: Line, x: Array, y: Array, down: Callable[[Array], Array], ends: float) -> list[str]:
    """Return a tick on the curve for every alarm; of alarms as close as pixels, one."""
    known = ~np.isnan(y)
    inside = np.array([alarm for alarm in line.alarms if 0 <= alarm <= ends], dtype=float)
    if not known.any() or not len(inside):
        return []
    apart = np.unique((inside / ends * _MOST_ALARMS).astype(int), return_index=True)[1]
    places = np.sort(inside)[apart] if len(apart) < len(inside) else inside
    heights = np.clip(down(np.interp(places, x[known], y[known])), _TOP, _BOTTOM)
    return [
        f'<svg class="at" x="{100 * alarm / ends:.2f}%" y="{height:.1f}" overflow="visible">'
        '<path class="alarm back" d="M0,-10V10"/>'
        f'<path class="alarm {colour(line.place)}" d="M0,-10V10"/></svg>'
        for alarm, height in zip(places, heights, strict=True)
    ]


def _clipped(place: int, x: Array, lows: Array, highs: Array, edges: tuple[float, float]) -> list[str]:
    """Return an arrow at the edge of the picture wherever a curve leaves it, at most one every few pixels."""
    marks = []
    with np.errstate(invalid="ignore"):
        for beyond, y, way in ((highs > edges[1], _TOP, -1), (lows < edges[0], _BOTTOM, 1)):
            shares = (x[beyond] * _MOST_CLIPPED).astype(int)
            for k in np.unique(shares, return_index=True)[1]:
                marks.append(
                    f'<svg class="at clipped" x="{100 * x[beyond][k]:.2f}%" y="{y}" overflow="visible">'
                    f'<path class="mark {colour(place)}" d="M-5,{-3 * way}L0,{7 * way}L5,{-3 * way}z"/></svg>'
                )
    return marks


def _said(line: Line) -> str:
    """Return what a line shows as a sentence."""
    known = line.windows[np.isfinite(line.windows)]
    if not len(known):
        return f"{line.name}: no window is known."
    alarms = len(line.alarms)
    noticed = f", {count(alarms)} drift alarm{'s' if alarms > 1 else ''}" if alarms else ""
    return (
        f"{line.name}: {decimal(known[0])} in the first window, {decimal(known[-1])} in the last, "
        f"between {decimal(known.min())} and {decimal(known.max())}{noticed}."
    )


def _remark(lines: Sequence[Line], thinned: Sequence[Thinned], low: float, high: float) -> str:
    """Return what was done to the numbers so that they can be seen."""
    remarks = []
    windows = max((curve.windows for curve in thinned), default=1)
    if windows > 1:
        remarks.append(
            f"A point is the mean of {windows} windows; the shade reaches from their lowest to their highest."
        )
    clipped = []
    for line in lines:
        known = line.windows[np.isfinite(line.windows)]
        beyond = known[(known < low) | (known > high)]
        if len(beyond):
            farthest = beyond[np.argmax(np.abs(beyond))]
            which = "window" if len(beyond) == 1 else "windows"
            clipped.append(f"{line.name} in {count(len(beyond))} {which}, as far as {decimal(farthest)}")
    if clipped:
        remarks.append(
            f"The axis is clipped; arrows at its edge mark values beyond it: {'; '.join(clipped)}."
        )
    return " ".join(remarks)


def reliability_diagram(key: str, title: str, contenders: Sequence[Reliability]) -> str:
    """Draw the accuracy of contenders over their confidence; marks of more events are larger."""
    height, top, bottom = 330, 10, 290
    most = max((float(c.events.max()) for c in contenders if len(c.events)), default=1.0) or 1.0
    lines, marks, sentences = [], [], []
    for c in contenders:
        kept = (c.events > 0) & np.isfinite(c.confidence) & np.isfinite(c.accuracy)
        x, right = c.confidence[kept], c.accuracy[kept]
        y = bottom - right * (bottom - top)
        lines.append(f'<path class="line {colour(c.place)}" d="{path(x, y)}"/>')
        sizes = 0.6 + 1.6 * np.sqrt(c.events[kept] / most)
        marks += [mark(c.place, *at) for at in zip(x, y, sizes, strict=True)]
        pairs = [f"{decimal(a, 2)} confidence, {decimal(b, 2)} right" for a, b in zip(x, right, strict=True)]
        sentences.append(f"{c.name}: " + ("; ".join(pairs) or "no events") + ".")
    sides = [0.0, 0.25, 0.5, 0.75, 1.0]
    body = (
        grid(
            [(bottom - s * (bottom - top), f"{s:g}") for s in sides],
            [(s, f"{s:g}") for s in sides],
            top,
            bottom,
        )
        + rule((0, 1), (bottom, top), "ideal")
        + text(1, bottom + 34, "confidence", "tick right")
        + stretched(bottom, "".join(lines))
        + "".join(marks)
    )
    return picture(key, title, f"{title}. " + " ".join(sentences), body, height, "square")
