"""Bar charts, and histograms of latencies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from connectors.replay.page.axes import colour, picture, rule, text
from connectors.replay.page.words import duration, short
from streamk.arrays import Array

_ROW, _THICK = 21, 7  # pixels: of a line of text, of a bar
_STRIP = 74  # of a histogram with its text and margin
_BINS = 60


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
