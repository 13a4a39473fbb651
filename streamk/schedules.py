"""Schedules: how the regulariser and the features grow with events, and how iterates are averaged."""

from __future__ import annotations

import math

from streamk.compiling import both

GROWTHS = ("fixed", "sqrt", "linear")
DOUBLING = "doubling"  # a block that restarts whenever events have doubled, from one period on
ANNEALING = 256.0
ETA = 3.0


@both()
def regularization_at(rho, memory, events):
    """Return ``ρ_t = ρ (1 + min(n, memory)/256)`` after ``n`` events.

    The growth turns a constant-gain filter into a decreasing-gain one, whose single pass ends near
    the ridge solution. A finite ``memory`` stops the growth, so that the learner keeps following drift;
    ``memory = 0`` is the constant gain.
    """
    return rho * (1.0 + min(events, memory) / ANNEALING)


@both()
def averaging_weight(step):
    """Return ``(η + 1)/(t + η)``, ``η = 3``: the weight of iterate ``t = 1, 2, …`` in the average.

    Polynomial-decay averaging (Shamir and Zhang 2013) forgets the first iterates without a known number
    of iterates.
    """
    return (ETA + 1.0) / (step + ETA)


def openings_at(growth: str, period: int, events: int) -> int:
    """Return how many blocks of features have been opened before the event that follows ``events``.

    ``1`` (fixed), ``⌊√(1 + n/period)⌋`` (sqrt) or ``⌊1 + n/period⌋`` (linear); and ``1``, from ``period`` on
    ``2 + ⌊log₂(n/period)⌋``, where a block restarts whenever events have doubled. ``F ∝ √n`` is the rate
    at which ridge regression on random features keeps the optimal learning rate (Rudi and Rosasco 2017); the
    doubly stochastic gradients of Dai et al. (2014) grow linearly.

    Examples
    --------
    >>> [openings_at("sqrt", 1000, n) for n in (0, 2999, 3000, 8000)]
    [1, 1, 2, 3]
    >>> openings_at("linear", 1000, 2999)
    3
    """
    if growth == "fixed":
        return 1
    if growth == DOUBLING:
        return 1 + (events // period).bit_length()
    periods = 1 + events // period
    return math.isqrt(periods) if growth == "sqrt" else periods


def events_before_opening(growth: str, period: int, opening: int) -> float:
    """Return the number of events before opening ``opening`` (1, 2, …); infinite if it never happens."""
    if opening == 1:
        return 0.0
    if growth == "fixed":
        return math.inf
    if growth == DOUBLING:
        return float(period << (opening - 2))
    return float(period * ((opening**2 if growth == "sqrt" else opening) - 1))


class Growth:
    """Openings of blocks of features, as a function of the number of learned events alone.

    Parameters
    ----------
    growth, period
        See :func:`openings_at`.
    size
        Features of a block.
    most
        Maximum number of features; at this number, blocks are opened again.
    """

    def __init__(self, growth: str, period: int, size: int, most: int) -> None:
        self.growth, self.period, self.size = growth, period, size
        self.most_blocks = 1 if growth == "fixed" else most // size
        self.openings, self.next = 0, 0.0

    def due(self, events: float) -> bool:
        """Return whether a block opens after so many events."""
        return events >= self.next

    def openings_at(self, events: int) -> int:
        """Return the number of openings after so many events."""
        return openings_at(self.growth, self.period, events)

    def until_next(self, events: int) -> float:
        """Return the number of events before the next opening, except one that is due now."""
        return events_before_opening(self.growth, self.period, self.openings_at(events) + 1) - events

    def since(self, before: Growth, events: int) -> range:
        """Return the openings since ``before``, after so many events; of those due at once, the last."""
        return range(max(self.openings_at(events), before.openings + 1), self.openings + 1)

    def open(self, events: int) -> bool:
        """Count the openings that are due; return whether the last one opens a new block."""
        before = self.blocks if self.openings else 0
        self.count(self.openings_at(events))
        return self.blocks > before

    def count(self, openings: int) -> None:
        """Set the number of openings."""
        self.openings = openings
        self.next = events_before_opening(self.growth, self.period, openings + 1)

    def open_again(self) -> None:
        """Open the block of the last opening again at the next event."""
        self.next = 0.0

    @property
    def blocks(self) -> int:
        """Number of blocks opened so far."""
        return max(1, min(self.openings, self.most_blocks))

    @property
    def columns(self) -> slice:
        """The columns of the last opened block."""
        first = (self.openings - 1) % self.most_blocks * self.size
        return slice(first, first + self.size)
