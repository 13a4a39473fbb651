"""Charts of the page: curves over events, reliability diagrams, bars and histograms of latencies.

A picture has the width of its container and a fixed height, so that its text has the same size on a
telephone: horizontal lengths are shares of the width, vertical lengths are pixels. A curve of many windows is
drawn as few points, as many as a screen can show, with the range of the windows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from connectors.replay.page.words import compact, count, decimal, duration, escape, short
from streamk.arrays import Array, Json

COLOURS = 6  # of the style sheet; shapes go round with another period, so that pairs repeat late
_SHAPES = (
    "M-3.5,0a3.5,3.5 0 1,0 7,0a3.5,3.5 0 1,0 -7,0z",
    "M-3.2,-3.2h6.4v6.4h-6.4z",
    "M0,-4.4L4.3,3.4H-4.3z",
    "M0,-4.8L4.8,0L0,4.8L-4.8,0z",
    "M0,4.4L4.3,-3.4H-4.3z",
    "M-1.4,-4.4h2.8v3h3v2.8h-3v3h-2.8v-3h-3v-2.8h3z",
    "M-4,-1.5h8v3h-8z",
)
MOST = 320  # points of a line; more are closer together than a screen shows
_PROPORTION = 50  # of a curve to the lowest one: beyond, it is not what the picture is drawn for
_HEIGHT, _TOP, _BOTTOM = 300, 12, 264  # of the curves, in pixels
_MARKS = 5  # along a line, to distinguish it from others without its colour
_MOST_ALARMS = 200  # drawn of a contender; more would be one bar
_MOST_CLIPPED = 24  # arrows of a contender along an edge
_READ = 40  # windows whose values a pointer shows
_ROW, _THICK = 21, 7  # pixels: of a line of text, of a bar
_STRIP = 74  # of a histogram with its text and margin
_BINS = 60


def picture(key: str, title: str, description: str, body: str, height: float, kind: str = "") -> str:
    """Return a picture with a name and a description for those who do not see it."""
    return (
        f'<svg class="plot {kind}" role="img" aria-labelledby="{key}-t" aria-describedby="{key}-d" '
        f'width="100%" height="{height:g}"><title id="{key}-t">{escape(title)}</title>'
        f'<desc id="{key}-d">{escape(description)}</desc>{body}</svg>'
    )


def colour(place: int) -> str:
    """Return the class that colours what belongs to the contender at a place."""
    return f"c{place % COLOURS}"


def shape(place: int) -> str:
    """Return the path of a contender's mark, around the origin."""
    return _SHAPES[place % len(_SHAPES)]


def mark(place: int, x: float, y: float, scale: float = 1.0, dx: float = 0, kind: str = "") -> str:
    """Return a contender's mark at a share of the width and a pixel of the height, moved by ``dx`` pixels."""
    moved = "".join(
        ([f"translate({dx:g},0)"] if dx else []) + ([f"scale({scale:.2f})"] if scale != 1 else [])
    )
    return (
        f'<svg class="at {kind}" x="{100 * x:.2f}%" y="{y:.1f}" overflow="visible">'
        f'<path class="mark {colour(place)}" d="{shape(place)}"'
        + (f' transform="{moved}"' if moved else "")
        + "/></svg>"
    )


def ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    """Return round numbers from low to high, about as many as wanted.

    Examples
    --------
    >>> ticks(0.0, 45_312.0)
    [0.0, 10000.0, 20000.0, 30000.0, 40000.0]
    """
    rough = (high - low) / max(1, wanted)
    if not rough > 0 or not math.isfinite(rough):
        return [low]
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * k for k in (1, 2, 2.5, 5, 10) if power * k >= rough * 0.8)
    first = math.ceil(low / step - 1e-9)
    return [round(k * step, 12) + 0.0 for k in range(first, math.floor(high / step + 1e-9) + 1)]


def text(x: float, y: float, words: str, kind: str, dx: float = 0) -> str:
    """Return a text at a share of the width and a pixel of the height."""
    shift = f' dx="{dx:g}"' if dx else ""
    return f'<text class="{kind}" x="{100 * x:.2f}%" y="{y:.1f}"{shift}>{escape(words)}</text>'


