"""Names and formats of numbers on the page; all strings of the data pass through :func:`escape`."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping
from typing import Any

from streamk.evaluation.metric import METRICS

_SECOND = {
    "classification": ("log_loss", "accuracy", "brier", "kappa", "kappa_temporal", "balanced_accuracy"),
    "regression": ("rmse", "mae", "pinball", "coverage", "r2"),
}
# HTML has no control characters, and those that turn the direction of writing would turn what follows.
_HIDDEN = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\t\n"}
_HIDDEN |= {0x7F: 0x2421} | dict.fromkeys([*range(0x80, 0xA0), *range(0x202A, 0x202F)], 0xFFFD)
_HIDDEN |= dict.fromkeys([*range(0x2066, 0x206A), *range(0xD800, 0xE000), 0xFFFE, 0xFFFF], 0xFFFD)
MISSING = "–"


def escape(value: object) -> str:
    """Return a value as text that is only text in HTML, in attributes, too."""
    return html.escape(str(value).translate(_HIDDEN), quote=True)


def short(value: object, most: int = 22) -> str:
    """Return a text cut to so many characters, not yet escaped."""
    text = str(value)
    return text if len(text) <= most else text[: most - 1] + "…"


def metric_name(metric: str) -> str:
    """Return what a metric is called."""
    return METRICS[metric].title if metric in METRICS else metric.replace("_", " ")


def metric_order(metrics: Iterable[Mapping[str, object]]) -> list[str]:
    """Return the metrics that a contender has a value of, those of ``METRICS`` first, in its order.

    >>> metric_order([{"log_loss": 0.3, "auc": None}, {"accuracy": 0.9, "mine": 1.0, "auc": float("nan")}])
    ['accuracy', 'log_loss', 'mine']
    """
    valued = (
        name for values in metrics for name, value in values.items() if not math.isnan(number_of(value))
    )
    present = dict.fromkeys(valued)
    return [name for name in METRICS if name in present] + [name for name in present if name not in METRICS]


def better(metric: str) -> int:
    """Return 1 if more of a metric is better, -1 if less is, 0 if neither."""
    return METRICS[metric].better if metric in METRICS else 0


def second(task: str, first: str, columns: Iterable[str]) -> str:
    """Return the metric to draw beneath the headline, an empty text if the curves have none."""
    known = {*columns} - {first}
    return next((name for name in _SECOND.get(task, ()) if name in known), "")


def number_of(value: Any) -> float:
    """Return a value as a float, NaN for what is none."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def decimal(value: object, digits: int = 4) -> str:
    """Return a figure with separators, five digits or more, and so many decimals at most; a dash if unknown.

    From 10¹² on it has an exponent, and so has one whose four decimals would all be 0.

    Examples
    --------
    >>> [decimal(value) for value in (0.5, 65.0, 1234.56, -123456.7, 0.0, 0.0000123, 4.13e14)]
    ['0.5000', '65.000', '1,234.6', '−123,457', '0.0000', '1.23e−05', '4.13e+14']
    >>> decimal(0.0001, 3), decimal(65.0, 2)
    ('0.000', '65.00')
    """
    number = number_of(value)
    if not math.isfinite(number):
        return MISSING
    shown = abs(number)
    if shown >= 1e12 or (digits >= 4 and 0.0 < shown < 0.5 * 10.0**-digits):
        text = f"{number:.2e}"
    else:
        whole = math.floor(math.log10(shown)) if shown >= 1.0 else 0
        text = f"{number:,.{max(0, min(digits, 4 - whole))}f}"
    return text.replace("-", "−")


def count(value: object) -> str:
    """Return a whole number with separators, a dash if it is unknown."""
    number = number_of(value)
    return f"{number:,.0f}".replace("-", "−") if math.isfinite(number) else MISSING


def compact(number: float) -> str:
    """Return a number for an axis: with separators, from a million on as 1.5M."""
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if size <= abs(number) < 1e15:
            return f"{number / size:.4g}{letter}".replace("-", "−")
    return f"{number:,.6g}".replace("-", "−")


def size(value: object) -> str:
    """Return a number of bytes in the unit that suits it."""
    number = number_of(value)
    if not math.isfinite(number):
        return MISSING
    for unit, of in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= of:
            return f"{number / of:,.1f} {unit}"
    return f"{number:.0f} bytes"


def duration(microseconds: object) -> str:
    """Return a time in the unit that suits it."""
    number = number_of(microseconds)
    if not math.isfinite(number):
        return MISSING
    for unit, of in (("s", 1e6), ("ms", 1e3)):
        if number >= of:
            return f"{float(f'{number / of:.3g}'):,.6g} {unit}"
    return f"{number:.3g} µs"


def marked(values: Iterable[float], texts: list[str], direction: int) -> set[int]:
    """Return the indices of the best values: all with the same text; none if there are no two values."""
    known = [(direction * value, k) for k, value in enumerate(values) if math.isfinite(value)]
    if not direction or len(known) < 2:
        return set()
    best = texts[max(known)[1]]
    ties = {k for _, k in known if texts[k] == best}
    return ties if len(ties) < len(known) else set()
