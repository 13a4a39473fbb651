"""Parts of charts: a named picture, axes with round numbers, and the marks of contenders.

A picture has the width of its container and a fixed height, so that its text has the same size on a
telephone: horizontal lengths are shares of the width, vertical lengths are pixels.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from connectors.replay.page.words import compact, escape
from streamk.arrays import Array

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