def rule(x: tuple[float, float], y: tuple[float, float], kind: str) -> str:
    """Return a straight line between two shares of the width and two pixels of the height."""
    across = f'x1="{100 * x[0]:.2f}%" x2="{100 * x[1]:.2f}%"'
    return f'<line class="{kind}" {across} y1="{y[0]:.1f}" y2="{y[1]:.1f}"/>'


def grid(down: list[tuple[float, str]], across: list[tuple[float, str]], top: float, bottom: float) -> str:
    """Return lines across with numbers at the left, and numbers beneath, at these places."""
    lines = [rule((0, 1), (y, y), "grid") + text(0, y + 4, words, "tick right", -8) for y, words in down]
    lines.append(rule((0, 1), (bottom, bottom), "axis"))
    for x, words in across:
        lines.append(rule((x, x), (bottom, bottom + 5), "axis") + text(x, bottom + 19, words, "tick middle"))
    return "".join(lines)


def numbers(
    low: float, high: float, place: Callable[[float], float], wanted: int = 5
) -> list[tuple[float, str]]:
    """Return round numbers of a range, each with its place on the axis."""
    return [(place(value), compact(value)) for value in ticks(low, high, wanted)]


def path(x: Array, y: Array) -> str:
    """Return the way through points, of shares of a thousand and pixels, with a gap at what is not known."""
    parts: list[str] = []
    broken = True
    for left, down in zip(x, y, strict=True):
        if math.isnan(down):
            broken = True
            continue
        # a single point is drawn as a dot, by a line of no length with round ends
        parts.append(f"{'M' if broken else 'L'}{1000 * left:.1f},{down:.1f}" + ("h0" if broken else ""))
        broken = False
    return "".join(parts)


def band(x: Array, low: Array, high: Array) -> str:
    """Return the area between two lines, in pieces where they are not known."""
    parts: list[str] = []
    known = np.isfinite(low) & np.isfinite(high)
    edges = np.flatnonzero(np.diff(np.concatenate(([False], known, [False])).astype(int)))
    for begin, end in zip(edges[::2], edges[1::2], strict=True):
        way = [f"{1000 * x[k]:.1f},{high[k]:.1f}" for k in range(begin, end)]
        back = [f"{1000 * x[k]:.1f},{low[k]:.1f}" for k in range(end - 1, begin - 1, -1)]
        parts.append("M" + "L".join(way + back) + "z")
    return "".join(parts)


def stretched(height: float, body: str) -> str:
    """Return paths in thousandths of the width, as wide as the picture, cut at its edges."""
    return (
        f'<svg viewBox="0 0 1000 {height:g}" width="100%" height="{height:g}" '
        f'preserveAspectRatio="none">{body}</svg>'
    )


def spread(wanted: list[float], gap: float, low: float, high: float) -> list[float]:
    """Return places near the wanted ones, in their order, at distances of at least ``gap``, within bounds."""
    order = sorted(range(len(wanted)), key=lambda k: wanted[k])
    gap = min(gap, (high - low) / max(1, len(wanted) - 1))
    places = [0.0] * len(wanted)
    last = low - gap
    for k in order:
        last = places[k] = max(wanted[k], last + gap)
    last = high + gap
    for k in reversed(order):
        last = places[k] = min(places[k], last - gap)
    return places


class Thinned(NamedTuple):
    """A line of few points; ``low`` and ``high`` are the extremes of the windows behind each point."""

    x: Array
    y: Array
    low: Array
    high: Array
    windows: int


