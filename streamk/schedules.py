"""Schedules: how the regulariser and the features grow with events, and how iterates are averaged."""

from __future__ import annotations

import math

from numba import njit

GROWTHS = ("fixed", "sqrt", "linear")
ANNEALING = 256.0
ETA = 3.0


@njit(cache=True, error_model="numpy")
def regularization_at(rho, memory, events):  # type: ignore[no-untyped-def]
    """Return ``ρ_t = ρ (1 + min(n, memory)/256)`` after ``n`` events.

    The growth turns a constant-gain filter into a decreasing-gain one, whose single pass ends near
    the ridge solution. A finite ``memory`` stops the growth, so that the learner keeps following drift;
    ``memory = 0`` is the constant gain.
    """
    return rho * (1.0 + min(events, memory) / ANNEALING)


@njit(cache=True, error_model="numpy")
def averaging_weight(step):  # type: ignore[no-untyped-def]
    """Return ``(η + 1)/(t + η)``, ``η = 3``: the weight of iterate ``t = 1, 2, …`` in the average.

    Polynomial-decay averaging (Shamir and Zhang 2013) forgets the first iterates without having to
    know how many will follow.
    """
    return (ETA + 1.0) / (step + ETA)


def openings_at(growth: str, period: int, events: int) -> int:
    """Return how many times a block of features has been opened when the next event follows ``events``.

    ``1`` (fixed), ``⌊√(1 + n/period)⌋`` (sqrt) or ``⌊1 + n/period⌋`` (linear). ``F ∝ √n`` is the rate at
    which ridge regression on random features keeps the optimal learning rate (Rudi and Rosasco 2017); the
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
    periods = 1 + events // period
    return math.isqrt(periods) if growth == "sqrt" else periods


def events_before_opening(growth: str, period: int, opening: int) -> float:
    """Return how many events come before opening ``opening`` (1, 2, …); infinite if it never comes."""
    if opening == 1:
        return 0.0
    if growth == "fixed":
        return math.inf
    return float(period * ((opening**2 if growth == "sqrt" else opening) - 1))
