"""The recommendation of a contender, in one sentence, by error, time and memory."""

from __future__ import annotations

import math

from connectors.replay.page.words import decimal, size
from streamk.evaluation import Results
from streamk.evaluation.comparison import Comparison
from streamk.evaluation.metric import METRICS
from streamk.evaluation.results import bytes_of


def recommendation(results: Results) -> str:
    """Return which contender to use and why, empty if none is left.

    It is the best one, unless a contender that is not worse for sure (``p >= 0.05``) takes less time an
    event: then it is the cheapest of these. What it gains and costs is in comparison with the next best of
    the others.

    Parameters
    ----------
    results
        Of a replay; its times differ from run to run, and so may the sentence.
    """
    ranked = results.ranking()
    if not ranked:
        return ""
    best = ranked[0]
    if len(ranked) == 1:
        return f"Use {best}: no other contender is left"
    equals = [best, *(name for name in ranked[1:] if _tied(results.compare(best, name)))]
    chosen = min(equals, key=lambda name: _seconds(results, name))
    if chosen != best:
        return (
            f"Use {chosen}: {best} is not better for sure ({_interval(results.compare(best, chosen))}) "
            f"and takes {_times(_seconds(results, best), _seconds(results, chosen))} its time"
            f"{_memory(results, chosen, best)}"
        )
    other = next(name for name in ranked if name != chosen)
    compared = results.compare(chosen, other)
    cost = _times(_seconds(results, chosen), _seconds(results, other))
    if compared.diverged:
        memory = _memory(results, chosen, other).replace(" and ", "; it takes ", 1)
        return f"Use {chosen}: {other} diverged{memory}"
    if _tied(compared):
        return (
            f"Use {chosen}: {other} is not worse for sure ({_interval(compared)}), and {chosen} takes {cost} "
            f"its time{_memory(results, chosen, other)}"
        )
    gain, unit = _gain(compared)
    return (
        f"Use {chosen}: its error is {gain} {unit} below that of {other} ({_interval(compared)}) for {cost} "
        f"its time{_memory(results, chosen, other)}"
    )


def _tied(comparison: Comparison) -> bool:
    return comparison.leader is None


def _seconds(results: Results, name: str) -> float:
    """Return the seconds that an event costs, none if that was not measured."""
    rate = results.rate(name)
    return 1.0 / rate if rate else 0.0


def _times(ours: float, other: float) -> str:
    if not ours or not other:
        return "an unknown multiple of"
    ratio = ours / other
    return f"{ratio:,.0f} times" if ratio >= 9.5 else f"{ratio:.2g} times"


def _memory(results: Results, name: str, other: str) -> str:
    """Return the size of a model, next to the other's where that is known; empty if it is not known."""
    ours, theirs = (bytes_of(results.models[each]) for each in (name, other))
    if ours is None:
        return ""
    return f" and {size(ours)}" + ("" if theirs is None else f" (against {size(theirs)})")


def _gain(comparison: Comparison) -> tuple[str, str]:
    scale = METRICS[comparison.measure].scale
    mean = 0.0 if comparison.advantage is None else abs(comparison.advantage.mean) * scale
    return _figure(mean), "points" if comparison.measure == "accuracy" else "of MAE"


def _interval(comparison: Comparison) -> str:
    if comparison.advantage is None:
        return "it cannot be compared"
    scale = METRICS[comparison.measure].scale
    low, high = sorted((comparison.advantage.low * scale, comparison.advantage.high * scale))
    if comparison.advantage.mean < 0.0:
        low, high = -high, -low
    return f"{100 * comparison.advantage.level:.4g} % interval {_figure(low)} to {_figure(high)}"


def _figure(value: float) -> str:
    """Return a figure with three digits, or all of a whole number of thousands."""
    return decimal(value, max(0, 2 - math.floor(math.log10(abs(value)))) if 0.0 < abs(value) < 1e3 else 0)