def thin(x: Array, y: Array, most: int = MOST) -> Thinned:
    """Return the means of groups of successive windows, with the lowest and the highest of each group.

    A curve that is short enough is returned unchanged. A group is a gap only if all of its windows are
    unknown.
    """
    y = np.where(np.isfinite(y), y, np.nan)
    if len(x) <= most:
        return Thinned(x, y, y, y, 1)
    windows = -(-len(x) // most)
    groups = [slice(k, k + windows) for k in range(0, len(x), windows)]
    means, lows, highs = (np.full(len(groups), np.nan) for _ in range(3))
    for k, group in enumerate(groups):
        known = y[group][~np.isnan(y[group])]
        if len(known):
            means[k], lows[k], highs[k] = known.mean(), known.min(), known.max()
    return Thinned(np.array([x[group].mean() for group in groups]), means, lows, highs, windows)


def last_of(x: Array, y: Array, most: int = MOST) -> tuple[Array, Array]:
    """Return every so many-th point and the last: enough for a curve that is smooth."""
    y = np.where(np.isfinite(y), y, np.nan)
    step = max(1, -(-len(x) // most))
    kept = np.unique(np.append(np.arange(0, len(x), step), len(x) - 1)) if len(x) else np.arange(0)
    return x[kept], y[kept]


def diverged(curves: Sequence[Array]) -> set[int]:
    """Return which curves are out of all proportion to the others: typical values over 50 times the least."""
    sizes = [np.abs(curve[np.isfinite(curve)]) for curve in curves]
    typical = [float(np.median(size)) if len(size) else math.inf for size in sizes]
    least = min(typical, default=0.0)
    return {k for k, value in enumerate(typical) if value > _PROPORTION * least > 0.0}


def reach(values: Array) -> tuple[float, float]:
    """Return the range to draw, so that a few wild windows do not flatten all the others."""
    known = values[np.isfinite(values)]
    if not len(known):
        return 0.0, 1.0
    low, high = float(known.min()), float(known.max())
    inner_low, inner_high = (float(q) for q in np.quantile(known, [0.02, 0.98]))
    inner = inner_high - inner_low
    if inner > 0 and high - low > 5 * inner:
        low, high = max(low, inner_low - inner), min(high, inner_high + inner)
    if high == low:
        room = abs(high) * 0.05 or 0.5
        return low - room, high + room
    return low, high


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
        + "".join([*marks, *_readings(lines, thinned, ends)])
    )
    drawn = picture(key, title, f"{title}. " + " ".join(said), body, _HEIGHT, "curves")
    return drawn, _remark(lines, thinned, bottom, top)


def _last_known(lines: Sequence[Line], thinned: Sequence[Thinned]) -> list[tuple[Line, Array]]:
    """Return the lines that have a known point, each with its known points."""
    points = [(line, curve.y[~np.isnan(curve.y)]) for line, curve in zip(lines, thinned, strict=True)]
    return [(line, known) for line, known in points if len(known)]


def readings(lines: Sequence[Line]) -> list[tuple[float, list[float]]]:
    """Return events at which the values of all lines are shown, and the values, NaN where one is unknown."""
    return _values(lines, [thin(line.events, line.windows) for line in lines])


def _values(lines: Sequence[Line], thinned: Sequence[Thinned]) -> list[tuple[float, list[float]]]:
    longest = max(thinned, key=lambda curve: len(curve.x))
    step = max(1, -(-len(longest.x) // _READ))
    shown = []
    for event in longest.x[step - 1 :: step]:
        near = [np.abs(curve.x - event) for curve in thinned]
        half = (longest.x[1] - longest.x[0]) / 2.0 if len(longest.x) > 1 else 0.5
        values = [
            float(curve.y[k.argmin()]) if len(k) and k.min() <= half else math.nan
            for curve, k in zip(thinned, near, strict=True)
        ]
        shown.append((float(event), values))
    return shown


def _readings(lines: Sequence[Line], thinned: Sequence[Thinned], ends: float) -> list[str]:
    """Return what shows the values of a window while a pointer is over it, without a script."""
    shown = _values(lines, thinned)
    width = 100.0 / max(1, len(shown))
    parts = []
    for event, values in shown:
        x = event / ends
        side, dx = ("reading right", -8) if x > 0.5 else ("reading", 8)
        named = [(line, value) for line, value in zip(lines, values, strict=True) if not math.isnan(value)]
        words = [text(x, _TOP + 8, f"event {count(event)}", side, dx)]
        for k, (line, value) in enumerate(named):
            value_words = f"{short(line.name, 14)} {compact(value) if abs(value) > 1e6 else decimal(value)}"
            words.append(text(x, _TOP + 26 + 16 * k, value_words, f"{side} {colour(line.place)}", dx))
        lit = rule((x, x), (_TOP, _BOTTOM), "axis") + "".join(words)
        left = max(0.0, 100 * x - width)
        parts.append(
            f'<g class="probe"><rect x="{left:.2f}%" y="0" width="{width:.2f}%" height="{_BOTTOM}"/>'
            f'<g class="shown">{lit}</g></g>'
        )
    return parts


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


def threshold_chart(key: str, title: str, curve: Json, marked: Sequence[tuple[float, str]]) -> str:
    """Draw shares over the threshold of a probability, on a scale of the logarithm of the odds.

    Parameters
    ----------
    key, title
        What the ids of the picture begin with, and its name.
    curve
        ``threshold``, and by name the shares at each, None where one is unknown.
    marked
        Thresholds with a line, and their names.
    """
    height, top, bottom = 330, 24, 290
    low, high = (math.log(t / (1.0 - t)) for t in (curve["threshold"][0], curve["threshold"][-1]))

    def across(threshold: float) -> float:
        inner = min(max(threshold, curve["threshold"][0]), curve["threshold"][-1])
        return (math.log(inner / (1.0 - inner)) - low) / (high - low)

    x = np.array([across(t) for t in curve["threshold"]])
    lines, marks, said = [], [], []
    for place, (name, shares) in enumerate(curve.items()):
        if name == "threshold":
            continue
        values = np.array([math.nan if share is None else share for share in shares])
        y = bottom - values * (bottom - top)
        lines.append(f'<path class="line {colour(place)}" d="{path(x, y)}"/>')
        marks += _along(place, x, y, len(curve))
        middle = values[len(values) // 2]
        said.append(f"{name} {decimal(middle, 3)}")
    for threshold, name in marked:
        at = across(threshold)
        marks.append(rule((at, at), (top, bottom), "ideal"))
        marks.append(text(at, top - 8, name, "tick right" if at > 0.6 else "tick", 6 if at <= 0.6 else -6))
    sides = [0.0, 0.25, 0.5, 0.75, 1.0]
    under = [(across(t), f"{t:g}") for t in (0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999)]
    body = (
        grid([(bottom - s * (bottom - top), f"{s:g}") for s in sides], under, top, bottom)
        + text(1, bottom + 34, "threshold", "tick right")
        + stretched(bottom, "".join(lines))
        + "".join(marks)
    )
    return picture(key, title, f"{title}. At 0.5: {', '.join(said)}.", body, height, "square")


def drift_chart(key: str, title: str, field: Json) -> str:
    """Draw what a field was in the windows of a log: median and band of numbers, or shares of values."""
    height, top, bottom = 92, 8, 84

    def known(values: Sequence[float | None]) -> Array:
        return np.array([math.nan if value is None else value for value in values])

    x = (np.arange(len(field["missing"])) + 0.5) / len(field["missing"])
    if "median" in field:
        lowest, middle, highest = (known(field[part]) for part in ("low", "median", "high"))
        low, high = reach(np.concatenate([lowest, highest]))
    else:
        low, high = 0.0, 1.0

    def down(values: Array) -> Array:
        return np.clip(bottom - (values - low) / (high - low) * (bottom - top), -height, 2 * height)

    if "median" in field:
        drawn = f'<path class="band c0" d="{band(x, down(lowest), down(highest))}"/>'
        drawn += f'<path class="line c0" d="{path(x, down(middle))}"/>'
        first, last = (compact(float(middle[end])) for end in (0, -1))
        said = f"median {first} in the first window, {last} in the last"
    else:
        shares = field["values"].items()
        drawn = "".join(
            f'<path class="line {colour(k)}" d="{path(x, down(known(share)))}"/>'
            for k, (_, share) in enumerate(shares)
        )
        said = "; ".join(
            f"{value} {decimal(share[0], 2)} to {decimal(share[-1], 2)}" for value, share in shares
        )
    places = numbers(low, high, lambda v: bottom - (v - low) / (high - low) * (bottom - top), 2)
    body = grid([(y, short(words, 9)) for y, words in places], [], top, bottom) + stretched(bottom, drawn)
    return picture(key, title, f"{title}: {said}.", body, height, "square small")


class BarRow(NamedTuple):
    """A named value or several, each with a bar; ``note`` is what is written for them."""

    label: str
    values: Sequence[float]
    note: str
    place: int = 0


def bar_chart(key: str, title: str, bars: Sequence[BarRow]) -> str:
    """Draw horizontal bars from zero, each beneath its label; of several values the later ones are paler."""
    known = [value for bar in bars for value in bar.values if math.isfinite(value)]
    low, high = min([0.0, *known]), max([0.0, *known])
    reach = (high - low) or 1.0
    zero = abs(low) / reach
    parts, y = [], 0.0
    for bar in bars:
        parts.append(
            text(0, y + 14, short(bar.label, 26), "label") + text(1, y + 14, bar.note, "value right")
        )
        y += _ROW
        for k, value in enumerate(bar.values):
            if math.isfinite(value):
                left, right = sorted((zero, zero + value / reach))
                pale = " pale" if k else ""
                parts.append(
                    f'<rect class="bar {colour(bar.place)}{pale}" x="{100 * left:.2f}%" y="{y:.1f}" '
                    f'width="{max(100 * (right - left), 0.2):.2f}%" height="{_THICK}" rx="1"/>'
                )
            y += _THICK + 2
        if low < 0:
            parts.append(rule((zero, zero), (y - len(bar.values) * (_THICK + 2) - 3, y + 1), "axis"))
        y += 9
    said = "; ".join(f"{bar.label} {bar.note}" for bar in bars)
    return picture(key, title, f"{title}: {said}.", "".join(parts), max(y, 1), "bars")


class LatencyBars(NamedTuple):
    """A contender's latencies per event, in microseconds."""

    name: str
    place: int
    microseconds: Array


def histogram(key: str, title: str, contenders: Sequence[LatencyBars]) -> str:
    """Draw how latencies are spread, contenders beneath each other, over powers of ten."""
    kept = [(c, c.microseconds[np.isfinite(c.microseconds) & (c.microseconds > 0)]) for c in contenders]
    known = np.concatenate([sample for _, sample in kept if len(sample)] or [np.ones(1)])
    low, high = math.log10(float(known.min())), math.log10(float(known.max()))
    # a few pauses of the machine would otherwise take most of the width
    high = (
        min(high, max(math.log10(float(np.quantile(s, 0.999))) for _, s in kept if len(s)) + 0.1)
        if kept
        else high
    )
    low, high = (low - 0.05, high + 0.05) if high - low < 0.1 else (low, high)
    edges = np.linspace(low, high, _BINS + 1)
    parts, said = [], []
    for k, (c, sample) in enumerate(kept):
        top, floor = k * _STRIP, (k + 1) * _STRIP - 10
        parts.append(text(0, top + 12, short(c.name, 22), "label") + rule((0, 1), (floor, floor), "axis"))
        if not len(sample):
            continue
        counts = np.histogram(np.clip(np.log10(sample), low, high), edges)[0]
        for b in np.flatnonzero(counts):
            tall = max(1.0, (floor - top - 20) * counts[b] / counts.max())
            parts.append(
                f'<rect class="bar {colour(c.place)}" x="{100 * b / _BINS:.2f}%" y="{floor - tall:.1f}" '
                f'width="{100 / _BINS - 0.25:.2f}%" height="{tall:.1f}"/>'
            )
        half, most, rare = (float(q) for q in np.quantile(sample, [0.5, 0.99, 0.999]))
        for value, kind in ((half, "middle-of"), (most, "tail-of")):
            place = min(1.0, max(0.0, (math.log10(value) - low) / (high - low)))
            parts.append(rule((place, place), (top + 18, floor + 4), kind))
        words = f"median {duration(half)}, 99% {duration(most)}"
        parts.append(text(1, top + 12, words, "value right"))
        said.append(f"{c.name}: {words}, 99.9% {duration(rare)}.")
    bottom = len(kept) * _STRIP
    for value, words in _powers(low, high):
        place = (value - low) / (high - low)
        parts.append(text(place, bottom + 12, words, "tick middle"))
        parts.append(rule((place, place), (bottom - 10, bottom - 4), "axis"))
    return picture(key, title, f"{title}. " + " ".join(said), "".join(parts), bottom + 20, "strips")


def _powers(low: float, high: float) -> list[tuple[float, str]]:
    """Return round times of a range of logarithms, with their words; of a wide one only the powers of ten."""
    steps = (1, 2, 5) if high - low < 1.6 else (1,)
    values = [
        math.log10(step) + power for power in range(math.floor(low), math.ceil(high) + 1) for step in steps
    ]
    return [(value, duration(10**value)) for value in values if low <= value <= high]
