"""Paired comparison of two contenders on the same events: difference, significance, and start of the lead.

The advantage of the first over the second is computed for every event: for accuracy 1, 0 or −1, otherwise
the difference of the losses. Advantages are paired, so the difficulty of an event cancels. For a metric that
is no mean over events, it is the difference of jackknife pseudo-values (:mod:`streamk.evaluation.jackknife`),
and the event since which it is sure is approximate.

- *Difference*: the mean advantage with its 95 % interval, of the same test.
- *Significance*: the two-sided p value of equal contenders, by Student's t, with the standard error of
  :mod:`streamk.evaluation.bootstrap`, which includes autocorrelation, and one degree of freedom less than
  independent blocks. A tie has ``p ≥ 0.05``.
- *Sure since*: the first event ``t`` such that the same test on the events up to ``t``, and up to every later
  end of a unit, has the same leader and a ``p`` below the bound. The conclusion holds at every later event.
- *Ahead since*: the event after which the lead started, if not with the stream: the ``s`` that maximises
  ``(Σ_{u>s} a_u)/√(n − s)``, the most likely start of a lead, among those before it was significant. It is 0
  unless the log likelihood favours ``s`` by more than the cost of choosing among ``n`` starts (``log n``).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import stdtr, stdtrit

from streamk.arrays import Array
from streamk.evaluation.bootstrap import FEWEST, BatchMeans, Interval, spread
from streamk.evaluation.metric import METRICS, check_metric

SURENESS = (0.001, 0.01, 0.05)  # reported bounds of p; the last is that of a tie
LEVEL = 1.0 - SURENESS[-1]  # of intervals: an interval excludes 0 exactly if there is no tie
DIVERGED = 1000  # times the error of another


class Comparison(NamedTuple):
    """The comparison of two contenders.

    Attributes
    ----------
    first, second
        Their names.
    measure
        The metric of the advantage.
    events
        Number of compared events.
    advantage
        Of the first over the second, negative if it is worse; None if undefined.
    p
        Two-sided p value of equal contenders.
    bound
        The smallest of 0.001, 0.01 and 0.05 above ``p``; None for a tie.
    sure_since, ahead_since
        Events, as the module defines them; None for a tie.
    diverged
        The contender with an error that is not finite, or over 1,000 times the other's; empty if none.
    """

    first: str
    second: str
    measure: str
    events: int
    advantage: Interval | None
    p: float
    bound: float | None
    sure_since: int | None
    ahead_since: int | None
    diverged: str = ""

    @property
    def leader(self) -> str | None:
        """The name of the better one, None for a tie."""
        if self.diverged:
            return self.second if self.diverged == self.first else self.first
        if self.bound is None or self.advantage is None:
            return None
        return self.first if self.advantage.mean > 0.0 else self.second

    def words(self) -> str:
        """Return the comparison as a sentence."""
        first, second = self.first, self.second
        if self.diverged:
            return (
                f"{self.leader} is better than {self.diverged}, which diverged: its error is over "
                f"{DIVERGED:,} times as large"
            )
        if self.advantage is None:
            return f"{first} and {second} cannot be compared on {self.events:,} events"
        mean, low, high, level = self.advantage
        if mean < 0.0:
            first, second = second, first
            mean, low, high = -mean, -high, -low
        metric = METRICS[self.measure]
        scale, unit = metric.scale, metric.unit
        middle, least, most = _numbers(mean * scale, low * scale, high * scale)
        ends = f"{100 * level:.4g} % interval {least} to {most}"
        by = f"by {middle} {unit}"
        if self.bound is None:
            close = f"{first} and {second} are too close to call"
            return f"{close}: {first} is ahead {by} ({ends}, p = {_chance(self.p)})"
        text = f"{first} is better than {second} {by} ({ends})"
        sure = "likely" if self.bound == SURENESS[-1] else "sure"
        text += f", {sure} (p < {_chance(self.bound)}) since event {self.sure_since:,}"
        return text + (f", ahead since about event {self.ahead_since:,}" if self.ahead_since else "")


def _numbers(mean: float, low: float, high: float) -> list[str]:
    """Return numbers with the digits that their interval supports: two of its width."""
    digits = 1 - math.floor(math.log10(high - low)) if high > low else 3
    return [f"{value:,.{max(digits, 0)}f}".replace("-", "−") for value in (mean, low, high)]


def _chance(p: float) -> str:
    return f"{p:.3g}" if p < 0.01 else f"{p:.2f}"


def compare(
    advantages: BatchMeans, first: str, second: str, measure: str = "accuracy", level: float = LEVEL
) -> Comparison:
    """Return which of two contenders is better.

    Parameters
    ----------
    advantages
        Of the first over the second at every event, positive where the first is better.
    first, second
        Their names.
    measure
        The name of a metric.
    level
        Of the interval of the advantage.

    Examples
    --------
    >>> import numpy as np
    >>> units = BatchMeans()
    >>> units.add(np.random.default_rng(1).choice([-1.0, 0.0, 1.0], 20_000, p=[0.04, 0.9, 0.06]))
    >>> print(compare(units, "kernel", "ARF").words())
    kernel is better than ARF by 2.18 points of accuracy (95 % interval 1.72 to 2.64),
    sure (p < 0.001) since event 3,072
    """
    check_metric(measure)
    names = (first, second, measure, advantages.events)
    means = advantages.means()
    if len(means) < FEWEST or not np.isfinite(means).all():
        return Comparison(*names, None, 1.0, None, None, None)
    advantage, p = _tested(means, advantages.mean(), level)
    bound = next((bound for bound in SURENESS if p < bound), None)
    if bound is None:
        return Comparison(*names, advantage, p, None, None, None)
    sure = _sure_since(means, bound)
    ahead = _ahead_since(means, sure)
    return Comparison(*names, advantage, p, bound, sure * advantages.length, ahead * advantages.length)


def _tested(means: Array, mean: float, level: float) -> tuple[Interval, float]:
    """Return the confidence interval of a mean advantage, and its p value.

    Both come from one distribution, Student's t, so the interval excludes 0 exactly if ``p`` is below the
    level.
    """
    estimate = spread(means)
    if estimate.error == 0.0:
        return Interval(mean, mean, mean, level), float(mean == 0.0)
    width = float(stdtrit(estimate.drawn - 1, (1.0 + level) / 2.0)) * estimate.error
    p = float(2.0 * stdtr(estimate.drawn - 1, -abs(mean) / estimate.error))
    return Interval(mean, mean - width, mean + width, level), p


def chance(means: Array) -> float:
    """Return the two-sided p value of the mean for a true mean of 0.

    Examples
    --------
    >>> import numpy as np
    >>> chance(np.tile([1.0, -1.0], 50)), chance(np.tile([1.0, 1.1], 50)) < 1e-9
    (1.0, True)
    """
    return _tested(means, float(means.mean()), LEVEL)[1]


def _sure_since(means: Array, bound: float) -> int:
    """Return the number of units after which the result of the test never changed."""
    sign, units = means.mean() > 0.0, len(means)
    while units > FEWEST:
        before = means[: units - 1]
        if (before.mean() > 0.0) != sign or chance(before) >= bound:
            break
        units -= 1
    return units


def _ahead_since(means: Array, latest: int) -> int:
    """Return the most likely first unit of the lead, not after the latest."""
    count = len(means)
    sums = np.cumsum(means[::-1])[::-1]  # from each unit to the end
    starts = np.arange(min(count - FEWEST, latest) + 1)
    weights = np.abs(sums[starts]) * (np.sign(sums[starts]) == np.sign(sums[0])) / np.sqrt(count - starts)
    best = int(np.argmax(weights))
    if not best:
        return 0
    left = means.copy()  # without the change, which would otherwise count as noise
    left[best:] -= left[best:].mean()
    left[:best] -= left[:best].mean()
    noise = spread(left).error * math.sqrt(count)
    gained = float(weights[best] ** 2 - weights[0] ** 2) / 2.0
    return best if gained > noise * noise * math.log(count) else 0
