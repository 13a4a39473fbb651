"""Paired comparison of two learners while a stream goes by: it may be read after every event.

The advantages of one over the other, one for each event, are summed in blocks of 100, whose means vary as
independent events would not: the variance of block means includes autocorrelation within a block. A
confidence sequence holds the mean advantage at all times together with the chosen probability, so that a
decision the first time that 0 is outside is right as often as one at a time that was fixed before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from streamk.arrays import Array
from streamk.evaluation.bootstrap import Interval

BLOCK = 100  # events
FEWEST = 20  # blocks whose variance is a variance
_AT = 150  # blocks at which the sequence is narrowest


@dataclass
class SequentialComparison:
    """The comparison of two learners by their advantages.

    Attributes
    ----------
    blocks
        Number of whole blocks.
    mean, squares
        Of the block means: their mean, and the sum of squared distances from it.
    open
        The advantages of the block that is not whole.

    Examples
    --------
    >>> comparison = SequentialComparison()
    >>> comparison.add(np.tile([1.0, 0.0, 0.0, -0.5], 2500))
    >>> comparison.leads
    1
    """

    blocks: int = 0
    mean: float = 0.0
    squares: float = 0.0
    open: list[float] = field(default_factory=list)

    def add(self, advantages: Array) -> None:
        """Add the advantages of consecutive events of the first over the second, all finite."""
        self.open += advantages.tolist()
        whole = len(self.open) // BLOCK * BLOCK
        for mean in np.array(self.open[:whole]).reshape(-1, BLOCK).mean(axis=1).tolist():
            self.blocks += 1
            before, self.mean = self.mean, self.mean + (mean - self.mean) / self.blocks
            self.squares += (mean - before) * (mean - self.mean)
        del self.open[:whole]

    def merged(self, other: SequentialComparison) -> SequentialComparison:
        """Return the comparison on the whole blocks of both."""
        blocks = self.blocks + other.blocks
        if not blocks:
            return SequentialComparison()
        apart = other.mean - self.mean
        mean = self.mean + apart * other.blocks / blocks
        squares = self.squares + other.squares + apart**2 * self.blocks * other.blocks / blocks
        return SequentialComparison(blocks, mean, squares)

    def interval(self, level: float = 0.95) -> Interval | None:
        """Return the mean advantage with the ends of the confidence sequence; None before 2,000 events.

        After ``t`` blocks of mean ``m`` and deviation ``s`` it is
        ``m ± s sqrt(2(tρ² + 1)/(t²ρ²) · log(sqrt(tρ² + 1)/α))``, with ``α = 1 − level``, and ``ρ`` such that
        it is narrowest at 150 blocks (Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas 2024, Time-uniform
        central limit theory and asymptotic confidence sequences, Theorem 2.2 and Appendix B.2).
        """
        t = self.blocks
        if t < FEWEST:
            return None
        alpha = 1.0 - level
        twice = -2.0 * math.log(alpha)
        rho2 = (twice + math.log(twice + 1.0)) / _AT
        deviation = math.sqrt(self.squares / (t - 1))
        wide = 2.0 * (t * rho2 + 1.0) / (t * t * rho2) * math.log(math.sqrt(t * rho2 + 1.0) / alpha)
        half = deviation * math.sqrt(wide)
        return Interval(self.mean, self.mean - half, self.mean + half, level)

    @property
    def leads(self) -> int:
        """1 if the first is better, -1 if it is worse, 0 if that is not known yet."""
        interval = self.interval()
        if interval is None:
            return 0
        return (interval.low > 0.0) - (interval.high < 0.0)
