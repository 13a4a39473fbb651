"""Schedules: how the regulariser grows with the events seen, and how iterates are averaged."""

from __future__ import annotations

from numba import njit

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
